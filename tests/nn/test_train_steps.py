"""Training steps: MindSpore's reference sequences, skipping, and steps that users write themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.errors import GraphTypeError

BACKENDS = ["numpy", "onnxruntime"]
MODES = ["outputs", "window"]
F32 = np.float32
X, Y = np.ones((2, 4), F32), np.zeros((2, 3), F32)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.ones((4, 3), F32), name="weight")

    def construct(self, x: Any) -> Any:
        return ops.matmul(x, self.weight)


def parts(manager: Any = None, step_class: Any = nn.TrainOneStepWithLossScaleCell) -> tuple[Any, Any, Any]:
    net = Net()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    manager = manager if manager is not None else nn.DynamicLossScaleUpdateCell(16, 2, 3)
    return net, optimizer, step_class(nn.WithLossCell(net, nn.MSELoss()), optimizer, manager)


SEQUENCE_A = [16, 8.604445, 1.418746, 0.482356, 4.868114, 8.872580, 8.291219, 4.089612]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_reference_sequence_a(backend: str, mode: str) -> None:
    _, optimizer, cell = parts()
    step = graphls.compile(cell, X, Y, backend=backend, overflow_mode=mode)
    results = [step(X, Y) for _ in range(8)]
    np.testing.assert_allclose([float(r[0]) for r in results], SEQUENCE_A, rtol=1e-5)
    assert not any(bool(r[1]) for r in results)
    assert [float(r[2]) for r in results] == [16, 16, 32, 32, 32, 64, 64, 64]
    assert optimizer.global_step.asnumpy().tolist() == [8]
    assert int(cell.loss_scaling_manager.current_iterator_step) == 9
    assert int(cell.loss_scaling_manager.last_overflow_iterator_step) == 6
    assert [r.shape for r in results[0]] == [(), (), ()]
    assert [r.dtype for r in results[0]] == [graphls.float32, graphls.bool_, graphls.float32]


SEQUENCE_B = [
    (16, False, 16, 1, 0.7333333),
    (np.inf, True, 8, 1, 0.7333333),
    (8.604445, False, 8, 2, 0.2977778),
    (1.418746, False, 8, 3, -0.1736296),
    (0.482356, False, 16, 4, -0.5515951),
    (4.868114, False, 16, 5, -0.7446720),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_reference_sequence_b(backend: str, mode: str) -> None:
    net, optimizer, cell = parts()
    step = graphls.compile(cell, X, Y, backend=backend, overflow_mode=mode)
    for number, expected in enumerate(SEQUENCE_B):
        x = np.full_like(X, np.inf) if number == 1 else X
        loss, overflow, scale = step(x, Y)
        weight = net.weight.asnumpy()[0, 0]
        found = (float(loss), bool(overflow), float(scale), int(optimizer.global_step.asnumpy()[0]), float(weight))
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_states_of_the_step_have_mindspores_names() -> None:
    _, _, cell = parts()
    assert [p.name for p in cell.get_parameters()] == [
        "weight",
        "scale_sense",
        "global_step",
        "learning_rate",
        "momentum",
        "moments.weight",
        "current_iterator_step",
        "last_overflow_iterator_step",
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plain_step_with_sens(backend: str) -> None:
    for sens, weight in ((None, 0.7333333), (8.0, -1.1333334)):
        net = Net()
        optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
        cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, sens)
        loss = graphls.compile(cell, X, Y, backend=backend)(X, Y)
        assert float(loss) == 16
        np.testing.assert_allclose(net.weight.asnumpy(), np.full((4, 3), weight), rtol=1e-6)


def test_return_grad_gives_gradients_by_name() -> None:
    net = Net()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, return_grad=True)
    _, gradients = graphls.compile(cell, X, Y, backend="numpy")(X, Y)
    np.testing.assert_allclose(gradients["weight"].asnumpy(), np.full((4, 3), 8 / 3), rtol=1e-6)


class HalfNet(nn.Cell):
    """A product that overflows float16 in the backward for a large scale, and never float32."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.fc1 = nn.Dense(4, 8, weight_init="ones")
        self.fc2 = nn.Dense(8, 3, weight_init="ones")
        self.to_float(dtype)

    def construct(self, x: Any) -> Any:
        return ops.cast(self.fc2(self.fc1(x)), graphls.float32)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["Momentum", "Adam", "SGD"])
