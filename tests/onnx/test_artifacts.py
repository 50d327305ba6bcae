"""What `graphls.onnx.artifacts` writes, and the classes that run it, beside those of ONNX Runtime training."""

from __future__ import annotations

import base64
import importlib.machinery
import sys
import types
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto

import graphls.onnx
from graphls.onnx import artifacts, training
from graphls.onnx.training import CheckpointState, LinearLRScheduler, Module, Optimizer, onnxblock
from tests.onnx import artifacts_of_exports as exports
from tests.onnx.models import model, node, tensor

X = np.sin(np.arange(15, dtype=np.float32)).reshape(5, 3)
TARGETS = {
    "target": np.cos(np.arange(10, dtype=np.float32)).reshape(5, 2),
    "labels": np.array([1, 0, 0, 1, 1]),
    "positive": (np.cos(np.arange(10)) > 0).astype(np.float32).reshape(5, 2),
}
NAMES = ["w1", "b1", "w2", "b2"]


def network(opset: int = 17) -> ModelProto:
    """x -> relu(x @ w1 + b1) @ w2 + b2, for x of (batch, 3)."""

    def waves(*shape: int) -> Any:
        return np.sin(np.arange(np.prod(shape), dtype=np.float32) * 2).reshape(shape)

    nodes = [node("Gemm", "x w1 b1", "y"), node("Relu", "y", "h"), node("Gemm", "h w2 b2", "out")]
    constants = {"w1": waves(3, 8), "b1": waves(8) / 8, "w2": waves(8, 2), "b2": np.zeros(2, np.float32)}
    return model(nodes, [tensor("x", ["batch", 3])], [tensor("out", ["batch", 2])], constants, opset)


CASES: dict[str, tuple[Any, Any, float]] = {
    "mse": ("MSELoss", "AdamW", 1e-3),
    "l1": ("L1Loss", "SGD", 0.1),
    "cross entropy": ("CrossEntropyLoss", "AdamW", 0.05),
    "logits": ("BCEWithLogitsLoss", "AdamW", 0.05),
    "decay": ("MSELoss", lambda b: b.optim.AdamW(False, (0.8, 0.99), 1e-4, 0.1), 0.05),
    "clipped": ("MSELoss", lambda b: b.optim.AdamW(clip_grad=b.optim.ClipGradNorm(0.5)), 0.05),
    "ignored label": (lambda b: b.loss.CrossEntropyLoss(ignore_index=1), "SGD", 0.1),
    "weights": (lambda b: b.loss.BCEWithLogitsLoss(np.float32([1, 0.5]), "sum", np.float32([2, 3])), "SGD", 0.1),
}
"""A loss, an optimizer and a learning rate."""

MEASURED: dict[str, tuple[list[float], list[float]]] = {
    "mse": ([0.8711895, 0.8623756, 0.8537351, 0.8453334], [0.6351073, 0.007987967, 14.82618, 9.869934]),
    "l1": ([0.7545804, 0.7262112, 0.7026358, 0.6793138], [1.089172, 0.1333333, 14.6968, 9.913497]),
    "cross entropy": ([0.7071522, 0.7343458, 0.7882648, 0.7755516], [0.7103287, 0.1127993, 14.75069, 9.388998]),
    "logits": ([0.6851325, 0.689163, 0.7138386, 0.7286931], [1.088059, 0.1572741, 14.88443, 10.81294]),
    "decay": ([0.8711895, 0.6386521, 0.5945024, 0.5457155], [1.40364, 0.2429685, 13.338, 7.977173]),
    "clipped": ([0.8711895, 0.6071815, 0.5690398, 0.5655248], [0.747152, 0.131915, 14.22569, 9.354481]),
    "ignored label": ([0.9838001, 0.3965729, 0.2756847, 0.2117361], [1.336755, 0.5340583, 14.71804, 10.00819]),
    "weights": ([8.425405, 7.74091, 7.444813, 7.399945], [0.9689864, 0.7105101, 15.26028, 10.16681]),
}
"""The losses of four steps of two gradients each, and the sums of the magnitudes of b1, b2, w1 and w2 after them, from
onnxruntime-training-cpu 1.19.2."""


