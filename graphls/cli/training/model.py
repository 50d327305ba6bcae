"""Loads the ONNX model as a network: its inputs, the output that the loss takes, and the trainable tensors."""

from __future__ import annotations

import argparse
from collections.abc import Container, Mapping
from dataclasses import dataclass

from onnx import GraphProto, NodeProto, TensorProto, TypeProto

import graphls.onnx
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.cli.arguments import fixed_values
from graphls.interop.adapters import lora
from graphls.interop.adapters.lora import adapters_of
from graphls.ir.registry import nearest
from graphls.ir.types import DTYPES, DType, float16
from graphls.onnx.importing.files import read
from graphls.onnx.importing.types import element_type
from graphls.runtime.lowering.protos import text_of

Shape = tuple["int | None", ...]
"""Sizes of axes as a model declares them, None for dynamic ones."""


@dataclass(frozen=True)
class Input:
    """An input of a model as declared; `shape` is None if the model does not declare its axes."""

    name: str
    dtype: DType
    shape: Shape | None

    @property
    def row(self) -> Shape | None:
        """The shape of one row of a batch."""
        return None if self.shape is None else self.shape[1:]


@dataclass(frozen=True)
class Network:
    """A model as a cell, with its declared inputs and prediction.

    `prediction` is the declared shape of the output that the loss takes, `activation` the node at the end of the model
    that was removed because the loss includes it.
    """

    cell: graphls.onnx.OnnxCell
    inputs: tuple[Input, ...]
    prediction: Shape | None
    activation: str = ""

    @property
    def batch_size(self) -> int | None:
        """The batch size of the model; None if it is dynamic."""
        sizes = {i.shape[0] for i in self.inputs if i.shape}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def has_half(self) -> bool:
        """Tells whether a float16 tensor of the model is trained, or has an adapter."""
        trained = self.cell.get_parameters() if adapters_of(self.cell) else self.cell.trainable_params()
        return any(p.dtype is float16 for p in trained)

    def sizes(self) -> str:
        """A sentence on the number and sizes of the trained tensors."""
        trained = self.cell.trainable_params()
        rest = len(list(self.cell.get_parameters())) - len(trained)
        count = sum(p.size for p in trained)
        frozen = f"; {rest} frozen: {dict(self.cell.described())['frozen']}" if rest else ""
        return f"{len(trained)} tensors with {count:,} elements are trained{frozen}"


def network_of(options: argparse.Namespace, activation: str) -> Network:
    """The network that the options name; an `activation` at its end, such as Softmax, is removed for training.

    Raises as `graphls.onnx.load` does, and GraphValueError if the output that the loss takes is ambiguous, or if
    nothing is trained.
    """
    original = read(options.model)
    proto = original.model()
    output = prediction_of(proto.graph, options.prediction)
    node, tensor = without_activation(proto.graph, output, activation) if activation else (None, output)
    fixed = fixed_values(options.fixed)
    trainable = None if options.lora else options.trainable
    cell = graphls.onnx.load(options.model, trainable, options.frozen, [tensor], fixed)
    if options.lora:
        match, others = options.lora_match or "*", options.trainable or ()
        lora(cell, rank=options.lora, match=match, alpha=options.lora_alpha, trainable=others)
    if not cell.trainable_params():
        text = f"{original.name} has no tensor of floats that is trained"
        raise GraphValueError(f"{text}; name some with --trainable, or fewer with --frozen.")
    types = cell.program.types
    inputs = tuple(_input(name, types[name]) for name in cell.open_inputs)
    declared = {text_of(info.name): info.type for info in proto.graph.output}
    shape = _shape(declared[output]) if output in declared else None
    return Network(cell, inputs, shape, "" if node is None else text_of(node.name) or text_of(node.output[0]))


def _input(name: str, kind: TypeProto) -> Input:
    if kind.WhichOneof("value") != "tensor_type":
        raise GraphTypeError(f"The input {name!r} of the model is not a tensor; give the outputs that do not need it.")
    dtype = element_type(kind.tensor_type.elem_type)
    if dtype not in DTYPES:
        text = f"The input {name!r} of the model takes {dtype.long_name}"
        raise GraphTypeError(f"{text}, which graphls does not compute; train what does not need it.")
    shape = _shape(kind)
    if shape == ():
        text = f"The input {name!r} of the model is one number, and has no rows of data"
        raise GraphValueError(f"{text}; give it one for all steps with --fixed {name}=1.")
    return Input(name, dtype, shape)


def _shape(kind: TypeProto) -> Shape | None:
    if not kind.tensor_type.HasField("shape"):
        return None
    return tuple(d.dim_value if d.dim_value > 0 else None for d in kind.tensor_type.shape.dim)


_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
_IDENTITIES = ("Identity", "Cast")
_RESHAPES = (*_IDENTITIES, "Reshape", "Expand", "Squeeze", "Unsqueeze")


def prediction_of(graph: GraphProto, name: str | None) -> str:
    """The output that the loss takes: the one of that name, or the only one of floats."""
    outputs = {text_of(info.name): info.type for info in graph.output}
    if name is not None:
        tensors = {*outputs, *(text_of(o) for node in graph.node for o in node.output)}
        if name not in tensors:
            near = nearest(name, tensors)
            raise GraphValueError(f"The model has no tensor {name!r}, which --prediction names{near}.")
        return name
    floats = [name for name, kind in outputs.items() if kind.tensor_type.elem_type in _FLOATS]
    if len(floats) != 1:
        listed = ", ".join(map(repr, floats or outputs))
        text = f"The model has {len(floats)} outputs of floats, and a loss is of one"
        raise GraphValueError(f"{text}; name it with --prediction, one of {listed}.")
    return floats[0]


def without_activation(graph: GraphProto, output: str, activation: str) -> tuple[NodeProto | None, str]:
    """The activation that produces an output, and its operand; (None, output) if there is no such activation."""
    producers = {text_of(o): node for node in graph.node for o in node.output}
    node = _producer(producers, output, _IDENTITIES)
    if node is not None and node.op_type == activation:
        return node, text_of(node.input[0])
    powers = _softmax_powers(producers, node) if activation == "Softmax" and node is not None else None
    return (None, output) if powers is None else (node, text_of(powers.input[0]))


def _producer(producers: Mapping[str, NodeProto], tensor: str, skipped: Container[str]) -> NodeProto | None:
    """The operator of ONNX that computes a tensor; operators of the skipped types are looked through."""
    node = producers.get(tensor)
    while node is not None and not text_of(node.domain) and node.op_type in skipped:
        node = producers.get(text_of(node.input[0]))
    return None if node is None or text_of(node.domain) else node


def _softmax_powers(producers: Mapping[str, NodeProto], node: NodeProto) -> NodeProto | None:
    """The Exp of a decomposed softmax, exp(x) / sum(exp(x)), as JAX exports it; None for another node."""
    if node.op_type != "Div":
        return None
    powers = _producer(producers, text_of(node.input[0]), _IDENTITIES)
    total = _producer(producers, text_of(node.input[1]), _RESHAPES)
    if powers is None or total is None or (powers.op_type, total.op_type) != ("Exp", "ReduceSum"):
        return None
    return powers if _producer(producers, text_of(total.input[0]), _IDENTITIES) is powers else None
