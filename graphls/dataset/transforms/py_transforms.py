"""MindSpore 1's path to the operations on columns that it wrote in Python."""

from graphls.dataset.transforms.columns import OneHot as OneHotOp
from graphls.dataset.transforms.operation import Compose, PyTensorOperation, RandomApply, RandomChoice, RandomOrder

__all__ = ["Compose", "OneHotOp", "PyTensorOperation", "RandomApply", "RandomChoice", "RandomOrder"]
