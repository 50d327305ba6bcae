"""Older and private names of `mindspore.amp` and `mindspore.train.amp`."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.compat.operators.functional import mixed_precision_cast
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import DTypeLike, float16, float32
from graphls.nn.amp.precision import get_black_list, get_white_list
from graphls.nn.cell import Cell

__all__ = ["AMP_BLACK_LIST", "AMP_WHITE_LIST", "_OutputTo16", "_OutputTo32", "init_status"]

AMP_WHITE_LIST, AMP_BLACK_LIST = get_white_list(), get_black_list()


def init_status() -> Tensor:
    """The second argument of `all_finite` in MindSpore 2.0: float32 of shape (8,), which has no effect."""
    return Tensor(np.zeros(8, np.float32))


class _OutputTo16(Cell):
    """A cell whose result is cast to 16 bits."""

    def __init__(self, backbone: Cell, dtype: DTypeLike = float16) -> None:
        super().__init__(auto_prefix=False)
        self._backbone, self.dtype = backbone, dtype

    def construct(self, *args: object, **kwargs: object) -> Any:
        return ops.cast(self._backbone(*args, **kwargs), self.dtype)


class _OutputTo32(Cell):
    """A cell whose float results are cast to float32."""

    def __init__(self, backbone: Cell) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = backbone

    def construct(self, *args: object, **kwargs: object) -> Any:
        return mixed_precision_cast(float32, self._backbone(*args, **kwargs))
