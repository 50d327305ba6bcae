"""Cells that apply one function of `graphls.ops`, as the records of these declare them (`graphls/ops/record.py`)."""

from __future__ import annotations

from graphls.base.errors import GraphAttributeError
from graphls.nn.function_cells import FunctionCell, function_cell
from graphls.ops.record import CELLS

__all__ = sorted(CELLS)


def __getattr__(name: str) -> type[FunctionCell]:
    """Create the class of a cell on first use, also of one declared later; raises GraphAttributeError for others."""
    if name not in CELLS:
        raise GraphAttributeError(f"No operation declares a cell {name!r}.")
    cell_class = function_cell(CELLS[name], __name__)
    globals()[name] = cell_class
    return cell_class
