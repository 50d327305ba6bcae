"""Random graphs keep every bit of their values through fold, cse, merge and dce."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphls.ir import Builder, Graph, Names, Type, Value, Write, as_dtype, dump, parse, verify
from graphls.passes import parse_pipeline
from graphls.testing import assert_same_values

UNARY = ("neg", "abs", "exp", "sqrt", "relu", "depend", "stop_gradient", "sign", "floor")
ARITHMETIC = ("add", "sub", "mul", "div")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "relu_gradient")
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 300.0, 0.01, np.inf, -np.inf, np.nan)
COMPARISONS = ("less", "equal", "greater_equal")


class Making:
    """Draws nodes over one float dtype, in shapes that broadcast to [2,3]."""

    def __init__(self, draw: Any, dtype: str) -> None:
        self.draw = draw
        self.dtype = as_dtype(dtype)
        self.names = Names()
        self.e = Builder(self.names)
        self.values: list[Value] = []
        self.conditions: list[Value] = []

    def graph(self) -> Graph:
        shapes = ((2, 3), (2, 3), (3,), ())
        inputs = tuple(Value(self.names.fresh("x"), Type(self.dtype, s)) for s in shapes)
        condition = Value(self.names.fresh("b"), Type(as_dtype("bool")))
        state = Value("w", Type(self.dtype, (2, 3)), is_state=True)
        self.values += [*inputs, state]
        self.conditions.append(condition)
        for _ in range(self.draw(st.integers(3, 12))):
            self.node(depth=0)
        writes = [Write(state, v) for v in self.values if v.type == state.type][-1:]
        some = self.draw(st.lists(st.sampled_from(self.values), max_size=4))
        outputs = tuple(some if self.draw(st.booleans()) else self.values)
        return Graph("random", (*inputs, condition), (state,), tuple(self.e.nodes), tuple(writes), outputs)

    def node(self, depth: int) -> None:
        kinds = [self.unary, self.binary, self.neutral, self.neutral, self.constant, self.cast, self.reshape]
        kinds += [self.where, self.compare, self.ordered] + [self.cond] * (depth < 2)
        made = self.draw(st.sampled_from(kinds))(depth)
        self.values.extend(made)

    def any(self) -> Value:
        return self.draw(st.sampled_from(self.values))

    def unary(self, depth: int) -> tuple[Value, ...]:
        return self.e.emit(self.draw(st.sampled_from(UNARY)), (self.any(),))

    def binary(self, depth: int) -> tuple[Value, ...]:
        return self.e.emit(self.draw(st.sampled_from(BINARY)), (self.any(), self.any()))

    def neutral(self, depth: int) -> tuple[Value, ...]:
        """An operation with a number that may change nothing."""
        pair = [self.any(), *self.constant(depth)]
        if self.draw(st.booleans()):
            pair.reverse()
        return self.e.emit(self.draw(st.sampled_from(ARITHMETIC)), pair)

    def constant(self, depth: int) -> tuple[Value, ...]:
        number = np.array(self.draw(st.sampled_from(NUMBERS))).astype(self.dtype.numpy)
        if self.draw(st.booleans()):
            return (self.e.fill(number, (2, 3)),)
        return self.e.emit("constant", (), {"value": np.full(self.draw(st.sampled_from([(), (3,)])), number)})

    def cast(self, depth: int) -> tuple[Value, ...]:
        middle = self.e.emit("cast", (self.any(),), {"dtype": self.draw(st.sampled_from(FLOATS))})
        return self.e.emit("cast", middle, {"dtype": self.dtype})

    def reshape(self, depth: int) -> tuple[Value, ...]:
        value = self.any()
        flat = self.e.emit("reshape", (value,), {"shape": (-1,)})
        if value.type.rank == 2:
            turned = self.e.emit("transpose", (value,), {"permutation": (1, 0)})
            (back,) = self.e.emit("transpose", turned, {"permutation": (1, 0)})
            return (back, *self.e.emit("reshape", flat, {"shape": value.type.shape}))
        wide = self.e.emit("broadcast_to", (value,), {"shape": (2, 3)})
        return (*wide, *self.e.emit("reshape", flat, {"shape": value.type.shape}))

    def where(self, depth: int) -> tuple[Value, ...]:
        return self.e.emit("where", (self.draw(st.sampled_from(self.conditions)), self.any(), self.any()))

    def compare(self, depth: int) -> tuple[Value, ...]:
        if self.draw(st.booleans()):
            (known,) = self.e.emit("constant", (), {"value": np.array(self.draw(st.booleans()))})
        else:
            scalars = [v for v in self.values if not v.type.shape]
            pair = self.draw(st.sampled_from(scalars)), self.draw(st.sampled_from(scalars))
            (known,) = self.e.emit(self.draw(st.sampled_from(COMPARISONS)), pair)
        self.conditions += [known, *self.e.emit("logical_not", self.e.emit("logical_not", (known,)))]
        return ()

    def ordered(self, depth: int) -> tuple[Value, ...]:
        made = [v for n in self.e.nodes for v in n.outputs]
        after = self.draw(st.lists(st.sampled_from(made), max_size=2)) if made else []
        return self.e.emit("depend", (self.any(),), after=after)

    def cond(self, depth: int) -> tuple[Value, ...]:
        condition = self.draw(st.sampled_from([v for v in self.conditions if not v.type.shape]))
        wanted = [v.type for v in self.draw(st.lists(st.sampled_from(self.values), min_size=1, max_size=3))]
        regions = tuple(self.region(wanted, depth) for _ in range(2))
        return self.e.emit("cond", (condition,), regions=regions)

    def region(self, wanted: list[Type], depth: int) -> Graph:
        outer, values, conditions = self.e, list(self.values), list(self.conditions)
        self.e = Builder(self.names)
        for _ in range(self.draw(st.integers(0, 4))):
            self.node(depth + 1)
        outputs = tuple(self.draw(st.sampled_from([v for v in self.values if v.type == t])) for t in wanted)
        nodes = tuple(self.e.nodes)
        self.e, self.values, self.conditions = outer, values, conditions
        return Graph("region", (), (), nodes, (), outputs)


FLOATS = tuple(map(as_dtype, ("f16", "bf16", "f32", "f64")))


@st.composite
def graphs(draw: Any, dtype: str) -> Graph:
    return Making(draw, dtype).graph()


EVERYTHING = "fold, cse, merge, dce, fold, cse, merge, dce"


@pytest.mark.parametrize(
    ("dtype", "passes"),
    [
        *(("f32", name) for name in ("fold", "cse", "merge", "dce")),
        *(("f16", "fold"), ("f16", EVERYTHING), ("bf16", EVERYTHING)),
    ],
)
def test_values_are_kept(dtype: str, passes: str) -> None:
    @settings(max_examples=min(50, settings().max_examples))
    @given(graphs(dtype))
    def check(graph: Graph) -> None:
        verify(graph)
        result = parse_pipeline(passes).run(graph)
        assert_same_values(graph, result.graph, runs=1)
        assert dump(parse(dump(result.graph))) == dump(result.graph)

    check()


@settings(max_examples=min(20, settings().max_examples))
@given(graphs("f32"))
def test_a_second_run_changes_nothing(graph: Graph) -> None:
    for passes in ("cse", "dce"):
        once = parse_pipeline(passes).run(graph).graph
        assert dump(parse_pipeline(passes).run(once).graph) == dump(once)
