"""MindSpore 1's path to the operations on columns that it wrote in Python."""

from graphls.dataset.transforms.choices import Compose, RandomApply, RandomChoice, RandomOrder
from graphls.dataset.transforms.labels import OneHot as OneHotOp
from graphls.dataset.transforms.operation import PyTensorOperation

__all__ = ["Compose", "OneHotOp", "PyTensorOperation", "RandomApply", "RandomChoice", "RandomOrder"]
