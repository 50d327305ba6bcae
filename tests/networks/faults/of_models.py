"""Faults of a model: a state, a number, an operand or a cast is another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto

from graphls.runtime.lowering.protos import graphs, operators
from graphls.runtime.lowering.target import EXACT
from tests.networks.agreement import Prepared
from tests.networks.evaluator import Array, declared
from tests.networks.faults.fault import Faulty, Generator, one


def _changed(prepared: Prepared, where: str, change: Callable[[ModelProto], None]) -> Faulty:
    lowered = prepared.lowered("cuda")
    model = ModelProto()
    model.CopyFrom(lowered.model)
    change(model)
    return Faulty(where, replace(lowered, model=model))


def state_is_not_updated(prepared: Prepared, rng: Generator) -> Faulty:
    """The state stays as it was."""
    lowered = prepared.lowered("cuda")
    name = one(rng, sorted(lowered.writes))
    kept = {**lowered.writes, name: lowered.states[name]}
    return Faulty(name, replace(lowered, writes=kept))


def states_are_exchanged(prepared: Prepared, rng: Generator) -> Faulty:
    """Two states of one type get each other's value."""
    lowered = prepared.lowered("cuda")
    types: dict[Any, list[str]] = {}
    for write in prepared.graph.writes:
        types.setdefault(write.state.type, []).append(write.state.name)
    first, *others = one(rng, [names for names in types.values() if len(names) > 1])
    second = one(rng, others)
    tensors = {first: lowered.writes[second], second: lowered.writes[first]}
    return Faulty(f"{first}, {second}", replace(lowered, writes={**lowered.writes, **tensors}))


def scale_changes_otherwise(prepared: Prepared, rng: Generator) -> Faulty:
    """A number in the update of the loss scale is another: its factor, or how many steps it waits."""
    lowered = prepared.lowered("cuda")
    made = {name for name, node in lowered.origins.items() if node.scope.endswith("loss_scaling_manager")}
    read = {name for node in operators(lowered.model.graph.node) if node.name in made for name in node.input}
    name = one(rng, sorted(t.name for t in lowered.model.graph.initializer if t.name in read))
    return _changed(prepared, name, lambda model: _set(model, name, lambda array: (array * 2 + 1).astype(array.dtype)))


def constant_is_off_by_a_digit(prepared: Prepared, rng: Generator) -> Faulty:
    """One float constant has another last digit."""
    floats = [t for t in prepared.lowered("cuda").model.graph.initializer if t.data_type == TensorProto.FLOAT]
    name = one(rng, sorted(t.name for t in floats))
    return _changed(prepared, name, lambda model: _set(model, name, lambda a: np.nextafter(a, np.float32(np.inf))))


def _set(model: ModelProto, name: str, change: Callable[[Array], Array]) -> None:
    (tensor,) = (t for t in model.graph.initializer if t.name == name)
    tensor.CopyFrom(onnx.numpy_helper.from_array(change(onnx.numpy_helper.to_array(tensor)), name))


def operands_are_exchanged(prepared: Prepared, rng: Generator) -> Faulty:
    """a - b is b - a, or a / b is b / a."""
    lowered = prepared.lowered("cuda")
    found = (n for n in operators(lowered.model.graph.node) if n.op_type in ("Sub", "Div") and n.input[0] != n.input[1])
    name = one(rng, found).name
    return _changed(prepared, name, lambda model: _reverse(model, name))


def _reverse(model: ModelProto, name: str) -> None:
    operator = _operator(model, name)
    names = list(operator.input)
    del operator.input[:]
    operator.input.extend(reversed(names))


def _operator(model: ModelProto, name: str) -> NodeProto:
    (found,) = (node for node in operators(model.graph.node) if node.name == name)
    return found


def cast_is_added(prepared: Prepared, rng: Generator) -> Faulty:
    """A float32 operator of the update gets an operand that has been in 16 bits."""
    lowered = prepared.lowered("cuda")
    kinds = declared(lowered.model)
    updates = {name for name, node in lowered.origins.items() if node.phase == "update"}
    found = [
        (node.name, place)
        for node in operators(lowered.model.graph.node)
        for place, name in enumerate(node.input)
        if node.name in updates and node.op_type not in EXACT and kinds.get(name) == np.float32
    ]
    name, place = one(rng, found)
    return _changed(prepared, f"{name}, operand {place}", lambda model: _narrow(model, name, place))


def _narrow(model: ModelProto, name: str, place: int) -> None:
    for graph in graphs(model.graph):
        for number, node in enumerate(graph.node):
            if node.name == name:
                wide, half, again = node.input[place], f"{name}.half", f"{name}.wide"
                casts = ((wide, half, TensorProto.FLOAT16), (half, again, TensorProto.FLOAT))
                node.input[place] = again
                added = [onnx.helper.make_node("Cast", [a], [b], f"{b}.cast", to=to) for a, b, to in casts]
                nodes = [*graph.node[:number], *added, *graph.node[number:]]
                del graph.node[:]
                graph.node.extend(nodes)
                return


def update_is_not_skipped(prepared: Prepared, rng: Generator) -> Faulty:
    """The parameters are updated whether the status is raised or not."""
    lowered = prepared.lowered("cuda")
    branches = [node.name for node in lowered.model.graph.node if node.op_type == "If"]
    name = one(rng, (name for name in branches if lowered.origins[name].phase == "update"))
    return _changed(prepared, name, lambda model: _take_longer(_operator(model, name)))


def _take_longer(branch: NodeProto) -> None:
    bodies = [attribute.g for attribute in branch.attribute]
    shorter, longer = sorted(bodies, key=lambda body: len(body.node))
    shorter.CopyFrom(longer)


def random_tensors_are_exchanged(prepared: Prepared, rng: Generator) -> Faulty:
    """Two random tensors of one type get each other's numbers."""
    lowered = prepared.lowered("cuda")
    types: dict[Any, list[int]] = {}
    for number, (node, _) in enumerate(lowered.host):
        types.setdefault((node.output.type, repr(node.attrs.get("p"))), []).append(number)
    first, *others = one(rng, [numbers for numbers in types.values() if len(numbers) > 1])
    second = one(rng, others)
    host = list(lowered.host)
    host[first], host[second] = (host[first][0], host[second][1]), (host[second][0], host[first][1])
    return Faulty(f"{first}, {second}", replace(lowered, host=tuple(host)))
