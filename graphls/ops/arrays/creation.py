"""Functions that create tensors: constants, ranges and window functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.base.checks import at_least, integer, number
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import checked
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.types import DType, DTypeLike, as_dtype, float32, float64
from graphls.ops.arrays.shapes import broadcast_to, expand_dims
from graphls.ops.math.elementwise import cast, where
from graphls.ops.operands import ShapeLike, Sizes, apply, float_of, in_graph, operand_of, shape_of, tensor_of
from graphls.ops.record import in_place, operation, operator_class, tensor_method


@operation(also="mint")
def full(size: ShapeLike, fill_value: TensorLike | None, *, dtype: Any = None) -> Tensor:
    """A tensor filled with one number, in the dtype of the number unless `dtype` is given."""
    value = tensor_of(fill_value) if dtype is None else cast(fill_value, dtype)
    shape = shape_of(size)
    if min(shape, default=0) < 0:
        raise GraphValueError(f"The sizes of a tensor are 0 or more, not {shape}.")
    tracer = current_tracer()
    if tracer is None or isinstance(value, Symbol) or value.shape == shape:
        return broadcast_to(value, shape)
    return Symbol(tracer.emit("broadcast_to", (tracer.value(value),), {"shape": shape})[0])


@operation(classes="Fill")
def fill(type: DTypeLike, shape: Sizes, value: TensorLike) -> Tensor:
    """A tensor filled with one number, with MindSpore's order of arguments."""
    return full(shape, value, dtype=type)


@operation(classes="Zeros", also="mint")
def zeros(size: Any, dtype: DTypeLike | None = None) -> Tensor:
    """Zeros, float32 unless another dtype is given."""
    return full(size, 0, dtype=dtype or float32)


@operation(classes="Ones", also="mint")
def ones(size: Sizes, dtype: DTypeLike | None = None) -> Tensor:
    """Ones, float32 unless another dtype is given."""
    return full(size, 1, dtype=dtype or float32)


@operation(classes="ScalarToTensor")
def scalar_to_tensor(input_x: TensorLike, dtype: Any = float32) -> Tensor:
    """A number as a tensor without axes, float32 unless another dtype is given."""
    return full((), input_x, dtype=dtype)


@operation(classes="ZerosLike", in_place="zero_", also="numpy mint")
def zeros_like(x: Any, *, dtype: Any = None) -> Tensor:
    """Zeros in the shape of x, and in its dtype unless another is given."""
    return full_like(x, 0, dtype=dtype)


@operation(classes="OnesLike", also="numpy mint")
def ones_like(x: Any, *, dtype: Any = None) -> Tensor:
    """Ones in the shape of x, and in its dtype unless another is given."""
    return full_like(x, 1, dtype=dtype)


@operation(also="numpy mint")
def full_like(x: object, fill_value: TensorLike, *, dtype: Any = None) -> Tensor:
    """A tensor filled with one number in the shape of x, and in its dtype unless another is given."""
    x = tensor_of(x)
    return full(x.shape, fill_value, dtype=dtype or x.dtype)


@operation(also="mint")
def arange(start: TensorLike = 0, end: Any = None, step: TensorLike = 1, *, dtype: Any = None) -> Tensor:
    """The numbers from `start` to `end`, excluding it; `arange(n)` starts at 0.

    Raises GraphTypeError for anything but numbers, GraphValueError for a step of 0.
    """
    start, end = (0, start) if end is None else (start, end)
    promoted = _number_dtype(start, end, step)
    if _number(step) == 0:
        raise GraphValueError("arange takes a step that is not 0.")
    try:
        return Tensor(np.arange(*map(_number, (start, end, step))), dtype or promoted)
    except (ValueError, MemoryError, OverflowError):
        raise GraphValueError(f"arange from {start} to {end} by {step} has no end.") from None


def _number(x: TensorLike) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _number_dtype(*numbers: Any) -> DType:
    return dispatch.promoted_dtype(*(_number(n) for n in numbers))


