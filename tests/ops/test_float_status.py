"""Training steps that read the overflow status in the words of MindSpore 1 and 2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ops import composite as C
from graphls.ops import functional as F
from graphls.ops import operations as P
from tests.ops.agree import agree

BACKENDS = ["numpy", "onnxruntime"]
MODES = ["outputs", "window"]
F32 = np.float32
X, Y = np.ones((2, 4), F32), np.zeros((2, 3), F32)

grad_scale = C.MultitypeFuncGraph("grad_scale")
grad_overflow = C.MultitypeFuncGraph("grad_overflow")


@grad_scale.register("Tensor", "Tensor")
def tensor_grad_scale(scale: Any, grad: Any) -> Any:
    return grad * F.cast(P.Reciprocal()(scale), F.dtype(grad))


@grad_overflow.register("Tensor")
def tensor_grad_overflow(grad: Any) -> Any:
    return P.FloatStatus()(grad)


class Step(nn.TrainOneStepWithLossScaleCell):
    """The step of MindSpore 1.2 to 2.0."""

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        status, scaling_sens = self.start_overflow_check(loss, self.scale_sense)
        filled = C.ones_like(loss) * F.cast(scaling_sens, F.dtype(loss))
        grads = self.grad(self.network, self.weights)(*inputs, filled)
        grads = self.hyper_map(F.partial(grad_scale, scaling_sens), grads)
        grads = self.grad_reducer(grads)
        cond = self.get_overflow_status(status, grads)
        overflow = self.process_loss_scale(cond)
        if not overflow:
            loss = F.depend(loss, self.optimizer(grads))
        return loss, cond, scaling_sens


class Start1(Step):
    def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
        status = P.NPUAllocFloatStatus()()
        status = F.depend(status, pre_cond)
        clear_status = P.NPUClearFloatStatus()(status)
        return status, F.depend(compute_input, clear_status)


class Get1(Step):
    def get_overflow_status(self, status: Any, compute_output: Any) -> Any:
        status = F.depend(status, compute_output)
        get_status = P.NPUGetFloatStatus()(status)
        status = F.depend(status, get_status)
        return self.less_equal(self.base, self.reduce_sum(status, (0,)))


class Start2(Step):
    def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
        status = graphls.Tensor([0] * 8, graphls.int32)
        status = F.depend(status, pre_cond)
        clear_status = P.NPUClearFloatStatusV2()(status)
        return status, F.depend(compute_input, clear_status)


class Get2(Step):
    def get_overflow_status(self, status: Any, compute_output: Any) -> Any:
        status = F.depend(status, compute_output)
        get_status = P.NPUGetFloatStatusV2()(status)
        flags = P.Equal()(graphls.Tensor(0, graphls.int32), get_status)
        return P.LogicalNot()(P.ReduceAll(keep_dims=False)(flags))


class OnGpu(Step):
    def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
        return False, compute_input

    def get_overflow_status(self, status: Any, compute_output: Any) -> Any:
        flag_sum = self.hyper_map(F.partial(grad_overflow), compute_output)
        flag_sum = P.Reshape()(P.AddN()(flag_sum), ())
        return self.less_equal(self.base, flag_sum)


class Version1(Get1, Start1):
    """Both as they were up to 1.8."""


class Version2(Get2, Start2):
    """Both as they are since 2.0."""


class Written(nn.TrainOneStepWithLossScaleCell):
    """The chain in one construct, which relies on the order of its lines, as 1.1 has it."""

    def construct(self, *inputs: Any) -> Any:
        init = P.NPUAllocFloatStatus()()
        loss = self.network(*inputs)
        init = F.depend(init, loss)
        clear_status = P.NPUClearFloatStatus()(init)
        scaling_sens = F.depend(self.scale_sense, clear_status)
        grads = self.grad(self.network, self.weights)(*inputs, F.cast(scaling_sens, F.dtype(loss)))
        grads = C.HyperMap()(F.partial(grad_scale, scaling_sens), grads)
        P.NPUGetFloatStatus()(F.depend(init, grads))
        cond = P.LessEqual()(graphls.Tensor(1.0), P.ReduceSum()(init, (0,)))
        overflow = self.loss_scaling_manager(self.scale_sense, cond)
        succ = False if overflow else self.optimizer(grads)
        return F.depend((loss, cond, scaling_sens), succ)


STYLES = [Version1, Version2, OnGpu, Written, Start1, Get1, Start2, Get2]


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.ones((4, 3), F32), name="weight")

    def construct(self, x: Any) -> Any:
        return ops.matmul(x, self.weight)


def step_of(style: Any, backend: str, mode: str) -> tuple[Any, Any, Any]:
    net = Net()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    cell = style(nn.WithLossCell(net, nn.MSELoss()), optimizer, nn.DynamicLossScaleUpdateCell(16, 2, 3))
    return net, optimizer, graphls.compile(cell, X, Y, backend=backend, overflow_mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("style", STYLES)
def test_reference_sequence_a(style: Any, backend: str, mode: str) -> None:
    _, optimizer, step = step_of(style, backend, mode)
    results = [step(X, Y) for _ in range(8)]
    losses = [16, 8.604445, 1.418746, 0.482356, 4.868114, 8.872580, 8.291219, 4.089612]
    np.testing.assert_allclose([float(r[0]) for r in results], losses, rtol=1e-5)
    assert not any(bool(r[1]) for r in results) and optimizer.global_step.tolist() == [8]
    assert [float(r[2]) for r in results] == [16, 16, 32, 32, 32, 64, 64, 64]
    assert [str(r.type) for r in results[0]] == ["f32[]", "bool[]", "f32[]"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("style", STYLES)
def test_reference_sequence_b(style: Any, backend: str, mode: str) -> None:
    net, optimizer, step = step_of(style, backend, mode)
    for number, expected in enumerate(
        [
            (16, False, 16, 1, 0.7333333),
            (np.inf, True, 8, 1, 0.7333333),
            (8.604445, False, 8, 2, 0.2977778),
            (1.418746, False, 8, 3, -0.1736296),
            (0.482356, False, 16, 4, -0.5515951),
            (4.868114, False, 16, 5, -0.7446720),
        ]
    ):
        loss, overflow, scale = step(np.full_like(X, np.inf) if number == 1 else X, Y)
        steps, weight = optimizer.global_step.asnumpy()[0], net.weight.asnumpy()[0, 0]
        found = (float(loss), bool(overflow), float(scale), int(steps), float(weight))
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("style", STYLES)
def test_the_step_has_one_window_between_the_loss_and_the_gradients(style: Any, mode: str) -> None:
    _, _, step = step_of(style, "numpy", mode)
    names = [n.primitive.name for n in step.graph.nodes]
    assert names.count("overflow_start") == names.count("overflow_get") == 1
    (start,) = (n for n in step.graph.nodes if n.primitive.name == "overflow_start")
    get = next(n for n in step.graph.nodes if n.primitive.name == "overflow_get")
    assert get.inputs[0] is start.outputs[0] and len(get.inputs) == 2
    behind = {n.output: n.inputs[0] for n in step.graph.nodes if n.primitive.name == "depend"}
    assert start.after[0] is behind.get(step.graph.outputs[0], step.graph.outputs[0])


class Hidden(nn.Cell):
    """An infinity in the backward, in float16, that no gradient shows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.ones(3, F32), name="weight")

    def construct(self, x: Any) -> Any:
        y = ops.cast(self.weight * x, graphls.float16)
        return ops.sum(ops.cast(ops.minimum(y, 1.0) * 60000.0, graphls.float32)) + ops.sum(ops.cast(y, graphls.float32))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("mode", "raised"), [("outputs", False), ("window", True)])
