"""Writes the table of docs/cuda.md, of where the ten networks run: `python -m tests.networks.placements`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import graphls
from graphls.base.text.plain import size
from graphls.ir.graph import Graph
from graphls.runtime.lowering import lower
from graphls.runtime.onnxruntime.placement import Placement, place
from tests.networks.steps import FORMS, NETWORKS, build

PAGE = Path(__file__).parents[2] / "docs" / "cuda.md"
PASSES = "gradient, overflow, fold, cse, merge, dce, order"
CASES: tuple[tuple[str, int | None], ...] = (("1.19.2", 21), ("1.19.2", None), ("1.31.1", None))
"""The versions of the runtime, and opsets that are not the ones chosen for them."""

HEADER = "| network | operators | 1.19.2, opset 21 | 1.19.2, opset 18 | 1.31.1, opset 21 |\n|---|--:|---|---|---|\n"
TABLE = re.compile(r"(?<=<!-- placements -->\n).*?(?=\n<!-- end -->)", re.DOTALL)


def graph_of(name: str, form: str) -> Graph:
    """The final graph of a network's step, as it is on CUDA."""
    cell, inputs = build(name, form)
    return graphls.compile(cell, *inputs, backend="numpy", passes=PASSES).graph


def row(name: str, forms: Iterable[str] = FORMS) -> str:
    """A network in all forms together, as a line of the table."""
    graphs = [graph_of(name, form) for form in forms]
    cells = [[_placed(graph, *case) for graph in graphs] for case in CASES]
    operators = sum(len(placement.nodes) for placement in cells[1])
    return f"| {name} | {operators:,} | {' | '.join(map(_told, cells))} |"


def _placed(graph: Graph, runtime: str, opset: int | None) -> Placement:
    lowered = lower(graph, device="cuda", runtime=runtime, opset=opset)
    return place(lowered.model, runtime, origins=lowered.origins)


def _told(placements: list[Placement]) -> str:
    elsewhere, refused = (sum(len(getattr(p, kind)) for p in placements) for kind in ("elsewhere", "refused"))
    if not elsewhere + refused:
        return "all on the card"
    copies, copied = sum(p.copies for p in placements), sum(p.copied for p in placements)
    lost = f"; {refused:,} refused" if refused else ""
    return f"{elsewhere:,} on the CPU, {copies:,} copies of {size(copied)}{lost}"


def filled(page: str) -> str:
    """The page with the table as it is now."""
    table = HEADER + "\n".join(map(row, NETWORKS))
    return TABLE.sub(lambda _: table, page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
