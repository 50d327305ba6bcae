"""Large products that an update reads are computed behind the flag, and the overflow check bounds them by operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir import walk
from graphls.runtime.onednn.part import OnednnPart

SCALES = [1.0, 2.0**10, 2.0**126, 2.0**127]


class _Embedding(nn.Cell):
    """A classifier of bags of words, whose table is large enough to be updated behind the flag."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20_000, 64, embedding_table="normal")
        self.dense = nn.Dense(64, 10)

    def construct(self, x: Any) -> Any:
        return self.dense(ops.mean(self.table(x), 1))


def network(kind: str) -> tuple[nn.Cell, np.ndarray[Any, Any]]:
    """A network with a product of that kind that is larger than its operands, and a batch of 4."""
    generator = np.random.default_rng(0)
    if kind == "embedding":
        return _Embedding(), generator.integers(0, 20_000, (4, 7)).astype(np.int32)
    if kind == "dense":
        cell = nn.SequentialCell(nn.Dense(1200, 1100), nn.ReLU(), nn.Dense(1100, 10))
        return cell, generator.normal(size=(4, 1200)).astype(np.float32)
    layers = (nn.Conv2d(3, 256, 3, has_bias=True), nn.ReLU(), nn.Conv2d(256, 512, 3, stride=2), nn.Flatten())
    cell = nn.SequentialCell(*layers, nn.Dense(512 * 4, 10))
    return cell, generator.normal(size=(4, 3, 4, 4)).astype(np.float32)


def scaled(kind: str, scale: float, engine: str) -> tuple[graphls.Compiled, np.ndarray[Any, Any]]:
    """A step with loss scaling."""
    graphls.set_seed(1)
    cell, x = network(kind)
    loss = nn.WithLossCell(cell, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(loss.trainable_params(), 1e-3, 0.9)
    update = nn.DynamicLossScaleUpdateCell(scale, 2, 3)
    step = nn.TrainOneStepWithLossScaleCell(loss, optimizer, update).set_train()
    return graphls.compile(step, x, LABELS, engine=engine), x


LABELS = np.arange(4, dtype=np.int32)
KINDS = "dense", "convolution", "embedding"
CALLS = {"dense": "matrix product", "convolution": "convolution, gradient of kernels", "embedding": "gather_gradient"}


def calls(parts: Sequence[Any], kind: str) -> list[Any]:
    """The calls of a kind in parts."""
    assert all(isinstance(part, OnednnPart) for part in parts)
    return [call for part in parts for call in part.program.calls if call.kind == kind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_product_is_computed_behind_the_flag(kind: str) -> None:
    step, x = scaled(kind, 2.0**10, "onednn")
    step(x, LABELS)
    session = step._session
    (largest,) = calls(session.branches[1], CALLS[kind])
    assert not session.branches[0] or not calls(session.branches[0], CALLS[kind])
    size = largest.node.output.type.nbytes
    assert size > 4_000_000
    assert all(buffer.size < size // 4 for part in session.first for buffer in part.program.outputs)
    assert sum(array.nbytes for _, array in session.context.private.values()) < size


def test_a_profile_has_the_node_of_a_product_behind_the_flag() -> None:
    step, x = scaled("dense", 2.0**10, "onednn")
    profile = step.profile(x, LABELS, steps=1)
    kernels = [k for run in profile.runs for k in run.kernels if k.operator.startswith(CALLS["dense"])]
    nodes = {*walk(step.graph)}
    assert kernels and all(kernel.node in nodes for kernel in kernels)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_flags_and_losses_are_those_of_onnx_runtime(kind: str, scale: float) -> None:
    results: list[Any] = []
    for engine in ("onednn", "onnxruntime"):
        step, x = scaled(kind, scale, engine)
        results.append(np.array([[float(v.asnumpy()) for v in step(x, LABELS)] for _ in range(10)]))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
    assert (results[0][:, 1:] == results[1][:, 1:]).all()
    assert results[0][:, 1].any() == (scale >= 2.0**126)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("kind", ["dense", "convolution"])
@pytest.mark.parametrize("number", [np.nan, np.inf, 1e38])
def test_a_step_that_overflows_leaves_the_states(kind: str, number: float) -> None:
    step, x = scaled(kind, 2.0**10, "onednn")
    assert not step(x, LABELS)[1].asnumpy()
    before = {name: p.asnumpy().tobytes() for name, p in step.parameters.items()}
    wrong = x.copy()
    wrong.reshape(-1)[-1] = number
    assert step(wrong, LABELS)[1].asnumpy()
    changed = {name for name, p in step.parameters.items() if p.asnumpy().tobytes() != before[name]}
    assert changed == {"current_iterator_step", "last_overflow_iterator_step", "scale_sense"}
    assert not step(x, LABELS)[1].asnumpy()


@pytest.mark.parametrize("size", [1e-3, 1e18, 1e19, 1e20, 1e25])
def test_a_bound_that_says_nothing_is_followed_by_an_exact_check(size: float) -> None:
    """Products of images of 1e25 and gradients of 1e-15 are finite, though the squares of the images are not."""
    results: list[Any] = []
    for engine in ("onednn", "onnxruntime"):
        graphls.set_seed(1)
        x = np.random.default_rng(0).normal(size=(4, 1200)).astype(np.float32) * np.float32(size)
        target = np.random.default_rng(1).normal(size=(4, 1100)).astype(np.float32)
        cell = nn.SequentialCell(nn.Dense(1200, 1100, weight_init="zeros"))
        loss = nn.WithLossCell(cell, nn.MSELoss())
        update = nn.FixedLossScaleUpdateCell(2.0**4)
        optimizer = nn.Momentum(loss.trainable_params(), 1e-30, 0.9)
        step = graphls.compile(
            nn.TrainOneStepWithLossScaleCell(loss, optimizer, update).set_train(), x, target, engine=engine
        )
        flag = bool(step(x, target)[1].asnumpy())
        results.append((flag, step.parameters["moments.0.weight"].asnumpy()))
    assert not results[0][0] and not results[1][0]
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-5, atol=1e-6 * float(np.abs(results[1][1]).max()))


def test_a_check_is_bound_once_though_each_step_brings_an_operand() -> None:
    step, x = scaled("dense", 2.0**10, "onednn")
    step(x, LABELS)
    (part,) = step._session.first
    number = next(i for i, call in enumerate(part.program.calls) if call.kind == "overflow check")
    before = part.turn().calls[number]
    for _ in range(2):  # there are two bindings, as a count of steps is swapped
        step(x.copy(), LABELS)
    assert part.turn().calls[number] is before
