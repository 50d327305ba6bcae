"""A Model goes through lists of batches, loaders of other libraries and generator functions as through a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from graphls import nn, train
from graphls.train.callbacks import Callback
from tests.trace.foreign import Handed

X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(16, 1)
Y = 2 * X - 1


class Loader:
    """A length and batches of arrays of another library, as PyTorch's loader has them."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Any]:
        return ([Handed(x), Handed(y)] for x, y in batches())


def batches() -> list[tuple[Any, Any]]:
    return [(X[i : i + 4], Y[i : i + 4]) for i in range(0, 16, 4)]


def generated() -> Iterator[dict[str, Any]]:
    for x, y in batches():
        yield {"data": x, "label": y.tolist()}


class Stream:
    """Batches whose number is not known, which torch's loader of a stream says by an error."""

    def __len__(self) -> int:
        raise TypeError("a stream has no len()")

    def __iter__(self) -> Iterator[Any]:
        return iter(batches())


SOURCES: dict[str, Callable[[], Any]] = {
    "list": batches, "loader": Loader, "generator": lambda: generated, "tuple": lambda: (*batches(),),
    "stream": Stream,
}  # fmt: skip


class Told(Callback):
    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []

    def on_train_step_end(self, run_context: Any) -> None:
        told = run_context.original_args()
        self.steps.append((told.cur_step_num, told.batch_num))


def trained(source: Any, **options: Any) -> tuple[Any, Any, list[tuple[int, int]]]:
    net, told = nn.Dense(1, 1, weight_init="zeros", bias_init="zeros"), Told()
    model = train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1), metrics={"mae"})
    model.build(source, source)
    model.train(2, source, callbacks=told, **options)
    model.fit(1, source, source, **options)
    return model.eval(source)["mae"], net.weight.asnumpy(), told.steps


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("sink", [False, True])
def test_they_give_what_their_batches_give(name: str, sink: bool) -> None:
    error, weight, steps = trained(SOURCES[name](), dataset_sink_mode=sink)
    expected = 0.0, 0.0
    for x, y in batches() * 3:
        slope = 2 * (x * expected[0] + expected[1] - y)
        expected = expected[0] - 0.1 * float((slope * x).mean()), expected[1] - 0.1 * float(slope.mean())
    np.testing.assert_allclose(weight, [[expected[0]]], rtol=1e-5)
    np.testing.assert_allclose(error, np.abs(X * expected[0] + expected[1] - Y).mean(), rtol=1e-5)
    assert steps == ([(4, 4), (8, 4)] if sink else [(i, 4) for i in range(1, 9)])


def test_batches_of_one_array_are_for_networks_of_one_input() -> None:
    net = nn.Dense(1, 1)
    step = train.Model(nn.TrainOneStepCell(nn.SequentialCell(net, nn.ReLU()), nn.SGD(net.trainable_params(), 0.1)))
    step.train(1, [X, X])


WRONG = {
    "goes through its batches more than once, .* give the function that makes it": lambda: iter(batches()),
    "this generator gives them once": generated,
    "ndarray has no get_dataset_size": lambda: X,
    "dict has no get_dataset_size": lambda: {"data": X},
    "str has no get_dataset_size.*; it may also be a list of batches": lambda: "data",
    "A batch is an array, or a tuple, list or dict of arrays, not int": lambda: [1, 2],
}


@pytest.mark.parametrize("text", WRONG)
def test_what_gives_no_batches_says_so(text: str) -> None:
    net = nn.Dense(1, 1)
    with pytest.raises(TypeError, match=text):
        train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(1, WRONG[text]())


@pytest.mark.parametrize("source", [[], lambda: iter(())])
def test_nothing_is_no_data(source: Any) -> None:
    net = nn.Dense(1, 1)
    with pytest.raises(ValueError, match="There is no valid data in dataset"):
        train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(1, source)
