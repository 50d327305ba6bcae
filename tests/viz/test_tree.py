"""The tree of groups: phases, cells, regions, states; every node once, and no circles among siblings."""

from __future__ import annotations

import networkx
from hypothesis import given, settings

from graphls.inspect.viz.links import Links
from graphls.inspect.viz.tree import MOST_LOOSE, Child, Group, Port, grouped, members
from graphls.ir import Graph, Node, Type, Value, Write, as_dtype, parse, walk
from graphls.ir.registry import lookup
from graphls.ir.text import reference
from tests.viz.graphs import F32, hostile, random_graphs, step


def outline(child: Child) -> object:
    """The tree as nested lists of labels."""
    if isinstance(child, Group):
        return [f"{child.kind} {child.label}", *map(outline, child.children)]
    return f"{child.kind} {reference(child.value)}" if isinstance(child, Port) else reference(child.outputs[0])


def groups(root: Group) -> list[Group]:
    return [root, *(child for child in members(root) if isinstance(child, Group))]


def test_a_step_as_a_tree() -> None:
    assert outline(grouped(step())) == [
        "graph step",
        "input %x",
        "input %t",
        [
            "phase forward",
            ["cell net", ["cell first", "%a"], ["cell act", "%b"], ["cell second", "%c"], ["cell act", "%d"]],
            ["cell loss", "%e", "%loss"],
        ],
        ["phase check", "%status"],
        [
            "phase backward",
            "%seed",
            ["cell loss", "%k", "%ge", "%wide"],
            ["cell net", ["cell act", "%gd"], ["cell second", "%gw"]],
        ],
        ["phase check", "%overflow"],
        [
            "phase update",
            [
                "node cond",
                ["region then", "yield @moments.w", "yield @w"],
                ["region else", ["cell optimizer", "%m", "%w_2"], "yield %m", "yield %w_2"],
            ],
        ],
        "output %loss",
        "output %overflow",
    ]


def test_groups_say_where_they_are_and_of_which_phase() -> None:
    graph = step()
    found = {(g.kind, g.label): g for g in groups(grouped(graph))}
    assert found["graph", "step"].phase == "" and found["cell", "first"].path == "net.first"
    assert found["phase", "backward"].phase == found["cell", "act"].phase == "backward"
    assert found["node", "cond"].node is graph.nodes[-1]
    assert found["region", "then"].phase == "update" and found["region", "then"].node is None


def chain(scopes: list[str], phases: list[str] | None = None) -> Graph:
    """Nodes in a row, each of which needs the one before."""
    values = [Value(f"v{i}", F32) for i in range(len(scopes) + 1)]
    nodes = tuple(
        Node(lookup("relu"), (values[i],), (values[i + 1],), scope=scope, phase=phases[i] if phases else "forward")
        for i, scope in enumerate(scopes)
    )
    return Graph("chain", (values[0],), (), nodes, (), (values[-1],))


def cells(graph: Graph) -> object:
    forward = next(child for child in grouped(graph).children if isinstance(child, Group))
    return outline(forward)


def test_cells_with_one_cell_inside_are_one_group() -> None:
    expected = ["phase forward", ["cell net.body", ["cell a", "%v1"], ["cell b.c", "%v2"]]]
    assert cells(chain(["net.body.a", "net.body.b.c"])) == expected


def test_a_number_has_the_name_before_it_in_its_label() -> None:
    expected = ["phase forward", ["cell layers", ["cell layers.0", "%v1"], ["cell layers.1", "%v2"]]]
    assert cells(chain(["layers.0", "layers.1"])) == expected


def test_a_node_of_the_outer_cell_between_two_inner_ones_is_no_circle() -> None:
    assert cells(chain(["a.b", "a", "a.b"])) == [
        "phase forward",
        ["cell a", ["cell b", "%v1"], "%v2", ["cell b", "%v3"]],
    ]


