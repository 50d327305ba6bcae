"""Maximum and minimum: of two operands, along axes, and their positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, float32, int32, int64, uint8
from graphls.primitives.arithmetic import INTEGERS, PAIRS
from graphls.primitives.emitter import Emitter
from graphls.primitives.namespaces import namespace
from graphls.primitives.primitive import (
    Array,
    Elementwise,
    Primitive,
    f32,
    float_elements,
    no_gradient,
    normalise_axes,
    normalise_axis,
    of,
    sample,
)
from graphls.primitives.reduction import (
    FULL,
    Axes,
    Reduction,
    any_true,
    reduce,
    reduced,
    reduced_shape,
    require_elements,
    require_numbers,
    restored,
)


def _check_ties(name: str, ties: str) -> None:
    if ties not in ("shared", "first"):
        raise GraphValueError(f"The 'ties' of {name} are 'shared' or 'first', not {ties!r}.")


class OneOfTwo(Elementwise, abstract=True):
    """One of x and y, broadcasting, nan where either is: the one that `wins` a comparison with the other.

    `ties` chooses the operand that gets the gradient of equal ones: "shared" gives half of it to each, and for a nan
    all of it to both; "first" gives it to x, and for a nan to neither.
    """

    is_commutative = bounds = True
    half = "exact"
    integer_gradient = "divided"
    session_from = 1 << 19
    samples = (*PAIRS, *INTEGERS, sample(f32(2, 3), f32(3), ties="first"))
    function: ClassVar[str]
    operator: ClassVar[str]
    wins: ClassVar[str]
    loses: ClassVar[str]

    def infer(self, *types: Type, ties: str = "shared") -> Type:
        _check_ties(self.name, ties)
        return super().infer(*types)

    def numpy(self, x: Array, y: Array, ties: str = "shared") -> Any:
        return getattr(namespace(x, y), self.function)(x, y)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value, ties: str = "shared") -> Any:
        if ties == "first":
            return _to_first(e, g, x, y, self.wins)
        return _shared(e, g, x, y, self.loses, self.wins)

    def onnx(self, e: Emitter, x: str, y: str, ties: str = "shared") -> str:
        return e.operator(self.operator, [x, y])


class Maximum(OneOfTwo):
    """The larger of x and y, broadcasting, nan where either is; see `OneOfTwo` for ties."""

    function, operator, wins, loses = "maximum", "Max", "greater", "less"


class Minimum(OneOfTwo):
    """The smaller of x and y, broadcasting, nan where either is; see `OneOfTwo` for ties."""

    function, operator, wins, loses = "minimum", "Min", "less", "greater"


def _shared(e: Builder, g: Value, x: Value, y: Value, x_loses: str, y_loses: str) -> tuple[Value, Value]:
    """Equal operands get half each; a comparison with nan is false, so both get all of it then."""
    zero, dtype = e.constant(0.0, g.type.dtype), g.type.dtype
    share = e.div(g, e.add(e.cast(e.equal(x, y), dtype=dtype), 1.0))
    return (e.where(getattr(e, x_loses)(x, y), zero, share), e.where(getattr(e, y_loses)(x, y), zero, share))


def _to_first(e: Builder, g: Value, x: Value, y: Value, first_wins: str) -> tuple[Value, Value]:
    zero = e.constant(0.0, g.type.dtype)
    return e.where(getattr(e, f"{first_wins}_equal")(x, y), g, zero), e.where(getattr(e, first_wins)(y, x), g, zero)


class Extreme(Reduction, abstract=True):
    """The largest or smallest element along axes, nan where one is.

    `ties` chooses the elements that get the gradient of equal ones: "shared" gives an equal share to each, and nan
    where one is nan; "first" gives it to the first of them along one axis, or to the first nan.
    """

    half = "exact"
    integer_gradient = "divided"
    samples = (
        *FULL,
        sample(f32(2, 3, 4), axis=(1,), ties="first"),
        sample(f32(3, 4), axis=(-1,), keepdims=True, ties="first"),
        sample(of(int32, 2, 3), axis=(0,)),
        sample(of(int64, 5)),
    )
    operator: ClassVar[str]

    def infer(self, x: Type, axis: Axes = None, keepdims: bool = False, ties: str = "shared") -> Type:
        require_numbers(self.name, x)
        require_elements(self.name, x, axis)
        _check_ties(self.name, ties)
        if ties == "first" and len(normalise_axes(axis, x.rank)) != 1:
            raise GraphValueError(f"{self.name} finds the first of equal elements along one axis, not {axis}.")
        return super().infer(x, axis, keepdims)

    def numpy(self, x: Array, axis: Axes = None, keepdims: bool = False, ties: str = "shared") -> Any:
        return getattr(x, self.name)(axis=axis, keepdims=keepdims)

    def onnx(self, e: Emitter, x: str, axis: Axes = None, keepdims: bool = False, ties: str = "shared") -> str:
        return _with_nans(e, self.operator, x, axis, keepdims)

    def vjp(
        self, e: Builder, g: Value, x: Value, y: Value, axis: Axes = None, keepdims: bool = False, ties: str = "shared"
    ) -> Any:
        wide = restored(e, g, x, axis)
        if ties == "first":
            return e.mul(wide, e.cast(_is_first(e, self.name, x, axis), dtype=g.type.dtype))
        mask = e.cast(e.equal(x, restored(e, y, x, axis)), dtype=g.type.dtype)
        return e.mul(e.div(wide, e.sum(mask, axis=axis, keepdims=True)), mask)


def _is_first(e: Builder, name: str, x: Value, axis: Axes) -> Any:
    """True at the position of the extreme: a mask is cheaper than scattering the gradient there."""
    (at,) = normalise_axes(axis, x.type.rank)
    places = np.arange(x.type.shape[at]).reshape([-1 if i == at else 1 for i in range(x.type.rank)])
    return e.equal(getattr(e, f"arg{name}")(x, axis=at, keepdims=True), e.constant(places))


class Max(Extreme):
    """The largest number along axes, nan where one is; see `Extreme` for ties."""

    operator = "ReduceMax"


class Min(Extreme):
    """The smallest number along axes, nan where one is; see `Extreme` for ties."""

    operator = "ReduceMin"


def _with_nans(e: Emitter, operator: str, x: str, axis: Axes, keepdims: bool) -> str:
    """An extreme that is nan where an element is: the CPU's kernels lose most nans."""
    extreme = extreme_along(e, operator, x, axis, keepdims)
    if not e.in_types[0].dtype.is_float or not normalise_axes(axis, e.in_types[0].rank):
        return extreme
    is_nan = any_true(e, e.IsNaN(x), axis, keepdims)
    return e.Where(is_nan, e.scalar(np.nan), extreme)


