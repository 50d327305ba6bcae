"""Rows of a group: edges lead down, long ones pass waypoints, wide rows are divided."""

from __future__ import annotations

from hypothesis import given, settings

from graphls.inspect.viz.layers import LONGEST, WIDEST, Edge, Layers, Waypoint, layered
from graphls.inspect.viz.links import Links
from graphls.inspect.viz.tree import Child, Group, Port, grouped, members
from graphls.ir import Graph, Node, Value, parse
from graphls.ir.registry import lookup
from tests.viz.graphs import F32, random_graphs, step


def all_layers(graph: Graph) -> dict[Group, Layers]:
    root = grouped(graph)
    links = Links(root)
    groups = [root, *(child for child in members(root) if isinstance(child, Group))]
    return {group: layered(group, links) for group in groups}


def phase(graph: Graph) -> Layers:
    """The layers of the first phase."""
    return next(layers for group, layers in all_layers(graph).items() if group.kind == "phase")


def name(slot: Child | Waypoint) -> str:
    if isinstance(slot, Group):
        return slot.label
    if isinstance(slot, Waypoint):
        return "|"
    return slot.value.name if isinstance(slot, Port) else slot.outputs[0].name


def rows(layers: Layers) -> list[list[str]]:
    return [[name(slot) for slot in row] for row in layers.rows]


def edges(layers: Layers) -> set[tuple[str, str, tuple[str, ...], bool]]:
    return {(name(e.source), name(e.target), tuple(v.name for v in e.values), e.control) for e in layers.edges}


def test_the_rows_and_edges_of_a_step() -> None:
    top = next(iter(all_layers(step()).values()))
    assert rows(top)[:2] == [["x", "t"], ["forward"]]
    assert edges(top) == {
        ("x", "forward", ("x",), False),
        ("t", "forward", ("t",), False),
        ("forward", "check", ("loss",), True),
        ("forward", "loss", ("loss",), False),
        ("forward", "backward", ("d", "b"), False),
        ("check", "backward", ("status",), True),
        ("check", "check", ("status",), False),
        ("backward", "check", ("gw",), False),
        ("backward", "update", ("gw",), False),
        ("check", "overflow", ("overflow",), False),
        ("check", "update", ("overflow",), False),
    }


def test_values_that_cross_the_border_of_a_group() -> None:
    found = {(group.kind, group.label, group.phase): layers for group, layers in all_layers(step()).items()}
    backward = found["phase", "backward", "backward"]
    assert {name(c): [v.name for v in vs] for c, vs in backward.incoming.items()} == {
        "seed": ["status"],
        "net": ["d", "b"],
    }
    assert {name(c): [v.name for v in vs] for c, vs in backward.outgoing.items()} == {"net": ["gw"]}
    other = found["region", "else", "update"]
    assert {name(c): [v.name for v in vs] for c, vs in other.incoming.items()} == {"optimizer": ["gw"]}
    assert edges(other) == {("optimizer", "m", ("m",), False), ("optimizer", "w_2", ("w_2",), False)}


@given(random_graphs())
@settings(max_examples=50)
def test_every_child_has_one_place_and_every_edge_leads_down(graph: Graph) -> None:
    for group, layers in all_layers(graph).items():
        row_of = {slot: i for i, row in enumerate(layers.rows) for slot in row}
        assert sum(map(len, layers.rows)) == len(row_of) and all(layers.rows)
        assert {slot for slot in row_of if not isinstance(slot, Waypoint)} == set(group.children)
        for edge in layers.edges:
            first, last = row_of[edge.source], row_of[edge.target]
            assert first < last and edge.broken == (last - first > LONGEST)
            expected = [] if edge.broken else list(range(first + 1, last))
            assert [row_of[way] for way in edge.via] == expected
            assert all(way.source is edge.source for way in edge.via)


@given(random_graphs())
@settings(max_examples=15)
def test_the_same_graph_gives_the_same_rows(graph: Graph) -> None:
    first, again = ([*map(rows, all_layers(g).values())] for g in (graph, parse(str(graph))))
    assert first == again


