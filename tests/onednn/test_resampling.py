"""Resized images and their gradients are one kernel each, with the numbers of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.runtime.onednn.library import library
from tests.onednn.test_images import assert_same, drawn, graph_of
from tests.onednn.test_program import kinds

Shape = tuple[int, ...]

RESIZED: list[tuple[str, Shape, tuple[int, ...], bool]] = [
    ("nearest", (2, 16, 4, 5), (8, 10), True), ("nearest", (1, 3, 4, 5), (12, 15), True),
    ("nearest", (2, 24, 4, 5), (4, 10), True), ("nearest", (1, 1, 7, 1), (14, 2), True),
    ("nearest", (3, 16, 6), (12,), True), ("nearest", (2, 8, 2, 3, 4), (4, 6, 8), True),
    ("nearest", (2, 16, 4, 5), (7, 9), False), ("bilinear", (2, 16, 4, 5), (8, 10), True),
    ("bilinear", (1, 3, 4, 5), (9, 7), True), ("bilinear", (2, 16, 8, 6), (4, 3), True),
    ("bilinear", (2, 5, 4, 5), (12, 5), True), ("linear", (3, 16, 6), (12,), True), ("linear", (1, 3, 6), (15,), True),
]  # fmt: skip


def gradient_of(mode: str, sizes: tuple[int, ...], **options: Any) -> Any:
    """A function that gives resized images and a gradient."""

    def resized(x: Any, g: Any) -> Any:
        y, back = ops.vjp(lambda x: ops.interpolate(x * 2.0, size=sizes, mode=mode, **options), x)
        return ops.sigmoid(y), back(g)

    return resized


def results(step: graphls.Compiled, *arrays: np.ndarray) -> list[np.ndarray]:
    y, gradients = step(*arrays)
    return [y.asnumpy(), (gradients[0] if isinstance(gradients, tuple) else gradients).asnumpy()]


@pytest.mark.parametrize(("mode", "shape", "sizes", "is_kernel"), RESIZED)
def test_resized_images_and_gradients_are_those_of_onnx_runtime(
    mode: str, shape: Shape, sizes: tuple[int, ...], is_kernel: bool
) -> None:
    rng = np.random.default_rng(0)
    x, g = (rng.normal(size=s).astype(np.float32) for s in (shape, (*shape[:2], *sizes)))
    function = gradient_of(mode, sizes)
    step = graphls.compile(function, x, g, engine="onednn")
    expected = results(graphls.compile(function, x, g, engine="onnxruntime"), x, g)
    for result, reference in zip(results(step, x, g), expected, strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-5)
    count = kinds(step)
    assert (count["resampling"], count["resampling, gradient"]) == ((1, 1) if is_kernel else (0, 0))


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_what_is_not_finite_is_spread(mode: str, special: float) -> None:
    x, g = np.ones((2, 16, 6, 6), np.float32), np.ones((2, 16, 12, 12), np.float32)
    x[0, 3, 2, 2] = g[1, 5, 6, 6] = special
    function = gradient_of(mode, (12, 12))
    step = graphls.compile(function, x, g, engine="onednn")
    expected = results(graphls.compile(function, x, g, engine="onnxruntime"), x, g)
    for result, reference in zip(results(step, x, g), expected, strict=True):
        np.testing.assert_array_equal(np.isfinite(result), np.isfinite(reference))


def test_other_coordinates_are_gathers() -> None:
    function = gradient_of("bilinear", (8, 8), align_corners=True)
    x, g = np.ones((2, 16, 4, 4), np.float32), np.ones((2, 16, 8, 8), np.float32)
    step = graphls.compile(function, x, g, engine="onednn")
    expected = results(graphls.compile(function, x, g, engine="onnxruntime"), x, g)
    for result, reference in zip(results(step, x, g), expected, strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-5)
    assert not kinds(step)["resampling"]


def test_copies_that_others_read_are_there_too() -> None:
    def build(e: Builder, x: Value) -> list[Value]:
        first = e.reshape(
            e.broadcast_to(e.reshape(x, shape=(2, 16, 3, 1, 4)), shape=(2, 16, 3, 2, 4)), shape=(2, 16, 6, 4)
        )
        wide = e.broadcast_to(e.reshape(first, shape=(2, 16, 6, 4, 1)), shape=(2, 16, 6, 4, 3))
        second = e.reshape(wide, shape=(2, 16, 6, 12))
        total = e.sum(e.reshape(second, shape=(2, 16, 3, 2, 12)), axis=(3,), keepdims=False)
        return [e.mul(second, 2.0), first, wide, total, e.sum(e.reshape(total, shape=(2, 16, 3, 4, 3)), axis=(4,))]

    graph = graph_of(build, (2, 16, 3, 4))
    count = assert_same(graph, drawn(graph))
    assert count["resampling"] == count["resampling, gradient"] == 2


@pytest.mark.skipif(not library().has_bfloat16, reason="no instructions for bfloat16")
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_images_of_bfloat16_have_the_kernels(mode: str) -> None:
    x, g = np.ones((2, 16, 4, 4), np.float32), np.ones((2, 16, 8, 8), np.float32)

    def function(x: Any, g: Any) -> Any:
        y, back = ops.vjp(lambda x: ops.interpolate(x * 2, size=(8, 8), mode=mode), ops.cast(x, graphls.bfloat16))
        gradients = back(ops.cast(g, graphls.bfloat16))
        first = gradients[0] if isinstance(gradients, tuple) else gradients
        return ops.cast(y, graphls.float32), ops.cast(first, graphls.float32)

    step = graphls.compile(function, x, g, engine="onednn")
    y, gradient = (result.asnumpy() for result in step(x, g))
    np.testing.assert_allclose(y, 2)
    np.testing.assert_allclose(gradient.sum((2, 3)), 128, rtol=1e-2)
    count = kinds(step)
    assert count["resampling"] == count["resampling, gradient"] == 1


def test_losses_are_those_of_onnx_runtime() -> None:
    losses = []
    for engine in ("onednn", "onnxruntime"):
        graphls.set_seed(1)
        x = np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype(np.float32)
        cells = [
            nn.Conv2d(3, 16, 3, 2),
            nn.ReLU(),
            nn.Upsample(scale_factor=2.0, mode="nearest", recompute_scale_factor=True),
        ]
        network = nn.SequentialCell(
            *cells, nn.Conv2d(16, 16, 3, 2), nn.ReLU(), nn.Upsample((8, 8), mode="bilinear"), nn.Conv2d(16, 3, 3)
        )
        loss = nn.WithLossCell(network, nn.MSELoss())
        cell = nn.TrainOneStepCell(loss, nn.SGD(loss.trainable_params(), 0.05)).set_train()
        step = graphls.compile(cell, x, x, engine=engine)
        losses.append([float(step(x, x).asnumpy()) for _ in range(20)])
        assert {segment.engine for segment in step.plan.segments} == {engine}
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
