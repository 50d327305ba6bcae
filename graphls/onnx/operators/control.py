"""Control flow: If, Loop and Scan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import Type
from graphls.onnx.interpreter import Running
from graphls.onnx.operators.conversion import check_size
from graphls.onnx.program import Block
from graphls.onnx.table import operator
from graphls.onnx.values import Dynamic, Input, Ints, ModelValue, OptionalInput, array_of, is_known
from graphls.ops.operands import tensor_of

Carried = tuple[ModelValue, ...]
"""The values that a loop carries from one iteration to the next, and other groups of results."""
_FEW = 8
"""Iterations up to which a loop is unrolled."""
_MANY = 1000
"""Iterations up to which a loop is unrolled that changes the shapes of carried tensors."""
_MOST = 10_000
"""Iterations up to which a condition is evaluated to count them."""
_ENDLESS = 2**31


@operator("If")
def branch(node: Running, condition: Input, *, then_branch: Block, else_branch: Block) -> Carried:
    if is_known(condition):
        block = then_branch if array_of(condition).reshape(()) else else_branch
        return tuple(node.interpreter.run(block, (), node.values))
    flag = ops.reshape(condition, ())
    results: Carried = ops.cond(flag, lambda: tuple(node.run(then_branch)), lambda: tuple(node.run(else_branch)))
    return results


@operator("Loop", preferred=(0, 1))
def loop(
    node: Running, trip_count: OptionalInput = None, condition: OptionalInput = None, *carried: ModelValue, body: Block
) -> Carried:
    """Unrolled, or a scan, where the number of iterations is known or can be counted; otherwise a while loop."""
    count = None if trip_count is None else _number(trip_count)
    starts = True if condition is None else _truth(condition)
    if starts is False:
        count = 0
    computes_condition = _computes_condition(body)
    if count is not None and count >= _ENDLESS and not computes_condition and starts is not None:
        raise GraphValueError(f"it has {count} iterations, which would never end.")
    if starts and computes_condition and (count is not None or trip_count is None):
        count = _counted(node, count, carried, body)
    elif starts is None or computes_condition:
        count = None
    if count is None:
        return _while(node, trip_count, condition, carried, body)
    if count > _FEW and not any(isinstance(value, (list, type(None))) for value in carried):
        results = _scanned(node, count, carried, body)
        if results is not None:
            return results
    return _unrolled(node, count, carried, body)


def _number(trip_count: Input) -> int | None:
    return int(array_of(trip_count).reshape(())) if is_known(trip_count) else None


def _truth(condition: Input) -> bool | None:
    return bool(array_of(condition).reshape(())) if is_known(condition) else None


def _computes_condition(body: Block) -> bool:
    """True if the body of a loop computes the condition of the next iteration, rather than passing True on."""
    name = body.outputs[0]
    makers = {output: inner for inner in body.nodes for output in inner.outputs}
    while name in makers and makers[name].kind in ("Identity", "Cast"):
        name = makers[name].inputs[0]
    if name == body.inputs[1]:
        return False
    return not (name in body.constants and bool(body.constants[name].array.reshape(())))


def _counted(node: Running, limit: int | None, carried: Carried, body: Block) -> int | None:
    """The iterations of a loop whose conditions follow from known values; None where they do not, or are many."""
    condition, numbers = _condition_of(body)
    state = dict.fromkeys(range(len(carried)), None) | {i: carried[i] for i in numbers if i < len(carried)}
    if len(state) > len(carried) or not all(is_known(carried[i]) for i in numbers):
        return None
    for count in range(_MOST if limit is None else min(limit, _MOST)):
        results = node.run(condition, Tensor(np.int64(count)), Tensor(np.bool_(True)), *state.values())
        if not all(map(is_known, results)):
            return None
        if not array_of(results[0]).reshape(()):
            return count + 1
        state.update(zip(numbers, results[1:], strict=True))
    return limit if limit is not None and limit <= _MOST else None


def _condition_of(body: Block) -> tuple[Block, list[int]]:
    """The part of a loop's body that its next condition depends on, and the numbers of the values carried for it."""
    producers = {name: inner for inner in body.nodes for name in inner.outputs}
    numbers: list[int] = []
    seen, worklist = set[str](), [body.outputs[0]]
    while worklist:
        name = worklist.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in producers:
            worklist += [*producers[name].inputs, *producers[name].captured]
        elif name in body.inputs[2:]:
            numbers.append(body.inputs.index(name) - 2)
            worklist.append(body.outputs[numbers[-1] + 1])
    nodes = tuple(inner for inner in body.nodes if seen.intersection(inner.outputs))
    outputs = (body.outputs[0], *(body.outputs[i + 1] for i in numbers))
    return replace(body, outputs=outputs, nodes=nodes), numbers


