"""Random graphs that use everything the IR has, as a hypothesis strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from graphls.ir import (
    DTYPES,
    PHASES,
    TOKEN,
    Builder,
    Graph,
    Location,
    Mesh,
    Names,
    Node,
    Sharding,
    Type,
    Value,
    Write,
)
from graphls.ir.registry import Operation
from graphls.ir.types import bfloat16, bool_

HOSTILE = (
    "", " ", ".", "0", "-1", "%x", "@w", '"', "\\", '\\"', "a b", "a\nb", "\r", "\t", "\x00", "\x7f", "// check", "}",
    "x: f32[2]", "return", "token", "nan", "f32[1]", "a|b", "a:1", "C:\\my net\\main.py", "<stdin>",
    "权重", "שלום", "\u202eevil", "\u2028", "😀", "\ud800",
)  # fmt: skip
PLAIN = ("x", "y", "fc.weight", "conv1", "_", "x_1", "net.py", "a/b/c.py")
TEXTS = st.one_of(st.sampled_from(PLAIN), st.sampled_from(HOSTILE), st.text(max_size=4))
DATA = tuple(dtype for dtype in DTYPES if dtype.kind != "token")
SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
TYPES = st.builds(Type, st.sampled_from(DATA), SHAPES)
MESHES = st.none() | st.dictionaries(st.sampled_from("axbY"), st.integers(1, 3), min_size=1).map(lambda s: Mesh(**s))
LOCATIONS = st.none() | st.builds(Location, TEXTS, st.integers(0, 10**6))


class Free(Operation):
    """A primitive for tests: any operands, attributes and regions; `results` lists dtypes and shapes."""

    name = "free"

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...] = ()
    ) -> tuple[Type, ...]:
        return tuple(Type(dtype, shape) for dtype, shape in attrs["results"])


FREE = Free()


@st.composite
def arrays(draw: DrawFn) -> np.ndarray[Any, Any]:
    """Round numbers or any bits, of any dtype; short and long, transposed, and in either byte order."""
    kind = draw(TYPES)
    dtype = kind.dtype.numpy
    size = kind.size * dtype.itemsize
    raw = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    if kind.dtype is bool_:
        return (raw % 2).astype(bool).reshape(kind.shape)
    array = raw.view(dtype).reshape(kind.shape)
    if draw(st.booleans()):
        array = raw[: kind.size].astype(dtype).reshape(kind.shape)
    if kind.dtype is not bfloat16 and draw(st.booleans()):
        array = array.astype(dtype.newbyteorder(">"))
    return array.T if draw(st.booleans()) else array


def attributes() -> st.SearchStrategy[dict[str, Any]]:
    """Attributes of every kind, by every sort of Python name."""
    leaves = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from((-0.0, 0.0, float("inf"), float("nan"))),
        TEXTS, st.sampled_from(DTYPES), arrays(),
    )  # fmt: skip
    values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
    keys = st.sampled_from(("axis", "array", "after", "inf", "nan", "token", "true", "_x1", "f32", "region", "Upper"))
    return st.dictionaries(keys, values, max_size=3)


class _Maker:
    """Draws one graph; `names` are taken over all its regions."""

    def __init__(self, draw: DrawFn) -> None:
        self.draw = draw
        self.names = Names()
        self.mesh = draw(MESHES)

    def fresh(self, kind: Type, is_state: bool = False) -> Value:
        return Value(self.names.fresh(self.draw(TEXTS)), kind, is_state)

    def sharded(self, kind: Type, is_state: bool = False) -> Value:
        return Value(self.names.fresh(self.draw(TEXTS)), kind, is_state, self.sharding(kind))

    def sharding(self, kind: Type) -> Sharding | None:
        """A sharding that divides the axes of a type evenly, if there is a mesh."""
        if self.mesh is None:
            return None
        axes: list[tuple[str, ...]] = [() for _ in kind.shape]
        for name in self.draw(st.permutations(self.mesh.names)):
            fitting = [i for i, n in enumerate(kind.shape) if n % self.mesh.parts((*axes[i], name)) == 0]
            if fitting and self.draw(st.booleans()):
                axes[self.draw(st.sampled_from(fitting))] += (name,)
        return Sharding(tuple(axes))

    def some(self, values: list[Value], most: int = 3) -> tuple[Value, ...]:
        return tuple(self.draw(st.lists(st.sampled_from(values), max_size=most))) if values else ()

    def graph(self) -> Graph:
        inputs = tuple(map(self.sharded, self.draw(st.lists(TYPES, max_size=3))))
        states = tuple(self.sharded(t, True) for t in self.draw(st.lists(TYPES, max_size=3)))
        nodes = self.block([*inputs, *states], 0)
        known = [*inputs, *states, *(v for node in nodes for v in node.outputs)]
        data = [v for v in known if v.type != TOKEN]
        writes = tuple(write for state in states for write in self.writes(state, data))
        return Graph(self.draw(TEXTS), inputs, states, tuple(nodes), writes, self.some(data), self.mesh)

    def writes(self, state: Value, known: list[Value]) -> list[Write]:
        # Only the results of other nodes than `shard` may be divided in any way.
        fitting = [v for v in known if v.type == state.type and v.sharding == state.sharding]
        value = self.draw(st.sampled_from(fitting))
        return [Write(state, value, self.draw(st.booleans()))] * self.draw(st.integers(0, 1))

    def block(self, outer: list[Value], depth: int) -> list[Node]:
        known, nodes = list(outer), []
        for _ in range(self.draw(st.integers(*((2, 5) if depth == 0 else (0, 2))))):
            for node in self.statement(known, depth):
                nodes.append(node)
                known.extend(node.outputs)
        return nodes

    def statement(self, known: list[Value], depth: int) -> list[Node]:
        data = [v for v in known if v.type != TOKEN]
        kinds = ("free", "constant", "start", "get") + (("cond", "custom") if depth < 2 else ())
        kinds += ("shard",) if self.mesh and data else ()
        kind = self.draw(st.sampled_from(kinds))
        if kind == "cond":
            return self.cond(data, known, depth)
        if kind == "custom":
            return [self.custom(data, known, depth)]
        if kind == "shard":
            operand = self.draw(st.sampled_from(data))
            return [self.emit(known, "shard", (operand,), {"axes": self.sharding(operand.type).axes})]
        if kind == "constant":
            return [self.emit(known, "constant", (), {"value": self.draw(arrays())})]
        if kind == "start":
            return [self.emit(known, "overflow_start", ())]
        if kind == "get":
            tokens = tuple(v for v in known if v.type == TOKEN)[-1:]
            return [self.emit(known, "overflow_get", (*tokens, *self.some(data)), {"mode": "window"})]
        results = tuple((t.dtype, t.shape) for t in self.draw(st.lists(TYPES, max_size=3)))
        return [self.emit(known, FREE, self.some(data), {"results": results, **self.draw(attributes())})]

    def cond(self, data: list[Value], known: list[Value], depth: int) -> list[Node]:
        flag = self.emit(known, FREE, self.some(data), {"results": ((bool_, ()),)})
        yielded = self.some([*data, flag.output])
        regions = tuple(self.branch([*known, flag.output], yielded, depth + 1) for _ in range(2))
        return [flag, self.emit(known, "cond", flag.outputs, regions=regions)]

    def branch(self, known: list[Value], yielded: tuple[Value, ...], depth: int) -> Graph:
        """A region that yields these values, or others of their types that it makes itself."""
        nodes = self.block(known, depth)
        if self.draw(st.booleans()):
            results = tuple((v.type.dtype, v.type.shape) for v in yielded)
            nodes.append(self.emit(known, FREE, yielded, {"results": results}))
            yielded = nodes[-1].outputs
        return Graph("region", (), (), tuple(nodes), (), yielded)

    def custom(self, data: list[Value], known: list[Value], depth: int) -> Node:
        operands = self.some(data)
        count = self.draw(st.integers(0, len(operands)))
        parameters = tuple(self.fresh(v.type) for v in (*operands, *operands[:count]))
        nodes = self.block([*known, *parameters], depth + 1)
        yielded = self.some([v for v in (*parameters, *(v for n in nodes for v in n.outputs)) if v.type != TOKEN])
        region = Graph("region", parameters, (), tuple(nodes), (), yielded)
        return self.emit(known, "custom_gradient", operands, {"outputs": count}, (region,))

    def emit(
        self,
        known: list[Value],
        primitive: Any,
        inputs: tuple[Value, ...],
        attrs: Mapping[str, Any] | None = None,
        regions: tuple[Graph, ...] = (),
    ) -> Node:
        e = Builder(self.names)
        e.phase = self.draw(st.sampled_from(PHASES))
        e.scope, e.loc = self.draw(TEXTS), self.draw(LOCATIONS)
        e.emit(primitive, inputs, attrs, after=self.some(known), regions=regions, name=self.draw(TEXTS))
        return e.nodes[0]


@st.composite
def graphs(draw: DrawFn) -> Graph:
    """A graph that the verifier accepts."""
    return _Maker(draw).graph()
