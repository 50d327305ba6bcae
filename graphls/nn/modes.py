"""The mode of a network, training or evaluation, for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graphls.frontend.tensors.configuration import Configuration
from graphls.nn.cell import Cell


@contextmanager
def evaluating(net: object) -> Iterator[None]:
    """Every cell of a network in evaluation mode, and afterwards each as it was."""
    cells = [cell for _, cell in net.cells_and_names()] if isinstance(net, Cell) else []
    flags = [cell.training for cell in cells]
    _set_training(cells, [False] * len(cells))
    try:
        yield
    finally:
        _set_training(cells, flags)


def _set_training(cells: list[Cell], flags: list[bool]) -> None:
    for cell, flag in zip(cells, flags, strict=True):
        cell.__dict__["training"] = flag
    Configuration.note_change()
