"""Images and volumes sampled at any points, and the points of an affine map."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import int64
from graphls.ops.creation import arange
from graphls.ops.elementwise import (
    abs,
    add,
    addn,
    cast,
    floor,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    maximum,
    minimum,
    mod,
    mul,
    round,
    sub,
    where,
)
from graphls.ops.operands import Sizes, float_of, floats, in_graph, in_single, shape_of
from graphls.ops.record import operation, operator_class
from graphls.ops.shapes import cut, expand_dims, gather, reshape, transpose
from graphls.tensors.tensor import Tensor, TensorLike

MODES = ("bilinear", "nearest")
PADDINGS = ("zeros", "border", "reflection")


@operation(classes="AffineGrid", settings="align_corners")
def affine_grid(theta: TensorLike, size: Sizes, align_corners: bool = False) -> Tensor:
    """The points at which `grid_sample` makes images of a size from images that `theta` maps them to.

    Matrices (N, 2, 3) and a size (N, C, H, W) give points (N, H, W, 2); (N, 3, 4) and (N, C, D, H, W) give
    (N, D, H, W, 3). Raises GraphValueError for other shapes.
    """
    matrices, sizes = float_of(theta), shape_of(size)
    axes = len(sizes) - 2
    if axes not in (2, 3) or matrices.shape != (sizes[0], axes, axes + 1) or min(sizes) < 1:
        message = f"affine_grid cannot map points of {sizes} by {matrices.type}."
        raise GraphValueError(message)
    return in_single(lambda m: _mapped(m, sizes[2:], bool(align_corners)), matrices)


def _mapped(matrices: Tensor, sizes: tuple[int, ...], align_corners: bool) -> Tensor:
    """The sum over axes of coordinates times a column of the matrix; the first column belongs to the last axis."""
    axes = len(sizes)
    columns = [reshape(cut(matrices, 2, i, i + 1), (-1, *[1] * axes, axes)) for i in range(axes + 1)]
    terms = columns[-1]
    for i, count in enumerate(reversed(sizes)):
        places = cast(in_graph(arange(count)), matrices.dtype)
        if align_corners:
            spread = mul(sub(places, (count - 1) / 2), 2 / max(count - 1, 1))
        else:
            spread = mul(sub(places, (count - 1) / 2), 2 / count)
        terms = add(terms, mul(reshape(spread, (-1, *[1] * (i + 1))), columns[i]))
    return terms


@operation
def grid_sample(
    input: TensorLike,
    grid: TensorLike,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Images (N, C, H, W) at points (N, h, w, 2), or volumes (N, C, D, H, W) at points (N, d, h, w, 3).

    A point is (x, y) or (x, y, z), from -1 to 1 across the image: from corner to corner or, with `align_corners`,
    between the centres of the outermost elements. "bilinear" weighs all neighbours, "nearest" takes one. What lies
    outside is zero for "zeros", the nearest element for "border", and mirrored for "reflection". A nan lies outside.
    Raises GraphValueError for another mode and for shapes that do not fit.
    """
    x, points = floats(input, grid)
    for name, value, known in (("mode", mode, MODES), ("padding_mode", padding_mode, PADDINGS)):
        if value not in known:
            listed = ", ".join(map(repr, known))
            raise GraphValueError(f"The {name!r} of grid_sample is one of {listed}, not {value!r}.")
    if align_corners is not None and not isinstance(align_corners, bool):
        raise GraphTypeError(f"'align_corners' is a bool or None, not {align_corners!r}.")
    axes = x.ndim - 2
    if axes not in (2, 3) or points.shape != (x.shape[0], *points.shape[1:-1], axes) or points.ndim != x.ndim:
        message = f"grid_sample cannot sample {x.type} at points {points.type}."
        raise GraphValueError(message)
    if 0 in x.shape[2:]:
        raise GraphValueError(f"grid_sample takes images with elements, not {x.type}.")
    return in_single(lambda x, p: _sampled(x, p, mode, padding_mode, bool(align_corners)), x, points)


