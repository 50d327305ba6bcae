"""Numbers of low dtypes with a scale for each block: their absolute maxima, and products with the scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.registry import lookup
from graphls.ir.types import (
    DType,
    Type,
    bfloat16,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
)
from graphls.primitives.emitter import Emitter
from graphls.primitives.low_precision import in_float32, rounded
from graphls.primitives.low_precision_in_xla import rounded_in_xla
from graphls.primitives.namespaces import namespace
from graphls.primitives.primitive import Array, Primitive, f32, float_elements, no_gradient, of, require_float, sample
from graphls.primitives.reduction import reduced
from graphls.primitives.shape import has_short_rows, repeated_rows, reshaped

Block = tuple[int, ...]
"""The size of a block along each axis, 0 for that of the whole axis; the last block of an axis may be smaller."""

Shape = tuple[int, ...]

_MX: dict[str, Any] = {"block": (1, 32), "integers": (1, 9)}


@dataclass(frozen=True)
class Blocks:
    """The blocks of an array of a shape.

    An axis with several blocks of several elements becomes two, behind which `inner` axes are those inside of a block.

    Examples:
        >>> from graphls.primitives.scaling import Blocks
        >>> blocks = Blocks((4, 100), (0, 32))
        >>> blocks.counts, blocks.parts, blocks.inner
        ((1, 4), (4, 4, 32), (0, 2))
    """

    shape: Shape
    block: Block

    @cached_property
    def counts(self) -> Shape:
        """The number of blocks along each axis, which is the shape of the scales: 1 for a whole axis."""
        return tuple(-(-n // size) if size else 1 for n, size in zip(self.shape, self.block, strict=True))

    @cached_property
    def _axes(self) -> tuple[tuple[int, int], ...]:
        """The number of blocks and the size of a block for each axis."""
        sizes = zip(self.counts, self.shape, self.block, strict=True)
        return tuple((count, n if count == 1 else size) for count, n, size in sizes)

    @cached_property
    def padded(self) -> Shape:
        """The shape with as many elements in the last blocks as in the others."""
        return tuple(count * size for count, size in self._axes)

    @cached_property
    def parts(self) -> Shape:
        """The padded shape with two axes for each one with several blocks of several elements."""
        return _listed((n * size,) if 1 in (n, size) else (n, size) for n, size in self._axes)

    @cached_property
    def spread(self) -> Shape:
        """The shape in which scales broadcast to the parts."""
        return _listed((n,) if 1 in (n, size) else (n, 1) for n, size in self._axes)

    @cached_property
    def inner(self) -> tuple[int, ...]:
        """The axes of the parts inside of blocks, without those of one element."""
        wide = zip(self.parts, self.spread, strict=True)
        return tuple(i for i, (n, scales) in enumerate(wide) if n != scales)

    @property
    def long_axes(self) -> tuple[int, ...]:
        """The axes along which blocks have several elements."""
        return tuple(axis for axis, (count, n) in enumerate(zip(self.counts, self.shape, strict=True)) if count != n)

    @property
    def is_one(self) -> bool:
        """Whether one block has all elements."""
        return set(self.counts) <= {1}

    @property
    def are_split(self) -> bool:
        """Whether the parts have other axes than the array."""
        return len(self.parts) > len(self.shape)

    @property
    def are_padded(self) -> bool:
        """Whether a last block is smaller than the others."""
        return self.padded != self.shape

    def check(self, name: str) -> Blocks:
        """Itself; raises GraphValueError unless the block has a size of 0 or more for each axis."""
        sizes = self.block
        is_right = isinstance(sizes, tuple) and all(isinstance(n, int) and n >= 0 for n in sizes)
        if not is_right or len(sizes) != len(self.shape):
            text = f"The block of {name} is a tuple with a size for each of the {len(self.shape)} axes"
            raise GraphValueError(f"{text}, 0 for a whole one, not {sizes!r}.")
        return self


def _listed(parts: Any) -> Shape:
    return tuple(size for part in parts for size in part)


def _split(x: Array, blocks: Blocks) -> Array:
    """An array with its blocks as parts, padded with zeros."""
    if blocks.are_padded:
        after = [(0, wide - n) for n, wide in zip(blocks.shape, blocks.padded, strict=True)]
        x = namespace(x).pad(x, after)
    return x.reshape(blocks.parts)


def _times_scales(x: Array, scale: Array, blocks: Blocks) -> Any:
    """The product with the scales in float32."""
    wide = in_float32(scale).reshape(blocks.spread)
    with np.errstate(all="ignore"):
        product = _split(in_float32(x), blocks) * wide
    product = product.reshape(blocks.padded)
    return product[tuple(map(slice, blocks.shape))] if blocks.are_padded else product


def _split_in_onnx(e: Emitter, x: str, blocks: Blocks) -> str:
    if blocks.are_padded:
        after = (wide - n for n, wide in zip(blocks.shape, blocks.padded, strict=True))
        x = e.Pad(x, e.ints([*(0 for _ in blocks.shape), *after]))
    return reshaped(e, x, blocks.parts) if blocks.are_split else x


def _times_scales_in_onnx(e: Emitter, x: str, scale: str, blocks: Blocks) -> str:
    names = zip((x, scale), e.in_types, strict=True)
    x, scale = (name if kind.dtype is float32 else e.cast(name, float32) for name, kind in names)
    if not blocks.are_split:
        return e.Mul(x, scale)
    product = _product_of_parts(e, _split_in_onnx(e, x, blocks), scale, blocks)
    product = reshaped(e, product, blocks.padded)
    if not blocks.are_padded:
        return product
    axes = [i for i, (n, wide) in enumerate(zip(blocks.shape, blocks.padded, strict=True)) if n != wide]
    return e.Slice(product, e.ints(0 for _ in axes), e.ints(blocks.shape[i] for i in axes), e.ints(axes))


def _product_of_parts(e: Emitter, parts: str, scale: str, blocks: Blocks) -> str:
    count, size = prod(blocks.spread), blocks.parts[-1]
    if e.has_signs or not has_short_rows(e, Type(float32, blocks.spread), size, prod(blocks.parts)):
        return e.Mul(parts, reshaped(e, scale, blocks.spread))
    rows = repeated_rows(e, scale, count, size)
    return e.Mul(parts, reshaped(e, rows, (*blocks.spread[:-1], size)))


class AbsoluteMaximum(Primitive):
    """The largest absolute value of each block in float32, or float64 of float64: nan where one is, 0 over none.

    `block` has a size for each axis, 0 for the whole axis; the last block of an axis may be smaller. The result has one
    element for each block, and no gradient, as scales have none. As Transformer Engine's amax, it is nan of a nan.
    """

    samples = (
        sample(f32(2, 3, 4), gradient=False, block=(0, 0, 0)),
        sample(f32(4, 6), gradient=False, block=(1, 0)),
        sample(f32(4, 6), gradient=False, block=(0, 1)),
        sample(f32(4, 64), gradient=False, block=(1, 32)),
        sample(f32(5, 7), gradient=False, block=(2, 3)),
        sample(f32(8, 8), gradient=False, block=(4, 4)),
        sample(f32(), gradient=False, block=()),
        sample(f32(0, 3), gradient=False, block=(0, 0)),
    )
    vjp = no_gradient

    def infer(self, x: Type, block: Block) -> Type:
        require_float(self.name, x)
        dtype = float64 if x.dtype is float64 else float32
        return Type(dtype, Blocks(x.shape, block).check(self.name).counts)

    def numpy(self, x: Array, block: Block) -> Any:
        blocks = Blocks(x.shape, block)
        size = _split(abs(x), blocks)
        return namespace(x).max(size, axis=blocks.inner, initial=0, keepdims=True).reshape(blocks.counts)

    def xla(self, jax: Any, x: Array, block: Block) -> Any:
        """The sum of squares tells of nans, some of which XLA's maximum loses.

        Both read x itself: of absolute values that both read XLA would make an array.
        """
        blocks, xp = Blocks(x.shape, block), jax.numpy
        parts = _split(x, blocks)
        largest = xp.max(abs(parts), axis=blocks.inner, initial=0).reshape(blocks.counts)
        total = xp.sum(parts * parts, axis=blocks.inner).reshape(blocks.counts)
        return xp.where(xp.isnan(total), total, largest)

    def onnx(self, e: Emitter, x: str, block: Block) -> str:
        """The sum, never below the maximum, tells of nans, most of which the kernel of ReduceMax on a CPU loses."""
        blocks = Blocks(e.in_types[0].shape, block)
        x = _split_in_onnx(e, e.Abs(x) if e.has_negative else x, blocks)
        largest, total = (_reduced_by_groups(e, operator, x, blocks.inner) for operator in ("ReduceMax", "ReduceSum"))
        if blocks.inner:
            has_nan = e.runs_as_written and e.is_right("Min")
            largest = e.Min(total, largest) if has_nan else e.Where(e.IsNaN(total), total, largest)
        if blocks.are_split:
            largest = reshaped(e, largest, blocks.counts)
        dtype = e.out_types[0].dtype
        return largest if e.in_types[0].dtype is dtype else e.cast(largest, dtype)

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """An absolute value and a comparison for each element."""
        return 2 * float_elements(*inputs)


def _reduced_by_groups(e: Emitter, operator: str, x: str, axes: tuple[int, ...]) -> str:
    """A reduction of neighbouring axes at a time, the last ones first: the runtime is four times as fast so."""
    while axes:
        first = next(i for i in range(len(axes)) if axes[-1] - axes[i] == len(axes) - 1 - i)
        x, axes = reduced(e, operator, x, axes[first:], keepdims=True), axes[:first]
    return x


class Quantize(Primitive):
    """x * scale rounded once more, to the nearest number of a low dtype, ties to even, or to its largest if beyond.

    `scale` has one element for each block of `block`, which has a size for each axis, 0 for the whole axis; the last
    block of an axis may be smaller. The scale, in any float or low dtype, and x are taken in float32, and so is their
    product. The cast is a saturating one (see `cast`). No gradient passes through a low dtype.
    """

    takes_low = native_low = True
    samples = (
        sample(f32(4, 6), f32(1, 1), gradient=False, dtype=float8_e4m3fn, block=(0, 0)),
        sample(f32(4, 6), f32(4, 1), gradient=False, dtype=float8_e5m2, block=(1, 0)),
        sample(f32(4, 64), of(float8_e8m0fnu, 4, 2), gradient=False, dtype=float4_e2m1fn, **_MX),
        sample(f32(5, 7), f32(3, 3), gradient=False, dtype=float8_e4m3fn, block=(2, 3)),
        sample(f32(8, 8), f32(2, 2), gradient=False, dtype=float8_e4m3fn, block=(4, 4)),
        sample(f32(), f32(), gradient=False, dtype=float8_e4m3fn, block=()),
        sample(f32(0, 3), f32(1, 3), gradient=False, dtype=float8_e5m2, block=(0, 1)),
    )
    vjp = no_gradient

    def infer(self, x: Type, scale: Type, dtype: DType, block: Block) -> Type:
        require_float(self.name, x)
        if not isinstance(dtype, DType) or not dtype.is_low:
            raise GraphTypeError(f"quantize takes a low dtype, such as graphls.float8_e4m3fn, not {dtype!r}.")
        if dtype is float8_e8m0fnu:
            raise GraphTypeError("float8_e8m0fnu has no sign and is for scales; quantize to another dtype, or cast.")
        _check_scale(self.name, x, scale, block)
        return x.with_dtype(dtype)

    def numpy(self, x: Array, scale: Array, dtype: DType, block: Block) -> Any:
        product = _times_scales(x, scale, Blocks(x.shape, block))
        return lookup("cast").numpy(product, dtype=dtype)  # type: ignore[attr-defined]

    def xla(self, jax: Any, x: Array, scale: Array, dtype: DType, block: Block) -> Any:
        product = _times_scales(x, scale, Blocks(x.shape, block))
        return rounded_in_xla(jax, product, dtype, saturate=True)

    def onnx(self, e: Emitter, x: str, scale: str, dtype: DType, block: Block) -> str:
        product = _times_scales_in_onnx(e, x, scale, Blocks(e.in_types[0].shape, block))
        return rounded(e, product, dtype, saturate=True)


class Dequantize(Primitive):
    """q * scale, rounded once in float32 and once more to `dtype`: the float32 or 16-bit numbers of a low array.

    `scale` has one element for each block of `block`, which has a size for each axis, 0 for the whole axis; the last
    block of an axis may be smaller. The scale, in any float or low dtype, and q are taken in float32. `role` says for
    readers what the array is to the products of a layer, such as "weight". No gradient passes through a low dtype.
    """

    takes_low = native_low = True
    samples = (
        sample(of(float8_e4m3fn, 4, 6), f32(1, 1), gradient=False, dtype=float32, block=(0, 0), role="weight"),
        sample(of(float8_e5m2, 4, 6), f32(4, 1), gradient=False, dtype=float16, block=(1, 0)),
        sample(of(float4_e2m1fn, 4, 64), of(float8_e8m0fnu, 4, 2), gradient=False, dtype=float16, **_MX),
        sample(of(float8_e4m3fn, 5, 7), f32(3, 3), gradient=False, dtype=float32, block=(2, 3)),
        sample(of(float8_e4m3fn), f32(), gradient=False, dtype=float32, block=()),
        sample(of(float8_e5m2, 0, 3), f32(1, 3), gradient=False, dtype=float32, block=(0, 1)),
    )
    vjp = no_gradient

    def infer(self, q: Type, scale: Type, dtype: DType, block: Block, role: str = "") -> Type:
        if not q.dtype.is_low:
            raise GraphTypeError(f"dequantize takes an array of a low dtype, as quantize makes it, not {q}.")
        if dtype not in (float32, float16, bfloat16):
            raise GraphTypeError(f"dequantize gives float32, float16 or bfloat16, not {dtype!r}.")
        _check_scale(self.name, q, scale, block)
        return q.with_dtype(dtype)

    def numpy(self, q: Array, scale: Array, dtype: DType, block: Block, role: str = "") -> Any:
        return _times_scales(q, scale, Blocks(q.shape, block))

    def onnx(self, e: Emitter, q: str, scale: str, dtype: DType, block: Block, role: str = "") -> str:
        blocks, computed = Blocks(e.in_types[0].shape, block), e.out_types[0].dtype
        is_linear = e.in_types[0].dtype.is_low and (blocks.is_one or len(blocks.long_axes) < 2)
        product = (_dequantized_linearly if is_linear else _times_scales_in_onnx)(e, q, scale, blocks)
        return product if computed is float32 else e.cast(product, computed)


def _dequantized_linearly(e: Emitter, q: str, scale: str, blocks: Blocks) -> str:
    """A low tensor times one scale, or one for each block along an axis, by the operator that ONNX has for it."""
    scale = scale if e.in_types[1].dtype is float32 else e.cast(scale, float32)
    if blocks.is_one:
        return e.operator("DequantizeLinear", [q, reshaped(e, scale, ())])
    (axis,) = blocks.long_axes or (0,)
    n = blocks.shape[axis]
    return e.operator("DequantizeLinear", [q, scale], {"axis": axis, "block_size": min(blocks.block[axis] or n, n)})


def _check_scale(name: str, x: Type, scale: Type, block: Block) -> None:
    """Raise unless a scale has a number for each block."""
    counts = Blocks(x.shape, block).check(name).counts
    if not (scale.dtype.is_float or scale.dtype.is_low):
        raise GraphTypeError(f"The scale of {name} is of a float or low dtype, not {scale}.")
    if scale.shape != counts:
        text = f"{name} of {x} in blocks of {block} takes a scale of the shape {counts}"
        raise GraphValueError(f"{text}, one for each block, not {scale}.")
