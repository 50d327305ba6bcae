"""Recipes in training steps: loss scaling, recompute, evaluation, checkpoints and engines."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops
from graphls.base.errors import GraphTypeError, GraphValueError
from tests.low_precision.steps import LABELS, RECIPES, X, compiled, named, network, require_engine, training

DELAYED = RECIPES["delayed"]


def losses(step: Any, count: int = 6) -> list[float]:
    return [float(r[0] if isinstance(r := step(X, LABELS), tuple) else r) for _ in range(count)]


@pytest.mark.parametrize("name", RECIPES)
def test_losses_are_near_those_of_float32(name: str) -> None:
    low, high = (losses(compiled(network(r), backend="numpy"), 30)[-1] for r in (RECIPES[name], None))
    assert low == pytest.approx(high, rel=0.1, abs=0.01)  # of 1.69 at the start


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("engine", ["onnxruntime", "xla", "onednn"])
def test_engines_agree(engine: str, name: str) -> None:
    require_engine(engine)
    found = losses(compiled(network(RECIPES[name]), engine=engine))
    np.testing.assert_allclose(found, by_interpreter(name), rtol=2e-3)  # a sum in another order may round elsewhere


@cache
def by_interpreter(name: str) -> list[float]:
    return losses(compiled(network(RECIPES[name]), backend="numpy"))


@pytest.mark.parametrize("name", RECIPES)
def test_overflows_are_those_of_the_step_without_a_recipe(name: str) -> None:
    """Saturation hides no infinity: a scale of 2**26 overflows float16, and both steps skip as often."""

    def flags(recipe: amp.Recipe | None) -> list[tuple[bool, float]]:
        net = amp.auto_mixed_precision(network(), "O3")
        if recipe is not None:
            amp.auto_mixed_precision(net, recipe)
        step = compiled(net, 2.0**26, backend="numpy")
        return [(bool(r[1]), float(r[2])) for r in (step(X, LABELS) for _ in range(14))]

    assert flags(RECIPES[name]) == flags(None)
    assert sum(flag for flag, _ in flags(None)) > 3


def test_a_skipped_step_leaves_histories_as_they_are() -> None:
    net = amp.auto_mixed_precision(amp.auto_mixed_precision(network(), "O3"), DELAYED)
    step = compiled(net, 2.0**30, backend="numpy")
    assert bool(step(X, LABELS)[1])
    assert all(not p.asnumpy().any() for p in net.get_parameters() if p.name.endswith("amax_history"))
    assert all(p.asnumpy() == 1 for p in net.get_parameters() if p.name.endswith("_scale"))


def test_scales_of_delayed_scaling_are_those_of_the_rule() -> None:
    """Of the input of the first layer, whose maxima the batches say, by Transformer Engine's rule."""
    net = network(DELAYED)
    step = compiled(net, backend="numpy")
    history, scale = np.zeros(3, np.float32), np.float32(1)
    for number in range(8):
        x = X * np.float32(2.0 ** (number % 5))
        step(x, LABELS)
        history[0] = abs(x).max()
        scale = np.float32(448) / history.max()
        history = np.roll(history, -1)
        history[0] = 0
        np.testing.assert_array_equal(net[0].input_amax_history.asnumpy(), history)
        np.testing.assert_array_equal(net[0].input_scale.asnumpy(), scale)


def test_evaluation_reads_scales_and_writes_none() -> None:
    net = network(DELAYED)
    losses(compiled(net, backend="numpy"))
    before = {p.name: p.asnumpy().copy() for p in net.get_parameters()}
    net.set_train(False)
    step = graphls.compile(net, X)
    assert len(named(step.graph, "quantize")) == 4
    assert not step.graph.writes
    np.testing.assert_array_equal(step(X).asnumpy(), net(X).asnumpy())
    for p in net.get_parameters():
        np.testing.assert_array_equal(p.asnumpy(), before[p.name])


