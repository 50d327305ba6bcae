"""The graph builder: infers types, chooses names and collects nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from graphls.base.errors import GraphAttributeError, GraphKeyError, GraphlsError, GraphTypeError
from graphls.base.location import Location
from graphls.ir.graph import Graph, Node, Value, walk, with_regions
from graphls.ir.operators import current_builder
from graphls.ir.registry import Operation, lookup
from graphls.ir.types import DType, Type, as_dtype, type_of


class Names:
    """Hands out names that no other value of the graph has.

    Examples:
        >>> from graphls.ir import Names
        >>> names = Names(["x"])
        >>> names.fresh("x"), names.fresh("y")
        ('x_1', 'y')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)
        self._next: dict[str, int] = {}

    def fresh(self, wish: str) -> str:
        """`wish` itself, or with the next free number after it."""
        name = wish
        if name in self.taken:
            wish = re.sub(r"_\d+$", "", wish)
            number = self._next.get(wish, 1)
            while (name := f"{wish}_{number}") in self.taken:
                number += 1
            self._next[wish] = number + 1
        self.taken.add(name)
        return name

    @classmethod
    def of(cls, graph: Graph) -> Names:
        """All names of a graph and its regions."""
        names = cls(v.name for v in (*graph.inputs, *graph.states))
        for node in walk(graph):
            names.taken.update(v.name for v in node.outputs)
            for region in node.regions:
                names.taken.update(v.name for v in region.inputs)
        return names


