"""The output that a loss is of, and the activation before it that the loss computes itself."""

from __future__ import annotations

from collections.abc import Container, Mapping

from onnx import GraphProto, NodeProto, TensorProto

from graphls.backends.onnx.protos import text_of
from graphls.ir.errors import GraphValueError
from graphls.ir.registry import nearest

_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
_PASSING = ("Identity", "Cast")
_SHAPING = (*_PASSING, "Reshape", "Expand", "Squeeze", "Unsqueeze")


def prediction_of(graph: GraphProto, name: str | None) -> str:
    """The output that the loss is of: that of a name, or the only one of floats."""
    outputs = {text_of(info.name): info.type for info in graph.output}
    if name is not None:
        tensors = {*outputs, *(text_of(o) for node in graph.node for o in node.output)}
        if name not in tensors:
            near = nearest(name, tensors)
            raise GraphValueError(f"The model has no tensor {name!r}, which --prediction asks for{near}.")
        return name
    floats = [name for name, kind in outputs.items() if kind.tensor_type.elem_type in _FLOATS]
    if len(floats) != 1:
        listed = ", ".join(map(repr, floats or outputs))
        text = f"The model has {len(floats)} outputs of floats, and a loss is of one"
        raise GraphValueError(f"{text}; name it with --prediction, one of {listed}.")
    return floats[0]


def before(graph: GraphProto, output: str, activation: str) -> tuple[NodeProto | None, str]:
    """The activation that makes an output, and what it takes; no node and the output itself where there is none."""
    makers = {text_of(o): node for node in graph.node for o in node.output}
    node = _maker(makers, output, _PASSING)
    if node is not None and node.op_type == activation:
        return node, text_of(node.input[0])
    powers = _written_out(makers, node) if activation == "Softmax" and node is not None else None
    return (None, output) if powers is None else (node, text_of(powers.input[0]))


def _maker(makers: Mapping[str, NodeProto], tensor: str, passing: Container[str]) -> NodeProto | None:
    """The operator of ONNX that makes a tensor, behind those that pass it on."""
    node = makers.get(tensor)
    while node is not None and not text_of(node.domain) and node.op_type in passing:
        node = makers.get(text_of(node.input[0]))
    return None if node is None or text_of(node.domain) else node


def _written_out(makers: Mapping[str, NodeProto], node: NodeProto) -> NodeProto | None:
    """The Exp of a softmax that is written out, exp(x) / sum(exp(x)), as exporters of JAX do; None for another node."""
    if node.op_type != "Div":
        return None
    powers = _maker(makers, text_of(node.input[0]), _PASSING)
    total = _maker(makers, text_of(node.input[1]), _SHAPING)
    if powers is None or total is None or (powers.op_type, total.op_type) != ("Exp", "ReduceSum"):
        return None
    return powers if _maker(makers, text_of(total.input[0]), _PASSING) is powers else None
