"""Eager mode: cells run as plain Python on numbers, and give what they give as graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Parameter, Tensor, amp, nn, ops
from graphls.context import GRAPH_MODE, PYNATIVE_MODE, set_context
from graphls.frontend.tensors import executor, pytree
from graphls.runtime.devices import Cuda
from graphls.step.calling.cache import CompileCache

pytestmark = pytest.mark.usefixtures("eager")


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


def values(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(0).standard_normal(shape, np.float32))


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What has been compiled, in order."""
    made: list[Any] = []
    compile = gl.api.compile

    def counting(function: Any, *inputs: Any, **options: Any) -> Any:
        made.append(function)
        return compile(function, *inputs, **options)

    monkeypatch.setattr(gl.api, "compile", counting)
    return made


class Inspecting(nn.Cell):
    """Does in `construct` what only numbers allow."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(3, 2, weight_init="ones", bias_init="zeros")
        self.calls = Parameter(Tensor(0.0), name="calls", requires_grad=False)
        self.seen: list[Any] = []

    def construct(self, x: Tensor) -> Tensor:
        y = self.dense(x)
        self.seen += [float(y.sum()), y.asnumpy().shape, str(x)]
        while self.calls < 3:
            self.calls = self.calls + 1
        ops.assign_add(self.calls, 1)
        self.seen.append(float(self.calls))
        return y * 2 if y.sum() > 5 else y


def test_construct_runs_on_numbers(compilations: list[Any]) -> None:
    net = Inspecting()
    np.testing.assert_array_equal(net(ones(2, 3)).asnumpy(), np.full((2, 2), 6.0))
    np.testing.assert_array_equal(net(ones(1, 3) * 0.5).asnumpy(), np.full((1, 2), 1.5))
    assert net.seen == [12.0, (2, 2), str(np.ones((2, 3), np.float32)), 4.0, 3.0, (1, 2), "[[0.5 0.5 0.5]]", 5.0]
    assert compilations == []


def test_arrays_become_tensors_and_lists_stay_the_same_objects() -> None:
    class Collecting(nn.Cell):
        def construct(self, x: Any, into: list[Any]) -> Any:
            into.append(type(x))
            return x

    found: list[Any] = []
    net = Collecting()
    assert isinstance(net(np.ones(2, np.float32), []), Tensor)
    net(ones(2), found)
    assert found == [Tensor]


def test_assigning_numbers_to_a_parameter_outside_of_construct_is_refused() -> None:
    net = Inspecting()
    with pytest.raises(TypeError, match="Parameter 'calls' already exists in network"):
        net.calls = 3  # type: ignore[assignment]
    net(ones(2, 3))
    with pytest.raises(TypeError, match="Parameter 'calls' already exists in network"):
        net.calls = 3  # type: ignore[assignment]


def test_assigning_a_tensor_to_a_parameter_outside_of_construct_is_its_new_data() -> None:
    dense = nn.Dense(3, 2, has_bias=False)
    weight = dense.weight
    dense.weight = ones(2, 3)  # type: ignore[assignment]
    assert dense.weight is weight and dense(ones(1, 3)).tolist() == [[3.0, 3.0]]
    with pytest.raises(ValueError, match="cannot take the shape"):
        dense.weight = ones(2, 4)  # type: ignore[assignment]


def test_new_data_of_another_shape() -> None:
    dense = nn.Dense(3, 2, has_bias=False)
    dense(ones(1, 3))
    with pytest.raises(ValueError, match="cannot take the shape"):
        dense.weight.set_data(ones(2, 4))
    assert dense.weight.set_data(ones(1, 4), slice_shape=True).shape == (1, 4)
    assert dense(ones(2, 4)).tolist() == [[4.0], [4.0]]


def test_classes_that_derive_call_the_operators_of_a_cell() -> None:
    class Standardised(nn.Conv2d):
        def construct(self, x: Any) -> Any:
            return self.bias_add(self.conv2d(x, self.weight * 2.0), self.bias)

    class Normalised(nn.LayerNorm):
        def construct(self, x: Any) -> Any:
            return self.layer_norm(x, self.gamma, self.beta)[0]

    x = Tensor(np.random.default_rng(0).normal(size=(2, 3, 6, 6)).astype(np.float32))
    options: Any = {"stride": 2, "pad_mode": "pad", "padding": 1, "dilation": 2, "has_bias": True, "bias_init": "ones"}
    own, plain = Standardised(3, 4, 3, **options), nn.Conv2d(3, 4, 3, **options)
    plain.weight.set_data(own.weight * 2.0)
    np.testing.assert_array_equal(own(x).asnumpy(), plain(x).asnumpy())
    np.testing.assert_allclose(Normalised((6,))(x).asnumpy(), nn.LayerNorm((6,))(x).asnumpy(), atol=1e-6)


def test_an_error_in_construct_leaves_eager_mode_whole() -> None:
    class Failing(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Failing().to_float(gl.float16)(ones(2))
    assert (ones(2) * 2).dtype is gl.float32
    assert executor.running() is None


def half_net() -> nn.Cell:
    return nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 3)).to_float(gl.float16)


def mixed(level: str) -> Callable[[], nn.Cell]:
    def made() -> nn.Cell:
        net = nn.SequentialCell(nn.Dense(4, 8), nn.LayerNorm((8,)), nn.Dense(8, 3), nn.Softmax())
        return amp.auto_mixed_precision(net, level)  # type: ignore[no-any-return]

    return made


class Branching(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(4, 4)

    def construct(self, x: Tensor) -> Any:
        y = self.dense(x)
        z = y * 2 if y.sum() > 0 else -y
        return z, {"both": (y + z, [ops.exp(z)])}


class OwnGradient(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x * 3

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> Tensor:
        return dout * 5


NETWORKS: dict[str, Callable[[], nn.Cell]] = {
    "to_float": half_net,
    "O1": mixed("O1"),
    "O2": mixed("O2"),
    "O3": mixed("O3"),
    "auto": mixed("auto"),
    "branches": Branching,
    "bprop": OwnGradient,
    "recomputed": lambda: nn.Dense(4, 2).recompute(),
    "convolution": lambda: nn.SequentialCell(Reshape(), nn.Conv2d(1, 2, 3), nn.MaxPool2d(2, 2), nn.Flatten()),
}


class Reshape(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.reshape(x, (1, 1, 6, 4))


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_a_network_gives_what_its_graph_gives(make: Callable[[], nn.Cell]) -> None:
    net, x = make(), values(6, 4)
    eager = net(x)
    set_context(mode=GRAPH_MODE)
    compiled = net(x)
    assert pytree.structure(eager) == pytree.structure(compiled)
    for found, wanted in zip(pytree.leaves(eager), pytree.leaves(compiled), strict=True):
        assert found.type == wanted.type
        tolerance = 2e-3 if wanted.dtype.is_half else 1e-5
        np.testing.assert_allclose(
            found.asnumpy().astype(np.float64), wanted.asnumpy().astype(np.float64), tolerance, tolerance
        )


def test_moving_averages_follow_the_batches_in_training_only() -> None:
    x = values(8, 3)
    norm = nn.BatchNorm1d(3, momentum=0.9)
    norm.set_train()
    y = norm(x)
    mean = x.asnumpy().mean(0)
    np.testing.assert_allclose(norm.moving_mean.asnumpy(), 0.1 * mean, rtol=1e-5)
    np.testing.assert_allclose(y.asnumpy().mean(0), np.zeros(3), atol=1e-6)
    norm.set_train(False)
    norm(x)
    np.testing.assert_allclose(norm.moving_mean.asnumpy(), 0.1 * mean, rtol=1e-5)


def test_dropout_draws_anew_in_training_and_by_the_seed() -> None:
    drop = nn.Dropout(p=0.5)
    assert (drop(ones(1000)).asnumpy() == 1).all()
    drop.set_train()
    gl.set_seed(3)
    first, second = (drop(ones(1000)).asnumpy() for _ in range(2))
    gl.set_seed(3)
    np.testing.assert_array_equal(drop(ones(1000)).asnumpy(), first)
    assert set(np.unique(first)) == {0.0, 2.0}
    assert (first != second).any()


class Loss(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(3, 1, weight_init="ones", bias_init="zeros")

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.mean(ops.square(self.dense(x) - y))


def test_a_hand_written_loop_compiles_once(compilations: list[Any]) -> None:
    net = Loss()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    grad_fn = gl.value_and_grad(net, None, optimizer.parameters)
    rows, target = values(8, 3), values(8, 1)
    losses = []
    for _ in range(1000):
        loss, grads = grad_fn(rows, target)
        optimizer(grads)
        losses.append(float(loss))
    assert len(compilations) == 2
    assert int(optimizer.global_step.asnumpy()[0]) == 1000
    solution = np.linalg.lstsq(np.c_[rows.asnumpy(), np.ones(8)], target.asnumpy(), rcond=None)[1] / 8
    np.testing.assert_allclose(losses[-1], solution[0], rtol=1e-4)


def test_an_optimizer_that_is_called_updates_as_by_hand(compilations: list[Any]) -> None:
    weight = Parameter(Tensor([1.0, 2.0]), name="w")
    optimizer = nn.Momentum([weight], 0.1, 0.9)
    expected, moment = np.array([1.0, 2.0]), np.zeros(2)
    for i in range(3):
        gradient = np.array([1.0 + i, -2.0])
        moment = 0.9 * moment + gradient
        expected = expected - 0.1 * moment
        assert optimizer((Tensor(gradient, gl.float32),)) == (True,)
        np.testing.assert_allclose(weight.asnumpy(), expected, rtol=1e-5)
    assert compilations == [optimizer]


GRADIENTS: dict[str, Callable[[Loss], Callable[..., Any]]] = {
    "GradOperation": lambda net: gl.GradOperation(get_by_list=True)(net, gl.ParameterTuple(net.trainable_params())),
    "grad": lambda net: gl.grad(net, None, net.trainable_params()),
    "value_and_grad": lambda net: gl.value_and_grad(net, None, net.trainable_params()),
    "of a method": lambda net: gl.value_and_grad(net.construct, None, net.trainable_params()),
}


@pytest.mark.parametrize("make", GRADIENTS.values(), ids=GRADIENTS)
def test_a_gradient_function_that_is_made_in_every_step_compiles_once(
    make: Callable[[Loss], Callable[..., Any]], compilations: list[Any]
) -> None:
    net = Loss()
    found = [make(net)(ones(2, 3), ones(2, 1)) for _ in range(3)]
    assert len(compilations) == 1
    for results in found:
        np.testing.assert_allclose(pytree.leaves(results)[-2].asnumpy(), [[4.0, 4.0, 4.0]])


def test_gradient_functions_of_one_cell_that_differ_are_kept_apart() -> None:
    net = Loss()
    weight, bias = net.trainable_params()
    x, y = ones(2, 3), ones(2, 1)
    by_weight = gl.grad(net, None, [weight])(x, y)[0]
    by_bias = gl.grad(net, None, [bias])(x, y)[0]
    alone = gl.grad(net, None, weight)(x, y)
    by_input, by_inputs = gl.grad(net)(x, y), gl.grad(net, (0, 1))(x, y)
    assert (by_weight.shape, by_bias.shape, alone.shape, by_input.shape) == ((1, 3), (1,), (1, 3), (2, 3))
    assert isinstance(by_inputs, tuple)
    both = gl.GradOperation(get_all=True, get_by_list=True)(net, [bias])(x, y)
    assert [t.shape for t in pytree.leaves(both)] == [(2, 3), (2, 1), (1,)]
    assert gl.GradOperation(get_by_list=True)(net, bias)(x, y).shape == (1,)
    assert gl.GradOperation(get_by_list=True)(net, [bias])(x, y)[0].shape == (1,)


def test_a_kept_gradient_function_follows_the_settings_of_its_cell() -> None:
    class Dropping(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 2.0

        def forward(self, x: Tensor) -> Tensor:
            return (x * self.scale).sum()

    net = Dropping()
    np.testing.assert_array_equal(gl.grad(net.forward)(ones(2)).asnumpy(), [2.0, 2.0])
    net.scale = 3.0
    np.testing.assert_array_equal(gl.grad(net.forward)(ones(2)).asnumpy(), [3.0, 3.0])


def test_training_steps_are_graphs(compilations: list[Any]) -> None:
    net = Loss()
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1))
    first, second = float(step(ones(2, 3), ones(2, 1))), float(step(ones(2, 3), ones(2, 1)))
    assert (first, compilations) == (4.0, [step])
    assert second < first


def test_a_cell_of_the_user_that_holds_a_grad_operation_runs_its_forward_once(compilations: list[Any]) -> None:
    class Counting(Loss):
        def __init__(self) -> None:
            super().__init__()
            self.forwards = Parameter(Tensor(0), name="forwards", requires_grad=False)

        def construct(self, x: Tensor, y: Tensor) -> Tensor:
            ops.assign_add(self.forwards, 1)
            return super().construct(x, y)

    class Step(nn.Cell):
        def __init__(self, net: nn.Cell, optimizer: nn.Cell) -> None:
            super().__init__(auto_prefix=False)
            self.net, self.optimizer = net, optimizer
            self.grad = ops.GradOperation(get_by_list=True)

        def construct(self, *inputs: Tensor) -> Tensor:
            loss = self.net(*inputs)
            return ops.depend(loss, self.optimizer(self.grad(self.net, self.optimizer.parameters)(*inputs)))

    net = Counting()
    step = Step(net, nn.SGD(net.trainable_params(), 0.1))
    assert float(step(ones(2, 3), ones(2, 1))) == 4.0
    assert (int(net.forwards), compilations) == (1, [step])


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
def test_a_loop_with_a_loss_scaler_gives_the_numbers_of_the_reference(mode: int) -> None:
    """Sequence B of the contract: the second input is infinite, so its step is skipped."""
    set_context(mode=mode)
    weight = Parameter(ones(4, 3), name="w")
    optimizer = nn.Momentum([weight], 0.1, 0.9)
    scaler = amp.DynamicLossScaler(16, 2, 3)

    def forward(x: Tensor, y: Tensor) -> Tensor:
        return scaler.scale(ops.mean(ops.square(ops.matmul(x, weight) - y)))  # type: ignore[no-any-return]

    grad_fn = gl.value_and_grad(forward, None, optimizer.parameters)
    rows = [ones(2, 4), Tensor(np.full((2, 4), np.inf, np.float32)), *(ones(2, 4) for _ in range(4))]
    found = []
    for x in rows:
        loss, grads = grad_fn(x, Tensor(np.zeros((2, 3), np.float32)))
        loss, grads = scaler.unscale(loss), scaler.unscale(grads)
        finite = amp.all_finite(grads)
        if finite:
            optimizer(grads)
        scaler.adjust(finite)
        found.append((float(loss), float(scaler.scale_value), int(optimizer.global_step), float(weight[0, 0])))
    wanted = [
        (16, 16, 1, 0.7333333), (np.inf, 8, 1, 0.7333333), (8.604445, 8, 2, 0.2977778), (1.418746, 8, 3, -0.1736296),
        (0.482356, 16, 4, -0.5515951), (4.868114, 16, 5, -0.7446720),
    ]  # fmt: skip
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_what_runs_in_a_trace_is_traced() -> None:
    class Outer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def construct(self, x: Tensor) -> Tensor:
            return gl.grad(self.inner)(x) + float(x.sum())

    class Inner(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            with pytest.raises(gl.TraceError):
                float(x.sum())
            return ops.square(x)

    np.testing.assert_array_equal(Outer()(ones(2)).asnumpy(), [4.0, 4.0])


def test_a_cache_compiles_for_the_device_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    devices: list[str] = []

    def compiled(function: Any, *inputs: Any, device: str, **options: Any) -> FakeStep:
        devices.append(device)
        return FakeStep()

    class FakeStep:
        def up_to_date(self) -> bool:
            return True

        def depend_on(self, cells: Any, items: Any) -> None:
            pass

        def outdated_by(self) -> str:
            return ""

        def __call__(self, *inputs: Any) -> None:
            return None

    monkeypatch.setattr(gl.api, "compile", compiled)
    cache = CompileCache(ops.exp)
    cache(ones(2))
    monkeypatch.setenv("GRAPHLS_DEVICE", "cuda")
    cache(ones(2))
    cache(ones(2))
    assert devices[0] == "cpu" and isinstance(devices[1], Cuda) and len(devices) == 2
