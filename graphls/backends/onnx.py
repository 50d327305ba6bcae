"""Lowering: one loop over the nodes of a verified graph, each by its own primitive's ONNX rule."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from graphls.backends.fences import captured, fenced, is_alias
from graphls.backends.finite import any_not_finite, only_checked
from graphls.backends.loops import if_rounds, lower_scan, lower_while
from graphls.backends.onnx_names import TensorNames, clean
from graphls.backends.weights import SMALLEST, Weights, bytes_of
from graphls.ir.errors import GraphlsError
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.types import (
    TOKEN,
    DType,
    Type,
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    type_of,
    uint8,
    uint16,
    uint32,
    uint64,
)

OPSET, IR_VERSION = 21, 10

ELEMENT_TYPES: dict[DType, int] = {
    float16: TensorProto.FLOAT16,
    bfloat16: TensorProto.BFLOAT16,
    float32: TensorProto.FLOAT,
    float64: TensorProto.DOUBLE,
    int8: TensorProto.INT8,
    int16: TensorProto.INT16,
    int32: TensorProto.INT32,
    int64: TensorProto.INT64,
    uint8: TensorProto.UINT8,
    uint16: TensorProto.UINT16,
    uint32: TensorProto.UINT32,
    uint64: TensorProto.UINT64,
    bool_: TensorProto.BOOL,
}

COMPUTED: dict[DType, DType] = {int8: int32, int16: int32, uint8: int32, uint16: int32, uint32: int64, uint64: int64}
"""Integers that are computed in another dtype and wrapped; a uint64 beyond 2 ** 63 compares as negative."""

EXCHANGED: dict[DType, DType] = {bfloat16: float32}
"""What a value of a dtype is outside of a model: no runtime takes arrays of bfloat16, and float32 holds all of them."""

KernelCheck = Callable[[str, DType], bool]
"""Whether the runtime's kernel of an operator is right at special numbers of a dtype, such as the root of inf."""


def trust_kernels(operator: str, dtype: DType) -> bool:
    """The KernelCheck of a portable model: its operators do what the standard says."""
    return True


@dataclass(frozen=True)
class Lowered:
    """A model, and which of its inputs and outputs is what.

    `inputs` and `outputs` are tensor names in the order of the graph; `states` and `writes` pair the
    name of a state with its tensor, all in the dtypes that `exchanged` says; `host` are the nodes whose
    outputs the session computes and feeds, with the names of the tensors that take them. `origins` has, by the
    name of each operator of the model and of its subgraphs, the node that it computes. `outside` are the arrays that
    the model does not hold, by the names of their tensors; see weights.py.
    """

    model: ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: dict[str, str]
    writes: dict[str, str]
    host: tuple[tuple[Node, str], ...]
    origins: dict[str, Node]
    outside: dict[str, np.ndarray[Any, Any]]


def lower(graph: Graph, *, native_half: bool = False, kernel_is_right: KernelCheck = trust_kernels) -> Lowered:
    """Lower a verified graph that has no gradient nodes.

    `native_half` computes 16-bit floats as such (CUDA); otherwise they are computed in float32 and
    rounded after every primitive, which gives the numbers of an accelerator on a CPU, infinities
    included. Where `kernel_is_right` says no, an operator is composed of others. Raises GraphValueError, with the
    user's line, for a primitive that cannot be lowered.
    """
    return Lowering(graph, native_half, kernel_is_right).lower()


