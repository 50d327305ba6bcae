"""Gradients of cells and functions in a trace: finds the forward call and emits a `gradient` node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, structure
from graphls.frontend.tensors.tensor import Symbol, Tensor, is_tensor
from graphls.frontend.trace.calls import CallRecord
from graphls.frontend.trace.ordering import without_depends
from graphls.frontend.trace.rewriting.functions import rewritten
from graphls.frontend.trace.states import copies
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.graph import Value


def gradient(
    tracer: Tracer, function: Callable[..., Any], args: tuple[Any, ...], positions: Sequence[int],
    weights: Sequence[Parameter], sensitivity: Any = None, has_aux: bool = False,
) -> tuple[Any, list[Any], list[Any]]:  # fmt: skip
    """The outputs of `function(*args)`, and its gradients by positional inputs and by weights.

    The forward of a cell that was already called on these inputs is used again. Without a sensitivity, all
    outputs are summed; with `has_aux`, only the first is differentiated.
    """
    record = forward_of(tracer, function, args, positions)
    by_input, by_weight = backward_of(tracer, record, positions, weights, sensitivity, has_aux)
    return copies(record.outputs), by_input, by_weight


def forward_of(
    tracer: Tracer, function: Callable[..., object], args: tuple[object, ...], positions: Sequence[int]
) -> CallRecord:
    """The call of a function to differentiate: a recorded call of a cell, or a new one."""
    return find_call(tracer, function, args, positions) or run_forward(tracer, function, args, positions)


def backward_of(
    tracer: Tracer, record: CallRecord, positions: Sequence[int], weights: Sequence[Parameter] = (),
    sensitivity: object = None, has_aux: bool = False,
) -> tuple[list[Symbol], list[Symbol]]:  # fmt: skip
    """The gradients of a call by positional inputs and by weights; zeros where it returns no numbers."""
    results = tensor_results(tracer, record, has_aux)
    inputs = [tracer.value(record.inputs[i]) for i in positions]
    # The states that the call has read, without later writes.
    before = dict(tracer.writes[: record.start])
    states = [before.get(p) or tracer.state(p) for p in weights]
    with tracer.phase("backward"):
        pairs = seeds(tracer, results, sensitivity)
        gradients = emit_gradient(tracer, pairs, [*inputs, *states], record)
    return gradients[: len(inputs)], gradients[len(inputs) :]


def tangents_of(
    tracer: Tracer, record: CallRecord, positions: Sequence[int], vectors: Sequence[object], has_aux: bool = False
) -> list[Symbol]:
    """Jacobian-vector products: the change of a call's float outputs where its inputs move along vectors.

    The gradient is linear in the sensitivities, so its gradient by these, with the vectors as sensitivities, is the
    product (Griewank and Walther, 2008, section 3.2, with both modes exchanged).
    """
    floats = [v for v in tensor_results(tracer, record, has_aux) if v.type.dtype.is_float]
    inputs = [tracer.value(record.inputs[i]) for i in positions]
    with tracer.phase("backward"):
        zeros = [tracer.zeros(v.type) for v in floats]
        # Values of their own, because zeros of one type are one constant.
        variables = [tracer.emit("depend", (v,), {})[0] for v in zeros]
        slopes = emit_gradient(tracer, list(zip(floats, variables, strict=True)), inputs, record)
        pairs = [(g.graph_value, seed(tracer, g.graph_value, along)) for g, along in zip(slopes, vectors, strict=True)]
        inner = CallRecord(None, tuple(map(Symbol, variables)), (), record.start, record.end)
        return emit_gradient(tracer, pairs, variables, inner)


def tensor_results(tracer: Tracer, record: CallRecord, has_aux: bool = False) -> list[Value]:
    """The tensors that a call returned; with `has_aux`, those of the first result."""
    of = _without_aux(record.outputs) if has_aux else record.outputs
    return [tracer.value(leaf) for leaf in leaves(of) if is_tensor(leaf)]


def _without_aux(outputs: object) -> Any:
    if not isinstance(outputs, tuple) or not outputs:
        raise GraphTypeError("With has_aux, a function gives a tuple and the first is differentiated.")
    return outputs[0]


def emit_gradient(
    tracer: Tracer, results: Sequence[tuple[Value, Value]], sources: Sequence[Value], record: CallRecord
) -> list[Symbol]:
    """The gradients of results, paired with their sensitivities, by sources.

    Gradients by integers have a node of their own, as other rules hold for them. A gradient by floats is that of the
    float results only, and one by other dtypes is zero.
    """
    inputs = [tracer.value(leaf) for leaf in leaves(record.inputs) if isinstance(leaf, Symbol)]
    gradients_by: dict[Value, Value] = {}
    for kinds in (("float",), ("float", "int", "uint")):
        pairs = [pair for pair in results if pair[0].type.dtype.kind in kinds]
        by = [v for v in dict.fromkeys(sources) if v.type.dtype.kind in kinds and v not in gradients_by]
        if pairs and by:
            constants = [v for v in dict.fromkeys(inputs) if v not in by]
            operands = (*(v for v, _ in pairs), *(s for _, s in pairs), *by, *constants)
            outputs = tracer.emit("gradient", operands, {"of": len(pairs), "wrt": len(by)})
            gradients_by.update(zip(by, outputs, strict=True))
    return [Symbol(gradients_by[v] if v in gradients_by else tracer.zeros(v.type)) for v in sources]


def seeds(tracer: Tracer, results: Sequence[Value], sensitivity: object) -> list[tuple[Value, Value]]:
    """The numeric results with their sensitivities: ones, or the given ones, for all results, numbers or floats."""
    numbers = [v for v in results if v.type.dtype.kind in ("float", "int", "uint")]
    if sensitivity is None:
        return [(v, seed(tracer, v, 1)) for v in numbers]
    floats = [v for v in results if v.type.dtype.is_float]
    sensitivities = [leaf for leaf in leaves(sensitivity) if leaf is not None]
    takers = next((vs for vs in (results, numbers, floats) if len(vs) == len(sensitivities)), None)
    if takers is None:
        raise GraphValueError(
            f"The function has {len(results)} outputs and got {len(sensitivities)} sensitivities; give one for each.",
        )
    return [(v, seed(tracer, v, s)) for v, s in zip(takers, sensitivities, strict=True) if v in numbers]


def seed(tracer: Tracer, result: Value, sensitivity: Any) -> Value:
    """A sensitivity as a value of the type of a result; a single element fits a result of one element."""
    value = tracer.value(sensitivity, result.type.dtype)
    if value.type.dtype is not result.type.dtype:
        (value,) = tracer.emit("cast", (value,), {"dtype": result.type.dtype})
    if value.type.shape != result.type.shape:
        move = "reshape" if value.type.size == result.type.size == 1 else "broadcast_to"
        (value,) = tracer.emit(move, (value,), {"shape": result.type.shape})
    return value


def find_call(
    tracer: Tracer, function: object, args: tuple[object, ...], positions: Sequence[int]
) -> CallRecord | None:
    """The last recorded call of a cell on these values, if no state that it read has changed since."""
    for record in (r for records in reversed(tracer.here.records) for r in reversed(records)):
        if record.cell is function and matches(tracer, record, args, positions):
            return record
    return None


def matches(tracer: Tracer, record: CallRecord, args: tuple[object, ...], positions: Sequence[int]) -> bool:
    leaf_values = [without_depends(tracer, leaf) for leaf in leaves(args)]
    recorded = [without_depends(tracer, leaf) for leaf in leaves(record.inputs)]
    if structure(args) != structure(record.inputs) or not all(map(_same, leaf_values, recorded)):
        return False
    changed = {p for p, _ in tracer.writes[record.end :]}
    if changed and not changed.isdisjoint(record.cell.get_parameters()):
        return False
    chosen = [without_depends(tracer, args[i]) for i in positions]
    return all(sum(item is other for other in leaf_values) == 1 for item in chosen)


def run_forward(tracer: Tracer, function: object, args: tuple[object, ...], positions: Sequence[int]) -> CallRecord:
    """Call the function on fresh copies of the inputs, so that equal inputs have separate gradients."""
    inputs = list(args)
    for i in positions:
        of = tracer.value(inputs[i] if isinstance(inputs[i], Tensor) else Tensor(inputs[i]))
        inputs[i] = Symbol(tracer.emit("depend", (of,), {}, name=of.name)[0])
    tracer.note_owner(function)
    start = len(tracer.writes)
    outputs = copies(rewritten(function)(*copies(tuple(inputs))))
    return CallRecord(function, tuple(inputs), outputs, start, len(tracer.writes))


def _same(item: object, recorded: object) -> bool:
    if isinstance(item, Value) or isinstance(recorded, Value) or is_tensor(item) or is_tensor(recorded):
        return item is recorded
    return type(item) is type(recorded) and bool(item == recorded)
