"""What stands behind names that are not public in MindSpore, and that projects import all the same."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Tensor, nn, ops

pytestmark = pytest.mark.usefixtures("mindspore")


def module(path: str) -> Any:
    """A module of mindspore."""
    return importlib.import_module(f"mindspore.{path}")


# -- initial values -----------------------------------------------------------------------------------------------


def test_an_initializer_of_ones_own_fills_an_array() -> None:
    names = module("common.initializer")

    class Doubled(names.Initializer):  # type: ignore[misc]
        def __init__(self, gain: float = 2.0) -> None:
            super().__init__(gain=gain)
            self.gain = gain

        def _initialize(self, arr: Any) -> None:
            inputs, outputs = names._calculate_fan_in_and_fan_out(arr.shape)
            names._assignment(arr, np.full(arr.shape, self.gain * inputs / outputs))

    assert nn.Dense(4, 2, weight_init=Doubled()).weight.tolist() == [[4.0] * 4] * 2
    assert names.initializer(Doubled(3.0), [2, 2], gl.float16).dtype == gl.float16
    with pytest.raises(TypeError, match="Initializer defines neither _initialize"):
        names.initializer(names.Initializer(), [2])


def test_an_initializer_gets_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = module("common.initializer")
    monkeypatch.setattr("graphls.initializer._BY_NAME", dict(gl.initializer._BY_NAME))

    @names._register("twos_by_name")
    class Twos(names.Initializer):  # type: ignore[misc]
        def _initialize(self, arr: Any) -> None:
            names._assignment(arr, 2)

    for name in ("twos", "twos_by_name"):
        assert names.initializer(name, [3]).tolist() == [2.0] * 3
    assert isinstance(Twos(), names.Initializer)


def test_fans_and_gains() -> None:
    names = module("common.initializer")
    assert names._calculate_fan_in_and_fan_out((6, 4, 3, 3)) == names._calculate_in_and_out(np.ones((6, 4, 3, 3)))
    assert (names._calculate_correct_fan((6, 4), "fan_in"), names._calculate_correct_fan((6, 4), "fan_out")) == (4, 6)
    assert names._calculate_gain("relu") == math.sqrt(2) and names._calculate_gain("linear") == 1
    assert names._calculate_gain("leaky_relu", 1) == 1 and names._calculate_gain("tanh") == 5 / 3
    for wrong in ("swish", "Relu"):
        with pytest.raises(ValueError, match="_calculate_gain"):
            names._calculate_gain(wrong)


def test_draws() -> None:
    names = module("common.initializer")
    spread = names._init_random_uniform(1.0, 3.0, (1000,))
    assert spread.min() >= 1 and spread.max() < 3 and abs(spread.mean() - 2) < 0.1
    assert abs(names._init_random_normal(5.0, 0.1, (1000,)).mean() - 5) < 0.1
    assert abs(names._init_truncated_normal(-1, 1, 0.0, 1.0, (1000,))).max() <= 1


# -- training -----------------------------------------------------------------------------------------------------


def test_gradients_are_divided_and_looked_at() -> None:
    names, boosted = module("nn.wrap.loss_scale"), module("boost.boost_cell_wrapper")
    scale, grads = Tensor(4.0), (Tensor([8.0]), Tensor(np.array([2.0], np.float16)))
    divided = ops.HyperMap()(ops.partial(names._grad_scale, scale), grads)
    assert [(x.tolist(), x.dtype) for x in divided] == [([2.0], gl.float32), ([0.5], gl.float16)]
    rows = module("common").RowTensor(Tensor([1]), Tensor([[8.0]]), (2, 1))
    assert names.grad_scale(scale, rows).to_dense().tolist() == [[0.0], [2.0]]
    for grad, found in ((Tensor([1.0]), 0.0), (Tensor([math.inf]), 1.0), (Tensor([math.nan]), 1.0)):
        assert float(names._grad_overflow(grad).sum()) == float(boosted.grad_overflow(grad).sum()) == found
    assert float(names._grad_overflow(rows).sum()) == 0.0


def test_parts_of_a_batch() -> None:
    cells = module("nn")
    x, y = Tensor(np.arange(8.0, dtype=np.float32).reshape(4, 2)), Tensor(np.zeros((4, 3), np.float32))
    net = nn.WithLossCell(nn.Dense(2, 3), nn.MSELoss())
    wanted = float(net(x[:2], y[:2])) + float(net(x[2:], y[2:]))
    for cell in (cells.PipelineCell(net, 2), cells.MicroBatchInterleaved(net, 2), cells.MicroBatchInterleaved(net)):
        assert float(cell(x, y)) == pytest.approx(wanted)
    assert float(cells.VirtualDatasetCellTriple(net)(x, y)) == float(net(x, y))
    weights = module("nn.wrap.cell_wrapper")._BroadCastCell(net.trainable_params())()
    assert [w.tolist() for w in weights] == [p.tolist() for p in net.trainable_params()]
    with pytest.raises(ValueError, match="cannot be split into 3 parts"):
        cells.PipelineCell(net, 3)(x, y)
    for wrong, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="micro_size"):
            cells.PipelineCell(net, wrong)


def test_adam_with_moments_elsewhere() -> None:
    optim = module("nn.optim")

    def losses(kind: Any) -> list[float]:
        gl.set_seed(1)
        net = nn.Dense(2, 3)
        optimizer = kind(net.trainable_params(), 0.1, use_nesterov=True)
        step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)
        row = Tensor(np.ones((1, 2), np.float32)), Tensor(np.ones((1, 3), np.float32))
        return [float(step(*row)) for _ in range(4)]

    assert losses(optim.AdamOffload) == losses(nn.Adam)


def test_a_last_layer_that_normalizes() -> None:
    names = module("boost")
    x = np.array([[180, 234, 154], [244, 48, 247]], np.float32)
    layer = module("boost.less_batch_normalization").CommonHeadLastFN(3, 4, "ones", "ones")
    layer.multiplier.set_data(Tensor([3.0]))
    weight = layer.weight.asnumpy()
    unit = [a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, weight)]
    np.testing.assert_allclose(layer(Tensor(x)).asnumpy(), 3 * (unit[0] @ unit[1].T + 1), rtol=1e-4)

    net = nn.SequentialCell(nn.Dense(3, 5), nn.ReLU(), nn.Dense(5, 2))
    wanted = net(Tensor(x)).tolist()
    assert names.LessBN(net)(Tensor(x)).tolist() == wanted
    names.LessBN(net, fn_flag=True)
    assert [type(cell).__name__ for cell in net.cells()] == ["Dense", "ReLU", "CommonHeadLastFN"]
    assert abs(net(Tensor(x)).asnumpy()).max() <= 1.0001
    assert len({parameter.name for parameter in net.trainable_params()}) == 4


def test_what_mixed_precision_casts() -> None:
    names = module("train.amp")
    net, x = nn.Dense(2, 3), Tensor(np.ones((1, 2), np.float32))
    assert names._OutputTo16(net)(x).dtype == gl.float16
    assert names._OutputTo32(names._OutputTo16(net))(x).dtype == gl.float32
    assert nn.Dense in names.AMP_WHITE_LIST and nn.LayerNorm in names.AMP_BLACK_LIST
    assert bool(names.all_finite([x], names.init_status()))


def test_helpers_of_training(tmp_path: Path) -> None:
    names = module("train._utils")
    assert names._make_directory(str(tmp_path / "a" / "b")) == str(tmp_path / "a" / "b")
    with pytest.raises(TypeError, match="'path' must be the path of a folder, but got 3"):
        names._make_directory(3)
    names.check_value_type("rate", 1.0, [float])
    with pytest.raises(TypeError, match="For `rate` the type should be a valid type of"):
        names.check_value_type("rate", True, int)
    assert names._to_tensor(np.ones(2, np.float32)).shape == (2,)
    assert [x.shape for x in names._to_tensor([np.ones(2, np.float32)], 3.0)] == [(2,), ()]
    assert module("train.callback._callback")._handle_loss(Tensor([1.0, 3.0])) == 2.0
    assert len(module("train.model")._transfer_tensor_to_tuple(Tensor([1.0]))) == 1


# -- operators ----------------------------------------------------------------------------------------------------

X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)

INNER: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "Centralization": (lambda o: o.Centralization()(Tensor([1.0, 3.0])), [-1.0, 1.0]),
    "Centralization of an axis": (lambda o: o.Centralization()(Tensor([[1.0, 3.0]]), (1,)), [[-1.0, 1.0]]),
    "ClipByNorm": (lambda o: o.ClipByNorm()(Tensor([3.0, 4.0]), Tensor(1.0)), [0.6, 0.8]),
    "DynamicBroadcastTo": (lambda o: o.DynamicBroadcastTo()(Tensor([1.0]), (2,)), [1.0, 1.0]),
    "DynamicResizeNearestNeighbor": (
        lambda o: o.DynamicResizeNearestNeighbor()(Tensor([[[[1.0]]]]), (1, 2)), [[[[1.0, 1.0]]]]
    ),
    "SequenceMask": (lambda o: o.SequenceMask()(Tensor([1]), 2), [[True, False]]),
}  # fmt: skip


@pytest.mark.parametrize("name", INNER)
def test_operators_of_layers(name: str) -> None:
    call, wanted = INNER[name]
    found = call(module("ops.operations._inner_ops"))
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-6)


def test_questions_of_python() -> None:
    inner = module("ops.operations._inner_ops")
    assert inner.Format()("{} of {}", 1, 2) == "1 of 2"
    assert inner.IsInstance()(3, int) and not inner.IsParameter()(3) and inner.IsSubClass()(gl.float32, gl.float32)
    assert inner.TopTypeof()(Tensor([1.0])) == gl.float32


def by_input(function: Callable[[Any], Any], x: Any, dy: Any) -> Any:
    """The gradient of a function by its input, for a sensitivity."""
    return gl.grad(lambda x: ops.sum(function(x) * Tensor(dy)))(Tensor(x)).asnumpy()


def gradient(name: str, *settings: Any, **options: Any) -> Any:
    return getattr(module("ops.operations._grad_ops"), name)(*settings, **options)


def test_gradients_that_take_shapes() -> None:
    part = X[:, :, 1:, :2]
    found = gradient("SliceGrad")(Tensor(part), Tensor(X), (0, 0, 1, 0), (1, 2, 2, 2)).asnumpy()
    np.testing.assert_array_equal(found, by_input(lambda x: ops.slice(x, (0, 0, 1, 0), (1, 2, 2, 2)), X, part))
    found = gradient("StridedSliceGrad")(Tensor(part), X.shape, (0, 0, 1, 0), X.shape, (1, 1, 1, 2)).asnumpy()
    wanted = np.zeros_like(X)
    wanted[:, :, 1:, ::2] = part
    np.testing.assert_array_equal(found, wanted)
    paddings = ((0, 0), (0, 0), (1, 1), (0, 0))
    wide = np.pad(X, paddings, mode="reflect")
    found = gradient("MirrorPadGrad")(Tensor(wide), paddings).asnumpy()
    np.testing.assert_array_equal(found, by_input(lambda x: ops.mirror_pad(x, paddings), X, wide))
    assert gradient("TraceGrad")(Tensor(2.0), (2, 3)).tolist() == [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    assert gradient("AdaptiveAvgPool2DGrad")(Tensor([[[[4.0]]]]), (1, 1, 2, 2)).tolist() == [[[[1.0, 1.0], [1.0, 1.0]]]]


def test_gradients_of_layers_and_losses() -> None:
    w = np.linspace(-1, 1, 3 * 2 * 2 * 2, dtype=np.float32).reshape(3, 2, 2, 2)
    dy = np.ones((1, 3, 2, 3), np.float32)
    found = gradient("Conv2DBackpropFilter", 3, 2)(Tensor(dy), Tensor(X), w.shape).asnumpy()
    np.testing.assert_allclose(found, by_input(lambda w: ops.conv2d(Tensor(X), w), w, dy), rtol=1e-5)
    found = gradient("LRNGrad", alpha=0.1)(Tensor(X), Tensor(X), Tensor(X)).asnumpy()
    np.testing.assert_allclose(found, by_input(lambda x: ops.lrn(x, alpha=0.1), X, X), rtol=1e-4, atol=1e-4)
    target = np.full((2, 2), 0.25, np.float32)
    found = gradient("KLDivLossGrad", "sum")(Tensor(1.0), Tensor(target), Tensor(target)).asnumpy()
    np.testing.assert_allclose(found, -target)


# -- version 1, settings and memory -------------------------------------------------------------------------------


def test_parts_of_transformers_of_version_1() -> None:
    names = module("nn.transformer")
    mask = names.AttentionMask(3)(Tensor([[1.0, 1.0, 0.0]]))
    assert mask.tolist() == [[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]
    found, table = names.VocabEmbedding(5, 4)(Tensor([[1, 3]], gl.int32))
    np.testing.assert_array_equal(found.asnumpy(), table.asnumpy()[[[1, 3]]])
    logits, label = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32), np.array([0, 2, 1, 1])
    losses = np.log(np.exp(logits).sum(1)) - logits[range(4), label]
    loss = names.CrossEntropyLoss()(Tensor(logits), Tensor(label, gl.int32), Tensor([1.0, 0.0, 1.0, 0.0]))
    assert float(loss) == pytest.approx((losses[0] + losses[2]) / 2, rel=1e-4)
    layer = names.FeedForward(4, 8, 0.1, "relu", parallel_config=names.default_dpmp_config)
    x = np.ones((2, 3, 4), np.float32)
    hidden = np.maximum(x @ layer.mapping.weight.asnumpy(), 0)
    wanted = hidden @ layer.projection.weight.asnumpy()
    assert layer.mapping.weight.shape == (4, 8) and layer.projection.weight.name == "projection.weight"
    np.testing.assert_allclose(layer(Tensor(x)).asnumpy(), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="one expert"):
        names.FeedForward(4, 8, 0.1, expert_num=2)


def test_settings_of_transformers_of_version_1() -> None:
    names = module("nn.transformer")
    config = names.TransformerOpParallelConfig(2, model_parallel=4, vocab_emb_dp=False)
    assert (config.data_parallel, config.model_parallel, config.recompute.recompute) == (2, 4, False)
    assert config.dp_mp_config.model_parallel == 4 and not config.embedding_dp_mp_config.vocab_emb_dp
    assert module("nn.transformer.moe").default_moe_config.expert_num == 1
    with pytest.raises(TypeError, match="TransformerOpParallelConfig has no 'data'; it has data_parallel"):
        names.TransformerOpParallelConfig(data=2)


def test_a_block_that_is_computed_again() -> None:
    recompute = module("common.recompute").recompute
    block, x = nn.SequentialCell(nn.Dense(2, 3), nn.Tanh()), Tensor(np.ones((1, 2), np.float32))

    class Net(nn.Cell):
        def __init__(self, again: bool) -> None:
            super().__init__()
            self.block, self.again = block, again

        def construct(self, x: Any) -> Any:
            return recompute(self.block, x, use_reentrant=False) if self.again else self.block(x)

    def training(again: bool) -> Any:
        return gl.compile(lambda x: gl.value_and_grad(Net(again))(x), x)

    kept, again = training(False), training(True)
    for one, other in zip(kept(x), again(x), strict=True):
        np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())
    counts = [sum(node.primitive.name == "matmul" for node in step.graph.nodes) for step in (kept, again)]
    assert counts[1] > counts[0]
    assert recompute(block, x).shape == (1, 3) and not block._is_recomputed
    with pytest.raises(TypeError, match="recompute takes a Cell"):
        recompute(np.tanh, x)


def test_settings_of_datasets() -> None:
    config = module("dataset.config")
    config.set_error_samples_mode(config.ErrorSamplesMode.RETURN)
    assert config.get_error_samples_mode() == 0
    with pytest.raises(ValueError, match=r"replacing or skipping rows that fail \(ErrorSamplesMode\.SKIP\)"):
        config.set_error_samples_mode(config.ErrorSamplesMode.SKIP)
    with pytest.raises(TypeError, match="is not a member of ErrorSamplesMode"):
        config.set_error_samples_mode("SKIP")
    config.set_multiprocessing_start_method("spawn")
    assert config.get_multiprocessing_start_method() == "spawn"
    config.set_multiprocessing_start_method()
    with pytest.raises(ValueError, match='"fork" or "spawn"'):
        config.set_multiprocessing_start_method("threads")
    config.set_sending_batches(3)


def test_the_profiler_runs_no_loop_on_inputs_that_are_not_the_scripts(tmp_path: Path) -> None:
    class Doubled(nn.Cell):
        def construct(self, x: Any) -> Any:
            while x < 100:
                x = x * 2
            return x

    step = gl.compile(Doubled(), Tensor(3.0))  # on zeros it would run for ever
    profiler = module("profiler").Profiler(output_path=str(tmp_path))
    with pytest.warns(UserWarning, match="could not be profiled: It has a loop whose end depends on inputs"):
        profiler.analyse()
    assert float(step(Tensor(3.0))) == 192.0


def test_operations_on_images_that_mindspore_1_wrote_in_python() -> None:
    old, planes = module("dataset.vision.py_transforms"), np.ones((3, 4, 5), np.float32)
    np.testing.assert_array_equal(old.Normalize([1.0, 2.0, 3.0], [1.0] * 3)(planes)[:, 0, 0], [0, -1, -2])
    assert old.Cutout(2)(planes).sum() == 48 and old.Decode().to_pil
    assert module("dataset.transforms.py_transforms").OneHotOp is module("dataset.transforms").OneHot
