"""Random programs of loops and branches in each other, which run in a graph or, with the same decisions, unrolled."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphls import ops

State = tuple[Any, Any]
Step = Callable[["Runner", State, Any], State]


@dataclass
class Runner:
    """How loops and branches run: as those of a graph, in Python while noting each decision, or as they were noted."""

    mode: str
    decisions: list[bool] = field(default_factory=list)

    def decide(self, test: Callable[..., Any], *carry: Any) -> bool:
        if self.mode == "unrolled":
            return self.decisions.pop(0)
        self.decisions.append(bool(test(*carry)))
        return self.decisions[-1]

    def loop(self, test: Callable[[Any], Any], body: Callable[[Any], Any], carry: Any) -> Any:
        if self.mode == "graph":
            return ops.while_loop(test, body, carry)
        while self.decide(test, carry):
            carry = body(carry)
        return carry

    def branch(self, predicate: Any, then: Callable[..., Any], other: Callable[..., Any], carry: Any) -> Any:
        if self.mode == "graph":
            return ops.cond(predicate, then, other, carry)
        return (then if self.decide(lambda: predicate) else other)(carry)

    def scan(self, body: Callable[[Any, Any], Any], carry: Any, rows: Any) -> Any:
        if self.mode == "graph":
            carry, sums = ops.scan(lambda c, row: (c := body(c, row), c[0]), carry, rows)
            return carry[0] + ops.sum(sums, 0) * 0.1, carry[1]
        first = 0.0
        for row in rows:
            carry = body(carry, row)
            first = first + carry[0]
        return carry[0] + first * 0.1, carry[1]


FORMULAS: list[Callable[[Any, Any, Any], Any]] = [
    lambda a, b, w: ops.tanh(a * w[0]) + b * 0.5,
    lambda a, b, w: ops.sin(a) * b + w[1],
    lambda a, b, w: ops.matmul(a.reshape(1, 3), w).reshape(3) * 0.6 - b * 0.3,
    lambda a, b, w: ops.where(a > b * w[2], a * 0.9, ops.exp(-b * b)),
    lambda a, b, w: ops.concat([a[1:] * 0.8, b[:1] + a[:1] * 0.3]),
    lambda a, b, w: ops.cumsum(a, 0) * 0.5 - w[0] * b,
]


def program(seed: int) -> Callable[[Runner, Any, Any], Any]:
    """A function of a vector and a matrix, made of two to four statements that nest up to three deep."""
    chosen = random.Random(seed)
    steps = [_step(chosen, 0) for _ in range(chosen.randint(2, 4))]

    def run(runner: Runner, x: Any, w: Any) -> Any:
        state = x, ops.sin(x)
        for step in steps:
            state = step(runner, state, w)
        return ops.sum(state[0] * state[0]) + ops.sum(ops.tanh(state[1]))

    return run


def _block(chosen: random.Random, depth: int) -> Step:
    steps = [_step(chosen, depth) for _ in range(chosen.randint(1, 2))]

    def run(runner: Runner, state: State, w: Any) -> State:
        for step in steps:
            state = step(runner, state, w)
        return state

    return run


def _step(chosen: random.Random, depth: int) -> Step:
    kinds = [_formula] if depth > 2 else [_formula, _counted, _until, _branch, _scan]
    return chosen.choice(kinds)(chosen, depth + 1)


def _formula(chosen: random.Random, depth: int) -> Step:
    formula, to_first = chosen.choice(FORMULAS), chosen.random() < 0.5

    def run(runner: Runner, state: State, w: Any) -> State:
        a, b = state
        return (formula(a, b, w), b) if to_first else (a, formula(b, a, w))

    return run


def _counted(chosen: random.Random, depth: int) -> Step:
    """A loop of a number of rounds that the numbers decide: none to three."""
    body, most = _block(chosen, depth), chosen.randint(0, 3)

    def run(runner: Runner, state: State, w: Any) -> State:
        bound = ops.cast(ops.sum(state[0]) > 0, np.int64) + most - 1
        carry = runner.loop(lambda s: s[1] < bound, lambda s: (body(runner, s[0], w), s[1] + 1), (state, 0))
        return carry[0]

    return run


def _until(chosen: random.Random, depth: int) -> Step:
    """A loop that ends when a vector is large, or after four rounds."""
    body, size = _block(chosen, depth), chosen.uniform(0.5, 6.0)

    def run(runner: Runner, state: State, w: Any) -> State:
        def test(s: Any) -> Any:
            return ops.logical_and(ops.sum(s[0][0] * s[0][0]) < size, s[1] < 4)

        def grown(s: Any) -> Any:
            (a, b), n = s
            return body(runner, (a * 1.4 + w[1] * 0.1, b), w), n + 1

        return runner.loop(test, grown, (state, 0))[0]

    return run


def _branch(chosen: random.Random, depth: int) -> Step:
    then, other = _block(chosen, depth), _block(chosen, depth)

    def run(runner: Runner, state: State, w: Any) -> State:
        predicate = ops.sum(state[0] * w[0]) > ops.sum(state[1])
        return runner.branch(predicate, lambda s: then(runner, s, w), lambda s: other(runner, s, w), state)

    return run


def _scan(chosen: random.Random, depth: int) -> Step:
    body = _block(chosen, depth)

    def run(runner: Runner, state: State, w: Any) -> State:
        return runner.scan(lambda s, row: body(runner, (s[0] + row * 0.1, s[1]), w), state, w[:2])

    return run
