"""Threads: a step that several call, steps on common states, and cells that are used while another thread compiles."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, nn, ops
from graphls.nn.cell_calls import call_eagerly
from graphls.train import Model

F32 = np.float32
BACKENDS = ["onnxruntime", "numpy"]


@pytest.fixture(autouse=True)
def fast_switching() -> Iterator[None]:
    """Let threads take turns so often that what can go wrong does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Do work in several threads at once; raises what one of them raised."""
    errors: list[BaseException] = []
    begin = threading.Barrier(count)

    def run(number: int) -> None:
        begin.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


class Counter(nn.Cell):
    """Counts its calls in two states, one of them with two buffers, and gives twice its input."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = graphls.Parameter(np.zeros(1, F32), name="calls")
        self.twin = graphls.Parameter(np.zeros(1, F32), name="twin")

    def construct(self, x: Any) -> Any:
        self.calls = self.calls + 1
        self.twin = self.twin + 1
        return x * 2, self.twin - self.calls


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_that_many_threads_call_gives_each_its_answer_and_loses_no_state(backend: str) -> None:
    cell = Counter()
    step = graphls.compile(cell, np.zeros((4, 3), F32), backend=backend)

    def work(number: int) -> None:
        for i in range(100):
            doubled, difference = step(np.full((4, 3), number * 1000 + i, F32))
            assert (doubled.asnumpy() == 2 * (number * 1000 + i)).all() and difference.asnumpy() == 0

    in_threads(6, work)
    assert cell.calls.asnumpy() == cell.twin.asnumpy() == 600


@pytest.mark.parametrize("backend", BACKENDS)
def test_repeated_steps_and_single_ones_of_one_cell_in_several_threads(backend: str) -> None:
    cell = Counter()
    step = graphls.compile(cell, np.zeros(3, F32), backend=backend)
    many = step.repeated(3)

    def work(number: int) -> None:
        for _ in range(50):
            if number % 2:
                step(np.zeros(3, F32))
            else:
                many(np.zeros((3, 3), F32))

    in_threads(4, work)
    assert cell.calls.asnumpy() == cell.twin.asnumpy() == 2 * 50 + 2 * 3 * 50


