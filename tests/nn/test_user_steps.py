"""Training steps as real projects write them, against plain NumPy programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ops import composite as C
from graphls.ops import functional as F
from graphls.ops import operations as P

BACKENDS = ["numpy", "onnxruntime"]
F32 = np.float32
RNG = np.random.default_rng(0)
WEIGHT, BIAS = RNG.normal(size=(4, 3)), RNG.normal(size=3)
BATCHES = [(RNG.normal(size=(2, 4)).astype(F32), RNG.normal(size=(2, 3)).astype(F32)) for _ in range(7)]
OVERFLOW = (np.full((2, 4), np.inf, F32), BATCHES[0][1])


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(WEIGHT.astype(F32), name="weight")
        self.bias = graphls.Parameter(BIAS.astype(F32), name="bias")

    def construct(self, x: Any) -> Any:
        return ops.matmul(x, self.weight) + self.bias


def with_loss() -> tuple[Any, Any]:
    net = Net()
    return net, nn.WithLossCell(net, nn.MSELoss())


class Reference:
    """The same network in float64: loss and gradients, stochastic gradient descent, and an average of the weights."""

    def __init__(self, rate: float) -> None:
        self.weights = [WEIGHT.astype(F32).astype(float), BIAS.astype(F32).astype(float)]
        self.rate = rate
        self.average = [w.copy() for w in self.weights]

    def gradients(self, x: Any, y: Any) -> tuple[float, list[Any]]:
        error = x @ self.weights[0] + self.weights[1] - y
        slope = 2 * error / error.size
        return float((error**2).mean()), [x.T @ slope, slope.sum(0)]

    def descend(self, grads: list[Any]) -> None:
        self.weights = [w - self.rate * g for w, g in zip(self.weights, grads, strict=True)]

    def average_with(self, decay: float) -> None:
        self.average = [a * decay + w * (1 - decay) for a, w in zip(self.average, self.weights, strict=True)]


def clipped(grads: list[Any], limit: float) -> list[Any]:
    norm = np.sqrt(sum((g**2).sum() for g in grads))
    return [g * limit / max(norm, limit) for g in grads]


def check(parameters: Any, arrays: Any) -> None:
    for parameter, array in zip(parameters, arrays, strict=True):
        np.testing.assert_allclose(parameter.asnumpy(), array, rtol=2e-5, atol=1e-6)


_ema_op = C.MultitypeFuncGraph("grad_ema_op")
_grad_scale = C.MultitypeFuncGraph("grad_scale")
_sum_op = ops.MultitypeFuncGraph("grad_sum_op")
_clear_op = ops.MultitypeFuncGraph("clear_op")


@_ema_op.register("Tensor", "Tensor", "Tensor")
def _ema_weights(factor: Any, ema_weight: Any, weight: Any) -> Any:
    return F.assign(ema_weight, ema_weight * factor + weight * (1 - factor))


@_grad_scale.register("Tensor", "Tensor")
def _scaled_down(scale: Any, grad: Any) -> Any:
    return grad * F.cast(P.Reciprocal()(scale), F.dtype(grad))


@_sum_op.register("Tensor", "Tensor")
def _cumulative_grad(grad_sum: Any, grad: Any) -> Any:
    add = ops.AssignAdd()
    return add(grad_sum, grad)


@_clear_op.register("Tensor", "Tensor")
def _clear_grad_sum(grad_sum: Any, zero: Any) -> Any:
    success = True
    success = ops.depend(success, ops.assign(grad_sum, zero))
    return success


# -- a step with clipping, accumulation in a cell of its own, and an average of all weights ------------------------


class GradientAccumulation(nn.Cell):
    def __init__(self, steps: int, optimizer: Any, clip_value: float) -> None:
        super().__init__()
        self.steps = steps
        self.clip_value = clip_value
        self.optimizer = optimizer
        self.weights = optimizer.parameters
        self.hyper_map = ops.HyperMap()
        self.grad_accumulation = optimizer.parameters.clone(prefix="grad_accumulation", init="zeros")
        self.step = graphls.Parameter(graphls.Tensor(0, graphls.int32), name="step")

    def construct(self, loss: Any, grads: Any) -> Any:
        loss = F.depend(loss, self.hyper_map(ops.partial(_sum_op), self.grad_accumulation, grads))
        self.step += 1
        if self.step >= self.steps:
            mean = self.hyper_map(ops.partial(ops.mul, 1.0 / self.steps), self.grad_accumulation)
            mean = ops.clip_by_global_norm(mean, self.clip_value)
            loss = F.depend(loss, self.optimizer(mean))
            zeros = self.hyper_map(ops.zeros_like, self.grad_accumulation)
            loss = F.depend(loss, self.hyper_map(ops.partial(_clear_op), self.grad_accumulation, zeros))
            self.step = 0
        return loss


class CvStep(nn.TrainOneStepWithLossScaleCell):
    def __init__(self, network: Any, optimizer: Any, scale_sense: Any, ema_decay: float = 0.9) -> None:
        super().__init__(network, optimizer, scale_sense)
        self.ema_decay = ema_decay
        self.updates = graphls.Parameter(graphls.Tensor(0.0, graphls.float32))
        self.weights_all = graphls.ParameterTuple(list(network.get_parameters()))
        self.ema_weight = self.weights_all.clone("ema", init="same")
        self.gradient_accumulation = GradientAccumulation(2, optimizer, 0.5)

    def ema_update(self) -> Any:
        self.updates += 1
        ema_decay = self.ema_decay * (1 - ops.exp(-self.updates / 2))
        return self.hyper_map(ops.partial(_ema_op, ema_decay), self.ema_weight, self.weights_all)

    def construct(self, *inputs: Any) -> Any:
        weights = self.weights
        loss = self.network(*inputs)
        status, scaling_sens = self.start_overflow_check(loss, self.scale_sense)
        filled = C.ones_like(loss) * F.cast(scaling_sens, F.dtype(loss))
        grads = self.grad(self.network, weights)(*inputs, filled)
        grads = self.hyper_map(F.partial(_grad_scale, scaling_sens), grads)
        grads = self.grad_reducer(grads)
        cond = self.get_overflow_status(status, grads)
        overflow = self.process_loss_scale(cond)
        if not overflow:
            loss = self.gradient_accumulation(loss, grads)
            loss = F.depend(loss, self.ema_update())
        return loss, cond, scaling_sens


@pytest.mark.parametrize("mode", ["outputs", "window"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_clipping_accumulation_and_an_average(backend: str, mode: str) -> None:
    net, loss_net = with_loss()
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.2)
    cell = CvStep(loss_net, optimizer, nn.DynamicLossScaleUpdateCell(16, 2, 3))
    step = graphls.compile(cell, *BATCHES[0], backend=backend, overflow_mode=mode)
    reference, kept, updates = Reference(0.2), [], 0
    for number, batch in enumerate([*BATCHES[:3], OVERFLOW, *BATCHES[3:]]):
        loss, overflow, _ = step(*batch)
        assert bool(overflow) is (number == 3)
        if not bool(overflow):
            expected, grads = reference.gradients(*batch)
            np.testing.assert_allclose(float(loss), expected, rtol=1e-5)
            kept.append(grads)
            if len(kept) == 2:
                reference.descend(clipped([(a + b) / 2 for a, b in zip(*kept, strict=True)], 0.5))
                kept.clear()
            updates += 1
            reference.average_with(0.9 * (1 - np.exp(-updates / 2)))
        check((net.weight, net.bias), reference.weights)
        check(cell.ema_weight, reference.average)
    assert optimizer.global_step.tolist() == [3]
    assert [float(cell.updates), int(cell.gradient_accumulation.step)] == [7, 1]
    assert [p.name for p in cell.ema_weight] == ["ema.weight", "ema.bias"]


# -- a step that updates in a method, with an average that is swapped in for evaluation -----------------------------


class EMA(nn.Cell):
    def __init__(self, network: Any, ema_decay: float) -> None:
        super().__init__()
        self.net_weight = graphls.ParameterTuple(network.trainable_params())
        self.ema_weight = self.net_weight.clone(prefix="ema", init="same")
        self.swap_cache = self.net_weight.clone(prefix="swap", init="zeros")
        self.updates = graphls.Parameter(graphls.Tensor(0, graphls.float32), requires_grad=False)
        self.ema_decay = ema_decay
        self.hyper_map = ops.HyperMap()

    def ema_update(self) -> Any:
        self.updates += 1
        d = self.ema_decay * (1 - F.exp(-self.updates / 20))
        success = self.hyper_map(F.partial(_ema_op, d), self.ema_weight, self.net_weight)
        self.updates = F.depend(self.updates, success)
        return self.updates

    def swap_before_eval(self) -> Any:
        success = self.hyper_map(ops.assign, self.swap_cache, self.net_weight)
        return F.depend(success, self.hyper_map(ops.assign, self.net_weight, self.ema_weight))

    def swap_after_eval(self) -> Any:
        return self.hyper_map(ops.assign, self.net_weight, self.swap_cache)


class OneStep(nn.TrainOneStepWithLossScaleCell):
    def __init__(self, network: Any, optimizer: Any, scale_sense: Any, ema: Any, accum_steps: int) -> None:
        super().__init__(network, optimizer, scale_sense)
        self.ema = ema
        self.accum_steps = accum_steps
        self.clip_grad = True
        if accum_steps > 1:
            self.accumulated_grads = optimizer.parameters.clone(prefix="accum_grad", init="zeros")
            self.zeros = optimizer.parameters.clone(prefix="zeros", init="zeros")
            self.cur_accum_step = graphls.Parameter(graphls.Tensor(0, graphls.int32), name="accum_step")
        self.map = ops.Map()
        self.partial = ops.Partial()

    def do_optim(self, loss: Any, grads: Any) -> Any:
        if self.accum_steps == 1:
            if self.clip_grad:
                grads = ops.clip_by_global_norm(grads, 0.5)
            loss = F.depend(loss, self.optimizer(grads))
            if self.ema is not None:
                self.ema.ema_update()
            return loss
        loss = F.depend(loss, self.map(self.partial(ops.assign_add), self.accumulated_grads, grads))
        loss = F.depend(loss, ops.assign_add(self.cur_accum_step, graphls.Tensor(1, graphls.int32)))
        if self.cur_accum_step % self.accum_steps == 0:
            grads = ops.clip_by_global_norm(self.accumulated_grads, 0.5)
            loss = F.depend(loss, self.optimizer(grads))
            loss = F.depend(loss, self.map(self.partial(ops.assign), self.accumulated_grads, self.zeros))
            if self.ema is not None:
                self.ema.ema_update()
        else:
            loss = F.depend(loss, self.optimizer.get_lr())
        return loss

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        status, scaling_sens = self.start_overflow_check(loss, self.scale_sense)
        filled = C.ones_like(loss) * F.cast(scaling_sens, F.dtype(loss))
        grads = self.grad(self.network, self.weights)(*inputs, filled)
        grads = self.hyper_map(F.partial(_grad_scale, scaling_sens * self.accum_steps), grads)
        cond = self.get_overflow_status(status, grads)
        overflow = self.process_loss_scale(cond)
        if not overflow:
            loss = self.do_optim(loss, grads)
        return loss, cond, scaling_sens


@pytest.mark.parametrize("accumulated", [1, 3])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_that_updates_in_a_method(backend: str, accumulated: int) -> None:
    net, loss_net = with_loss()
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.3)
    ema = EMA(net, 0.9)
    cell = OneStep(loss_net, optimizer, graphls.Tensor(64.0), ema, accumulated)
    step = graphls.compile(cell, *BATCHES[0], backend=backend)
    reference, kept, updates = Reference(0.3), [], 0
    for number, batch in enumerate([*BATCHES[:2], OVERFLOW, *BATCHES[2:]]):
        loss, overflow, scale = step(*batch)
        assert (bool(overflow), float(scale)) == (number == 2, 64)
        if not bool(overflow):
            expected, grads = reference.gradients(*batch)
            np.testing.assert_allclose(float(loss), expected, rtol=1e-5)
            kept.append([g / accumulated for g in grads])
            if len(kept) == accumulated:
                reference.descend(clipped([sum(g) for g in zip(*kept, strict=True)], 0.5))
                kept.clear()
                updates += 1
                reference.average_with(0.9 * (1 - np.exp(-updates / 20)))
        check((net.weight, net.bias), reference.weights)
        check(ema.ema_weight, reference.average)
    ema.swap_before_eval()
    check((net.weight, net.bias), reference.average)
    ema.swap_after_eval()
    check((net.weight, net.bias), reference.weights)


# -- accumulation in three cells ------------------------------------------------------------------------------------


class TrainForwardBackward(nn.Cell):
    def __init__(self, network: Any, optimizer: Any, grad_sum: Any, sens: float = 1.0) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.network.set_grad()
        self.network.add_flags(defer_inline=True)
        self.weights = graphls.ParameterTuple(network.trainable_params())
        self.optimizer = optimizer
        self.grad_sum = grad_sum
        self.grad = ops.GradOperation(get_by_list=True, sens_param=True)
        self.sens = sens
        self.hyper_map = ops.HyperMap()

    def construct(self, *inputs: Any) -> Any:
        weights = self.weights
        loss = self.network(*inputs)
        sens = ops.Fill()(ops.DType()(loss), ops.Shape()(loss), self.sens)
        grads = self.grad(self.network, weights)(*inputs, sens)
        return ops.depend(loss, self.hyper_map(ops.partial(_sum_op), self.grad_sum, grads))


class TrainOptim(nn.Cell):
    def __init__(self, optimizer: Any, grad_sum: Any) -> None:
        super().__init__(auto_prefix=False)
        self.optimizer = optimizer
        self.grad_sum = grad_sum

    def construct(self) -> Any:
        return self.optimizer(self.grad_sum)


class TrainClear(nn.Cell):
    def __init__(self, grad_sum: Any, zeros: Any) -> None:
        super().__init__(auto_prefix=False)
        self.grad_sum = grad_sum
        self.zeros = zeros
        self.hyper_map = ops.HyperMap()

    def construct(self) -> Any:
        return self.hyper_map(ops.partial(_clear_op), self.grad_sum, self.zeros)


@pytest.mark.parametrize("backend", BACKENDS)
def test_accumulation_in_three_cells(backend: str) -> None:
    net, loss_net = with_loss()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    grad_sum = optimizer.parameters.clone(prefix="grad_sum", init="zeros")
    zeros = optimizer.parameters.clone(prefix="zeros", init="zeros")
    forward_backward = graphls.compile(
        TrainForwardBackward(loss_net, optimizer, grad_sum, 0.5), *BATCHES[0], backend=backend
    )
    optim = graphls.compile(TrainOptim(optimizer, grad_sum), backend=backend)
    clear = graphls.compile(TrainClear(grad_sum, zeros), backend=backend)
    reference, velocity = Reference(0.1), [0.0, 0.0]
    for start in (0, 2, 4):
        sums = [0.0, 0.0]
        for batch in BATCHES[start : start + 2]:
            loss, grads = reference.gradients(*batch)
            np.testing.assert_allclose(float(forward_backward(*batch)), loss, rtol=1e-5)
            sums = [s + 0.5 * g for s, g in zip(sums, grads, strict=True)]
        check(grad_sum, sums)
        velocity = [0.9 * v + s for v, s in zip(velocity, sums, strict=True)]
        reference.descend(velocity)
        assert optim() == (True, True) and clear() == (True, True)
        check((net.weight, net.bias), reference.weights)
        check(grad_sum, [np.zeros((4, 3)), np.zeros(3)])
    assert optimizer.global_step.tolist() == [3]


# -- each of the four methods ---------------------------------------------------------------------------------------


def losses_and_scales(step: Any) -> tuple[list[float], list[bool], list[float]]:
    results = [step(*batch) for batch in (*BATCHES[:2], OVERFLOW, *BATCHES[2:])]
    losses, overflows, scales = ([t.item() for t in column] for column in zip(*results, strict=True))
    return losses, overflows, scales


def step_of(style: Any, backend: str, scale: Any = None) -> tuple[Any, Any]:
    net, loss_net = with_loss()
    scale = nn.DynamicLossScaleUpdateCell(16, 2, 3) if scale is None else scale
    cell = style(loss_net, nn.SGD(net.trainable_params(), 0.1), scale)
    return cell, graphls.compile(cell, *BATCHES[0], backend=backend)


class OwnStart(nn.TrainOneStepWithLossScaleCell):
    def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
        status, compute_input = super().start_overflow_check((pre_cond, pre_cond * 2.0), compute_input)
        return status, ops.depend(compute_input, pre_cond)


class OwnGet(nn.TrainOneStepWithLossScaleCell):
    def get_overflow_status(self, status: Any, compute_output: Any) -> Any:
        finite = [ops.all(ops.isfinite(g)) for g in compute_output]
        found = super().get_overflow_status(status, compute_output)
        return ops.logical_or(found, ops.logical_not(ops.all(ops.stack(finite))))


class OnlyFinite(nn.TrainOneStepWithLossScaleCell):
    def get_overflow_status(self, status: Any, compute_output: Any) -> Any:
        flags = self.hyper_map(lambda g: ops.cast(ops.all(ops.isfinite(g)), graphls.float32), compute_output)
        return ops.AddN()(flags) < len(compute_output)


class NeitherBase(OnlyFinite):
    def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
        return graphls.Tensor(False), compute_input


class OwnProcess(nn.TrainOneStepWithLossScaleCell):
    def process_loss_scale(self, overflow: Any) -> Any:
        found = super().process_loss_scale(overflow)
        self.scale_sense = ops.minimum(self.scale_sense, 16.0)
        return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("style", [OwnStart, OwnGet, OnlyFinite, NeitherBase])
def test_an_overridden_method_that_says_the_same(style: Any, backend: str) -> None:
    _, base = step_of(nn.TrainOneStepWithLossScaleCell, backend)
    _, own = step_of(style, backend)
    expected, found = losses_and_scales(base), losses_and_scales(own)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    assert found[1:] == expected[1:] and expected[1].count(True) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_own_rule_for_the_scale(backend: str) -> None:
    _, step = step_of(OwnProcess, backend)
    _, overflows, scales = losses_and_scales(step)
    assert overflows == [False, False, True, False, False, False, False, False]
    assert scales == [16, 16, 8, 8, 8, 16, 16, 16]


class Skipping(nn.TrainOneStepWithLossScaleCell):
    """Counts what it skips, and skips every step with a large loss, too."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.skipped = graphls.Parameter(graphls.Tensor(0, graphls.int32), name="skipped")
        self.last_loss = None

    def get_overflow_status(self, status: Any, compute_output: Any) -> Any:
        return ops.logical_or(super().get_overflow_status(status, compute_output), ops.greater(self.last_loss, 3.0))

    def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
        self.last_loss = pre_cond
        return super().start_overflow_check(pre_cond, compute_input)

    def process_loss_scale(self, overflow: Any) -> Any:
        self.skipped = self.skipped + ops.cast(overflow, graphls.int32)
        return overflow


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_subclass_with_a_rule_and_a_state_of_its_own(backend: str) -> None:
    cell, step = step_of(Skipping, backend, graphls.Tensor(4.0))
    reference, skipped = Reference(0.1), 0
    for batch in BATCHES:
        loss, overflow, _ = step(*batch)
        expected, grads = reference.gradients(*batch)
        np.testing.assert_allclose(float(loss), expected, rtol=1e-5)
        assert bool(overflow) is (expected > 3)
        skipped += expected > 3
        if expected <= 3:
            reference.descend(grads)
    assert int(cell.skipped) == skipped and 0 < skipped < len(BATCHES)
    check(cell.optimizer.parameters, reference.weights)


