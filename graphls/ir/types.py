"""Element types and tensor types, and their short names in the text form."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from math import prod
from typing import Any, TypeAlias

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.refusals import refusal


@dataclass(frozen=True, eq=False)
class DType:
    """An element type: `name` is the short one of the IR (`f16`), `long_name` the user's (`float16`).

    There is one object per dtype, so identity is equality. `kind` is one of "float", "int",
    "uint", "bool", "token" and "low": numbers of eight bits and fewer are stored, moved and cast, never computed in.

    Examples:
        >>> import graphls
        >>> graphls.float16, graphls.float16.name, graphls.float16.itemsize, graphls.float16.is_float
        (Float16, 'f16', 2, True)
    """

    name: str
    long_name: str
    kind: str
    itemsize: int = field(repr=False)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype; bfloat16 and low dtypes come from `ml_dtypes`, with a byte for each element of float4."""
        return _numpy_dtype(self)

    @property
    def is_float(self) -> bool:
        """Whether values of this dtype have gradients and can overflow to infinity."""
        return self.kind == "float"

    @property
    def is_low(self) -> bool:
        """Whether it is a float of eight bits or fewer, which is neither computed in nor has a gradient."""
        return self.kind == "low"

    @property
    def is_half(self) -> bool:
        """Whether it is one of the two 16-bit floats, which a CPU computes in float32."""
        return self.kind == "float" and self.itemsize == 2

    def __repr__(self) -> str:
        return self.long_name.capitalize()

    def __reduce__(self) -> str:
        return self.long_name if self.long_name != "bool" else "bool_"


float16 = DType("f16", "float16", "float", 2)
bfloat16 = DType("bf16", "bfloat16", "float", 2)
float32 = DType("f32", "float32", "float", 4)
float64 = DType("f64", "float64", "float", 8)
float8_e4m3fn = DType("f8e4m3fn", "float8_e4m3fn", "low", 1)
float8_e4m3fnuz = DType("f8e4m3fnuz", "float8_e4m3fnuz", "low", 1)
float8_e5m2 = DType("f8e5m2", "float8_e5m2", "low", 1)
float8_e5m2fnuz = DType("f8e5m2fnuz", "float8_e5m2fnuz", "low", 1)
float8_e8m0fnu = DType("f8e8m0fnu", "float8_e8m0fnu", "low", 1)
float4_e2m1fn = DType("f4e2m1fn", "float4_e2m1fn", "low", 1)
int8 = DType("i8", "int8", "int", 1)
int16 = DType("i16", "int16", "int", 2)
int32 = DType("i32", "int32", "int", 4)
int64 = DType("i64", "int64", "int", 8)
uint8 = DType("u8", "uint8", "uint", 1)
uint16 = DType("u16", "uint16", "uint", 2)
uint32 = DType("u32", "uint32", "uint", 4)
uint64 = DType("u64", "uint64", "uint", 8)
bool_ = DType("bool", "bool", "bool", 1)
token = DType("token", "token", "token", 0)

LOW = (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu, float4_e2m1fn)
"""The floats of eight bits and fewer."""

DTYPES = (
    float16, bfloat16, float32, float64, *LOW, int8, int16, int32, int64,
    uint8, uint16, uint32, uint64, bool_, token,
)  # fmt: skip
_BY_NAME = {d.name: d for d in DTYPES} | {d.long_name: d for d in DTYPES}


@cache
def _numpy_dtype(dtype: DType) -> np.dtype[Any]:
    if dtype is bfloat16 or dtype.is_low:
        import ml_dtypes

        bits: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype.long_name))
        return bits
    if dtype is token:
        raise GraphTypeError("A token has no NumPy dtype, because it holds no data.")
    return np.dtype(dtype.long_name)


@cache
def _from_numpy(dtype: np.dtype[Any]) -> DType | None:
    return _BY_NAME.get(dtype.name)


DTypeLike: TypeAlias = "DType | np.dtype[Any] | type | str"
"""The values that `as_dtype` takes."""


