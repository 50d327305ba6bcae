"""Summaries of compiled steps, cell by cell: shapes, parameters, operations and memory."""

from graphls.inspect.summary.cells import page_of, summarise
from graphls.inspect.summary.summary import CellSummary, PhaseSummary, Summary

__all__ = ["CellSummary", "PhaseSummary", "Summary", "page_of", "summarise"]
