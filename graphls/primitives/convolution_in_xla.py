"""Convolution in XLA: its own operator or, for groups on CPUs, a product for each position in the kernel.

On CPUs the operator is as fast in NCHW as between transpositions to NHWC, but slow for groups. For 8 images of 28x28
with 128 channels and kernels of 3x3, one core took with the operator and by positions, in milliseconds:
    depthwise    the convolution 26 and 0.5, the gradient of the images 24 and 1.5, that of the kernels 21 and 4
    32 groups    the convolution 14 and 10, the gradient of the images 15 and 6, that of the kernels 2600 and 12
The gradient of kernels of size 1 from 256 channels to 512 took 13 ms, and as one product 2.5 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from graphls.primitives.namespaces import is_half, without_halves
from graphls.primitives.windows import Geometry, Shape, by_position, fold_positions

Traced = Any
"""An array that JAX traces."""

_AXES = "DHW"
_BY_CHANNELS, _BY_BATCH = ("NC", "OI", "NC"), ("CN", "IO", "CN")
"""The names of axes; in the gradient of kernels batch and channels are exchanged."""


class _Options(NamedTuple):
    """Options of the operator; `spread` is the distance of the elements of images along each axis, zeros between."""

    spread: Shape | None = None
    dilations: Shape | None = None
    groups: int = 1
    batch_groups: int = 1


def convolved(jax: Any, x: Traced, w: Traced, at: Geometry) -> Traced:
    """The convolution, of 16-bit floats in float32."""
    kernel, counts = w.shape[2:], at.counts(x.shape, w.shape[2:])

    def by_operator(x: Traced, w: Traced) -> Traced:
        options = _Options(dilations=at.dilations, groups=at.groups)
        return _operator(jax, x, w, at.strides, at.sides(), _BY_CHANNELS, options)

    def by_products(x: Traced, w: Traced) -> Traced:
        x, w = map(without_halves, (x, w))
        parts = zip(_matrices(w, at.groups), by_position(x, kernel, at), strict=True)
        y = sum(_product(jax, k, _in_groups(p, at.groups)) for k, p in parts)
        return y.reshape(x.shape[0], w.shape[0], *counts)

    return _best(jax, at.groups > 1, by_products, by_operator, x, w)


def input_gradient(jax: Any, g: Traced, w: Traced, shape: Shape, at: Geometry) -> Traced:
    """The gradient in images of a shape, of 16-bit floats in float32."""
    kernel = w.shape[2:]

    def by_operator(g: Traced, w: Traced) -> Traced:
        flipped = jax.numpy.flip(w, range(2, w.ndim))
        grouped = flipped.reshape(at.groups, w.shape[0] // at.groups, *w.shape[1:])
        own = grouped.swapaxes(1, 2).reshape(shape[1], w.shape[0] // at.groups, *kernel)
        sides = at.adjoint_sides(shape, kernel)
        options = _Options(spread=at.strides, dilations=at.dilations, groups=at.groups)
        return _operator(jax, g, own, (1,) * len(kernel), sides, _BY_CHANNELS, options)

    def by_products(g: Traced, w: Traced) -> Traced:
        g, w = map(without_halves, (g, w))
        own = _in_groups(g, at.groups)
        parts = [_product(jax, k.swapaxes(1, 2), own) for k in _matrices(w, at.groups)]
        return fold_positions(jax, [p.reshape(*shape[:2], *g.shape[2:]) for p in parts], shape, kernel, at)

    return _best(jax, at.groups > 1, by_products, by_operator, g, w)


def weight_gradient(jax: Any, x: Traced, g: Traced, shape: Shape, at: Geometry) -> Traced:
    """The gradient in kernels of a shape, of 16-bit floats in float32."""
    kernel, counts = shape[2:], g.shape[2:]

    def by_operator(x: Traced, g: Traced) -> Traced:
        sizes = zip(at.sides(), x.shape[2:], at.reach(kernel), at.strides, counts, strict=True)
        sides = [(before, reach + s * (n - 1) - size - before) for (before, _), size, reach, s, n in sizes]
        options = _Options(dilations=at.strides, batch_groups=at.groups)
        return _operator(jax, x, g, at.dilations, sides, _BY_BATCH, options)

    def by_products(x: Traced, g: Traced) -> Traced:
        x, g = map(without_halves, (x, g))
        own, patches = _in_groups(g, at.groups), by_position(x, kernel, at)
        parts = [jax.numpy.einsum("ngos,ngis->goi", own, _in_groups(p, at.groups)) for p in patches]
        return jax.numpy.stack(parts, axis=-1).reshape(shape)

    return _best(jax, at.groups > 1 or prod(kernel) == 1, by_products, by_operator, x, g)


def _best(jax: Any, has_few: bool, by_products: Callable[..., Traced], by_operator: Any, *arrays: Traced) -> Traced:
    """The result of the form that is faster on the device."""
    if not has_few:
        return by_operator(*arrays)
    every = map(jax.numpy.asarray, arrays)
    return jax.lax.platform_dependent(*every, cpu=by_products, default=by_operator)


def _operator(
    jax: Any, x: Traced, w: Traced, strides: Shape, sides: list[tuple[int, int]], first: tuple[str, str, str],
    options: _Options,
) -> Traced:  # fmt: skip
    """The operator of XLA; `first` are the names of the first two axes of its operands and of its result."""
    names = tuple(pair + _AXES[-len(strides) :] for pair in first)
    wide = np.float32 if is_half(x) else None
    return jax.lax.conv_general_dilated(x, w, strides, sides, *options[:2], names, *options[2:], None, wide)


def _in_groups(images: Traced, groups: int) -> Traced:
    """Images as (batch, groups, channels of a group, pixels)."""
    batch, channels, *sizes = images.shape
    return images.reshape(batch, groups, channels // groups, prod(sizes))


def _matrices(w: Traced, groups: int) -> list[Traced]:
    """Kernels as a matrix for each position and group, (groups, outputs of a group, inputs of a group)."""
    outputs, inputs, *kernel = w.shape
    grouped = w.reshape(groups, outputs // groups, inputs, *kernel)
    places: Any = [(..., *position) for position in np.ndindex(*kernel)]
    return [grouped[place] for place in places]


def _product(jax: Any, matrices: Traced, images: Traced) -> Traced:
    """The matrices (groups, results, channels) by images in groups; one channel needs no sums."""
    if matrices.shape[-1] == 1:
        return matrices[None] * images
    return jax.numpy.einsum("grc,ngcs->ngrs", matrices, images)
