"""Sums of products by Einstein's notation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.contractions import Label, Labelled, contract, diagonal_of
from graphls.ops.operands import operand_of
from graphls.ops.record import operation
from graphls.ops.shapes import reshape
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor, is_tensor

_TERM = re.compile(r"([A-Za-z]*)(?:(\.\.\.)([A-Za-z]*))?")


@operation
def einsum(equation: Any, *operands: Any) -> Tensor:
    """The sum of products that an equation like "bij,bjk->bik" says.

    Each letter names an axis. An axis whose letter the result lacks is summed over; a letter twice in one term takes
    the diagonal; "..." stands for all other axes, which are summed over where the result lacks the dots. Without "->"
    the result has the dots, then the letters that occur once, by the alphabet. Axes of size 1 broadcast. Several
    operands are multiplied from left to right. Also `einsum(x, [0, 1], y, [1, 2], [0, 2])`, with numbers below 52 for
    letters. Raises GraphValueError where the equation, or the sizes, do not fit the operands.
    """
    if is_tensor(equation):
        equation, operands = _from_lists((equation, *operands))
    if not isinstance(equation, str):
        raise GraphTypeError(f"einsum takes an equation like 'ij,jk->ik', not {equation!r}.")
    tensors = dispatch.promoted(*map(operand_of, dispatch.cast_operands("einsum", *operands))) if operands else ()
    terms, wanted = _parsed(equation, [t.ndim for t in tensors])
    sizes = _sizes(equation, terms, tensors)
    labelled = [_simplified(tensor, term, sizes) for tensor, term in zip(tensors, terms, strict=True)]
    result = labelled[0]
    for i, following in enumerate(labelled[1:], start=2):
        result = contract(result, following, {*wanted, *(label for rest in labelled[i:] for label in rest.labels)})
    return result.only(wanted).ordered(wanted)


def _from_lists(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """The equation and the operands of the form without letters."""
    pairs, result = len(arguments) // 2, arguments[-1] if len(arguments) % 2 else None
    terms = ",".join(_letters(arguments[2 * i + 1]) for i in range(pairs))
    return terms if result is None else f"{terms}->{_letters(result)}", tuple(arguments[: 2 * pairs : 2])


def _letters(axes: Any) -> str:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    if not isinstance(axes, (tuple, list)) or any(a is not Ellipsis and a not in range(52) for a in axes):
        raise GraphTypeError(f"einsum takes lists of numbers below 52 and of ..., not {axes!r}.")
    return "".join("..." if a is Ellipsis else letters[a] for a in axes)


def _parsed(equation: str, ranks: Sequence[int]) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    """The labels of each operand, and of the result in order; dots become numbers that count from the last axis."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise _fault(equation, f"has {len(terms)} terms for {len(ranks)} operands")
    labels = [_labels(equation, term, rank) for term, rank in zip(terms, ranks, strict=True)]
    dots = sorted({label for term in labels for label in term if isinstance(label, int)})
    if not arrow:
        counts = Counter(label for term in labels for label in term if isinstance(label, str))
        return labels, (*dots, *sorted(label for label, n in counts.items() if n == 1))
    wanted = _labels(equation, output, len(output) - 3 + len(dots) if "..." in output else len(output))
    unknown = {*wanted} - {label for term in labels for label in term}
    if unknown or len({*wanted}) < len(wanted):
        raise _fault(equation, "has a result whose letters are not different ones of the operands")
    return labels, wanted


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
    """The size of each label, for which axes of size 1 broadcast."""
    sizes: dict[Label, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for label, size in zip(term, tensor.shape, strict=True):
            known = sizes.get(label, 1)
            if 1 not in (known, size) and known != size:
                raise _fault(equation, f"gives one axis, {label!r}, the sizes {known} and {size}")
            sizes[label] = size if known == 1 else known
    return sizes


def _simplified(tensor: Tensor, term: Sequence[Label], sizes: dict[Label, int]) -> Labelled:
    """An operand without repeated labels and without axes that broadcast, which the others have."""
    kept = [i for i, label in enumerate(term) if tensor.shape[i] == sizes[label]]
    tensor = reshape(tensor, tuple(tensor.shape[i] for i in kept))
    labels = [term[i] for i in kept]
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