@dataclass
class Lowering:
    """What an ONNX rule works with: `e.MatMul(a, b)` appends an operator and returns its output's name.

    `in_types` and `out_types` are the types of the current node as they are computed. Keyword arguments
    are ONNX attributes; `outputs=2` asks for a tuple of names, `domain="com.microsoft"` for another domain.
    """

    graph: Graph
    native_half: bool
    kernel_is_right: KernelCheck
    in_types: tuple[Type, ...] = ()
    out_types: tuple[Type, ...] = ()
    node: Node | None = None
    host: list[tuple[Node, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.main = GraphProto(name=clean(self.graph.name))
        self.body = self.main
        self.names = TensorNames()
        self.forms: ChainMap[Value, dict[DType, str]] = ChainMap()
        self.constants: dict[tuple[Type, bytes], str] = {}
        self.weights = Weights()
        self.domains: set[str] = set()
        self.definer: dict[Value, Node] = {}
        self.delayed: dict[Value, Node] = {}
        self.captured: set[Value] = set()
        self.fenced: set[Value] = set()
        self.casts: set[str] = set()
        self.origins: dict[str, Node] = {}

    def lower(self) -> Lowered:
        inputs = tuple(self.declare(v) for v in self.graph.inputs)
        states = {v.name: self.declare(v) for v in self.graph.states}
        self.nodes(self.graph.nodes, (*self.graph.outputs, *(w.value for w in self.graph.writes)))
        fixed = {*inputs, *states.values()}
        outputs = tuple(self.given(v, fixed) for v in self.graph.outputs)
        writes = {w.state.name: self.given(w.value, fixed) for w in self.graph.writes}
        host, outside = tuple(self.host), self.weights.outside
        return Lowered(self.model(), inputs, outputs, states, writes, host, self.origins, outside)

    def model(self) -> ModelProto:
        opsets = [onnx.helper.make_opsetid("", OPSET)]
        opsets += [onnx.helper.make_opsetid(domain, 1) for domain in sorted(self.domains)]
        return onnx.helper.make_model(
            self.main, opset_imports=opsets, ir_version=IR_VERSION, producer_name="graphls"
        )

    def declare(self, value: Value) -> str:
        """Make a value an input of the model."""
        name, kind = self.names.fresh(value.name), exchanged(value.type)
        _describe(self.main.input.add(), name, kind)
        self.forms[value] = {kind.dtype: name}
        return name

    def given(self, value: Value, taken: set[str]) -> str:
        """Make a value an output of the model; a copy of it belongs to the node that defines it."""
        self.node = self.definer.get(value)
        return self.result(value, exchanged(value.type), taken)

    def result(self, value: Value, kind: Type, taken: set[str]) -> str:
        """Make a value an output of the current graph; inputs and repeated ones through a copy."""
        return self.yielded(self.form(value, kind.dtype), kind, taken)

    def yielded(self, name: str, kind: Type, taken: set[str]) -> str:
        """Make a tensor an output of the current graph, or a copy of it where it is one of `taken` or from outside."""
        if name in taken or name not in self._made_here() or self._is_read_on_the_host(name, kind):
            name = self.Identity(name)
        taken.add(name)
        _describe(self.body.output.add(), name, kind)
        return name

    def _is_read_on_the_host(self, name: str, kind: Type) -> bool:
        """Whether an operator of a GPU may read a tensor in host memory, as conditions and indices are.

        ONNX Runtime (1.31.1) writes an output into the buffer that is bound for it, in the memory of the GPU, and an If
        that has it as its condition ends the process; so such an output of a graph or a body is a copy.
        """
        return self.native_half and kind.dtype.kind in ("bool", "int") and name in self._read_here()

    def _read_here(self) -> set[str]:
        if self.__dict__.get("_read_for") is not self.body:
            self._read_for, self._names_read = self.body, set(_read(self.body))
        return self._names_read

    def _made_here(self) -> set[str]:
        if self.__dict__.get("_made_for") is not self.body:
            self._made_for, self._made = self.body, {n for p in self.body.node for n in p.output}
        return self._made

    def nodes(self, nodes: Sequence[Node], kept: Iterable[Value]) -> None:
        """Lower a block that yields `kept`, but for what only its overflow checks may need."""
        waiting = {} if self.native_half else only_checked(nodes, kept)
        self.delayed.update(waiting)
        read = captured(nodes, waiting)
        self.captured |= read
        self.fenced |= fenced(nodes, read)
        for node in nodes:
            self.definer.update((value, node) for value in node.outputs)
            if not (node.outputs and node.outputs[0] in waiting):
                self.each((node,))

    def each(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.node = node
            try:
                self.lower_node(node)
            except GraphlsError as error:
                if error.location is None and node.loc is not None:
                    raise type(error)(str(error), node.loc) from None
                raise

    def lower_node(self, node: Node) -> None:
        primitive: Any = node.primitive
        if not node.outputs:
            return  # a loop or a condition whose results nothing needs
        if primitive.on_host:
            self.host.append((node, self.declare(node.output)))
        elif is_alias(node):
            self.forms[node.output] = self.forms[node.inputs[0]]
        elif _takes_or_gives_nothing(node):
            for value, array in zip(node.outputs, _evaluated(node), strict=True):
                self.forms[value] = {value.type.dtype: self.const(array, value.type.dtype)}
        else:
            native = primitive.half == "native"
            self.in_types = tuple(v.type if native else self.computed(v.type) for v in node.inputs)
            out_types = tuple(v.type if native else self.computed(v.type) for v in node.outputs)
            self.out_types = out_types
            operands: Any = node.inputs
            if not primitive.takes_values:
                operands = [self.form(v, t.dtype) for v, t in zip(node.inputs, self.in_types, strict=True)]
            results = self.apply(primitive, operands, node)
            for value, kind, name in zip(node.outputs, out_types, results, strict=True):
                self.keep(value, kind.dtype, name, rounds=primitive.half == "rounded")

    def apply(self, primitive: Any, operands: list[Any], node: Node) -> tuple[str, ...]:
        if isinstance(primitive.onnx, str):
            return (self.operator(primitive.onnx, operands, dict(node.attrs)),)
        result = primitive.onnx(self, *operands, **node.attrs)
        return result if isinstance(result, tuple) else (result,)

    def computed(self, kind: Type) -> Type:
        """The type in which a value takes part in computation: narrow integers have hardly any kernels."""
        if kind.dtype.is_half:
            return kind if self.native_half and kind.dtype is float16 else kind.with_dtype(float32)
        return kind.with_dtype(COMPUTED.get(kind.dtype, kind.dtype))

    def keep(self, value: Value, dtype: DType, name: str, rounds: bool) -> None:
        if dtype is not value.type.dtype and (rounds or not dtype.is_float):
            name, dtype = self.cast(name, value.type.dtype), value.type.dtype
        if value in self.fenced or (value in self.captured and name in self.casts):
            rounds_as_they_are = (0,) * value.type.stacked
            name = self.Reshape(name, self.ints(rounds_as_they_are + value.type.shape))
        self.forms[value] = {dtype: name}

    def form(self, value: Value, dtype: DType) -> str:
        """The name of a value in its own dtype or, for a half, of its float32 twin; each made once."""
        if value.type == TOKEN:
            return ""
        forms = self.forms[value]
        if dtype not in forms:
            name = self.cast(next(iter(forms.values())), dtype)
            self.forms[value] = forms | {dtype: name}
        return self.forms[value][dtype]

    def cast(self, name: str, dtype: DType) -> str:
        """The tensor in another dtype."""
        return str(self.operator("Cast", [name], {"to": ELEMENT_TYPES[dtype]}))

    def const(self, value: Any, dtype: DType | None = None) -> str:
        """The name of a constant array or number; equal ones are stored once."""
        array = np.asarray(value)
        array = np.ascontiguousarray(array.astype((dtype or as_dtype(array.dtype)).numpy)).reshape(array.shape)
        kind = type_of(array)
        key = (kind, array.tobytes() if array.nbytes <= SMALLEST else blake2b(bytes_of(array)).digest())
        if key not in self.constants:
            name = self.constants[key] = self.names.fresh("constant")
            tensor = self.main.initializer.add(name=name, data_type=ELEMENT_TYPES[kind.dtype], dims=kind.shape)
            self.weights.fill(tensor, array)
        return self.constants[key]

    def scalar(self, value: float) -> str:
        """A number as a constant of the dtype in which the current node is computed."""
        return self.const(value, self.in_types[0].dtype)

    def is_right(self, operator: str) -> bool:
        """Whether the kernel of an operator is right in the dtype in which the current node is computed."""
        return self.kernel_is_right(operator, self.in_types[0].dtype)

    def ints(self, values: Iterable[int]) -> str:
        """A constant list of int64, as shapes and axes are given."""
        return self.const(np.array(list(values), np.int64))

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        if not operator[:1].isupper():
            raise AttributeError(operator)

        def call(*inputs: str, outputs: int = 1, domain: str = "", **attrs: Any) -> Any:
            return self.operator(operator, list(inputs), attrs, outputs, domain)

        return call

    def operator(
        self, kind: str, inputs: list[str], attrs: dict[str, Any] | None = None, outputs: int = 1, domain: str = ""
    ) -> Any:
        """Append an ONNX operator; returns the name of its output, or a tuple of names."""
        hint = self.node.outputs[0].name if self.node is not None and self.node.outputs else kind.lower()
        names = [self.names.fresh(hint) for _ in range(outputs)]
        proto = self.body.node.add(op_type=kind, name=self._node_name(names[0], kind), domain=domain)
        proto.input.extend(inputs)
        proto.output.extend(names)
        if kind == "Cast":
            self.casts.update(names)
        _set_attributes(proto, attrs or {})
        if self.node is not None:
            self.origins[proto.name] = self.node
        if domain:
            self.domains.add(domain)
        if self.__dict__.get("_made_for") is self.body:
            self._made.update(names)
        return names[0] if outputs == 1 else tuple(names)

    def _node_name(self, output: str, kind: str) -> str:
        node = self.node
        scope = clean(node.scope).replace(".", "/") if node is not None else ""
        return "/".join(filter(None, (node.phase if node is not None else "", scope, kind, output)))

    def branch(self, condition: str) -> tuple[str, ...]:
        """The two regions of the current node as an If."""
        node = self.node
        assert node is not None
        then, other = (self.subgraph(region) for region in node.regions)
        self.node = node
        result = self.operator("If", [condition], {"then_branch": then, "else_branch": other}, len(node.outputs))
        return result if isinstance(result, tuple) else (result,)

    def scan(self, names: Sequence[str]) -> tuple[str, ...]:
        """The region of the current node along arrays."""
        assert self.node is not None
        return lower_scan(self, self.node, names)

    def if_rounds(self, stack: str, some: Callable[[], str]) -> str:
        """The result of the current node where a stack holds any round, else zeros."""
        (kind,) = self.out_types
        zeros = np.zeros(kind.shape, kind.dtype.numpy)
        return if_rounds(self, stack, lambda: [some()], lambda: [self.Identity(self.const(zeros))], [kind])[0]

    def while_loop(self, names: Sequence[str]) -> tuple[str, ...]:
        """The regions of the current node as a loop."""
        assert self.node is not None
        return lower_while(self, self.node, names)

    def take_parameters(self, values: Iterable[Value]) -> set[str]:
        """Make values inputs of the body that is current; returns their names."""
        for value in values:
            self.forms[value] = {value.type.dtype: self.take_parameter(value.name, value.type)}
        return {info.name for info in self.body.input}

    def take_parameter(self, wish: str, kind: Type) -> str:
        """A new input of the body that is current."""
        name = self.names.fresh(wish)
        _describe(self.body.input.add(), name, kind)
        return name

    def subgraph(self, region: Graph) -> GraphProto:
        body = GraphProto(name=self.names.fresh(region.name))
        with self.branch_body(body):
            self.nodes(region.nodes, region.outputs)
            taken: set[str] = set()
            for value in region.outputs:
                self.result(value, value.type, taken)
        return body

    @contextmanager
    def branch_body(self, body: GraphProto) -> Iterator[None]:
        """Append operators to the body of a branch, which sees what was made before it."""
        outer, self.body = self.body, body
        self.forms = self.forms.new_child()
        try:
            yield
        finally:
            self.forms = self.forms.parents
            self.body = outer

    def yield_from_branch(self, name: str, kind: Type) -> None:
        """Make a tensor an output of the branch."""
        _describe(self.body.output.add(), name, kind)

    def compute_delayed(self, values: Iterable[Value]) -> None:
        """Compute here what of these values has been left for a check."""
        waiting = [n for v in values for n in self._delayed_before(v)]
        check = self.node
        self.each(dict.fromkeys(waiting))
        self.node = check

    def _delayed_before(self, value: Value) -> list[Node]:
        node = self.delayed.get(value)
        return [] if node is None else [*(n for v in node.inputs for n in self._delayed_before(v)), node]

    def any_not_finite(self, values: Sequence[Value]) -> str:
        """Whether a float tensor holds an infinity or nan."""
        return any_not_finite(self, values)

    def total(self, names: Sequence[str]) -> str:
        """The sum of float32 scalars."""
        return str(self.Sum(*names)) if len(names) > 1 else names[0]

    def as_single(self, name: str, kind: Type) -> str:
        """A tensor in float32."""
        return name if kind.dtype is float32 else self.cast(name, float32)


def _takes_or_gives_nothing(node: Node) -> bool:
    """Whether all operands, or all results, of a node have no elements: so the results are known, and are constants.

    Optimizers of ONNX Runtime divide by the sizes of what an operator takes, which ends the process.
    """
    if node.regions or any(v.type == TOKEN for v in (*node.inputs, *node.outputs)):
        return False
    operands, results = ([v.type.size for v in values] for values in (node.inputs, node.outputs))
    return not any(results) or (bool(operands) and not any(operands))


def _evaluated(node: Node) -> list[Any]:
    """The results of a node that takes or gives nothing."""
    if not any(v.type.size for v in node.outputs):
        return [np.zeros(v.type.shape) for v in node.outputs]
    operands = tuple(np.zeros(v.type.shape, v.type.dtype.numpy) for v in node.inputs)
    with np.errstate(all="ignore"):
        return list(node.primitive.evaluate(operands, node.attrs, tuple(v.type for v in node.outputs)))


def exchanged(kind: Type) -> Type:
    """The type in which a value enters or leaves a model."""
    return kind.with_dtype(EXCHANGED.get(kind.dtype, kind.dtype))


def _read(graph: GraphProto) -> Iterator[str]:
    """The names that the operators of a graph read, those of their branches and bodies included."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _read(attribute.g)
                yield from (info.name for info in attribute.g.output)


def _describe(info: Any, name: str, kind: Type) -> None:
    info.name = name
    tensor = info.type.tensor_type
    tensor.elem_type = ELEMENT_TYPES[kind.dtype]
    tensor.shape.SetInParent()
    if kind.stacked:
        tensor.shape.dim.add()
    for size in kind.shape:
        tensor.shape.dim.add(dim_value=size)


def _set_attributes(proto: NodeProto, attrs: dict[str, Any]) -> None:
    for name, value in attrs.items():
        attribute = proto.attribute.add(name=name)
        if isinstance(value, GraphProto):
            attribute.type = AttributeProto.GRAPH
            attribute.g.CopyFrom(value)
        elif isinstance(value, (bool, int, np.integer)):
            attribute.type, attribute.i = AttributeProto.INT, int(value)
        elif isinstance(value, float):
            attribute.type, attribute.f = AttributeProto.FLOAT, value
        elif isinstance(value, str):
            attribute.type, attribute.s = AttributeProto.STRING, value.encode()
        elif isinstance(value, (tuple, list)):
            attribute.type = AttributeProto.INTS
            attribute.ints.extend(value)
        else:
            raise TypeError(f"{value!r} cannot be an ONNX attribute.")
