"""Text form of constant arrays: short ones as numbers, long ones as base64."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.ir.types import Type, type_of

_READABLE = 16


def dump_array(array: np.ndarray[Any, Any]) -> str:
    """`array(f32[2], [1.0, 2.0])`, or the bytes in base64 where that would be long or inexact."""
    kind = type_of(array)
    array = array.astype(kind.dtype.numpy, copy=False)
    if array.size <= _READABLE:
        values = [_scalar_text(v) for v in array.reshape(-1).tolist()]
        text = f"array({kind}, [{', '.join(values)}])"
        restored = np.array([_scalar(v) for v in values], dtype=array.dtype)
        if restored.tobytes() == array.tobytes():
            return text
    data = base64.b64encode(array.tobytes()).decode()
    return f'array({kind}, "{data}")'


def _scalar_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _scalar(text: str) -> Any:
    return {"true": True, "false": False}.get(text) if text in ("true", "false") else _number(text)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def build_array(kind: Type, content: object) -> np.ndarray[Any, Any]:
    """The array of this type from a tuple of numbers or from base64 text.

    Raises GraphValueError where the content does not fill the type.
    """
    try:
        if isinstance(content, str):
            flat = np.frombuffer(base64.b64decode(content, validate=True), dtype=kind.dtype.numpy)
        else:
            flat = np.array(_numbers(content, kind), dtype=kind.dtype.numpy)
        array = flat.reshape(kind.shape).copy()
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise GraphValueError(f"The content of the array does not fill {kind}.") from None
    array.flags.writeable = False
    return array


_ELEMENTS: dict[str, tuple[type, ...]] = {
    "float": (int, float),
    "low": (int, float),
    "int": (int,),
    "uint": (int,),
    "bool": (bool,),
}


def _numbers(content: Any, kind: Type) -> tuple[Any, ...]:
    """The content where each element is of the kind of the dtype; raises TypeError elsewhere."""
    allowed = _ELEMENTS.get(kind.dtype.kind, ())
    if not isinstance(content, tuple) or not all(type(v) in allowed for v in content):
        raise TypeError(content)
    return content