class Labelled(Protocol):
    """A node, a builder or a call in a trace, which say where nodes come from."""

    @property
    def phase(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def loc(self) -> Location | None: ...
    @property
    def stage(self) -> int | None: ...
    @property
    def micro(self) -> int | None: ...


class Builder:
    """Appends nodes to `nodes`, with the phase, scope, line, stage and part of the batch that are current.

    Every primitive is a method: `e.matmul(a, b)`, `e.sum(x, axis=(0,))`. A method returns the
    output, or a tuple where there are several. Python numbers and arrays become constants of the
    dtype of the other operands.

    Examples:
        >>> from graphls.ir import Builder, Names, Value
        >>> from graphls.primitives import f32
        >>> x = Value("x", f32(2))
        >>> builder = Builder(Names(["x"]))
        >>> y = builder.mul(builder.exp(x), x)
        >>> str(y), [node.primitive.name for node in builder.nodes]
        ('%mul: f32[2]', ['exp', 'mul'])
    """

    def __init__(self, names: Names | None = None) -> None:
        self.names = names or Names()
        self.nodes: list[Node] = []
        self.phase = "forward"
        self.scope = ""
        self.loc: Location | None = None
        self.stage: int | None = None
        self.micro: int | None = None
        self._constants: dict[tuple[Type, bytes], Value] = {}

    def emit(
        self, primitive: Operation | str, inputs: Iterable[Value], attrs: Mapping[str, object] | None = None, *,
        after: Iterable[Value] = (), regions: tuple[Graph, ...] = (), name: str | None = None,
    ) -> tuple[Value, ...]:  # fmt: skip
        """Append a node and return its outputs; raises GraphlsError where the types do not fit."""
        operation = lookup(primitive) if isinstance(primitive, str) else primitive
        inputs, attrs = tuple(inputs), attrs or {}
        types = self._result_types(operation, inputs, attrs, regions)
        sharding = operation.result_sharding(attrs)
        outputs = tuple(Value(self.names.fresh(name or operation.name), t, sharding=sharding) for t in types)
        labels = self.phase, self.scope, self.loc, self.stage, self.micro
        node = Node(operation, inputs, outputs, attrs, tuple(dict.fromkeys(after)), regions, *labels)
        self.nodes.append(node)
        return outputs

    def _result_types(
        self, operation: Operation, inputs: tuple[Value, ...], attrs: Mapping[str, object], regions: tuple[Graph, ...]
    ) -> tuple[Type, ...]:
        try:
            return operation.result_types(tuple(v.type for v in inputs), attrs, regions)
        except GraphlsError as error:
            raise error.at(self.loc) from None

    def append(self, node: Node) -> None:
        """Append a finished node as it is."""
        self.nodes.append(node)

    def constant(self, value: Any, dtype: DType | None = None, shape: tuple[int, ...] | None = None) -> Value:
        """A constant; equal ones are made once. `shape` repeats one number.

        Raises GraphTypeError for anything but a number or an array of numbers.
        """
        array = np.asarray(value)
        try:
            array = array.astype((dtype or as_dtype(array.dtype)).numpy)
        except (TypeError, ValueError):
            raise GraphTypeError(f"A constant is a number or an array of numbers, not {value!r}.") from None
        if shape is not None:
            return self.fill(array, shape)
        key = (type_of(array), array.tobytes())
        if key not in self._constants:
            array.flags.writeable = False
            (self._constants[key],) = self.emit("constant", (), {"value": array}, name="c")
        return self._constants[key]

    const = constant
    """Another name of `constant`, as rules for ONNX have it."""

    def fill(self, value: Any, shape: tuple[int, ...]) -> Value:
        """One number, repeated to a shape."""
        scalar = self.constant(value)
        if not shape:
            return scalar
        return self.emit("broadcast_to", (scalar,), {"shape": tuple(shape)})[0]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            operation = lookup(name)
        except GraphKeyError as error:
            raise GraphAttributeError(error.message) from None

        def call(*operands: Any, **attrs: Any) -> Any:
            outputs = self.emit(operation, self._values(operands), attrs)
            return outputs[0] if len(outputs) == 1 else outputs

        return call

    def _values(self, operands: tuple[object, ...]) -> tuple[Value, ...]:
        dtype = next((v.type.dtype for v in operands if isinstance(v, Value)), None)
        return tuple(v if isinstance(v, Value) else self.constant(v, dtype) for v in operands)

    @contextmanager
    def operators(self) -> Iterator[Builder]:
        """Let operators of Python on values add nodes here while the block runs."""
        token = current_builder.set(self)
        try:
            yield self
        finally:
            current_builder.reset(token)

    @contextmanager
    def at(self, node: Node, phase: str | None = None) -> Iterator[Builder]:
        """Emit the nodes of the block as parts of `node`; see `follow`."""
        before = self.phase, self.scope, self.loc, self.stage, self.micro
        self.follow(node, phase)
        try:
            yield self
        finally:
            self.phase, self.scope, self.loc, self.stage, self.micro = before

    def follow(self, node: Labelled, phase: str | None = None) -> None:
        """Emit what comes next with the phase of `node`, or another one, and with its scope, line, stage and part."""
        self.phase = phase or node.phase
        self.scope, self.loc, self.stage, self.micro = node.scope, node.loc, node.stage, node.micro


def substitute(node: Node, mapping: Mapping[Value, Value]) -> Node:
    """The node with its operands, control edges and captured values exchanged.

    Examples:
        >>> from graphls.ir import parse
        >>> from graphls.passes import substitute
        >>> graph = parse('''
        ... graph @main(%x: f32[2], %y: f32[2]) {
        ...   %z = exp(%x) : f32[2]
        ...   return %z
        ... }
        ... ''')
        >>> x, y = graph.inputs
        >>> [value.name for value in substitute(graph.nodes[0], {x: y}).inputs]
        ['y']
    """
    if not mapping:
        return node
    inputs = tuple(mapping.get(v, v) for v in node.inputs)
    after = tuple(dict.fromkeys(mapping.get(v, v) for v in node.after))
    node = with_regions(node, lambda region: substitute_region(region, mapping))
    if inputs == node.inputs and after == node.after:
        return node
    return replace(node, inputs=inputs, after=after)


def substitute_region(region: Graph, mapping: Mapping[Value, Value]) -> Graph:
    """A region with captured values exchanged; the same object where nothing changes."""
    nodes = tuple(substitute(n, mapping) for n in region.nodes)
    outputs = tuple(mapping.get(v, v) for v in region.outputs)
    if nodes == region.nodes and outputs == region.outputs:
        return region
    return region.replace(nodes=nodes, outputs=outputs)


def copy_nodes(
    nodes: Iterable[Node], mapping: dict[Value, Value], names: Names, phase: str | None = None
) -> list[Node]:
    """Nodes copied with fresh outputs, which are added to `mapping`; operands are exchanged by it."""
    copied = []
    for node in nodes:
        regions = tuple(copy_region(r, mapping, names, phase) for r in node.regions)
        outputs = tuple(Value(names.fresh(v.name), v.type, sharding=v.sharding) for v in node.outputs)
        inputs = tuple(mapping.get(v, v) for v in node.inputs)
        after = tuple(mapping.get(v, v) for v in node.after)
        mapping.update(zip(node.outputs, outputs, strict=True))
        copied.append(
            replace(node, inputs=inputs, after=after, outputs=outputs, regions=regions, phase=phase or node.phase)
        )
    return copied


def copy_region(region: Graph, mapping: Mapping[Value, Value], names: Names, phase: str | None = None) -> Graph:
    """A copy of a region in which every value it defines is a new one."""
    inner = dict(mapping)
    inputs = tuple(Value(names.fresh(v.name), v.type) for v in region.inputs)
    inner.update(zip(region.inputs, inputs, strict=True))
    nodes = copy_nodes(region.nodes, inner, names, phase)
    outputs = tuple(inner.get(v, v) for v in region.outputs)
    return region.replace(inputs=inputs, nodes=tuple(nodes), outputs=outputs)