THEIRS = zlib.decompress(base64.b85decode(
    "c-oU-U|{ff32_Ee3_J`X3<5xsgMkG|GBBus#TXbSFfuSO0cjw`umYrzfeWsV3#vu{h((}kbf7d3l=cAPJ^%jyXJBZsV*#>3xG1qC6=c#Cpg0Fq"
    "KPwQYWfm2eK-J_W=7QC5fZfHy08+=yfB-B|J*frx$r)h#WEdpCsv+)|V1T$A2J(fPtzd2f*~bRN=|%aa1qKWZG5-<n0O<)pa(^Na%K_yDpnQ<I"
    "3Q+lThI_44nsTfy-<n!8BDs$fh;#FEQ}aqna}9y)I5hpRux-v&u<N_kVE5cT(T)+#f5>JSfWrY2<{V%)!hJB>2Z)d1um=e2LE#U?`_b(I@sk+%"
    "z@f|lwSx~D7U=$c5LIlW^0L8Rwx7WP*&J9n0RYQ4LPP"
))
"""A checkpoint that onnxruntime-training-cpu 1.19.2 wrote, after two steps of `a` in a network x * a + b."""


def inputs_for(loss: Any) -> tuple[Any, ...]:
    """Inputs of the network and of a loss."""
    names = {"MSELoss": "target", "L1Loss": "target", "BCEWithLogitsLoss": "positive"}
    kind = loss if isinstance(loss, str) else type(loss).__name__
    return X, TARGETS[names.get(kind, "labels")]


def trained(made: Any, api: Any, blocks: Any, folder: Any, loss: Any, optimizer: Any, rate: float) -> Any:
    """Losses of four steps of two gradients each, and the state and the module then: code for either package."""
    loss = loss(blocks) if callable(loss) else loss
    given = getattr(made.LossType, loss) if isinstance(loss, str) else loss
    by = optimizer(blocks) if callable(optimizer) else getattr(made.OptimType, optimizer)
    made.generate_artifacts(network(), NAMES, [], given, by, folder)
    state = api.CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    module = api.Module(f"{folder}/training_model.onnx", state, f"{folder}/eval_model.onnx")
    step = api.Optimizer(f"{folder}/optimizer_model.onnx", module)
    step.set_learning_rate(rate)
    module.train()
    losses = []
    for _ in range(4):
        x, y = inputs_for(loss)
        module(x[:3], y[:3])
        losses.append(float(module(x, y)))
        step.step()
        module.lazy_reset_grad()
    return losses, state, module


@pytest.mark.parametrize("case", CASES)
def test_losses_and_parameters_are_those_of_onnxruntime_training(case: str, tmp_path: Path) -> None:
    losses, state, _ = trained(artifacts, training, onnxblock, tmp_path, *CASES[case])
    expected, sums = MEASURED[case]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose([np.abs(p.data).sum() for _, p in state.parameters], sums, rtol=2e-6)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, Any]:
    """onnxruntime.training without what its `__init__` imports, which needs torch; skips where it is not installed."""
    folder = Path(onnxruntime.__file__).with_name("training")
    if not folder.is_dir():
        pytest.skip("onnxruntime.training is not installed")
    package = types.ModuleType("onnxruntime.training")
    package.__path__ = [str(folder)]
    package.__spec__ = importlib.machinery.ModuleSpec(package.__name__, None, is_package=True)
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setattr(onnxruntime, "training", package, raising=False)
    monkeypatch.setattr(onnx, "IR_VERSION", 10)
    names = [f"onnxruntime.training.{name}" for name in ("artifacts", "api", "onnxblock")]
    return tuple(importlib.import_module(name) for name in names)  # type: ignore[return-value]


