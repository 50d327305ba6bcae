"""Functions of tensors that run in one session outside of a trace, rather than operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import reduce
from typing import Any, NamedTuple

from graphls.base.sharing.locks import holding_all
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.frontend.trace.inputs import input_checks
from graphls.frontend.trace.trace import Traced, fill_outputs, trace
from graphls.ir.compare import key_of_constant
from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.types import Type, float32
from graphls.passes import as_pipeline
from graphls.passes.inference import recognised
from graphls.step.calling.operators import has_runtime, pays

Function = Callable[..., Any]

LEAST = 1 << 12
"""How many elements the largest operand has at least; a function of fewer is computed step by step."""
FEW = 4
"""As many operations pay a session, however small they are: each takes Python 20 microseconds."""
PASSES = as_pipeline("gradient, fold, cse, dce")


class GroupedStep(NamedTuple):
    """A compiled group: its session, the arguments that it reads and writes, and the structure of its results."""

    ready: Any
    fed: tuple[int, ...]
    written: tuple[int, ...]
    checks: tuple[tuple[int, Node], ...]
    outputs: Any
    types: tuple[Type, ...]

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        for position, node in self.checks:
            node.primitive.evaluate((arguments[self.fed[position]].array,), node.attrs, ())
        operands = [arguments[position] for position in self.fed]
        with holding_all(operand.storage for operand in operands if type(operand) is Parameter):
            results = self.ready.run([operand.array for operand in operands])
            for position, value in zip(self.written, results[len(self.types) :], strict=True):
                arguments[position].set_data(value)
        return fill_outputs(self.outputs, [*map(Tensor.on_host, results, self.types)])


STEP_BY_STEP: Any = object()


def compute_together(function: Function, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """The results of a function, in one session where that pays, else step by step.

    Which way it is computed depends on the function, the types of the tensors that it is given and everything else that
    it is given, so that the same call always gives the same bits.
    """
    arguments = (*args, *options.values())
    key = _key((function, *options), arguments)
    if key is not None and has_runtime():
        from graphls.runtime.onnxruntime.operators import cached

        group = cached(key, lambda: _compiled_group(function, args, options))
        if group is not STEP_BY_STEP:
            try:
                return group(arguments)
            except Exception:
                pass  # such as for want of memory; the function itself says what is wrong
    return function(*args, **options)


def _key(start: tuple[Hashable, ...], arguments: tuple[Any, ...]) -> Hashable | None:
    """The cache key of a call; None for those that are computed step by step."""
    key: list[Hashable] = [*start]
    most, parameters = 0, set()
    for item in arguments:
        kind = type(item)
        if kind is Tensor or kind is Parameter:
            dtype, shape = item.type.dtype, item.type.shape
            if (dtype.is_float and dtype is not float32) or id(item) in parameters:
                return None
            if kind is Parameter:
                parameters.add(id(item))
            key.append((kind, dtype, shape))
            most = max(most, item.type.size)
        else:
            try:
                key.append(key_of_constant(item))
            except TypeError:
                return None
    return tuple(key) if most >= LEAST else None


def _compiled_group(function: Function, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """The compiled group of a function; STEP_BY_STEP where it does more than compute, or a session does not pay."""
    from graphls.runtime.onnxruntime.operators import operation_model

    def called(*arguments: Any) -> Any:
        return function(*arguments[: len(args)], **dict(zip(options, arguments[len(args) :], strict=True)))

    arguments = (*args, *options.values())
    try:
        traced = trace(called, arguments)
        graph = reduce(lambda graph, each: each.run(graph), PASSES.passes, traced.graph)
        checks = tuple(input_checks(graph))
        if not all(_only_computes(node, checks) for node in walk(graph)) or not _is_worth_it(graph):
            return STEP_BY_STEP
        positions = _argument_positions(traced, arguments)
        fed = tuple(positions[v] for v in (*graph.inputs, *graph.states))
        written = tuple(positions[w.state] for w in graph.writes)
        session = operation_model(recognised(_without_states(graph)))
        types = tuple(v.type for v in graph.outputs)
        return GroupedStep(session, fed, written, checks, traced.outputs, types)
    except Exception:
        return STEP_BY_STEP  # where what is wrong is said


def _only_computes(node: Node, checks: tuple[tuple[int, Node], ...]) -> bool:
    """Whether a node only computes, or checks an operand of the function, which is checked before the session runs."""
    does = node.primitive
    checks_value = does.name == "check_labels" and all(node is not known for _, known in checks)
    return not (does.on_host or does.calls_python or does.has_effect or does.is_collective or checks_value)


def _is_worth_it(graph: Graph) -> bool:
    """Whether a session is faster than the operations one by one."""
    nodes = [node for node in graph.nodes if not node.primitive.is_constant]
    return len(nodes) >= FEW or any(
        pays(node.primitive, tuple(v.type for v in node.inputs), node.attrs, tuple(v.type for v in node.outputs))
        for node in nodes
    )


def _argument_positions(traced: Traced, arguments: tuple[Any, ...]) -> dict[Value, int]:
    """The positions of inputs and states among the arguments; raises KeyError for a state that is not an argument."""
    tensors = (position for position, item in enumerate(arguments) if type(item) is Tensor)
    parameters = {id(item): position for position, item in enumerate(arguments) if type(item) is Parameter}
    states = {state: parameters[id(traced.parameters[state.name])] for state in traced.graph.states}
    return {**dict(zip(traced.graph.inputs, tensors, strict=True)), **states}


def _without_states(graph: Graph) -> Graph:
    """The graph with its states as inputs and their new values as outputs."""
    inputs, outputs = (*graph.inputs, *graph.states), (*graph.outputs, *(write.value for write in graph.writes))
    for number, value in enumerate(inputs):
        value.name = f"x{number}"  # not as a parameter, so that layers share a session
    return graph.replace(inputs=inputs, states=(), writes=(), outputs=outputs)
