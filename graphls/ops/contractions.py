"""Products of tensors, summed over the axes that have the same label in both and are not kept."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from math import prod

from graphls.ops.elementwise import mul
from graphls.ops.operands import apply
from graphls.ops.reductions import sum
from graphls.ops.shapes import reshape, transpose
from graphls.tensors.tensor import Tensor

Label = Hashable


def diagonal_of(x: Tensor, first: int, second: int) -> Tensor:
    """The elements whose positions along two axes are equal, along one axis that comes last."""
    others = [i for i in range(x.ndim) if i not in (first, second)]
    *outside, rows, columns = (x.shape[i] for i in (*others, first, second))
    flat = reshape(transpose(x, (*others, first, second)), (*outside, rows * columns))
    stop = min(rows, columns) * (columns + 1) - columns
    starts, stops, steps = (0,) * flat.ndim, (*outside, max(0, stop)), (*[1] * len(outside), columns + 1)
    return apply("slice", flat, starts=starts, stops=stops, steps=steps)


@dataclass(frozen=True)
class Labelled:
    """A tensor with a different label for each of its axes."""

    tensor: Tensor
    labels: tuple[Label, ...]

    def size(self, labels: Sequence[Label]) -> tuple[int, ...]:
        """The sizes of the axes with these labels."""
        return tuple(self.tensor.shape[self.labels.index(label)] for label in labels)

    def only(self, kept: Collection[Label]) -> Labelled:
        """The sum over the axes whose label is not kept."""
        gone = tuple(i for i, label in enumerate(self.labels) if label not in kept)
        if not gone:
            return self
        return Labelled(sum(self.tensor, gone), tuple(label for label in self.labels if label in kept))

    def ordered(self, labels: Sequence[Label]) -> Tensor:
        """The tensor with its axes in the order of the labels."""
        order = tuple(self.labels.index(label) for label in labels)
        return self.tensor if order == tuple(range(len(order))) else transpose(self.tensor, order)


def contract(first: Labelled, second: Labelled, kept: Collection[Label]) -> Labelled:
    """The product of two tensors, summed over the labels that are not kept; floats, if any are summed over."""
    first, second = first.only({*kept, *second.labels}), second.only({*kept, *first.labels})
    shared = [label for label in first.labels if label in second.labels]
    batch = [label for label in shared if label in kept]
    summed = [label for label in shared if label not in kept]
    rows = [label for label in first.labels if label not in shared]
    columns = [label for label in second.labels if label not in shared]
    product = _matrix_product if summed else _outer_product
    shape = (*first.size(batch), *first.size(rows), *second.size(columns))
    return Labelled(reshape(product(first, second, batch, rows, summed, columns), shape), (*batch, *rows, *columns))


Labels = list[Label]


def _outer_product(
    first: Labelled, second: Labelled, batch: Labels, rows: Labels, summed: Labels, columns: Labels
) -> Tensor:
    groups = first.size(batch)
    left = reshape(first.ordered([*batch, *rows]), (*groups, prod(first.size(rows)), 1))
    right = reshape(second.ordered([*batch, *columns]), (*groups, 1, prod(second.size(columns))))
    return mul(left, right)


def _matrix_product(
    first: Labelled, second: Labelled, batch: Labels, rows: Labels, summed: Labels, columns: Labels
) -> Tensor:
    groups = (prod(first.size(batch)),) if batch else ()
    depth = prod(first.size(summed))
    left = reshape(first.ordered([*batch, *rows, *summed]), (*groups, prod(first.size(rows)), depth))
    right = reshape(second.ordered([*batch, *summed, *columns]), (*groups, depth, prod(second.size(columns))))
    return apply("matmul", left, right)
