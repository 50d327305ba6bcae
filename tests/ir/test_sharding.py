"""Meshes and shardings: their text, what the verifier refuses, and what a trace takes over from parameters."""

from __future__ import annotations

import copy
import pickle
import time
from dataclasses import replace

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir import Mesh, Sharding, Value, dump, parse, parse_type, same, verify
from graphls.ir.errors import GraphSyntaxError, GraphTypeError, GraphValueError, VerifyError
from graphls.ir.text import digest
from graphls.step.repeated import repeated

MESH = Mesh(data=4, model=2)
TEXT = """\
graph @main mesh(data=4, model=2) (%x: f32[8/data,4], %y: f32[3]) {
  state @w: f32[4,8/data+model]
  %z = matmul(%x, @w) : f32[8,8]  // forward
  %s = shard(%z) {axes=[["data"], ["model"]]} : f32[8/data,8/model]  // forward
  %t = shard(%s) {axes=[[], []]} : f32[8,8]  // forward
  @w <- @w
  return %t
}
"""
X = np.ones((8, 4), np.float32)


def test_a_mesh_has_named_axes_in_order() -> None:
    assert (MESH.size, MESH.names, dict(MESH.sizes)) == (8, ("data", "model"), {"data": 4, "model": 2})
    assert (str(MESH), repr(MESH)) == ("mesh(data=4, model=2)", "Mesh(data=4, model=2)")
    assert graphls.Mesh(data=4, model=2) == MESH != Mesh(model=2, data=4)
    assert len({MESH, Mesh(data=4, model=2), Mesh(model=2, data=4)}) == 2
    assert pickle.loads(pickle.dumps(MESH)) == copy.deepcopy(MESH) == MESH
    assert Mesh(data=np.int64(2)).size == 2
    assert MESH.parts(("data", "model")) == 8


@pytest.mark.parametrize(
    ("sizes", "kind", "message"),
    [
        ({}, GraphValueError, "at least one axis"),
        ({"data": 0}, GraphValueError, "must have 1 or more"),
        ({"data": 2.0}, GraphTypeError, "not 2.0"),
        ({"data": True}, GraphTypeError, "not True"),
        ({"données": 2}, GraphValueError, "cannot name an axis"),
        ({"a b": 2}, GraphValueError, "cannot name an axis"),
    ],
)
def test_a_wrong_mesh_is_refused_with_the_line(sizes: dict[str, int], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        Mesh(**sizes)
    assert "test_sharding.py" in str(caught.value)


def test_a_mesh_without_names_says_how_to_write_it() -> None:
    with pytest.raises(GraphTypeError, match=r"write it like Mesh\(data=4, model=2\), not with 4 alone\. \(.*test_"):
        Mesh(4)
    assert Mesh(self=2).names == ("self",)


def test_a_mesh_does_not_change() -> None:
    with pytest.raises(GraphTypeError, match="does not change"):
        MESH.sizes = {}
    with pytest.raises(TypeError):
        MESH.sizes["data"] = 1  # type: ignore[index]


def test_a_sharding_says_what_is_on_each_device() -> None:
    sharding = Sharding.of("data", None, ["model"])
    assert sharding.axes == (("data",), (), ("model",))
    assert sharding.local((8, 3, 6), MESH) == (2, 3, 3)
    assert sharding and not Sharding.of(None, ())
    assert Value("x", parse_type("f32[2]"), sharding=Sharding.of(None)).sharding is None
    with pytest.raises(GraphValueError, match="'data' can divide one axis"):
        Sharding.of("data", ("model", "data"))
    with pytest.raises(GraphTypeError, match="not by 3"):
        Sharding.of(3)  # type: ignore[arg-type]


def test_the_text_reads_back() -> None:
    graph = verify(parse(TEXT))
    assert (graph.mesh, graph.inputs[0].sharding) == (MESH, Sharding((("data",), ())))
    assert graph.states[0].sharding == Sharding(((), ("data", "model")))
    assert [node.outputs[0].sharding for node in graph.nodes][1:] == [Sharding((("data",), ("model",))), None]
    assert dump(graph) == TEXT
    assert same(graph, parse(TEXT))


CHANGES = (("data=4", "data=2"), ("8/data,4]", "8,4]"), ("8/data+model", "8/model+data"), ("[8/data,4]", "[8/model,4]"))


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_differences_of_shardings_and_meshes_count(old: str, new: str) -> None:
    graph, other = parse(TEXT), parse(TEXT.replace(old, new, 1))
    assert not same(graph, other)
    assert digest(graph) != digest(other)
    difference = graph.diff(other)
    assert difference
    assert new in str(difference) and old in str(difference)
    assert not graph.diff(parse(TEXT))


def test_the_mesh_alone_is_a_difference() -> None:
    text = "graph @g(%x: f32[2]) {\n  return %x\n}\n"
    difference = parse(text).diff(parse(text.replace("@g", "@g mesh(a=2) ")))
    assert difference.meshes == ((None, Mesh(a=2)),)
    assert "1 mesh" in str(difference)
    assert "was: no mesh (%x: f32[2])" in str(difference)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mesh(data=4, model=2) ", "", "%x is divided by data, and the graph has no mesh"),
        ("8/data+model", "8/data+modal", "@w is divided by 'modal', which is no axis of the mesh; it has"),
        ("8/data,4]", "8/data,4/data]", "%x is divided twice by 'data'"),
        ("8/data+model", "6/data+model", "@w has 6 elements on axis 1, which 8 devices do not divide evenly"),
        (": f32[8,8]  //", ": f32[8/data,8]  //", "%z is not divided by its node, and not f32[8/data,8]"),
        (": f32[8/data,8/model]", ": f32[8,8]", "%s is f32[8/data,8/model] by its node, and not f32[8,8]"),
        (': f32[8,8]  // forward\n  @w', ': f32[8/data,8]  // forward\n  @w', "%t is not divided by its node"),
        ('[["data"], ["model"]]', '[["data"]]', "F32[8,8] has 2 axes, and its sharding is for 1"),
    ],
)  # fmt: skip
def test_the_verifier_refuses(old: str, new: str, message: str) -> None:
    broken = parse(TEXT.replace(old, new, 1))
    with pytest.raises(VerifyError) as caught:
        verify(broken)
    assert message in str(caught.value).partition("\n")[0]


