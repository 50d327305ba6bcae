"""Reads any ONNX model as a graph for display, as text and as a page; such a graph does not run."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Array
from graphls.ir.build import Names
from graphls.ir.graph import Graph, Node, Value, Write
from graphls.ir.registry import Operation
from graphls.ir.types import Type
from graphls.onnx.importing.attributes import attributes, sparse_type, tensor_value
from graphls.onnx.importing.files import read
from graphls.onnx.importing.functions import Functions
from graphls.onnx.importing.inference import with_inferred_types
from graphls.onnx.importing.origins import Origin, origin_of
from graphls.onnx.importing.types import UNKNOWN, type_of_proto, type_of_tensor
from graphls.runtime.lowering.metadata import IN_PLACE, ROLE, STATE
from graphls.runtime.lowering.protos import in_order, plain, subgraphs, text_of, without_data

Defined = ChainMap[str, Value]
Source = str | os.PathLike[str] | ModelProto
Constant: TypeAlias = "TensorProto | SparseTensorProto"


@dataclass(frozen=True)
class ShownOperation(Operation):
    """An operator of ONNX as the primitive of a node: a name for display, without rules."""

    name: str

    def result_types(self, *ignored: object, **others: object) -> NoReturn:
        """Raises GraphTypeError, as every rule of such a primitive does."""
        raise GraphTypeError(f"{self.name} has been read from an ONNX model to be viewed; run the model itself.")

    evaluate = run_regions = flops = region_runs = result_types


def read_onnx(source: Source, infer_types: bool = True) -> Graph:
    """An ONNX model, or the file of one, as a graph for display: `print(read_onnx("step.onnx"))`.

    Initializers are states, graphs inside of operators and functions of the model are regions. Types come from the
    model and, unless `infer_types` is False, from shape inference, in a process of its own; one that is not static is
    shown as it is declared, such as `f32[batch,10]`. Phases, scopes and lines are those that the model has. A model
    that graphls saved has its own states and writes, and its constants as nodes. Data in other files is not read.

    Raises GraphFileError for a file that cannot be read, and GraphValueError for what is not an ONNX model, has a
    cycle, or uses a tensor that nothing defines.
    """
    model = source if isinstance(source, ModelProto) else read(source).model()
    functions = Functions.of(model)
    typed = with_inferred_types(model, functions.are_few) if infer_types else without_data(model)
    try:
        return _Reader(functions).main(typed.graph)
    except GraphValueError as error:
        prefix = "" if isinstance(source, ModelProto) else f"{source}: "
        raise GraphValueError(f"{prefix}{error.message}", error.location) from None


class _Reader:
    """Builds values and nodes of a model; names are unique in the entire graph."""

    def __init__(self, functions: Functions) -> None:
        self.names = Names()
        self.functions = functions

    def main(self, proto: GraphProto) -> Graph:
        block = _Block(self, _types(proto), ChainMap(), Origin())
        constants = _constants(proto)
        inputs, states = [], []
        for info in proto.input:
            name, metadata = text_of(info.name), _metadata(info)
            state = metadata.get(STATE) if metadata.get(ROLE) == "state" else None
            if state is not None or name in constants:
                states.append(block.define(name, state or name, is_state=True))
            else:
                inputs.append(block.define(name))
        is_ours = any(ROLE in _metadata(info) for info in (*proto.input, *proto.initializer))
        for name, tensor in constants.items():
            state = _metadata(tensor).get(STATE)
            if name not in block.defined and (state is not None or not is_ours):
                states.append(block.define(name, state or name, is_state=True))
        block.constants = {name: tensor for name, tensor in constants.items() if name not in block.defined}
        block.run(proto.node)
        outputs, writes = _ends(block, proto.output, states)
        return Graph(text_of(proto.name) or "main", tuple(inputs), tuple(states), tuple(block.nodes), writes, outputs)


def _ends(
    block: _Block, infos: Iterable[ValueInfoProto], states: Sequence[Value]
) -> tuple[tuple[Value, ...], tuple[Write, ...]]:
    """The outputs of a model, and the writes among them."""
    by_name, writes, outputs = {state.name: state for state in states}, [], []
    for info in infos:
        value, metadata = block.use(text_of(info.name), "The model"), _metadata(info)
        state = by_name.pop(metadata.get(STATE, ""), None) if metadata.get(ROLE) == "write" else None
        if state is None:
            outputs.append(value)
        else:
            writes.append(Write(state, value, metadata.get(IN_PLACE) == "true"))
    return tuple(outputs), tuple(writes)


class _Block:
    """The nodes of one graph, branch, loop or function while they are built."""

    def __init__(self, reader: _Reader, types: Mapping[str, Type], defined: Defined, around: Origin) -> None:
        self.reader = reader
        self.types = types
        self.defined = defined.new_child()
        self.around = around
        self.constants: dict[str, Constant] = {}
        self.nodes: list[Node] = []

    def define(self, name: str, wish: str = "", is_state: bool = False, type: Type | None = None) -> Value:
        """A new value for a tensor; raises GraphValueError where this block has one of that name."""
        if name in self.defined.maps[0]:
            raise GraphValueError(f"The model defines the tensor {name!r} twice; every tensor needs a name of its own.")
        declared = self.types.get(name, UNKNOWN) if type is None else type
        value = Value(self.reader.names.fresh(wish or name), declared, is_state)
        self.defined[name] = value
        return value

    def use(self, name: str, user: str) -> Value:
        """The value of a tensor."""
        if name in self.constants:
            self._constant(name, self.around)
        try:
            return self.defined[name]
        except KeyError:
            text = f"{user} reads the tensor {name!r}, which nothing defines; export the model again."
            raise GraphValueError(text) from None

    def _constant(self, name: str, origin: Origin) -> None:
        attrs = {"value": _constant_value(self.constants.pop(name))}
        self._append("Constant", (), (self.define(name),), attrs, (), origin)

    def run(self, protos: Sequence[NodeProto]) -> None:
        """Build the nodes of operators, in topological order."""
        for proto, names in in_order(protos):
            origin = origin_of(proto, self.around)
            for name in names:
                if name in self.constants:
                    self._constant(name, origin)
            self._node(proto, origin)

    def _node(self, proto: NodeProto, origin: Origin) -> None:
        domain, kind = text_of(proto.domain), text_of(proto.op_type)
        name = plain(f"{domain}.{kind}" if domain not in ("", "ai.onnx") else kind)
        operands = {i: text_of(n) for i, n in enumerate(proto.input) if n}
        inputs = tuple(self.use(n, f"The operator {name}") for n in operands.values())
        attrs = attributes(proto)
        if list(operands) != list(range(len(operands))):
            attrs["input_positions"] = tuple(operands)
        regions = [self._region(key, inner, origin) for key, inner in _branches_first(subgraphs(proto))]
        function = self.reader.functions.find(proto)
        if function is not None:
            regions.append(self._function(name, function, inputs, origin))
        outputs = tuple(self.define(text_of(n)) for n in proto.output if n)
        self._append(name, inputs, outputs, attrs, tuple(regions), origin)

    def _append(
        self, name: str, inputs: tuple[Value, ...], outputs: tuple[Value, ...], attrs: Mapping[str, object],
        regions: tuple[Graph, ...], origin: Origin,
    ) -> None:  # fmt: skip
        operation = ShownOperation(name)
        self.nodes.append(Node(operation, inputs, outputs, attrs, (), regions, origin.phase, origin.scope, origin.loc))

    def _region(self, name: str, proto: GraphProto, origin: Origin) -> Graph:
        block = _Block(self.reader, _types(proto), self.defined, origin)
        inputs = tuple(block.define(text_of(info.name)) for info in proto.input)
        constants = _constants(proto)
        block.constants = {name: tensor for name, tensor in constants.items() if name not in block.defined.maps[0]}
        return block.finish(name, inputs, proto.node, (info.name for info in proto.output))

    def _function(self, name: str, proto: FunctionProto, operands: Sequence[Value], origin: Origin) -> Graph:
        types = {text_of(info.name): type_of_proto(info.type) for info in proto.value_info}
        block = _Block(self.reader, types, ChainMap(), origin)
        actual = [value.type for value in operands] + [UNKNOWN] * len(proto.input)
        inputs = tuple(block.define(text_of(n), type=t) for n, t in zip(proto.input, actual, strict=False))
        return block.finish(name, inputs, proto.node, proto.output)

    def finish(self, name: str, inputs: tuple[Value, ...], nodes: Sequence[NodeProto], outputs: Iterable[str]) -> Graph:
        """The block as a region."""
        self.run(nodes)
        results = tuple(self.use(text_of(n), f"The graph {plain(name)}") for n in outputs)
        return Graph(name, inputs, (), tuple(self.nodes), (), results)


def _branches_first(bodies: Iterable[tuple[str, GraphProto]]) -> list[tuple[str, GraphProto]]:
    """The graphs of an operator; the branch for "true" before that for "false"."""
    return sorted(((text_of(name), graph) for name, graph in bodies), key=lambda pair: pair[0] == "else_branch")


def _constants(proto: GraphProto) -> dict[str, Constant]:
    dense: dict[str, Constant] = {text_of(tensor.name): tensor for tensor in proto.initializer}
    return dense | {text_of(tensor.values.name): tensor for tensor in proto.sparse_initializer}


def _constant_value(tensor: Constant) -> Array | str:
    return tensor_value(tensor) if isinstance(tensor, TensorProto) else str(sparse_type(tensor))


def _types(proto: GraphProto) -> dict[str, Type]:
    """The types that a graph declares, and those of its constants."""
    infos = (*proto.value_info, *proto.output, *proto.input)
    types = {text_of(info.name): type_of_proto(info.type) for info in infos if info.HasField("type")}
    types |= {text_of(tensor.name): type_of_tensor(tensor) for tensor in proto.initializer}
    return types | {text_of(tensor.values.name): sparse_type(tensor) for tensor in proto.sparse_initializer}


def _metadata(proto: ValueInfoProto | Constant) -> dict[str, str]:
    """The metadata of an input, an output or a constant; sparse ones have none."""
    return {text_of(entry.key): text_of(entry.value) for entry in getattr(proto, "metadata_props", ())}
