"""Types in patterns: a dtype, and sizes that are numbers or names, such as `f32[..., n]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.registry import nearest
from graphls.ir.types import DTYPES, DType, Type

_TEXT = re.compile(r"\s*(?P<dtype>[a-z]\w*)?\s*(?:\[(?P<sizes>[^\[\]]*)\])?\s*")
_DTYPES = {dtype.name: dtype for dtype in DTYPES} | {dtype.long_name: dtype for dtype in DTYPES}
_KINDS = ("float", "low", "int", "uint", "bool")


@dataclass(frozen=True)
class TypePattern:
    """The types that a pattern allows for a value: a dtype or kind of dtypes, and a shape; None allows all.

    A size is a number, a name, which is the same size wherever it stands, or `...` for any sizes.
    """

    text: str
    dtype: DType | str | None = None
    sizes: tuple[int | str, ...] | None = None

    @classmethod
    def of(cls, expected: object) -> TypePattern:
        """The pattern of a text, a DType or a Type; raises GraphlsError for anything else."""
        if isinstance(expected, TypePattern):
            return expected
        if isinstance(expected, DType):
            return cls(expected.name, expected)
        if isinstance(expected, Type):
            return cls(str(expected), expected.dtype, expected.shape)
        match = _TEXT.fullmatch(expected) if isinstance(expected, str) else None
        if match is None or not isinstance(expected, str):
            raise GraphTypeError(f"A type in a pattern is a text such as 'f32[..., n]', not {expected!r}.")
        return cls(expected.strip(), _dtype(match["dtype"]), _sizes(match["sizes"], expected))

    @property
    def names(self) -> list[str]:
        """The names of sizes."""
        return [size for size in self.sizes or () if isinstance(size, str) and size != "..."]

    def bind(self, kind: Type, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """The sizes that a type adds to known ones; None where the type does not fit."""
        is_kind = self.dtype is None or self.dtype in (kind.dtype, kind.dtype.kind)
        if not is_kind or kind.stacked:
            return None
        if self.sizes is None:
            return dict(sizes)
        pairs = _paired(self.sizes, kind.shape)
        bound = dict(sizes)
        for expected, size in pairs if pairs is not None else ():
            if (bound.setdefault(expected, size) if isinstance(expected, str) else expected) != size:
                return None
        return None if pairs is None else bound


def _paired(expected: tuple[int | str, ...], shape: tuple[int, ...]) -> list[tuple[int | str, int]] | None:
    if "..." not in expected:
        return list(zip(expected, shape, strict=True)) if len(expected) == len(shape) else None
    at = expected.index("...")
    behind = len(expected) - at - 1
    if len(shape) < at + behind:
        return None
    last = len(shape) - behind
    return [*zip(expected[:at], shape[:at], strict=True), *zip(expected[at + 1 :], shape[last:], strict=True)]


def _dtype(name: str | None) -> DType | str | None:
    if name is None or name in _KINDS:
        return name
    if name not in _DTYPES:
        raise GraphValueError(f"There is no dtype {name!r}{nearest(name, (*_DTYPES, *_KINDS))}.")
    return _DTYPES[name]


def _sizes(text: str | None, written: str) -> tuple[int | str, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    for part in parts:
        if not (part == "..." or part.isdigit() or part.isidentifier()):
            raise GraphValueError(f"The type {written!r} has the size {part!r}; a size is a number, a name or '...'.")
    if parts.count("...") > 1:
        raise GraphValueError(f"The type {written!r} has '...' twice; once is for all the sizes that are not written.")
    return tuple(int(part) if part.isdigit() else part for part in parts)


def is_type_text(text: str) -> bool:
    """Whether a text is written like a type of a pattern."""
    return _TEXT.fullmatch(text) is not None
