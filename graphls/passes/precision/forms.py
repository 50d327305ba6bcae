"""Forms: what a tensor is rounded to before a product, as nodes that quantize and dequantize it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import (
    DType,
    Type,
    float4_e2m1fn,
    float8_e4m3fn,
    float32,
    float64,
)
from graphls.passes.precision.hadamard import transformed
from graphls.passes.precision.scales import (
    LARGEST,
    absolute_maximum,
    current_scale,
    inverse,
    largest_number,
    scaled,
)

Array = np.ndarray[Any, Any]


class More(Protocol):
    """What a form reads besides the tensor: its states by name, its maximum on all ranks, and random numbers."""

    @property
    def states(self) -> Mapping[str, Value]:
        """The states of this tensor."""
        ...

    def absolute_maximum(self, x: Value) -> Value:
        """The float32 absolute maximum of all elements of a value, with as many axes; the same on all ranks that train.
        """
        ...

    def uniform(self, kind: Type) -> Value:
        """Float32 numbers between -1/2 and 1/2 of 8 random bits, of the shape of a type, that differ in every step.

        All forms of one tensor get the same ones.
        """
        ...


@dataclass(frozen=True)
class Form:
    """The numbers that a tensor is rounded to: a base class, whose objects are equal where they round alike.

    `rounded` adds the nodes. A subclass is a frozen dataclass, whose fields say all that `rounded` depends on.

    Examples:
        >>> from dataclasses import dataclass
        >>> import graphls
        >>> from graphls import amp
        >>> @dataclass(frozen=True)
        ... class Bfloat16(amp.Form):
        ...     def rounded(self, e, x, more):
        ...         return e.cast(e.cast(x, dtype=graphls.bfloat16), dtype=x.dtype)
    """

    is_whole: ClassVar[bool] = False
    """Whether a view of the rounded tensor is the rounded view, as where one scale is that of all numbers."""

    def rounded(self, e: Builder, x: Value, more: More) -> Value:
        """x after rounding, of its own type; raises NotImplementedError in this class."""
        raise NotImplementedError

    @property
    def states(self) -> Mapping[str, Array]:
        """The first states of a tensor, as arrays by name; most forms have none."""
        return {}

    @property
    def without_states(self) -> Form:
        """The form where no states can be written, as in loops: that of a form without states is itself."""
        return self

    def updated(self, e: Builder, maximum: Value, states: Mapping[str, Value]) -> dict[str, Value]:
        """The next states, from the absolute maximum of the tensor in this step, a scalar of float32."""
        return {}


@dataclass(frozen=True)
class CurrentForm(Form):
    """`dtype` with one scale for the tensor, which takes its absolute maximum to the largest number.

    With `power_of_two` the scale is the greatest power of two that is not above that. Source: Transformer Engine,
    Float8CurrentScaling.

    Examples:
        >>> import graphls
        >>> from graphls import amp
        >>> amp.CurrentForm(graphls.float8_e5m2)
        CurrentForm(dtype=Float8_e5m2, power_of_two=False)
    """

    dtype: DType = float8_e4m3fn
    power_of_two: bool = False
    is_whole: ClassVar[bool] = True

    def rounded(self, e: Builder, x: Value, more: More) -> Value:
        maximum = more.absolute_maximum(x)
        scale = current_scale(e, maximum, self.dtype, LARGEST, self.power_of_two)
        return _through(e, x, self.dtype, (0,) * x.rank, scale, inverse(e, scale, maximum))


@dataclass(frozen=True)
class DelayedForm(Form):
    """`dtype` with one scale for the tensor, which the absolute maxima of the steps before give.

    States are `amax_history` of `amax_history_len` numbers and `scale`. In a step the maximum is the first number of
    the history. At its end the scale is (largest / amax) / 2 ** `margin`, where amax is the greatest number of the
    history, or with "most_recent" the first; the history moves by one, so that the first becomes the last, and a 0
    comes first. The scale stays where amax is 0 or not finite, and is at most the largest number of float32. Source:
    Transformer Engine, `_default_sf_compute` and `_fused_amax_and_scale_update_after_reduction`.

    Examples:
        >>> from graphls import amp
        >>> {name: array.shape for name, array in amp.DelayedForm(amax_history_len=16).states.items()}
        {'amax_history': (16,), 'scale': ()}
    """

    dtype: DType = float8_e4m3fn
    margin: float = 0
    amax_history_len: int = 1024
    amax_compute_algo: str = "max"
    is_whole: ClassVar[bool] = True

    @property
    def states(self) -> Mapping[str, Array]:
        return {"amax_history": np.zeros(self.amax_history_len, np.float32), "scale": np.ones((), np.float32)}

    @property
    def without_states(self) -> Form:
        return CurrentForm(self.dtype)

    def rounded(self, e: Builder, x: Value, more: More) -> Value:
        block = (0,) * x.rank
        scale = e.reshape(more.states["scale"], shape=(1,) * x.rank)
        return _through(e, x, self.dtype, block, scale, inverse(e, scale, absolute_maximum(e, x, block)))

    def updated(self, e: Builder, maximum: Value, states: Mapping[str, Value]) -> dict[str, Value]:
        first, length = e.reshape(maximum, shape=(1,)), self.amax_history_len
        later = _between(e, states["amax_history"], 1, length)
        history = e.concat(first, later, axis=0)
        amax = maximum if self.amax_compute_algo == "most_recent" else e.max(history)
        moved = [_between(e, later, 1, length - 1), first][-length + 1 :] if length > 1 else []
        scale = self._scale(e, amax, states["scale"])
        return {"amax_history": e.concat(e.fill(np.float32(0), (1,)), *moved, axis=0), "scale": scale}

    def _scale(self, e: Builder, amax: Value, before: Value) -> Value:
        quotient = e.div(largest_number(self.dtype), amax)
        scale = e.minimum(e.div(quotient, 2.0**self.margin) if self.margin else quotient, LARGEST)
        fits = e.logical_and(e.greater(amax, 0.0), e.is_finite(amax))
        return e.where(fits, scale, before)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class BlockForm(Form):
    """`dtype` with a scale for each block, which takes its absolute maximum to the largest number.

    `block` has a size for each axis. Scales are powers of two, or with `power_of_two=False` any float32. Sources:
    Transformer Engine, Float8BlockScaling; DeepSeek-V3 Technical Report (arXiv 2412.19437), section 3.3.

    Examples:
        >>> import graphls
        >>> from graphls import amp
        >>> amp.BlockForm(graphls.float8_e4m3fn, (64, 64))
        BlockForm(dtype=Float8_e4m3fn, block=(64, 64), power_of_two=True)
    """

    dtype: DType
    block: tuple[int, ...]
    power_of_two: bool = True

    def rounded(self, e: Builder, x: Value, more: More) -> Value:
        maximum = absolute_maximum(e, x, self.block)
        scale = current_scale(e, maximum, self.dtype, min(LARGEST, largest_number(x.dtype)), self.power_of_two)
        return _through(e, x, self.dtype, self.block, scale, inverse(e, scale, maximum))


@dataclass(frozen=True)
class MXForm(Form):
    """`dtype` with a power of two for each block, of float8_e8m0fnu.

    `scale_rule` is "ceil", by which no number of a block saturates, or "floor". A block with inf or nan has the scale
    nan. Sources: OCP Microscaling Formats v1.0; Mishra et al. (arXiv 2506.08027), algorithm 1.

    Examples:
        >>> import graphls
        >>> from graphls import amp
        >>> amp.MXForm(graphls.float4_e2m1fn, (1, 32), scale_rule="floor")
        MXForm(dtype=Float4_e2m1fn, block=(1, 32), scale_rule='floor')
    """

    dtype: DType
    block: tuple[int, ...]
    scale_rule: str = "ceil"

    def rounded(self, e: Builder, x: Value, more: More) -> Value:
        maximum = absolute_maximum(e, x, self.block)
        power = e.shared_power(maximum, largest=largest_number(self.dtype), rounds_up=self.scale_rule == "ceil")
        scale = e.div(1.0, e.cast(power, dtype=float32))
        return _through(e, x, self.dtype, self.block, scale, power)


@dataclass(frozen=True)
class NVFP4Form(Form):
    """float4_e2m1fn with a scale of float8_e4m3fn for each block and a float32 for the tensor.

    With `hadamard_axis` the numbers are first transformed along that axis, and the result stays so: the other operand
    of the product is, too. `is_stochastic` rounds to one of the two
    nearest numbers, the more often the nearer it is. Sources:
    "Pretraining Large Language Models with NVFP4" (arXiv 2509.25149), appendices B and C; Transformer Engine,
    pytorch/custom_recipes/reference_nvfp4.py, with whose order of operations the scales are exact.

    Examples:
        >>> from graphls import amp
        >>> amp.NVFP4Form((16, 16))
        NVFP4Form(block=(16, 16), is_stochastic=False, hadamard_axis=None)
    """

    block: tuple[int, ...]
    is_stochastic: bool = False
    hadamard_axis: int | None = None

    def rounded(self, e: Builder, x: Value, more: More) -> Value:
        y = x
        if self.hadamard_axis is not None:
            y = transformed(e, e.cast(x, dtype=float32) if x.dtype.is_half else x, self.hadamard_axis)
        maxima = absolute_maximum(e, y, self.block)
        scale, inverse_scale = self._scales(e, maxima, more.absolute_maximum(maxima))
        if not self.is_stochastic:
            return _through(e, y, float4_e2m1fn, self.block, scale, inverse_scale, x.dtype)
        product, random = scaled(e, y, scale, self.block), more.uniform(y.type)
        low = e.round_stochastically(product, random, dtype=float4_e2m1fn)
        return _back(e, low, inverse_scale, self.block, x.dtype)

    def _scales(self, e: Builder, maxima: Value, tensor: Value) -> tuple[Value, Value]:
        """The multipliers of the blocks, and their inverses: in the words of the paper, s_enc,b and s_dec,b * s_dec.

        `maxima` are those of the blocks, `tensor` is that of the tensor.
        """
        least, most = largest_number(float4_e2m1fn), largest_number(float8_e4m3fn)
        encoding = e.minimum(e.div(least * most, tensor), LARGEST)
        encoding = e.where(e.equal(encoding, 0.0), e.constant(1, float32), encoding)
        decoding = inverse(e, encoding, tensor)
        of_blocks = e.mul(maxima, e.mul(encoding, 1 / least))
        low = e.cast(e.cast(of_blocks, dtype=float8_e4m3fn), dtype=float32)
        total = e.mul(low, decoding)
        return e.minimum(e.div(1.0, total), LARGEST), total


def _through(
    e: Builder, x: Value, low: DType, block: tuple[int, ...], scale: Value, inverse_scale: Value,
    dtype: DType | None = None,
) -> Value:  # fmt: skip
    """x * scale in the low dtype, times the inverse of the scale in another, or in the one of x."""
    return _back(e, e.quantize(x, scale, dtype=low, block=block), inverse_scale, block, dtype or x.dtype)


def _back(e: Builder, x: Value, scale: Value, block: tuple[int, ...], dtype: DType) -> Value:
    """Numbers of a low dtype times the scales of blocks; a float64 by way of float32."""
    wide = e.dequantize(x, scale, dtype=float32 if dtype is float64 else dtype, block=block)
    return e.cast(wide, dtype=dtype) if dtype is float64 else wide  # type: ignore[no-any-return]


def _between(e: Builder, x: Value, start: int, stop: int) -> Value:
    """Elements of an array with one axis."""
    return e.slice(x, starts=(start,), stops=(stop,), steps=(1,))  # type: ignore[no-any-return]
