"""Datasets: rows read from Python objects, through pipelines that make batches of them ahead of the training step."""

from enum import Enum

from graphls.dataset import config, text, transforms, vision
from graphls.dataset.batch import BatchInfo
from graphls.dataset.dataset import Dataset
from graphls.dataset.errors import DatasetError
from graphls.dataset.generator import GeneratorDataset
from graphls.dataset.iterators import DatasetIterator
from graphls.dataset.joins import ZipDataset
from graphls.dataset.mindrecord import MindDataset
from graphls.dataset.numpy_slices import NumpySlicesDataset, PaddedDataset
from graphls.dataset.readers import (
    Cifar10Dataset,
    Cifar100Dataset,
    FashionMnistDataset,
    ImageFolderDataset,
    MnistDataset,
    TFRecordDataset,
)
from graphls.dataset.readers_annotated import CelebADataset, CocoDataset, KITTIDataset, VOCDataset
from graphls.dataset.readers_lines import PennTreebankDataset, TextFileDataset
from graphls.dataset.samplers import (
    IterSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    SubsetSampler,
)
from graphls.dataset.samplers_classes import DistributedSampler, PKSampler, WeightedRandomSampler
from graphls.dataset.schema import Schema

__all__ = [
    "BatchInfo",
    "CelebADataset",
    "Cifar10Dataset",
    "Cifar100Dataset",
    "CocoDataset",
    "Dataset",
    "DatasetError",
    "DatasetIterator",
    "DistributedSampler",
    "FashionMnistDataset",
    "GeneratorDataset",
    "ImageFolderDataset",
    "IterSampler",
    "KITTIDataset",
    "MindDataset",
    "MnistDataset",
    "NumpySlicesDataset",
    "PKSampler",
    "PaddedDataset",
    "PennTreebankDataset",
    "RandomSampler",
    "Sampler",
    "Schema",
    "SequentialSampler",
    "Shuffle",
    "SubsetRandomSampler",
    "SubsetSampler",
    "TFRecordDataset",
    "TextFileDataset",
    "VOCDataset",
    "WeightedRandomSampler",
    "config",
    "text",
    "transforms",
    "vision",
    "zip",
]


class Shuffle(str, Enum):
    """What readers of several files shuffle: everything, the order of the files, or the rows too, in small ranges."""

    GLOBAL = "global"
    FILES = "files"
    INFILE = "infile"
    PARTIAL = "partial"
    ADAPTIVE = "adaptive"

    __str__ = str.__str__


def zip(datasets: tuple[Dataset, ...]) -> Dataset:
    """The columns of datasets side by side, as long as all have rows."""
    return ZipDataset(datasets)