def _sampled(x: Tensor, points: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    n, channels, *sizes = x.shape
    count = prod(points.shape[1:-1])
    flat = reshape(points, (n, count, len(sizes)))
    places: list[Tensor] = []
    for i, size in enumerate(reversed(sizes)):
        place = reshape(cut(flat, 2, i, i + 1), (n, count))
        places.insert(0, _inside(_scaled(place, size, align_corners), size, padding_mode, align_corners))
    rows = reshape(transpose(x, (0, *range(2, x.ndim), 1)), (n * prod(sizes), channels))
    taken = _nearest(rows, places, sizes) if mode == "nearest" else _weighted(rows, places, sizes)
    return reshape(transpose(taken, (0, 2, 1)), (n, channels, *points.shape[1:-1]))


def _scaled(points: Tensor, size: int, align_corners: bool) -> Tensor:
    """Coordinates from -1 to 1 as positions of elements."""
    return add(mul(points, ((size - 1) if align_corners else size) / 2), (size - 1) / 2)


def _inside(places: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Positions moved onto the image; for "zeros" those that are far outside to where there are only zeros."""
    if padding_mode == "zeros":
        return _between(places, -2.0, size + 1.0)
    if padding_mode == "reflection":
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        places = add(sub(span, abs(sub(mod(sub(places, low), 2 * span), span))), low) if span else mul(places, 0.0)
    return _between(places, 0.0, size - 1.0)


def _between(places: Tensor, low: float, high: float) -> Tensor:
    """Positions between two bounds, a nan at the lower; those that are moved have no gradient."""
    places = where(greater(places, low), places, low)
    return where(less(places, high), places, high)


def _nearest(rows: Tensor, places: list[Tensor], sizes: list[int]) -> Tensor:
    return _picked(rows, [cast(round(place), int64) for place in places], sizes)


def _weighted(rows: Tensor, places: list[Tensor], sizes: list[int]) -> Tensor:
    """The sum over all neighbours of a position, each times its share."""
    lows = [floor(place) for place in places]
    shares = [sub(place, low) for place, low in zip(places, lows, strict=True)]
    terms = []
    for corner in product((0, 1), repeat=len(sizes)):
        share = None
        for is_high, part in zip(corner, shares, strict=True):
            own = part if is_high else sub(1.0, part)
            share = own if share is None else mul(share, own)
        assert share is not None
        whole = [cast(add(low, float(step)), int64) for low, step in zip(lows, corner, strict=True)]
        terms.append(mul(_picked(rows, whole, sizes), expand_dims(share, -1)))
    return addn(terms)


def _picked(rows: Tensor, places: list[Tensor], sizes: list[int]) -> Tensor:
    """The elements (N, points, C) at whole positions; zeros outside of the image."""
    number = mul(reshape(in_graph(arange(places[0].shape[0])), (-1, 1)), prod(sizes))
    inside = None
    for i, (place, size) in enumerate(zip(places, sizes, strict=True)):
        known = logical_and(greater_equal(place, 0), less_equal(place, size - 1))
        inside = known if inside is None else logical_and(inside, known)
        number = add(number, mul(maximum(minimum(place, size - 1), 0), prod(sizes[i + 1 :])))
    assert inside is not None
    return where(expand_dims(inside, -1), gather(rows, number, 0), 0.0)


@operator_class(
    "GridSampler2D GridSampler3D",
    "interpolation_mode padding_mode align_corners",
    defaults={"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False},
)
def _sampled_operator(
    input_x: Any, grid: Any, interpolation_mode: Any, padding_mode: Any, align_corners: Any
) -> Tensor:
    """Images or volumes at points, see `grid_sample`."""
    return grid_sample(input_x, grid, interpolation_mode, padding_mode, align_corners)
