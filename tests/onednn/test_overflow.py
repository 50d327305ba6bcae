"""The overflow check on oneDNN: flags are those of NumPy, and a step with loss scaling is one segment."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import graphls
from benchmarks.peers import graphls_networks as networks
from graphls import amp, nn
from graphls.inspect.testing.samples import single
from graphls.ir import interpret
from graphls.ir.registry import lookup
from graphls.ir.types import Type, bool_, float32
from graphls.passes.schedule.partition import Partition
from graphls.primitives.primitive import Sample, f32, of
from graphls.runtime.onednn.kernels.overflow import Check
from graphls.runtime.onednn.part import OnednnPart
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.plan import PlanSession

TYPES = f32(300, 99), f32(7), f32(), f32(0, 3), of(bool_), of(bool_, 5)
LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, LARGEST, -LARGEST, 0.0])
@pytest.mark.parametrize("operand", [0, 1, 2, 4, 5])
def test_flags_are_those_of_numpy(number: float, operand: int) -> None:
    graph = single(lookup("overflow_get"), Sample(TYPES), TYPES)
    session = PlanSession(Partition("onednn").run(graph), {})
    assert all(isinstance(part, OnednnPart) for part in session.first)
    arrays = [np.ones(t.shape, t.dtype.numpy) if t.dtype is not bool_ else np.zeros(t.shape, bool) for t in TYPES]
    for _ in range(2):  # the second time it may not remember the first
        assert not np.asarray(session.run(arrays)[0])
        changed = [array.copy() for array in arrays]
        changed[operand].reshape(-1)[-2:] = number  # two of the largest have no sum
        assert np.asarray(session.run(changed)[0]) == interpret(graph, changed)[0][0]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1.0])
def test_a_flag_of_numbers_that_no_kernel_reads(number: float) -> None:
    tensors = [graphls.Tensor(np.ones((2, 3), np.float64)), graphls.Tensor(np.ones(3, np.float32))]
    finite = graphls.compile(amp.all_finite, tensors, engine="onednn")
    wrong = [graphls.Tensor(np.array([[0, 1, 2], [3, 4, number]], np.float64)), tensors[1]]
    assert bool(finite(wrong)) == np.isfinite(number) and bool(finite(tensors))


def scaled(network: nn.Cell, x: Any, y: Any, scale: float) -> graphls.Compiled:
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    update = nn.Momentum(loss.trainable_params(), 0.02, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(loss, update, nn.DynamicLossScaleUpdateCell(scale, 2, 3))
    return graphls.compile(cell.set_train(), x, y, engine="onednn")


@pytest.mark.parametrize("name", ["lenet", "mlp"])
def test_a_step_with_loss_scaling_is_one_segment(name: str) -> None:
    network, shape = (networks.lenet(10), (4, 1, 32, 32)) if name == "lenet" else (networks.mlp(20, 32, 10), (8, 20))
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    y = np.arange(shape[0], dtype=np.int32)
    step = scaled(network, x, y, 2.0**127)
    assert [segment.engine for segment in step.plan.segments] == ["onednn"]
    flags = [bool(step(x, y)[1].asnumpy()) for _ in range(20)]
    assert any(flags) and not all(flags)


def test_an_overflow_changes_no_state_but_the_scale() -> None:
    x = np.random.default_rng(0).normal(size=(8, 20)).astype(np.float32)
    y = np.arange(8, dtype=np.int32)
    step = scaled(networks.mlp(20, 32, 10), x, y, 1024.0)
    step(x, y)
    before = {name: p.asnumpy().tobytes() for name, p in step.parameters.items()}
    assert step(np.full_like(x, np.nan), y)[1].asnumpy()
    changed = {name for name, p in step.parameters.items() if p.asnumpy().tobytes() != before[name]}
    assert changed == {"current_iterator_step", "last_overflow_iterator_step", "scale_sense"}


def parts(step: graphls.Compiled) -> list[OnednnPart]:
    session = step._session
    return [part for part in (*session.first, *session.last) if isinstance(part, OnednnPart)]


def test_the_check_keeps_no_gradients_of_images() -> None:
    """The gradients of kernels are computed as soon as those of the images are there, as without loss scaling."""
    network = networks.mobilenet(8, 10)
    x = np.random.default_rng(0).normal(size=(4, 3, 32, 32)).astype(np.float32)
    y = np.arange(4, dtype=np.int32)
    step = scaled(network, x, y, 1024.0)
    step(x, y)
    (part,) = parts(step)
    kinds = [call.kind for call in part.program.calls]
    firsts = [kinds.index(f"convolution, gradient of {name}") for name in ("kernels", "images")]
    lasts = [len(kinds) - kinds[::-1].index(f"convolution, gradient of {name}") for name in ("kernels", "images")]
    assert firsts[0] < firsts[1] < lasts[1] < lasts[0]
    assert kinds[firsts[1] : lasts[1]].count("convolution, gradient of kernels") > 15


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_small_gradients_are_checked_together(number: float) -> None:
    network = networks.mobilenet(8, 10)
    x = np.random.default_rng(0).normal(size=(4, 3, 32, 32)).astype(np.float32)
    y = np.arange(4, dtype=np.int32)
    step = scaled(network, x, y, 1024.0)
    assert not step(x, y)[1].asnumpy()
    (part,) = parts(step)
    (check,) = [call for call in part.program.calls if isinstance(call, Check)]
    binding = part.turn()
    run, result = check.bound(binding), binding.array(check.result, check.node.output.type)
    arrays = [term.array for term in check.terms if isinstance(term.array, View)]
    assert len({each.key for term in check.terms for each in term.bounds}) < len(check.terms) // 2
    for view in arrays:
        flat = binding.array(view.buffer, Type(float32, (prod(view.layout.shape),)))
        for place in (0, -1):
            before, flat[place] = flat[place], number
            is_small = view.buffer.within is not None or flat.size <= 4096
            run()
            assert result or not is_small  # sums of large ones are computed before
            flat[place] = before
            run()
            assert not result
