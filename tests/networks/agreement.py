"""Whether the model for CUDA gives the bits of the faithful model for CPUs, step by step, in every combination."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

import graphls
from graphls import nn
from graphls.ir.graph import Graph
from graphls.runtime.lowering.lowering import Lowered, lower
from graphls.runtime.lowering.types import exchanged
from tests.networks.evaluator import EvaluatedStep, Rounding, to_nearest
from tests.networks.steps import FORMS, NETWORKS, Arrays, build, draw

MODES = ("outputs", "window")
KERNELS = ("right", "wrong")
RUNTIMES = ("1.19.2", "1.31.1")
STEPS = 20

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Combination:
    """A network in a form, what raises its status, whether kernels are right, else composed of others, and the runtime.

    By the seed are drawn: the scale at the beginning, how it changes, the learning rate, and inputs that are too large.
    """

    name: str
    form: str
    mode: str = "outputs"
    kernels: str = "right"
    runtime: str = RUNTIMES[0]
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.name}-{self.form}-{self.mode}-{self.kernels}-{self.runtime}-{self.seed}"


@dataclass(frozen=True)
class Prepared:
    """A combination as a graph with the states it begins with and the inputs of every step."""

    combination: Combination
    graph: Graph
    states: dict[str, Array]
    inputs: tuple[Arrays, ...]

    def lowered(self, device: str, graph: Graph | None = None) -> Lowered:
        """The model for a device, of another graph where one is given."""
        runtime, is_right = self.combination.runtime, self.combination.kernels == "right"
        return lower(graph or self.graph, device=device, runtime=runtime, kernel_is_right=lambda *_: is_right)

    @cached_property
    def expected(self) -> list[dict[str, Array]]:
        """The outputs and states after each step of the faithful model for CPUs."""
        return list(self.run(self.lowered("cpu")))

    def run(self, lowered: Lowered, rounding: Rounding = to_nearest) -> Iterator[dict[str, Array]]:
        """The outputs and states after each step."""
        step = EvaluatedStep(self.graph, lowered, self.states, rounding)
        for inputs in self.inputs:
            with np.errstate(all="ignore"):
                outputs = step(*inputs)
            yield {f"output {i}": y for i, y in enumerate(outputs)} | step.states


def every_combination(seed: int = 0) -> list[Combination]:
    """All of them, those of a network beside each other."""
    return [Combination(*parts, seed) for parts in product(NETWORKS, FORMS, MODES, KERNELS, RUNTIMES)]


def sample(seed: int) -> list[Combination]:
    """One combination of each network, such that as many seeds as a network has combinations reach all of them."""
    found, count = every_combination(seed), len(FORMS) * len(MODES) * len(KERNELS) * len(RUNTIMES)
    # Steps that have no common factor with the count make neighbours differ in all parts.
    return [found[i * count + (7 * i + 3 * seed) % count] for i in range(len(NETWORKS))]


def prepare(combination: Combination, steps: int = STEPS) -> Prepared:
    """Trace and compile a combination; its inputs are drawn."""
    kind, form = NETWORKS[combination.name], combination.form
    rng = np.random.default_rng([combination.seed, *f"{combination.name} {form} {combination.mode}".encode()])
    rates = (kind.rate, 0.0, 30 * kind.rate, _falling(kind.rate), [kind.rate * rng.random() for _ in range(5)])
    cell, example = build(
        combination.name, form, rate=rates[rng.integers(len(rates))], scale=2.0 ** rng.choice(_scales(form)),
        factor=int(rng.choice([2, 4])), window=int(rng.integers(1, 5)),
    )  # fmt: skip
    step = graphls.compile(cell, *example, backend="numpy", overflow_mode=combination.mode)
    states = {v.name: _entering(step.parameters[v.name].asnumpy(), v) for v in step.graph.states}
    inputs = [draw(combination.name, rng) for _ in range(steps)]
    inputs[steps // 2] = tuple(_far(x) for x in inputs[steps // 2])
    return Prepared(combination, step.graph, states, tuple(inputs))


def _falling(rate: float) -> nn.LearningRateSchedule:
    return nn.CosineDecayLR(0.0, rate, 12)


def _scales(form: str) -> Sequence[int]:
    """Exponents of scales that overflow sometimes, always at first, or never."""
    return (0, 10, 14, 16, 18, 24) if form in ("float16", "O2", "O3") else (0, 16, 90, 110, 120)


def _entering(array: Array, value: Any) -> Array:
    return array.astype(exchanged(value.type).dtype.numpy)


def _far(array: Array) -> Array:
    """Numbers that are hundred times as large; others as they are."""
    return array * np.float32(100) if array.dtype.kind == "f" else array


def difference(prepared: Prepared, lowered: Lowered | None = None, rounding: Rounding = to_nearest) -> str:
    """Where the model for CUDA, or the one given, first differs from the one for CPUs; empty where it never does."""
    found = prepared.run(lowered or prepared.lowered("cuda"), rounding)
    for number, (wanted, given) in enumerate(zip(prepared.expected, found, strict=True)):
        names = [name for name in wanted if not same_bits(wanted[name], given[name]).all()]
        if names:
            return f"step {number}: {', '.join(names[:4])}, {len(names)} of {len(wanted)}"
    return ""


def same_bits(a: Array, b: Array) -> Array:
    """Where two arrays of one shape have the same bits; one nan is as good as another."""
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    if a.dtype.kind != "f":
        return np.asarray(a == b)
    return np.where(np.isnan(a) | np.isnan(b), np.isnan(a) & np.isnan(b), (a == b) & (np.signbit(a) == np.signbit(b)))