@pytest.mark.parametrize("case", ["mse", "decay"])
def test_the_same_code_runs_on_both(case: str, peer: tuple[Any, Any, Any], tmp_path: Path) -> None:
    found = []
    for number, (made, api, blocks) in enumerate((peer, (artifacts, training, onnxblock))):
        folder = tmp_path / str(number)
        folder.mkdir()
        losses, state, module = trained(made, api, blocks, str(folder), *CASES[case])
        gradients = {name: parameter.grad for name, parameter in state.parameters}
        module.eval()
        outputs = module(*inputs_for(CASES[case][0]))
        sizes = module.get_parameters_size(), module.get_parameters_size(False)
        flat = module.get_contiguous_parameters(True).numpy()
        found.append((losses, gradients, outputs, sizes, flat, module.input_names(), sorted(p.name for p in
                      folder.iterdir())))  # fmt: skip
    for expected, actual in zip(*found, strict=True):
        if isinstance(expected, dict):
            assert list(expected) == list(actual)
            for name in expected:
                np.testing.assert_allclose(actual[name], expected[name], rtol=1e-4, atol=1e-6)
        elif isinstance(expected, list) and isinstance(expected[0], str):
            assert actual == expected
        else:
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def opened(folder: Path, proto: ModelProto | None = None, names: list[str] = NAMES, **options: Any) -> Any:
    """The state, the module and the optimizer of what is written for a model."""
    artifacts.generate_artifacts(
        proto or network(),
        requires_grad=names,
        **{"loss": artifacts.LossType.MSELoss, "optimizer": artifacts.OptimType.AdamW, **options},
        artifact_directory=folder,
    )
    return reopened(folder, folder / "checkpoint")


def reopened(folder: Path, checkpoint: Path) -> tuple[CheckpointState, Module, Optimizer]:
    """The same from a checkpoint."""
    state = CheckpointState.load_checkpoint(checkpoint)
    module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    return state, module, Optimizer(folder / "optimizer_model.onnx", module)


def losses_of(module: Module, step: Optimizer, count: int, inputs: Any = (X, TARGETS["target"])) -> list[float]:
    """The losses of some steps."""
    losses = []
    for _ in range(count):
        found = module(*inputs)
        losses.append(float(found[0] if isinstance(found, tuple) else found))
        step.step()
        module.lazy_reset_grad()
    return losses


def test_the_short_form_is_the_long_one(tmp_path: Path) -> None:
    graphls.onnx.artifacts(network(), ["w1"], [], graphls.onnx.artifacts.LossType.MSELoss, None, tmp_path, "a_")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a_checkpoint", "a_eval_model.onnx", "a_training_model.onnx"]


def test_a_plain_session_runs_the_training_model_for_any_batch(tmp_path: Path) -> None:
    opened(tmp_path)
    proto = onnx.load(tmp_path / "training_model.onnx")
    assert {entry.domain for entry in proto.opset_import} == {""}
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    values = {t.name: onnx.numpy_helper.to_array(t) for t in network().graph.initializer}
    for batch in (1, 2, 100):
        x, y = np.resize(X, (batch, 3)), np.resize(TARGETS["target"], (batch, 2))
        found = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"x": x, "target": y, **values}),
                         strict=True))  # fmt: skip
        hidden = np.maximum(x @ values["w1"] + values["b1"], 0)
        error = hidden @ values["w2"] + values["b2"] - y
        np.testing.assert_allclose(found["w2_grad"], hidden.T @ error / batch, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found["b1_grad"], ((error @ values["w2"].T) * (hidden > 0)).mean(0), rtol=1e-4,
                                   atol=1e-6)  # fmt: skip


def test_gradients_add_up_until_they_are_reset(tmp_path: Path) -> None:
    state, module, _ = opened(tmp_path, names=["w1"], frozen_params=["b1"])
    inputs = X, TARGETS["target"]
    module(*inputs)
    once = state.parameters["w1"].grad
    assert once is not None and state.parameters["b1"].grad is None
    module(*inputs)
    module(*inputs)
    np.testing.assert_allclose(state.parameters["w1"].grad, 3 * once, rtol=1e-6)  # type: ignore[arg-type]
    module.lazy_reset_grad()
    module(*inputs)
    np.testing.assert_array_equal(state.parameters["w1"].grad, once)  # type: ignore[arg-type]
    assert repr(state.parameters["b1"]) == "Parameter(name=b1, requires_grad=False)"


