"""Whole numbers as functions of the sizes that symbols stand for, found from their values at some sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

Sizes = Mapping[str, int]
"""The sizes that a model is made for, by symbol."""


@dataclass(frozen=True)
class Formula:
    """A sum of products of symbols, each with a whole factor; the empty product is the number that is added."""

    factors: Mapping[tuple[str, ...], int]

    def at(self, sizes: Sizes) -> int:
        """Its number at some sizes."""
        return sum(factor * prod(sizes[s] for s in symbols) for symbols, factor in self.factors.items())

    def __str__(self) -> str:
        terms = [(factor, "*".join(symbols)) for symbols, factor in self.factors.items()]
        return " + ".join(name if factor == 1 and name else f"{factor}*{name}".rstrip("*") for factor, name in terms)


def points(symbols: Mapping[str, tuple[int, int, int]]) -> list[dict[str, int]]:
    """The sizes that models are made for: all combinations of the first two of each symbol, and the third of all.

    They determine the factors of a Formula, and the last one tells whether there is one.
    """
    sets = [set(chosen) for count in range(len(symbols) + 1) for chosen in combinations(symbols, count)]
    found = [{name: sizes[name in chosen] for name, sizes in symbols.items()} for chosen in sets]
    return [*found, {name: sizes[2] for name, sizes in symbols.items()}]


def formula(values: Sequence[int], at: Sequence[Sizes]) -> Formula | None:
    """What gives these numbers at the sizes of `points`; None where nothing does."""
    symbols = tuple(at[0])
    products = [chosen for count in range(len(symbols) + 1) for chosen in combinations(symbols, count)]
    matrix = np.array([[prod(sizes[s] for s in chosen) for chosen in products] for sizes in at[:-1]], np.float64)
    factors = np.rint(np.linalg.solve(matrix, np.array(values[:-1], np.float64))).astype(int)
    found = Formula({p: int(factor) for p, factor in zip(products, factors, strict=True) if factor})
    return found if [found.at(sizes) for sizes in at] == list(values) else None
