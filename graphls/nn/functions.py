"""Cells that apply one function of `graphls.ops`, as the records of these declare them (`graphls/ops/record.py`)."""

from __future__ import annotations

from graphls.base.errors import GraphAttributeError
from graphls.nn.function_cells import FunctionCell, function_cell
from graphls.ops.record import CELLS

__all__ = sorted(CELLS)


def __getattr__(name: str) -> type[FunctionCell]:
    """Make the class of a cell, once, also of one that is declared later; raises GraphAttributeError for others."""
    if name not in CELLS:
        raise GraphAttributeError(f"No operation declares a cell {name!r}.")
    made = function_cell(CELLS[name], __name__)
    globals()[name] = made
    return made