def test_training_goes_on_from_a_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    cell = training(network(DELAYED))
    step = graphls.compile(cell, X, LABELS)
    losses(step)
    graphls.save_checkpoint(cell, str(tmp_path / "a.ckpt"))
    later = losses(step)
    again = training(network(DELAYED))
    graphls.load_param_into_net(again, graphls.load_checkpoint(str(tmp_path / "a.ckpt")))
    assert losses(graphls.compile(again, X, LABELS)) == later


def test_a_bundle_has_the_scales(tmp_path: Path) -> None:
    step = compiled(network(DELAYED))
    losses(step)
    step.export(tmp_path / "step")
    assert losses(graphls.load_step(tmp_path / "step")) == losses(step)


def test_kept_cells_stay_and_a_dtype_ends_a_recipe() -> None:
    net = network(replace(amp.CurrentScaling(), keep=("2",)))
    assert len(named(compiled(net, backend="numpy").graph, "quantize")) == 3
    net = network(amp.CurrentScaling())
    net[0].to_float(graphls.float32)
    scopes = {node.scope for node in named(compiled(net, backend="numpy").graph, "quantize")}
    assert scopes == {"network._backbone.2"}


@pytest.mark.parametrize("name", ["delayed", "nvfp4"])
def test_a_training_goes_on_without_its_recipe(name: str, tmp_path: Path) -> None:
    """Where the process goes on, in a callback of a Model, and from a checkpoint, whose states are left over then."""
    cell = training(network(RECIPES[name]))
    losses(graphls.compile(cell, X, LABELS), 3)
    graphls.save_checkpoint(cell, str(tmp_path / "a.ckpt"))
    amp.auto_mixed_precision(cell.network, None)
    step = graphls.compile(cell, X, LABELS)
    later = losses(step, 3)
    assert not named(step.graph, "quantize")

    again, states = training(network()), graphls.load_checkpoint(str(tmp_path / "a.ckpt"))
    missing, unused = graphls.load_param_into_net(again, states)
    assert not missing and len(unused) == (12 if name == "delayed" else 0)
    assert losses(graphls.compile(again, X, LABELS), 3) == later

    class Ending(graphls.train.Callback):
        def on_train_step_end(self, run_context: Any) -> None:
            arguments = run_context.original_args()
            found.append(float(arguments.net_outputs))
            if arguments.cur_step_num == 3:
                amp.auto_mixed_precision(net, None)

    found: list[float] = []
    net = network(RECIPES[name])
    loss, optimizer = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"), training(net).optimizer
    graphls.Model(net, loss, optimizer).train(3, [(X, LABELS)] * 2, callbacks=[Ending()])
    assert found[3:] == later


def test_a_level_outlives_its_recipe() -> None:
    net = amp.auto_mixed_precision(nn.SequentialCell(nn.Dense(24, 32), nn.LayerNorm((32,))), "O2", graphls.bfloat16)
    texts = []
    for recipe in (None, amp.CurrentScaling(), None):
        amp.auto_mixed_precision(net, recipe)
        texts.append(str(graphls.compile(net, X).graph))
    assert texts[0] == texts[2] != texts[1] and "bf16" in texts[0] and "f8e4m3fn" in texts[1]


def test_a_recipe_goes_on_from_a_checkpoint_without_its_states(tmp_path: Path) -> None:
    """Which are those of a first step, and a warning names them."""
    cell = training(network())
    losses(graphls.compile(cell, X, LABELS), 3)
    graphls.save_checkpoint(cell, str(tmp_path / "a.ckpt"))
    again = training(network(DELAYED))
    with pytest.warns(UserWarning, match=r"12 parameters .* stay as they are: \['0.input_amax_history'"):
        graphls.load_param_into_net(again, graphls.load_checkpoint(str(tmp_path / "a.ckpt")))
    amp.auto_mixed_precision(cell.network, DELAYED)
    assert losses(graphls.compile(again, X, LABELS)) == losses(graphls.compile(cell, X, LABELS))


