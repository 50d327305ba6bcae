"""What a saved model tells those who open it, and that it computes what the session's model does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from examples.digits import LeNet, make_step
from graphls import nn
from graphls.ir import Graph, Location, Node, dump, parse, walk
from graphls.onnx.importing.reader import read_onnx
from graphls.runtime.lowering import lower
from graphls.runtime.lowering.metadata import described
from graphls.runtime.lowering.protos import graphs

F32 = np.float32
HOSTILE = ['"><script>alert(1)</script>', "a\nb\r", "\u202egpj.exe", "x" * 10_000, "名 字", "%s'"]


def digits_step() -> graphls.Compiled:
    images, labels = np.zeros((4, 1, 8, 8), F32), np.zeros(4, np.int32)
    return graphls.compile(make_step(LeNet()), images, labels)


def transformer_step() -> graphls.Compiled:
    network = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2).to_float(graphls.float16)
    optimizer = nn.Adam(network.trainable_params(), 1e-3)
    manager = nn.DynamicLossScaleUpdateCell(2.0**10, 2, 100)
    loss = nn.WithLossCell(network, nn.MSELoss())
    x = np.ones((3, 2, 8), F32)
    return graphls.compile(nn.TrainOneStepWithLossScaleCell(loss, optimizer, manager).set_train(), x, x)


STEPS = {"digits": digits_step, "transformer": transformer_step}


@pytest.fixture(scope="module", params=STEPS)
def step(request: pytest.FixtureRequest) -> graphls.Compiled:
    return STEPS[request.param]()


def told(proto: Any) -> dict[str, str]:
    entries = {entry.key: entry.value for entry in proto.metadata_props}
    assert len(entries) == len(proto.metadata_props), "keys are distinct"
    return entries


def operators(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for graph in graphs(model.graph) for node in graph.node]


def test_every_operator_tells_what_it_computes(step: graphls.Compiled) -> None:
    origins, texts = step._session.lowered.origins, str(step.graph).splitlines()
    known = {line.strip() for line in texts}
    for proto in operators(step.onnx):
        node: Node = origins[proto.name]
        scope = node.scope.replace(".", "/")
        assert told(proto) == {
            "namespace": f"{node.phase}/{scope}" if scope else node.phase,
            "graphls.phase": node.phase,
            "graphls.scope": node.scope,
            "graphls.primitive": node.primitive.name,
            **({"graphls.location": str(node.loc)} if node.loc else {}),
        }
        assert proto.doc_string in known or proto.doc_string.endswith("…")


def test_operators_in_branches_tell_it_too(step: graphls.Compiled) -> None:
    inner = [node for graph in list(graphs(step.onnx.graph))[1:] for node in graph.node]
    assert "update" in {told(node)["graphls.phase"] for node in inner}


def test_inputs_and_outputs_tell_their_role(step: graphls.Compiled) -> None:
    graph, model = step.graph, step.onnx
    roles = Counter(told(info)["graphls.role"] for info in (*model.graph.input, *model.graph.output))
    drawn = sum(node.primitive.on_host for node in graph.nodes)
    assert roles["input"] == len(graph.inputs) and roles["state"] == len(graph.states)
    assert roles["output"] == len(graph.outputs) and roles["write"] == len(graph.writes)
    assert roles["random"] == drawn
    ends = filter(lambda entries: entries["graphls.role"] == "write", map(told, model.graph.output))
    writes = {entries["graphls.state"]: "graphls.in_place" in entries for entries in ends}
    assert writes == {w.state.name: w.in_place for w in graph.writes}
    assert all(info.doc_string.endswith(".") for info in (*model.graph.input, *model.graph.output))


def test_the_model_tells_who_made_it_and_its_states(step: graphls.Compiled) -> None:
    model = step.onnx
    entries = told(model)
    assert model.producer_version == entries["graphls.base.version"] == graphls.__version__
    assert entries["graphls.graph"] == step.graph.name
    assert entries["graphls.states"].splitlines() == [repr(state) for state in step.graph.states]


def test_every_tensor_has_its_type(step: graphls.Compiled) -> None:
    for graph in graphs(step.onnx.graph):
        typed = {v.name for v in (*graph.value_info, *graph.output)}
        assert {name for node in graph.node for name in node.output} <= typed


def test_the_checker_accepts_it_and_versions_stay(step: graphls.Compiled) -> None:
    model = step.onnx
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version <= 10 and all(entry.version <= 21 for entry in model.opset_import)


def test_the_session_compiles_the_model_without_it(step: graphls.Compiled) -> None:
    bare = step._session.lowered.model
    step.onnx  # noqa: B018 - asking for it must not change the session's model
    assert not bare.metadata_props and not bare.graph.value_info
    assert not any(node.metadata_props or node.doc_string for node in operators(bare))
    assert [node.name for node in operators(bare)] == [node.name for node in operators(step.onnx)]


@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_the_same_step_gives_the_same_bytes(make: Any) -> None:
    first, second = make(), make()
    assert first.onnx.SerializeToString() == first.onnx.SerializeToString() == second.onnx.SerializeToString()


def feeds(model: onnx.ModelProto) -> dict[str, Any]:
    generator = np.random.default_rng(0)

    def made(info: onnx.ValueInfoProto) -> Any:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        return generator.random(shape).astype(dtype)

    return {info.name: made(info) for info in model.graph.input}


def test_the_numbers_are_the_same(step: graphls.Compiled) -> None:
    runtime = pytest.importorskip("onnxruntime")
    models = [step._session.lowered.model, step.onnx]
    sessions = [runtime.InferenceSession(model.SerializeToString()) for model in models]
    first, second = (session.run(None, feeds(models[0])) for session in sessions)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def places(nodes: Any) -> set[tuple[str, str, Any]]:
    return {(node.phase, node.scope, node.loc) for node in nodes}


def test_what_is_read_back_has_phases_cells_lines_and_states(step: graphls.Compiled) -> None:
    graph = read_onnx(step.onnx)
    assert graph.name == step.graph.name
    assert [repr(state) for state in graph.states] == [repr(state) for state in step.graph.states]
    assert [v.name for v in graph.inputs][: len(step.graph.inputs)] == [v.name for v in step.graph.inputs]
    assert [(w.state.name, w.in_place) for w in graph.writes] == [(w.state.name, w.in_place) for w in step.graph.writes]
    assert len(graph.outputs) == len(step.graph.outputs)
    assert places(walk(graph)) == places(step._session.lowered.origins.values())
    assert dump(graph) == dump(read_onnx(step.onnx))


def test_a_saved_file_is_read_back(tmp_path: Path) -> None:
    step = digits_step()
    step.save(tmp_path / "step.onnx")
    assert dump(read_onnx(tmp_path / "step.onnx")) == dump(read_onnx(step.onnx))


def test_constants_stand_before_their_first_reader_in_its_place() -> None:
    graph = read_onnx(digits_step().onnx)
    constants = [node for node in walk(graph) if node.primitive.name == "Constant"]
    assert constants
    for constant in constants:
        assert "value" in constant.attrs and not constant.inputs
    first = next(n for n in graph.nodes if n.primitive.name != "Constant" and constants[0].output in n.inputs)
    assert (constants[0].phase, constants[0].scope, constants[0].loc) == (first.phase, first.scope, first.loc)


class Hostile(nn.Cell):
    """A cell whose inner cells and parameters have hostile names."""

    def __init__(self) -> None:
        super().__init__()
        for number, name in enumerate(HOSTILE):
            setattr(self, name, nn.Dense(2, 2))
            setattr(self, f"own{number}", graphls.Parameter(np.ones(2, F32), name=f"{name}!"))

    def construct(self, x: Any) -> Any:
        for number, name in enumerate(HOSTILE):
            x = getattr(self, name)(x) * getattr(self, f"own{number}")
        return x


def test_hostile_names_are_told_as_they_are(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    x = np.ones((1, 2), F32)
    step = graphls.compile(Hostile(), x)
    model = step.onnx
    onnx.checker.check_model(model, full_check=True)
    session = runtime.InferenceSession(model.SerializeToString())
    values = {step._session.lowered.states[name]: p.asnumpy() for name, p in step.parameters.items()}
    np.testing.assert_array_equal(session.run(None, values | {"x": x})[0], step(x).asnumpy())
    graph = read_onnx(model)
    assert {state.name for state in graph.states} == {state.name for state in step.graph.states}
    assert {node.scope for node in walk(graph)} == {node.scope for node in step._session.lowered.origins.values()}
    assert len(dump(graph).splitlines()) == 3 + len(graph.states) + len(graph.nodes)


def test_lines_of_files_whose_names_are_no_text_and_long_constants() -> None:
    text = "graph @main(%x: f32[200]) {\n  %y = exp(%x) : f32[200]  // forward\n  return %y\n}\n"
    graph: Graph = parse(text)
    node = Node(**{f: getattr(graph.nodes[0], f) for f in Node.__slots__} | {"loc": Location("a\udcff:b.py" * 500, 3)})
    graph = graph.replace(nodes=(node,))
    model = described(lower(graph), graph)
    assert told(model.graph.node[0])["graphls.location"] == "a\\udcff:b.py" * 500 + ":3"
    assert len(model.graph.node[0].doc_string) <= 1000
    (shown,) = read_onnx(onnx.ModelProto.FromString(model.SerializeToString())).nodes
    assert str(shown.loc) == "a\\udcff:b.py" * 500 + ":3"


def test_a_step_without_a_session_of_a_runtime_has_the_same_model() -> None:
    x = np.ones((2, 3), F32)
    network = nn.Dense(3, 2)
    steps = [graphls.compile(network, x, backend=backend) for backend in ("numpy", "onnxruntime")]
    assert len({step.onnx.SerializeToString() for step in steps}) == 1
