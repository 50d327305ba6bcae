"""Each of the four methods of a step, overridden, and faults in steps that users write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ops import functional as F
from graphls.ops import operations as P
from tests.nn.linear import BACKENDS, BATCHES, OVERFLOW, Reference, check, with_loss


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


scaled = ops.MultitypeFuncGraph("scaled")
scaled.register("Tensor", "Tensor")(ops.mul)


class Missing(nn.TrainOneStepWithLossScaleCell):
    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        grads = self.grad(self.network, self.weights)(*inputs, self.scale_sense)
        return self.hyper_map(self.fault, grads), loss


WRONG: list[Any] = [
    (F.partial(scaled, 2), TypeError, r"'scaled' has no function for \(Int, Tensor\); registered are"),
    (F.partial(scaled), TypeError, r"no function for \(Tensor\)"),
    (F.partial(ops.assign, 3), TypeError, "assign takes a Parameter"),
    (lambda g: nn.TrainOneStepWithLossScaleCell.get_overflow_status(None, None, ()), ValueError, "give the gradients"),
    (lambda g: nn.TrainOneStepWithLossScaleCell.get_overflow_status(None, g, None), ValueError, "give the gradients"),
    (lambda g: ops.clip_by_global_norm(g), TypeError, "clip_by_global_norm takes a tuple or list"),
    (lambda g: ops.HyperMap()(ops.add, (g,), (g, g)), ValueError, "pytrees of one structure"),
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
    assert caught.value.location is not None and caught.value.location.file.endswith("test_step_methods.py")
