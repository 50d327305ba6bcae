"""Training steps in detail: arguments, messages, what comes back, and what an overflowing step leaves alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops

BACKENDS = ["numpy", "onnxruntime"]
F32 = np.float32
X, Y = np.ones((2, 4), F32), np.zeros((2, 3), F32)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 3, weight_init="ones", bias_init="zeros")

    def construct(self, x: Any) -> Any:
        return self.fc(x)


def parts(reduction: str = "mean") -> tuple[Any, Any, Any]:
    net = Net()
    return net, nn.WithLossCell(net, nn.MSELoss(reduction)), nn.Momentum(net.trainable_params(), 0.1, 0.9)


def test_what_a_step_is_made_of() -> None:
    net, loss, optimizer = parts()
    step = nn.TrainOneStepCell(loss, optimizer)
    assert step.weights is optimizer.parameters
    assert [p.name for p in step.get_parameters()] == [
        "fc.weight", "fc.bias", "global_step", "learning_rate", "momentum", "moments.fc.weight", "moments.fc.bias",
    ]  # fmt: skip
    assert loss.requires_grad and not net.requires_grad
    assert not step.training and (step.sense_flag, step.sens, step.reducer_flag) == (False, 1.0, False)
    assert isinstance(step.grad, ops.GradOperation) and step.grad.sens_param and not step.grad_no_sens.sens_param


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_leaves_the_mode_of_the_network_as_it_is(backend: str) -> None:
    net = nn.BatchNorm1d(4)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
    run = graphls.compile(step, X, np.zeros_like(X), backend=backend)
    run(X, np.zeros_like(X))
    assert net.moving_mean.asnumpy().tolist() == [0] * 4
    assert step.set_train() is step and net.training
    graphls.compile(step, X, np.zeros_like(X), backend=backend)(X, np.zeros_like(X))
    np.testing.assert_allclose(net.moving_mean.asnumpy(), 0.1, rtol=1e-6)


@pytest.mark.parametrize("sens", [8, 8.0, np.float32(8), graphls.Tensor(8.0), graphls.Tensor([8], graphls.int32)])
def test_a_sens_is_a_number_or_a_tensor_of_one(sens: Any) -> None:
    net, loss, optimizer = parts()
    graphls.compile(nn.TrainOneStepCell(loss, optimizer, sens), X, Y, backend="numpy")(X, Y)
    np.testing.assert_allclose(net.fc.weight.asnumpy(), 1 - 0.1 * 8 * 8 / 3, rtol=1e-6)


@pytest.mark.parametrize(
    ("sens", "error", "text"),
    [
        (0, ValueError, r"The input argument of 'sens' can not be 0\. \(\S*test_train_step_details\.py:\d+\)"),
        (0.0, ValueError, "The input argument of 'sens' can not be 0"),
        (graphls.Tensor(0.0), ValueError, "The input argument of 'sens' can not be 0"),
        ("8", TypeError, "The 'sens' of a training step is a number, not '8'"),
        ([8.0], TypeError, r"is a number, not \[8\.0\]"),
        (graphls.Tensor([1.0, 2.0]), ValueError, r"is one number, not f32\[2\]"),
    ],
)
def test_a_sens_that_does_not_fit(sens: Any, error: Any, text: str) -> None:
    _, loss, optimizer = parts()
    with pytest.raises(error, match=text) as caught:
        nn.TrainOneStepCell(loss, optimizer, sens)
    assert isinstance(caught.value, graphls.GraphlsError)


def stepped(kind: str, loss: Any, optimizer: Any) -> Any:
    return {
        "plain": lambda: nn.TrainOneStepCell(loss, optimizer),
        "sens": lambda: nn.TrainOneStepCell(loss, optimizer, 4.0),
        "scaled": lambda: nn.TrainOneStepWithLossScaleCell(loss, optimizer, graphls.Tensor(16.0)),
        "formers": lambda: nn.MFTrainOneStepCell(loss, optimizer, scale_sense=16.0),
    }[kind]()


KINDS = [("plain", 1), ("sens", 4), ("scaled", 1), ("formers", 1)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "factor"), KINDS)
def test_a_vector_loss_is_summed_for_its_gradient(kind: str, factor: int, backend: str) -> None:
    net, loss, optimizer = parts("none")
    result = graphls.compile(stepped(kind, loss, optimizer), X, Y, backend=backend)(X, Y)
    value = result if kind in ("plain", "sens") else result[0]
    assert value.asnumpy().tolist() == [[16.0] * 3] * 2
    np.testing.assert_allclose(net.fc.weight.asnumpy(), 1 - 0.1 * factor * 16, rtol=1e-6)


class Several(nn.Cell):
    """A network with several results, floats among them."""

    def __init__(self, net: Any) -> None:
        super().__init__(auto_prefix=False)
        self.net = net

    def construct(self, x: Any, y: Any) -> Any:
        outputs = self.net(x)
        return ops.mean(ops.square(outputs - y)), {"sums": ops.sum(outputs, 1)}, ops.argmax(outputs, 1), None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "factor"), KINDS)
def test_several_outputs_come_back_and_their_sum_is_differentiated(kind: str, factor: int, backend: str) -> None:
    net, _, optimizer = parts()
    result = graphls.compile(stepped(kind, Several(net), optimizer), X, Y, backend=backend)(X, Y)
    mean, sums, largest, nothing = result if kind in ("plain", "sens") else result[0]
    assert (float(mean), sums["sums"].tolist(), largest.tolist(), nothing) == (16, [12, 12], [0, 0], None)
    np.testing.assert_allclose(net.fc.weight.asnumpy(), 1 - 0.1 * factor * (8 / 3 + 2), rtol=1e-6)


def test_return_grad_names_gradients_in_the_order_of_the_optimizer() -> None:
    net = Net()
    optimizer = nn.SGD(net.trainable_params()[::-1], 0.1)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, sens=2.0, return_grad=True)
    loss, gradients = graphls.compile(step, X, Y, backend="numpy")(X, Y)
    assert float(loss) == 16 and list(gradients) == ["fc.bias", "fc.weight"]
    np.testing.assert_allclose(gradients["fc.bias"].asnumpy(), 2 * 8 / 3, rtol=1e-6)


@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
def test_there_is_one_forward(kind: str) -> None:
    _, loss, optimizer = parts()
    graph = graphls.compile(stepped(kind, loss, optimizer), X, Y, backend="numpy").graph
    assert sum(n.primitive.name == "matmul" and n.phase == "forward" for n in graph.nodes) == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [graphls.float16, graphls.int32, graphls.int64, graphls.float32])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_tensor_scale_keeps_its_dtype_and_shape(shape: Any, dtype: Any, backend: str) -> None:
    net, loss, optimizer = parts()
    given = graphls.Tensor(np.full(shape, 16), dtype)
    step = nn.TrainOneStepWithLossScaleCell(loss, optimizer, given)
    assert step.loss_scaling_manager is None
    value, overflow, scale = graphls.compile(step, X, Y, backend=backend)(X, Y)
    assert (value.shape, overflow.shape, scale.shape) == ((), (), shape)
    assert (value.dtype, overflow.dtype, scale.dtype) == (graphls.float32, graphls.bool_, dtype)
    assert scale.tolist() == given.tolist()
    np.testing.assert_allclose(net.fc.weight.asnumpy(), 0.7333333, rtol=1e-6)


def test_the_scale_of_a_step_is_its_own() -> None:
    _, loss, optimizer = parts()
    given = graphls.Parameter(F32(4), name="mine")
    step = nn.TrainOneStepWithLossScaleCell(loss, optimizer, given)
    step.set_sense_scale(graphls.Tensor(8.0))
    assert (float(given), given.name, float(step.scale_sense), step.scale_sense.name) == (4, "mine", 8, "scale_sense")


WHERE = r" \(\S*test_train_step_details\.py:\d+\)$"


def test_messages_about_the_scale() -> None:
    _, loss, optimizer = parts()
    prefix = "For 'TrainOneStepWithLossScaleCell', the "
    for scale, error, text in (
        (1.0, TypeError, "'scale_sense' must be Cell or Tensor, but got 'scale_sense' type: <class 'float'>\\."),
        (None, TypeError, "'scale_sense' must be Cell or Tensor, but got 'scale_sense' type: <class 'NoneType'>\\."),
        (graphls.Tensor([1.0, 2.0]), ValueError, r"shape of 'scale_sense' must be \(1,\) or \(\), but got \(2,\)\."),
    ):
        with pytest.raises(error, match=prefix + text + WHERE):
            nn.TrainOneStepWithLossScaleCell(loss, optimizer, scale)
    step = nn.TrainOneStepWithLossScaleCell(loss, optimizer, graphls.Tensor(4.0))
    with pytest.raises(TypeError, match=prefix + r"type of 'sens' must be Tensor, but got <class 'float'>\." + WHERE):
        step.set_sense_scale(8.0)
    with pytest.raises(TypeError, match=r"The scale is Float32, so 'sens' cannot be Int64\." + WHERE):
        step.set_sense_scale(graphls.Tensor(8))
    with pytest.raises(ValueError, match=r"The scale has the shape \(\), so 'sens' cannot have \(1,\)\." + WHERE):
        step.set_sense_scale(graphls.Tensor([8.0]))
    assert float(step.scale_sense) == 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_scale_of_a_manager_can_be_set_too(backend: str) -> None:
    _, loss, optimizer = parts()
    step = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(16, 2, 2))
    run = graphls.compile(step, X, Y, backend=backend)
    run(X, Y)
    step.set_sense_scale(graphls.Tensor(100.0))
    assert float(run(X, Y)[2]) == 200


class Normalised(nn.Cell):
    """Batch normalisation in front of a loss that can be made infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm1d(4)

    def construct(self, x: Any, factor: Any) -> Any:
        return ops.sum(ops.square(self.bn(x) - 1.0)) * factor


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [nn.TrainOneStepWithLossScaleCell, nn.MFTrainOneStepCell])
def test_what_an_overflow_leaves_and_what_it_does_not(kind: Any, backend: str) -> None:
    net = Normalised()
    optimizer = nn.Adam(net.trainable_params(), [0.1, 0.2, 0.3])
    cell = kind(net, optimizer, scale_sense=nn.DynamicLossScaleUpdateCell(16, 2, 5)).set_train()
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(F32)
    run = graphls.compile(cell, x, F32(1), backend=backend)
    run(x, F32(1))
    kept = {p.name: p.asnumpy() for p in cell.get_parameters()}
    result = run(x, F32(np.inf))
    assert (float(result[0]), bool(result[1]), float(result[2])) == (np.inf, True, 8)
    changed = {p.name for p in cell.get_parameters() if p.asnumpy().tobytes() != kept[p.name].tobytes()}
    assert changed == {
        "bn.moving_mean", "bn.moving_variance", "scale_sense", "current_iterator_step", "last_overflow_iterator_step",
    }  # fmt: skip
    assert optimizer.global_step.asnumpy().tolist() == [1] and float(optimizer.get_lr()) == F32(0.2)


