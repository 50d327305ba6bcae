"""The shardings of steps on a mesh: what the pass states, what other passes keep, and what the proof refuses."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import graphls
from graphls import nn
from graphls.ir import Graph, Mesh, Sharding, dump, interpret, parse, same, verify, walk
from graphls.ir.errors import GraphTypeError, GraphValueError, VerifyError
from graphls.ir.text import digest
from graphls.passes import parse_pipeline
from graphls.passes.distributed.optimizer_states import gradients, owners
from graphls.passes.distributed.sharding_proof import verify_shardings
from graphls.passes.distributed.shardings import Shardings
from graphls.passes.windows import verify_windows
from graphls.step.api import CPU_PASSES, GRAPH_PASSES
from tests.ir.graphs import graphs

MESH = Mesh(data=2, model=2)
X, Y = np.ones((4, 6), np.float32), np.ones((4, 8), np.float32)

OPTIMIZERS: dict[str, tuple[Any, list[str]]] = {
    "SGD": (lambda p: nn.SGD(p, 0.1, momentum=0.9), ["accum", "stat"]),
    "Momentum": (lambda p: nn.Momentum(p, 0.1, 0.9), ["moments"]),
    "Adam": (lambda p: nn.Adam(p, 0.1), ["moment1", "moment2"]),
    "AdamWeightDecay": (lambda p: nn.AdamWeightDecay(p, 0.1), ["adam_m", "adam_v"]),
    "Lamb": (lambda p: nn.Lamb(p, 0.1), ["lamb_m", "lamb_v"]),
    "RMSProp": (lambda p: nn.RMSProp(p, 0.1, centered=True), ["mean_square", "moment", "mean_grad"]),
    "Muon": (lambda p: nn.Muon(p, 0.1), ["moment"]),
}


def traced(optimizer: Any, mesh: Mesh | None = MESH, is_scaled: bool = True) -> graphls.Graph:
    net = nn.Dense(6, 8)
    net.weight.sharding = ("model", None)
    loss = nn.WithLossCell(net, nn.MSELoss())
    updates = optimizer(net.trainable_params())
    if not is_scaled:
        return graphls.trace_graph(nn.TrainOneStepCell(loss, updates), X, Y, mesh=mesh).graph
    manager = nn.DynamicLossScaleUpdateCell(1024.0, 2, 5)
    return graphls.trace_graph(nn.TrainOneStepWithLossScaleCell(loss, updates, manager), X, Y, mesh=mesh).graph


def names(graph: Graph) -> list[str]:
    return [value.name for value in graph.states]


def texts(graph: Graph) -> dict[str, str]:
    return {value.name: value.type_text for value in graph.states}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("is_scaled", [False, True])
def test_states_of_optimizers_belong_to_their_parameters(name: str, is_scaled: bool) -> None:
    graph = traced(OPTIMIZERS[name][0], is_scaled=is_scaled)
    assert sorted(state.name for state in gradients(graph).values()) == ["bias", "weight"]
    for state, parameter in owners(graph).items():
        assert state.name.endswith(parameter.name) and state.type.shape == parameter.type.shape
    kept = [s for s in graph.states if s.name not in ("weight", "bias") and s.type.size in (48, 8)]
    written = {w.state for w in graph.writes}
    assert {s.name for s in owners(graph)} >= {s.name for s in kept if s in written}
    assert kept


def test_the_levels_of_zero() -> None:
    graph = traced(OPTIMIZERS["Adam"][0])
    whole = {"bias": "f32[8]", "moment1.bias": "f32[8]", "scale_sense": "f32[]"}
    model = dict.fromkeys(("weight", "moment1.weight", "moment2.weight"), "f32[8/model,6]")
    wide = "f32[8/model+data,6]"
    expected = {
        0: model | whole,
        1: model | whole | {"moment1.weight": wide, "moment2.weight": wide, "moment1.bias": "f32[8/data]"},
    }
    expected[2] = expected[1]
    expected[3] = expected[1] | {"weight": wide, "bias": "f32[8/data]"}
    for zero, states in expected.items():
        stated = verify(Shardings(zero).run(graph))
        assert [v.type_text for v in stated.inputs] == ["f32[4/data,6]", "f32[4/data,8]"]
        assert texts(stated).items() >= states.items()
        phases = [node.phase for node in stated.nodes if node.primitive.name == "shard"]
        assert phases == {0: [], 1: [], 2: ["backward"] * 2, 3: ["forward"] * 2 + ["backward"] * 2}[zero]


@pytest.mark.parametrize("zero", range(4))
@pytest.mark.parametrize("passes", [CPU_PASSES, GRAPH_PASSES])
@pytest.mark.parametrize("name", ["Adam", "Lamb"])
def test_the_pipeline_keeps_shardings_and_numbers(name: str, passes: str, zero: int) -> None:
    graph = traced(OPTIMIZERS[name][0])
    stated = Shardings(zero).run(graph)
    final = parse_pipeline(passes).run(stated).graph
    verify_windows(final)
    verify_shardings(final)
    assert final.mesh == MESH
    assert (texts(final), [v.type_text for v in final.inputs]) == (texts(stated), [v.type_text for v in stated.inputs])
    required = {node.output.type_text for node in walk(stated) if node.primitive.name == "shard"}
    assert {node.output.type_text for node in walk(final) if node.primitive.name == "shard"} == required
    assert same(parse(dump(final)), final)
    plain = parse_pipeline(passes).run(traced(OPTIMIZERS[name][0], None)).graph
    assert digest(plain) != digest(final)
    arrays = {v.name: np.full(v.type.shape, 0.25, v.type.dtype.numpy) for v in (*plain.inputs, *plain.states)}

    def run(step: Graph) -> list[Any]:
        inputs, states = ([arrays[v.name] for v in values] for values in (step.inputs, step.states))
        results, states = interpret(step, inputs, dict(zip(names(step), states, strict=True)))
        return [*results, *(states[name] for name in sorted(states))]

    for ours, theirs in zip(run(final), run(plain), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(graphs())
@settings(max_examples=30)
def test_passes_keep_what_a_graph_states(graph: Graph) -> None:
    final = parse_pipeline("cse, merge, dce, order").run(graph, verify=True).graph
    assert final.mesh == graph.mesh
    assert [v.sharding for v in (*final.inputs, *final.states)] == [v.sharding for v in (*graph.inputs, *graph.states)]


def test_inputs_may_be_divided_in_other_ways() -> None:
    graph = traced(OPTIMIZERS["SGD"][0])

    def inputs(*axes: Any) -> list[str]:
        return [v.type_text for v in Shardings(inputs=axes).run(graph).inputs]

    assert inputs(()) == ["f32[4,6]", "f32[4/data,8]"]
    assert inputs(None, (None, "model")) == ["f32[4/data,6]", "f32[4,8/model]"]
    assert inputs((("data", "model"), None)) == ["f32[4/data+model,6]", "f32[4/data,8]"]
    with pytest.raises(GraphValueError, match=r"'inputs_0' has 6 elements on axis 1, which 4 devices"):
        inputs((None, ("data", "model")))
    with pytest.raises(GraphValueError, match="for 3 inputs, and the step has 2"):
        inputs((), (), ())
    with pytest.raises(GraphTypeError, match="not by 1"):
        inputs((1, 2))


def test_what_cannot_be_divided_is_whole_with_a_warning() -> None:
    text = "graph @g mesh(data=3) (%x: f32[4,2]) {\n  return %x\n}\n"
    with pytest.warns(UserWarning, match="each of the 3 devices along 'data' computes all of the batch"):
        assert dump(Shardings().run(parse(text))) == text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Shardings().run(parse(text.replace("data=3", "data=1")))
        Shardings(inputs=((),)).run(parse(text))


def test_a_large_state_that_stays_whole_is_worth_a_warning() -> None:
    text = """graph @g mesh(data=2) (%x: f32[2]) {
  state @w: f32[151,151]
  state @m: f32[151,151]
  %l = sum(@w) {axis=none, keepdims=false} : f32[]
  %c = constant() {value=array(f32[], [1.0])} : f32[]
  %g = gradient(%l, %c, @w) {of=1, wrt=1} : f32[151,151]
  %n = add(@m, %g) : f32[151,151]
  @m <- %n
  return %l
}"""
    with pytest.warns(UserWarning, match=r"1 states, such as @m: f32\[151,151\], are whole on each of the 2 devices"):
        assert texts(Shardings(1).run(parse(text)))["m"] == "f32[151,151]"


@pytest.mark.parametrize("zero", [-1, 4, True, "1", None])
def test_a_wrong_level_is_refused(zero: Any) -> None:
    with pytest.raises((GraphTypeError, GraphValueError), match="level of ZeRO"):
        Shardings(zero)


def test_zero_needs_its_axis_and_a_graph_without_a_mesh_stays() -> None:
    graph = traced(OPTIMIZERS["SGD"][0], Mesh(model=2))
    with pytest.raises(GraphValueError, match=r"zero=1 divides states along the mesh axis 'data', and there is none"):
        Shardings(1).run(graph)
    plain = traced(OPTIMIZERS["SGD"][0], None)
    assert Shardings(3).run(plain) is plain


def test_a_state_takes_a_divided_value_only_through_shard() -> None:
    text = """graph @g mesh(data=2) (%x: f32[4]) {
  state @last: f32[4]
  state @double: f32[4]
  %y = add(%x, %x) : f32[4]
  %n = neg(%x) : f32[4]
  @last <- %x
  @double <- %n
  return %y
}"""
    stated = verify(Shardings().run(parse(text)))
    assert [node.primitive.name for node in stated.nodes] == ["add", "neg", "shard", "shard"]
    assert all(write.value.name.startswith("shard") for write in stated.writes)
    verify_shardings(stated)


def test_the_proof_refuses_a_state_that_is_divided_otherwise() -> None:
    text = """graph @g mesh(data=2) (%x: f32[4]) {
  state @w: f32[4]
  %s = shard(%x) {axes=[["data"]]} : f32[4/data]
  %n = neg(%s) : f32[4]
  @w <- %n
  return
}"""
    graph = verify(parse(text))
    with pytest.raises(VerifyError, match="divided in another way than the value from a shard"):
        verify_shardings(graph)
    verify_shardings(parse(text.replace("@w: f32[4]", "@w: f32[4/data]")))
    verify_shardings(parse(text.replace('mesh(data=2) ', "").replace("4/data", "4").replace('["data"]', "[]")))


def test_the_proof_refuses_collectives_of_ranks() -> None:
    text = """graph @g mesh(data=2) (%x: f32[4]) {
  %t, %s = all_reduce(%x) {group="world", op="sum", ranks=2} : token, f32[4]
  return %s
}"""
    with pytest.raises(VerifyError, match="all_reduce combines numbers of ranks"):
        verify_shardings(parse(text))
    verify_shardings(parse(text.replace("mesh(data=2) ", "")))


# -- compile -------------------------------------------------------------------------------------------------------


def test_other_engines_refuse_a_mesh_of_several_devices() -> None:
    for options in ({"engine": "onnxruntime"}, {"engine": "numpy"}, {"backend": "numpy"}, {"engine": "auto"}):
        with pytest.raises(GraphValueError, match=r"mesh\(data=2\) has 2; use engine='xla', or mesh=Mesh\(data=1\)"):
            graphls.compile(nn.ReLU(), X, mesh=Mesh(data=2), **options)


def test_a_mesh_of_one_device_runs_on_any_engine() -> None:
    net = nn.Dense(6, 8, weight_init="ones", bias_init="zeros")
    net.weight.sharding = ("model", None)
    step = graphls.compile(net, X, mesh=Mesh(data=1, model=1), zero=3)
    assert step.graph.state("weight").type_text == "f32[8/model,6]"
    np.testing.assert_array_equal(step(X).asnumpy(), np.full((4, 8), 6, np.float32))


def test_the_context_has_a_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    graphls.context.set_context(mesh=Mesh(data=1), zero=2)
    try:
        assert graphls.compile(nn.ReLU(), X).graph.mesh == Mesh(data=1)
        net = nn.ReLU()
        net(graphls.Tensor(X))
        (step,) = next(iter(net.__dict__["_compiled"][()].steps.values()))
        assert step.graph.mesh == Mesh(data=1)
        with pytest.raises(GraphTypeError, match="mesh"):
            graphls.context.set_context(mesh="data=1")
        with pytest.raises(GraphValueError, match="zero"):
            graphls.context.set_context(zero=4)
    finally:
        graphls.context.reset_context()
    assert graphls.compile(nn.ReLU(), X).graph.mesh is None


def test_a_model_has_a_mesh() -> None:
    from graphls.train import Model

    net = nn.Dense(6, 8)
    model = Model(net, mesh=Mesh(data=1))
    model.predict(graphls.Tensor(X))
    assert model._predictions.last is not None and model._predictions.last[2].graph.mesh == Mesh(data=1)
    with pytest.raises(GraphValueError, match="runs on one device"):
        Model(net, mesh=Mesh(data=2)).predict(graphls.Tensor(X))


def test_a_pipeline_of_its_own_may_state_shardings() -> None:
    step = graphls.compile(nn.ReLU(), X, mesh=Mesh(data=1), passes=[Shardings(inputs=(("data", ()),)), "default"])
    assert [name for name in step.stages if name.endswith("shardings")] == ["01_shardings"]
    assert [v.sharding for v in step.graph.inputs] == [Sharding.of("data", None)]


SEVERAL = """
graph @step mesh(a=2, b=2) (%x: f32[4,8]) {
  state @w: f32[8]
  state @u: f32[8]
  %shard = shard(@u) {axes=[["b"]]} : f32[8/b]  // forward
  %y = mul(%x, @w) : f32[4,8]  // forward
  %z = mul(%y, %shard) : f32[4,8]  // forward
  %loss = sum(%z) {axis=none, keepdims=false} : f32[]  // forward
  %c = constant() {value=array(f32[], [1.0])} : f32[]  // backward
  %g, %h = gradient(%loss, %c, @w, @u) {of=1, wrt=2} : f32[8], f32[8]  // backward
  %new_w = sub(@w, %g) : f32[8]  // update
  %new_u = sub(@u, %h) : f32[8]  // update
  @w <- %new_w
  @u <- %new_u
  return %loss
}
"""


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Shardings(data="a+b"), ["f32[4/a+b,8]", "f32[8]", "f32[8/b]"]),
        (Shardings(3, "a+b"), ["f32[4/a+b,8]", "f32[8/a+b]", "f32[8/b+a]"]),
        (Shardings(3, "a+b", least=33), ["f32[4/a+b,8]", "f32[8]", "f32[8/b]"]),
        (Shardings(3, "a+b", undivided=("w",)), ["f32[4/a+b,8]", "f32[8]", "f32[8/b+a]"]),
    ],
)
def test_several_axes_divide_what_is_not_excepted(policy: Shardings, expected: list[str]) -> None:
    graph = policy.run(parse(SEVERAL))
    assert [value.type_text for value in (*graph.inputs, *graph.states)] == expected


MISTAKES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a number": ({"mesh": 4}, GraphTypeError, r"graphls\.Mesh\(data=4\), not 4"),
    "sizes": ({"mesh": {"data": 4}, "zero": 1}, GraphTypeError, "is a Mesh"),
    "ZeRO without a mesh": ({"zero": 1}, GraphValueError, "zero=1 divides states .* pass mesh="),
    "no level": ({"zero": 5}, GraphValueError, "0, 1, 2 or 3"),
    "no axis for it": ({"mesh": Mesh(model=1), "zero": 2}, GraphValueError, "'data', and there is none in"),
    "inputs without a mesh": ({"input_shardings": [("data", None)]}, GraphValueError, "there is none; pass mesh="),
    "a name": ({"mesh": Mesh(data=1), "input_shardings": "data"}, GraphTypeError, "for each input in order"),
    "a name in a list": ({"mesh": Mesh(data=1), "input_shardings": ["data"]}, GraphTypeError, "like .'data', None"),
    "axes": ({"mesh": Mesh(data=1), "input_shardings": ("data", None)}, GraphValueError, "for 2 inputs, and .* has 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence_at_the_line(name: str) -> None:
    arguments, kind, text = MISTAKES[name]
    with pytest.raises(kind, match=rf"{text}.*test_shardings\.py:\d+\)$"):
        graphls.compile(nn.ReLU(), X, **arguments)
    if "input_shardings" not in arguments:
        with pytest.raises(kind, match=rf"{text}.*test_shardings\.py:\d+\)$"):
            graphls.train.Model(nn.Dense(6, 8), **arguments).predict(graphls.Tensor(X))


def test_a_model_divides_states_on_the_mesh_of_the_context() -> None:
    graphls.context.set_context(mesh=Mesh(data=1))
    try:
        net = nn.Dense(6, 8)
        model = graphls.train.Model(net, zero=3)
        model.predict(graphls.Tensor(X))
        with pytest.raises(GraphValueError, match="'data', and there is none in"):
            graphls.train.Model(net, mesh=Mesh(model=1), zero=1)
    finally:
        graphls.context.reset_context()
    assert model._predictions.layout is not None
    assert (model._predictions.layout.mesh, model._predictions.layout.zero) == (Mesh(data=1), 3)
    graphls.context.set_context(zero=2)  # for the meshes that are still to come
    try:
        assert graphls.compile(nn.ReLU(), X).graph.mesh is None
    finally:
        graphls.context.reset_context()
