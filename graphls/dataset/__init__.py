"""Datasets: rows from Python objects and files, through pipelines that batch them ahead of the training step."""

from typing import Any as _Any

from graphls.base.errors import GraphAttributeError as _GraphAttributeError
from graphls.base.refusals import refusal as _refusal
from graphls.dataset import config, text, transforms, vision
from graphls.dataset.columns import Schema
from graphls.dataset.mindrecord.reader import MindDataset
from graphls.dataset.pipeline.batch import BatchInfo
from graphls.dataset.pipeline.dataset import Dataset
from graphls.dataset.pipeline.iterators import DatasetIterator
from graphls.dataset.pipeline.selection import ZipDataset
from graphls.dataset.pipeline.workers import DatasetError
from graphls.dataset.readers.annotated import CelebADataset, KITTIDataset, VOCDataset
from graphls.dataset.readers.arrow import ArrowDataset
from graphls.dataset.readers.coco import CocoDataset
from graphls.dataset.readers.files import Shuffle
from graphls.dataset.readers.generator import GeneratorDataset, NumpySlicesDataset, PaddedDataset
from graphls.dataset.readers.labelled import (
    Cifar10Dataset,
    Cifar100Dataset,
    FashionMnistDataset,
    ImageFolderDataset,
    KMnistDataset,
    MnistDataset,
)  # fmt: skip
from graphls.dataset.readers.listed import FlickrDataset, Food101Dataset, ManifestDataset
from graphls.dataset.readers.records import PennTreebankDataset, TextFileDataset, TFRecordDataset
from graphls.dataset.readers.texts import (
    AGNewsDataset,
    AmazonReviewDataset,
    CLUEDataset,
    CSVDataset,
    DBpediaDataset,
    SST2Dataset,
    YahooAnswersDataset,
)  # fmt: skip
from graphls.dataset.samplers import (
    DistributedSampler,
    IterSampler,
    PKSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    SubsetSampler,
    WeightedRandomSampler,
)  # fmt: skip
from graphls.ir.registry import nearest as _nearest

__all__ = [
    "AGNewsDataset", "AmazonReviewDataset", "ArrowDataset", "BatchInfo", "CLUEDataset", "CSVDataset", "CelebADataset",
    "Cifar10Dataset", "Cifar100Dataset", "CocoDataset", "DBpediaDataset", "Dataset", "DatasetError", "DatasetIterator",
    "DistributedSampler", "FashionMnistDataset", "FlickrDataset", "Food101Dataset", "GeneratorDataset",
    "ImageFolderDataset", "IterSampler", "KITTIDataset", "KMnistDataset", "ManifestDataset", "MindDataset",
    "MnistDataset", "NumpySlicesDataset", "PKSampler", "PaddedDataset", "PennTreebankDataset", "RandomSampler",
    "SST2Dataset", "Sampler", "Schema", "SequentialSampler", "Shuffle", "SubsetRandomSampler", "SubsetSampler",
    "TFRecordDataset", "TextFileDataset", "VOCDataset", "WeightedRandomSampler", "YahooAnswersDataset", "config",
    "text", "transforms", "vision", "zip",
]  # fmt: skip


def zip(datasets: tuple[Dataset, ...]) -> Dataset:
    """The columns of datasets side by side, up to the length of the shortest.

    Examples:
        >>> from graphls import dataset as ds
        >>> first = ds.NumpySlicesDataset([1, 2], "x", shuffle=False)
        >>> second = ds.NumpySlicesDataset([3, 4, 5], "y", shuffle=False)
        >>> [(int(x), int(y)) for x, y in ds.zip((first, second))]
        [(1, 3), (2, 4)]
    """
    return ZipDataset(datasets)


def __getattr__(name: str) -> _Any:
    """Raise GraphAttributeError, with the closest name as a suggestion."""
    if name.startswith("_"):
        raise AttributeError(name)
    if name == "DatasetCache":
        raise _GraphAttributeError(_refusal("dataset caches", name))
    raise _GraphAttributeError(f"graphls.dataset has no {name!r}{_nearest(name, __all__)}.")
