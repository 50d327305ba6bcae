"""bfloat16 on oneDNN: kernels of its own, float32 around them, and roundings where the graph has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops
from graphls.inspect.testing.samples import draw, in_dtype, single
from graphls.ir import interpret
from graphls.ir.registry import lookup
from graphls.ir.types import bfloat16, float32
from graphls.passes.schedule.partition import Partition
from graphls.primitives.primitive import Sample
from graphls.runtime.onednn.library import Library
from graphls.runtime.onednn.program.program import computed
from graphls.runtime.onednn.rules import RULES, takes
from graphls.runtime.plan import PlanSession
from tests.onednn.test_recurrent import LOOPS, MATRIX, ROWS
from tests.onednn.test_training import NETWORKS, SCALES, network_and_batch

APART = {"constant", "scan"}
DIGIT = 2.0**-8
"""The relative size of the last digit."""


@pytest.fixture(autouse=True)
def _needs_instructions() -> None:
    if bfloat16 not in computed():
        pytest.skip("this processor has no instructions for bfloat16")


def cases() -> list[Any]:
    samples = ((name, sample) for name in sorted({*RULES} - APART) for sample in lookup(name).samples)
    return [pytest.param(*case, id=f"{case[0]}-{number}") for number, case in enumerate(samples)]


@pytest.mark.parametrize(("name", "sample"), cases())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_kernel_gives_what_numpy_gives_but_for_roundings(name: str, sample: Sample) -> None:
    dtypes = in_dtype(sample, bfloat16)
    graph = single(lookup(name), sample, dtypes)
    if not all(map(takes, graph.nodes)):
        pytest.skip("it is left to other engines")
    arrays = draw(sample, dtypes)
    results = [np.asarray(r) for r in PlanSession(Partition("onednn").run(graph), {}).run(arrays)]
    for result, expected in zip(results, interpret(graph, arrays)[0], strict=True):
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        numbers = np.asarray(expected, np.float64)
        scale = np.abs(numbers).max(initial=1e-3)
        np.testing.assert_allclose(np.asarray(result, np.float64), numbers, rtol=2 * DIGIT, atol=scale * DIGIT)


def run(function: Callable[..., Any], *arrays: np.ndarray) -> tuple[graphls.Compiled, np.ndarray]:
    step = graphls.compile(function, *arrays, engine="onednn")
    assert [segment.engine for segment in step.plan.segments] == ["onednn"]
    return step, step(*arrays).asnumpy()


def kinds(step: graphls.Compiled) -> list[str]:
    return [call.kind for part in (*step._session.first, *step._session.last) for call in part.program.calls]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(bfloat16.numpy).astype(np.float32)


def test_a_cast_to_bfloat16_and_back_rounds() -> None:
    x = normal(33, 7)
    _, result = run(lambda x: ops.cast(ops.cast(x, graphls.bfloat16), graphls.float32) + 0.0, x)
    assert (result == rounded(x)).all()


def test_results_of_bfloat16_are_exact_outside() -> None:
    x = normal(5, 9)
    _, result = run(lambda x: ops.cast(x, graphls.bfloat16), x)
    assert (np.asarray(result, np.float32) == rounded(x)).all()


def test_a_sum_of_float32_reads_bfloat16_without_a_copy_of_it() -> None:
    x, y = normal(64, 64), normal(64, 64)

    def total(x: Any, y: Any) -> Any:
        product = ops.cast(ops.matmul(ops.cast(x, graphls.bfloat16), ops.cast(y, graphls.bfloat16)), graphls.float32)
        return product + x

    step, result = run(total, x, y)
    assert kinds(step).count("reorder") == 2
    np.testing.assert_allclose(result, rounded(rounded(x) @ rounded(y)) + x, rtol=DIGIT, atol=0.1)


@pytest.mark.parametrize("shape", [(6, 40), (2, 3, 33)])
def test_a_function_of_float32_between_casts_is_one_kernel_on_bfloat16(shape: tuple[int, ...]) -> None:
    def narrow(x: Any) -> Any:
        x = ops.cast(ops.cast(x, graphls.bfloat16) * 2.0, graphls.float32)
        return ops.cast(ops.tanh(x), graphls.bfloat16) * 0.5

    x = normal(*shape)
    step, result = run(narrow, x)
    assert kinds(step).count("reorder") == 2
    expected = rounded(rounded(np.tanh(rounded(rounded(x) * 2))) * 0.5)
    np.testing.assert_allclose(np.asarray(result, np.float32), expected, rtol=2 * DIGIT)


def test_what_has_no_kernel_is_computed_in_float32_and_rounded_once() -> None:
    x = normal(6, 12)
    _, result = run(lambda x: ops.cast(ops.log_softmax(ops.cast(x, graphls.bfloat16)), graphls.float32), x)
    exact = rounded(x) - np.log(np.exp(rounded(x)).sum(-1, keepdims=True))
    assert (result == rounded(exact.astype(np.float32))).all()


def test_nothing_of_it_is_taken_without_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Library, "instruction_set", "avx512_core")
    x = normal(300, 300)
    step = graphls.compile(lambda x: ops.cast(ops.cast(x, graphls.bfloat16) * 3.0, graphls.float32), x, engine="onednn")
    assert computed() == (float32,)
    assert [segment.engine for segment in step.plan.segments] == ["onnxruntime"]


def step_of(name: str, engine: str, is_scaled: bool) -> tuple[Any, tuple[Any, Any]]:
    network, x, y = network_and_batch(name)
    narrow = amp.auto_mixed_precision(network, "O2", graphls.bfloat16)
    loss = nn.WithLossCell(narrow, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    update = nn.Momentum(loss.trainable_params(), 0.02, 0.9)
    cell: nn.Cell = nn.TrainOneStepCell(loss, update)
    if is_scaled:
        manager = nn.DynamicLossScaleUpdateCell(SCALES.get(name, 2.0**127), 2, 3)
        cell = nn.TrainOneStepWithLossScaleCell(loss, update, manager)
    return graphls.compile(cell.set_train(), x, y, engine=engine), (x, y)


def history(name: str, engine: str, is_scaled: bool) -> np.ndarray:
    step, inputs = step_of(name, engine, is_scaled)
    results = [step(*inputs) for _ in range(8)]
    return np.array([[float(r.asnumpy()) for r in (result if is_scaled else (result,))] for result in results])


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore:Gradients in")
def test_losses_flags_and_scales_are_those_of_onnx_runtime(name: str, is_scaled: bool) -> None:
    results, expected = history(name, "onednn", is_scaled), history(name, "onnxruntime", is_scaled)
    np.testing.assert_allclose(results[:, 0], expected[:, 0], rtol=3e-2)
    assert (results[:, 1:] == expected[:, 1:]).all()


@pytest.mark.parametrize("name", ["convolutional", "lenet", "mlp", "gpt", "lstm"])
def test_a_step_is_one_segment(name: str) -> None:
    step, _ = step_of(name, "onednn", False)
    assert [segment.engine for segment in step.plan.segments] == ["onednn"]


def test_normalisations_between_casts_read_and_write_bfloat16() -> None:
    step, _ = step_of("convolutional", "onednn", False)
    calls = [call for part in (*step._session.first, *step._session.last) for call in part.program.calls]
    normalising = [call for call in calls if call.kind.startswith("batch normalisation")]
    assert normalising
    assert {view.layout.dtype for call in normalising for role, view in call.views.items() if role in (1, 17)} == {2}


def test_gates_and_channel_wise_convolutions_have_fast_kernels() -> None:
    network = nn.SequentialCell(
        nn.Conv2d(8, 16, 1), nn.ReLU6(), nn.Conv2d(16, 16, 3, 2, pad_mode="pad", padding=1, group=16), nn.ReLU6(),
        nn.Flatten(), nn.Dense(1024, 10),
    )  # fmt: skip
    x, y = normal(4, 8, 16, 16), np.arange(4, dtype=np.int32)
    loss = nn.WithLossCell(
        amp.auto_mixed_precision(network, "O2", graphls.bfloat16), nn.SoftmaxCrossEntropyWithLogits(sparse=True)
    )
    step = graphls.compile(
        nn.TrainOneStepCell(loss, nn.Momentum(loss.trainable_params(), 0.1, 0.9)).set_train(), x, y, engine="onednn"
    )
    assert [segment.engine for segment in step.plan.segments] == ["onednn"]
    calls = [call for part in (*step._session.first, *step._session.last) for call in part.program.calls]
    assert "where" not in {call.kind for call in calls}
    of_images = [call.primitive for call in calls if call.kind == "convolution, gradient of images"]
    assert of_images and not any(kernel.implementation.startswith("brgconv_strided") for kernel in of_images)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_gives_what_onnx_runtime_gives_but_for_roundings(loop: Callable[..., Any]) -> None:
    def narrow(x: Any, rows: Any) -> Any:
        return loop(ops.cast(x, graphls.bfloat16), ops.cast(rows, graphls.bfloat16))

    step = graphls.compile(narrow, MATRIX, ROWS, engine="onednn")
    assert [segment.engine for segment in step.plan.segments] == ["onednn"]
    expected = graphls.compile(narrow, MATRIX, ROWS, engine="onnxruntime")(MATRIX, ROWS)
    for result, other in zip(leaves(step(MATRIX, ROWS)), leaves(expected), strict=True):
        assert result.dtype == other.dtype
        scale = np.abs(other.astype(np.float64)).max()
        np.testing.assert_allclose(result.astype(np.float64), other.astype(np.float64), atol=8 * DIGIT * scale)


def leaves(results: Any) -> list[np.ndarray]:
    if isinstance(results, (tuple, list)):
        return [leaf for each in results for leaf in leaves(each)]
    return [results.asnumpy()]


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_layer_of_lstm_is_one_fast_kernel_in_each_direction(bidirectional: bool) -> None:
    x, y = normal(4, 6, 32), np.arange(4, dtype=np.int32)

    class Network(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(32, 32, batch_first=True, bidirectional=bidirectional)
            self.scores = nn.Dense(64 if bidirectional else 32, 10)

        def construct(self, x: graphls.Tensor) -> graphls.Tensor:
            return self.scores(self.layer(x)[0][:, -1])

    def losses(engine: str) -> tuple[graphls.Compiled, list[float]]:
        graphls.set_seed(1)
        narrow = amp.auto_mixed_precision(Network(), "O2", graphls.bfloat16)
        loss = nn.WithLossCell(narrow, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        cell = nn.TrainOneStepCell(loss, nn.Momentum(loss.trainable_params(), 0.5, 0.9)).set_train()
        step = graphls.compile(cell, x, y, engine=engine)
        return step, [float(step(x, y).asnumpy()) for _ in range(10)]

    step, results = losses("onednn")
    np.testing.assert_allclose(results, losses("onnxruntime")[1], rtol=1e-2)
    assert results[-1] < results[0] - 0.2
    calls = [call for part in (*step._session.first, *step._session.last) for call in part.program.calls]
    layers = [call.primitive.implementation for call in calls if call.kind.startswith("LSTM")]
    assert len(layers) == (4 if bidirectional else 2)
    assert all(name.startswith("brgemm") for name in layers)


@pytest.mark.parametrize("words", [300, 40000])
def test_an_embedding_rounds_the_rows_of_a_step_and_no_table(words: int) -> None:
    x = np.random.default_rng(0).integers(0, words, (4, 6)).astype(np.int32)
    x[0] = x[1]
    y = np.arange(4, dtype=np.int32)

    def step_on(engine: str) -> graphls.Compiled:
        graphls.set_seed(1)
        network = nn.SequentialCell(nn.Embedding(words, 16), nn.Flatten(), nn.Dense(96, 10))
        narrow = amp.auto_mixed_precision(network, "O2", graphls.bfloat16)
        loss = nn.WithLossCell(narrow, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        cell = nn.TrainOneStepCell(loss, nn.Momentum(loss.trainable_params(), 0.5, 0.9)).set_train()
        return graphls.compile(cell, x, y, engine=engine)

    step, other = step_on("onednn"), step_on("onnxruntime")
    results = [[float(each(x, y).asnumpy()) for _ in range(5)] for each in (step, other)]
    np.testing.assert_allclose(*results, rtol=2e-2)
    calls = [call for part in (*step._session.first, *step._session.last) for call in part.program.calls]
    rounded = [call for call in calls if call.kind == "reorder" and 2 in {v.layout.dtype for v in call.views.values()}]
    assert rounded and all(view.layout.size < words * 16 for call in rounded for view in call.views.values())


def test_the_gradient_of_kernels_for_one_channel_is_no_product_of_columns() -> None:
    step, _ = step_of("lenet", "onednn", False)
    calls = [call for part in (*step._session.first, *step._session.last) for call in part.program.calls]
    kernels = [call.primitive for call in calls if call.kind == "convolution, gradient of kernels"]
    assert kernels and not any(kernel.implementation.startswith("x64:gemm") for kernel in kernels)
