"""Every primitive that the engine takes gives what NumPy gives, nan and infinities included."""

from __future__ import annotations

import numpy as np
import pytest

from graphls.inspect.testing.samples import assert_close, draw, in_dtype, single
from graphls.ir import interpret
from graphls.ir.graph import Graph
from graphls.ir.registry import lookup
from graphls.ir.types import float32
from graphls.passes.schedule.partition import Partition
from graphls.primitives.primitive import Sample
from graphls.runtime.onednn.elementwise.expressions import NAMES
from graphls.runtime.onednn.rules import RULES, takes
from graphls.runtime.plan import PlanSession

APART = {"cast", "constant", "scan"}
SPECIAL = (np.nan, np.inf, -np.inf, -0.0)


def graph_of(name: str, sample: Sample) -> Graph:
    return single(lookup(name), sample, in_dtype(sample, float32))


CASES = [
    pytest.param(name, sample, id=f"{name}-{number}")
    for name in sorted(RULES)
    if name not in APART
    for number, sample in enumerate(lookup(name).samples)
    if all(map(takes, graph_of(name, sample).nodes))
]


def results(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(r) for r in PlanSession(Partition("onednn").run(graph), {}).run(arrays)]


def test_every_rule_is_tried() -> None:
    assert {case.values[0] for case in CASES} == set(RULES) - APART


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_a_kernel_gives_what_numpy_gives(name: str, sample: Sample) -> None:
    graph = graph_of(name, sample)
    arrays = draw(sample, in_dtype(sample, float32))
    for result, expected in zip(results(graph, arrays), interpret(graph, arrays)[0], strict=True):
        assert result.shape == expected.shape
        assert_close(result, expected, float32)


@pytest.mark.parametrize(("name", "sample"), [case for case in CASES if case.values[0] in (*NAMES, "sum", "mean")])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_and_infinities_are_those_of_numpy(name: str, sample: Sample) -> None:
    graph = graph_of(name, sample)
    arrays = [np.array(a) for a in draw(sample, in_dtype(sample, float32))]
    for number, array in enumerate(arrays):
        flat = array.reshape(-1)
        places = np.random.default_rng(number).permutation(flat.size)[: len(SPECIAL)]
        flat[places] = SPECIAL[: len(places)]
    for result, expected in zip(results(graph, arrays), interpret(graph, arrays)[0], strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