def test_a_checkpoint_with_the_optimizer_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    state, module, step = opened(tmp_path)
    step.set_learning_rate(0.05)
    losses_of(module, step, 3)
    state.properties["epoch"], state.properties["name"], state.properties["best"] = 3, "first", 0.5
    CheckpointState.save_checkpoint(state, tmp_path / "saved", include_optimizer_state=True)
    CheckpointState.save_checkpoint(state, tmp_path / "without")
    again, other, other_step = reopened(tmp_path, tmp_path / "saved")
    assert list(again.properties) == [("best", 0.5), ("epoch", 3), ("name", "first")]
    assert other_step.get_learning_rate() == np.float32(0.05)
    expected = losses_of(module, step, 4)
    assert losses_of(other, other_step, 4) == expected
    _, other, other_step = reopened(tmp_path, tmp_path / "without")
    other_step.set_learning_rate(0.05)
    fresh = losses_of(other, other_step, 4)
    assert fresh[0] == expected[0] and fresh[1:] != expected[1:]


def test_parameters_go_from_one_buffer_into_a_nominal_checkpoint(tmp_path: Path) -> None:
    _, module, _ = opened(tmp_path, names=["w1", "w2"], frozen_params=["b2"], nominal_checkpoint=True)
    buffer = module.get_contiguous_parameters()
    assert buffer.numpy().shape == (24 + 16 + 2,) and module.get_parameters_size() == 40
    state, other, _ = reopened(tmp_path, tmp_path / "nominal_checkpoint")
    assert len(state.parameters) == 3 and "w1" in state.parameters and "x" not in state.parameters
    for use in (lambda: other(X, TARGETS["target"]), lambda: state.parameters["w1"], other.get_contiguous_parameters):
        with pytest.raises(RuntimeError, match="nominal checkpoint has no values"):
            use()
    other.copy_buffer_to_parameters(buffer, trainable_only=False)
    assert other(X, TARGETS["target"]) == module(X, TARGETS["target"])
    with pytest.raises(ValueError, match="are 40 numbers, not the 42"):
        other.copy_buffer_to_parameters(buffer)


def test_other_outputs_are_given_behind_the_loss_and_ort_values_in_kind(tmp_path: Path) -> None:
    _, module, _ = opened(tmp_path, additional_output_names=["out", "h"], loss_input_names=["out"])
    assert module.input_names() == ["x", "target"] and module.output_names()[1:] == ["out", "h"]
    loss, out, hidden = module(X, TARGETS["target"])
    assert (loss.shape, out.shape, hidden.shape) == ((), (5, 2), (5, 8))
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in (X, TARGETS["target"])]
    module.lazy_reset_grad()
    found = module(*values)
    assert all(isinstance(value, onnxruntime.OrtValue) for value in found)
    np.testing.assert_array_equal(found[1].numpy(), out)
    module.eval()
    np.testing.assert_allclose(module(X, TARGETS["target"])[0], loss, rtol=1e-6)


def test_an_inference_model_has_the_trained_parameters(tmp_path: Path) -> None:
    state, module, step = opened(tmp_path)
    losses_of(module, step, 2)
    module.export_model_for_inferencing(tmp_path / "inference.onnx", ["out"])
    proto = onnx.load(tmp_path / "inference.onnx")
    onnx.checker.check_model(proto, full_check=True)
    assert [info.name for info in proto.graph.input] == ["x"] and len(proto.graph.node) == 3
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    w1, b1, w2, b2 = (state.parameters[name].data for name in NAMES)
    expected = np.maximum(X @ w1 + b1, 0) @ w2 + b2
    np.testing.assert_allclose(session.run(None, {"x": X})[0], expected, rtol=1e-5, atol=1e-6)
    CheckpointState.save_checkpoint(state, tmp_path / "trained")
    plain = network()
    onnxblock.load_checkpoint_to_model(tmp_path / "trained", plain)
    found = onnxruntime.InferenceSession(plain.SerializeToString()).run(None, {"x": X})
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="no tensor 'nothing'"):
        module.export_model_for_inferencing(tmp_path / "inference.onnx", ["nothing"])