def test_another_length_of_the_history_is_another_state() -> None:
    net = network(DELAYED)
    first = compiled(net, backend="numpy")
    losses(first, 2)
    scale = net[0].input_scale
    amp.auto_mixed_precision(net, replace(DELAYED, amax_history_len=4))
    losses(compiled(net, backend="numpy"), 1)
    assert net[0].input_amax_history.shape == (4,) and net[0].input_scale is scale
    assert np.isfinite(losses(first, 1))


class Attention(nn.Cell):
    """Products of activations beside those with a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Dense(6, 6)
        self.outer = nn.Dense(24, 5)

    def construct(self, x: Any) -> Any:
        y = self.inner(x.reshape(-1, 4, 6))
        scores = ops.softmax(ops.matmul(y, y.swapaxes(1, 2)), -1)
        return self.outer(ops.matmul(scores, y).reshape(-1, 24))


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("is_low", [False, True])
def test_products_of_activations_are_low_by_choice(name: str, is_low: bool) -> None:
    net = amp.auto_mixed_precision(Attention(), replace(RECIPES[name], attention=is_low))
    step = compiled(net, backend="numpy")
    losses(step)
    low = {node.output for node in named(step.graph, "dequantize")}
    moves = {n.output: n.inputs[0] for n in step.graph.nodes if n.primitive.moves and len(n.inputs) == 1}

    def is_rounded(value: Any) -> bool:
        return value in low or (value in moves and is_rounded(moves[value]))

    count = sum(all(map(is_rounded, node.inputs)) for node in named(step.graph, "matmul"))
    assert count == (11 if is_low else 5)  # of the 5 of two layers, as the input needs no gradient, and 6 of attention


@pytest.mark.parametrize("name", RECIPES)
def test_recomputed_cells_have_low_products(name: str) -> None:
    net = network(RECIPES[name])
    plain = losses(compiled(net, backend="numpy"), 1)
    net = network(RECIPES[name])
    net[0].recompute()
    step = compiled(net, backend="numpy")
    assert losses(step, 1) == plain
    assert all(np.isfinite(losses(step)))


@pytest.mark.parametrize("name", ["delayed", "nvfp4"])
def test_a_recomputed_cell_may_compute_before_its_product(name: str) -> None:
    def trained(again: bool) -> list[float]:
        net = network()
        inner = nn.SequentialCell(nn.Tanh(), nn.Dense(32, 32), nn.LayerNorm((32,)), nn.Dense(32, 32))
        net.insert(1, inner)
        net = amp.auto_mixed_precision(net, RECIPES[name])
        if again:
            inner.recompute()
        return losses(compiled(net, backend="numpy"), 2)

    again, plain = trained(True), trained(False)
    assert again == pytest.approx(plain, rel=0.02), "gradients have other scales, or other random numbers"
    assert name == "nvfp4" or again[0] == plain[0]


def test_convolutions_read_low_operands() -> None:
    net = nn.SequentialCell(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dense(4 * 24, 5))
    images = X.reshape(16, 1, 4, 6)
    for recipe in RECIPES.values():
        cell = training(amp.auto_mixed_precision(net, recipe))
        step = graphls.compile(cell, images, LABELS, backend="numpy")
        kinds = {n.primitive.name: n for n in step.graph.nodes if n.primitive.summed_axes is not None}
        assert {"convolution", "convolution_weight_gradient"} <= kinds.keys()
        assert np.isfinite(float(step(images, LABELS)))


def test_model_and_build_take_a_recipe() -> None:
    net = network()
    step = amp.build_train_network(net, nn.SGD(net.trainable_params(), 0.1), nn.MSELoss(), level=amp.CurrentScaling())
    target = np.zeros((16, 5), np.float32)
    assert named(graphls.compile(step, X, target).graph, "quantize")
    model = graphls.Model(network(), nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1), amp_level=amp.CurrentScaling())
    assert model is not None
    wide = amp.build_train_network(
        network(), nn.SGD(net.trainable_params(), 0.1), nn.MSELoss(), amp.MXFP8(), cast_model_type=graphls.bfloat16
    )
    types = {str(node.output.type.dtype) for node in named(graphls.compile(wide, X, target).graph, "dequantize")}
    assert types == {"Bfloat16"}


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "nvfp4"])  # whose random numbers are inputs
def test_the_model_of_a_step_runs_in_plain_onnx_runtime(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    step = compiled(network(RECIPES[name]))
    step.save(tmp_path / "step.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "step.onnx"))
    states = {name: parameter.asnumpy() for name, parameter in step.parameters.items()}
    fed = {**states, **dict(zip((value.name for value in step.graph.inputs), (X, LABELS), strict=True))}
    results = session.run(None, {i.name: fed[i.name] for i in session.get_inputs()})
    assert float(results[0]) == float(step(X, LABELS))
    new = dict(zip((output.name for output in session.get_outputs()), results, strict=True))
    written = {write.state.name: write.value.name for write in step.graph.writes}
    for state in states:
        if state in written and written[state] in new:
            np.testing.assert_array_equal(new[written[state]], step.parameters[state].asnumpy())


def test_updates_of_a_training_compose_with_a_recipe() -> None:
    def trained(recipe: amp.Recipe | str) -> list[float]:
        net = network()
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
        manager = amp.DynamicLossScaleManager(1024, 2, 10)
        cell = amp.build_train_network(
            net, optimizer, loss, recipe, accumulate_steps=2, clip_norm=1.0, ema_decay=0.9, loss_scale_manager=manager
        )
        step = graphls.compile(cell, X, LABELS)
        return [float(step(X, LABELS)[0]) for _ in range(8)]

    for recipe in RECIPES.values():
        low = trained(recipe)
        assert low[0] == pytest.approx(low[1], rel=0.01)  # one update for two calls
        np.testing.assert_allclose(low, trained("O0"), rtol=0.05)


class Recurrent(nn.Cell):
    """Products in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(6, 8, batch_first=True)
        self.head = nn.Dense(8, 5)

    def construct(self, x: Any) -> Any:
        return self.head(self.layer(x.reshape(-1, 4, 6))[0][:, -1])


