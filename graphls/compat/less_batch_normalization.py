"""`mindspore.boost.less_batch_normalization`: a last layer that normalizes its inputs and its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.initializer import Initial, initializer
from graphls.nn.cell import Cell
from graphls.nn.dense import Dense
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import TensorLike

__all__ = ["CommonHeadLastFN", "LessBN"]


class CommonHeadLastFN(Cell):
    """`multiplier * (norm(x) @ norm(weight).T + bias)`, for x (N, in_channels): (N, out_channels).

    Rows of x and of the weight are divided by their norm; the multiplier is a parameter that begins with 1.
    """

    def __init__(
        self, in_channels: int, out_channels: int, weight_init: Initial = "normal", bias_init: Initial = "zeros",
        has_bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.weight = Parameter(initializer(weight_init, [out_channels, in_channels]), name="weight")
        self.multiplier = Parameter(np.ones([1], np.float32), name="multiplier")
        self.has_bias = has_bias
        if has_bias:
            self.bias = Parameter(initializer(bias_init, [out_channels]), name="bias")
        self.normalize = ops.L2Normalize(axis=1)

    def construct(self, x: TensorLike) -> Any:
        found = ops.matmul(self.normalize(x), ops.transpose(self.normalize(self.weight), (1, 0)))
        return self.multiplier * (found + self.bias if self.has_bias else found)


class LessBN(Cell):
    """A network, whose last Dense layer becomes a CommonHeadLastFN without bias where `fn_flag` says so."""

    def __init__(self, network: Cell, fn_flag: bool = False) -> None:
        super().__init__()
        self.network = network
        if fn_flag:
            _replace_last_dense(network)

    def construct(self, *inputs: TensorLike) -> Any:
        return self.network(*inputs)


def _replace_last_dense(cell: Cell) -> None:
    """Replace the last Dense of a cell, and of each cell in it that is none."""
    dense = None
    for name, inner in cell.name_cells().items():
        if isinstance(inner, Dense):
            dense = name, inner
        else:
            _replace_last_dense(inner)
    if dense is not None:
        name, layer = dense
        rows, columns = layer.weight.shape
        made = CommonHeadLastFN(columns, rows, layer.weight, has_bias=False)
        made.update_parameters_name(f"{layer.weight.name.rpartition('.')[0]}.".lstrip("."))
        setattr(cell, name, made)
