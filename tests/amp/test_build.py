"""build_train_network: what the levels set, what overrides them, and that the steps train."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops
from graphls.ir.errors import GraphTypeError, GraphValueError

BACKENDS = ["numpy", "onnxruntime"]
F32, BF16, F16 = graphls.float32, graphls.bfloat16, graphls.float16
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(8, 6)).astype(np.float32), RANDOM.normal(size=(8, 2)).astype(np.float32)


class Net(nn.Cell):
    """Notes the dtypes behind its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(6, 8)
        self.bn = nn.BatchNorm1d(8)
        self.last = nn.Dense(8, 2)
        self.seen: list[str] = []

    def construct(self, x: Any) -> Any:
        x = self.first(x)
        y = self.bn(x)
        z = self.last(ops.exp(y))
        self.seen[:] = [v.dtype.name for v in (x, y, z)]
        return z


class Loss(nn.MSELoss):
    """Notes the dtypes of what it is computed of."""

    seen: tuple[str, ...] = ()

    def construct(self, logits: Any, labels: Any) -> Any:
        Loss.seen = (logits.dtype.name, labels.dtype.name)
        return super().construct(logits, labels)


def built(level: str = "O0", loss: Any = True, **options: Any) -> tuple[Net, Any]:
    graphls.set_seed(4)
    net = Net()
    optimizer = nn.Momentum(net.trainable_params(), 0.05, 0.9)
    return net, amp.build_train_network(net, optimizer, Loss() if loss else None, level, **options)


CASES = [
    ("O0", {}, ["f32", "f32", "f32"], False),
    ("O1", {}, ["f32", "f32", "f32"], False),
    ("O2", {}, ["f16", "f16", "f16"], True),
    ("O3", {}, ["f16", "f16", "f16"], False),
    ("auto", {}, ["f32", "f32", "f32"], False),
    ("O2", {"keep_batchnorm_fp32": False}, ["f16", "f16", "f16"], True),
    ("O2", {"loss_scale_manager": None}, ["f16", "f16", "f16"], False),
    ("O2", {"cast_model_type": F32}, ["f32", "f32", "f32"], True),
    ("O2", {"cast_model_type": BF16}, ["bf16", "bf16", "bf16"], False),
    ("O3", {"cast_model_type": BF16}, ["bf16", "bf16", "bf16"], False),
    ("O3", {"cast_model_type": F32}, ["f32", "f32", "f32"], False),
    ("O0", {"cast_model_type": F16}, ["f16", "f16", "f16"], False),
    ("O0", {"loss_scale_manager": amp.FixedLossScaleManager(1.0)}, ["f32", "f32", "f32"], True),
    ("O3", {"loss_scale_manager": amp.DynamicLossScaleManager(2.0**8)}, ["f16", "f16", "f16"], True),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("level", "options", "dtypes", "is_scaled"), CASES)
def test_levels_and_what_overrides_them(
    backend: str, level: str, options: Any, dtypes: list[str], is_scaled: bool
) -> None:
    net, step = built(level, **options)
    kind = nn.TrainOneStepWithLossScaleCell if is_scaled else nn.TrainOneStepCell
    assert type(step) is kind and step.training and net.bn.training
    names = [p.name for p in net.get_parameters()]
    assert names[0] == "first.weight" and {p.dtype for p in net.get_parameters()} == {F32}
    compiled = graphls.compile(step, X, Y, backend=backend)
    assert net.seen == dtypes and Loss.seen == ("f32", "f32")
    outputs = [compiled(X, Y) for _ in range(20)]
    losses = [float(o[0] if is_scaled else o) for o in outputs]
    assert losses[-1] < losses[0] / 2
    assert (outputs[0][0] if is_scaled else outputs[0]).dtype is F32
    assert np.abs(net.bn.moving_mean.asnumpy()).max() > 0


def kept(step: Any, name: str) -> set[str]:
    graph = graphls.trace_graph(step, X, Y).graph
    return {n.output.type.dtype.name for n in graph.nodes if n.primitive.name == name and n.phase == "forward"}


def test_normalisation_computes_in_float32_where_it_is_kept() -> None:
    for options in ({}, {"keep_batchnorm_fp32": False}):
        net, step = built("O2", **options)
        assert kept(step, "rsqrt") == {"f32"} and kept(step, "exp") == {"f16"}
        assert net.bn.configuration()[1] is (F16 if options else F32)
    assert built("O3", keep_batchnorm_fp32=True)[0].bn.configuration()[1] is F32
    assert built("O0", keep_batchnorm_fp32=True)[0].bn.configuration()[1] is None


def test_the_default_manager_of_o2_is_fresh() -> None:
    first, second = built("O2")[1], built("O2")[1]
    assert first.loss_scaling_manager is not second.loss_scaling_manager
    assert first.loss_scaling_manager.get_loss_scale() == 2**24
    assert first.scale_sense is not second.scale_sense


def test_a_network_that_computes_its_own_loss() -> None:
    net = Net()
    loss = nn.WithLossCell(net, nn.MSELoss())
    optimizer = nn.Momentum(net.trainable_params(), 0.05, 0.9)
    step = amp.build_train_network(loss, optimizer, level="O2", loss_scale_manager=amp.FixedLossScaleManager(64.0))
    result, overflow, scale = step(X, Y)
    assert (result.dtype, bool(overflow), float(scale)) == (F16, False, 64.0)


