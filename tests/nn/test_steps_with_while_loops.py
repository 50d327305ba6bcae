"""Training steps through loops whose number of rounds is not known: like unrolled ones, under loss scaling too."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import nn, ops
from graphls.passes.windows import verify_windows
from graphls.runtime.lowering import lower

BACKENDS = ["numpy", "onnxruntime"]
MODES = ["outputs", "window"]
GENERATOR = np.random.default_rng(0)
X, Y = (GENERATOR.normal(size=(8, n)).astype(np.float32) for n in (4, 3))


class Deep(nn.Cell):
    """A layer that is applied until its outputs are large, or so many times in Python."""

    def __init__(self, times: int | None = None, recomputed: bool = False) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Dense(4, 6), Residual(), nn.Dense(6, 3)
        self.times = times
        if recomputed:
            self.layer.recompute()

    def construct(self, x: Any) -> Any:
        h = ops.tanh(self.first(x))
        if self.times is None:
            h = ops.while_loop(lambda h: ops.sum(ops.cast(h * h, graphls.float32)) < 400.0, self.layer, h)
        for _ in range(self.times or 0):
            h = self.layer(h)
        return self.last(h)


class Residual(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(6, 6)

    def construct(self, h: Any) -> Any:
        return ops.tanh(self.dense(h)) * 1.3 + h


def made(scale: float, half: bool = False, **options: Any) -> Any:
    graphls.set_seed(1)
    net = Deep(**options)
    net = net.to_float(graphls.float16) if half else net
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    return nn.TrainOneStepWithLossScaleCell(
        nn.WithLossCell(net, nn.MSELoss()), optimizer, nn.DynamicLossScaleUpdateCell(scale, 2, 1000)
    )


@pytest.mark.filterwarnings("ignore:Gradients in float32")
@pytest.mark.parametrize("recomputed", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_is_that_of_the_unrolled_network(backend: str, recomputed: bool) -> None:
    cells = made(16.0, recomputed=recomputed), made(16.0, times=6)
    losses = []
    for cell in cells:
        step = graphls.compile(cell, X, Y, backend=backend)
        losses.append([float(step(X, Y)[0]) for _ in range(2)])
    np.testing.assert_allclose(*losses, rtol=1e-5)
    for a, b in zip(*(cell.get_parameters() for cell in cells), strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-4, atol=1e-6, err_msg=a.name)


@pytest.mark.parametrize("mode", MODES)
def test_overflows_in_the_backward_are_skipped(mode: str) -> None:
    results = []
    for backend in BACKENDS:
        cell = made(2.0**16, half=True)
        step = graphls.compile(cell, X, Y, backend=backend, overflow_mode=mode)
        verify_windows(step.graph)
        results.append(np.array([[float(v) for v in step(X, Y)] for _ in range(5)]))
    np.testing.assert_allclose(*results, rtol=2e-3)
    skipped = results[0][:, 1]
    assert 0 < skipped.sum() < len(skipped)
    assert np.all(np.isfinite(results[0][:, 0]))
    for device in ("cpu", "cuda"):
        onnx.checker.check_model(lower(step.graph, device=device).model, full_check=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
def test_only_the_mode_window_sees_an_overflow_that_no_gradient_shows(mode: str, backend: str) -> None:
    """The gradient of each round is infinite on a way that a mask closes behind it."""

    class Masked(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = graphls.Parameter(np.ones(2, np.float16), name="weight")

        def construct(self, x: Any) -> Any:
            def body(state: Any) -> Any:
                v, n = state
                closed = ops.where(ops.isnan(v), v, ops.zeros_like(v))
                return v + closed * np.float16(1e-4) * np.float16(6e4), n + 1

            v, _ = ops.while_loop(lambda state: state[1] < 2, body, (self.weight * x, 0))
            return ops.sum(ops.cast(v, graphls.float32))

    cell = Masked()
    step = nn.TrainOneStepWithLossScaleCell(
        cell, nn.SGD(cell.trainable_params(), 0.1), nn.DynamicLossScaleUpdateCell(4, 2, 1000)
    )
    x = np.ones(2, np.float16)
    overflow = graphls.compile(step, x, backend=backend, overflow_mode=mode)(x)[1]
    assert bool(overflow) == (mode == "window")


@pytest.mark.filterwarnings("ignore:Gradients in float32")
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_while_loop_trains_until_the_loss_is_small(mode: str, half: bool) -> None:
    """Steps with loops of their own in the rounds of a loop, whose windows are proven there."""

    class Training(nn.Cell):
        def __init__(self, step: Any) -> None:
            super().__init__(auto_prefix=False)
            self.step = step

        def construct(self, x: Any, y: Any) -> Any:
            def body(state: Any) -> Any:
                return state[0] + 1, ops.cast(self.step(x, y)[0], graphls.float32)

            start = 0, ops.cast(ops.sum(x) * 0 + 100, graphls.float32)
            return ops.while_loop(lambda s: ops.logical_and(s[0] < 8, s[1] > 0.9), body, start)

    single = graphls.compile(made(2.0**12, half), X, Y, backend="numpy", overflow_mode=mode)
    losses = [float(single(X, Y)[0]) for _ in range(2)]
    assert losses[0] > 0.9 > losses[1]
    count, loss = graphls.compile(Training(made(2.0**12, half)), X, Y, backend="numpy", overflow_mode=mode)(X, Y)
    assert int(count) == 2
    np.testing.assert_allclose(float(loss), losses[1], rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Gradients in float32")
def test_repeated_steps_are_single_ones() -> None:
    single, many = (graphls.compile(made(16.0), X, Y) for _ in range(2))
    found = many.repeated(3)(np.stack([X] * 3), np.stack([Y] * 3))[0].asnumpy()
    np.testing.assert_array_equal(found, [float(single(X, Y)[0]) for _ in range(3)])


def test_everything_that_shows_a_step_shows_loops_and_stacks(tmp_path: Any) -> None:
    step = graphls.compile(made(2.0**16, half=True), X, Y)
    step(X, Y)
    assert "while_loop" in str(step.graph) and "f16[?,8,6]" in str(step.graph)
    for shown in (step.summary(), step.profile(X, Y, steps=1), step.explain_overflow(X, Y), step.gradient_ranges(X, Y)):
        assert str(shown) and shown._repr_html_()
    assert step.graph._repr_svg_()
