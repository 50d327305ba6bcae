"""The program of a model for the interpreter: nodes in topological order with their rules, and constants by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import onnx
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    helper,
)

from graphls.base.errors import GraphValueError
from graphls.onnx.importing.attributes import Single, content
from graphls.onnx.importing.functions import Functions
from graphls.onnx.importing.origins import Origin, function_of_torch, origin_of
from graphls.onnx.importing.signature import Signature
from graphls.onnx.table import Entry, find
from graphls.onnx.tensors import MessagePath, Stored
from graphls.onnx.values import Input
from graphls.runtime.lowering.protos import copied, needed_for, replace_items, text_of

_DEFAULT = ("", "ai.onnx")
_DETACH = "aten.detach."
_MAIN: MessagePath = (7, 0)


@dataclass(frozen=True)
class Reference:
    """A reference to an attribute of the function around."""

    name: str


Attribute: TypeAlias = "int | float | str | TypeProto | Stored | Block | Reference | Sequence[Single]"
"""An attribute of a node: a number, a string or a list of them, a constant, a graph, or a reference."""
Argument: TypeAlias = "Attribute | Input"
"""An attribute as a rule takes it: constants are tensors."""


class Schema(Protocol):
    """The part of `onnx.defs.OpSchema` that defines an operator by others; onnx's stubs do not declare all of it."""

    attributes: Mapping[str, onnx.defs.OpSchema.Attribute]
    has_function: bool
    function_body: FunctionProto
    has_context_dependent_function: bool
    context_dependent_function_opset_versions: Sequence[int]

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, input_types: Sequence[bytes]
    ) -> bytes:
        """The serialized function for a node with inputs of these types."""


@dataclass(eq=False)
class Block:
    """Nodes with inputs and outputs by name: the model, a branch, the body of a loop, or a function."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, Stored] = field(default_factory=dict)
    nodes: tuple[OnnxNode, ...] = ()
    defaults: dict[str, Attribute] = field(default_factory=dict)
    """The defaults of the attributes of a function."""


@dataclass(eq=False)
class OnnxNode:
    """An operator of the model, or the call of a function, which has a `body` in place of a rule."""

    domain: str
    kind: str
    version: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]
    origin: Origin
    entry: Entry | None = None
    body: Block | None = None
    proto: NodeProto | None = None
    schema: Schema | None = None
    """The schema of an operator that ONNX defines by others, if the definition depends on the types of the inputs."""
    readers: list[OnnxNode] = field(default_factory=list, repr=False)
    """The nodes of the same block that take its results."""
    path: MessagePath = ()
    """Its path in the bytes of the model."""
    captured: tuple[str, ...] = ()
    """The tensors that its blocks capture."""
    is_detached: bool = False
    """Whether its result passes no gradient: PyTorch's `detach`, which exporters write as Identity."""

    @property
    def blocks(self) -> list[Block]:
        """The graphs among the attributes."""
        return [value for value in self.attributes.values() if isinstance(value, Block)]

    @property
    def title(self) -> str:
        """The operator with its domain."""
        return f"{self.domain}.{self.kind}" if self.domain else self.kind

    def __str__(self) -> str:
        return f"{self.title} {self.name!r}"


@dataclass(eq=False)
class Program:
    """A model: its nodes, the declared types of its inputs, and its faults, one text for each unsupported node."""

    main: Block
    types: dict[str, TypeProto]
    faults: list[str]
    stored: list[Stored]
    is_dynamic: bool = False
    """Whether there are operators whose results have data-dependent shapes."""
    absent: Sequence[str] = ()
    """Parameters of the exported program that are not in the model under their names (`importing.signature`)."""


def program_of(
    model: ModelProto, folder: Path | None, outputs: Sequence[str] | None = None, has_own_states: bool = True
) -> Program:
    """The program of a model; raises GraphValueError for a model that cannot run.

    With `has_own_states`, running statistics that share a tensor with others become separate constants.
    """
    functions = Functions.of(model)
    functions.require_few()
    versions = _versions(model.opset_import)
    reader = _Reader(functions, folder, Signature.of(model), has_own_states)
    main = reader.graph(model.graph, versions or {"": 1}, _MAIN, outputs)
    types = {text_of(info.name): info.type for info in model.graph.input}
    return Program(main, types, reader.faults, reader.stored, reader.is_dynamic, reader.signature.absent)