@pytest.mark.parametrize("value", ["%x", "%s", "%t"])
def test_a_state_takes_only_values_that_are_divided_like_it(value: str) -> None:
    text = f"""graph @main mesh(a=2) (%x: f32[4]) {{
  state @w: f32[4/a]
  %z = neg(%x) : f32[4]
  %s = shard(%z) {{axes=[["b"]]}} : f32[4/b]
  %t = shard(%z) {{axes=[[]]}} : f32[4]
  %u = shard(%z) {{axes=[["a"]]}} : f32[4/a]
  @w <- {value}
  return
}}""".replace("mesh(a=2)", "mesh(a=2, b=2)")
    with pytest.raises(VerifyError, match=r"@w is f32\[4/a\] and cannot take f32\[4(/b)?\], divided otherwise"):
        verify(parse(text))
    verify(parse(text.replace(f"<- {value}", "<- %u")))
    verify(parse(text.replace(f"<- {value}", "<- %z")))  # which the engine divides as the state


def test_regions_and_values_in_them_have_no_mesh_of_their_own() -> None:
    text = """graph @main mesh(a=2) (%f: bool[], %x: f32[4/a]) {
  %y = cond(%f) : f32[4] region {
    %s = shard(%x) {axes=[[]]} : f32[4]
    yield %s
  } region {
    yield %x
  }
  return %y
}"""
    graph = verify(parse(text))
    node = graph.nodes[0]
    region = node.regions[0].replace(mesh=MESH)
    broken = graph.replace(nodes=(replace(node, regions=(region, region)),))
    with pytest.raises(VerifyError, match="none of its own"):
        verify(broken)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("data=4", "data=0", "must have 1 or more"),
        ("model=2", "data=2", "the axis data is given twice"),
        ("data=4", "data=x", "expected a number"),
        ("data=4", "data=1.5", "not 1.5"),
        ("8/data,", "8/,", "expected a type"),
        ("8/data,", "8/data+,", "expected a type"),
        ("8/data,", "/data,", "malformed shape"),
    ],
)
def test_wrong_texts_are_syntax_errors_at_their_column(old: str, new: str, message: str) -> None:
    with pytest.raises(GraphSyntaxError, match=message) as caught:
        parse(TEXT.replace(old, new, 1))
    assert caught.value.lineno == 1


def test_a_long_wrong_type_is_refused_at_once() -> None:
    start = time.process_time()
    with pytest.raises(GraphSyntaxError):
        parse(f"graph @m(%x: f32[{'8/a11+b,' * 5000}{'/a11a' * 5000}")
    assert time.process_time() - start < 5