def as_dtype(value: DTypeLike | None) -> DType:
    """The DType for a DType, a name, a Python type or a NumPy dtype.

    Raises GraphTypeError where there is none, as for strings and objects.

    Examples:
        >>> import numpy as np
        >>> from graphls.ir import as_dtype
        >>> as_dtype("f16"), as_dtype(float), as_dtype(np.int8)
        (Float16, Float32, Int8)
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, np.dtype) and (known := _from_numpy(value)) is not None:
        return known
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    try:
        dtype = None if value is None else _from_numpy(np.dtype(value))
    except (TypeError, ValueError, SyntaxError):  # of a text that NumPy takes for one of Python
        dtype = None
    if dtype is None:
        names = ", ".join(d.long_name for d in DTYPES if d is not token)
        if "complex" in str(value):
            raise GraphTypeError(refusal("complex numbers", repr(value)))
        raise GraphTypeError(f"{value!r} is not a dtype that graphls has; use one of {names}.")
    return dtype


_PYTHON_TYPES: dict[type, DType] = {bool: bool_, int: int64, float: float32}


@dataclass(frozen=True, slots=True)
class Type:
    """A dtype and a static shape, written `f16[32,10]`, `i64[]` or `token`.

    A `stacked` type, written `f16[?,32,10]`, is that of a stack: one array of that shape for each iteration of a loop
    whose number of iterations is known only when it runs. Only loops, branches and sums over iterations take stacks,
    and none leaves a graph.

    Examples:
        >>> from graphls.ir import Type
        >>> from graphls.ir.types import float16
        >>> kind = Type(float16, (32, 10))
        >>> str(kind), kind.size, kind.rank
        ('f16[32,10]', 320, 2)
    """

    dtype: DType
    shape: tuple[int, ...] = ()
    stacked: bool = False

    @property
    def type(self) -> Type:
        """The type itself, so that `x.type` means the same in type rules and in gradient rules."""
        return self

    @property
    def size(self) -> int:
        """The number of elements; of a stack, those of one iteration."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements; a token has none."""
        return self.size * self.dtype.itemsize

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def with_dtype(self, dtype: DType) -> Type:
        """The same shape with another dtype."""
        return Type(dtype, self.shape, self.stacked)

    def with_shape(self, shape: tuple[int, ...]) -> Type:
        """The same dtype with another shape."""
        return Type(self.dtype, tuple(shape))

    @property
    def stack(self) -> Type:
        """The type of a stack of arrays of this one."""
        return Type(self.dtype, self.shape, stacked=True)

    @property
    def element(self) -> Type:
        """The type of each array of a stack."""
        return Type(self.dtype, self.shape)

    def __str__(self) -> str:
        if self.dtype is token:
            return "token"
        return f"{self.dtype.name}[{','.join(('?',) * self.stacked + tuple(map(str, self.shape)))}]"

    __repr__ = __str__


TOKEN = Type(token)
_TYPE = re.compile(r"([a-z]+\d*(?:e\dm\d[a-z]*)?)\[(?:(\?)(?:,(?=\d)|(?=\])))?([\d,]*)\]", re.ASCII)


def parse_type(text: str) -> Type:
    """The Type that `str` wrote; raises GraphValueError for any other text.

    Examples:
        >>> from graphls.ir import parse_type
        >>> parse_type("f16[32,10]").shape
        (32, 10)
    """
    if text == "token":
        return TOKEN
    match = _TYPE.fullmatch(text)
    dtype = _BY_NAME.get(match[1]) if match else None
    if match is None or dtype is None or dtype is token or dtype.name != match[1]:
        raise GraphValueError(f"{text!r} is not a type; write it like f32[8,4], i64[] or token.")
    try:
        shape = tuple(int(d) for d in match[3].split(",")) if match[3] else ()
        return Type(dtype, shape, stacked=bool(match[2]))
    except ValueError:
        raise GraphValueError(f"{text!r} has a malformed shape; write it like f32[8,4].") from None


def type_of(array: Any) -> Type:
    """The Type of a NumPy array or scalar."""
    return _type(array.dtype, tuple(array.shape))


@lru_cache(maxsize=4096)
def _type(dtype: Any, shape: tuple[int, ...]) -> Type:
    return Type(as_dtype(dtype), shape)


class Typed:
    """A base class of what has a `type`: its parts are attributes, too."""

    __slots__ = ()

    type: Type

    @property
    def dtype(self) -> DType:
        """The dtype of its type."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its type."""
        return self.type.shape

    @property
    def rank(self) -> int:
        """The number of axes of its type."""
        return self.type.rank


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that NumPy's broadcasting gives; raises GraphValueError where there is none.

    Examples:
        >>> from graphls.primitives import broadcast_shapes
        >>> broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    first = shapes[0] if shapes else ()
    if all(s == first for s in shapes):
        return first
    rank = max(map(len, shapes))
    result = []
    for sizes in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise GraphValueError(f"Shapes {' and '.join(map(str, shapes))} do not broadcast together.")
        result.append(wide.pop() if wide else 1)
    return tuple(result)
