"""Pictures and differences of graphs."""

from __future__ import annotations

from graphls.ir.graph import Difference, Graph

NOTEBOOK_BOXES = 60
"""The number of boxes in the picture of a graph in a notebook."""


def _picture(graph: Graph) -> str:
    """The graph as SVG, as notebooks show it."""
    from graphls.inspect.viz.svg import to_svg  # only here, so that a plain `import graphls` stays quick

    return to_svg(graph, NOTEBOOK_BOXES)


def _difference(before: Graph, after: Graph) -> Difference:
    """The difference of two graphs in structure."""
    from graphls.inspect.diff.diff import diff

    return diff(before, after)


def _text(difference: Difference) -> str:
    from graphls.inspect.diff.diff import difference_text

    return difference_text(difference)


def _card(difference: Difference) -> str:
    from graphls.inspect.viz.html import difference_card

    return difference_card(difference)


Graph.picture = _picture
Graph.difference, Difference.text, Difference.card = _difference, _text, _card
