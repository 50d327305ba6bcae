"""A Ctrl-C in a step on XLA, the first one included, and forks of a process that has run one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Parameter, Tensor, nn
from graphls.ir.errors import GraphRuntimeError
from graphls.runtime.xla.call import ProgramCall
from tests.interrupting import assert_steps_are_whole, signalled_at
from tests.sharing.test_forks import in_child

jax = pytest.importorskip("jax")

X = np.ones(4000, np.float32)


class Sum(nn.Cell):
    """A state that a step writes in the memory of its old value."""

    def __init__(self) -> None:
        super().__init__()
        self.total = Parameter(np.zeros(4000, np.float32), name="total")

    def construct(self, x: Any) -> Any:
        self.total = self.total + x
        return x.sum()


def stepped(x: Any = X) -> tuple[Sum, Any]:
    cell = Sum()
    step = graphls.compile(cell, x, engine="xla")
    assert all(write.in_place for write in step.graph.writes)
    return cell, step


def test_a_first_step_that_is_interrupted_leaves_the_states_of_one_step() -> None:
    cell, step = stepped()
    step(X)
    place, is_reached = 0, True
    while is_reached:
        before, step = cell.total.asnumpy(), graphls.compile(cell, X, engine="xla")
        is_reached = signalled_at(place, lambda step=step: step(X))
        assert (cell.total.asnumpy() == before + step.version.ticks).all(), place
        place += 14
    assert place > 60


def test_an_interrupted_step_leaves_the_states_of_one_step() -> None:
    def opened() -> tuple[Sum, Callable[[], Any], Any]:
        cell, step = stepped()
        step(X)
        return cell, lambda: step(X), step.version

    assert_steps_are_whole(opened, lambda cell: float(cell.total.asnumpy()[0]), 5)


def test_inputs_of_other_kinds_and_other_settings_of_jax_count_on() -> None:
    cell, step = stepped()
    for number, x in enumerate((X, jax.numpy.asarray(X), Tensor(X), step(X) * 0 + X, X), 2):
        step(x)
        assert (cell.total.asnumpy() == number).all()
    with jax.enable_x64(True):
        step(X)
    jax.clear_caches()
    step(X)
    assert (cell.total.asnumpy() == 8).all()


def test_another_version_of_jax_runs_the_public_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("jax._src.interpreters.pxla.MeshExecutableFastpathData")
    monkeypatch.setattr(jax._src.interpreters.pxla.MeshExecutable, "create_cpp_call", lambda *_: None)
    cell, step = stepped()
    for _ in range(3):
        assert step(X) == 4000
    assert (cell.total.asnumpy() == 3).all()
    (part,) = step._session.last
    assert isinstance(part.program.call, ProgramCall) and not part.program.call.is_in_c


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_forked_process_reads_states_and_says_why_it_cannot_step() -> None:
    cell, step = stepped()
    step(X)
    process = os.fork()
    if process == 0:
        code = 1
        try:
            is_read = (cell.total.asnumpy() == 1).all()
            for use in (lambda: step(X), stepped):
                with pytest.raises(GraphRuntimeError, match="get_context\\('spawn'\\)"):
                    use()
            code = 0 if is_read else 2
        finally:
            os._exit(code)
    assert os.waitpid(process, 0)[1] == 0
    step(X)
    assert (cell.total.asnumpy() == 2).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_forks_beside_threads_that_step_and_compile_say_why_they_cannot() -> None:
    """Whatever a thread holds at the time of the fork, a child neither waits for it nor for the threads of XLA."""
    _, step = stepped()
    ended = threading.Event()

    def work() -> None:
        size = 1
        while not ended.is_set():
            step(X)
            graphls.compile(lambda x: x + 1, np.ones(size, np.float32), engine="xla")
            size += 1

    def reasons() -> list[str]:
        texts = []
        for use in (lambda: step(X), stepped, lambda: step.repeated(2)(np.stack([X, X]))):
            with pytest.raises(GraphRuntimeError) as caught:
                use()
            texts.append(str(caught.value))
        return texts

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(3):
            assert all("get_context('spawn')" in reason for reason in in_child(reasons))
    finally:
        ended.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_worker_of_a_dataset_says_why_it_cannot_step() -> None:
    _, step = stepped()
    step(X)
    data = graphls.dataset.NumpySlicesDataset(np.stack([X, X]), ["x"], shuffle=False)
    data = data.map(lambda x: step(x).asnumpy(), ["x"], num_parallel_workers=2, python_multiprocessing=True)
    with pytest.raises(GraphRuntimeError, match="get_context\\('spawn'\\)"):
        list(data.create_tuple_iterator(num_epochs=1))
