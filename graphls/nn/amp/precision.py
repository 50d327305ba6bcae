"""Networks in mixed precision: the levels O0, O1, O2, O3 and auto."""

from __future__ import annotations

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import warn
from graphls.frontend.tensors.configuration import Configuration
from graphls.frontend.trace.casting import Casting
from graphls.ir.types import DType, DTypeLike, as_dtype, bfloat16, float16, float32
from graphls.nn.amp.lists import AUTO_WIDE_CELLS, NORMALISATIONS, O1_CELLS, lowered, widened
from graphls.nn.cell import Cell

LEVELS = ("O0", "O1", "O2", "O3", "auto")


def auto_mixed_precision(network: Cell, amp_level: str = "O0", dtype: DTypeLike = float16) -> Cell:
    """Let a network compute partly in `dtype`, float16 or bfloat16; its parameters keep their dtype and names.

    - O0: nothing changes.
    - O1: convolutions, Dense, matrix products and ReLU compute in 16 bits and give float32.
    - O2: everything computes in 16 bits but batch and layer normalisation, which compute in float32 and give 16 bits.
    - O3: everything computes in 16 bits.
    - auto: convolutions and matrix products compute in 16 bits and give them; powers, exponentials, logarithms,
      softmax, normalisation and losses compute in float32; elsewhere the wider operand decides.

    Under O2 and O3 the network gives float32. The network itself is changed and returned; one that has a level already
    keeps it, with a warning. Raises GraphTypeError for what is no cell, GraphValueError for another dtype or level.

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
    """The level that a network has been given."""
    return str(network.__dict__.get("_amp_level", "O0"))


def _apply_o1(network: Cell, low: DType) -> None:
    for cell in _inside(network, O1_CELLS):
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
    for cell in _inside(network, AUTO_WIDE_CELLS):
        cell.to_float(float32)
    _mark(network, _casting=Casting(low, lowered=lowered("auto"), widened=widened("auto")))


def keep_normalisation(network: Cell, low: DType) -> None:
    """Let batch and layer normalisation inside a network compute in float32 and give 16 bits."""
    for cell in _inside(network, NORMALISATIONS):
        cell.to_float(float32)
        _mark(cell, _output_type=low)


def _inside(network: Cell, kinds: tuple[type[Cell], ...]) -> list[Cell]:
    return [cell for _, cell in network.cells_and_names() if isinstance(cell, kinds)]


def _mark(cell: Cell, **marks: object) -> None:
    cell.__dict__.update(marks)
    Configuration.note_change()


def _half(dtype: DTypeLike) -> DType:
    try:
        found: DType | None = as_dtype(dtype)
    except GraphTypeError:
        found = None
    if found is None or not found.is_half:
        raise GraphValueError(f"The dtype of mixed precision is {float16!r} or {bfloat16!r}, but got {dtype!r}.")
    return found


def _listed() -> str:
    return ", ".join(LEVELS)
