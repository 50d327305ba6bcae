"""Documentation in a saved model: phases, cells, user lines and states.

Viewers such as Netron show the documentation string and the `metadata_props` of a node, an input and an output, and
the types in `value_info` on edges. `namespace` is the key under which PyTorch's exporter keeps the path of a node.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ModelProto, NodeProto, ValueInfoProto

from graphls.base.text.plain import clipped
from graphls.base.version import __version__
from graphls.ir.graph import Graph, Node
from graphls.ir.text import declarations, lines
from graphls.runtime.lowering import Lowered
from graphls.runtime.lowering.protos import clean, copied, graphs, with_types

NAMESPACE = "namespace"
PHASE, SCOPE, PRIMITIVE, LOCATION = (f"graphls.{key}" for key in ("phase", "scope", "primitive", "location"))
ROLE, STATE, IN_PLACE = "graphls.role", "graphls.state", "graphls.in_place"
GRAPH, STATES, VERSION = "graphls.graph", "graphls.states", "graphls.base.version"
LONGEST = 1000
"""Characters of the longest line of IR text; constants are truncated to it."""


def described(lowered: Lowered, graph: Graph) -> ModelProto:
    """A copy of a lowered model that documents for every operator the node of `graph` that it computes.

    Each operator has the node's line of IR text as its documentation string and phase, cell path, primitive and
    user's line in `metadata_props`; inputs and outputs have their role and their state there. Every tensor whose type
    follows from the standard operators has it in `value_info`. The computation is the same.
    """
    model = copied(lowered.model)
    _describe_nodes(model, lowered.origins, _texts(graph))
    _describe_ends(model, lowered, graph)
    for ours, typed in zip(graphs(model.graph), graphs(with_types(lowered.model).graph), strict=True):
        ours.value_info.extend(typed.value_info)
    _describe_model(model, graph)
    return model


def _texts(graph: Graph) -> dict[object, str]:
    """The first line of IR text of each node."""
    texts: dict[object, str] = {}
    for line, shown in lines(graph):
        if isinstance(shown, Node):
            texts.setdefault(shown, line.strip())
    return texts


def _describe_nodes(model: ModelProto, origins: Mapping[str, Node], texts: Mapping[object, str]) -> None:
    for part in graphs(model.graph):
        for proto in part.node:
            node = origins.get(proto.name)
            if node is not None:
                proto.doc_string = clean(clipped(texts[node], LONGEST))
                _describe_node(proto, node)


def _describe_node(proto: NodeProto, node: Node) -> None:
    _set(proto, NAMESPACE, "/".join((node.phase, *filter(None, node.scope.split(".")))))
    _set(proto, PHASE, node.phase)
    _set(proto, SCOPE, node.scope)
    _set(proto, PRIMITIVE, node.primitive.name)
    if node.loc is not None:
        _set(proto, LOCATION, str(node.loc))


def _describe_ends(model: ModelProto, lowered: Lowered, graph: Graph) -> None:
    roles: dict[str, dict[str, str]] = {name: {ROLE: "input"} for name in lowered.inputs}
    roles |= {name: {ROLE: "state", STATE: state} for state, name in lowered.states.items()}
    roles |= {name: {ROLE: "random", SCOPE: node.scope} for node, name in lowered.host}
    roles |= {name: {ROLE: "output"} for name in lowered.outputs}
    in_place = {write.state.name for write in graph.writes if write.in_place}
    for state, name in lowered.writes.items():
        roles[name] = {ROLE: "write", STATE: state} | ({IN_PLACE: "true"} if state in in_place else {})
    for info in (*model.graph.input, *model.graph.output):
        role = roles[info.name]
        info.doc_string = _sentence(role)
        for key, value in role.items():
            _set(info, key, value)


def _sentence(role: Mapping[str, str]) -> str:
    state = f"The state {clean(role.get(STATE, ''))}"
    return {
        "input": "An input of the step.",
        "output": "An output of the step.",
        "random": "Random numbers, which are drawn anew before every step.",
        "state": f"{state} before the step.",
        "write": f"{state} after the step.",
    }[role[ROLE]]


def _describe_model(model: ModelProto, graph: Graph) -> None:
    model.producer_version = __version__
    _set(model, VERSION, __version__)
    _set(model, GRAPH, graph.name)
    _set(model, STATES, "\n".join(declarations([state]) for state in graph.states))


def _set(proto: ModelProto | NodeProto | ValueInfoProto, key: str, value: str) -> None:
    proto.metadata_props.add(key=key, value=clean(value))
