"""Hashable keys of plain constants that distinguish classes, values and the signs of zeros."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from graphls.ir.types import DType

_KINDS = frozenset((bool, int, str, type(None), DType))


def key_of_constant(constant: object) -> Hashable:
    """A key that is equal for constants that compile to the same graph; raises TypeError for other objects."""
    kind = type(constant)
    if kind in _KINDS:
        return kind, constant
    if isinstance(constant, float):
        return kind, constant.hex()
    if isinstance(constant, (tuple, list)):
        return kind, *map(key_of_constant, constant)
    raise TypeError(f"{constant!r} is no plain constant.")


def constant_key(constant: object) -> Any:
    """A key that is equal for interchangeable constants: of one class and value, zeros of one sign, all nans alike."""
    if isinstance(constant, float):
        return type(constant), constant.hex()
    if isinstance(constant, complex):
        return type(constant), constant.real.hex(), constant.imag.hex()
    return type(constant), constant
