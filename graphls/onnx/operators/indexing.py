"""Selection and scattering by integer indices."""

from __future__ import annotations

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.onnx.table import operator
from graphls.onnx.values import Input, Ints, OptionalInput, array_of, is_known
from graphls.ops.operands import apply, axis_of, tensor_of


def _indices(indices: Input, size: int) -> Tensor:
    """Integer indices with negative ones counted from the front."""
    x = tensor_of(indices)
    x = x if x.dtype.long_name in ("int32", "int64") else ops.cast(x, "int64")
    if is_known(x):
        array = array_of(x)
        return Tensor(np.where(array < 0, array + size, array))
    return ops.where(ops.less(x, 0), x + size, x)


@operator("Gather")
def gather(x: Input, indices: Input, *, axis: int = 0) -> Input:
    if isinstance(x, np.ndarray):
        return np.take(x, array_of(indices), axis)
    indices = tensor_of(indices)
    if indices.dtype.long_name not in ("int32", "int64"):
        indices = ops.cast(indices, "int64")
    return ops.gather(x, indices, axis)


@operator("GatherElements")
def gather_elements(x: Input, indices: Input, *, axis: int = 0) -> Tensor:
    x = tensor_of(x)
    return ops.gather_elements(x, axis, _indices(indices, x.shape[axis]))


@operator("GatherND")
def gather_nd(x: Input, indices: Input, *, batch_dims: int = 0) -> Tensor:
    x, indices = tensor_of(x), tensor_of(indices)
    if not batch_dims:
        return ops.gather_nd(x, indices)
    shape = indices.shape[:-1]
    positions = np.indices(shape)[:batch_dims]
    batch = Tensor(np.stack(list(positions), -1).astype(np.int64))
    return ops.gather_nd(x, ops.concat((batch, ops.cast(indices, "int64")), -1))


_JOINS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@operator("ScatterElements")
def scatter_elements(x: Input, indices: Input, updates: Input, *, axis: int = 0, reduction: str = "none") -> Tensor:
    x = tensor_of(x)
    positions = _indices(indices, x.shape[axis])
    if reduction in ("none", "add"):
        return ops.tensor_scatter_elements(x, positions, updates, axis, reduction)
    return _by_coordinates(x, positions, updates, axis_of(axis, x.ndim), reduction)


def _by_coordinates(x: Tensor, positions: Tensor, updates: Input, axis: int, reduction: str) -> Tensor:
    """ScatterElements as a ScatterND, with the coordinates along all axes."""
    grid = [Tensor(g.astype(np.int64)) for g in np.indices(positions.shape)]
    grid[axis] = ops.cast(positions, "int64")
    return scatter_nd(x, ops.stack(grid, -1), updates, reduction=reduction)


@operator("Scatter")
def scatter(x: Input, indices: Input, updates: Input, *, axis: int = 0) -> Tensor:
    return scatter_elements(x, indices, updates, axis=axis)


@operator("ScatterND")
def scatter_nd(x: Input, indices: Input, updates: Input, *, reduction: str = "none") -> Tensor:
    x = tensor_of(x)
    if reduction not in _JOINS:
        raise GraphValueError(f"the reduction is one of {', '.join(_JOINS)}, not {reduction!r}.")
    scattered: Tensor = getattr(ops, f"tensor_scatter_{_JOINS[reduction]}")(
        x, _coordinates(tensor_of(indices), x.shape), updates
    )
    return scattered


def _coordinates(indices: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Coordinates with negative ones counted from the front."""
    sizes = Tensor(np.array(shape[: indices.shape[-1]], np.int64))
    return ops.where(ops.less(indices, 0), indices + sizes, indices)


@operator("MaxUnpool", known=(2,))
def max_unpool(
    x: Input, indices: Input, output_shape: Array | None = None, *, kernel_shape: Ints, pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    x, axes = tensor_of(x), len(kernel_shape)
    strides, pads = strides or (1,) * axes, pads or (0, 0) * axes
    sizes = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel_shape, strict=True)]
    shape = (*x.shape[:2], *(n - pads[i] - pads[axes + i] for i, n in enumerate(sizes)))
    positions = ops.reshape(ops.cast(indices, "int64"), (-1,))
    if output_shape is not None:
        wide = tuple(int(n) for n in output_shape)
        coordinates = _unravelled(positions, shape)
        positions, shape = _ravelled(coordinates, wide), wide
    total = int(np.prod(shape))
    flat = apply("gather_gradient", ops.reshape(x, (-1,)), positions, axis=0, size=total)
    return ops.reshape(flat, shape)


def _unravelled(positions: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    parts = []
    for size in reversed(shape):
        parts.append(ops.mod(positions, size))
        positions = apply("floor_div", positions, tensor_of(np.int64(size)))
    return parts[::-1]


def _ravelled(coordinates: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    total = coordinates[0]
    for part, size in zip(coordinates[1:], shape[1:], strict=True):
        total = total * size + part
    return total


@operator("TensorScatter")
def tensor_scatter(
    past: Input, update: Input, starts: OptionalInput = None, *, mode: str = "linear", axis: int = -2
) -> Tensor:
    """A cache of keys or values, updated with new rows from a position on that each sample of the batch has."""
    past, update = tensor_of(past), tensor_of(update)
    cache, rows = ops.movedim(past, axis, 1), ops.movedim(update, axis, 1)
    batch, count, size = *rows.shape[:2], cache.shape[1]
    positions = Tensor(np.broadcast_to(np.arange(count), (batch, count)))
    if starts is not None:
        positions = ops.reshape(ops.cast(starts, "int64"), (-1, 1)) + positions
    positions = ops.mod(positions, size) if mode == "circular" else positions
    samples = Tensor(np.broadcast_to(np.arange(batch)[:, None], (batch, count)))
    updated = ops.tensor_scatter_update(cache, ops.stack((samples, positions), -1), rows)
    return ops.movedim(updated, 1, axis)