def test_an_overflowing_float16_step_changes_nothing(backend: str, mode: str, kind: str) -> None:
    for dtype in (graphls.float16, graphls.float32):
        net = HalfNet(dtype)
        options = {"momentum": 0.9} if kind != "Adam" else {}
        optimizer = getattr(nn, kind)(net.trainable_params(), learning_rate=0.1, **options)
        loss = nn.WithLossCell(net, nn.MSELoss())
        cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2.0**20, 2, 100))
        step = graphls.compile(cell, X, Y, backend=backend, overflow_mode=mode)
        kept = {p.name: p.asnumpy() for p in (*net.get_parameters(), *optimizer.get_parameters())}
        _, overflow, scale = step(X, Y)
        changed = [p.name for p in (*net.get_parameters(), *optimizer.get_parameters()) if
                   p.asnumpy().tobytes() != kept[p.name].tobytes()]  # fmt: skip
        if dtype is graphls.float16:
            assert bool(overflow) and float(scale) == 2.0**19 and changed == []
        else:
            assert not bool(overflow) and float(scale) == 2.0**20 and "fc1.weight" in changed


class Written(nn.TrainOneStepWithLossScaleCell):
    """The step as users write it, from the four methods."""

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        sens = ops.ones_like(loss) * ops.cast(scale, loss.dtype)
        grads = self.grad(self.network, self.weights)(*inputs, sens)
        grads = tuple(g * ops.reciprocal(scale) for g in grads)
        grads = self.grad_reducer(grads)
        overflow = self.process_loss_scale(self.get_overflow_status(status, grads))
        if not overflow:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, overflow, scale


class WithoutStart(Written):
    """The same without a start, as MindSpore 2.1 and later write it: the compiler places the window."""

    def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
        return graphls.Tensor([0] * 8, graphls.int32), compute_input


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("step_class", [Written, WithoutStart])
def test_a_step_written_by_the_user(backend: str, step_class: Any) -> None:
    _, _, cell = parts(step_class=step_class)
    step = graphls.compile(cell, X, Y, backend=backend)
    results = [step(X, Y) for _ in range(8)]
    np.testing.assert_allclose([float(r[0]) for r in results], SEQUENCE_A, rtol=1e-5)
    assert [float(r[2]) for r in results] == [16, 16, 32, 32, 32, 64, 64, 64]
    assert sum(n.primitive.name == "overflow_start" for n in step.graph.nodes) == 1


def test_every_weight_is_updated_in_place_under_loss_scaling() -> None:
    net = HalfNet(graphls.float16)
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(
        nn.WithLossCell(net, nn.MSELoss()), optimizer, nn.DynamicLossScaleUpdateCell(16, 2, 3)
    )
    step = graphls.compile(cell, X, Y, backend="numpy")
    large = {w.state.name: w.in_place for w in step.graph.writes if w.state.type.size > 1}
    assert large and all(large.values()), large


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tensor_scale_is_set_from_outside(backend: str) -> None:
    for scale in (graphls.Tensor(64.0), graphls.Tensor([64.0]), graphls.Tensor(64.0, graphls.float16)):
        _, _, cell = parts(manager=scale)
        step = graphls.compile(cell, X, Y, backend=backend)
        _, overflow, returned = step(X, Y)
        assert not bool(overflow)
        assert (returned.shape, returned.dtype, float(returned)) == (scale.shape, scale.dtype, 64)
        cell.set_sense_scale(graphls.Tensor(np.full(scale.shape, 128), scale.dtype))
        assert float(step(X, Y)[2]) == 128
        assert cell.scale_sense.shape == scale.shape


def test_wrong_scales() -> None:
    with pytest.raises(TypeError, match="'scale_sense' must be Cell or Tensor"):
        parts(manager=1.0)
    with pytest.raises(ValueError, match=r"must be \(1,\) or \(\), but got \(2,\)"):
        parts(manager=graphls.Tensor([1.0, 2.0]))
    _, _, cell = parts(manager=graphls.Tensor(0.0))
    cell.set_sense_scale(graphls.Tensor(2.0))
    with pytest.raises(TypeError):
        cell.set_sense_scale(3.0)
    with pytest.raises(TypeError):
        cell.set_sense_scale(graphls.Tensor(3))
    with pytest.raises(ValueError, match="shape"):
        cell.set_sense_scale(graphls.Tensor([3.0]))


