"""Keys by which plain constants are told apart: by class and value, zeros by their signs."""

from __future__ import annotations

from collections.abc import Hashable

from graphls.ir.types import DType

_KINDS = frozenset((bool, int, str, type(None), DType))


def key_of_constant(constant: object) -> Hashable:
    """Equal for constants that make no difference; raises TypeError for what is no number, text, dtype or list."""
    kind = type(constant)
    if kind in _KINDS:
        return kind, constant
    if isinstance(constant, float):
        return kind, constant.hex()
    if isinstance(constant, (tuple, list)):
        return kind, *map(key_of_constant, constant)
    raise TypeError(f"{constant!r} is no plain constant.")