def test_dropout_is_drawn_in_training_and_running_statistics_follow(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", "x w", "y"),
        node("BatchNormalization", "y scale shift mean variance", "z"),
        node("Dropout", "z", "out"),
    ]
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    constants = {"w": np.ones((3, 4), np.float32), "scale": ones, "shift": zeros, "mean": zeros, "variance": ones}
    proto = model(nodes, [tensor("x", ["batch", 3])], [tensor("out", ["batch", 4])], constants)
    state, module, _ = opened(tmp_path, proto, ["w", "scale"], additional_output_names=["out"])
    x, y = np.resize(X, (200, 3)), np.zeros((200, 4), np.float32)
    first, second = (module(x, y)[1] for _ in range(2))
    assert 0.3 < (first == 0).mean() < 0.7 and ((first == 0) != (second == 0)).any()
    np.testing.assert_allclose(state.parameters["mean"].data, np.full(4, x.sum(1).mean() * (1 - 0.81)), rtol=1e-4)
    assert not state.parameters["mean"].requires_grad
    module.eval()
    out = module(x, y)[1]
    mean, variance = (state.parameters[name].data for name in ("mean", "variance"))
    np.testing.assert_allclose(out, (x @ np.ones((3, 4)) - mean) / np.sqrt(variance + 1e-5), rtol=1e-4, atol=1e-5)


def test_scores_of_many_axes_have_their_classes_last(tmp_path: Path) -> None:
    proto = model([node("MatMul", "x w", "out")], [tensor("x", ["batch", "length", 3])],
                  [tensor("out", ["batch", "length", 2])], {"w": np.ones((3, 2), np.float32)})  # fmt: skip
    _, module, step = opened(tmp_path, proto, ["w"], loss=artifacts.LossType.CrossEntropyLoss)
    inputs = np.resize(X, (4, 6, 3)), np.resize(TARGETS["labels"], (4, 6))
    assert module.input_names() == ["x", "labels"]
    losses = losses_of(module, step, 3, inputs)
    np.testing.assert_allclose(losses[0], np.log(2), rtol=1e-6)
    assert losses[2] < losses[0]


