"""What a compiled step does, cell by cell: shapes, parameters, operations and memory."""

from graphls.summary.cells import page_of, summarise
from graphls.summary.summary import CellSummary, PhaseSummary, Summary

__all__ = ["CellSummary", "PhaseSummary", "Summary", "page_of", "summarise"]
