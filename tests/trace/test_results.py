"""What a traced construct may give, and what is said of anything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops

BACKENDS = ["numpy", "onnxruntime"]
X = np.ones(2, np.float32)


class Forgets(nn.Cell):
    def construct(self, x: Any) -> Any:
        ops.sin(x)


class Generates(nn.Cell):
    def construct(self, x: Any) -> Iterator[Any]:
        yield ops.sin(x)


class Waits(nn.Cell):
    async def construct(self, x: Any) -> Any:
        return ops.sin(x)


class Maps(nn.Cell):
    def construct(self, x: Any) -> Any:
        return {"sines": map(ops.sin, [x])}


class Waiting(nn.Cell):
    async def construct(self, x: Any) -> Any:
        yield ops.sin(x)


def forgets(x: Any) -> None:
    ops.sin(x)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "forgotten return": (Forgets, "construct of Forgets gives None and writes no parameter.*test_results.py:19"),
    "generator": (Generates, "construct of Generates gives a generator.*in a tuple or a list.*test_results.py:24"),
    "coroutine": (Waits, "gives a coroutine.*without `async`.*test_results.py:29"),
    "iterator": (Maps, "gives a map.*test_results.py:34"),
    "asynchronous generator": (Waiting, "gives an async_?.?generator.*test_results.py:39"),
    "function": (lambda: forgets, "function forgets gives None.*test_results.py:43"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WRONG)
def test_a_construct_without_a_result_is_told(name: str, backend: str) -> None:
    make, text = WRONG[name]
    with pytest.raises(TypeError, match=text) as caught:
        graphls.compile(make(), X, backend=backend)
    assert isinstance(caught.value, graphls.GraphlsError)


@pytest.mark.parametrize("result", [3, (), {"a": None}, (True, "text"), graphls.float32])
def test_a_cell_may_give_constants_only(result: Any, tmp_path: Any) -> None:
    class Constants(nn.Cell):
        def construct(self, x: Any) -> Any:
            return result

    assert Constants()(graphls.Tensor(X)) == result
    step = graphls.compile(Constants(), X)
    assert step(X) == result
    step.save(tmp_path / "step.onnx")
    step.dump(tmp_path / "step")
    assert "Constants" in str(step.summary())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_may_write_only(backend: str) -> None:
    class Counts(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.count = graphls.Parameter(np.zeros(2, np.float32), name="count")

        def construct(self, x: Any) -> None:
            self.count = self.count + x

    cell = Counts()
    step = graphls.compile(cell, X, backend=backend)
    assert step(X) is None
    assert step(X) is None
    assert cell.count.asnumpy().tolist() == [2, 2]
