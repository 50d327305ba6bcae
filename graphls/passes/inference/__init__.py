"""Passes for inference graphs, and their pipeline: frozen states, folded weights, float16."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping

from graphls.ir.graph import Graph
from graphls.passes.inference.fold_weights import Weight, fold_weights
from graphls.passes.inference.narrow import narrowed
from graphls.passes.simplify.cse import Cse
from graphls.passes.simplify.recognise import Recognise
from graphls.passes.simplify.recurrent import Recurrent


def for_inference(
    graph: Graph, weights: Mapping[str, Weight], narrow: bool = False, steady: Container[Hashable] | None = None,
) -> tuple[Graph, dict[str, Weight]]:  # fmt: skip
    """The inference graph, with weights folded and compositions recognised, and its weights.

    `weights` gives the values of the states of `graph`. Nodes of weights alone, such as the factors of a
    batch normalisation, become weights; see `fold_weights` for `steady`. With `narrow`, the graph is computed in
    float16. Numbers change by rounding only.
    """
    # Activations come first, because a sum in them would otherwise be folded into the weights before them.
    folded, weights = fold_weights(Recognise(sums=False).run(Recurrent().run(graph)), weights, steady)
    known = Recognise().run(folded)
    if narrow:
        known, weights = narrowed(known, weights)
    return Cse().run(known), dict(weights)


def recognised(graph: Graph) -> Graph:
    """The graph with compositions recognised, and its states unchanged."""
    return Cse().run(Recognise().run(Recurrent().run(graph)))