def relu(source: Value, out: str) -> Node:
    return Node(lookup("relu"), (source,), (Value(out, F32),))


def add(a: Value, b: Value, out: str) -> Node:
    return Node(lookup("add"), (a, b), (Value(out, F32),))


def graph_of(*nodes: Node, given: Value) -> Graph:
    return Graph("main", (given,), (), nodes, (), nodes[-1].outputs)


X = Value("x", F32)


def ladder(length: int) -> list[Node]:
    nodes = [relu(X, "v0")]
    for i in range(1, length):
        nodes.append(relu(nodes[-1].output, f"v{i}"))
    return nodes


def long_edge(length: int) -> Edge:
    """An edge that the ends of a chain of so many nodes are joined by as well."""
    nodes = ladder(length)
    layers = phase(graph_of(*nodes, add(nodes[-1].output, nodes[0].output, "end"), given=X))
    return next(edge for edge in layers.edges if (name(edge.source), name(edge.target)) == ("v0", "end"))


def test_a_long_edge_passes_a_waypoint_in_each_row_and_a_longer_one_is_broken() -> None:
    assert not long_edge(LONGEST).broken and len(long_edge(LONGEST).via) == LONGEST - 1
    assert long_edge(LONGEST + 1).broken and not long_edge(LONGEST + 1).via


def test_edges_of_one_source_share_their_waypoints() -> None:
    nodes = ladder(6)
    first = nodes[0].output
    nodes += [add(first, nodes[3].output, "a"), add(first, nodes[5].output, "b")]
    found = {name(e.target): e for e in phase(graph_of(*nodes, given=X)).edges if name(e.source) == "v0"}
    assert found["a"].via == found["b"].via[: len(found["a"].via)] and len(found["b"].via) == 5


def test_what_needs_nothing_stands_right_above_its_first_user() -> None:
    nodes = ladder(5)
    constant = Node(lookup("constant"), (), (Value("k", F32),))
    layers = phase(graph_of(constant, *nodes, add(nodes[-1].output, constant.output, "end"), given=X))
    assert sorted(rows(layers)[4]) == ["k", "v4"] and rows(layers)[5] == ["end"]


def test_a_wide_row_is_divided_evenly() -> None:
    count = 2 * WIDEST + 2
    first = relu(X, "first")
    layers = phase(graph_of(first, *(relu(first.output, f"r{i}") for i in range(count)), given=X))
    boxes = [sum(not isinstance(slot, Waypoint) for slot in row) for row in layers.rows]
    assert boxes == [1, 9, 9, 8]


def test_parts_that_nothing_joins_stand_side_by_side_up_to_a_width() -> None:
    pairs = []
    for i in range(WIDEST + 1):
        pairs.append(relu(X, f"a{i}"))
        pairs.append(relu(pairs[-1].output, f"b{i}"))
    found = rows(phase(graph_of(*pairs, given=X)))
    assert found[:2] == [[f"{kind}{i}" for i in range(WIDEST)] for kind in "ab"]
    assert found[2:] == [[f"a{WIDEST}"], [f"b{WIDEST}"]]


def test_few_lines_cross() -> None:
    sources = [relu(X, f"s{i}") for i in range(6)]
    joined = [add(sources[i].output, sources[(i + 3) % 6].output, f"t{i}") for i in (4, 1, 5, 0, 2, 3)]
    top, bottom = rows(phase(graph_of(relu(X, "u"), *sources, *joined, given=X)))[:2]
    pairs = [(top.index(f"s{j}"), bottom.index(f"t{i}")) for i in range(6) for j in (i, (i + 3) % 6)]
    crossed = sum((a - c) * (b - d) < 0 for n, (a, b) in enumerate(pairs) for c, d in pairs[:n])
    assert crossed == 3


def test_an_empty_graph_has_no_rows() -> None:
    (layers,) = all_layers(Graph("empty", (), (), (), (), ())).values()
    assert layers.rows == () and layers.edges == ()
