"""Applies the ONNX rules of nodes in the dtypes that a device computes in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto

from graphls.ir.graph import Node
from graphls.ir.registry import Operation
from graphls.ir.types import Type, bfloat16
from graphls.primitives.arithmetic import Mul
from graphls.primitives.emitter import Operand
from graphls.primitives.faults import is_builtin
from graphls.primitives.shape import has_short_rows, repeated_rows, reshaped
from graphls.runtime.lowering.plugin_rules import results_of
from graphls.runtime.lowering.target import Target, rounds_once
from graphls.runtime.lowering.types import held
from graphls.runtime.lowering.values import Values

_MANY = 256
"""Elements from which on a Reshape of an operand to more axes pays."""

Results = tuple[tuple[str, ...], tuple[Type, ...]]
"""The names of the results of a node, and the types in which they are computed."""


class Rules(Values):
    """Applies rules in 16 bits, and again in float32 with one rounding at the end where the results would differ."""

    def lowered_results(self, node: Node) -> Results:
        """The results of a node; in float32 if the rule would round more than once in 16 bits."""
        return self._in_bfloat16(node) or self._in_float16(node)

    def _in_float16(self, node: Node) -> Results:
        """The results by a rule, in float32 if it would round more than once in float16, and their types."""
        operands, out_types = self._operands(node, self.target)
        begun = self.position()
        names = self._results(node, operands)
        in_half = node.primitive.half == "rounded" and any(t.dtype.is_half for t in out_types)
        if in_half and not rounds_once(self.written_since(begun)):
            self.remove_since(begun)
            operands, out_types = self._operands(node, replace(self.target, native_half=False))
            names = self._results(node, operands)
        return names, out_types

    def _in_bfloat16(self, node: Node) -> Results | None:
        """The results by bfloat16 kernels and their types, if the target has them and they give the same bits.

        Only products, single operators and moves of elements are tried: other rules may not support the dtype. Operands
        that exist in float32 only are rounded for products alone, which become faster.
        """
        primitive = node.primitive
        is_simple = primitive.is_product or isinstance(primitive.onnx, str) or primitive.flops_per_element == 0
        if not (self.target.bfloat16 and is_simple and primitive.half != "native" and not primitive.takes_values):
            return None
        narrow = [v for v in node.inputs if v.type.dtype is bfloat16]
        if not narrow or not (primitive.is_product or all(bfloat16 in self.forms[v] for v in narrow)):
            return None
        operands, out_types = self._operands(node, replace(self.target, native_bfloat16=True))
        begun = self.position()
        names = self._results(node, operands)
        if all(map(self._is_correct, self.written_since(begun))) and rounds_once(self.written_since(begun)):
            return names, out_types
        self.remove_since(begun)
        return None

    def _is_correct(self, operator: NodeProto) -> bool:
        """True if a bfloat16 kernel gives the bits of a rounded float32 result, and its constants are exact."""
        is_known = operator.op_type in self.target.bfloat16 and self.target.has_kernel(operator.op_type, bfloat16)
        return is_known and self.inexact.isdisjoint(operator.input)

    def _operands(self, node: Node, target: Target) -> tuple[Sequence[Any], tuple[Type, ...]]:
        """The operands of a node's rule, in the types in which a target computes; and the types of its results."""
        primitive = node.primitive
        computed = _computed_by(primitive, target)
        self.in_types = tuple(computed(v.type) for v in node.inputs)
        self.out_types = tuple(computed(v.type) for v in node.outputs)
        if primitive.takes_values:
            return node.inputs, self.out_types
        names = [self.form(v, t.dtype) for v, t in zip(node.inputs, self.in_types, strict=True)]
        if self._is_broadcast_slowly(node):
            return self._of_one_rank(names), self.out_types
        return names if self.has_signs else self._with_long_rows(node, names), self.out_types

    def _is_broadcast_slowly(self, node: Node) -> bool:
        """True if an operand of one element meets one that ends with an axis of size 1, as kernels of 1x1 convolutions.

        Unless it has the same rank, the runtime's kernels on a CPU go element by element, thirty times as slowly (1.19
        to 1.31): a fifth of a step of a ResNet-50.
        """
        shape = max((t.shape for t in self.out_types), key=len, default=())
        is_large = prod(shape) >= _MANY and shape[-1:] == (1,)
        is_broadcast = any(t.size == 1 and t.rank < len(shape) for t in self.in_types)
        return node.primitive.elementwise and is_large and is_broadcast and not self.is_gpu

    def _with_long_rows(self, node: Node, names: Sequence[str]) -> Sequence[str]:
        """The operands of a product, of which those with rows of one number have longer ones where that is faster."""
        (kind, *_), size = self.out_types, self.out_types[0].shape[-1:]
        longer = list(names)
        for i, own in enumerate(self.in_types):
            if isinstance(node.primitive, Mul) and size and has_short_rows(self, own, size[0], kind.size):
                wide = own.with_shape((*own.shape[:-1], *size))
                longer[i] = reshaped(self, repeated_rows(self, longer[i], own.size, size[0]), wide.shape)
                self.in_types = (*self.in_types[:i], wide, *self.in_types[i + 1 :])
        return longer

    def _of_one_rank(self, names: Sequence[str]) -> list[str]:
        """The operands, with those of one element reshaped to the rank of the result."""
        rank = self.out_types[0].rank
        ones = self.ints((1,) * rank)
        singles = [t.size == 1 and t.rank < rank for t in self.in_types]
        self.in_types = tuple(
            t.with_shape((1,) * rank) if is_single else t for t, is_single in zip(self.in_types, singles, strict=True)
        )
        return [self.Reshape(n, ones) if is_single else n for n, is_single in zip(names, singles, strict=True)]

    def _results(self, node: Node, operands: Sequence[Any]) -> tuple[str, ...]:
        """Append the operators of a node; rules of loops lower their regions, too, in types of their own."""
        if not is_builtin(node.primitive):
            if not node.primitive.takes_values:
                operands = [Operand(name, kind) for name, kind in zip(operands, self.in_types, strict=True)]
            return results_of(self, node, operands, partial(self._rule_results, node, operands))
        return self._rule_results(node, operands)

    def _rule_results(self, node: Node, operands: Sequence[Any]) -> tuple[str, ...]:
        """The results of a node's rule, in a tuple."""
        rule = node.primitive.onnx
        if isinstance(rule, str):
            return (self.operator(rule, operands, node.attrs),)
        assert rule is not None
        with np.errstate(over="ignore"):  # of constants beyond the range of 16 bits, which are then computed in float32
            result = rule(self, *operands, **node.attrs)
        names: tuple[str, ...] = result if isinstance(result, tuple) else (result,)
        return names


def _computed_by(primitive: Operation, target: Target) -> Callable[[Type], Type]:
    """The types in which the rule of a primitive sees values."""
    wide = held if primitive.half == "native" else target.computed
    if not (target.native_low and primitive.native_low):
        return wide
    return lambda kind: kind if kind.dtype.is_low else wide(kind)
