"""Networks in mixed precision, by the levels O0, O1, O2, O3 and auto, or by a user's lists.

The lists are MindSpore's of the levels O1, O2 and auto. Cells are those of `graphls.nn`. Primitives declare which
levels compute them in 16 bits or in float32 (`lowered_at` and `widened_at` of `Primitive`); this module lists
operations that consist of several primitives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls import nn
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import warn
from graphls.frontend.tensors.configuration import Configuration
from graphls.frontend.trace.casting import Casting
from graphls.ir.registry import operations
from graphls.ir.types import DType, DTypeLike, as_dtype, bfloat16, float16, float32
from graphls.nn.cell import Cell
from graphls.ops.operations import OPERATORS
from graphls.ops.primitive import Primitive
from graphls.passes.precision.recipes import Recipe


def _cells(*names: str) -> tuple[type[Cell], ...]:
    return tuple(getattr(nn, name) for name in names if hasattr(nn, name))


NORMALISATIONS = _cells("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm")
"""Cells that O2 computes in float32."""

O1_CELLS = _cells(
    "Conv1d", "Conv2d", "Conv3d", "Conv1dTranspose", "Conv2dTranspose", "Conv3dTranspose", "Dense",
    "LSTMCell", "RNNCell", "GRUCell",
)  # fmt: skip
"""Cells that O1 computes in 16 bits."""

LOWERED = {
    "O1": frozenset({"batch_matmul", "prelu", "ger"}),
    "auto": frozenset({"batch_matmul", "prelu", "einsum", "addmm", "addbmm", "addmv", "baddbmm"}),
}
"""Operations that a level computes in 16 bits, in any cell."""

AUTO_WIDE_CELLS = (*NORMALISATIONS, *_cells("GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "LossBase"))
"""Cells that auto computes in float32."""

WIDENED = {
    "auto": frozenset({
        "layer_norm", "batch_norm", "group_norm", "cumprod", "cdist", "pdist", "renorm",
        "l1_loss", "smooth_l1_loss", "mse_loss", "nll_loss", "kl_div", "binary_cross_entropy",
        "binary_cross_entropy_with_logits", "soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss",
        "triplet_margin_loss",
    }),
}  # fmt: skip
"""Operations that a level computes in float32; in others, as in sums and concatenations, the wider operand decides."""


def lowered(level: str) -> frozenset[str]:
    """All operations that a level computes in 16 bits."""
    return LOWERED.get(level, frozenset()).union(p.name for p in operations() if level in p.lowered_at)


def widened(level: str) -> frozenset[str]:
    """All operations that a level computes in float32."""
    return WIDENED.get(level, frozenset()).union(p.name for p in operations() if level in p.widened_at)


LEVELS = ("O0", "O1", "O2", "O3", "auto")


def auto_mixed_precision(
    network: Cell, amp_level: str | Recipe | None = "O0", dtype: DTypeLike = float16
) -> Cell:
    """Let a network compute partly in `dtype`, float16 or bfloat16; its parameters keep their dtype and names.

    - O0: nothing changes.
    - O1: convolutions, Dense, matrix products and ReLU compute in 16 bits and return float32.
    - O2: everything computes in 16 bits but batch and layer normalisation, which compute in float32 and return 16 bits.
    - O3: everything computes in 16 bits.
    - auto: convolutions and matrix products compute in 16 bits and return them; powers, exponentials, logarithms,
      softmax, normalisation and losses compute in float32; elsewhere the wider operand decides.

    With a recipe, such as `amp.DelayedScaling()`, products read operands of 8 bits or 4, and everything else stays in
    its dtype: that of a level which the network has already, or else its own. None ends the recipe of a network and
    leaves its level; a step that is compiled behind it goes on with the same weights. See docs/low_precision.md.

    Under O2 and O3 the network returns float32. The network itself is changed and returned; one that has a level
    already keeps it, with a warning. Raises GraphTypeError for anything but a cell, GraphValueError for another dtype
    or level.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import amp, nn
        >>> net = amp.auto_mixed_precision(nn.SequentialCell(nn.Dense(3, 4), nn.LayerNorm((4,))), "O2")
        >>> step = graphls.compile(net, np.ones((2, 3), np.float32))
        >>> sorted({str(node.outputs[0].type.dtype) for node in step.graph.nodes})
        ['Float16', 'Float32']
        >>> net[0].weight.dtype
        Float32
    """
    if not isinstance(network, Cell):
        raise GraphTypeError(f"For amp_level {amp_level!r}, the network type should be Cell.")
    if amp_level is None or isinstance(amp_level, Recipe):
        return network.to_float(amp_level)
    low = _half(dtype)
    if amp_level not in LEVELS:
        raise GraphValueError(f"The amp level {amp_level} is not supported; use one of {_listed()}.")
    if amp_level == "O0":
        return network
    if level_of(network) != "O0":
        warn(f"The network has the level {level_of(network)} of mixed precision and keeps it; it is not {amp_level}.")
        return network
    {"O1": _apply_o1, "O2": _apply_o2, "O3": _apply_o3, "auto": _apply_auto}[amp_level](network, low)
    _mark(network, _amp_level=amp_level)
    return network


def level_of(network: Cell) -> str:
    """The level of mixed precision of a network."""
    return str(network.__dict__.get("_amp_level", "O0"))


def _apply_o1(network: Cell, low: DType) -> None:
    for cell in _cells_of(network, O1_CELLS):
        cell.to_float(low)
        _mark(cell, _output_type=float32)
    _mark(network, _casting=Casting(low, lowered=lowered("O1"), gives_back=True))


def _apply_o2(network: Cell, low: DType) -> None:
    network.to_float(low)
    keep_normalisation(network, low)
    _mark(network, _output_type=float32)


def _apply_o3(network: Cell, low: DType) -> None:
    network.to_float(low)
    _mark(network, _output_type=float32)


def _apply_auto(network: Cell, low: DType) -> None:
    for cell in _cells_of(network, AUTO_WIDE_CELLS):
        cell.to_float(float32)
    _mark(network, _casting=Casting(low, lowered=lowered("auto"), widened=widened("auto")))


def keep_normalisation(network: Cell, low: DType) -> None:
    """Let batch and layer normalisation inside a network compute in float32 and return 16 bits."""
    for cell in _cells_of(network, NORMALISATIONS):
        cell.to_float(float32)
        _mark(cell, _output_type=low)


def _cells_of(network: Cell, kinds: tuple[type[Cell], ...]) -> list[Cell]:
    return [cell for _, cell in network.cells_and_names() if isinstance(cell, kinds)]


def _mark(cell: Cell, **marks: object) -> None:
    cell.__dict__.update(marks)
    Configuration.note_change()


def _half(dtype: DTypeLike) -> DType:
    try:
        low: DType | None = as_dtype(dtype)
    except GraphTypeError:
        low = None
    if low is None or not low.is_half:
        raise GraphValueError(f"The dtype of mixed precision is {float16!r} or {bfloat16!r}, but got {dtype!r}.")
    return low


def _listed() -> str:
    return ", ".join(LEVELS)


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
"""The primitives of an operator of a list; by default, the one of its own name in small letters."""


def get_white_list() -> list[Any]:
    """A copy of the list of classes of cells and operators that the level O1 computes in 16 bits."""
    return [*O1_CELLS, *(OPERATORS[name] for name in PRIMITIVES if name in OPERATORS)]


def get_black_list() -> list[Any]:
    """A copy of the list of classes of cells that the level O2 computes in float32."""
    return [*NORMALISATIONS]


def custom_mixed_precision(
    network: Cell, *, white_list: Sequence[object] | None = None, black_list: Sequence[object] | None = None,
    dtype: DTypeLike = float16,
) -> Cell:  # fmt: skip
    """Compute a white list in 16 bits, or everything but a black list; returns the network.

    The lists are of classes of cells and operators, a black list of cells only. Raises GraphTypeError for anything but
    a cell and for lists of anything else, GraphValueError for both lists, for none, and for another dtype.

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
