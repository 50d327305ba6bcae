"""Values of a model in a trace: tensors, of which some are known, arrays of dtypes that graphls has not, and lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DTYPES
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Symbol, Tensor

Array = np.ndarray[Any, Any]
Known: TypeAlias = "Tensor | Array"
_NAMES = frozenset(dtype.long_name for dtype in DTYPES)


@dataclass(frozen=True)
class Quantized:
    """What QuantizeLinear gives: integers, and the same numbers as floats, through which gradients flow."""

    integers: Tensor
    wide: Tensor


def plain(value: Any) -> Any:
    """A value as rules take it that know nothing of Quantized."""
    return value.integers if isinstance(value, Quantized) else value


def is_known(value: object) -> bool:
    """Whether a value holds numbers now, rather than when the graph runs."""
    return isinstance(value, np.ndarray) or (isinstance(value, Tensor) and not isinstance(value, (Symbol, Parameter)))


def value_of(array: Array) -> Any:
    """A known value: a Tensor, or the array itself where graphls has no such dtype."""
    array = np.asarray(array)
    return Tensor.from_numpy(array) if array.dtype.name in _NAMES else array


def array_of(value: object) -> Array:
    """The array of a known value; raises GraphValueError where it is known only when the graph runs."""
    if isinstance(value, np.ndarray):
        return value
    if is_known(value):
        return value.asnumpy()  # type: ignore[attr-defined, no-any-return]
    if not isinstance(value, Tensor):
        raise GraphTypeError(f"a tensor is needed here, not {type(value).__name__}")
    raise GraphValueError("it is known only when the graph runs, and shapes are static")


def integers(value: Any) -> tuple[int, ...]:
    """A known vector, or a number, as integers."""
    return tuple(int(n) for n in np.asarray(array_of(value)).reshape(-1))
