"""The overflow check: sums by kernels, which are finite only if all elements are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, prod
from typing import Any

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import TOKEN, Type, bfloat16, bool_, float32
from graphls.runtime.onednn.arena import Buffer
from graphls.runtime.onednn.binding import F32
from graphls.runtime.onednn.numpy_nodes import OnArrays
from graphls.runtime.onednn.program import COMPUTED, Array, Binding, Program, View
from graphls.runtime.onednn.reductions import REDUCE_SUM, by_row, in_rows

FEW = 4096
"""Elements up to which NumPy adds them before a kernel would begin to."""


def checks(node: Node) -> bool:
    """Whether the engine computes a node, which is an overflow check of what it computes itself."""
    operands = (v.type for v in _operands(node))
    return node.primitive.is_check and all(t.dtype in (*COMPUTED, bool_) and not t.stacked for t in operands)


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v.type != TOKEN]


def check(program: Program, node: Node) -> None:
    """The rule of an overflow check: a sum for each row of each operand, in whatever layout it has."""
    floats = [program.stored(v) for v in _operands(node) if v.type.dtype in COMPUTED and v.type.size]
    flags = [program.raw[v] for v in _operands(node) if v.type.dtype is bool_]
    rows = [View(view.buffer, in_rows(view.layout)) for view in floats]
    sums = [view if prod(view.layout.shape) <= FEW else by_row(program, view, REDUCE_SUM, F32) for view in rows]
    program.raw[node.output] = result = Buffer(node.output.type.nbytes)
    program.append(Check(node, rows, sums, flags, result))


@dataclass(eq=False)
class Check(OnArrays):
    """Tells from sums of its operands whether one of them has an infinity or nan.

    Where a sum is no number, perhaps of finite elements, NumPy looks at all of them.
    """

    node: Node
    rows: Sequence[View]
    sums: Sequence[View]
    flags: Sequence[Buffer]
    result: Buffer
    kind = "overflow check"

    def __post_init__(self) -> None:
        self.reads = (*(view.buffer for view in (*self.rows, *self.sums)), *self.flags)
        self.writes = (self.result,)

    def bound(self, binding: Binding) -> partial[Any]:
        """The call on the arrays of a binding."""
        rows, sums = ([_flat(binding, view) for view in views] for views in (self.rows, self.sums))
        flags = [binding.array(buffer, Type(bool_, (buffer.size,))) for buffer in self.flags]
        return partial(_run, rows, sums, flags, binding.array(self.result, self.node.output.type))


def _flat(binding: Binding, view: View) -> Array:
    dtype = float32 if view.layout.dtype == F32 else bfloat16
    return binding.array(view.buffer, Type(dtype, (prod(view.layout.shape),)))


def _run(rows: Sequence[Array], sums: Sequence[Array], flags: Sequence[Array], result: Array) -> None:
    with np.errstate(all="ignore"):
        is_finite = isfinite(sum(map(float, map(np.add.reduce, sums))))
    is_finite = is_finite or all(bool(np.isfinite(array).all()) for array in rows)
    result.fill(not is_finite or any(bool(flag.any()) for flag in flags))
