"""The model for CUDA, where every operator rounds, gives the bits of the faithful model for CPUs.

`python -m tests.networks` tries all combinations.
"""

from __future__ import annotations

import numpy as np
import pytest

import graphls
from graphls.passes.simplify.select import Select
from tests.networks.agreement import STEPS, Combination, Prepared, difference, every_combination, prepare, sample
from tests.networks.steps import NETWORKS, build, draw

LARGE = ("resnet18", "unet", "lstm")
FIRST = [pytest.param(c, marks=pytest.mark.slow if c.name in LARGE else (), id=str(c)) for c in sample(0)]
SEEDS = len(every_combination()) // len(NETWORKS)


@pytest.mark.parametrize("combination", FIRST)
def test_steps_have_the_same_bits(combination: Combination) -> None:
    """Twenty, of large networks twelve, after which no rate changes; `python -m tests.networks` takes twenty."""
    assert not difference(prepare(combination, 12 if combination.name in LARGE else STEPS))


RECORDED = [
    Combination("mlp", "float16", "window", seed=1),
    Combination("lenet", "O2", "outputs", seed=1),
    Combination("mixture", "float16", "window", seed=1),
]


@pytest.mark.parametrize("combination", RECORDED, ids=str)
def test_a_step_without_conditions_has_the_same_bits(combination: Combination) -> None:
    """That is how a CUDA graph is recorded: both branches run, and the flag selects."""
    prepared = prepare(combination)
    lowered = prepared.lowered("cuda", Select().run(prepared.graph))
    assert not any(node.op_type == "If" for node in lowered.model.graph.node)
    assert any(after["output 1"] for after in prepared.expected)
    assert not difference(prepared, lowered)


def test_samples_reach_every_combination() -> None:
    reached = {(c.name, c.form, c.mode, c.kernels, c.runtime) for seed in range(SEEDS) for c in sample(seed)}
    assert len(reached) == len(every_combination())


def overflows(prepared: Prepared) -> list[bool]:
    """The flags of every step."""
    return [bool(after["output 1"]) for after in prepared.run(prepared.lowered("cuda"))]


def test_the_steps_that_are_compared_overflow_and_go_on() -> None:
    found = [overflows(prepare(Combination(name, "O2", "outputs", seed=1))) for name in ("mlp", "lenet")]
    assert all(any(flags) and not all(flags) for flags in found)


@pytest.mark.parametrize(("name", "form"), [("mlp", "float16"), ("lenet", "O2"), ("lstm", "O3"), ("gpt", "bfloat16")])
def test_the_evaluator_computes_what_the_runtime_does_on_a_cpu(name: str, form: str) -> None:
    """Sums are added in another order, so that losses differ in their last digits."""
    cell, example = build(name, form, scale=2.0**17)
    step = graphls.compile(cell, *example)
    states = {v.name: step.parameters[v.name].asnumpy() for v in step.graph.states}
    rng = np.random.default_rng(2)
    inputs = tuple(draw(name, rng) for _ in range(8))
    prepared = Prepared(Combination(name, form), step.graph, states, inputs)
    for given, after in zip(inputs, prepared.run(prepared.lowered("cpu")), strict=True):
        loss, overflow, scale = step(*given)
        assert (bool(overflow), float(scale)) == (bool(after["output 1"]), float(after["output 2"]))
        np.testing.assert_allclose(float(loss), float(after["output 0"]), rtol=2e-2 if form == "bfloat16" else 2e-3)
