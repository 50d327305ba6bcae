"""Bundles: what is in them, loops that train from them, and what is said of damaged ones."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import graphls
import graphls.onnx
from examples.digits import BATCH, LeNet, load, make_step
from graphls import nn, ops
from graphls.frontend.tensors.pytree import leaves as leaves_of
from graphls.step.export.manifest import loop_source
from graphls.step.export.names import chosen
from graphls.train import load_checkpoint, load_param_into_net, save_checkpoint
from tests.bundles.steps import CASES, Case, digits

STEPS = 12
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module", params=CASES)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Case]:
    graphls.set_seed(5)
    case = CASES[request.param]()
    return case[0].export(tmp_path_factory.mktemp(request.param) / "bundle", loops=["python"]), case


def loop_in(folder: Path) -> Any:
    """The module of the loop that a bundle carries along."""
    spec = importlib.util.spec_from_file_location("loop_of_a_bundle", folder / "step.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def leaves(result: Any) -> list[Array]:
    return [leaf.asnumpy() for leaf in leaves_of(result) if isinstance(leaf, graphls.Tensor)]


def test_loops_give_the_bits_of_the_step(exported: tuple[Path, Case], tmp_path: Path) -> None:
    folder, (step, batches) = exported
    graphls.set_seed(5)  # with which it was exported
    loop, loaded = loop_in(folder).Step(folder), graphls.load_step(folder)
    flags = []
    for i in range(STEPS):
        inputs = batches[i % len(batches)]
        expected = [array.tobytes() for array in leaves(step(*inputs.values()))]
        results = loop(**inputs)
        assert [array.tobytes() for array in results.values()] == expected
        assert [array.tobytes() for array in leaves(loaded(*inputs.values()))] == expected
        flags.append(bool(results.get("overflow", False)))
    loop.save(tmp_path / "trained.safetensors")
    resumed = graphls.load_step(folder, tmp_path / "trained.safetensors")
    for name, parameter in step.parameters.items():
        for other in (loop.states[name], loaded.parameters[name].asnumpy(), resumed.parameters[name].asnumpy()):
            assert other.tobytes() == parameter.asnumpy().tobytes(), name
    assert any(flags) == ("overflow" in results) and not all(flags)


def test_models_have_stable_names(exported: tuple[Path, Case]) -> None:
    folder, (step, [inputs, *_]) = exported
    manifest = json.loads((folder / "step.json").read_text(encoding="utf-8"))
    model = onnx.load(folder / "step.onnx")
    onnx.checker.check_model(model, full_check=True)
    draws = [draw["name"] for draw in manifest["random"]["draws"]]
    assert [port["name"] for port in manifest["inputs"]] == list(inputs)
    assert {info.name for info in model.graph.input} == {*inputs, *step.parameters, *draws}
    outputs = [port["name"] for port in manifest["outputs"]]
    nexts = [state["next"] for state in manifest["states"] if state["next"]]
    names = [info.name for info in model.graph.output]
    assert names[: len(outputs)] == outputs and set(names[len(outputs) :]) == set(nexts)
    assert outputs[0] == "loss" and all(name.removesuffix(":next") in step.parameters for name in nexts)


def test_results_are_called_as_the_steps_say(tmp_path: Path) -> None:
    step, _ = CASES["mindformers"]()
    manifest = json.loads((step.export(tmp_path) / "step.json").read_text(encoding="utf-8"))
    names = [port["name"] for port in manifest["outputs"]]
    assert names == ["loss", "overflow", "scale", "current_learning_rate", "global_norm"]


def test_names_that_are_equal_are_numbered() -> None:
    assert chosen("output", ["a", "a_1", "a", "a", "w"], None, {"w"}) == ["a", "a_1", "a_2", "a_3", "w_output"]
    assert len(set(chosen("output", ["a"] * 50_000, None, set()))) == 50_000


def test_names_of_functions_and_wishes(tmp_path: Path) -> None:
    def function(x: Any, y: Any) -> Any:
        return {"sum": x + y, "parts": (x, ops.exp(y), 3)}

    step = graphls.compile(function, np.ones(2, np.float32), np.ones(2, np.float32))
    folder = step.export(tmp_path / "own")
    results = loop_of(tmp_path, folder)(x0=np.ones(2), x1=np.zeros(2))
    assert list(results) == ["sum", "parts_0", "parts_1"] and results["parts_1"].tolist() == [1, 1]
    again = graphls.load_step(folder)(np.ones(2, np.float32), np.zeros(2, np.float32))
    assert again["sum"].asnumpy().tolist() == [1, 1] and again["parts"][2] == 3
    folder = step.export(tmp_path / "wished", inputs=["a", "b"], outputs=["p", "q", "r"])
    assert list(loop_of(tmp_path, folder)(a=np.ones(2), b=np.zeros(2))) == ["p", "q", "r"]
    with pytest.raises(graphls.GraphlsError, match="The output 'x0' needs another name"):
        step.export(tmp_path / "no", outputs=["x0", "q", "r"])
    with pytest.raises(graphls.GraphlsError, match="The step has 2 inputs"):
        step.export(tmp_path / "no", inputs=["a"])
    with pytest.raises(graphls.GraphlsError, match="cannot both be called 'p'"):
        step.export(tmp_path / "no", outputs=["p", "p", "r"])
    assert not (tmp_path / "no").exists()


def loop_of(tmp_path: Path, folder: Path) -> Any:
    (tmp_path / "step.py").write_bytes(loop_source("python"))
    return loop_in(tmp_path).Step(folder)


def test_every_kind_of_random_numbers_is_drawn_alike(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return (
            ops.rand(3, 5), ops.randn(7), ops.randint(-3, 9, (6,)), ops.randperm(11),
            ops.bernoulli(ops.zeros_like(x) + 0.25), ops.dropout(x, p=0.4),
        )  # fmt: skip

    graphls.set_seed(2**40)
    x = np.ones((4, 3), np.float32)
    step = graphls.compile(function, x)
    loop = loop_of(tmp_path, step.export(tmp_path / "bundle"))
    kinds = {draw["kind"] for draw in loop.manifest["random"]["draws"]}
    assert kinds >= {"bernoulli", "uniform", "normal", "integers", "permutation"}
    for _ in range(3):
        expected = [array.tobytes() for array in leaves(step(x))]
        assert [array.tobytes() for array in loop(x0=x).values()] == expected


def test_a_step_that_calls_python_is_no_bundle(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return ops.pure_callback(np.sin, x, x)

    step = graphls.compile(function, np.ones(2, np.float32))
    with pytest.raises(graphls.GraphlsError, match=r"A model cannot hold 'sin', which is Python.*test_bundles\.py"):
        step.export(tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def damaged(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        table = json.loads((folder / "step.json").read_text(encoding="utf-8"))
        change(table)
        (folder / "step.json").write_text(json.dumps(table), encoding="utf-8")

    return damage


def without_state(folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    states = load_file(folder / "state.safetensors")
    del states["conv1.weight"]
    save_file(states, folder / "state.safetensors")


def with_other_shape(folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    states = load_file(folder / "state.safetensors")
    save_file({**states, "conv1.weight": np.zeros(3, np.float32)}, folder / "state.safetensors")


DAMAGES: list[tuple[Callable[[Path], Any], str]] = [
    (damaged(lambda t: t.update(version=2, graphls="9.0")), "of version 2, and this graphls reads version 1; .*'9.0'"),
    (damaged(lambda t: t.update(format="zip")), "its format is not 'graphls bundle'"),
    (damaged(lambda t: t.pop("states")), "nothing that fits under 'states'"),
    (damaged(lambda t: t["inputs"].append(3)), "under 'inputs' is not a list of objects"),
    (damaged(lambda t: t["ir"].update(name="../secret")), "names a file '../secret'"),
    (damaged(lambda t: t["random"].update(algorithm="MT19937")), "not those of Philox4x64-10"),
    (damaged(lambda t: t.update(results={"a": 1})), "is not a structure of a result"),
    (lambda f: (f / "step.json").write_bytes(b"\xff\xfe"), "step.json is damaged: it is not text"),
    (lambda f: (f / "step.json").write_text("{" * 100000), "it is not JSON"),
    (lambda f: (f / "step.json").unlink(), "step.json cannot be read: No such file"),
    (lambda f: (f / "step.ir").write_text("graph @x() {\n}\n"), "step.ir is damaged or of another export"),
    (lambda f: (f / "state.safetensors").write_bytes(b"12"), "state.safetensors is damaged"),
    (without_state, r"has no state 'conv1\.weight', which the step needs"),
    (with_other_shape, r"'conv1\.weight' has the shape \[3\] there and \[16, 1, 3, 3\] in the step"),
]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return digits()[0].export(tmp_path_factory.mktemp("digits"), loops=["python"])


@pytest.mark.parametrize(("damage", "message"), DAMAGES, ids=[message for _, message in DAMAGES])
def test_what_is_said_of_damaged_bundles(
    damage: Callable[[Path], Any], message: str, bundle: Path, tmp_path: Path
) -> None:
    shutil.copytree(bundle, tmp_path, dirs_exist_ok=True)
    damage(tmp_path)
    with pytest.raises(graphls.GraphlsError) as error:
        graphls.load_step(tmp_path)
    assert re.search(message, str(error.value)) and "\n" not in str(error.value).split(" (")[0]


def test_what_the_loop_says(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path, dirs_exist_ok=True)
    step = loop_in(bundle).Step(bundle)
    with pytest.raises(ValueError, match=r"The input 'data' has the shape \(2, 2\), not \[64, 1, 8, 8\]"):
        step(data=np.zeros((2, 2)), label=np.zeros(64))
    with pytest.raises(TypeError, match="has no input 'images'"):
        step(data=np.zeros((64, 1, 8, 8)), label=np.zeros(64), images=1)
    with_other_shape(tmp_path)
    with pytest.raises(ValueError, match=r"The state 'conv1\.weight' is float32\[3\], not float32\[16, 1, 3, 3\]"):
        loop_in(bundle).Step(tmp_path)
    damaged(lambda t: t.update(version=2))(tmp_path)
    with pytest.raises(ValueError, match="of version 2; this loop reads 1"):
        loop_in(bundle).Step(tmp_path)


def test_the_loop_is_short() -> None:
    assert loop_source("python").count(b"\n") < 80 and loop_source("javascript").count(b"\n") < 240


def test_states_go_into_checkpoints(bundle: Path, tmp_path: Path) -> None:
    step = graphls.load_step(bundle)
    save_checkpoint(step.parameters, tmp_path / "trained.ckpt")
    network = nn.SequentialCell(nn.Conv2d(1, 16, 3))
    entries = load_checkpoint(tmp_path / "trained.ckpt")
    load_param_into_net(network, {"0.weight": entries["conv1.weight"]})
    assert np.array_equal(network[0].weight.asnumpy(), step.parameters["conv1.weight"].asnumpy())


def test_predictions_on_the_states_of_a_loop(tmp_path: Path) -> None:
    graphls.set_seed(7)
    network = LeNet().to_float(graphls.float16)
    images, labels, test_images, _ = load()
    step = graphls.compile(make_step(network), images[:BATCH], labels[:BATCH])
    loop = loop_of(tmp_path, step.export(tmp_path / "bundle"))
    for _ in range(3):
        loop(data=images[:BATCH], label=labels[:BATCH])
        step(images[:BATCH], labels[:BATCH])
    predict = loop.manifest["predict"]
    assert predict["inputs"] == [{"name": "data", "dtype": "float32", "shape": ["batch", 1, 8, 8]}]
    assert predict["outputs"] == [{"name": "output", "dtype": "float32", "shape": ["batch", 10]}]
    session = onnxruntime.InferenceSession(tmp_path / "bundle" / predict["file"]["name"])
    network.set_train(False)
    for count in (1, 5, 64):
        states = {name: loop.states[name] for name in predict["states"]}
        (found,) = session.run(["output"], {"data": test_images[:count], **states})
        assert np.allclose(found, network(test_images[:count]).asnumpy(), atol=2e-3)
    assert network.training is False


def test_a_step_that_was_loaded_is_the_bundle_that_it_was(tmp_path: Path) -> None:
    """With its trained states, the names of inputs and outputs, and the model that predicts."""
    step, batches = CASES["mindformers"]()
    first = step.export(tmp_path / "first")
    data = batches[0]
    step(*data.values())
    again = graphls.load_step(first)
    again(*data.values())
    second = again.export(tmp_path / "second")
    for name in ("predict.onnx", "state.safetensors", "step.ir"):
        expected = step.export(tmp_path / "third") / name
        assert (second / name).read_bytes() == expected.read_bytes()
    ours, theirs = (json.loads((folder / "step.json").read_text(encoding="utf-8")) for folder in (second, first))
    assert ours == {**theirs, "model": ours["model"]}
    again.export(first)
    assert graphls.load_step(first).export(first, inputs=[f"in{i}" for i in range(len(theirs["inputs"]))]) == first
    renamed = json.loads((first / "step.json").read_text(encoding="utf-8"))["predict"]["inputs"]
    assert [port["name"] for port in renamed] == [f"in{i}" for i in range(len(renamed))]
    session = onnxruntime.InferenceSession(first / "predict.onnx")
    assert {port["name"] for port in renamed} <= {port.name for port in session.get_inputs()}
    (first / "predict.onnx").unlink()
    with pytest.raises(ValueError, match=r"predict.onnx is no longer the model .* predict=False"):
        again.export(tmp_path / "fourth")
    assert again.export(tmp_path / "fourth", predict=False).exists()


def test_a_step_for_any_number_of_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    network = nn.SequentialCell(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(p=0.3), nn.Dense(48, 4))
    loss = nn.WithLossCell(network.to_float(graphls.float16), nn.CrossEntropyLoss())
    scale = nn.DynamicLossScaleUpdateCell(2**12, 2, 100)
    cell = nn.TrainOneStepWithLossScaleCell(loss, nn.Momentum(loss.trainable_params(), 0.1, 0.9), scale).set_train()

    def batch(rows: int) -> tuple[Array, Array]:
        return rng.normal(size=(rows, 1, 4, 4)).astype(np.float32), np.arange(rows, dtype=np.int32) % 4

    graphls.set_seed(3)
    first = graphls.compile(cell, *batch(8))
    loop = loop_of(tmp_path, first.export(tmp_path / "bundle", any_rows=True))
    assert loop.manifest["inputs"][0]["shape"] == ["batch", 1, 4, 4]
    assert loop.manifest["random"]["draws"][0]["shape"] == ["batch", 48]
    for rows in (8, 3, 1, 20):
        data, label = batch(rows)
        expected = graphls.compile(cell, data, label)(data, label)[0].asnumpy()
        assert np.allclose(loop(data=data, label=label)["loss"], expected, rtol=2e-3)
    with pytest.raises(ValueError, match=r"'label' has the shape \(2,\)"):
        loop(data=batch(3)[0], label=batch(2)[1])


CLASSIFIER = """
<ir_version: 8, opset_import: ["": 17]>
classifier (float[batch, 4] x) => (float[batch, 3] logits)
<float[4, 3] weight = {0.5, -0.1, 0.2, 0.4, 0.3, -0.6, -0.2, 0.1, 0.7, 0.9, -0.8, 0.6}, float[3] bias = {0, 0, 0}>
{ product = MatMul(x, weight) logits = Add(product, bias) }
"""


def test_a_model_of_others_trains_in_a_loop_and_goes_back_to_its_file(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(CLASSIFIER), tmp_path / "model.onnx")
    network = graphls.onnx.load(tmp_path / "model.onnx")
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    cell = nn.TrainOneStepCell(loss, nn.SGD(network.trainable_params(), 0.1)).set_train()
    x, label = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32), np.arange(6, dtype=np.int32) % 3
    loop = loop_of(tmp_path, graphls.compile(cell, x, label).export(tmp_path / "bundle", any_rows=True))
    losses = [float(loop(data=x[i % 3 :], label=label[i % 3 :])["loss"]) for i in range(30)]
    assert losses[-3] < losses[0]
    loop.save(tmp_path / "trained.safetensors")
    load_param_into_net(network, load_checkpoint(tmp_path / "trained.safetensors", format="safetensors"))
    graphls.onnx.save(network, tmp_path / "tuned.onnx")
    (tuned,) = onnxruntime.InferenceSession(tmp_path / "tuned.onnx").run(None, {"x": x})
    feeds = {"data": x, **{name: loop.states[name] for name in loop.manifest["predict"]["states"]}}
    (found,) = onnxruntime.InferenceSession(tmp_path / "bundle" / "predict.onnx").run(None, feeds)
    assert np.allclose(tuned, found, atol=1e-6) and loop.states["weight"].shape == (4, 3)


def test_a_runtime_that_cannot_run_the_step(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path, dirs_exist_ok=True)
    model = onnx.load(tmp_path / "step.onnx")
    model.graph.node[0].op_type = "OperatorOfTomorrow"
    onnx.save(model, tmp_path / "step.onnx")
    with pytest.raises(RuntimeError, match=r"ONNX Runtime [\d.]+ cannot run .*OperatorOfTomorrow"):
        loop_in(bundle).Step(tmp_path)


class Average(nn.Cell):
    """A batch normalisation, whose statistics are states, and a mask that evaluation has not."""

    def __init__(self) -> None:
        super().__init__()
        self.normal = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(p=0.5)
        self.dense = nn.Dense(3, 2)

    def construct(self, x: Any) -> Any:
        return {"logits": self.dense(self.drop(self.normal(x))), "rows": ops.reshape(x, (x.shape[0] * 3,))}


def test_predictions_of_a_cell_that_is_named(tmp_path: Path) -> None:
    network = Average()

    class Loss(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def construct(self, x: Any, y: Any) -> Any:
            return ops.mse_loss(self.network(x)["logits"], y)

    x, y = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32), np.ones((6, 2), np.float32)
    loss = Loss()
    step = graphls.compile(nn.TrainOneStepCell(loss, nn.SGD(loss.trainable_params())).set_train(), x, y)
    assert not (step.export(tmp_path / "none") / "predict.onnx").exists()
    step(x, y)
    folder = step.export(tmp_path / "bundle", predict=network)
    manifest = json.loads((folder / "step.json").read_text(encoding="utf-8"))
    assert manifest["predict"]["outputs"][1]["shape"] == ["?"] and network.training
    states = loop_of(tmp_path, folder).states
    feeds = {"x": x[:2], **{name: states[name] for name in manifest["predict"]["states"]}}
    found, rows = onnxruntime.InferenceSession(folder / "predict.onnx").run(["logits", "rows"], feeds)
    network.set_train(False)
    assert np.allclose(found, network(x[:2])["logits"].asnumpy(), atol=1e-6) and rows.shape == (6,)