def _collects(node: OnnxNode) -> bool:
    """True for a loop that collects results, whose number may depend on data."""
    return (node.domain, node.kind) == ("", "Loop") and len(node.outputs) > max(len(node.inputs) - 2, 0)


def _versions(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """The version of each domain; raises GraphValueError for one that the installed package onnx does not know yet."""
    versions, newest = {_domain(entry.domain): entry.version for entry in imports}, onnx.defs.onnx_opset_version()
    for domain, version in versions.items():
        if version > (newest if not domain else 2**31 - 1):
            text = f"The model needs version {version} of the operators of {domain or 'ONNX'}"
            raise GraphValueError(f"{text}, and the installed onnx knows {newest}; install a newer one.")
    return versions


class _Reader:
    """Builds blocks of graphs and functions; a function is read once for each version it is called under."""

    def __init__(
        self, functions: Functions, folder: Path | None, signature: Signature, has_own_states: bool = True
    ) -> None:
        self.functions = functions
        self.has_own_states = has_own_states
        self.numbers = {key: number for number, key in enumerate(functions.by_key)}
        self.folder = folder
        self.signature = signature
        self.faults: list[str] = []
        self.stored: list[Stored] = []
        self.bodies: dict[object, Block] = {}
        self.is_dynamic = False

    def graph(
        self, proto: GraphProto, versions: Mapping[str, int], path: MessagePath, outputs: Sequence[str] | None = None
    ) -> Block:
        """A graph; with `outputs`, only the part that these depend on."""
        names = tuple(text_of(info.name) for info in proto.output) if outputs is None else tuple(outputs)
        initializers = [text_of(tensor.name) for tensor in proto.initializer]  # early versions list them as inputs, too
        inputs = tuple(n for n in (text_of(info.name) for info in proto.input) if n not in set(initializers))
        _check_names([*initializers, *inputs], proto.node)
        block = Block(inputs, names)
        for number, tensor in enumerate(proto.initializer):
            self._store(block, text_of(tensor.name), tensor, (*path, 5, number))
        for number, sparse in enumerate(proto.sparse_initializer):
            self._store(block, text_of(sparse.values.name), sparse, (*path, 15, number))
        self._fill(block, proto.node, versions, path, 1)
        return block

    def function(self, proto: FunctionProto, key: object, path: MessagePath) -> Block:
        """The body of a function."""
        if key not in self.bodies:
            block = Block(tuple(map(text_of, proto.input)), tuple(map(text_of, proto.output)))
            _check_names(block.inputs, proto.node)
            self.bodies[key] = block
            versions = _versions(proto.opset_import)
            self._fill(block, proto.node, versions, path, 7)
            block.defaults = {
                text_of(a.name): self._value(a, versions, (*path, 11, i)) for i, a in enumerate(proto.attribute_proto)
            }
        return self.bodies[key]

    def _store(
        self, block: Block, name: str, proto: TensorProto | SparseTensorProto, path: MessagePath, is_node: bool = False
    ) -> None:
        is_inner = len(path) > 4 or path[:2] != _MAIN  # exporters write parameters into the main graph only
        kind = self.signature.kind(name, is_node or is_inner)
        block.constants[name] = Stored(name, proto, self.folder, path, is_node, kind=kind)

    def _fill(
        self, block: Block, protos: Sequence[NodeProto], versions: Mapping[str, int], path: MessagePath, number: int
    ) -> None:
        """Add the nodes that the outputs of a block depend on, and its Constant nodes as constants."""
        protos = list(protos)  # a container of protobuf may give other objects at each iteration
        position = {id(proto): i for i, proto in enumerate(protos)}
        nodes = []
        for proto, operands in needed_for(protos, block.outputs):
            at = (*path, number, position[id(proto)])
            if not self._constant(block, proto, at):
                node = self._node(proto, versions, at)
                node.captured = tuple(name for name in operands if name not in node.inputs)
                nodes.append(node)
        _connect(nodes)
        block.nodes = tuple(_with_own_states(block, nodes) if self.has_own_states else nodes)
        read = {*block.outputs, *(name for node in block.nodes for name in (*node.inputs, *node.captured))}
        block.constants = {name: stored for name, stored in block.constants.items() if name in read}
        self.stored += block.constants.values()

    def _constant(self, block: Block, proto: NodeProto, path: MessagePath) -> bool:
        """Store the tensor of a Constant node as a constant of the block, if it is one and no call provides it."""
        if proto.op_type != "Constant" or _domain(proto.domain) or len(proto.attribute) != 1 or not proto.output:
            return False
        attribute, name = proto.attribute[0], text_of(proto.output[0])
        if attribute.ref_attr_name or text_of(attribute.name) not in ("value", "sparse_value"):
            return False
        tensor = attribute.t if attribute.HasField("t") else attribute.sparse_tensor
        self._store(block, name, tensor, (*path, 5, 0, 5, 0), is_node=True)
        return True

    def _node(self, proto: NodeProto, versions: Mapping[str, int], path: MessagePath) -> OnnxNode:
        domain, kind = _domain(proto.domain), text_of(proto.op_type)
        outputs = _trimmed(map(text_of, proto.output))
        name = text_of(proto.name) or next(filter(None, outputs), kind)
        attributes = {text_of(a.name): self._value(a, versions, (*path, 5, i)) for i, a in enumerate(proto.attribute)}
        version = versions.get(domain, 1 if domain else 0)
        origin = origin_of(proto, Origin())
        inputs = _trimmed(map(text_of, proto.input))
        node = OnnxNode(domain, kind, version, name, inputs, outputs, attributes, origin, path=path)
        node.is_detached = kind == "Identity" and function_of_torch(proto).startswith(_DETACH)
        self._resolve(node, proto)
        return node

    def _resolve(self, node: OnnxNode, proto: NodeProto) -> None:
        """Find the definition of a node: a function of the model, a rule of the table, or the schema of ONNX."""
        function = self.functions.find(proto)
        if function is not None:
            key = (proto.domain, proto.op_type, proto.overload)
            node.body = self.function(function, key, (25, self.numbers[key]))
            return
        node.entry = find(node.domain, node.kind, node.version)
        if node.entry is None:
            self._resolve_by_schema(node, proto)
            return
        self.is_dynamic |= node.entry.data_dependent or _collects(node)
        fault = node.entry.fault(len(node.inputs), node.attributes)
        if fault:
            self.faults.append(f"{node} (version {node.version}: {fault})")

    def _resolve_by_schema(self, node: OnnxNode, proto: NodeProto) -> None:
        schemas: Any = onnx.defs  # see `Schema`
        try:
            schema: Schema | None = schemas.get_schema(node.kind, node.version, node.domain)
        except Exception:  # SchemaError, which no public module of onnx has: an operator that ONNX does not know
            schema = None
        if schema is not None and schema.has_function:
            body = schema.function_body
            if not body.opset_import:
                body.opset_import.add(domain=node.domain, version=node.version)
            node.body = self.function(body, object(), ())
            node.body.defaults |= _defaults(schema)
        elif schema is not None and schema.has_context_dependent_function:
            node.schema, node.proto = schema, proto
        else:
            self.faults.append(f"{node} (version {node.version})")

    def _value(self, attribute: AttributeProto, versions: Mapping[str, int], path: MessagePath) -> Attribute:
        if attribute.ref_attr_name:
            return Reference(text_of(attribute.ref_attr_name))
        value = content(attribute)
        if isinstance(value, GraphProto):
            return self.graph(value, versions, (*path, 6, 0))
        if isinstance(value, (TensorProto, SparseTensorProto)):
            return Stored(text_of(value.name) if isinstance(value, TensorProto) else "", value, self.folder)
        if isinstance(value, (str, bytes)):
            return text_of(value)
        if isinstance(value, (int, float, TypeProto)):
            return value
        return [text_of(each) if isinstance(each, bytes) else each for each in value]


def _check_names(names: Iterable[str], protos: Iterable[NodeProto]) -> None:
    """Raise GraphValueError where a block defines a tensor twice."""
    seen: set[str] = set()
    for name in chain(names, (text_of(name) for proto in protos for name in proto.output)):
        if name and name in seen:
            raise GraphValueError(f"The model defines the tensor {name!r} twice; every tensor needs a name of its own.")
        seen.add(name)


def _connect(nodes: Sequence[OnnxNode]) -> None:
    """Set the readers of each node of a block."""
    producers = {name: node for node in nodes for name in node.outputs}
    for node in nodes:
        for name in set(node.inputs) & producers.keys():
            producers[name].readers.append(node)


def _with_own_states(block: Block, nodes: Sequence[OnnxNode]) -> list[OnnxNode]:
    """The nodes, with running statistics as constants that no other node reads.

    Exporters share one tensor, by an Identity or by its name, among all that have the same numbers, such as the
    statistics and the weights of a normalisation that has not been trained.
    """
    copies = {name: node for node in nodes if node.kind == "Identity" for name in node.outputs}
    uses = Counter([*block.outputs, *(name for node in nodes for name in (*node.inputs, *node.captured))])
    statistics = [
        (node, number, node.inputs[number])
        for node in nodes
        for number in (sorted(node.entry.untrained) if node.entry is not None else ())
        if number < len(node.inputs)
    ]
    for _, _, name in statistics:
        copy = copies.get(name)
        if copy is not None and copy.inputs[0] in block.constants and name not in block.constants:
            block.constants[name] = replace(block.constants[copy.inputs[0]], name=name, apart=(copy.path, 0))
            uses[copy.inputs[0]] -= 1
    for node, number, name in statistics:
        if name in block.constants and name not in copies and uses[name] > 1:
            own = f"{name}.{node.name}"
            block.constants[own] = replace(block.constants[name], name=own, apart=(node.path, number))
            node.inputs = (*node.inputs[:number], own, *node.inputs[number + 1 :])
            uses[name] -= 1
    return [node for node in nodes if not block.constants.keys() & set(node.outputs)]


def _domain(domain: str | bytes) -> str:
    text = text_of(domain)
    return "" if text in _DEFAULT else text


def _trimmed(names: Iterator[str]) -> tuple[str, ...]:
    """Names without empty ones at the end."""
    trimmed = list(names)
    while trimmed and not trimmed[-1]:
        trimmed.pop()
    return tuple(trimmed)


def _defaults(schema: Schema) -> dict[str, Attribute]:
    """The defaults of the attributes of an operator."""
    return {
        name: helper.get_attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.type != AttributeProto.UNDEFINED
    }


def expanded(node: OnnxNode, attributes: Mapping[str, Argument], types: Sequence[bytes]) -> tuple[Block, list[str]]:
    """The body by which ONNX defines an operator for inputs of these types, and the faults of its nodes."""
    assert node.schema is not None and node.proto is not None
    all_versions = node.schema.context_dependent_function_opset_versions
    version = max((v for v in all_versions if v <= max(node.version, 1)), default=min(all_versions))
    proto = copied(node.proto)
    constant = [a for a in node.proto.attribute if not a.ref_attr_name]
    referring = [name for name, value in node.attributes.items() if isinstance(value, Reference) and name in attributes]
    replace_items(proto.attribute, [*constant, *(helper.make_attribute(name, attributes[name]) for name in referring)])
    data = proto.SerializeToString()
    text = node.schema.get_context_dependent_function_with_opset_version(version, data, types)
    body = FunctionProto.FromString(text)
    imported = {_domain(entry.domain) for entry in body.opset_import}
    for domain, number in {"": onnx.defs.onnx_opset_version(), node.domain: node.version}.items():
        if domain not in imported:
            body.opset_import.add(domain=domain, version=number)
    reader = _Reader(Functions({}, True), None, Signature({}))
    block = reader.function(body, object(), ())
    block.defaults |= _defaults(node.schema)
    return block, reader.faults