@operation(classes="OneHot", settings="axis", also="mint.nn.functional", checks={"depth": integer})
def one_hot(
    indices: TensorLike, depth: int, on_value: TensorLike = 1, off_value: TensorLike = 0, axis: int = -1
) -> Tensor:
    """`on_value` at the position of each index along a new axis of size `depth`, `off_value` elsewhere.

    The dtype is that of `on_value`. An index outside of range(depth) gives `off_value` only. Raises GraphTypeError for
    a depth that is not an integer.
    """
    on, off = dispatch.promoted(on_value, off_value)
    if _is(on_value, 1) and _is(off_value, 0):
        return apply("one_hot", tensor_of(indices), depth=depth, dtype=on.dtype, axis=axis)
    mask = apply("one_hot", tensor_of(indices), depth=depth, dtype=as_dtype(bool), axis=axis)
    return where(mask, on, off)


def _is(value: TensorLike, number: int) -> bool:
    return (
        not isinstance(value, Symbol) and value.size == 1 and value.item() == number
        if isinstance(value, Tensor)
        else value == number
    )


@tensor_method("fill")
@in_place("fill_")
def _filled(x: TensorLike, value: TensorLike) -> Tensor:
    """A tensor filled with one number, in the shape and dtype of the tensor."""
    return full_like(x, value)


@tensor_method()
def new_zeros(x: Tensor, size: Any, dtype: Any = None) -> Tensor:
    """Zeros of a size, in the dtype of the tensor unless another is given."""
    return zeros(size, dtype or x.dtype)


@tensor_method()
def new_ones(x: Tensor, size: Any, dtype: Any = None) -> Tensor:
    """Ones of a size, in the dtype of the tensor unless another is given."""
    return ones(size, dtype or x.dtype)


@tensor_method()
def new_full(x: Tensor, size: Any, fill_value: Tensor, *, dtype: Any = None) -> Tensor:
    """A tensor of a size filled with one number, in the dtype of the tensor unless another is given."""
    return full(size, fill_value, dtype=dtype or x.dtype)


@operator_class("FillV2")
def _fill(shape: Sizes, value: TensorLike) -> Tensor:
    """A tensor of a constant shape filled with one number, in its own dtype."""
    return full(shape_of(shape), value)


@operation
def range(start: TensorLike, end: TensorLike, step: TensorLike) -> Tensor:
    """The numbers from `start` to `end`, excluding it; raises GraphValueError for a step of 0."""
    return arange(start, end, step)


@operation(classes="LinSpace", also="mint", checks={"steps": at_least(1)})
def linspace(start: TensorLike, end: TensorLike, steps: int) -> Tensor:
    """`steps` equally spaced numbers from `start` to `end`; for tensors, along a new last axis.

    The last is `end` itself. Raises GraphValueError for `steps` below 1.
    """
    return _linspace(start, end, steps, None)


def _linspace(start: TensorLike, end: TensorLike, steps: int, dtype: DType | None) -> Tensor:
    bounds = map(float_of, dispatch.promoted(operand_of(start), operand_of(end)))
    first, last = bounds if dtype is None else (cast(start, dtype), cast(end, dtype))
    fractions = checked(np.arange, steps) / max(steps - 1, 1)
    rising, falling = (in_graph(Tensor(f, first.dtype)) for f in (fractions, 1 - fractions))
    return expand_dims(first, -1) * falling + expand_dims(last, -1) * rising


@operation(checks={"steps": at_least(1), "base": number})
def logspace(start: TensorLike, end: TensorLike, steps: int, base: float = 10, *, dtype: DTypeLike = float32) -> Tensor:
    """The powers of a base whose exponents are `linspace(start, end, steps)`; float32 unless another dtype is given."""
    target = as_dtype(dtype)
    exponents = _linspace(start, end, steps, float64 if target is float64 else None)
    return cast(base**exponents, target)


