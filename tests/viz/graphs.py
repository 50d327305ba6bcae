"""Graphs that the tests of pictures share: a step as text, hostile names, random ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from graphls.ir import PHASES, Graph, Location, Node, Type, Value, Write, as_dtype, parse, verify
from graphls.ir.registry import lookup

F32 = Type(as_dtype("f32"), (4,))
BOOL = Type(as_dtype("bool"))

STEP = """\
graph @step(%x: f32[4], %t: f32[4]) {
  state @w: f32[4]
  state @moments.w: f32[4]
  state @scale: f32[]
  %a = mul(%x, @w) : f32[4]  // forward net.first | user.py:3
  %b = relu(%a) : f32[4]  // forward net.act | user.py:4
  %c = mul(%b, @w) : f32[4]  // forward net.second | user.py:5
  %d = relu(%c) : f32[4]  // forward net.act | user.py:4
  %e = sub(%d, %t) : f32[4]  // forward loss | user.py:6
  %loss = mean(%e) {axis=none, keepdims=false} : f32[]  // forward loss | user.py:6
  %status = overflow_start() after(%loss) : token  // check | user.py:7
  %seed = depend(@scale) after(%status) : f32[]  // backward | user.py:7
  %k = constant() {value=array(f32[], [0.25])} : f32[]  // backward loss | user.py:6
  %ge = mul(%seed, %k) : f32[]  // backward loss | user.py:6
  %wide = broadcast_to(%ge) {shape=[4]} : f32[4]  // backward loss | user.py:6
  %gd = relu_gradient(%wide, %d) : f32[4]  // backward net.act | user.py:4
  %gw = mul(%gd, %b) : f32[4]  // backward net.second | user.py:5
  %overflow = overflow_get(%status, %gw) : bool[]  // check | user.py:7
  %m_1, %w_1 = cond(%overflow) : f32[4], f32[4] region {
    yield @moments.w, @w
  } region {
    %m = add(@moments.w, %gw) : f32[4]  // update optimizer | user.py:8
    %w_2 = sub(@w, %m) : f32[4]  // update optimizer | user.py:8
    yield %m, %w_2
  }  // update | user.py:8
  @moments.w <- %m_1
  @w <- %w_1
  return %loss, %overflow
}
"""
"""A whole step by hand: a shared cell `net.act`, an overflow window, an update under a cond."""

HOSTILE = (
    '"><script>alert(1)</script>',
    "</style></svg><b onmouseover='x'>&amp;&lt;",
    "line\nbreak\r\ttab \x00 \x1b[31m \x85 \u2028",
    "\u202eright to left\u2066 \u05e9\u05dc\u05d5\u05dd",
    "long" * 2500,
    "\ud800 lone, 雪 wide, e\u0301 combined, 🙂",
    "back\\slash \\N \\G {a|b} <b>html</b> -> n1; }",
    "]]> --> <!-- <![CDATA[ <?xml",
)


def step() -> Graph:
    return verify(parse(STEP))


def hostile() -> Graph:
    """A chain of cells, values, states and files whose names try to leave the format that they are shown in."""
    states = tuple(Value(f"s{name}", F32, is_state=True) for name in HOSTILE)
    value = first = Value(f"i{HOSTILE[0]}", F32)
    nodes = []
    for name, state in zip(HOSTILE, states, strict=True):
        out = Value(name, F32)
        loc = Location(f"{name}.py", 1)
        nodes.append(Node(lookup("add"), (value, state), (out,), scope=f"net.{name.replace('.', '')}", loc=loc))
        value = out
    writes = tuple(Write(state, node.output) for state, node in zip(states, nodes, strict=True))
    return Graph(HOSTILE[0], (first,), states, tuple(nodes), writes, (value,))


SCOPES = ("", "a", "b", "a.x", "a.y", "b.x.y", "a.x.0", "a.x.1")


@st.composite
def random_graphs(draw: Any) -> Graph:
    """Graphs of adds and conds with any phases, cells and control edges, which no pass would leave like that."""
    count = iter(range(10_000))

    def name() -> str:
        return f"v{next(count)}"

    def node(seen: list[Value], depth: int) -> Node:
        kind = {"phase": draw(st.sampled_from(PHASES)), "scope": draw(st.sampled_from(SCOPES))}
        after = tuple(dict.fromkeys(draw(st.lists(st.sampled_from(seen), max_size=1)))) if seen else ()
        after = tuple(value for value in after if not value.is_state and value is not flag)
        pick = st.sampled_from(floats := [value for value in seen if value.type == F32])
        if depth < 2 and draw(st.integers(0, 5)) == 0:
            regions = tuple(block(list(seen), depth + 1) for _ in range(2))
            return Node(lookup("cond"), (flag,), (Value(name(), F32),), {}, after, regions, **kind)
        inputs = (draw(pick), draw(pick)) if floats else ()
        return Node(lookup("add"), inputs, (Value(name(), F32),), {}, after, **kind)

    def block(seen: list[Value], depth: int) -> Graph:
        nodes = []
        for _ in range(draw(st.integers(0, 4 if depth else 30))):
            nodes.append(node(seen, depth))
            seen += nodes[-1].outputs
        last = next(value for value in reversed(seen) if value.type == F32)
        return Graph("region", (), (), tuple(nodes), (), (last,))

    flag = Value("flag", BOOL)
    state = Value("state", F32, is_state=True)
    inputs = (flag, Value("x", F32))
    main = block([state, *inputs], 0)
    writes = (Write(state, main.outputs[0]),) if draw(st.booleans()) else ()
    return verify(Graph("random", inputs, (state,), main.nodes, writes, main.outputs))
