"""Rewrites in random programs and around the overflow window: values and proofs stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.ir import interpret, verify
from graphls.passes import as_pipeline, parse_pipeline, rewrite
from graphls.passes.windows import verify_windows
from tests.fuzz.programs import program
from tests.passes.test_rewriting import KEPT, SIGMOID, Net

SOUND = [
    *KEPT, rewrite("a * a", "square(a)", types={"a": "float"}, shared=True), rewrite("square(a)", "a * a"),
    rewrite("a * 1.0", "a", when=lambda a, match: match.nodes[0].output.type == a.type),
    rewrite("reshape(reshape(a, ...), shape=SHAPE)", "reshape(a, shape=SHAPE)", shared=True),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(0, 20, 5))
def test_random_programs_keep_their_values_with_rewrites_before_and_after_the_gradient(seed: int) -> None:
    made = program(seed)
    graph = graphls.trace_graph(made.cell, *made.inputs).graph
    inputs = [x.asnumpy() for x in made.inputs]
    states = {state.name: np.full(state.shape, 0.75, np.float32) for state in graph.states}
    base = as_pipeline("default").run(graph, keep=False).graph
    expected = interpret(base, inputs, states)
    for rule in SOUND:
        for passes, first in (([rule, "default"], graph), ([rule, "dce, order"], base)):
            if rule.replaced(first)[1]:
                after = verify(as_pipeline(passes).run(first, keep=False).graph)
                outputs, written = interpret(after, inputs, states)
                for new, old in zip([*outputs, *written.values()], [*expected[0], *expected[1].values()], strict=True):
                    np.testing.assert_allclose(*(np.asarray(x, np.float64) for x in (new, old)), rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("place", range(0, len(parse_pipeline("default").passes) + 1, 3))
def test_a_rewrite_at_any_place_keeps_the_overflow_window(place: int) -> None:
    net = Net().to_float(graphls.float16)
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    scaled = nn.TrainOneStepWithLossScaleCell(
        nn.WithLossCell(net, nn.MSELoss()), optimizer, nn.DynamicLossScaleUpdateCell(2**24, 2, 1)
    )
    graph = graphls.trace_graph(scaled, np.ones((3, 4), np.float32), np.ones((3, 1), np.float32)).graph
    default = parse_pipeline("default").passes
    for rule in (SIGMOID, *SOUND):
        after = as_pipeline([*default[:place], rule, *default[place:], "dce, order"]).run(graph, keep=False).graph
        assert len([node for node in verify_windows(verify(after)).nodes if node.primitive.is_check]) == 1
