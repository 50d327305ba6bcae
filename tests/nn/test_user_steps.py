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
from tests.nn.linear import BACKENDS, BATCHES, OVERFLOW, Reference, check, with_loss


def clipped(grads: list[Any], limit: float) -> list[Any]:
    norm = np.sqrt(sum((g**2).sum() for g in grads))
    return [g * limit / max(norm, limit) for g in grads]


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


@pytest.mark.parametrize("as_statement", [False, True])
def test_what_an_optimizer_gives_joins_with_a_bool(as_statement: bool) -> None:
    """`succ = False if overflow else self.optimizer(grads)`, as the train steps of MindSpore 1 have it."""

    class Step(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Dense(4, 3)
            self.optimizer = nn.Momentum(self.net.trainable_params(), 0.1, 0.9)

        def construct(self, x: Any) -> Any:
            loss = ops.sum(self.net(x))
            grads = ops.grad(self.net, None, self.optimizer.parameters)(x)
            overflow = ops.sum(grads[0]) > 100
            if as_statement:
                if overflow:
                    succ = False
                else:
                    succ = self.optimizer(grads)
            else:
                succ = False if overflow else self.optimizer(grads)
            return ops.depend(loss, succ), succ

    cell = Step()
    step = graphls.compile(cell, np.ones((2, 4), np.float32), backend="numpy")
    before = cell.net.weight.asnumpy()
    assert not bool(step(np.full((2, 4), 100, np.float32))[1])
    np.testing.assert_array_equal(cell.net.weight.asnumpy(), before)
    assert bool(step(np.ones((2, 4), np.float32))[1])
    assert (cell.net.weight.asnumpy() != before).all()
