"""Gradients of embeddings are rows of large arrays that are 0 before and behind their kernels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.base.errors import GraphIndexError, GraphRuntimeError
from graphls.runtime.onednn.part import OnednnPart
from graphls.runtime.onednn.program.sparse_sums import Rows
from graphls.tensors import apply
from tests.onednn.test_numpy_nodes import step_of

HEIGHT, WIDTH = 9000, 64
WORDS = np.random.default_rng(1).integers(0, HEIGHT, (20, 3, 5)).astype(np.int32)
LABELS = np.arange(20, dtype=np.int32) % 10


def added(g: Any, indices: Any) -> Any:
    """The gradient of a table of which some rows were taken."""
    return apply("gather_gradient", g, indices, axis=0, size=HEIGHT)


def gradients(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(50, WIDTH)).astype(np.float32), random.integers(0, HEIGHT, 50).astype(np.int32)


def parts(step: Any) -> list[OnednnPart]:
    return [part for part in (*step._session.first, *step._session.last) if isinstance(part, OnednnPart)]


def kinds(step: Any) -> list[str]:
    """The kinds of calls that write rows, and of kernels by elements on large arrays."""
    calls = [call for part in parts(step) for call in part.program.calls]
    large = [call for call in calls if any(b.size == 4 * HEIGHT * WIDTH for b in (*call.reads, *call.writes))]
    return [call.kind for call in large]


def test_rows_of_the_last_step_are_zero_again_in_a_large_sum() -> None:
    step = step_of(lambda g, i: ops.square(added(g, i)), *gradients(0))
    assert kinds(step) == ["rows", "elementwise", "zeros of rows"]
    for seed in range(3):
        g, indices = gradients(seed)
        with pytest.raises(GraphIndexError, match="index 9000 is out of bounds"):
            step(g, np.full_like(indices, HEIGHT))
        expected = np.zeros((HEIGHT, WIDTH), np.float32)
        np.add.at(expected, indices, g)
        np.testing.assert_allclose(step(g, indices).asnumpy(), expected**2, rtol=1e-5, atol=1e-6)


def test_a_sum_of_which_python_needs_a_result_is_written_before_that() -> None:
    step = step_of(lambda g, i: ops.cumsum(ops.square(added(g, i)), 0), *gradients(0))
    assert kinds(step)[:2] == ["rows", "elementwise"]
    g, indices = gradients(4)
    expected = np.zeros((HEIGHT, WIDTH), np.float32)
    np.add.at(expected, indices, g)
    np.testing.assert_allclose(step(g, indices).asnumpy(), np.cumsum(expected**2, 0), rtol=1e-4, atol=1e-5)


class Bags(nn.Cell):
    """Classes by bags of words with a table each."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.CellList([nn.Embedding(HEIGHT, WIDTH) for _ in range(3)])
        self.head = nn.Dense(3 * WIDTH, 10)

    def construct(self, words: Any) -> Any:
        return self.head(ops.concat([table(words[:, i]).mean(1) for i, table in enumerate(self.tables)], 1))


def trained(engine: str, optimizer: str, is_scaled: bool) -> Any:
    graphls.set_seed(3)
    loss = nn.WithLossCell(Bags(), nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    weights = loss.trainable_params()
    update = nn.Adam(weights, 0.01) if optimizer == "Adam" else nn.Momentum(weights, 0.5, 0.9)
    if is_scaled:
        cell: nn.Cell = nn.TrainOneStepWithLossScaleCell(loss, update, nn.DynamicLossScaleUpdateCell(2.0**126, 2, 3))
    else:
        cell = nn.TrainOneStepCell(loss, update)
    return graphls.compile(cell.set_train(), WORDS, LABELS, engine=engine)


def numbers(step: Any, words: np.ndarray) -> list[float]:
    result = step(words, LABELS)
    return [float(v.asnumpy()) for v in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("optimizer", ["Adam", "Momentum"])
def test_tables_learn_as_on_onnx_runtime(optimizer: str, is_scaled: bool) -> None:
    steps = [trained(engine, optimizer, is_scaled) for engine in ("onednn", "onnxruntime")]
    for number in range(12):
        one, other = (numbers(step, np.roll(WORDS, number)) for step in steps)
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_tables_of_one_size_share_the_memory_of_their_gradients() -> None:
    step = trained("onednn", "Adam", False)
    (part,) = parts(step)
    assert len(part.program.sparse) == 3 and len(part.sparse) == 1
    uses = ["rows", "elementwise", "elementwise", "zeros of rows", "elementwise"]
    assert [kind for kind in kinds(step) if kind != "gather"] == uses * 3


def test_a_step_behind_one_that_failed_begins_with_zeros() -> None:
    step, other = (trained("onednn", "Adam", False) for _ in range(2))
    (part,) = parts(step)
    states = {name: parameter.asnumpy() for name, parameter in step.parameters.items()}
    zeros = [i for i, c in enumerate(part.program.calls) if isinstance(c, Rows) and c.rows is None]
    calls = part.turn().calls
    call, calls[zeros[0]] = calls[zeros[0]], partial(int, 1)
    with pytest.raises(GraphRuntimeError, match="oneDNN could not run a zeros of rows"):
        step(WORDS, LABELS)
    calls[zeros[0]] = call
    for name, parameter in step.parameters.items():
        parameter.set_data(graphls.Tensor(states[name]))
    words = np.roll(WORDS, 7)
    assert [numbers(step, words) for _ in range(3)] == [numbers(other, words) for _ in range(3)]