def test_phases_that_alternate_are_several_groups() -> None:
    phases = ["forward", "backward", "forward", "backward", "update"]
    tops = [child.label for child in grouped(chain([""] * 5, phases)).children if isinstance(child, Group)]
    assert tops == phases


def test_pieces_are_one_again_where_nothing_comes_between() -> None:
    """The second node of `u` waits for the check behind `b`, the first only for `b`; what follows waits for both."""
    graph = parse(
        """graph @main(%x: f32[4]) {
          %c1 = neg(%x) : f32[4]  // forward c
          %b = relu(%c1) : f32[4]  // forward b
          %c2 = neg(%b) : f32[4]  // forward c
          %u1 = exp(%b) : f32[4]  // forward u
          %u2 = add(%u1, %c2) : f32[4]  // forward u
          %b2 = relu(%u2) : f32[4]  // forward b
          return %b2
        }"""
    )
    assert cells(graph) == [
        "phase forward",
        ["cell c", "%c1"],
        ["cell b", "%b"],
        ["cell c", "%c2"],
        ["cell u", "%u1", "%u2"],
        ["cell b", "%b2"],
    ]


def test_what_needs_nothing_stands_with_its_user() -> None:
    """A cell that is used twice has one weight; the group that uses it has it, though it was read first."""
    graph = parse(
        """graph @main(%x: f32[4]) {
          state @w: f32[4]
          %v = neg(@w) : f32[4]  // forward cell
          %a = relu(%x) : f32[4]  // forward cell
          %b = relu(%a) : f32[4]  // forward other
          %c = mul(%b, %v) : f32[4]  // forward cell
          return %c
        }"""
    )
    assert cells(graph) == ["phase forward", ["cell cell", "%v", "%c"], ["cell cell", "%a"], ["cell other", "%b"]]


@given(random_graphs())
@settings(max_examples=60)
def test_every_node_is_in_the_tree_once_and_siblings_wait_in_no_circle(graph: Graph) -> None:
    root = grouped(graph)
    found = [child for child in members(root) if isinstance(child, Node)]
    found += [group.node for group in groups(root) if group.node is not None]
    assert len(found) == len(set(found)) and set(found) == set(walk(graph))
    ports = [child for child in members(root) if isinstance(child, Port)]
    assert sum(p.kind == "input" for p in ports) == len(graph.inputs)
    for edges in Links(root).between.values():
        assert networkx.is_directed_acyclic_graph(networkx.DiGraph((s, t) for s, t, _ in edges))


@given(random_graphs())
@settings(max_examples=15)
def test_the_same_graph_gives_the_same_tree(graph: Graph) -> None:
    again = parse(str(graph))
    assert outline(grouped(graph)) == outline(grouped(again))


def optimizer(parameters: list[str], shared: bool = True) -> Graph:
    """An update of three nodes for each parameter and its moment, which share a rate."""
    rate, gradient = Value("rate", F32, is_state=True), Value("g", F32)
    states, nodes, writes = [rate], [], []
    step = Node(lookup("neg"), (rate,), (Value("step", F32),), phase="update", scope="optimizer")
    nodes += [step] * shared
    for name in parameters:
        weight, moment = (Value(n, F32, is_state=True) for n in (name, f"moments.{name}"))
        m, d, w = (Value(f"{kind}.{name}", F32) for kind in ("m", "d", "w"))
        used = step.output if shared else rate
        for primitive, inputs, out in (("add", (moment, gradient), m), ("mul", (m, used), d), ("sub", (weight, d), w)):
            nodes.append(Node(lookup(primitive), inputs, (out,), phase="update", scope="optimizer"))
        states += [weight, moment]
        writes += [Write(moment, m), Write(weight, w)]
    return Graph("main", (gradient,), tuple(states), tuple(nodes), tuple(writes), ())


