"""Random programs: some operations on some tensors, in branches and loops too, and gradients of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from graphls import GraphlsError, Parameter, Tensor, nn, ops
from graphls.frontend.tensors.pytree import leaves
from tests.fuzz import operations as tables

LARGEST, RANK = 400, 5
DTYPES = ("float32", "float32", "float32", "float32", "int32", "bool", "float16", "bfloat16", "float64", "int64")
PASSES = ("fold", "cse", "merge", "factor", "dce", "order")


@dataclass(frozen=True)
class Program:
    """What a seed stands for: a cell, arrays for its inputs, and the text of its passes or None for the usual ones."""

    seed: int
    cell: nn.Cell
    inputs: tuple[Tensor, ...]
    passes: str | None


def program(seed: int) -> Program:
    """The program of a seed; the same one each time."""
    rng = Random(seed)
    inputs = tuple(_input(rng) for _ in range(rng.randint(1, 4)))
    passes = None
    if rng.random() < 0.2:
        passes = ", ".join(["gradient", *rng.choices(PASSES, k=rng.randint(0, 7))])
    return Program(seed, RandomCell(rng.getrandbits(32), rng), inputs, passes)


def _input(rng: Random) -> Tensor:
    numbers = np.random.default_rng(rng.getrandbits(32))
    shape = tuple(rng.randint(1, 4) for _ in range(rng.choice((0, 1, 2, 2, 2, 3))))
    dtype = rng.choice(DTYPES)
    if dtype == "bool":
        return Tensor(numbers.random(shape) < 0.5)
    if "int" in dtype:
        return Tensor(numbers.integers(-3, 5, shape), dtype)
    return Tensor(numbers.standard_normal(shape) * rng.choice((0.5, 1.0, 3.0)), dtype)


class RandomCell(nn.Cell):
    """A cell whose construct is made up while it runs; made up in the same way each time that it does."""

    def __init__(self, seed: int, rng: Random) -> None:
        super().__init__()
        self.seed = seed
        self.steps = rng.randint(5, 40)
        self.kind = rng.choice(("values", "values", "gradients", "gradients", "gradients", "second"))
        self.ends_in_branches = rng.random() < 0.15
        shape = tuple(rng.randint(1, 3) for _ in range(rng.randint(0, 2)))
        self.state = Parameter(np.full(shape, 0.75, np.float32), "state") if rng.random() < 0.2 else None

    def construct(self, *inputs: Tensor) -> Any:
        rng = Random(self.seed)
        given = list(inputs) if self.state is None else [*inputs, self.state * 1]
        made = self.grown(rng, given)
        if self.state is not None:
            rng.choice((ops.assign, ops.assign_add))(self.state, made.fitting(self.state))
        if self.ends_in_branches and made.truth():
            made.grow(rng.randint(1, 4))
            return made.fitting(inputs[0])
        return made.fitting(inputs[0]) if self.ends_in_branches else made.results()

    def grown(self, rng: Random, given: list[Any]) -> Growing:
        """The values of the program, of which gradients are the first where it has some."""
        positions = tuple(i for i, x in enumerate(given) if x.dtype.is_float)
        if self.kind == "values" or not positions:
            return Growing(rng, given).grow(self.steps)
        seed, steps = rng.getrandbits(32), max(3, self.steps - 3)

        def loss(*values: Any) -> Any:
            return Growing(Random(seed), values).grow(steps).scalar()

        def slope(*values: Any) -> Any:
            gradients = leaves(ops.grad(loss, positions)(*values))
            return sum((ops.sum(ops.cast(g, "float32") ** 2) for g in gradients), start=0.0)

        value, gradients = ops.value_and_grad(slope if self.kind == "second" else loss, positions)(*given)
        made = Growing(rng, [*given, value, *leaves(gradients)]).grow(3)
        made.wanted = [value, *leaves(gradients)]
        return made


class Growing:
    """The values of a program so far, to which each step adds one."""

    def __init__(self, rng: Random, values: Iterable[Any], depth: int = 0) -> None:
        self.rng = rng
        self.values = list(values)
        self.wanted: list[Any] = []
        self.depth = depth

    def grow(self, steps: int) -> Growing:
        """Add the results of so many steps; what does not fit together adds nothing."""
        for _ in range(steps):
            seed = self.rng.getrandbits(32)
            try:
                result = self.step(Random(seed))
            except GraphlsError:
                continue
            if result is not None and isinstance(result, Tensor) and _is_small(result):
                self.values.append(result)
        return self

    def step(self, rng: Random) -> Any:
        """One operation, branch or loop."""
        if self.depth < 2 and rng.random() < 0.1:
            return rng.choice((self.branches, self.scan, self.while_loop, self.vmap, self.fori_loop))(rng)
        table, wants = rng.choices(_TABLES, _WEIGHTS)[0]
        operands = [self.pick(rng, want) for want in wants]
        if any(x is None for x in operands):
            return None
        try:
            result = table[rng.choice(list(table))](rng, *operands)
        except (IndexError, ValueError, ZeroDivisionError):
            if all(x.shape and min(x.shape) for x in operands):
                raise
            return None  # what has no axes, or no elements, has none to choose from
        if isinstance(result, Tensor) and result.dtype.is_float and rng.random() < 0.1:
            return ops.cast(result, rng.choice(("float16", "bfloat16", "float64", "float32")))
        return result

    def pick(self, rng: Random, kind: str) -> Any:
        """A value of a kind, of the newer ones more often, or None."""
        fitting = [x for x in self.values if (kind == "any" or _kind(x) == kind)]
        if not fitting:
            return None
        return fitting[-1 - min(int(rng.expovariate(0.35)), len(fitting) - 1)]

    def within(self, seed: int, values: Iterable[Any], steps: int) -> Growing:
        """What a branch or the body of a loop computes of these values and of what is around it."""
        return Growing(Random(seed), [*self.values, *values], self.depth + 1).grow(steps)

    def truth(self) -> Any:
        """A bool of one element."""
        x = self.pick(self.rng, "float")
        return ops.sum(x) > 0.1 if x is not None else ops.any(ops.cast(self.values[-1], "bool"))

    def fitting(self, like: Any) -> Any:
        """A value with the type of another one."""
        same = [x for x in self.values[-6:] if (x.dtype, x.shape) == (like.dtype, like.shape)]
        if same and self.rng.random() < 0.7:
            return same[-1] * 1 if like.dtype.kind != "bool" else same[-1]
        x = self.pick(self.rng, "float")
        x = ops.cast(self.values[-1], "float32") if x is None else x
        return ops.broadcast_to(ops.cast(ops.tanh(ops.sum(x)), like.dtype), like.shape)

    def branches(self, rng: Random) -> Any:
        like, seeds = self.pick(rng, "any"), (rng.getrandbits(32), rng.getrandbits(32))
        steps = rng.randint(0, 4)

        def branch(seed: int) -> Callable[[], Any]:
            return lambda: self.within(seed, [], steps).fitting(like)

        return ops.cond(self.truth(), *map(branch, seeds))

    def scan(self, rng: Random) -> Any:
        arrays = [x for x in self.values if x.shape and 1 <= x.shape[0] <= 5]
        if not arrays:
            return None
        init, seed, steps = self.pick(rng, "any"), rng.getrandbits(32), rng.randint(1, 5)

        def body(carry: Any, x: Any) -> Any:
            made = self.within(seed, [carry, x], steps)
            return made.fitting(carry), made.values[-1]

        return rng.choice(ops.scan(body, init, rng.choice(arrays), reverse=rng.random() < 0.3))

    def while_loop(self, rng: Random) -> Any:
        init, seed, steps = self.pick(rng, "any"), rng.getrandbits(32), rng.randint(1, 4)
        count = ops.cast(ops.clamp(ops.sum(ops.abs(init)), 0, 3), "int32") if _kind(init) == "int" else 2
        state = (Tensor(0, "int32"), init)
        return ops.while_loop(
            lambda state: state[0] < count,
            lambda state: (state[0] + 1, self.within(seed, [state[1]], steps).fitting(state[1])),
            state,
        )[1]

    def fori_loop(self, rng: Random) -> Any:
        init, seed, steps = self.pick(rng, "any"), rng.getrandbits(32), rng.randint(1, 4)
        return ops.fori_loop(0, rng.randint(1, 3), lambda i, x: self.within(seed, [x], steps).fitting(x), init)

    def vmap(self, rng: Random) -> Any:
        arrays = [x for x in self.values if x.shape and 1 <= x.shape[0] <= 5]
        if not arrays:
            return None
        seed, steps = rng.getrandbits(32), rng.randint(1, 4)
        return ops.vmap(lambda x: Growing(Random(seed), [x], self.depth + 1).grow(steps).values[-1])(rng.choice(arrays))

    def scalar(self) -> Any:
        """A float of one element, computed of the newest floats."""
        floats = [x for x in self.values if _kind(x) == "float"][-3:]
        return sum((ops.mean(ops.cast(x, "float32")) for x in floats), start=Tensor(0.0))

    def results(self) -> tuple[Any, ...]:
        """What the program returns: gradients, some values and the newest one."""
        chosen = self.rng.sample(self.values, min(len(self.values), self.rng.randint(0, 3)))
        return (*self.wanted, *chosen, self.values[-1])


def _kind(x: Any) -> str:
    return "float" if x.dtype.is_float else "bool" if x.dtype.kind == "bool" else "int"


def _is_small(x: Any) -> bool:
    return int(np.prod(x.shape)) <= LARGEST and len(x.shape) <= RANK


_CHOICES: tuple[tuple[Any, Sequence[str], int], ...] = (
    (tables.FLOATS, ("float",), 30),
    (tables.PAIRS, ("float", "float"), 22),
    (tables.ANYTHING, ("any",), 22),
    (tables.TWO_OF_ANYTHING, ("any", "any"), 6),
    (tables.INTEGERS, ("int",), 6),
    (tables.INTEGER_PAIRS, ("int", "int"), 4),
    (tables.TRUTHS, ("bool",), 4),
    (tables.TRUTH_PAIRS, ("bool", "bool"), 2),
    (tables.QUESTIONS, ("float",), 2),
    (tables.INDEXED, ("float", "int"), 5),
)
_TABLES = [(table, wants) for table, wants, _ in _CHOICES]
_WEIGHTS = [weight for *_, weight in _CHOICES]
