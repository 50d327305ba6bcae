"""MindSpore 1's import path of the operations on columns that it wrote in Python."""

from graphls.dataset.transforms.operations import Compose, PyTensorOperation, RandomApply, RandomChoice, RandomOrder
from graphls.dataset.transforms.operations import OneHot as OneHotOp

__all__ = ["Compose", "OneHotOp", "PyTensorOperation", "RandomApply", "RandomChoice", "RandomOrder"]
