"""Branches and loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import Type
from graphls.onnx.interpreter import Running
from graphls.onnx.operators.conversion import check_size
from graphls.onnx.program import Block
from graphls.onnx.table import operator
from graphls.onnx.values import Open, array_of, is_known
from graphls.ops.operands import tensor_of

_FEW = 8
"""Rounds up to which a loop is written out."""
_MANY = 1000
"""Rounds up to which a loop is written out whose tensors change their shapes."""
_ENDLESS = 2**31


@operator("If")
def branch(node: Running, condition: Any, *, then_branch: Block, else_branch: Block) -> Any:
    if is_known(condition):
        return tuple(node.run(then_branch if array_of(condition).reshape(()) else else_branch))
    flag = ops.reshape(condition, ())
    return ops.cond(flag, lambda: tuple(node.run(then_branch)), lambda: tuple(node.run(else_branch)))


@operator("Loop", hoped=(0, 1))
def loop(node: Running, most: Any = None, condition: Any = None, *carried: Any, body: Block) -> Any:
    """Written out, or a scan, where the number of rounds is known; otherwise a loop that the graph ends."""
    count = None if most is None else _number(most)
    starts = True if condition is None else _truth(condition)
    if starts is False:
        count = 0
    decides = _decides(node, body, carried)
    if count is not None and count >= _ENDLESS and not decides and starts is not None:
        raise GraphValueError(f"it has {count} rounds, which would never end.")
    if starts is None or count is None or decides:
        return _while(node, most, condition, carried, body)
    if count > _FEW and not any(isinstance(value, (list, type(None))) for value in carried):
        found = _scanned(node, count, carried, body)
        if found is not None:
            return found
    return _written_out(node, count, carried, body)


def _number(most: Any) -> int | None:
    return int(array_of(most).reshape(())) if is_known(most) else None


def _truth(condition: Any) -> bool | None:
    return bool(array_of(condition).reshape(())) if is_known(condition) else None


def _decides(node: Running, body: Block, carried: Any) -> bool:
    """Whether the body of a loop says by what it computes whether the loop goes on."""
    name = body.outputs[0]
    makers = {output: inner for inner in body.nodes for output in inner.outputs}
    while name in makers and makers[name].kind in ("Identity", "Cast"):
        name = makers[name].inputs[0]
    if name == body.inputs[1]:
        return False
    return not (name in body.constants and bool(body.constants[name].array.reshape(())))


def _written_out(node: Running, count: int, carried: Any, body: Block) -> Any:
    if count > _MANY:
        raise GraphValueError(f"its {count} rounds change the types of what they carry, and are too many to write out.")
    rows: list[list[Any]] = []
    for i in range(count):
        results = node.run(body, Tensor(np.int64(i)), Tensor(np.bool_(True)), *carried)
        carried, scanned = results[1 : 1 + len(carried)], results[1 + len(carried) :]
        rows.append(scanned)
    return (*carried, *_stacked(node, body, rows, len(carried)))


def _stacked(node: Running, body: Block, rows: list[list[Any]], carried: int) -> list[Any]:
    if rows:
        return [ops.stack(column) for column in zip(*rows, strict=True)]
    return [Tensor(np.zeros((0,), np.float32)) for _ in body.outputs[1 + carried :]]


class _Changes(Exception):
    """What a loop carries changes its type."""


def _scanned(node: Running, count: int, carried: Any, body: Block) -> Any:
    """The loop as a scan; None where what it carries changes its type."""
    check_size(count)
    carried = tuple(map(tensor_of, carried))

    def once(state: Any, i: Any) -> Any:
        results = node.run(body, i, Tensor(np.bool_(True)), *state)
        after, scanned = tuple(results[1 : 1 + len(state)]), tuple(results[1 + len(state) :])
        if _types(after) != _types(state):
            raise _Changes
        return after, scanned

    try:
        last, rows = ops.scan(once, carried, Tensor(np.arange(count)))
    except _Changes:
        return None
    return (*last, *rows)


def _types(values: Any) -> list[Type]:
    return [tensor_of(value).type for value in values]


def _while(node: Running, most: Any, condition: Any, carried: Any, body: Block) -> Any:
    """The loop as one that ends by what it computes; results that it collects, nobody knows how many, stay open."""
    if any(isinstance(value, (list, type(None))) for value in carried):
        raise GraphValueError("it carries a sequence, for a number of rounds that is known only when it runs.")
    text = "it collects results for a number of rounds that is known only when it runs"
    collected = [Open(f"The operator {node.node}: {text}") for _ in body.outputs[1 + len(carried) :]]
    carried = tuple(map(tensor_of, carried))
    first = Tensor(np.bool_(True)) if condition is None else ops.reshape(condition, ())
    limit = None if most is None else ops.cast(ops.reshape(most, ()), "int64")

    def goes_on(state: Any) -> Any:
        return state[1] if limit is None else ops.logical_and(state[1], ops.less(state[0], limit))

    def once(state: Any) -> Any:
        results = node.run(body, state[0], state[1], *state[2:])
        return (state[0] + 1, ops.reshape(results[0], ()), *results[1 : 1 + len(carried)])

    last = ops.while_loop(goes_on, once, (Tensor(np.int64(0)), first, *carried))[2:]
    return (*last, *collected)


@operator("Scan")
def scan_of_batch(
    node: Running, lengths: Any, *inputs: Any, body: Block, num_scan_inputs: int, directions: Any = None
) -> Any:
    """What it was in version 8: a scan for each sample of a batch, along the second axis."""
    if lengths is not None:
        raise GraphValueError("it has a length for each sample; export the model with opset 9 or a newer one.")
    rows = [
        scan(node, *(tensor_of(x)[i] for x in inputs), body=body, num_scan_inputs=num_scan_inputs,
             scan_input_directions=directions)
        for i in range(tensor_of(inputs[0]).shape[0])
    ]  # fmt: skip
    return tuple(ops.stack(column) for column in zip(*rows, strict=True))


@operator("Scan", since=9)
def scan(
    node: Running, *inputs: Any, body: Block, num_scan_inputs: int, scan_input_axes: Any = None,
    scan_input_directions: Any = None, scan_output_axes: Any = None, scan_output_directions: Any = None,
) -> Any:  # fmt: skip
    count = len(inputs) - num_scan_inputs
    axes = scan_input_axes or [0] * num_scan_inputs
    directions = scan_input_directions or [0] * num_scan_inputs
    xs = tuple(
        _forwards(ops.movedim(x, axis, 0), direction)
        for x, axis, direction in zip(inputs[count:], axes, directions, strict=True)
    )

    def once(state: Any, elements: Any) -> Any:
        results = node.run(body, *state, *elements)
        return tuple(results[:count]), tuple(results[count:])

    last, rows = ops.scan(once, tuple(map(tensor_of, inputs[:count])), xs)
    out_axes = scan_output_axes or [0] * len(rows)
    out_directions = scan_output_directions or [0] * len(rows)
    moved = (
        ops.movedim(_forwards(row, direction), 0, axis)
        for row, axis, direction in zip(rows, out_axes, out_directions, strict=True)
    )
    return (*last, *moved)


def _forwards(x: Any, direction: int) -> Any:
    return ops.flip(x, (0,)) if direction else x
