"""Arithmetic, comparisons, logic, transcendental functions and conversion, elementwise."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from graphls.base.checks import integer
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.ir.types import (
    DType,
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from graphls.ops.operands import apply, float_of, floats, numbers, operand_of, tensor_in, tensor_of
from graphls.ops.record import operation, tensor_method


@operation(names="tensor_add", classes="Add TensorAdd", symbol="add", also="numpy mint")
def add(x: TensorLike, y: TensorLike) -> Tensor:
    """The sum, broadcasting; operands are promoted to one dtype by MindSpore's rules."""
    return apply("add", *numbers(x, y))


@operation(names="accumulate_n", classes="AddN AccumulateNV2")
def addn(x: TensorLike) -> Tensor:
    """The sum of the tensors in a tuple or list.

    Raises GraphTypeError for anything else, GraphValueError where their shapes differ.
    """
    if not isinstance(x, (tuple, list)) or not x or not all(map(is_tensor, x)):
        raise GraphTypeError(f"addn takes a tuple or list of one tensor or more, not {x!r}.")
    shapes = list(dict.fromkeys(str(tensor.shape) for tensor in x))
    if len(shapes) > 1:
        raise GraphValueError(f"addn takes tensors of one shape, not of {', '.join(shapes)}.")
    return tensor_of(reduce(operator.add, x))


@operation(names="tensor_sub", classes="Sub", symbol="sub", also="numpy.subtract mint")
def sub(x: TensorLike, y: TensorLike) -> Tensor:
    """The difference x - y, broadcasting."""
    return apply("sub", *numbers(x, y))


@operation(
    names="multiply tensor_mul tensor_muls", classes="Mul", in_place="mul_", symbol="mul", also="numpy.multiply mint",
)  # fmt: skip
def mul(x: TensorLike, y: TensorLike) -> Tensor:
    """The product, broadcasting."""
    return apply("mul", *numbers(x, y))


@operation(
    names="divide tensor_div", classes="Div RealDiv", in_place="div_", symbol="truediv",
    also="numpy.divide numpy.true_divide mint",
)  # fmt: skip
def div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Tensor:
    """The quotient x / y as floats, broadcasting; "floor" rounds it down and "trunc" towards 0.

    Integers become float32 without a rounding mode and stay integers with one. Raises GraphValueError for another mode.
    """
    if rounding_mode is None:
        return apply("div", *floats(x, y))
    if rounding_mode == "floor":
        return floor_div(x, y)
    if rounding_mode == "trunc":
        return truncate_div(x, y)
    raise GraphValueError(f"The rounding mode is None, 'floor' or 'trunc', not {rounding_mode!r}.")


@operation(
    names="floor_divide floordiv tensor_floordiv", classes="FloorDiv", in_place="floor_divide_", symbol="floordiv",
    also="numpy.floor_divide",
)  # fmt: skip
def floor_div(x: TensorLike, y: TensorLike) -> Tensor:
    """The quotient x / y rounded down, broadcasting."""
    return apply("floor_div", *numbers(x, y))


@operation(classes="TruncateDiv")
def truncate_div(x: TensorLike, y: TensorLike) -> Tensor:
    """The quotient x / y rounded towards 0, broadcasting; integers stay integers."""
    return apply("truncate_div", *numbers(x, y))


@operation(
    names="floor_mod floormod remainder tensor_mod", classes="FloorMod", in_place="remainder_", symbol="mod",
    also="numpy numpy.remainder mint.remainder",
)  # fmt: skip
def mod(x: TensorLike, y: TensorLike) -> Tensor:
    """The remainder with the sign of the divisor, broadcasting."""
    return apply("mod", *numbers(x, y))


@operation(names="pows tensor_pow", classes="Pow", in_place="pow_", symbol="pow", also="numpy.power mint")
def pow(x: Any, y: Any) -> Tensor:
    """The power x ** y, broadcasting; integers to an integer stay integers, exact up to 2 ** 53."""
    if isinstance(y, (int, float)) and y == 2 and tensor_of(x).dtype is not bool_:
        return square(*dispatch.cast_operands("pow", x))
    first, second = numbers(x, y)
    if first.dtype.is_float:
        return apply("pow", first, second)
    return cast(apply("pow", cast(first, float64), cast(second, float64)), first.dtype)


@operation(classes="Maximum", also="numpy mint")
def maximum(x: TensorLike, y: object) -> Tensor:
    """The larger of two, broadcasting; nan where either is. Equal ones share the gradient."""
    return apply("maximum", *numbers(x, y))


@operation(classes="Minimum", also="numpy mint")
def minimum(x: TensorLike, y: object) -> Tensor:
    """The smaller of two, broadcasting; nan where either is. Equal ones share the gradient."""
    return apply("minimum", *numbers(x, y))


@operation(names="negative", classes="Neg", in_place="neg_", symbol="neg", also="numpy.negative mint")
def neg(x: TensorLike) -> Tensor:
    """The negative."""
    return apply("neg", *numbers(x))