def test_masks_and_positions_follow_the_length(tmp_path: Path) -> None:
    """A causal mask and positions, which fold into constants of each length."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "length"),
        node("Unsqueeze", "length zeros", "lengths"),
        node("Concat", "lengths lengths", "square", axis=0),
        node("ConstantOfShape", "square", "ones", value=onnx.helper.make_tensor("v", 1, [1], [1.0])),
        node("Trilu", "ones", "mask", upper=0),
        node("Range", "zero length one", "positions"),
        node("Gather", "table positions", "shift"),
        node("Mul", "x w", "scaled"),
        node("MatMul", "mask scaled", "summed"),
        node("Add", "summed shift", "out"),
    ]
    constants = {"w": np.ones(3, np.float32), "zero": np.int64(0), "one": np.int64(1), "zeros": np.array([0]),
                 "table": np.sin(np.arange(60, dtype=np.float32)).reshape(20, 3)}  # fmt: skip
    axes = ["batch", "length", 3]
    proto = model(nodes, [tensor("x", axes)], [tensor("out", axes)], constants)
    _, module, _ = opened(tmp_path, proto, ["w", "table"], additional_output_names=["out"])
    for length in (1, 4, 20):
        x = np.resize(X, (2, length, 3))
        expected = np.cumsum(x, 1) + constants["table"][:length]
        np.testing.assert_allclose(module(x, x)[1], expected, rtol=1e-4, atol=1e-5)


def test_a_size_on_which_operators_depend_is_given(tmp_path: Path) -> None:
    proto = model([node("Split", "x", "a b"), node("Mul", "a w", "c"), node("Add", "c b", "out")],
                  [tensor("x", ["even", 3])], [tensor("out", ["half", 3])], {"w": np.ones(3, np.float32)})  # fmt: skip
    with pytest.raises(ValueError, match="leaves sizes open, which were tried as even = 67"):
        opened(tmp_path, proto, ["w"])
    _, module, _ = opened(tmp_path, proto, ["w"], sizes={"even": 4})
    assert module(X[:4], X[:2]).shape == ()
    with pytest.raises(ValueError, match="no size 'odd' open that `sizes` could give, but 'even'"):
        opened(tmp_path, proto, ["w"], sizes={"odd": 4})


def test_a_loss_of_blocks(tmp_path: Path) -> None:
    class Both(onnxblock.Block):
        def __init__(self) -> None:
            super().__init__()
            self.mean = onnxblock.loss.MSELoss()
            self.sum = onnxblock.loss.L1Loss(reduction="sum")

        def build(self, out: str) -> str:
            mean, half = self.mean(out), onnxblock.blocks.Constant(0.5)()
            return str(onnxblock.blocks.Add()(mean, onnxblock.blocks.Mul()(self.sum(out, "other"), half)))

    _, module, _ = opened(tmp_path, loss=Both(), additional_output_names=["out"])
    y = TARGETS["target"]
    loss, out = module(X, y, -y)
    np.testing.assert_allclose(loss, [np.square(out - y).mean() + 0.5 * np.abs(out + y).sum()], rtol=1e-5)
    assert module.input_names() == ["x", "target", "other"]


def test_a_training_block_and_its_optimizer(tmp_path: Path) -> None:
    class Training(onnxblock.TrainingBlock):
        def build(self, out: str) -> Any:
            return onnxblock.loss.MSELoss()(out)

    block = Training()
    for name in NAMES:
        block.requires_grad(name, name != "b2")
    with onnxblock.base(network()):
        block("out")
    assert [t.name for t in block.parameters()[0]] == NAMES[:3] and [t.name for t in block.parameters()[1]] == ["b2"]
    onnx.save(block.to_model_proto()[0], tmp_path / "training_model.onnx")
    onnxblock.save_checkpoint(block.parameters(), tmp_path / "checkpoint")
    with onnxblock.empty_base():
        optimizer = onnxblock.optim.SGD()
        optimizer(block.parameters())
    onnx.save(optimizer.to_model_proto(), tmp_path / "optimizer_model.onnx")
    state = CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    module = Module(tmp_path / "training_model.onnx", state)
    losses = losses_of(module, Optimizer(tmp_path / "optimizer_model.onnx", module), 3)
    assert losses[2] < losses[0]
    with pytest.raises(RuntimeError, match="without an evaluation model"):
        module.eval()(X, TARGETS["target"])
    with pytest.raises(RuntimeError, match="A block needs a model"):
        onnxblock.loss.MSELoss()("out")


def test_the_learning_rate_rises_and_falls(tmp_path: Path) -> None:
    """As documented; onnxruntime.training 1.19 takes the two counts for each other."""
    _, module, step = opened(tmp_path)
    assert step.get_learning_rate() == np.float32(0.001)
    scheduler, rates = LinearLRScheduler(step, 2, 6, 1.0), [step.get_learning_rate()]
    for _ in range(7):
        module(X, TARGETS["target"])
        step.step()
        scheduler.step()
        rates.append(step.get_learning_rate())
    assert rates == [0, 0.5, 1, 0.75, 0.5, 0.25, 0, 0]


def test_models_in_the_format_of_the_runtime(tmp_path: Path) -> None:
    opened(tmp_path, ort_format=True)
    state = CheckpointState.load_checkpoint(tmp_path / "checkpoint")
    module = Module(tmp_path / "training_model.ort", state)
    losses = losses_of(module, Optimizer(tmp_path / "optimizer_model.ort", module), 3)
    assert losses[2] < losses[0]


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    state, module, _ = opened(tmp_path)
    y = TARGETS["target"]
    for fault, text in [
        (lambda: module(X), r"takes 2 inputs \(x, target\), not 1"),
        (lambda: module(X.astype(np.float64), y), r"'x' takes tensor\(float\), not an array of float64"),
        (lambda: module(X[:, :2], y), r"'x' takes the shape \['batch', 3\], not \[5, 2\]"),
        (lambda: state.parameters["nothing"], "Parameter nothing not found"),
        (lambda: state.properties["nothing"], "Property nothing not found"),
        (lambda: state.parameters.__setitem__("w1", X), r"'w1' is float32\[3, 8\], and is not set to float32\[5, 3\]"),
        (lambda: state.properties.__setitem__("a", [1]), "an integer, a float or a string"),  # type: ignore[arg-type]
        (lambda: opened(tmp_path, names=["w3"]), "no parameter 'w3'"),
        (lambda: opened(tmp_path, frozen_params=["w1"]), "w1 cannot be trained and frozen"),
        (lambda: opened(tmp_path, loss="mse"), "Unknown loss 'mse'"),
        (lambda: opened(tmp_path, optimizer="adam"), "Unknown optimizer 'adam'"),
        (lambda: opened(tmp_path, additional_output_names="out"), "is a list of names"),
        (lambda: Module(tmp_path / "nothing.onnx", state), "There is no model"),
    ]:
        with pytest.raises(graphls.GraphlsError, match=text):
            fault()


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"\x18\0\0\0ODTC" + bytes(64))
    for count in (20, 100, 300, 500):
        (tmp_path / "cut").write_bytes(THEIRS[:count])
        with pytest.raises(ValueError, match="is not a checkpoint of a training, or is damaged"):
            CheckpointState.load_checkpoint(tmp_path / "cut")
    (tmp_path / "damaged").write_bytes(b"\x18\0\0\0")
    with pytest.raises(ValueError, match="has no values of parameters"):
        CheckpointState.load_checkpoint(tmp_path / "theirs")
    with pytest.raises(ValueError, match="is not a checkpoint of a training"):
        CheckpointState.load_checkpoint(tmp_path / "damaged")
    with pytest.raises(OSError, match="cannot be read"):
        CheckpointState.load_checkpoint(tmp_path / "nothing")


@pytest.mark.parametrize("declared", [["rows", "columns"], [None, None], None])
def test_outputs_whose_sizes_have_other_names(declared: Any, tmp_path: Path) -> None:
    proto = network()
    proto.graph.output[0].CopyFrom(tensor("out", declared))
    opened(tmp_path, proto)
    target = onnx.load(tmp_path / "eval_model.onnx").graph.input[1]
    assert [(dim.dim_param, dim.dim_value) for dim in target.type.tensor_type.shape.dim] == [("batch", 0), ("", 2)]


def test_a_checkpoint_of_onnxruntime_training_goes_on_here(tmp_path: Path) -> None:
    nodes, zeros = [node("Mul", "x a", "y"), node("Add", "y b", "out")], np.zeros(3, np.float32)
    infos = [tensor("x", ["batch", 3])], [tensor("out", ["batch", 3])]
    proto = model(nodes, *infos, {"a": zeros, "b": zeros})
    opened(tmp_path, proto, ["a"], frozen_params=["b"])
    (tmp_path / "theirs").write_bytes(THEIRS)
    state, module, step = reopened(tmp_path, tmp_path / "theirs")
    assert list(state.properties) == [("epoch", 3), ("name", "first"), ("rate", 0.25)]
    assert state.parameters["b"].data.tolist() == [0.5, 0.25, -1.0] and not state.parameters["b"].requires_grad
    step.set_learning_rate(0.5)
    inputs = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    # What onnxruntime.training gave in the three steps that followed.
    np.testing.assert_allclose(losses_of(module, step, 3, inputs), [0.9543193, 0.3001747, 0.0718233], rtol=1e-5)


def test_a_size_may_be_zero(tmp_path: Path) -> None:
    nodes = [node("Mul", "x w", "scaled"), node("Slice", "scaled three three", "out")]
    three = np.array([3])
    proto = model(nodes, [tensor("x", [2, 3])], [tensor("out", [0, 3])], {"w": np.ones(3, np.float32), "three": three})
    state, module, _ = opened(tmp_path, proto, ["w"])
    module(X[:2], np.zeros((0, 3), np.float32))
    assert state.parameters["w"].grad is not None


@pytest.mark.parametrize("name", ["bert.torchscript", "gpt2.torchscript", "lstm_tagger.dynamo"])
def test_exports_train_for_any_batch(name: str, tmp_path: Path) -> None:
    """onnxruntime.training 1.19 trains none of these."""
    assert exports.losses(exports.FILES / f"{name}.onnx", tmp_path) == "trains"


def test_modules_and_optimizers_share_a_state(tmp_path: Path) -> None:
    state, module, step = opened(tmp_path)
    other = Module(tmp_path / "training_model.onnx", state, tmp_path / "eval_model.onnx")
    other_step = Optimizer(tmp_path / "optimizer_model.onnx", other)
    expected = losses_of(*opened(tmp_path)[1:], 4)
    found = [loss for pair in ((module, step), (other, other_step)) * 2 for loss in losses_of(*pair, 1)]
    assert found[:2] == expected[:2]
    np.testing.assert_allclose(found, expected, rtol=1e-3)