@pytest.mark.parametrize("name", RECIPES)
def test_products_in_loops_are_low(name: str) -> None:
    graphls.set_seed(5)
    step = compiled(amp.auto_mixed_precision(Recurrent(), RECIPES[name]))
    inner = {node for node in named(step.graph, "quantize") if node not in step.graph.nodes}
    assert inner
    assert np.isfinite(losses(step)).all()


def test_functions_take_cells_with_a_recipe() -> None:
    net = network(DELAYED)
    criterion = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    gradients = graphls.value_and_grad(lambda x, y: criterion(net(x), y), None, net.trainable_params())
    loss, _ = gradients(X, LABELS)
    assert float(loss) == losses(compiled(network(DELAYED)), 1)[0]
    assert float(net[0].input_scale) == np.float32(448) / abs(X).max()
    jitted = graphls.jit(lambda x: net(x))
    np.testing.assert_array_equal(jitted(X).asnumpy(), net(X).asnumpy())


def test_wrong_uses_are_sentences() -> None:
    with pytest.raises(GraphTypeError, match="network type should be Cell"):
        amp.auto_mixed_precision(3, amp.CurrentScaling())  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="There is no recipe 'fp8'"):
        graphls.passes.parse_pipeline("low_precision{recipe=fp8}")
    with pytest.raises(GraphValueError, match="float32, or a recipe, not Int8"):
        network().to_float(graphls.int8)


def test_both_roundings_of_a_gradient_read_the_same_random_numbers() -> None:
    nodes = compiled(network(amp.NVFP4()), engine="numpy").graph.nodes
    sites = [node.attrs["site"] for node in nodes if node.primitive.name == "random_bytes"]
    assert len(sites) < sum(node.primitive.name == "round_stochastically" for node in nodes)
    assert len({*sites}) == len(sites)
