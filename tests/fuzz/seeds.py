"""The kinds of programs that seeds stand for."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz import pairs, programs
from tests.fuzz.programs import Program

KINDS = {"programs": 1, "pairs": 100}
"""How many seeds are one program, by the kind of programs."""


def program_of(kind: str, seeds: Sequence[int]) -> Program:
    """The program of these seeds."""
    return pairs.program(seeds) if kind == "pairs" else programs.program(*seeds)
