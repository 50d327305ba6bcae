"""Reverse differentiation over builder nodes in thirty lines, independent of the gradient pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphls.ir import Builder, Value
from graphls.ir.errors import GraphTypeError


def backpropagate(e: Builder, seeds: Iterable[tuple[Value, Value]], wanted: Sequence[Value]) -> list[Value | None]:
    """The gradients of `wanted` from those of some results, through the nodes that `e` holds so far."""
    nodes, gradients = list(e.nodes), dict[Value, Value]()

    def accumulate(value: Value, gradient: Value) -> None:
        gradients[value] = e.add(gradients[value], gradient) if value in gradients else gradient

    for value, seed in seeds:
        accumulate(value, seed)
    for node in reversed(nodes):
        given = tuple(gradients.get(v) for v in node.outputs)
        if all(g is None for g in given) or not node.inputs:
            continue
        g = given if len(given) > 1 else given[0]
        if node.primitive.vjp is None:
            raise GraphTypeError(f"{node.primitive.name} has no gradient rule; define its method vjp.")
        results = node.primitive.vjp(e, g, *node.inputs, *node.outputs, **node.attrs)
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != len(node.inputs):
            counts = f"{len(results)} gradients for {len(node.inputs)} operands"
            raise GraphTypeError(f"The rule vjp of {node.primitive.name}: {counts}; return one for each, or None.")
        for value, gradient in zip(node.inputs, results, strict=True):
            if gradient is not None:
                accumulate(value, unbroadcast(e, gradient, value))
    return [gradients.get(v) for v in wanted]


def unbroadcast(e: Builder, gradient: Value, value: Value) -> Value:
    """The gradient of an operand that broadcasting made wide, summed to the operand's shape."""
    if gradient.type.dtype is not value.type.dtype:
        raise GraphTypeError(f"The gradient {gradient.type} of an operand {value.type} has another dtype; cast it.")
    shape, target = gradient.type.shape, value.type.shape
    if shape == target:
        return gradient
    padded = (1,) * (len(shape) - len(target)) + target
    if len(padded) != len(shape) or any(m not in (1, n) for n, m in zip(shape, padded, strict=True)):
        raise GraphTypeError(f"The gradient {gradient.type} of an operand {value.type} has another shape.")
    axes = tuple(i for i, (n, m) in enumerate(zip(shape, padded, strict=True)) if n != m)
    summed: Value = e.reshape(e.sum(gradient, axis=axes, keepdims=True), shape=target)
    return summed