class Recording(nn.TrainOneStepWithLossScaleCell):
    """Writes down which of the four methods the step calls, and on what."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.__dict__["seen"] = []

    def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
        self.seen.append(("start", pre_cond.shape, compute_input.shape))
        return super().start_overflow_check(pre_cond, compute_input)

    def get_overflow_status(self, status: Any, compute_output: Any) -> Any:
        self.seen.append(("get", [g.shape for g in compute_output], [g.dtype for g in compute_output]))
        return super().get_overflow_status(status, compute_output)

    def process_loss_scale(self, overflow: Any) -> Any:
        self.seen.append(("process", overflow.shape, overflow.dtype))
        return ops.logical_or(super().process_loss_scale(overflow), True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_subclass_overrides_the_four_methods(backend: str) -> None:
    net, loss, optimizer = parts()
    cell = Recording(loss, optimizer, nn.FixedLossScaleUpdateCell(4))
    _, overflow, _ = graphls.compile(cell, X, Y, backend=backend)(X, Y)
    assert not bool(overflow), "the second output is what the check found"
    assert net.fc.weight.asnumpy().tolist() == np.ones((3, 4)).tolist(), "the update follows process_loss_scale"
    assert cell.seen[:3] == [
        ("start", (), ()),
        ("get", [(3, 4), (3,)], [graphls.float32] * 2),
        ("process", (), graphls.bool_),
    ]


def test_the_four_methods_outside_of_a_step() -> None:
    _, loss, optimizer = parts()
    step = nn.TrainOneStepWithLossScaleCell(loss, optimizer, graphls.Tensor(4.0))
    status, given = step.start_overflow_check(graphls.Tensor(1.0), step.scale_sense)
    assert (status.shape, status.dtype, given) == ((8,), graphls.int32, step.scale_sense)
    for value, found in ((np.ones(3, F32), False), (np.array([1, np.nan], F32), True), (np.ones(3, np.int32), False)):
        overflow = step.get_overflow_status(status, (graphls.Tensor(value), graphls.Tensor(1.0)))
        assert (bool(overflow), overflow.shape, overflow.dtype) == (found, (), graphls.bool_)
        assert step.process_loss_scale(overflow) is overflow


@pytest.mark.parametrize("backend", BACKENDS)
def test_float64_gradients_stay_float64(backend: str) -> None:
    weight = graphls.Parameter(np.array([1.0, 1e-9]), name="weight")

    class Product(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def construct(self, x: Any) -> Any:
            return ops.sum(self.weight * x)

    step = nn.TrainOneStepWithLossScaleCell(Product(), nn.SGD([weight], 0.5), graphls.Tensor(4.0))
    x = np.array([1 / 3, 1e-300])
    graphls.compile(step, x, backend=backend)(x)
    np.testing.assert_allclose(weight.asnumpy(), [1 - 0.5 / 3, 1e-9], rtol=1e-15)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [nn.TrainOneStepWithLossScaleCell, nn.MFTrainOneStepCell])
def test_to_float_is_for_the_network(kind: Any, backend: str) -> None:
    """In float16 a scale of 2^20 would be infinite."""
    _, loss, optimizer = parts()
    cell = kind(loss, optimizer, scale_sense=nn.DynamicLossScaleUpdateCell(2.0**20, 2, 100))
    assert cell.to_float(graphls.float16) is cell
    run = graphls.compile(cell, X, Y, backend=backend)
    found = [run(X * F32(0.01), Y)[:3] for _ in range(9)]
    assert {tuple(item.dtype for item in row) for row in found} == {(graphls.float16, graphls.bool_, graphls.float32)}
    assert bool(found[0][1]) and not bool(found[-1][1]) and 2 < float(found[-1][2]) < 2**20
    with pytest.raises(ValueError, match="to_float takes float16, bfloat16 or float32"):
        cell.to_float(graphls.float64)


def test_a_list_of_rates_that_ends_warns_once_and_reads_the_counter_rarely(monkeypatch: Any) -> None:
    _, loss, optimizer = parts()
    optimizer = nn.Momentum(optimizer.parameters, [0.1, 0.05, 0.02], 0.9)
    step = nn.TrainOneStepWithLossScaleCell(loss, optimizer, graphls.Tensor(4.0))
    reads: list[str] = []
    item = graphls.Parameter.item
    monkeypatch.setattr(graphls.Parameter, "item", lambda p: reads.append(p.name) or item(p))
    x, y = graphls.Tensor(X), graphls.Tensor(Y)
    step(x, y)
    step(graphls.Tensor(np.full_like(X, np.inf)), y)
    step(x, y)
    assert reads.count("global_step") == 1
    step(x, y)
    with pytest.warns(UserWarning, match="The list of 3 learning rates is shorter than the run") as caught:
        step(x, y)
    assert caught[0].filename == __file__ and reads.count("global_step") == 3
    step(x, y)
    assert reads.count("global_step") == 3 and optimizer.global_step.asnumpy().tolist() == [5]