def test_many_nodes_of_one_cell_are_divided_by_the_states_they_are_for() -> None:
    names = [f"net.{layer}.{kind}" for layer in range(8) for kind in ("weight", "bias")]
    (phase,) = (child for child in grouped(optimizer(names)).children if isinstance(child, Group))
    (cell,) = phase.children
    assert isinstance(cell, Group)
    step, divided = cell.children
    assert isinstance(divided, Group) and isinstance(step, Node) and step.output.name == "step"
    assert (divided.kind, divided.label, divided.path) == ("states", "@net", "net")
    inner = [child for child in divided.children if isinstance(child, Group)]
    assert [child.label for child in inner] == [f"@net.{i}" for i in range(8)]
    assert all(len(child.children) == 6 and child.phase == "update" for child in inner)


def test_few_nodes_stay_together() -> None:
    assert not any(g.kind == "states" for g in groups(grouped(optimizer(["a", "b", "c"]))))


def test_division_goes_into_the_branches_of_a_cond_and_ignores_what_only_decides() -> None:
    names = [f"p{i}" for i in range(20)]
    flat = optimizer(names, shared=False)
    flag, gradient = Value("flag", step().outputs[1].type), flat.inputs[0]
    values = tuple(write.value for write in flat.writes)
    states = tuple(write.state for write in flat.writes)
    regions = (Graph("then", (), (), (), (), states), Graph("else", (), (), flat.nodes, (), values))
    results = tuple(Value(f"r{i}", F32) for i in range(len(values)))
    cond = Node(lookup("cond"), (flag,), results, {}, (), regions, phase="update")
    writes = tuple(Write(state, result) for state, result in zip(states, results, strict=True))
    found = groups(grouped(flat.replace(inputs=(flag, gradient), nodes=(cond,), writes=writes)))
    assert [g.label for g in found if g.kind == "states" and g.phase] == [f"@{name}" for name in names]
    (kept,) = (g for g in found if g.label == "40 states as they are")
    assert all(isinstance(port, Port) and port.kind == "yield" for port in kept.children)


def test_many_ports_are_in_one_group() -> None:
    values = tuple(Value(f"x{i}", F32) for i in range(MOST_LOOSE + 1))
    few = grouped(Graph("few", values[1:], (), (), (), ()))
    many = grouped(Graph("many", values, (), (), (), values[:1]))
    assert all(isinstance(child, Port) for child in few.children)
    assert outline(many) == [
        "graph many",
        [f"states {len(values)} inputs", *(f"input %{v.name}" for v in values)],
        "output %x0",
    ]


def test_scopes_may_be_deep() -> None:
    path = ".".join(["a"] * 5000)
    graph = chain([path, f"{path}.b", *(".".join(["a"] * i) for i in range(1, 1500))])
    assert len([c for c in members(grouped(graph)) if isinstance(c, Node)]) == 1501


def test_hostile_names_are_kept_as_they_are() -> None:
    labels = {group.label for group in groups(grouped(hostile()))}
    assert {node.scope.removeprefix("net.") for node in hostile().nodes} <= labels


def test_what_an_overflow_check_reads_is_for_the_state_that_it_makes_all_the_same() -> None:
    gradient = Value("x", F32)
    flag = Value("flag", Type(as_dtype("bool")), is_state=True)
    states = [Value(f"layer.{i}", F32, is_state=True) for i in range(MOST_LOOSE + 2)]
    made = [Node(lookup("relu"), (gradient,), (Value(f"g{i}", F32),), phase="backward") for i in range(len(states))]
    overflow = Node(lookup("overflow_get"), tuple(n.output for n in made), (Value("o", flag.type),), phase="check")
    updates = [
        Node(lookup("sub"), (state, node.output), (Value(f"w{i}", F32),), phase="update", scope="optimizer")
        for i, (state, node) in enumerate(zip(states, made, strict=True))
    ]
    writes = [Write(state, node.output) for state, node in zip(states, updates, strict=True)]
    nodes = (*made, overflow, *updates)
    graph = Graph("main", (gradient,), (flag, *states), nodes, (Write(flag, overflow.output), *writes), ())
    assert [(g.label, g.phase) for g in groups(grouped(graph)) if g.kind == "states"] == [
        ("@layer", "backward"),
        ("@layer", "update"),
    ]
