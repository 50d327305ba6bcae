"""Tensor contractions over labelled axes, and einsum."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.ops.arrays.shapes import reshape, transpose
from graphls.ops.math.reductions import sum
from graphls.ops.operands import Sizes, apply, operand_of
from graphls.ops.record import operation, operator_class

Label = Hashable


def diagonal_of(x: Tensor, first: int, second: int) -> Tensor:
    """The diagonal of two axes, as the last axis."""
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

    def sum_to(self, retained: Collection[Label]) -> Labelled:
        """The sum over all axes except those with retained labels."""
        summed = tuple(i for i, label in enumerate(self.labels) if label not in retained)
        if not summed:
            return self
        return Labelled(sum(self.tensor, summed), tuple(label for label in self.labels if label in retained))

    def ordered(self, labels: Sequence[Label]) -> Tensor:
        """The tensor with its axes in the order of the labels."""
        order = tuple(self.labels.index(label) for label in labels)
        return self.tensor if order == tuple(range(len(order))) else transpose(self.tensor, order)


def contract(first: Labelled, second: Labelled, retained: Collection[Label]) -> Labelled:
    """The product of two tensors, summed over all labels except the retained ones; floats, if any are summed."""
    first, second = first.sum_to({*retained, *second.labels}), second.sum_to({*retained, *first.labels})
    shared = [label for label in first.labels if label in second.labels]
    batch = [label for label in shared if label in retained]
    summed = [label for label in shared if label not in retained]
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
    return left * right


def _matrix_product(
    first: Labelled, second: Labelled, batch: Labels, rows: Labels, summed: Labels, columns: Labels
) -> Tensor:
    groups = (prod(first.size(batch)),) if batch else ()
    depth = prod(first.size(summed))
    left = reshape(first.ordered([*batch, *rows, *summed]), (*groups, prod(first.size(rows)), depth))
    right = reshape(second.ordered([*batch, *summed, *columns]), (*groups, depth, prod(second.size(columns))))
    return apply("matmul", left, right)


_TERM = re.compile(r"([A-Za-z]*)(?:(\.\.\.)([A-Za-z]*))?")


@operation(also="mint")
def einsum(equation: TensorLike, *operands: TensorLike) -> Tensor:
    """The sum of products of an equation like "bij,bjk->bik" (Einstein's summation convention).

    Each letter labels an axis. Axes whose letters are missing in the result are summed; a repeated letter in one term
    takes the diagonal; "..." stands for all other axes, which are summed if the result has no dots. Without "->" the
    result has the dots, then the letters that occur once, in alphabetical order. Axes of size 1 broadcast. Several
    operands are multiplied from left to right. Also `einsum(x, [0, 1], y, [1, 2], [0, 2])`, with numbers below 52 for
    letters. Raises GraphValueError where the equation, or the sizes, do not fit the operands.
    """
    if is_tensor(equation):
        equation, operands = _from_lists((equation, *operands))
    if not isinstance(equation, str):
        raise GraphTypeError(f"einsum takes an equation like 'ij,jk->ik', not {equation!r}.")
    tensors = dispatch.promoted(*map(operand_of, dispatch.cast_operands("einsum", *operands))) if operands else ()
    terms, output = _parsed(equation, [t.ndim for t in tensors])
    sizes = _sizes(equation, terms, tensors)
    labelled = [_simplified(tensor, term, sizes) for tensor, term in zip(tensors, terms, strict=True)]
    result = labelled[0]
    for i, following in enumerate(labelled[1:], start=2):
        result = contract(result, following, {*output, *(label for other in labelled[i:] for label in other.labels)})
    return result.sum_to(output).ordered(output)


def _from_lists(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """The equation and the operands of the form without letters."""
    pairs, result = len(arguments) // 2, arguments[-1] if len(arguments) % 2 else None
    terms = ",".join(_letters(arguments[2 * i + 1]) for i in range(pairs))
    return terms if result is None else f"{terms}->{_letters(result)}", tuple(arguments[: 2 * pairs : 2])


def _letters(axes: Sizes) -> str:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    if not isinstance(axes, (tuple, list)) or any(a is not Ellipsis and a not in range(52) for a in axes):
        raise GraphTypeError(f"einsum takes lists of numbers below 52 and of ..., not {axes!r}.")
    return "".join("..." if a is Ellipsis else letters[a] for a in axes)


def _parsed(equation: str, ranks: Sequence[int]) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    """The labels of each operand, and of the result in order; dots become numbers counted from the last axis."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise _fault(equation, f"has {len(terms)} terms for {len(ranks)} operands")
    labels = [_labels(equation, term, rank) for term, rank in zip(terms, ranks, strict=True)]
    dots = sorted({label for term in labels for label in term if isinstance(label, int)})
    if not arrow:
        counts = Counter(label for term in labels for label in term if isinstance(label, str))
        return labels, (*dots, *sorted(label for label, n in counts.items() if n == 1))
    labels_of_result = _labels(equation, output, len(output) - 3 + len(dots) if "..." in output else len(output))
    unknown = {*labels_of_result} - {label for term in labels for label in term}
    if unknown or len({*labels_of_result}) < len(labels_of_result):
        raise _fault(equation, "has a result whose letters are not different ones of the operands")
    return labels, labels_of_result


def _labels(equation: str, term: str, rank: int) -> tuple[Label, ...]:
    match = _TERM.fullmatch(term)
    if match is None:
        raise _fault(equation, f"has the term {term!r}, which is not made of letters and one '...'")
    before, dots, after = match[1], match[2], match[3] or ""
    count = rank - len(before) - len(after)
    if count < 0 or (count and not dots):
        raise _fault(equation, f"has the term {term!r} for an operand with {rank} axes")
    return (*before, *range(-count, 0), *after)


def _sizes(equation: str, terms: Sequence[Sequence[Label]], tensors: Sequence[Tensor]) -> dict[Label, int]:
    """The size of each label; axes of size 1 broadcast."""
    sizes: dict[Label, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for label, size in zip(term, tensor.shape, strict=True):
            known = sizes.get(label, 1)
            if 1 not in (known, size) and known != size:
                raise _fault(equation, f"gives one axis, {label!r}, the sizes {known} and {size}")
            sizes[label] = size if known == 1 else known
    return sizes


def _simplified(tensor: Tensor, term: Sequence[Label], sizes: dict[Label, int]) -> Labelled:
    """An operand without repeated labels, and without the axes that broadcast."""
    positions = [i for i, label in enumerate(term) if tensor.shape[i] == sizes[label]]
    tensor = reshape(tensor, tuple(tensor.shape[i] for i in positions))
    labels = [term[i] for i in positions]
    for label in {*labels}:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            tensor = diagonal_of(tensor, first, second)
            del labels[second], labels[first]
            labels.append(label)
    return Labelled(tensor, tuple(labels))


def _fault(equation: str, what: str) -> GraphValueError:
    return GraphValueError(f"The equation {equation!r} of einsum {what}.")


@operator_class("Einsum", "equation")
def _einsum_of(inputs: Tensor, equation: str) -> Any:
    """The sum of products of an equation, of the tensors in a tuple."""
    return einsum(equation, *inputs)