def extreme_along(e: Emitter, operator: str, x: str, axis: Axes, keepdims: bool) -> str:
    """The extreme by the operator itself where its kernel is correct.

    A GPU's gives the finite number nearest to an infinity where all elements are that infinity, and compares int64 by
    way of float64.
    """
    dtype, axes = e.in_types[0].dtype, normalise_axes(axis, e.in_types[0].rank)
    if not axes or not (dtype.is_float or dtype is int64) or e.is_right(operator):
        return reduce(e, operator, x, axis, keepdims)
    if dtype is int64:
        return _by_top_k(e, x, axes, operator == "ReduceMax", keepdims)
    worst = e.scalar(-np.inf if operator == "ReduceMax" else np.inf)
    is_better = any_true(e, e.Not(e.Equal(x, worst)), axis, keepdims)
    return e.Where(is_better, reduce(e, operator, x, axis, keepdims), worst)


def _by_top_k(e: Emitter, x: str, axes: tuple[int, ...], largest: bool, keepdims: bool) -> str:
    for axis in axes:
        x, _ = e.results("TopK", [x, e.ints([1])], {"axis": axis, "largest": int(largest)}, 2)
    return x if keepdims else e.Squeeze(x, e.ints(axes))


class Position(Primitive, abstract=True):
    """The int64 position of one element along an axis, the first nan where there is one."""

    half = "exact"
    gives_positions = True
    samples = (
        sample(f32(4, 5), axis=-1, gradient=False),
        sample(f32(2, 3, 4), axis=1, keepdims=True, gradient=False),
        sample(of(int32, 3, 9), axis=1, integers=(0, 3)),
        sample(of(int64, 9), axis=0, integers=(0, 3)),
        sample(of(uint8, 9), axis=0, integers=(0, 3)),
        sample(f32(0, 3), axis=1),
    )
    vjp = no_gradient

    def infer(self, x: Type, axis: int, keepdims: bool = False) -> Type:
        require_numbers(self.name, x)
        axes = (normalise_axis(axis, x.rank),)
        require_elements(self.name, x, axes)
        return Type(int64, reduced_shape(x, axes, keepdims))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """One for each float among the operands."""
        return float_elements(*inputs)


def _position(e: Emitter, operator: str, x: str, axis: int, keepdims: bool) -> str:
    """By the extremes where there is no kernel: for int64, and for most dtypes on a GPU."""
    dtype = e.in_types[0].dtype
    if dtype is int64 or not e.has_kernel(operator):
        extreme = extreme_along(e, operator.replace("Arg", "Reduce"), x, (axis,), True)
        position = _first(e, e.Equal(x, extreme), axis, keepdims)
    else:
        position = e.operator(operator, [x], {"axis": axis, "keepdims": int(keepdims)})
    if not dtype.is_float:
        return str(position)
    is_nan = e.IsNaN(x)
    first_nan = _first(e, is_nan, axis, True)
    has_nan = e.GatherElements(is_nan, first_nan, axis=axis)
    if not keepdims:
        first_nan, has_nan = (e.Squeeze(name, e.ints([axis])) for name in (first_nan, has_nan))
    return e.Where(has_nan, first_nan, position)


def _first(e: Emitter, mask: str, axis: int, keepdims: bool) -> str:
    """The position of the first true bool along an axis; unspecified where none is."""
    if e.has_kernel("ArgMax", float32):
        return e.ArgMax(e.cast(mask, float32), axis=axis, keepdims=int(keepdims))
    shape = e.in_types[0].shape
    last = shape[axis] - 1
    places = np.arange(last + 1).reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])
    return reduced(e, "ReduceMin", e.Where(mask, e.const(places), e.ints([last])), [axis], keepdims)


class Argmax(Position):
    """The position of the largest number along an axis, the first of equal ones or of nans, as int64."""

    def numpy(self, x: Array, axis: int, keepdims: bool = False) -> Any:
        return x.argmax(axis=axis, keepdims=keepdims)

    def onnx(self, e: Emitter, x: str, axis: int, keepdims: bool = False) -> str:
        return _position(e, "ArgMax", x, axis, keepdims)


class Argmin(Position):
    """The position of the smallest number along an axis, the first of equal ones or of nans, as int64."""

    def numpy(self, x: Array, axis: int, keepdims: bool = False) -> Any:
        return x.argmin(axis=axis, keepdims=keepdims)

    def onnx(self, e: Emitter, x: str, axis: int, keepdims: bool = False) -> str:
        return _position(e, "ArgMin", x, axis, keepdims)
