"""Mixed precision by lists of a user's own: which cells and operators compute in 16 bits, or which do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.trace.casting import Casting
from graphls.ir.registry import operations
from graphls.ir.types import DTypeLike, float16, float32
from graphls.nn.amp.lists import NORMALISATIONS, O1_CELLS
from graphls.nn.amp.precision import _half, _mark, level_of
from graphls.nn.cell import Cell
from graphls.ops.operations import OPERATORS
from graphls.ops.primitive import Primitive

PRIMITIVES: dict[str, tuple[str, ...]] = {
    "BatchMatMul": ("batch_matmul", "matmul"),
    "Conv2D": ("convolution", "convolution_input_gradient"),
    "Conv2DTranspose": ("convolution", "convolution_input_gradient"),
    "Conv3D": ("convolution", "convolution_input_gradient"),
    "MatMul": ("matmul", "batch_matmul"),
    "PReLU": ("prelu",),
    "ReLU": ("relu",),
    "Ger": ("ger",),
}
"""The primitives that an operator of a list stands for; another stands for the one of its own name in small letters."""


def get_white_list() -> list[Any]:
    """A copy of the list of what the level O1 computes in 16 bits: classes of cells and of operators."""
    return [*O1_CELLS, *(OPERATORS[name] for name in PRIMITIVES if name in OPERATORS)]


def get_black_list() -> list[Any]:
    """A copy of the list of what the level O2 computes in float32: classes of cells."""
    return [*NORMALISATIONS]


def custom_mixed_precision(
    network: Cell, *, white_list: Sequence[object] | None = None, black_list: Sequence[object] | None = None,
    dtype: DTypeLike = float16,
) -> Cell:  # fmt: skip
    """Let what a white list has compute in 16 bits, or all but what a black list has; the network is returned.

    The lists are of classes of cells and operators, a black list of cells only. Raises GraphTypeError for what is no
    cell and for lists of anything else, GraphValueError for both lists, for none, and for another dtype.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import amp, nn
        >>> net = nn.SequentialCell(nn.Dense(3, 4), nn.Dense(4, 2))
        >>> net = amp.custom_mixed_precision(net, white_list=[nn.Dense])
        >>> step = graphls.compile(net, np.ones((2, 3), np.float32))
        >>> sorted({str(node.outputs[0].type.dtype) for node in step.graph.nodes})
        ['Float16', 'Float32']
    """
    if not isinstance(network, Cell):
        raise GraphTypeError(f"custom_mixed_precision takes a Cell, not {network!r}.")
    if (white_list is None) == (black_list is None):
        text = "custom_mixed_precision takes a white_list or a black_list, and not both."
        raise GraphValueError(text)
    low = _half(dtype)
    cells, names = _parts("white_list" if black_list is None else "black_list", white_list or black_list or ())
    inside = [cell for _, cell in network.cells_and_names() if isinstance(cell, cells)]
    if black_list is not None:
        network.to_float(low)
        _mark(network, _output_type=float32)
    for cell in inside:
        cell.to_float(low if black_list is None else float32)
        _mark(cell, _output_type=float32 if black_list is None else low)
    if black_list is None:
        _mark(network, _casting=Casting(low, lowered=names, gives_back=True))
    _mark(network, _amp_level="custom" if level_of(network) == "O0" else level_of(network))
    return network


def _parts(which: str, classes: Sequence[Any]) -> tuple[tuple[type[Cell], ...], frozenset[str]]:
    """The classes of cells in a list, and the primitives of its operators."""
    cells, names = [], set[str]()
    known = {operation.name for operation in operations()}
    for kind in classes:
        if isinstance(kind, type) and issubclass(kind, Cell):
            cells.append(kind)
        elif isinstance(kind, type) and issubclass(kind, Primitive) and which == "white_list":
            names |= {*PRIMITIVES.get(kind.__name__, (kind.__name__.lower(),))} & known
        else:
            what = "cells and operators" if which == "white_list" else "cells"
            raise GraphTypeError(f"The {which} is of classes of {what}, not {kind!r}.")
    return tuple(cells), frozenset(names)