# -- traces --------------------------------------------------------------------------------------------------------


def network() -> nn.Dense:
    net = nn.Dense(4, 8)
    net.weight.sharding = ("model", None)
    return net


def test_a_trace_on_a_mesh_takes_the_shardings_of_parameters() -> None:
    net = network()
    assert net.weight.sharding == ("model", None)
    assert net.weight.clone().sharding == ("model", None)
    graph = graphls.trace_graph(net, X, mesh=MESH).graph
    assert graph.mesh == MESH
    assert str(graph.state("weight")) == "@weight: f32[8/model,4]"
    assert graph.state("bias").sharding is None
    plain = graphls.trace_graph(net, X).graph
    assert "mesh" not in str(plain) and "/model" not in str(plain)


def test_the_mesh_must_divide_parameters() -> None:
    net = network()
    net.weight.sharding = (None, ("data", "model"))
    with pytest.raises(GraphValueError, match=r"Parameter 'weight' has 4 elements on axis 1, which 8 devices"):
        graphls.trace_graph(net, X, mesh=MESH)
    with pytest.raises(GraphValueError, match=r"'model', which is no axis of the mesh; it has 'data'"):
        graphls.trace_graph(network(), X, mesh=Mesh(data=4))
    for axes, kind in (
        (("model",), GraphValueError), (("data", "data"), GraphValueError), ((1, 2), GraphTypeError),
        ("ab", GraphTypeError), (4, GraphTypeError), ({"data": 0, "model": 1}, GraphTypeError),
    ):  # fmt: skip
        with pytest.raises(kind, match=r"test_sharding\.py"):
            net.weight.sharding = axes
    for whole in (None, ()):
        net.weight.sharding = ("model", None)
        net.weight.sharding = whole
        assert net.weight.sharding == (None, None)


def test_shard_is_a_node_on_a_mesh_only() -> None:
    net = network()

    def loss(x: graphls.Tensor) -> graphls.Tensor:
        return ops.shard(net(x), "data", ("model",)).sum()

    assert "= shard(" not in str(graphls.trace_graph(loss, X).graph)
    assert np.array_equal(ops.shard(graphls.Tensor(X), None, "model").asnumpy(), X)
    text = str(graphls.trace_graph(graphls.grad(loss), X, mesh=MESH).graph)
    assert '= shard(%add) {axes=[["data"], ["model"]]} : f32[8/data,8/model]' in text
    assert graphls.compile(loss, X)(X).asnumpy() == pytest.approx(loss(graphls.Tensor(X)).asnumpy())


def test_the_gradient_of_shard_is_divided_alike() -> None:
    def loss(x: graphls.Tensor) -> graphls.Tensor:
        return (ops.shard(x * 2, "data", None) ** 2).sum()

    graph = graphls.trace_graph(graphls.grad(loss), X, mesh=MESH).graph
    nodes = graphls.passes.parse_pipeline("gradient").run(graph).graph.nodes
    shards = [node for node in nodes if node.primitive.name == "shard"]
    assert [node.phase for node in shards] == ["forward", "backward"]
    assert {str(node.output.sharding) for node in shards} == {str(Sharding.of("data", None))}


@pytest.mark.parametrize(
    ("axes", "kind", "message"),
    [
        (("data",), GraphValueError, "has 2 axes, and its sharding is for 1"),
        (("dat", None), GraphValueError, "no axis of the mesh; it has 'data' and 'model'"),
        ((None, ("data", "model")), GraphValueError, "has 4 elements on axis 1, which 8 devices"),
        (("data", "data"), GraphValueError, "can divide one axis"),
        ((2, None), GraphTypeError, "not by 2"),
    ],
)
def test_a_wrong_shard_is_refused_at_the_line(axes: tuple[str, ...], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        graphls.trace_graph(lambda x: ops.shard(x, *axes), X, mesh=MESH)
    assert "test_sharding.py" in str(caught.value)


def test_many_steps_in_one_keep_mesh_and_shardings() -> None:
    text = """graph @main mesh(data=2) (%x: f32[4/data]) {
  state @w: f32[4/data]
  %z = add(%x, @w) : f32[4]
  @w <- %z
  return %z
}"""
    graph = verify(repeated(parse(text), 3))
    assert graph.mesh == Mesh(data=2)
    assert [v.type_text for v in (*graph.inputs, *graph.states)] == ["f32[3,4/data]", "f32[4/data]"]
