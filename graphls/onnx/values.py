"""Values of a model in a trace: tensors, of which some are known, arrays of dtypes that graphls has not, and lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
from onnx import TypeProto

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Symbol, Tensor
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.types import DTYPES, DType
from graphls.ops.operands import axis_of

Array = np.ndarray[Any, Any]
Known: TypeAlias = "Tensor | Array"
_NAMES = frozenset(dtype.long_name for dtype in DTYPES)


@dataclass(frozen=True)
class Quantized:
    """What QuantizeLinear gives: integers, and the same numbers as floats, through which gradients flow."""

    integers: Tensor
    wide: Tensor


class Open:
    """A tensor whose shape depends on data, so that no graph has it; using it raises GraphTypeError.

    `cause` says which operator it comes from, and why; `type` is what ONNX knows of it, where it does.
    """

    def __init__(self, cause: str, type: TypeProto | None = None) -> None:
        self.cause = cause
        self.type = type

    def __repr__(self) -> str:
        return f"<{self.cause}; {_ADVICE}>"

    def refuse(self, *ignored: object, **options: object) -> NoReturn:
        """Raises GraphTypeError, as every use does."""
        raise GraphTypeError(f"{self.cause}; {_ADVICE}.")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self.refuse()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = refuse
    __neg__ = __pow__ = __lt__ = __le__ = __gt__ = __ge__ = __getitem__ = __iter__ = __len__ = __bool__ = refuse
    __float__ = __int__ = __index__ = __array__ = refuse


_ADVICE = (
    "call the network by itself, which gives it, or take tensors before it with load(..., outputs=[...]): a graph has "
    "static shapes"
)


class DependsOnData(Exception):
    """A result of a node has a shape that depends on data; the text says why."""


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


def places_of(axes: Iterable[int], rank: int) -> list[int]:
    """Axes counted from the front; raises GraphValueError for one that is out of range, or there twice."""
    found = [axis_of(int(axis), rank) for axis in axes]
    if len(set(found)) < len(found):
        raise GraphValueError(f"its axes {tuple(axes)} name one twice.")
    return found


def float_type() -> DType | None:
    """The dtype of 16 bits that the running cell computes in, if it does (`to_float`)."""
    tracer = current_tracer()
    wanted = None if tracer is None else tracer.here.float_type
    return wanted if wanted is not None and wanted.is_half else None