class Bounded(nn.TrainOneStepWithLossScaleCell):
    def set_sense_scale(self, sens: Any) -> None:
        super().set_sense_scale(ops.minimum(sens, 256.0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_own_way_to_set_the_scale(backend: str) -> None:
    cell, step = step_of(Bounded, backend, graphls.Tensor([2.0]))
    assert step(*BATCHES[0])[2].tolist() == [2]
    cell.set_sense_scale(graphls.Tensor([1024.0]))
    assert step(*BATCHES[1])[2].tolist() == [256]


# -- what stands in construct ---------------------------------------------------------------------------------------


class Depends(nn.Cell):
    """Every form of `depend` that scripts use."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()
        self.optimizer = nn.SGD(self.net.trainable_params(), 0.1)
        self.count = graphls.Parameter(graphls.Tensor(0.0), name="count")
        self.grad = ops.GradOperation(get_by_list=True)

    def construct(self, x: Any) -> Any:
        loss = ops.mean(self.net(x))
        grads = self.grad(lambda x: ops.mean(self.net(x)), self.optimizer.parameters)(x)
        success = ops.depend(True, self.optimizer(grads))
        ret = ops.depend((loss, {"grads": grads}), success)
        before = ops.depend(self.count, loss)
        ops.assign_add(self.count, 2.0)
        text = F.depend("text", ops.depend(x, self.count))
        value = P.Depend()(before, (ret, [None, 1.0]))
        ops.assign(before, before * 3.0)
        return ret, success, text, ops.depend(value + 1.0, (self.count, {"a": x})), ops.depend(None, x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_form_of_depend(backend: str) -> None:
    cell = Depends()
    x = BATCHES[0][0]
    step = graphls.compile(cell, x, backend=backend)
    (loss, extra), success, text, value, nothing = step(x)
    reference = Reference(0.1)
    expected = [np.repeat(x.mean(0, keepdims=True).T / 3, 3, 1), np.full(3, 1 / 3)]
    np.testing.assert_allclose(float(loss), (x @ reference.weights[0] + reference.weights[1]).mean(), rtol=1e-4)
    check(extra["grads"], expected)
    reference.descend(expected)
    check(cell.optimizer.parameters, reference.weights)
    assert (success, text, nothing, float(value), float(cell.count)) == (True, "text", None, 7, 6)


def test_depend_takes_a_value_and_an_expression() -> None:
    for call in (lambda x: ops.depend(x), lambda x: ops.depend(x, x, x), lambda x: ops.Depend()(x)):
        with pytest.raises(TypeError, match=r"expr|3 were given"):
            graphls.compile(call, BATCHES[0][0], backend="numpy")
    x = graphls.Tensor(1.0)
    assert ops.depend(x, 3) is x and ops.depend(None, x) is None


class Assigning(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.a = graphls.Parameter(np.array([1.0, 2.0], F32), name="a")
        self.b = graphls.Parameter(np.array([5.0, 6.0], F32), name="b")
        self.counter = graphls.Parameter(graphls.Tensor(3, graphls.int32), name="counter")
        self.calls = 0

    def construct(self, x: Any) -> Any:
        old = self.a * 1.0
        self.a = self.b
        self.b = x
        self.b += 1
        self.counter = 0
        self.counter += 4
        return old, self.a, self.b * 2.0, self.counter


@pytest.mark.parametrize("backend", BACKENDS)
def test_assigning_an_attribute_writes_the_parameter(backend: str) -> None:
    cell = Assigning()
    a, b = cell.a, cell.b
    step = graphls.compile(cell, np.zeros(2, F32), backend=backend)
    assert [t.tolist() for t in step(np.array([7, 8], F32))] == [[1, 2], [5, 6], [16, 18], 4]
    assert (cell.a, cell.b) == (a, b) and a.tolist() == [5, 6] and b.tolist() == [8, 9] and int(cell.counter) == 4
    assert [t.tolist() for t in step(np.array([0, 0], F32))] == [[5, 6], [8, 9], [2, 2], 4]
    with pytest.raises(TypeError, match=r"Parameter 'a' already exists.*use set_data.*test_user_steps"):
        cell.a = 3.0


class Nested(nn.Cell):
    def construct(self, pair: Any, options: Any, factor: float = 2.0) -> Any:
        x, (y, names) = pair
        return {"sum": x + y, "pair": (options["scale"] * x, [names, options["list"][0] * factor])}


@pytest.mark.parametrize("backend", BACKENDS)
def test_tuples_and_dicts_go_in_and_out(backend: str) -> None:
    x, y = BATCHES[0]
    inputs = ((x, (x * 2, "name")), {"scale": np.array(3, F32), "list": [y]})
    for found in (graphls.compile(Nested(), *inputs, backend=backend)(*inputs), Nested()(*inputs)):
        np.testing.assert_allclose(found["sum"].asnumpy(), x * 3)
        np.testing.assert_allclose(found["pair"][0].asnumpy(), x * 3)
        assert isinstance(found["pair"], tuple) and found["pair"][1][0] == "name"
        np.testing.assert_allclose(found["pair"][1][1].asnumpy(), y * 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_gradient_flows_through_stop_gradient(backend: str) -> None:
    def function(x: Any, y: Any) -> Any:
        kept, also = ops.stop_gradient((x * y, {"y": y}))
        return ops.sum(kept * x + also["y"] * ops.stop_gradient(2.0) * y)

    x, y = BATCHES[0][0], BATCHES[1][0]
    gradient = ops.GradOperation(get_all=True)(function)
    for found, expected in zip(graphls.compile(gradient, x, y, backend=backend)(x, y), (x * y, 2 * y), strict=True):
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)


class Missing(nn.TrainOneStepWithLossScaleCell):
    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        grads = self.grad(self.network, self.weights)(*inputs, self.scale_sense)
        return self.hyper_map(self.fault, grads), loss


WRONG: list[Any] = [
    (F.partial(_grad_scale, 2), TypeError, r"'grad_scale' has no function for \(Int, Tensor\); registered are"),
    (F.partial(_grad_scale), TypeError, r"no function for \(Tensor\)"),
    (F.partial(ops.assign, 3), TypeError, "assign takes a Parameter"),
    (lambda g: nn.TrainOneStepWithLossScaleCell.get_overflow_status(None, None, ()), ValueError, "give the gradients"),
    (lambda g: nn.TrainOneStepWithLossScaleCell.get_overflow_status(None, g, None), ValueError, "give the gradients"),
    (lambda g: ops.clip_by_global_norm(g), TypeError, "clip_by_global_norm takes a tuple or list"),
    (lambda g: ops.HyperMap()(ops.add, (g,), (g, g)), ValueError, "nests of one structure"),
    (lambda g: P.ReduceSum(keepdims=True)(g), TypeError, "operator ReduceSum takes keep_dims"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_fault_in_a_step_has_the_users_line(number: int) -> None:
    fault, error, message = WRONG[number]
    net, loss_net = with_loss()
    cell = Missing(loss_net, nn.SGD(net.trainable_params(), 0.1), graphls.Tensor(4.0))
    cell.fault = fault
    with pytest.raises(error, match=message) as caught:
        graphls.compile(cell, *BATCHES[0], backend="numpy")
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_user_steps.py")
