"""The overflow check: sums by kernels, which are finite only if all elements are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, prod
from typing import Any

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import TOKEN, Type, bfloat16, bool_, float32
from graphls.runtime.onednn.binding import F32
from graphls.runtime.onednn.kernels.reductions import REDUCE_SUM, by_row, in_rows
from graphls.runtime.onednn.multiples import factors
from graphls.runtime.onednn.numpy_nodes import OnArrays
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.bound import Binding
from graphls.runtime.onednn.program.calls import Array, View
from graphls.runtime.onednn.program.program import COMPUTED, Group, Program

_NUMBER = Type(float32)
FEW = 4096
"""Elements up to which NumPy adds them before a kernel would begin to."""


def checks(node: Node) -> bool:
    """Whether the engine computes a node, which is an overflow check of what it computes itself."""
    operands = (v.type for v in _operands(node))
    return node.primitive.is_check and all(t.dtype in (*COMPUTED, bool_) and not t.stacked for t in operands)


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v.type != TOKEN]


def overflow_checks(nodes: Sequence[Node], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of checks that read what a number multiplies in place of the product, which they need not compute."""
    for node in filter(checks, nodes):
        operands = [factors(definer.get(v)) or (v, None) for v in _operands(node)]
        if any(number is not None for _, number in operands):
            inputs = *(v for v, _ in operands), *(number for _, number in operands if number is not None)
            yield Group((node,), tuple(dict.fromkeys(inputs)), node.outputs, partial(_check, node, operands))


def check(program: Program, node: Node) -> None:
    """The rule of an overflow check: a sum for each row of each operand, in whatever layout it has."""
    _check(node, [(v, None) for v in _operands(node)], program)


def _check(node: Node, operands: Sequence[tuple[Value, Value | None]], program: Program) -> None:
    floats = {(v, number): program.stored(v) for v, number in operands if v.type.dtype in COMPUTED and v.type.size}
    flags = [program.raw[v] for v, _ in operands if v.type.dtype is bool_]
    rows = [View(view.buffer, in_rows(view.layout)) for view in floats.values()]
    sums = [view if prod(view.layout.shape) <= FEW else by_row(program, view, REDUCE_SUM, F32) for view in rows]
    numbers = [None if number is None else program.plain(number).buffer for _, number in floats]
    program.raw[node.output] = result = Buffer(node.output.type.nbytes)
    program.append(Check(node, rows, sums, numbers, flags, result))


@dataclass(eq=False)
class Check(OnArrays):
    """Tells from sums of its operands whether one of them has an infinity or nan.

    Where a sum is no number, perhaps of finite elements, NumPy looks at all of them. An operand may stand for its
    product with a number, which is finite, too, if that is 1 at most.
    """

    node: Node
    rows: Sequence[View]
    sums: Sequence[View]
    numbers: Sequence[Buffer | None]
    flags: Sequence[Buffer]
    result: Buffer
    kind = "overflow check"

    def __post_init__(self) -> None:
        self.reads = (*(view.buffer for view in (*self.rows, *self.sums)), *filter(None, self.numbers), *self.flags)
        self.writes = (self.result,)

    def bound(self, binding: Binding) -> partial[Any]:
        """The call on the arrays of a binding."""
        rows, sums = ([_flat(binding, view) for view in views] for views in (self.rows, self.sums))
        numbers = [None if buffer is None else binding.array(buffer, _NUMBER) for buffer in self.numbers]
        flags = [binding.array(buffer, Type(bool_, (buffer.size,))) for buffer in self.flags]
        return partial(_run, rows, sums, numbers, flags, binding.array(self.result, self.node.output.type))


def _flat(binding: Binding, view: View) -> Array:
    dtype = float32 if view.layout.dtype == F32 else bfloat16
    return binding.array(view.buffer, Type(dtype, (prod(view.layout.shape),)))


def _run(
    rows: Sequence[Array], sums: Sequence[Array], numbers: Sequence[Array | None], flags: Sequence[Array], result: Array
) -> None:  # fmt: skip
    with np.errstate(all="ignore"):
        is_finite = isfinite(sum(map(float, map(np.add.reduce, sums))))
        is_finite = is_finite and all(abs(number) <= 1 for number in numbers if number is not None)
        if not is_finite:
            pairs = zip(rows, numbers, strict=True)
            products = (array if number is None else array * number for array, number in pairs)
            is_finite = all(bool(np.isfinite(product).all()) for product in products)
    result.fill(not is_finite or any(bool(flag.any()) for flag in flags))