class Part(nn.Cell):
    """A step on some parameters of others."""

    def __init__(self, *parameters: Any) -> None:
        super().__init__(auto_prefix=False)
        self.parts = graphls.ParameterTuple(parameters)

    def construct(self, x: Any) -> Any:
        old = [part + 0 for part in self.parts]
        for part in self.parts:
            ops.assign(part, part + x)
        return sum(old, x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_different_steps_on_common_states(backend: str) -> None:
    a, b, c = (graphls.Parameter(np.zeros(1, F32), name=n) for n in "abc")
    steps = [graphls.compile(Part(*own), np.ones(1, F32), backend=backend) for own in ((a, b), (c,), (b, c), (a, c))]

    def work(number: int) -> None:
        for _ in range(100):
            steps[number](np.ones(1, F32))

    in_threads(4, work)
    assert [p.asnumpy().item() for p in (a, b, c)] == [200, 200, 300]


def test_values_that_are_set_and_read_while_a_step_runs() -> None:
    p, q = (graphls.Parameter(np.zeros(2000, F32), name=n) for n in "pq")
    step = graphls.compile(Part(p, q), np.ones(2000, F32))

    def work(number: int) -> None:
        for i in range(200):
            if number == 0:
                step(np.ones(2000, F32))
            elif number == 1:
                p.set_data(np.full(2000, i, F32))
            else:
                assert len(set((p if i % 2 else q).asnumpy().tolist())) == 1

    in_threads(3, work)
    assert (q.asnumpy() == 200).all()


def test_predictions_of_a_model_in_many_threads() -> None:
    net = nn.SequentialCell(nn.Dense(4, 8), nn.Dropout(p=0.5), nn.Dense(8, 2))
    model = Model(net)
    inputs = np.random.default_rng(0).normal(size=(6, 20, 1, 4)).astype(F32)
    expected = [[model.predict(Tensor(x)).asnumpy() for x in rows] for rows in inputs]

    def work(number: int) -> None:
        for x, known in zip(inputs[number], expected[number], strict=True):
            np.testing.assert_array_equal(model.predict(Tensor(x)).asnumpy(), known)

    in_threads(6, work)


def test_predictions_beside_training_have_no_dropout() -> None:
    net = nn.SequentialCell(nn.Dropout(p=0.5))
    model = Model(net)
    train_step = graphls.train.runner.TrainRunner(nn.WithLossCell(net, nn.MSELoss()), net)
    x = np.ones((4, 4), F32)

    def work(number: int) -> None:
        for _ in range(30):
            if number == 0:
                train_step.run((x, x))
            else:
                np.testing.assert_array_equal(model.predict(Tensor(x)).asnumpy(), x)

    in_threads(2, work)


def test_a_cell_that_threads_call_first_at_the_same_time() -> None:
    for _ in range(3):
        net = nn.SequentialCell(nn.Dense(3, 3), nn.ReLU())
        weight, bias = net[0].weight.asnumpy(), net[0].bias.asnumpy()

        def work(number: int, net: Any = net, weight: Any = weight, bias: Any = bias) -> None:
            x = np.full((number + 1, 3), number, F32)
            expected = np.maximum(x @ weight.T + bias, 0)
            np.testing.assert_allclose(net(Tensor(x)).asnumpy(), expected, rtol=1e-5)

        in_threads(4, work)


class Slow(nn.Cell):
    """A cell whose construct waits for what another thread does meanwhile."""

    def __init__(self, meanwhile: Callable[[], Any], elsewhere: Callable[[Callable[[], Any]], Any]) -> None:
        super().__init__()
        self.dense = nn.Dense(2, 2)
        self.results: list[Any] = []
        self.meanwhile, self.elsewhere = meanwhile, elsewhere

    def construct(self, x: Any) -> Any:
        self.results.append(self.elsewhere(self.meanwhile))
        return self.dense(x)


def in_a_thread(work: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join(200)
    return results[0]


def in_a_thread_with_a_copied_context(work: Callable[[], Any]) -> Any:
    context = contextvars.copy_context()
    return in_a_thread(lambda: context.run(work))


def in_a_thread_of_asyncio(work: Callable[[], Any]) -> Any:
    return asyncio.run(asyncio.to_thread(work))


ELSEWHERE = [in_a_thread, in_a_thread_with_a_copied_context, in_a_thread_of_asyncio]


def an_element() -> Any:
    tensor = Tensor(np.zeros(3, F32))
    tensor[1] = 5
    return tensor.asnumpy().tolist() == [0, 5, 0]


def a_parameter() -> Any:
    parameter = graphls.Parameter(np.ones(2, F32), name="other")
    return parameter.asnumpy().tolist() == [1, 1] and (parameter + 1).tolist() == [2, 2] and bool(parameter[0])


def a_random_tensor() -> Any:
    return ops.dropout(Tensor(np.ones(100, F32)), p=0.5).shape == (100,)


def an_eager_cell() -> Any:
    return call_eagerly(nn.ReLU(), (Tensor(np.array([-1, 1], F32)),), {}).asnumpy().tolist() == [0, 1]


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
@pytest.mark.parametrize("meanwhile", [an_element, a_parameter, a_random_tensor, an_eager_cell])
def test_what_another_thread_does_is_no_part_of_a_trace(
    meanwhile: Callable[[], Any], elsewhere: Callable[[Callable[[], Any]], Any]
) -> None:
    cell = Slow(meanwhile, elsewhere)
    step = graphls.compile(cell, np.zeros((2, 2), F32))
    assert cell.results and all(result is True for result in cell.results)
    assert [node.primitive.name for node in step.graph.nodes] == [
        node.primitive.name for node in graphls.compile(nn.Dense(2, 2), np.zeros((2, 2), F32)).graph.nodes
    ]
    assert {state.name for state in step.graph.states} == {"dense.weight", "dense.bias"}


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_a_tensor_of_a_trace_is_of_no_use_in_another_thread(elsewhere: Callable[[Callable[[], Any]], Any]) -> None:
    errors: list[Any] = []

    class Leaking(nn.Cell):
        def construct(self, x: Any) -> Any:
            errors.append(elsewhere(lambda: _error(lambda: x + 1)))
            return x

    graphls.compile(Leaking(), np.zeros(2, F32))
    assert isinstance(errors[0], graphls.GraphlsError)


class Wide(nn.Cell):
    """A product, in the middle of which another thread may run."""

    def __init__(self, meanwhile: Callable[[], Any] = lambda: None) -> None:
        super().__init__()
        self.meanwhile = meanwhile

    def construct(self, x: Any) -> Any:
        self.meanwhile()
        return ops.matmul(x, x)


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
def test_the_dtype_of_a_cell_that_runs_is_no_business_of_another_thread(
    elsewhere: Callable[[Callable[[], Any]], Any],
) -> None:
    x, found = Tensor(np.ones((2, 2), F32)), []
    cell = Wide(lambda: found.append(elsewhere(lambda: call_eagerly(Wide(), (x,), {}).dtype)))
    assert call_eagerly(cell.to_float(graphls.float16), (x,), {}).dtype is graphls.float16
    assert found == [graphls.float32] and call_eagerly(Wide(), (x,), {}).dtype is graphls.float32


def test_two_threads_trace_cells_that_branch_and_loop_and_share_a_part() -> None:
    shared = nn.Dense(2, 2)

    class Branching(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.part = shared

        def construct(self, x: Any) -> Any:
            for _ in range(3):
                x = self.part(x) if x.sum() > 0 else ops.relu(x)
            return x

    x = np.ones((2, 2), F32)
    expected = str(graphls.trace_graph(Branching(), x).graph).splitlines()

    def work(number: int) -> None:
        for _ in range(5):
            assert str(graphls.trace_graph(Branching(), x).graph).splitlines() == expected

    in_threads(3, work)


def _error(function: Callable[[], Any]) -> BaseException | None:
    try:
        function()
    except Exception as error:
        return error
    return None


def test_a_dataset_whose_map_uses_cells_and_parameters_trains_from_the_first_step() -> None:
    scale = graphls.Parameter(np.full(1, 2, F32), name="scale")
    double = nn.ReLU()

    def mapped(x: Any) -> Any:
        tensor = Tensor(x)
        tensor[0] = scale.asnumpy()[0]
        return double(tensor).asnumpy()

    rows = np.random.default_rng(0).normal(size=(40, 3)).astype(F32)
    dataset = graphls.dataset.NumpySlicesDataset((rows, rows), ["x", "y"], shuffle=False).map(mapped, ["x"]).batch(4)
    net = nn.Dense(3, 3)
    model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
    model.train(2, dataset)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_rests_while_a_step_is_compiled(enabled: bool) -> None:
    seen: list[bool] = []

    def traced(x: Any) -> Any:
        seen.append(gc.isenabled())
        return x + 1 if len(seen) < 2 else 1 / 0

    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        graphls.compile(traced, np.ones(2, np.float32))
        assert gc.isenabled() is enabled
        with pytest.raises(ZeroDivisionError):
            graphls.compile(traced, np.ones(2, np.float32))
        assert (gc.isenabled(), seen) == (enabled, [False, False])
    finally:
        (gc.enable if before else gc.disable)()
