"""Infers formulas in the dynamic sizes of a model from samples at several sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import prod

CLOSE, DENOMINATOR = 2e-6, 4096
"""The relative tolerance of a formula for float32 numbers, and the largest denominator of its factors."""

SHIFTS = (1, -1, 2, -2)
"""Numbers that are added to a size inside of a product, as for a class token."""

Sizes = Sequence[Mapping[str, int]]
"""The dynamic sizes by name, one mapping for each model."""


@dataclass(frozen=True)
class Sum:
    """A sum of dynamic sizes and a number."""

    names: tuple[str, ...]
    more: int = 0

    def at(self, sizes: Mapping[str, int]) -> int:
        """Its value."""
        return sum(sizes[name] for name in self.names) + self.more


@dataclass(frozen=True)
class Term:
    """A product of sums: `(Sum((batch,)), Sum((length,), 1))` is batch * (length + 1)."""

    factors: tuple[Sum, ...]

    def at(self, sizes: Mapping[str, int]) -> int:
        """Its value."""
        return prod(factor.at(sizes) for factor in self.factors)


@dataclass(frozen=True)
class Formula:
    """(scale * term + shift) ** power; only with the power 1 it may be an integer."""

    term: Term
    scale: Fraction
    shift: Fraction
    power: Fraction = Fraction(1)

    @property
    def size(self) -> str | None:
        """The dynamic size that it equals, if it is just one."""
        is_plain = self.scale == self.power == 1 and self.shift == 0 and len(self.term.factors) == 1
        only = self.term.factors[0]
        return only.names[0] if is_plain and len(only.names) == 1 and not only.more else None

    def at(self, sizes: Mapping[str, int]) -> float:
        """Its value."""
        value: float = float(self.scale * self.term.at(sizes) + self.shift) ** float(self.power)
        return value


def terms(names: Sequence[str]) -> Iterator[Term]:
    """The candidate terms, simple ones first."""
    plain = [Sum((name,)) for name in names]
    sums = plain + [Sum(pair) for pair in combinations(names, 2)]
    for count in (1, 2, 3):
        yield from map(Term, combinations_with_replacement(sums, count))
    shifted = [Sum((name,), more) for name in names for more in SHIFTS]
    yield from (Term((factor, other)) for factor in plain for other in shifted)
    yield from map(Term, combinations(shifted, 2))


def integer_formula(values: Sequence[int], sizes: Sizes) -> Formula | None:
    """The formula that gives an integer at each of the sizes; None if there is none."""
    candidates = (_line(term, values, sizes) for term in terms(list(sizes[0])))
    lines = [line for line in candidates if line is not None and line.scale.denominator == line.shift.denominator == 1]
    exact = [line for line in lines if all(line.at(of) == value for value, of in zip(values, sizes, strict=True))]
    return min(exact, key=_complexity, default=None)


def float_formula(values: Sequence[float], sizes: Sizes) -> Formula | None:
    """The formula that approximates a float at each of the sizes; None if there is none."""
    if not all(0 < abs(value) < float("inf") for value in values):
        return None
    for power in (Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-1, 2)):
        if power.denominator == 2 and min(values) < 0:
            continue
        bases = [value ** float(1 / power) for value in values]
        for term in terms(list(sizes[0])):
            line = _line(term, bases, sizes)
            if line is not None:
                return Formula(term, line.scale, line.shift, power)
    return None


def _complexity(formula: Formula) -> tuple[bool, int, Fraction, Fraction]:
    """The rank of a formula: products without a shift come first, as shapes consist of them."""
    width = sum(len(factor.names) + (factor.more != 0) for factor in formula.term.factors)
    return formula.shift != 0, width, abs(formula.shift), abs(formula.scale)


def _line(term: Term, values: Sequence[float], sizes: Sizes) -> Formula | None:
    """The linear function of a term, without a shift if possible, that fits all values."""
    at = [term.at(of) for of in sizes]
    if len(set(at)) < len(at):
        return None
    steep = (values[1] - values[0]) / (at[1] - at[0])
    for scale, shift in ((values[0] / at[0], 0.0), (steep, values[0] - steep * at[0])):
        exact = Formula(term, _rational(scale), _rational(shift))
        pairs = zip(values, sizes, strict=True)
        if exact.scale and all(abs(exact.at(of) - value) <= CLOSE * abs(value) for value, of in pairs):
            return exact
    return None


def _rational(value: float) -> Fraction:
    return Fraction(value).limit_denominator(DENOMINATOR)