def _unrolled(node: Running, count: int, carried: Carried, body: Block) -> Carried:
    if count > _MANY:
        raise GraphValueError(f"its {count} iterations change the types of carried values, and are too many to unroll.")
    rows: list[list[ModelValue]] = []
    for i in range(count):
        results = node.run(body, Tensor(np.int64(i)), Tensor(np.bool_(True)), *carried)
        rows.append(results[1 + len(carried) :])
        carried = tuple(results[1 : 1 + len(carried)])
    return (*carried, *_stacked(node, body, rows, len(carried)))


def _stacked(node: Running, body: Block, rows: list[list[ModelValue]], carried: int) -> list[Tensor]:
    if rows:
        return [ops.stack(column) for column in zip(*rows, strict=True)]
    return [Tensor(np.zeros((0,), np.float32)) for _ in body.outputs[1 + carried :]]


class _Changes(Exception):
    """A carried value of a loop changes its type."""


def _scanned(node: Running, count: int, carried: Carried, body: Block) -> Carried | None:
    """The loop as a scan; None where a carried value changes its type."""
    check_size(count)

    def once(state: Carried, i: Tensor) -> tuple[Carried, Carried]:
        results = node.run(body, i, Tensor(np.bool_(True)), *state)
        after, scanned = tuple(results[1 : 1 + len(state)]), tuple(results[1 + len(state) :])
        if _types(after) != _types(state):
            raise _Changes
        return after, scanned

    try:
        last, rows = ops.scan(once, tuple(map(tensor_of, carried)), Tensor(np.arange(count)))
    except _Changes:
        return None
    return (*last, *rows)


def _types(values: Carried) -> list[Type]:
    return [tensor_of(value).type for value in values]


def _while(
    node: Running, trip_count: OptionalInput, condition: OptionalInput, carried: Carried, body: Block
) -> Carried:
    """The loop as a while loop; results that it collects have an unknown length and stay dynamic."""
    if any(isinstance(value, (list, type(None))) for value in carried):
        raise GraphValueError("it carries a sequence, for a number of iterations that is known only when it runs.")
    text = "it collects results for a number of iterations that is known only when it runs"
    collected = [Dynamic(f"The operator {node.node}: {text}") for _ in body.outputs[1 + len(carried) :]]
    start = tuple(map(tensor_of, carried))
    first = Tensor(np.bool_(True)) if condition is None else ops.reshape(condition, ())
    limit = None if trip_count is None else ops.cast(ops.reshape(trip_count, ()), "int64")

    def goes_on(state: tuple[Tensor, ...]) -> Tensor:
        return state[1] if limit is None else ops.logical_and(state[1], ops.less(state[0], limit))

    def once(state: tuple[Tensor, ...]) -> Carried:
        results = node.run(body, state[0], state[1], *state[2:])
        return (state[0] + 1, ops.reshape(results[0], ()), *results[1 : 1 + len(carried)])

    last = ops.while_loop(goes_on, once, (Tensor(np.int64(0)), first, *start))[2:]
    return (*last, *collected)


@operator("Scan")
def scan_of_batch(
    node: Running, lengths: OptionalInput, *inputs: Input, body: Block, num_scan_inputs: int,
    directions: Ints | None = None,
) -> Carried:  # fmt: skip
    """The definition of version 8: a scan for each sample of a batch, along the second axis."""
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
    node: Running, *inputs: Input, body: Block, num_scan_inputs: int, scan_input_axes: Ints | None = None,
    scan_input_directions: Ints | None = None, scan_output_axes: Ints | None = None,
    scan_output_directions: Ints | None = None,
) -> Carried:  # fmt: skip
    count = len(inputs) - num_scan_inputs
    axes = scan_input_axes or [0] * num_scan_inputs
    directions = scan_input_directions or [0] * num_scan_inputs
    xs = tuple(
        _forwards(ops.movedim(x, axis, 0), direction)
        for x, axis, direction in zip(inputs[count:], axes, directions, strict=True)
    )

    def once(state: Carried, elements: Carried) -> tuple[Carried, Carried]:
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


def _forwards(x: Tensor, direction: int) -> Tensor:
    return ops.flip(x, (0,)) if direction else x