@operation(names="absolute", classes="Abs", in_place="abs_", symbol="abs", also="numpy numpy.absolute mint")
def abs(x: TensorLike) -> Tensor:
    """The absolute value."""
    return apply("abs", *numbers(x))


@operation(names="sgn", classes="Sign", also="numpy mint")
def sign(x: TensorLike) -> Tensor:
    """-1, 0 or 1."""
    return apply("sign", *numbers(x))


@operation(classes="Square", in_place="square_", also="numpy mint")
def square(x: TensorLike) -> Tensor:
    """The square."""
    return apply("square", *numbers(x))


@operation(names="inv", classes="Inv Reciprocal", in_place="reciprocal_", also="numpy mint")
def reciprocal(x: TensorLike) -> Tensor:
    """One over x."""
    return apply("reciprocal", float_of(x))


@operation(classes="Sqrt", in_place="sqrt_", also="numpy mint")
def sqrt(x: TensorLike) -> Tensor:
    """The square root; nan below 0."""
    return apply("sqrt", float_of(x))


@operation(classes="Rsqrt", in_place="rsqrt_", also="mint")
def rsqrt(x: TensorLike) -> Tensor:
    """One over the square root."""
    return apply("rsqrt", float_of(x))


@operation(names="tensor_exp", classes="Exp", in_place="exp_", also="numpy mint")
def exp(x: TensorLike) -> Tensor:
    """The exponential."""
    return apply("exp", float_of(x))


@operation(names="tensor_expm1", classes="Expm1", in_place="expm1_", also="numpy mint mint.special")
def expm1(x: TensorLike) -> Tensor:
    """exp(x) - 1, exact for a small x."""
    return apply("expm1", float_of(x))


@operation(classes="Log", in_place="log_", also="numpy mint")
def log(x: TensorLike) -> Tensor:
    """The natural logarithm; -inf at 0, nan below."""
    return apply("log", float_of(x))


@operation(classes="Log1p", also="numpy mint mint.special")
def log1p(x: TensorLike) -> Tensor:
    """The natural logarithm of 1 + x, exact for a small x."""
    return apply("log1p", float_of(x))


@operation(classes="Sin", also="numpy mint")
def sin(x: TensorLike) -> Tensor:
    """The sine of an angle in radians."""
    return apply("sin", float_of(x))


@operation(classes="Cos", also="numpy mint")
def cos(x: TensorLike) -> Tensor:
    """The cosine of an angle in radians."""
    return apply("cos", float_of(x))


@operation(classes="Tanh", cells="Tanh", in_place="tanh_", also="numpy mint mint.nn.functional")
def tanh(x: TensorLike) -> Tensor:
    """The hyperbolic tangent."""
    return apply("tanh", float_of(x))


@operation(classes="Erf", also="mint")
def erf(x: TensorLike) -> Tensor:
    """The error function."""
    return apply("erf", float_of(x))


@operation(classes="Floor", in_place="floor_", also="numpy mint")
def floor(x: TensorLike) -> Tensor:
    """The largest integer that is not above x."""
    return apply("floor", float_of(x))


@operation(classes="Ceil", in_place="ceil_", also="numpy mint")
def ceil(x: TensorLike) -> Tensor:
    """The smallest integer that is not below x."""
    return apply("ceil", float_of(x))


@operation(classes="Rint Round", also="mint mint.special", checks={"decimals": integer})
def round(x: TensorLike, *, decimals: int = 0) -> Tensor:
    """The nearest number with that number of decimals, ties to even; negative ones round to tens and hundreds."""
    if not decimals:
        return apply("round", float_of(x))
    return apply("round", float_of(mul(x, 10.0**decimals))) / 10.0**decimals


@operation(classes="Cast")
def cast(x: Any, dtype: Any, *, saturate: bool = True) -> Tensor:
    """The tensor in another dtype; raises GraphTypeError for anything but a dtype.

    Numbers beyond the range of a low dtype become its ends, with `saturate=False` nan or, in float8_e5m2, infinite.
    """
    kind = as_dtype(dtype)
    if saturate or not kind.is_low:
        return tensor_in(x, kind)
    return apply("cast", tensor_of(x), dtype=kind, saturate=False)


@operation
def clip_by_value(
    x: TensorLike, clip_value_min: TensorLike | None = None, clip_value_max: TensorLike | None = None
) -> Any:
    """x clipped to a range, of which one bound may be None; also tensors in a tuple or list.

    The gradient is 1 on both bounds. Raises GraphValueError where both are None.
    """
    if clip_value_min is None and clip_value_max is None:
        raise GraphValueError("clip takes a least or a largest value, or both.")

    def clipped(tensor: Any) -> Tensor:
        if clip_value_min is not None:
            tensor = apply("maximum", *numbers(tensor, clip_value_min), ties="first")
        if clip_value_max is not None:
            tensor = apply("minimum", *numbers(tensor, clip_value_max), ties="first")
        return tensor_of(tensor)

    return map_leaves(clipped, x) if any(map(is_tensor, leaves(x))) else clipped(tensor_of(x))


