"""What tests of the Model share: a dataset that is nothing but the contract, metrics, networks."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import graphls
from graphls import nn, train
from graphls.train.callbacks import InternalCallbackParam

Array = np.ndarray[Any, Any]
BACKENDS = ["numpy", "onnxruntime"]


class Rows:
    """Columns of arrays as a dataset of batches, in another order in each epoch."""

    def __init__(self, *columns: Array, batch: int = 4, shuffle: bool = True) -> None:
        self.columns, self.batch, self.shuffle = columns, batch, shuffle
        self.init_step = 0
        self.iterators: list[RowIterator] = []

    def get_dataset_size(self) -> int:
        return -(-len(self.columns[0]) // self.batch)

    def set_init_step(self, step: int) -> None:
        self.init_step = step

    def get_init_step(self) -> int:
        return self.init_step

    def create_tuple_iterator(
        self, columns: Any = None, num_epochs: int = -1, output_numpy: bool = False, do_copy: bool = False
    ) -> RowIterator:
        size = self.get_dataset_size() or 1
        position, self.init_step = divmod(self.init_step, size), 0
        self.iterators.append(RowIterator(self, position, num_epochs, output_numpy))
        return self.iterators[-1]


class RowIterator:
    """Each `iter()` is the next epoch."""

    def __init__(self, rows: Rows, position: tuple[int, int], epochs: int, as_arrays: bool) -> None:
        self.rows, self.as_arrays = rows, as_arrays
        self.epoch, self.start = position
        self.end = None if epochs == -1 else self.epoch + epochs
        self.is_stopped = False

    def __iter__(self) -> Iterator[list[Any]]:
        rows, start, epoch = self.rows, self.start, self.epoch
        if self.is_stopped or epoch == self.end:
            return
        self.epoch, self.start = epoch + 1, 0
        count = len(rows.columns[0])
        order = np.random.default_rng(epoch).permutation(count) if rows.shuffle else np.arange(count)
        for i in range(start, rows.get_dataset_size()):
            taken = [column[order[i * rows.batch : (i + 1) * rows.batch]] for column in rows.columns]
            yield taken if self.as_arrays else [graphls.Tensor(array) for array in taken]

    def stop(self) -> None:
        self.is_stopped = True


class Mean:
    """The mean of what it is updated with."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.cleared = 0

    def clear(self) -> None:
        self.seen = []
        self.cleared += 1

    def update(self, *outputs: Any) -> None:
        self.seen.append(tuple(output.asnumpy() for output in outputs))

    def eval(self) -> float:
        return float(np.mean([row[0].mean() for row in self.seen]))


class Loss(train.Loss):
    """The metric of this name, which remembers what it got."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Any, ...]] = []

    def update(self, *outputs: Any) -> None:
        self.seen.append(tuple(output.asnumpy() for output in outputs))
        super().update(*outputs)


class Recorder(train.Callback):
    """Takes down the hooks, each with what `note` makes of what it is told."""

    def __init__(self, note: Any = lambda told: ()) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.note = note

    def __enter__(self) -> Recorder:
        self.calls.append(("enter",))
        return self

    def __exit__(self, *error: Any) -> None:
        self.calls.append(("exit",))

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


def _taken_down(hook: str) -> Any:
    def call(self: Recorder, run_context: Any) -> None:
        self.calls.append((hook, *self.note(run_context.original_args())))

    return call


for _mode in ("train", "eval"):
    for _hook in ("begin", "epoch_begin", "step_begin", "step_end", "epoch_end", "end"):
        setattr(Recorder, f"on_{_mode}_{_hook}", _taken_down(f"on_{_mode}_{_hook}"))


def line(count: int = 12, seed: int = 0) -> tuple[Array, Array]:
    """Points x [count, 3] and labels y [count, 2] of a linear map."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, 3)).astype(np.float32)
    return x, (x @ generator.normal(size=(3, 2))).astype(np.float32)


def linear(rate: Any = 0.1, **options: Any) -> tuple[train.Model, nn.Dense]:
    """A model of one layer, the layer starting at the same numbers each time."""
    graphls.set_seed(1)
    net = nn.Dense(3, 2)
    return train.Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), rate, 0.9), **options), net


class Moded(nn.Cell):
    """Gives its input in training and zeros in evaluation, and has a part that a user may freeze."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(3, 2)
        self.inner = nn.Dropout(p=0.5)

    def construct(self, x: Any) -> Any:
        return self.fc(x) if self.training else self.fc(x) * 0


def context(**told: Any) -> train.RunContext:
    """What a hook is called with."""
    return train.RunContext(InternalCallbackParam(told))


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """What a full disk is like: writing fails in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