def test_accumulated_gradients_are_those_of_the_mean() -> None:
    updated = []
    for micro_size in (1, 4):
        graphls.set_seed(4)
        net = nn.Dense(6, 2)
        network = nn.GradAccumulationCell(nn.WithLossCell(net, nn.MSELoss()), micro_size)
        step = amp.build_train_network(network, nn.SGD(net.trainable_params(), 0.1))
        loss = float(step(graphls.Tensor(X), graphls.Tensor(Y)))
        updated.append((loss / micro_size, net.weight.asnumpy(), net.bias.asnumpy()))
    for whole, parts in zip(*updated, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=1e-5)


def test_integer_labels_stay() -> None:
    net = nn.Dense(6, 3)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    step = amp.build_train_network(net, optimizer, loss, "O3")
    assert step(X, np.zeros(8, np.int32)).dtype is F32


@pytest.mark.parametrize("level", ["O1", "O2", "O3", "auto"])
def test_a_network_that_was_given_a_level_before(level: str) -> None:
    net = nn.Dense(6, 2, has_bias=False)
    amp.auto_mixed_precision(net, level, BF16)
    step = amp.build_train_network(net, nn.SGD(net.trainable_params(), 0.1), Loss())
    assert step(X, Y).dtype is F32 and Loss.seen == ("f32", "f32")


def test_steps_without_dropping_take_every_step_and_leave_the_division_to_the_optimizer() -> None:
    found = []
    for scale in (1.0, 1024.0):
        graphls.set_seed(4)
        net = nn.Dense(6, 2)
        optimizer = nn.Momentum(net.trainable_params(), 0.05, 0.9, loss_scale=scale)
        manager = amp.FixedLossScaleManager(scale, drop_overflow_update=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step = amp.build_train_network(net, optimizer, nn.MSELoss(), loss_scale_manager=manager)
        assert type(step) is nn.TrainOneStepCell and step.sens == scale
        step(X, Y)
        found.append(net.weight.asnumpy().copy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_an_optimizer_with_another_scale_is_told_with_both_numbers() -> None:
    net = nn.Dense(6, 2)
    optimizer = nn.Momentum(net.trainable_params(), 0.05, 0.9, loss_scale=2.0)
    manager = amp.FixedLossScaleManager(1024.0, False)
    with pytest.warns(UserWarning) as caught:
        step = amp.build_train_network(net, optimizer, nn.MSELoss(), loss_scale_manager=manager)
        step(X, Y)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert "scaled by 1024.0" in str(caught[0].message) and "divides gradients by 2.0" in str(caught[0].message)


def test_a_manager_of_ones_own() -> None:
    class Manager(amp.LossScaleManager):
        def get_loss_scale(self) -> float:
            return 8.0

        def get_update_cell(self) -> nn.Cell:
            return nn.FixedLossScaleUpdateCell(8.0)

    _, step = built("O3", loss_scale_manager=Manager())
    assert float(step(X, Y)[2]) == 8.0
    _, plain = built("O3", loss_scale_manager=amp.LossScaleManager())
    assert type(plain) is nn.TrainOneStepCell and plain.sens == 1.0
    assert type(built("O3", loss_scale_manager=False)[1]) is nn.TrainOneStepCell


NETWORK = nn.Dense(6, 2)
OPTIMIZER = nn.SGD(NETWORK.trainable_params(), 0.1)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((NETWORK, "sgd"), {}, GraphTypeError, "The argument 'optimizer' must be an Optimizer, but got 'sgd'"),
        (("net", OPTIMIZER), {}, GraphTypeError, "The argument 'network' must be a Cell"),
        ((NETWORK, OPTIMIZER, "mse"), {}, GraphTypeError, "The argument 'loss_fn' must be a Cell or"),
        ((NETWORK, OPTIMIZER, None, 2), {}, GraphTypeError,
         r"The argument `level` must be a string in \['O0','O1','O2','O3','auto'\],but got type <class 'int'>."),
        ((NETWORK, OPTIMIZER, None, "O4"), {}, GraphValueError, r"The 'level' should be in : \['O0', "),
        ((NETWORK, OPTIMIZER, None, "O0", "O1"), {}, GraphValueError, "boost_level='O1'.; leave them at 'O0'"),
        ((NETWORK, OPTIMIZER), {"foo": 1}, GraphValueError, "Unsupported arg 'foo'"),
        ((NETWORK, OPTIMIZER), {"cast_model_type": "f64"}, GraphTypeError, "'cast_model_type' must be one of"),
        ((NETWORK, OPTIMIZER), {"cast_model_type": None}, GraphTypeError, "'cast_model_type' must be one of"),
        ((NETWORK, OPTIMIZER), {"keep_batchnorm_fp32": 1}, GraphTypeError, "'keep_batchnorm_fp32' must be bool"),
        ((NETWORK, OPTIMIZER), {"loss_scale_manager": 128}, GraphTypeError, "must be a LossScaleManager, but got 128"),
    ],
)  # fmt: skip
def test_wrong_arguments(arguments: Any, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        amp.build_train_network(*arguments, **options)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_build.py")
