"""Values of a model in a trace: tensors, arrays of dtypes that graphls does not have, quantized tensors, sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias, TypeVar

import numpy as np
from onnx import TypeProto

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Array, Symbol, Tensor
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.types import DTYPES, DType
from graphls.ops.operands import axis_of

Input: TypeAlias = "Tensor | Array"
"""An input of an operator: an array only where graphls has no such dtype."""
OptionalInput: TypeAlias = "Input | None"
PlainValue: TypeAlias = "Tensor | Array | Dynamic | Sequence[ModelValue] | None"
"""A tensor of a model, a sequence of them, or None for an optional input that is left out."""
ModelValue: TypeAlias = "PlainValue | Quantized"
Ints: TypeAlias = Sequence[int]
Floats: TypeAlias = Sequence[float]
Strings: TypeAlias = Sequence[str]
"""Attributes that are lists, under the names that ONNX gives their types."""
_Plain = TypeVar("_Plain")
_NAMES = frozenset(dtype.long_name for dtype in DTYPES)


@dataclass(frozen=True)
class Quantized:
    """Integers that were rounded in the graph, and the same numbers as floats, through which gradients flow."""

    integers: Tensor
    wide: Tensor


Operand: TypeAlias = "Input | Quantized"
OptionalOperand: TypeAlias = "Operand | None"
"""An input of an operator of integers, whose gradient passes through a Quantized."""


class Dynamic:
    """A tensor of a data-dependent shape, which is not a value of a graph; using it raises GraphTypeError.

    `cause` names the operator that it comes from and the reason; `type` is the type that ONNX infers for it, if any.
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


class Span(Dynamic):
    """The elements of a tensor between computed bounds along an axis; reductions of this axis compute with a mask."""

    def __init__(self, cause: str, x: Tensor, axis: int, is_inside: Tensor) -> None:
        super().__init__(cause)
        self.x = x
        self.axis = axis
        self.is_inside = is_inside


_ADVICE = (
    "call the network by itself, which gives it, or take tensors before it with load(..., outputs=[...]): a graph has "
    "static shapes"
)


class DependsOnData(Exception):
    """A result of a node has a data-dependent shape; the text gives the reason."""


def plain(value: _Plain | Quantized) -> _Plain | Tensor:
    """The integers of a quantized value; any other value as it is."""
    return value.integers if isinstance(value, Quantized) else value


def is_known(value: object) -> bool:
    """True for a value whose elements are known while the graph is traced."""
    return isinstance(value, np.ndarray) or (isinstance(value, Tensor) and not isinstance(value, (Symbol, Parameter)))


def value_of(array: Array) -> Tensor | Array:
    """A known value: a Tensor, or the array itself where graphls has no such dtype."""
    array = np.asarray(array)
    return Tensor.from_numpy(array) if array.dtype.name in _NAMES else array


def array_of(value: object) -> Array:
    """The array of a known value; raises GraphValueError where it is known only when the graph runs."""
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, Tensor):
        raise GraphTypeError(f"a tensor is needed here, not {type(value).__name__}")
    if not is_known(value):
        raise GraphValueError("it is known only when the graph runs, and shapes are static")
    return value.asnumpy()


def integers(value: object) -> tuple[int, ...]:
    """A known vector, or a number, as integers."""
    return tuple(int(n) for n in np.asarray(array_of(value)).reshape(-1))


def axes_of(axes: Iterable[int], rank: int) -> list[int]:
    """Non-negative axes; raises GraphValueError for an axis out of range, or one that occurs twice."""
    counted = [axis_of(int(axis), rank) for axis in axes]
    if len(set(counted)) < len(counted):
        raise GraphValueError(f"its axes {tuple(axes)} name one twice.")
    return counted


def float_type() -> DType | None:
    """The 16-bit dtype that the running cell computes in (`to_float`), or None."""
    tracer = current_tracer()
    dtype = None if tracer is None else tracer.here.float_type
    return dtype if dtype is not None and dtype.is_half else None
