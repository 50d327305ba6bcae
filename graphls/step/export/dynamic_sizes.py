"""Dynamic sizes: traces a network at prime sizes and derives one model for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import count, islice
from math import isqrt
from typing import TypeVar

from graphls.base.errors import GraphlsError
from graphls.base.sharing.locks import COMPILING
from graphls.passes.manager import DEFAULT_PASSES

Built = TypeVar("Built")
Derived = TypeVar("Derived")
Point = Mapping[str, int]
"""A value for each dynamic size."""

BATCH = "batch"
"""What the first axis of inputs is called where nobody says."""

ROWS, LENGTHS, LARGE, SMALL = 17, 37, 67, 5
"""Where the primes begin that stand for numbers of rows, for other sizes, and for all sizes of a foreign model.

Primes, because hardly any other size is one of them by chance. Small ones would not do: constants that are repeated a
few times only are computed before, and lowerings treat tiny tensors in another way. `SMALL` is for models that bound
their sizes, as by a table of positions.
"""

SAMPLES = 3
"""How many sizes tell a formula of one of them from a coincidence."""

STEPS = ((0, 1, 2, 4, 8), (1, 4, 2, 8, 0), (2, 0, 8, 1, 4))
"""How often a size is added to itself, for each symbol in another order, so that none follows from another."""

PASSES = DEFAULT_PASSES.replace("fold", "fold{limit=1}")
"""The passes where sizes vary: what grows with them is not computed, since small arrays only would be."""


def primes(least: int, excluded: Container[int] = ()) -> Iterator[int]:
    """The prime numbers from `least` on, but for the excluded ones."""
    return (n for n in count(least) if n not in excluded and all(n % d for d in range(2, isqrt(n) + 1)))


def points(names: Sequence[str], least: int, excluded: Container[int] = ()) -> list[Point]:
    """Values for dynamic sizes to trace with, each another prime; one point without values where there are none."""
    numbers = primes(least, excluded)
    return [{name: next(numbers) for name in names} for _ in range(SAMPLES if names else 1)]


def symbol_sizes(number: int, declared: int | None) -> tuple[int, ...]:
    """Sizes to trace with for the symbol of a number: primes, or multiples of the size that an axis is declared with.

    `declared` is None for numbers of rows, and 1 or less for a size that nothing is known of.
    """
    steps = STEPS[number]
    if declared is None:
        return tuple(islice(primes(ROWS), len(steps)))
    if declared <= 1:
        lengths = list(islice(primes(LENGTHS), len(steps)))
        return tuple(lengths[more % len(lengths)] for more in steps)
    least = declared * -(-ROWS // declared)  # multiples, for a network that divides it
    return tuple(least + declared * more for more in steps)


def derive(
    attempts: Sequence[Sequence[Point]],
    build: Callable[[Point], Built],
    combine: Callable[[Sequence[Built], Sequence[Point]], Derived],
    explain: Callable[[GraphlsError, Point], GraphlsError] = lambda error, point: error,
) -> Derived:
    """The result of `combine` on the results of `build`, at the points of the first attempt at which neither fails.

    Where all fail, raises what the last attempt did if that has no dynamic sizes, else what the first one did, as
    `explain` words it for the first point.
    """
    errors: list[GraphlsError] = []
    for sizes in attempts:
        try:
            with COMPILING.lock:
                built = [build(point) for point in sizes]
            return combine(built, sizes)
        except GraphlsError as error:
            errors.append(error)
    raise explain(errors[0], attempts[0][0]) if attempts[-1][0] else errors[-1]