def test_a_zero_sens_is_refused() -> None:
    net = Net()
    with pytest.raises(ValueError, match="The input argument of 'sens' can not be 0"):
        nn.TrainOneStepCell(net, nn.Momentum(net.trainable_params(), 0.1, 0.9), 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fixed_scale_skips_and_stays(backend: str) -> None:
    net, _, cell = parts(manager=nn.FixedLossScaleUpdateCell(32))
    step = graphls.compile(cell, X, Y, backend=backend)
    assert [float(step(np.full_like(X, np.inf), Y)[2]), float(step(X, Y)[2])] == [32, 32]
    np.testing.assert_allclose(net.weight.asnumpy()[0, 0], 0.7333333, rtol=1e-6)


class Noisy(nn.Cell):
    """Batch normalisation and dropout, whose state and mask must be one per step."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(2)
        self.drop = nn.Dropout(p=0.5)
        self.scale = graphls.Parameter(np.ones((), F32), name="scale")

    def construct(self, x: Any) -> Any:
        return ops.sum(self.drop(self.bn(x) * 0 + 1) * self.scale)


@pytest.mark.parametrize("backend", BACKENDS)
def test_moving_averages_move_once_and_one_mask_serves_loss_and_gradient(backend: str) -> None:
    graphls.set_seed(5)
    x = np.random.default_rng(0).normal(3, 2, (8, 2, 3, 3)).astype(F32)
    net = Noisy()
    optimizer = nn.SGD([net.scale], learning_rate=1.0)
    cell = nn.TrainOneStepWithLossScaleCell(net, optimizer, nn.FixedLossScaleUpdateCell(4)).set_train()
    step = graphls.compile(cell, x, backend=backend)
    losses = []
    for count in (1, 2):
        before = float(net.scale)
        loss = float(step(x)[0])
        kept = loss / before
        np.testing.assert_allclose(float(net.scale), before - kept, rtol=1e-4, err_msg="the gradient is the kept sum")
        mean = x.mean((0, 2, 3)) * (1 - 0.9**count)
        np.testing.assert_allclose(net.bn.moving_mean.asnumpy(), mean, rtol=1e-4)
        losses.append(kept)
    assert losses[0] != losses[1], "each step draws its own mask"
    graphls.set_seed(5)
    net.scale.set_data(1.0)
    assert float(step(x)[0]) == losses[0], "the same seed gives the same mask"


def test_both_backends_draw_the_same_numbers() -> None:
    x = np.ones((4, 2, 2, 2), F32)
    found = []
    for backend in BACKENDS:
        graphls.set_seed(11)
        net = Noisy()
        cell = nn.TrainOneStepCell(net, nn.SGD([net.scale], learning_rate=1.0)).set_train()
        step = graphls.compile(cell, x, backend=backend)
        found.append([float(step(x)) for _ in range(3)])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("labels", "message"),
    [([0, 5], r"The label 5 is not in range\(3\)"), ([-1, 0], r"The label -1 is not in range\(3\)")],
)
def test_a_label_out_of_range_changes_nothing(backend: str, labels: list[int], message: str) -> None:
    net = nn.Dense(4, 3)
    loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(16, 2, 3))
    good = np.array([0, 2], np.int32)
    step = graphls.compile(cell, X, good, backend=backend)
    step(X, good)
    kept = {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}
    with pytest.raises(ValueError, match=message) as caught:
        step(X, np.array(labels, np.int32))
    assert isinstance(caught.value, graphls.GraphlsError)
    assert kept == {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}
    assert not bool(step(X, good)[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_labels_change_nothing(backend: str) -> None:
    _, _, cell = parts()
    step = graphls.compile(cell, X, Y, backend=backend)
    kept = {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}
    with pytest.raises(graphls.GraphlsError, match="1 labels are nan or infinite"):
        step(X, np.array([[0, np.nan, 0], [0, 0, 0]], F32))
    assert kept == {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ((X,), TypeError, "got 1 arguments"),
        ((X, Y, Y), TypeError, "got 3 arguments"),
        ((X, Y[:1]), ValueError, r"'inputs_1' of this step is f32\[2,3\], not f32\[1,3\]"),
        ((X.astype(np.float64), Y), TypeError, r"astype\('float32'\)"),
        ((X, None), graphls.GraphlsError, "is a tensor, f32"),
    ],
)
def test_wrong_inputs_of_a_step(inputs: Any, error: Any, message: str) -> None:
    _, _, cell = parts()
    step = graphls.compile(cell, X, Y, backend="numpy")
    with pytest.raises(error, match=message) as caught:
        step(*inputs)
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_train_steps.py")


class Hidden(nn.Cell):
    """A branch in whose backward an infinity is made, in float16, that no gradient shows."""

    def __init__(self, dtype: Any = graphls.float16) -> None:
        super().__init__()
        self.dtype = dtype
        self.weight = graphls.Parameter(np.ones(3, F32), name="weight")

    def construct(self, x: Any) -> Any:
        y = ops.cast(self.weight * x, self.dtype)
        if ops.sum(x) > 0:
            return ops.cast(ops.sum(ops.minimum(y * 60000.0, 100.0)) + ops.sum(y), graphls.float32)
        return ops.cast(ops.sum(y), graphls.float32)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("mode", "skips"), [("outputs", False), ("window", True)])
@pytest.mark.parametrize("passes", [None, "gradient, overflow, fold, dce, order"])
def test_a_window_sees_what_branches_make(backend: str, mode: str, skips: bool, passes: Any) -> None:
    net = Hidden()
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    cell = nn.TrainOneStepWithLossScaleCell(net, optimizer, nn.FixedLossScaleUpdateCell(4.0))
    x = np.ones(3, F32)
    step = graphls.compile(cell, x, backend=backend, overflow_mode=mode, passes=passes)
    assert not bool(step(-x)[1])
    assert bool(step(x * F32(10))[1]) is skips


@pytest.mark.parametrize("dtype", [graphls.float32, graphls.bfloat16])
def test_a_window_watches_nothing_where_nothing_overflows_before_float32(dtype: Any) -> None:
    graphs = []
    for mode in MODES:
        net = Hidden(dtype)
        optimizer = nn.SGD(net.trainable_params(), 0.1)
        cell = nn.TrainOneStepWithLossScaleCell(net, optimizer, nn.FixedLossScaleUpdateCell(4.0))
        graphs.append(graphls.compile(cell, np.ones(3, F32), backend="numpy", overflow_mode=mode).graph)
    assert str(graphs[0]) == str(graphs[1])


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_a_sensitivity_of_one_element_fits_a_scalar_loss(backend: str) -> None:
    class Step(nn.TrainOneStepWithLossScaleCell):
        def construct(self, *inputs: Any) -> Any:
            loss = self.network(*inputs)
            status, scale = self.start_overflow_check(loss, self.scale_sense)
            grads = self.grad(self.network, self.weights)(*inputs, ops.ones_like(loss) * scale)
            return loss, self.get_overflow_status(status, grads), grads[0]

    net = nn.WithLossCell(nn.Dense(4, 1, weight_init="ones", has_bias=False), nn.MSELoss())
    cell = Step(net, nn.SGD(net.trainable_params(), 0.1), graphls.Tensor([8.0]))
    x, y = np.ones((2, 4), np.float32), np.zeros((2, 1), np.float32)
    loss, _, gradient = graphls.compile(cell, x, y, backend=backend)(x, y)
    assert float(loss) == 16.0 and gradient.tolist() == [[64.0] * 4]


def test_a_training_step_takes_cells() -> None:
    net = nn.Dense(1, 1)
    with pytest.raises(GraphTypeError, match=r"takes cells, not 1.*test_train_steps\.py"):
        nn.TrainOneStepCell(1, nn.SGD(net.trainable_params(), 0.1))
    with pytest.raises(GraphTypeError, match=r"takes cells, not 'a'.*test_train_steps\.py"):
        nn.TrainOneStepCell(net, "a")
