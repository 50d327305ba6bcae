"""Reading any ONNX model as a graph to look at."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from graphls.ir import Graph, Node, Type, Value, dump, needs, walk
from graphls.ir.errors import GraphTypeError
from graphls.ir.types import float32
from graphls.onnx.importing.reader import read_onnx
from graphls.onnx.importing.types import ShownType
from tests.importing import onnx_models as models

BACKEND_MODELS = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data").rglob("*.onnx"))


def text(graph: Graph) -> list[str]:
    return dump(graph).splitlines()


def only(graph: Graph) -> Node:
    (node,) = graph.nodes
    return node


def assert_is_a_schedule(graph: Graph) -> None:
    """Every value has a name of its own and stands before its readers, as the viewers need it."""
    assert len({v.name for v in everything(graph)}) == len(everything(graph))
    defined = {*graph.inputs, *graph.states}
    for node in graph.nodes:
        assert defined.issuperset(needs(node))
        defined.update(node.outputs)
    assert defined.issuperset((*graph.outputs, *(w.value for w in graph.writes)))


def everything(graph: Graph) -> list[Value]:
    inner = [v for node in walk(graph) for v in (*node.outputs, *(p for r in node.regions for p in r.inputs))]
    return [*graph.inputs, *graph.states, *inner]


@pytest.mark.parametrize("make", models.MADE)
def test_values_are_defined_once_and_before_they_are_read(make: Callable[[], onnx.ModelProto]) -> None:
    assert_is_a_schedule(read_onnx(make()))


def test_attributes_of_every_kind_are_shown_and_long_ones_are_cut() -> None:
    attrs = dict(only(read_onnx(models.every_attribute())).attrs)
    np.testing.assert_array_equal(attrs.pop("small"), np.float32([1, 2]))
    assert [float(a.sum()) for a in attrs.pop("tensors")] == [1.0, 2.0]
    assert attrs == {
        "number": 0.1,
        "count": -3,
        "word": "h\u00e9\n\u202e",
        "bytes": "\\xff\\xfe",
        "large": "i64[1000] = 0, 1, 2, 3, 4, 5, 6, 7, ...",
        "words": "string[2] = a, b\n",
        "complex": "complex64[1] = 1j",
        "thin": "sparse f32[3,4]",
        "type": "f32[batch,3]",
        "numbers": (0.1, 2.5),
        "counts": (*range(16), "... 40 in all"),
        "names": ("a", "b"),
        "thins": ("sparse f32[3,4]",),
        "types": ("f32[batch,3]", "i64[...]"),
        "empty": (),
        "zero": 0,
    }


def test_branches_are_regions_that_take_values_from_around_them() -> None:
    graph = read_onnx(models.branch())
    node = only(graph)
    assert [region.name for region in node.regions] == ["then_branch", "else_branch"]
    assert [n.primitive.name for region in node.regions for n in region.nodes] == ["Constant", "Add", "Constant", "Sub"]
    assert all(region.nodes[1].inputs[0] is graph.inputs[0] for region in node.regions)
    names = [v.name for n in walk(graph) for v in n.outputs]
    assert len(set(names)) == len(names), "names are unique in the whole graph"
    assert [n.scope for n in walk(graph)] == ["plus", "plus", "minus", "minus", "head"]


def test_loops_have_parameters_and_inputs_that_are_left_out_are_told() -> None:
    graph = read_onnx(models.loops())
    loop = only(graph)
    assert loop.attrs == {"input_positions": (1, 2)}
    (body,) = loop.regions
    assert [str(v.type) for v in body.inputs] == ["i64[]", "bool[]", "f32[2]"]
    scan = body.nodes[0]
    assert scan.inputs[0] is graph.states[0]
    assert len(scan.outputs) == 1 and len(scan.regions[0].outputs) == 2


def test_types_that_are_not_static_are_shown_as_they_are_declared() -> None:
    types = {v.name: v.type for v in read_onnx(models.kinds_of_types()).inputs}
    assert {name: str(kind) for name, kind in types.items()} == {
        "maybe": "optional(sequence(f32[n,?,3]))",
        "table": "map(string, f32[n,?,3])",
        "thin": "sparse f32[3,4]",
        "rank": "f32[...]",
        "text": "string[n]",
        "hostile": 'f32["a\\"]\\n",?]',
        "small": "float8e4m3fn[2]",
        "deep": f"f32[{','.join(['1'] * 16)},... 40 axes]",
        "nothing": "?",
    }
    assert types["rank"].dtype is float32 and types["hostile"].shape == (0, 0)
    assert all(isinstance(kind, ShownType) and repr(kind) == str(kind) and not kind.nbytes for kind in types.values())
    assert types["maybe"].size == types["text"].size == 0


def test_static_types_are_those_of_the_ir() -> None:
    assert type(only(read_onnx(models.chain(["a"]))).output.type) is Type


def test_types_inside_come_from_shape_inference() -> None:
    shape = models.tensor(np.int64([3, -1]), "shape")
    nodes = [
        onnx.helper.make_node("Reshape", ["x", "shape"], ["z"]),
        onnx.helper.make_node("Shape", ["z"], ["y"]),
    ]
    graph = read_onnx(models.model(nodes, [models.info("x", [6, 2])], [models.info("y", None, models.INT64)], [shape]))
    assert [str(n.output.type) for n in graph.nodes] == ["f32[3,4]", "i64[2]"]


def test_types_are_inferred_without_the_data_of_large_constants() -> None:
    weight = models.tensor(np.zeros((100, 200), np.float32), "w")
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["z"]), onnx.helper.make_node("Neg", ["z"], ["y"])]
    made = models.model(nodes, [models.info("x", ["n", 100])], [models.info("y", None)], [weight])
    before = made.SerializeToString()
    assert str(read_onnx(made).nodes[0].output.type) == "f32[n,200]"
    assert made.SerializeToString() == before, "the model of the caller stays as it is"


def test_functions_are_shown_with_their_content() -> None:
    twice = only(read_onnx(models.functions()))
    assert twice.primitive.name == "own.Twice"
    first, second = twice.regions[0].nodes
    assert [n.regions[0].nodes[0].primitive.name for n in (first, second)] == ["LeakyRelu", "LeakyRelu"]
    assert first.attrs == {"slope": 0.5}
    assert first.regions[0].nodes[0].attrs == {"alpha": "the attribute slope of the function"}
    assert str(first.regions[0].inputs[0].type) == "f32[2]"


@pytest.mark.parametrize(("count", "is_cycle"), [(40, False), (3, True), (1, True), (3000, False)])
def test_functions_that_would_fill_the_memory_are_shown_as_operators(count: int, is_cycle: bool) -> None:
    node = only(read_onnx(models.functions_without_end(count, is_cycle)))
    assert (node.primitive.name, node.regions) == ("own.F0", ())


def test_initializers_are_states_and_their_data_is_not_needed() -> None:
    graph = read_onnx(models.constants())
    assert [v.name for v in graph.inputs] == ["x"]
    assert [repr(v) for v in graph.states] == [
        "@listed: f32[2]",
        "@outside: f32[1000,1000]",
        "@huge: f32[1099511627776,1099511627776]",
        "@s: sparse f32[3,4]",
    ]
    assert graph.writes == ()


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("", ""),
        ("Conv_3", ""),
        ("/Relu", ""),
        ("/layer1/layer1.0/conv1/Conv", "layer1.0.conv1"),
        ("model/block_1/Relu", "model.block_1"),
        ("//a///b//", "a.b"),
        ("<script>/alert(1)/Relu", "<script>.alert(1)"),
    ],
)
def test_scopes_come_from_the_names_of_operators(name: str, scope: str) -> None:
    node = only(read_onnx(models.chain([name])))
    assert (node.scope, node.phase, node.loc) == (scope, "forward", None)


def told(**entries: str) -> Node:
    model = models.chain(["node"])
    for key, value in entries.items():
        model.graph.node[0].metadata_props.add(key=key.replace("__", "."), value=value)
    return only(read_onnx(model))


@pytest.mark.parametrize(
    ("entries", "scope"),
    [
        ({"pkg__torch__onnx__name_scopes": "['', 'layer1', 'layer1.0', 'conv2d']"}, "layer1.0"),
        ({"pkg__torch__onnx__name_scopes": "['relu']", "namespace": "a/b"}, "a.b"),
        ({"pkg__torch__onnx__name_scopes": "__import__('os').abort()"}, ""),
        ({"pkg__torch__onnx__name_scopes": "[" * 5000}, ""),
        ({"namespace": ": net.Model/layer1: net.Block/layer1.0: torch.nn.Linear/linear: aten.linear"}, "layer1.0"),
        ({"namespace": "forward/conv1"}, "forward.conv1"),
    ],
)
def test_scopes_come_from_what_exporters_tell(entries: dict[str, str], scope: str) -> None:
    assert told(**entries).scope == scope


def test_lines_come_from_the_stack_that_pytorch_tells() -> None:
    trace = 'File "/home/a b/net.py", line 12, in forward\n    x = self.fc(x)\nFile "net.py", line 7, in forward\n  y'
    assert str(told(pkg__torch__onnx__stack_trace=trace).loc) == "net.py:7"
    trace += '\n  File "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward\n    return'
    assert str(told(pkg__torch__onnx__stack_trace=trace).loc) == "net.py:7"
    inside = "File " + trace.rpartition("File ")[2]
    assert str(told(pkg__torch__onnx__stack_trace=inside).loc).endswith("linear.py:134")
    assert told(pkg__torch__onnx__stack_trace="no stack").loc is None


def test_what_graphls_tells_is_read_back_and_nonsense_is_left() -> None:
    node = told(graphls__phase="backward", graphls__scope="a.b", graphls__location="C:\\x:y\n.py:12")
    assert (node.phase, node.scope, str(node.loc)) == ("backward", "a.b", "C:\\x:y\n.py:12")
    node = told(graphls__phase="sideways", graphls__location="nowhere")
    assert (node.phase, node.scope, node.loc) == ("forward", "", None)


def test_operators_in_the_wrong_order_are_put_in_order() -> None:
    model = models.chain(["a", "b", "c", "d"])
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes[n] for n in (2, 0, 3, 1))
    graph = read_onnx(model)
    assert [n.output.name for n in graph.nodes] == ["t1", "t2", "t3", "y"]
    assert_is_a_schedule(graph)


def test_hostile_names_are_text_in_one_line() -> None:
    names = ['"><script>alert(1)</script>', "a\nb\r\0", "\u202egpj", "x" * 10_000, "名", "%", "'", "}"]
    nodes = [onnx.helper.make_node(name, ["x"], [f"{name}."], domain=name, name=f"{name}/x") for name in names]
    for node, name in zip(nodes, names, strict=True):
        node.attribute.add(name=name, type=onnx.AttributeProto.INT, i=1)
    model = models.model(nodes, ["x"], [f"{name}." for name in names], name=names[0])
    graph = read_onnx(model)
    assert len(text(graph)) == len(names) + 3
    assert all(c == "\n" or c.isprintable() for c in dump(graph))
    assert [n.scope for n in graph.nodes][:2] == ['"><script>alert(1)<.script>', "a\nb\r\0"]


def test_an_operator_that_is_shown_has_no_rules() -> None:
    operation: Any = only(read_onnx(models.chain(["a"]))).primitive
    for rule in (operation.result_types, operation.evaluate, operation.run_regions):
        with pytest.raises(GraphTypeError, match="run the model itself"):
            rule((), {}, ())


def test_the_same_model_gives_the_same_text() -> None:
    for make in models.MADE:
        assert dump(read_onnx(make())) == dump(read_onnx(make()))


@pytest.mark.parametrize("path", BACKEND_MODELS, ids=lambda p: os.path.join(p.parent.name, p.name))
def test_the_models_of_the_onnx_package_can_be_read(path: Path) -> None:
    proto = onnx.load(path)
    graph = read_onnx(path, infer_types=False)
    assert_is_a_schedule(graph)
    assert len(text(graph)) >= 3 + len(graph.states) + len(graph.nodes)
    assert len(graph.nodes) == len(proto.graph.node)
    assert len(graph.inputs) + len(graph.states) == len(
        {v.name for v in proto.graph.input} | {t.name for t in proto.graph.initializer}
    )


def test_there_are_models_in_the_onnx_package() -> None:
    assert len(BACKEND_MODELS) > 100


def test_most_types_of_a_whole_network_are_found() -> None:
    (path,) = (path for path in BACKEND_MODELS if path.name == "light_resnet50.onnx")
    kinds = [str(value.type) for node in read_onnx(path).nodes for value in node.outputs]
    assert kinds.count("?") == 0 and "f32[1,64,56,56]" in kinds


def test_a_model_that_tells_all_types_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.chain(["a", "b"])
    model.graph.value_info.append(models.info("t1", ["n"]))
    monkeypatch.setattr("subprocess.run", None)
    assert [str(n.output.type) for n in read_onnx(model).nodes] == ["f32[n]", "f32[2]"]


def test_a_large_model_is_read() -> None:
    graph = read_onnx(models.chain([f"/layer{n // 10}/Relu" for n in range(10_000)]))
    assert len(graph.nodes) == 10_000
    assert graph.nodes[-1].scope == "layer999"
