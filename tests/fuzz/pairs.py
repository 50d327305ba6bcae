"""Pairs and triples of operations on small tensors, of which one moves elements and others compute with each.

What optimizers get wrong is mostly where two operators meet: in few axes, in axes of size 1, and where somebody else
reads what they want to change. So every pair of operations stands for a number, and is run in several such ways; many
of them are one program, as to compile a model takes longer than to run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any

import numpy as np

from graphls import GraphlsError, Tensor, nn, ops
from graphls.frontend.tensors.pytree import leaves
from tests.fuzz.operations import ANYTHING, FLOATS, PAIRS, TWO_OF_ANYTHING, Operation, axis_of, reductions, some_axes
from tests.fuzz.programs import Program

SIZES = (1, 1, 2, 3)
LARGEST = 100
ATTEMPTS = 10
DTYPES = ("float32",) * 12 + ("bfloat16", "float16", "int32", "bool")


def _kept(name: str) -> Operation:
    """A reduction over some axes, which stay as axes of size 1."""
    return lambda rng, x: getattr(ops, name)(x, some_axes(rng, x), True)


def _split(rng: Random, x: Any) -> Any:
    return rng.choice(ops.split(x, rng.choice((1, 2)), axis_of(rng, x)))


def _gathered(rng: Random, x: Any) -> Any:
    axis = axis_of(rng, x)
    rows = [rng.randrange(x.shape[axis]) for _ in range(rng.randint(1, 3))]
    return ops.gather(x, Tensor(rows, "int32"), axis % len(x.shape))


def _in_another_shape(rng: Random, x: Any) -> Any:
    """The same elements, with axes of size 1 anywhere."""
    sizes = [n for n in x.shape if n != 1]
    if rng.random() < 0.5:
        rng.shuffle(sizes)
    for _ in range(rng.randint(0, 4 - min(4, len(sizes)))):
        sizes.insert(rng.randint(0, len(sizes)), 1)
    return ops.reshape(x, tuple(sizes))


def _of_size_one(rng: Random, x: Any) -> Any:
    return ops.squeeze(x, rng.choice([i for i, n in enumerate(x.shape) if n == 1]))


def _broadcast(rng: Random, x: Any) -> Any:
    return ops.broadcast_to(x, tuple(rng.choice((2, 3)) if n == 1 else n for n in x.shape))


def _padded(rng: Random, x: Any) -> Any:
    return ops.pad(x, tuple(rng.randint(0, 1) for _ in range(2 * rng.randint(1, len(x.shape)))))


def _joined(rng: Random, x: Any, y: Any) -> Any:
    return rng.choice((ops.concat, ops.stack))(rng.sample((x, y), 2), axis_of(rng, x))


MOVES: dict[str, Operation] = {
    **{name: ANYTHING[name] for name in (
        "transpose", "reshape", "slice", "element", "unbind", "chunk", "flip", "roll", "tile", "repeat", "stack",
        "expand_dims", "squeeze", "broadcast", "triu", "diagonal", "swapaxes",
    )},
    **reductions("sum mean prod amax amin logsumexp"),
    **{f"{name} kept": _kept(name) for name in ("sum", "mean", "amax", "amin")},
    "split": _split,
    "gather": _gathered,
    "in another shape": _in_another_shape,
    "of size one": _of_size_one,
    "broadcast_to": _broadcast,
    "pad": _padded,
    "cumsum": FLOATS["cumsum"],
    "softmax": FLOATS["softmax"],
}  # fmt: skip
"""What moves or joins the elements of a tensor."""

POINTWISE: dict[str, Operation] = {
    **{name: FLOATS[name] for name in (
        "abs", "neg", "sin", "tanh", "sigmoid", "relu", "elu", "gelu", "silu", "softplus", "hardswish", "leaky_relu",
        "square", "sign", "floor", "erf", "sqrt", "log", "reciprocal", "exp", "clamp",
    )},
    "cast": ANYTHING["float"],
    "times a number": lambda rng, x: x * rng.choice((0.5, -1.0, 1.0, 3.0)),
    "plus a number": lambda rng, x: x + rng.choice((0.5, -1.0, 0.0)),
    "not itself": lambda rng, x: ops.where(x > 0.3, x, ops.zeros_like(x)),
}  # fmt: skip
"""What computes with each element."""

WITH_ANOTHER: dict[str, Operation] = {
    **{name: PAIRS[name] for name in ("add", "sub", "mul", "maximum", "minimum", "div", "where", "pow", "compare")},
    "concat": _joined,
    "select": TWO_OF_ANYTHING["select"],
}
"""What takes another tensor as well, of the same shape."""

ALL = {**MOVES, **POINTWISE, **WITH_ANOTHER}
COUNT = len(ALL) ** 2
"""How many pairs there are; a seed beyond that is one of them in another way."""


class Pair(nn.Cell):
    """The operations of a seed on inputs of its own, which `inputs` are, made up when they are asked for first.

    Shapes to which the operations do not apply are followed by other ones.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed, self.attempt = seed, 0
        for self.attempt in range(ATTEMPTS):
            self.numbers, self.missed = np.random.default_rng(seed), 0
            self.inputs: list[Tensor] = []
            self.construct()
            if not self.missed:
                break

    def construct(self, *given: Tensor) -> tuple[Any, ...]:
        rng, left = Random(f"{self.seed} {self.attempt}"), iter(given)
        kinds = list(ALL)
        second, first = divmod(self.seed % COUNT, len(kinds))
        chain = [kinds[first], kinds[second], *rng.sample(kinds, rng.choice((0, 0, 1)))]
        x = self.fresh(tuple(rng.choices(SIZES, k=rng.randint(0, 4))), rng.choice(DTYPES), left)
        has_slope = rng.random() < 0.25 and x.dtype.is_float

        def loss(x: Any) -> Any:
            made = self.chained(rng, chain, x, left)
            return sum((ops.sum(ops.sin(ops.cast(y, "float32"))) for y in made), start=Tensor(0.0))

        return tuple(leaves(ops.grad(loss)(x))) if has_slope and given else self.chained(rng, chain, x, left)

    def chained(self, rng: Random, chain: Sequence[str], x: Any, left: Iterator[Tensor]) -> tuple[Any, ...]:
        """One operation after the other; sometimes others read what stands between."""
        results: list[Any] = []
        for kind in chain:
            try:
                y = self.applied(rng, kind, x, left)
            except (GraphlsError, IndexError, ValueError):
                self.missed += 1  # it has not the axes, or is of no such dtype
                continue
            if rng.random() < 0.4:
                results.append(self.read(rng, x, y))
            x = y if isinstance(y, Tensor) and 0 < int(np.prod(y.shape)) <= LARGEST else x
        return (*results, x * 1 if x.dtype.kind != "bool" else ops.logical_not(x))

    def applied(self, rng: Random, kind: str, x: Any, left: Iterator[Tensor]) -> Any:
        if kind not in WITH_ANOTHER:
            return ALL[kind](rng, x)
        other = self.fresh(x.shape, x.dtype.long_name, left)
        for name in rng.sample(list(MOVES), 6) if rng.random() < 0.6 else ():
            try:
                same = MOVES[name](rng, x if rng.random() < 0.5 else other)
            except (GraphlsError, IndexError, ValueError):
                continue
            if isinstance(same, Tensor) and (same.shape, same.dtype) == (x.shape, x.dtype):
                other = same
        return WITH_ANOTHER[kind](rng, x, other)

    def read(self, rng: Random, x: Any, y: Any) -> Any:
        """What a second reader of an operand gives, with the result where they fit."""
        seen = POINTWISE[rng.choice(("sin", "neg", "abs", "times a number"))](rng, ops.cast(x, "float32"))
        return seen + ops.cast(y, "float32") if x.shape == y.shape and rng.random() < 0.5 else seen

    def fresh(self, shape: tuple[int, ...], dtype: str, left: Iterator[Tensor]) -> Any:
        """The next input; when there are none yet, one that is made up."""
        found = next(left, None)
        if found is None:
            found = Tensor(_filled(self.numbers, shape, dtype))
            self.inputs.append(found)
        return found


def _filled(numbers: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    if dtype == "bool":
        return numbers.random(shape) < 0.5
    return Tensor(numbers.integers(-3, 5, shape) if dtype == "int32" else numbers.standard_normal(shape), dtype)


class Several(nn.Cell):
    """Cells beside each other, each on inputs of its own."""

    def __init__(self, cells: Iterable[Pair]) -> None:
        super().__init__()
        self.cells = nn.CellList(list(cells))

    def construct(self, *given: Tensor) -> Any:
        left = iter(given)
        return tuple(y for cell in self.cells for y in cell(*islice(left, len(cell.inputs))))


def program(seeds: Sequence[int]) -> Program:
    """The pairs of these seeds as one program."""
    cells = [Pair(seed) for seed in seeds]
    return Program(seeds[0], Several(cells), tuple(x for cell in cells for x in cell.inputs), None)
