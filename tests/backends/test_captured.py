"""Steps that are recorded as CUDA graphs, on a double of the runtime that records as the real one does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphls
from graphls import nn, ops
from graphls.runtime.lowering import lower
from graphls.runtime.onnxruntime import captured
from tests.cuda.double import MadeUpRuntime, make_up_a_gpu
from tests.networks.steps import batch, build

F32 = np.float32
STEPS = 6


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> MadeUpRuntime:
    """A GPU that is none."""
    return make_up_a_gpu(monkeypatch)


def trained(name: str, form: str, **options: Any) -> tuple[list[Any], list[Any], graphls.Compiled]:
    """What some steps give, and the states behind them."""
    cell, inputs = build(name, form)
    step = graphls.compile(cell, *inputs, device=graphls.Cuda(**options))
    results = [[output.asnumpy() for output in step(*batch(name, seed))] for seed in range(STEPS)]
    return results, [p.asnumpy() for p in step.parameters.values()], step


@pytest.mark.parametrize("name", ["mlp", "lenet", "unet"])
def test_a_recorded_step_has_the_bits_of_one_that_is_not(name: str, gpu: MadeUpRuntime) -> None:
    """The runtime runs a step twice while it records it, so that states would be written twice."""
    results, states, step = trained(name, "float32", graph=True)
    plain_results, plain_states, _ = trained(name, "float32")
    assert isinstance(step._session, captured.CapturedSession)
    for found, expected in zip((*results, states), (*plain_results, plain_states), strict=True):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


class Counter(nn.Cell):
    """A state that is updated in place, and one that has two buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.count = graphls.Parameter(np.zeros(3, F32), name="count")
        self.twin = graphls.Parameter(np.zeros(3, F32), name="twin")
        self.drop = nn.Dropout(p=0.5)

    def construct(self, x: Any) -> Any:
        count = self.count + x
        self.count, self.twin = count, self.twin * 0 + self.count
        return count, self.drop(ops.ones((40, 40), graphls.float32)), ops.sum(x)


def counted(step: Any, cell: Counter, steps: int) -> None:
    before = cell.count.asnumpy()
    for number in range(1, steps + 1):
        count, mask, total = step(np.ones(3, F32))
        np.testing.assert_array_equal(count.asnumpy(), before + number)
        np.testing.assert_array_equal(cell.count.asnumpy(), before + number)
        np.testing.assert_array_equal(cell.twin.asnumpy(), before + number - 1)
        assert 0.3 < (mask.asnumpy() > 0).mean() < 0.7 and float(total) == 3


def test_states_that_are_set_keep_their_place(gpu: MadeUpRuntime) -> None:
    cell = Counter().set_train()
    step = graphls.compile(cell, np.ones(3, F32), device=graphls.Cuda(graph=True))
    assert step._session.swapped
    counted(step, cell, 3)
    made = len(step._session.recordings)
    for value in (10, 20, 30):
        cell.count.set_data(np.full(3, value, F32))
        counted(step, cell, 3)
    assert len(step._session.recordings) == made == 2


def test_states_that_another_step_moves_are_followed(gpu: MadeUpRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "MOST", 4)
    cell = Counter().set_train()
    step = graphls.compile(cell, np.ones(3, F32), device=graphls.Cuda(graph=True))
    other = graphls.compile(cell, np.ones(3, F32), device="cuda")
    on_host = graphls.compile(cell, np.ones(3, F32), device="cpu")
    for others in [(other, on_host), (other,), (on_host,)] * 3:
        for each in (step, *others):
            counted(each, cell, 2)
    numbers = [r.options["gpu_graph_id"] for r in step._session.recordings.values()]
    assert [n for n in numbers if n != "-1"] == [str(n) for n in range(1, 1 + min(4, len(numbers)))]


def test_outputs_of_earlier_steps_and_of_steps_as_inputs_keep_their_values(gpu: MadeUpRuntime) -> None:
    step = graphls.compile(lambda x: (x + 1, ops.sum(x)), np.ones((50, 50), F32), device=graphls.Cuda(graph=True))
    results = [step(np.full((50, 50), value, F32)) for value in range(3)]
    last = step(results[2][0])
    assert [float(y.asnumpy()[0, 0]) for y, _ in (*results, last)] == [1, 2, 3, 4]
    assert [float(total) for _, total in (*results, last)] == [0, 2500, 5000, 7500]


def test_bfloat16_leaves_as_what_it_is(gpu: MadeUpRuntime) -> None:
    x = graphls.Tensor(np.ones((2, 3), F32), graphls.bfloat16)
    step = graphls.compile(lambda x: (x + x, ops.sum(x)), x, device=graphls.Cuda(graph=True))
    for _ in range(2):
        twice, total = step(x)
        assert twice.dtype is total.dtype is graphls.bfloat16 and str(twice.asnumpy().dtype) == "bfloat16"
        assert float(total) == 6 and float(twice.asnumpy()[0, 0]) == 2


def test_a_loop_is_refused_at_its_line(gpu: MadeUpRuntime) -> None:
    def sums(x: Any) -> Any:
        while ops.sum(x) < 10:
            x = x + 1
        return x

    with pytest.raises(ValueError, match=r"holds no loop.*graph=False.*test_captured") as caught:
        graphls.compile(sums, np.ones(3, F32), device=graphls.Cuda(graph=True))
    assert isinstance(caught.value, graphls.GraphlsError)


def test_an_older_runtime_is_refused(gpu: MadeUpRuntime) -> None:
    gpu.__version__ = "1.23.2"
    with pytest.raises(RuntimeError, match=r"1\.23\.2 records no CUDA graph that can be trusted.*graph=False"):
        graphls.compile(ops.exp, np.ones(3, F32), device=graphls.Cuda(graph=True))


def test_no_operator_for_a_gpu_joins_more_than_a_recording_holds() -> None:
    x = np.arange(70, dtype=F32)
    step = graphls.compile(lambda x: ops.concat([x[i : i + 1] * 2 for i in range(70)]), x)
    for device, most in (("cpu", 70), ("cuda", 32)):
        model = lower(step.graph, device=device).model
        assert max(len(node.input) for node in model.graph.node if node.op_type == "Concat") == most
        feeds = {model.graph.input[0].name: x}
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(session.run(None, feeds)[0], 2 * x)


def test_a_failing_recording_leaves_the_states(gpu: MadeUpRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Counter().set_train()
    step = graphls.compile(cell, np.ones(3, F32), device=graphls.Cuda(graph=True))
    counted(step, cell, 2)
    step._session.recordings.clear()
    cell.count.set_data(np.full(3, 5, F32))

    def fail(binding: Any, options: Any) -> None:
        raise RuntimeError("CUDA failure 2: out of memory ; GPU=0")

    working = step._session.session._sess.run_with_iobinding
    monkeypatch.setattr(step._session.session._sess, "run_with_iobinding", fail)
    with pytest.raises(MemoryError, match="memory of the GPU does not hold this step"):
        step(np.ones(3, F32))
    monkeypatch.setattr(step._session.session._sess, "run_with_iobinding", working)
    np.testing.assert_array_equal(cell.count.asnumpy(), np.full(3, 5))
    counted(step, cell, 2)


def test_a_profile_is_of_kernels_that_are_launched(gpu: MadeUpRuntime) -> None:
    step = graphls.compile(lambda x: ops.exp(x) + 1, np.ones(3, F32), device=graphls.Cuda(graph=True))
    assert len(step.profile(np.ones(3, F32), steps=3).runs) == 3
    assert "enable_cuda_graph" not in gpu.sessions[-1]