@operation(names="clip", in_place="clamp_ clip_", also="numpy.clip mint")
def clamp(x: TensorLike, min: Any = None, max: Any = None) -> Any:
    """The same as `clip_by_value`."""
    return clip_by_value(x, min, max)


def _to(dtype: DType) -> Callable[[Any], Tensor]:
    def to(x: TensorLike) -> Tensor:
        return cast(x, dtype)

    to.__doc__ = f"The tensor in {dtype.long_name}."
    return to


_DTYPES = {
    "half": float16, "bfloat16": bfloat16, "float": float32, "double": float64, "byte": uint8, "char": int8,
    "short": int16, "int": int32, "long": int64, "bool": bool_,
}  # fmt: skip
for _name, _dtype in _DTYPES.items():
    tensor_method(_name)(_to(_dtype))


@operation(names="eq", classes="Equal", symbol="eq", also="numpy mint.eq")
def equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Elementwise x == y, broadcasting."""
    return apply("equal", *dispatch.promoted(operand_of(x), operand_of(y)))


@operation(names="ne", classes="NotEqual", symbol="ne", also="numpy mint.ne mint")
def not_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Elementwise x != y, broadcasting."""
    return apply("not_equal", *dispatch.promoted(operand_of(x), operand_of(y)))


@operation(names="lt tensor_lt", classes="Less", symbol="lt", also="numpy mint")
def less(x: TensorLike, y: TensorLike) -> Tensor:
    """Elementwise x < y, broadcasting."""
    return apply("less", *numbers(x, y))


@operation(names="le tensor_le", classes="LessEqual", symbol="le", also="numpy mint")
def less_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Elementwise x <= y, broadcasting."""
    return apply("less_equal", *numbers(x, y))


@operation(names="gt tensor_gt", classes="Greater", symbol="gt", also="numpy mint")
def greater(x: TensorLike, y: TensorLike) -> Tensor:
    """Elementwise x > y, broadcasting."""
    return apply("greater", *numbers(x, y))


@operation(names="ge tensor_ge", classes="GreaterEqual", symbol="ge", also="numpy mint")
def greater_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Elementwise x >= y, broadcasting."""
    return apply("greater_equal", *numbers(x, y))


@operation(classes="LogicalAnd", also="numpy mint")
def logical_and(x: TensorLike, y: TensorLike) -> Tensor:
    """Elementwise logical and, broadcasting; a number is true where it is not 0."""
    return apply("logical_and", bool_of(x), bool_of(y))


@operation(classes="LogicalOr", also="numpy mint")
def logical_or(x: TensorLike, y: TensorLike) -> Tensor:
    """Elementwise logical or, broadcasting."""
    return apply("logical_or", bool_of(x), bool_of(y))


@operation(classes="LogicalXor", also="numpy mint")
def logical_xor(x: TensorLike, y: TensorLike) -> Tensor:
    """Elementwise logical exclusive or, broadcasting."""
    return apply("logical_xor", bool_of(x), bool_of(y))


@operation(classes="LogicalNot", in_place="logical_not_", symbol="invert", also="numpy mint")
def logical_not(x: TensorLike) -> Tensor:
    """Elementwise logical not."""
    return apply("logical_not", bool_of(x))


def bool_of(x: TensorLike) -> Tensor:
    """A bool tensor; numbers are true where they are not 0."""
    x = tensor_of(x)
    return x if x.dtype is bool_ else x != 0


@operation(classes="IsFinite", also="numpy mint")
def isfinite(x: TensorLike) -> Tensor:
    """True where a number is neither an infinity nor nan."""
    return apply("is_finite", float_of(x))


@operation(classes="IsNan", also="numpy mint")
def isnan(x: TensorLike) -> Tensor:
    """True where a number is nan."""
    x = tensor_of(x)
    return x != x


@operation(classes="IsInf", also="numpy mint")
def isinf(x: TensorLike) -> Tensor:
    """True where a number is an infinity."""
    return apply("abs", float_of(x)) == math.inf


@operation(names="select", classes="Select", also="numpy mint.select mint")
def where(condition: Any, x: Any, y: Any) -> Tensor:
    """x where the condition is true and y elsewhere, all broadcasting."""
    return apply("where", bool_of(condition), *dispatch.promoted(operand_of(x), operand_of(y)))


@tensor_method("where")
def _where(x: TensorLike, condition: TensorLike, y: TensorLike) -> Tensor:
    """x where the condition is true and y elsewhere, all broadcasting."""
    return where(condition, x, y)


def largest_number(dtype: DType) -> float:
    """The largest finite number of a float dtype."""
    if dtype is bfloat16:
        return (2 - 2.0**-7) * 2.0**127  # 8 bits of precision and the exponents of float32, which NumPy does not know
    return float(np.finfo(dtype.numpy).max)
