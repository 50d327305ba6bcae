"""Lowers a verified graph to ONNX, each node by the ONNX rule of its primitive."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import GraphProto, ModelProto

from graphls.base.errors import GraphlsError
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.reachability import computes_nothing
from graphls.ir.types import TOKEN, DType, Type, bfloat16, float32
from graphls.primitives.faults import missing_rule
from graphls.primitives.primitive import Array
from graphls.primitives.scaled_matmul import missing, unfit
from graphls.runtime.low_products import LowProduct, low_products, with_scaled_products
from graphls.runtime.lowering.fences import captured, fenced, is_alias
from graphls.runtime.lowering.finite import any_not_finite, only_checked
from graphls.runtime.lowering.kernel_tables import OLDEST_RUNTIME, chosen_opset
from graphls.runtime.lowering.loops import if_iterations, lower_scan, lower_while
from graphls.runtime.lowering.ports import Ports
from graphls.runtime.lowering.rules import Rules
from graphls.runtime.lowering.target import KernelCheck, Target, target_of, trust_kernels
from graphls.runtime.lowering.types import describe, exchanged, held
from graphls.runtime.lowering.values import Forms
from graphls.runtime.signs_of_zeros import of_positive, with_nans, without_signs


@dataclass(frozen=True)
class Lowered(Ports):
    """A model with its ports.

    `origins` maps the name of each operator of the model and of its subgraphs to the node that it computes. `outside`
    has the arrays that are not in the model, by the names of their tensors; see weights.py. `low_products` has the
    products of low operands in a model for a GPU, with the reason why it is not computed from float8, or "".
    """

    model: ModelProto
    origins: dict[str, Node]
    outside: MutableMapping[str, Array]
    low_products: Mapping[Node, str] = field(default_factory=dict)


def lower(
    graph: Graph, *, device: str = "cpu", kernel_is_right: KernelCheck = trust_kernels, opset: int | None = None,
    runtime: str | None = None, target: Target | None = None, native_low: bool = False,
) -> Lowered:  # fmt: skip
    """Lower a verified graph that has no gradient nodes for a device of ONNX Runtime, "cpu" or "cuda", or a `target`.

    `Target` describes the differences of devices. An operator is composed of others if `kernel_is_right` is False for
    it. The model is for a version of ONNX Runtime, `runtime`, by default for all of them, and at the best opset for it
    or at another one. With `native_low` it has tensors of low dtypes (see `Target`). Raises GraphValueError for an
    unsupported opset and, with the user's line, for a primitive that cannot be lowered.
    """
    target = target or target_of(device, chosen_opset(opset, runtime), runtime or OLDEST_RUNTIME, runtime is None)
    target = replace(target, native_low=True) if native_low else target
    return Lowering(graph, target, kernel_is_right).lower()


class Lowering(Rules):
    """A lowering of a graph: the tensors of every value, which the rules of its nodes append to the model.

    `captured` values are read inside of branches and loops, and `fenced` ones also come from a convolution.
    Products alone read `unsigned` ones, to which the signs of zeros are nothing; `positive` ones are maxima and
    roundings of what is never negative, and scales that are nan multiply what is nan of those `with_nans`.
    """

    def __init__(self, graph: Graph, target: Target, kernel_is_right: KernelCheck) -> None:
        super().__init__(graph.name, target)
        self.graph = graph
        self.kernel_is_right = kernel_is_right
        self.in_types: tuple[Type, ...] = ()
        self.out_types: tuple[Type, ...] = ()
        self.host: list[tuple[Node, str]] = []
        self.forms: ChainMap[Value, Forms] = ChainMap()
        self.definer: dict[Value, Node] = {}
        self.deferred: dict[Value, Node] = {}
        self.captured: set[Value] = set()
        self.fenced: set[Value] = set()
        self.unsigned: set[Value] = set()
        self.positive: set[Value] = set()
        self.with_nans: set[Value] = set()

    def lower(self) -> Lowered:
        """The graph as a model."""
        products = {each: self.obstacle(each) for each in low_products(self.graph)} if self.is_gpu else {}
        rewritten = with_scaled_products(self.graph, (each for each, reason in products.items() if not reason))
        self.graph = rewritten.graph
        inputs = tuple(self.declare(v) for v in self.graph.inputs)
        states = {v.name: self.declare(v) for v in self.graph.states}
        self.nodes(self.graph.nodes, (*self.graph.outputs, *(w.value for w in self.graph.writes)))
        fixed = {*inputs, *states.values()}
        outputs = tuple(self.graph_output(v, fixed) for v in self.graph.outputs)
        writes = {w.state.name: self.graph_output(w.value, fixed) for w in self.graph.writes}
        ports = inputs, outputs, states, writes, tuple(self.host)
        origins = {name: rewritten.origin(node) for name, node in self.origins.items()}
        return Lowered(*ports, self.model(), origins, self.weights.outside, {p.node: r for p, r in products.items()})

    def obstacle(self, product: LowProduct) -> str:
        """Why the device does not compute a product from float8, "" where it does.

        As Transformer Engine has it, sums of a forward may be less exact than those of float32, which Hopper sums
        faster so, and those of gradients may not.
        """
        reason = product.obstacle or missing(self) or unfit(*product.operands, product.transpose_a)
        if reason or product.node.phase == "forward" or self.is_right("GemmFloat8", float32):
            return reason
        return "its sums are less exact than those of float32"

    def declare(self, value: Value) -> str:
        """Add a value as an input of the model."""
        name, kind = self.names.fresh(value.name), exchanged(value.type)
        describe(self.main.input.add(), name, kind)
        self.forms[value] = {kind.dtype: name}
        return name

    def graph_output(self, value: Value, used: set[str]) -> str:
        """Add a value as an output of the model; a copy of it belongs to the node that defines it."""
        self.node = self.definer.get(value)
        return self.result(value, exchanged(value.type), used)

    def result(self, value: Value, kind: Type, used: set[str]) -> str:
        """Add a value as an output of the current graph; inputs and repeated outputs are copied."""
        return self.yielded(self.form(value, kind.dtype), kind, used)

    def nodes(self, nodes: Sequence[Node], yielded: Iterable[Value]) -> None:
        """Lower a block that yields some values, except the nodes that only its overflow checks read."""
        yielded = set(yielded)
        deferred = {} if self.is_gpu else only_checked(nodes, yielded)
        self.deferred.update(deferred)
        read = captured(nodes, deferred)
        self.captured |= read
        self.fenced |= fenced(nodes, read)
        self.unsigned |= without_signs(nodes, yielded | read)
        self.positive |= of_positive(nodes)
        self.with_nans |= with_nans(nodes, yielded | read)
        for node in nodes:
            self.definer.update((value, node) for value in node.outputs)
            if not (node.outputs and node.outputs[0] in deferred):
                self.each((node,))

    def each(self, nodes: Iterable[Node]) -> None:
        """Lower these nodes; errors of their rules have the user's line."""
        for node in nodes:
            self.node = node
            try:
                self.lower_node(node)
            except GraphlsError as error:
                raise error.at(node.loc) from None

    def lower_node(self, node: Node) -> None:
        """Emit the tensors of the results of a node."""
        if not node.outputs:
            return  # a loop or a condition without results
        if node.primitive.on_host:
            self.host.append((node, self.declare(node.output)))
        elif is_alias(node):
            self.forms[node.output] = self.forms[node.inputs[0]]
        elif computes_nothing(node):
            for value, array in zip(node.outputs, results_of_nothing(node), strict=True):
                self.forms[value] = {held(value.type).dtype: self.const(array, value.type.dtype)}
        else:
            self._by_rule(node)

    def _by_rule(self, node: Node) -> None:
        """Emit the results by the rule of the primitive."""
        primitive = node.primitive
        if primitive.onnx is None:
            raise missing_rule(primitive, "onnx")
        names, out_types = self.lowered_results(node)
        for value, kind, name in zip(node.outputs, out_types, names, strict=True):
            self.set_form(value, kind.dtype, name, rounds=primitive.half == "rounded")

    def computed(self, kind: Type) -> Type:
        """The type in which a value is computed."""
        return self.target.computed(kind)

    def set_form(self, value: Value, dtype: DType, name: str, rounds: bool) -> None:
        """Set the tensor of a value in a dtype, after rounding it to the dtype of the value if need be."""
        own = dtype if dtype.is_low else held(value.type).dtype
        if dtype is not own and (rounds or not dtype.is_float):
            name, dtype = self.cast(name, own), own
        if value in self.fenced or (value in self.captured and name in self.casts):
            same_iterations = (0,) * value.type.stacked
            name = self.Reshape(name, self.ints(same_iterations + value.type.shape))
        self.forms[value] = {dtype: name}

    def form(self, value: Value, dtype: DType) -> str:
        """The name of a value in its own dtype or, for a half a low one, of its float32 copy; each emitted once."""
        if value.type == TOKEN:
            return ""
        forms = self.forms[value]
        if dtype not in forms:
            name = self.cast(next(iter(forms.values())), dtype)
            self.forms[value] = forms | {dtype: name}
        return self.forms[value][dtype]

    def scalar(self, value: float) -> str:
        """A number as a constant of the dtype of the current node; with its rank, for an elementwise node."""
        kind = self.in_types[0]
        is_alike = self.node is not None and self.node.primitive.elementwise and kind.shape[-1:] == (1,)
        return self.const(np.full((1,) * kind.rank if is_alike else (), value), kind.dtype)

    def is_right(self, operator: str, dtype: DType | None = None) -> bool:
        """True if the kernel of an operator is right, in the dtype of the current node or another."""
        dtype = dtype or self.in_types[0].dtype
        return dtype is not bfloat16 and self.kernel_is_right(operator, dtype)

    @property
    def has_signs(self) -> bool:
        """Whether other nodes than products read the sign of a zero in the result of the current node."""
        return self.node is None or self.unsigned.isdisjoint(self.node.outputs)

    @property
    def may_be_nan(self) -> bool:
        """Whether the result of the current node may be nan where its dtype has none."""
        return self.node is not None and not self.with_nans.isdisjoint(self.node.outputs)

    @property
    def has_negative(self) -> bool:
        """Whether the first operand of the current node may have a negative number, or -0."""
        return self.node is None or self.positive.isdisjoint(self.node.outputs)

    def has_kernel(self, operator: str, dtype: DType | None = None, domain: str = "") -> bool:
        """True if the device has a kernel of an operator, for the dtype of the current node or another."""
        return self.target.has_kernel(operator, dtype or self.in_types[0].dtype, domain)

    def branch(self, condition: str) -> tuple[str, ...]:
        """The two regions of the current node as an If."""
        node = self.node
        assert node is not None
        then, other = (self.subgraph(region) for region in node.regions)
        self.node = node
        return self.results("If", [condition], {"then_branch": then, "else_branch": other}, len(node.outputs))

    def subgraph(self, region: Graph) -> GraphProto:
        """A region as the body of an operator."""
        body = GraphProto(name=self.names.fresh(region.name))
        with self.branch_body(body):
            self.nodes(region.nodes, region.outputs)
            used: set[str] = set()
            for value in region.outputs:
                self.result(value, held(value.type), used)
        return body

    @contextmanager
    def branch_body(self, body: GraphProto) -> Iterator[None]:
        """Append operators to the body of a branch; its forms are visible in it only."""
        self.forms = self.forms.new_child()
        try:
            with super().branch_body(body):
                yield
        finally:
            self.forms = self.forms.parents

    def inlined(self) -> tuple[str, ...]:
        """The results of the region of the current node, computed in its place."""
        node = self.node
        assert node is not None
        (region,) = node.regions
        self.nodes(region.nodes, region.outputs)
        self.node, self.out_types = node, tuple(held(v.type) for v in node.outputs)
        return tuple(self.form(v, held(v.type).dtype) for v in region.outputs)

    def add_parameters(self, values: Iterable[Value]) -> set[str]:
        """Add values as inputs of the current body; returns their names."""
        for value in values:
            kind = held(value.type)
            self.forms[value] = {kind.dtype: self.add_parameter(value.name, kind)}
        return {info.name for info in self.body.input}

    def scan(self, names: Sequence[str]) -> tuple[str, ...]:
        """The region of the current node along arrays."""
        assert self.node is not None
        return lower_scan(self, self.node, names)

    def while_loop(self, names: Sequence[str]) -> tuple[str, ...]:
        """The regions of the current node as a loop."""
        assert self.node is not None
        return lower_while(self, self.node, names)

    def if_iterations(self, stack: str, some: Callable[[], str]) -> str:
        """The result of the current node if a stack has any iteration, else zeros."""
        (kind,) = self.out_types
        zeros = np.zeros(kind.shape, kind.dtype.numpy)
        return if_iterations(self, stack, lambda: [some()], lambda: [self.Identity(self.const(zeros))], [kind])[0]

    def any_not_finite(self, values: Sequence[Value]) -> str:
        """True if a float tensor has an infinity or nan."""
        return any_not_finite(self, [v for v in values if v.type.size])


def results_of_nothing(node: Node) -> list[Array]:
    """The results of a node that computes nothing, as constants.

    Optimizers of ONNX Runtime divide by the sizes of operands, which ends the process for a size of 0.
    """
    if not any(v.type.size for v in node.outputs):
        return [np.zeros(v.type.shape) for v in node.outputs]
    kinds = [v.type for v in node.inputs]
    shapes = [(0, *kind.shape) if kind.stacked else kind.shape for kind in kinds]  # for any number of iterations
    operands = tuple(np.zeros(shape, kind.dtype.numpy) for shape, kind in zip(shapes, kinds, strict=True))
    with np.errstate(all="ignore"):
        return list(node.primitive.evaluate(operands, node.attrs, tuple(v.type for v in node.outputs)))
