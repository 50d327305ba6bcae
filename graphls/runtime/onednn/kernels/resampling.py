"""Resized images and their gradients as one kernel of oneDNN each: repeated elements, and linear interpolation.

Autodiff and compositions spread both out, axis by axis: into copies along a new axis, or into gathers with constant
indices and weights, which must be those of oneDNN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import DType, bfloat16
from graphls.primitives.primitive import normalise_axes, normalise_axis
from graphls.runtime.onednn.binding import BLOCK, DATA_TYPES, Descriptor, Primitive, Role
from graphls.runtime.onednn.kernels.convolution_shapes import TRAINING
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.program import COMPUTED, Group, Program

NEAREST, LINEAR = 0x2FFF0, 0x2FFF1

MOST_COPIES = 8
"""Copies of elements up to which sums of them are the gradient of a resizing, rather than long rows."""

Array = np.ndarray[Any, Any]
Definer = Mapping[Value, Node]


def resamplings(nodes: Sequence[Node], definer: Definer) -> Iterator[Group]:
    """The groups of resized images, and of their gradients."""
    known: dict[Value, Resampling] = {}
    for node in nodes:
        find = _FINDERS.get(node.primitive.name)
        resampling = find(node, definer) if find is not None else None
        if resampling is not None and _is_fit(resampling):
            known[node.output] = merged = resampling.behind(known.get(resampling.source))
            yield merged.group()


@dataclass
class Resampling:
    """Images from others of another size along some axes, or the gradient of the latter from that of the former."""

    node: Node
    source: Value
    algorithm: int
    is_gradient: bool

    def behind(self, before: Resampling | None) -> Resampling:
        """This and the one before it, of other axes, as one."""
        if before is None or (before.algorithm, before.is_gradient) != (self.algorithm, self.is_gradient):
            return self
        sizes = zip(before.source.type.shape, self.source.type.shape, self.node.output.type.shape, strict=True)
        is_apart = all(len({*each}) <= 2 and (each[0] == each[1] or each[1] == each[2]) for each in sizes)
        return Resampling(self.node, before.source, self.algorithm, self.is_gradient) if is_apart else self

    def group(self) -> Group:
        """The group of the last node."""
        return Group((self.node,), (self.source,), self.node.outputs, self.emit)

    def emit(self, program: Program) -> None:
        """Append the kernel, in blocks of channels, or with channels last, for which there are fast ones."""
        output, engine = self.node.output, library().engine
        dtype = DATA_TYPES[output.type.dtype]
        source, target = (_layout(v.type.shape, dtype) for v in (self.source, output))
        small, large = (target, source) if self.is_gradient else (source, target)
        kernel = Primitive("resampling", "resampling_forward", engine, TRAINING, self.algorithm, None, small, large,
                           None)  # fmt: skip
        roles: tuple[int, int] = (Role.SOURCE, Role.RESULT)
        if self.is_gradient:
            kernel = Primitive("resampling, gradient", "resampling_backward", engine, self.algorithm, None, small,
                               large, kernel, None)  # fmt: skip
            roles = (Role.RESULT_GRADIENT, Role.SOURCE_GRADIENT)
        result = program.scratch(target)
        program.run(kernel, {roles[0]: program.read(self.source, source), roles[1]: result})
        is_blocked = output.type.shape[1] % BLOCK == 0
        program.alias(output, result if is_blocked else program.converted(result, Descriptor.of(output.type)))


def _layout(shape: Sequence[int], dtype: int) -> Descriptor:
    if shape[1] % BLOCK == 0:
        return Descriptor.common(shape, dtype)
    last = len(shape) - 1
    return Descriptor.plain((shape[0], *shape[2:], shape[1]), dtype).permuted((0, last, *range(1, last)))


def _is_fit(resampling: Resampling) -> bool:
    """Whether these are images of one to three axes, of which only sizes of those differ."""
    kind, other = resampling.source.type, resampling.node.output.type
    are_images = kind.rank in (3, 4, 5) and kind.dtype is other.dtype and kind.dtype in COMPUTED
    return are_images and not kind.stacked and kind.size > 0 and kind.shape[:2] == other.shape[:2]


def _maker(value: Value, name: str, definer: Definer) -> Node | None:
    node = definer.get(value)
    return node if node is not None and node.primitive.name == name else None


def _repeated(node: Node, definer: Definer) -> Resampling | None:
    """Images whose elements are copied along new axes, each of which becomes one with that before it."""
    shape, value, last = node.output.type.shape, node.output, node
    while True:
        copies = _maker(last.inputs[0], "broadcast_to", definer)
        inner = _maker(copies.inputs[0], "reshape", definer) if copies is not None else None
        if copies is None or inner is None:
            return None
        sizes = zip(copies.inputs[0].type.shape, copies.output.type.shape, strict=False)
        axes = [axis for axis, (n, wide) in enumerate(sizes) if n != wide]
        axis = axes[0] if len(axes) == 1 else 0
        wide = copies.output.type.shape
        if axis < 3 or copies.inputs[0].type.rank != len(wide) or _joined(wide, axis) != shape:
            return None
        shape, value = (*wide[:axis], *wide[axis + 1 :]), inner.inputs[0]
        if value.type.shape == shape:
            return Resampling(node, value, NEAREST, False)
        last = inner


def _joined(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    """A shape where an axis is one with that before it."""
    return (*shape[: axis - 1], shape[axis - 1] * shape[axis], *shape[axis + 1 :])


def _summed(node: Node, definer: Definer) -> Resampling | None:
    """The sums of the copies of each element."""
    inner = _maker(node.inputs[0], "reshape", definer)
    axes = normalise_axes(node.attrs.get("axis"), node.inputs[0].type.rank) if inner is not None else ()
    if inner is None or len(axes) != 1 or axes[0] < 3 or node.attrs.get("keepdims"):
        return None
    g, shape = inner.inputs[0], inner.output.type.shape
    fits = g.type.shape == _joined(shape, axes[0]) and shape[axes[0]] <= MOST_COPIES
    return Resampling(node, g, NEAREST, True) if fits else None


def _interpolated(node: Node, definer: Definer) -> Resampling | None:
    """Sums of two elements times weights along an axis, or the gradient of those."""
    makers = [definer.get(v) for v in node.inputs]
    names = {maker.primitive.name if maker is not None else "" for maker in makers}
    if names not in ({"mul"}, {"gather_gradient"}):
        return None
    is_gradient = names == {"gather_gradient"}
    terms = [_term(maker, is_gradient, definer) for maker in makers if maker is not None]
    first, second = terms
    if first is None or second is None or first[:2] != second[:2]:
        return None
    source, axis = first[:2]
    if axis < 2 or source.type.rank != node.output.type.rank:
        return None
    sizes = source.type.shape[axis], node.output.type.shape[axis]
    small, large = reversed(sizes) if is_gradient else sizes
    weights = sum(_matrix((indices,), (factors,), (large, small)) for *_, indices, factors in (first, second))
    is_equal = np.allclose(weights, _linear(small, large), rtol=0, atol=_tolerance(source.type.dtype))
    return Resampling(node, source, LINEAR, is_gradient) if is_equal else None


def _term(node: Node, is_gradient: bool, definer: Definer) -> tuple[Value, int, Array, Array] | None:
    """The operand of a term, its axis, and the indices and weights along that."""
    gather: Node | None = node
    product: Node | None = node
    if is_gradient:
        product = _maker(node.inputs[0], "mul", definer)
    else:
        gather = next((n for v in node.inputs if (n := _maker(v, "gather", definer)) is not None), None)
    if gather is None or product is None:
        return None
    wide = node.inputs[0].type if is_gradient else gather.output.type
    operands = [v for v in product.inputs if v.type == wide and _constant(v, definer) is None]
    factors = [array for v in product.inputs if (array := _constant(v, definer)) is not None]
    indices = _constant(gather.inputs[1], definer)
    if len(operands) != 1 or len(factors) != 1 or indices is None or indices.ndim != 1 or product.output.type != wide:
        return None
    axis = normalise_axis(gather.attrs["axis"], wide.rank)
    shape = *(1,) * (wide.rank - factors[0].ndim), *factors[0].shape
    is_by_axis = all(n == (wide.shape[axis] if i == axis else 1) for i, n in enumerate(shape))
    source = operands[0] if is_gradient else gather.inputs[0]
    return (source, axis, indices, factors[0].reshape(-1).astype(np.float64)) if is_by_axis else None


def _constant(value: Value, definer: Definer) -> Array | None:
    node = definer.get(value)
    return np.asarray(node.attrs["value"]) if node is not None and node.primitive.is_constant else None


def _linear(small: int, large: int) -> Array:
    """The weights of oneDNN: of both neighbours of each point, centres of elements on centres, within the images."""
    points = (np.arange(large) + 0.5) * small / large - 0.5
    left, right = np.maximum(np.floor(points), 0).astype(int), np.minimum(np.ceil(points), small - 1).astype(int)
    share = np.abs(points - left)
    return _matrix((left, right), (1 - share, share), (large, small))


def _matrix(indices: Sequence[Array], weights: Sequence[Array], shape: tuple[int, int]) -> Array:
    result = np.zeros(shape)
    for columns, factors in zip(indices, weights, strict=True):
        np.add.at(result, (np.arange(shape[0]), columns), factors)
    return result


def _tolerance(dtype: DType) -> float:
    return 2**-8 if dtype is bfloat16 else 1e-6


_FINDERS: Mapping[str, Callable[[Node, Definer], Resampling | None]] = {
    "reshape": _repeated, "sum": _summed, "add": _interpolated,
}  # fmt: skip
"""Finders of resized images by the primitive of the last node."""