@pytest.mark.parametrize("style", [nn.TrainOneStepWithLossScaleCell, *STYLES])
def test_what_no_gradient_shows_raises_the_status_of_a_window(
    style: Any, mode: str, raised: bool, backend: str
) -> None:
    net = Hidden()
    cell = style(net, nn.SGD(net.trainable_params(), 0.1), nn.FixedLossScaleUpdateCell(4.0))
    x = np.full(3, 10, F32)
    step = graphls.compile(cell, x, backend=backend, overflow_mode=mode)
    assert bool(step(x)[1]) is raised
    np.testing.assert_array_equal(net.weight.asnumpy(), np.full(3, 1 if raised else 0, F32))


class Chain(nn.Cell):
    """Reads a status before it is cleared, after that, when it was read, and when it is cleared again."""

    def construct(self, x: Any) -> Any:
        status = P.NPUAllocFloatStatus()()
        before = ops.sum(status)
        x = F.depend(x, P.NPUClearFloatStatus()(status))
        cleared = ops.sum(status)
        y = x * 2.0
        P.NPUGetFloatStatus()(F.depend(status, y))
        read = ops.sum(status)
        y = F.depend(y, P.NPUClearFloatStatus()(F.depend(status, read)))
        again = ops.sum(status)
        z = y * 0.0
        return before, cleared, read, again, ops.sum(P.NPUGetFloatStatus()(F.depend(status, z)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_status_reads_as_it_is_at_the_time(backend: str) -> None:
    step = graphls.compile(Chain(), np.ones(2, F32), backend=backend)
    assert [float(t) for t in step(np.ones(2, F32))] == [0, 0, 0, 0, 0]
    assert [float(t) for t in step(np.full(2, 3e38, F32))] == [0, 0, 8, 0, 8]


class Reader(nn.Cell):
    """Fills and reads a status, and branches on it, so that its construct is traced again."""

    def construct(self, status: Any, y: Any) -> Any:
        before = ops.sum(status)
        P.NPUGetFloatStatus()(F.depend(status, y))
        if ops.sum(status) > 0:
            return before, y * 0.0 - 1.0
        return before, y


class Branching(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.reader = Reader()

    def construct(self, x: Any) -> Any:
        status = P.NPUAllocFloatStatus()()
        x = F.depend(x, P.NPUClearFloatStatus()(status))
        y = ops.sqrt(x)
        before, y = self.reader(status, y)
        if ops.sum(x) > 3:
            return before, ops.sum(status), y + 1.0
        return before, ops.sum(status), y


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_status_in_an_inner_cell_and_under_conditions(backend: str) -> None:
    step = graphls.compile(Branching(), np.ones(2, F32), backend=backend)
    for x, expected in (([4, 9], (0, 0, [3, 4])), ([1, 1], (0, 0, [1, 1])), ([-1, 1], (0, 8, [np.nan, -1]))):
        found = [t.asnumpy() for t in step(np.array(x, F32))]
        for array, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(array, wanted)


class Two(nn.Cell):
    """Two networks with a window each, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Net(), Net()
        self.grad = ops.GradOperation(get_by_list=True, sens_param=True)

    def checked(self, network: Any, x: Any) -> Any:
        loss = ops.sum(network(x))
        status = F.depend(P.NPUAllocFloatStatus()(), loss)
        sens = F.depend(ops.ones_like(loss), P.NPUClearFloatStatus()(status))
        grads = self.grad(lambda x: ops.sum(network(x)), [network.weight])(x, sens)
        get = P.NPUGetFloatStatus()(F.depend(status, grads))
        return ops.sum(F.depend(status, get))

    def construct(self, x: Any, y: Any) -> Any:
        first = self.checked(self.first, x)
        return first, self.checked(self.second, F.depend(y, first))


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_windows_in_one_step(backend: str) -> None:
    step = graphls.compile(Two(), X, X, backend=backend)
    assert [float(t) for t in step(X, X)] == [0, 0]
    assert [float(t) for t in step(X, X * F32(np.inf))] == [0, 8]
    assert [float(t) for t in step(X * F32(np.inf), X)] == [8, 0]
    starts = [n for n in step.graph.nodes if n.primitive.name == "overflow_start"]
    assert len(starts) == 2


class Offset(nn.Cell):
    """A loss that is infinite, whose gradient is not."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def construct(self, x: Any, y: Any) -> Any:
        return ops.mean(self.net(x)) + ops.sum(y)


class WaitingForLoss(Start1):
    """The status waits for what was made before it was cleared, too; only what was made since is looked at."""

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        grads = self.grad(self.network, self.weights)(*inputs, scale)
        status = P.NPUGetFloatStatus()(F.depend(status, (loss, inputs, grads, None)))
        return loss, ops.sum(status)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_made_before_a_status_was_cleared_does_not_raise_it(backend: str) -> None:
    net = Offset()
    cell = WaitingForLoss(net, nn.SGD(net.trainable_params(), 0.1), nn.FixedLossScaleUpdateCell(4.0))
    step = graphls.compile(cell, X, Y, backend=backend)
    assert [float(t) for t in step(X, np.full_like(Y, np.inf))] == [np.inf, 0]
    assert [float(t) for t in step(X * F32(np.inf), Y)] == [np.inf, 8]


def test_float_status_is_one_number() -> None:
    bad, wide = np.array([1, np.nan], F32), np.array([65504.0, np.inf], np.float16)
    agree(lambda x: P.FloatStatus()(x), np.zeros(1, F32), X)
    agree(lambda x: P.FloatStatus()(x), np.ones(1, F32), bad)
    agree(lambda x: P.FloatStatus()(x) * 2.0, np.full(1, 2, F32), wide)
    agree(lambda x, y: P.FloatStatus()(x) + 1.0, np.full(1, 2, F32), bad, wide)
    agree(lambda x, y: 1.0 + P.AddN()([P.FloatStatus()(x), P.FloatStatus()(y)]), np.full(1, 2, F32), X, wide)


def test_the_sum_of_float_statuses_is_one_check() -> None:
    def flag(*tensors: Any) -> Any:
        return P.AddN()(C.HyperMap(P.FloatStatus())(tensors))

    step = graphls.compile(flag, *[np.ones(2, F32)] * 3, backend="numpy")
    assert sum(n.primitive.name == "overflow_get" for n in step.graph.nodes) == 1
    bad = np.array([1, np.inf], F32)
    assert [step(bad, x, bad).tolist() for x in (bad, np.ones(2, F32))] == [[1], [1]]


ALLOC, CLEAR, GET = P.NPUAllocFloatStatus(), P.NPUClearFloatStatus(), P.NPUGetFloatStatus()
GET2 = P.NPUGetFloatStatusV2()
WRONG: list[Any] = [
    (lambda x: GET(ALLOC()), ValueError, r"depends on no float tensor .* write `status = ops.depend\(status, grads\)`"),
    (lambda x: GET2(graphls.Tensor([0] * 8)), ValueError, "depends on no float tensor"),
    (lambda x: GET(CLEAR(F.depend(ALLOC(), x))), ValueError, "depends on no float tensor made since it was cleared"),
    (lambda x: GET(F.depend(ALLOC(), x > 0)), ValueError, "depends on no float tensor"),
    (lambda x: GET(F.depend(ops.zeros(8), x)), TypeError, "fills what NPUAllocFloatStatus gave in the same step"),
    (lambda x: CLEAR(False), TypeError, "takes a status, which is a tensor, not False"),
    (lambda x: GET2(None), TypeError, "takes a status, which is a tensor, not None"),
    (lambda x: CLEAR(), TypeError, "missing a required argument"),
    (lambda x: P.FloatStatus()(x > 0) * 1.0, ValueError, "no float tensor to look at; give the gradients"),
    (lambda x: Version1.get_overflow_status(None, x, x), TypeError, "fills what NPUAllocFloatStatus gave"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        graphls.compile(function, X, backend="numpy")
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_float_status.py")


@pytest.mark.parametrize("operator", [ALLOC, lambda: CLEAR(X), lambda: GET(X), lambda: GET2(X)])
def test_a_status_is_a_part_of_a_step(operator: Any) -> None:
    with pytest.raises(RuntimeError, match=r"is a part of a step; call it in the construct .*test_float_status"):
        operator()