@operation
def empty(size: ShapeLike, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor of a shape and dtype, float32 unless given, with unspecified elements; they are zeros."""
    return zeros(size, dtype)


@operation
def empty_like(x: TensorLike, *, dtype: Any = None) -> Tensor:
    """A tensor of the shape of x, and its dtype unless given, with unspecified elements; they are zeros."""
    return zeros_like(x, dtype=dtype)


@operator_class("Range", "maxlen")
def _range(start: TensorLike, limit: TensorLike, delta: TensorLike, maxlen: int = 1000000) -> Any:
    """The numbers from `start` up to `limit`; raises GraphValueError for more than `maxlen`."""
    numbers = range(start, limit, delta)
    if numbers.size > maxlen:
        raise GraphValueError(f"Range has {numbers.size} numbers, more than its maxlen of {maxlen}.")
    return numbers


@operator_class("LogSpace", "steps base dtype", like=logspace)
def _log_space(start: TensorLike, end: ShapeLike, steps: int = 10, base: int = 10, dtype: Any = float32) -> Any:
    return logspace(start, end, steps, base, dtype=dtype)


Array = np.ndarray[Any, Any]


def _window(
    name: str, length: TensorLike, periodic: bool, dtype: DTypeLike | None, weights: Callable[[Array], Array]
) -> Tensor:
    """The weights at `length` positions from 0 to 1, or for periodic ones at the first of one position more.

    Raises GraphValueError for a negative length, GraphTypeError for a dtype that is not a float.
    """
    count, kind = integer(name, "window_length", length), as_dtype(dtype or float32)
    if count < 0:
        raise GraphValueError(f"{name} has a length of 0 or more, not {count}.")
    if not kind.is_float:
        raise GraphTypeError(f"{name} is made of floating point numbers, not {kind!r}.")
    if count == 1:
        return Tensor(np.ones(1), kind)
    positions = np.arange(count) / (count if periodic else count - 1)
    return Tensor(weights(positions), kind)


def _cosines(*factors: float) -> Callable[[Array], Array]:
    """The sum of factors * cos(2 pi k x) over k."""
    return lambda x: np.sum([factor * np.cos(2 * np.pi * k * x) for k, factor in enumerate(factors)], axis=0)


@operation(classes="BartlettWindow", settings="periodic dtype", defaults={"dtype": float32})
def bartlett_window(window_length: Sizes, periodic: bool = True, *, dtype: DTypeLike | None = None) -> Tensor:
    """The triangular window, from 0 to 1 and back; float32 unless another float dtype is given.

    With `periodic` it continues at the start of the next window, else it is symmetric.
    """
    return _window("bartlett_window", window_length, periodic, dtype, lambda x: 1 - np.abs(2 * x - 1))


@operation(classes="BlackmanWindow", settings="periodic dtype", defaults={"dtype": float32})
def blackman_window(window_length: Sizes, periodic: bool = True, *, dtype: DTypeLike | None = None) -> Tensor:
    """0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x) of positions x from 0 to 1; otherwise as `bartlett_window`."""
    return _window("blackman_window", window_length, periodic, dtype, _cosines(0.42, -0.5, 0.08))


@operation(
    classes="HammingWindow", settings="periodic alpha beta dtype", defaults={"dtype": float32},
    checks={"alpha": number, "beta": number},
)  # fmt: skip
def hamming_window(
    window_length: Sizes, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """alpha - beta cos(2 pi x) of positions x from 0 to 1; otherwise as `bartlett_window`."""
    return _window("hamming_window", window_length, periodic, dtype, _cosines(alpha, -beta))


@operation
def hann_window(window_length: Any, periodic: bool = True, *, dtype: Any = None) -> Tensor:
    """0.5 - 0.5 cos(2 pi x) of positions x from 0 to 1; otherwise as `bartlett_window`."""
    return _window("hann_window", window_length, periodic, dtype, _cosines(0.5, -0.5))


@operation(checks={"beta": number})
def kaiser_window(
    window_length: Sizes, periodic: bool = True, beta: float = 12.0, *, dtype: DTypeLike | None = None
) -> Tensor:
    """i0(beta sqrt(1 - y ** 2)) / i0(beta) of positions y from -1 to 1; otherwise as `bartlett_window`."""
    width = number("kaiser_window", "beta", beta)

    def weights(x: Array) -> Array:
        return np.asarray(np.i0(width * np.sqrt(np.maximum(1 - (2 * x - 1) ** 2, 0))) / np.i0(width))

    return _window("kaiser_window", window_length, periodic, dtype, weights)
