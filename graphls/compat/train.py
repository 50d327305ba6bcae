"""Names of `mindspore.train` that are not in `graphls.train`: loops over a dataset, and parts of callbacks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.ir.types import as_dtype
from graphls.nn.cell import Cell
from graphls.runtime.context.parallel import ParallelMode
from graphls.train.callbacks.callback import Callback, CallbackManager, InternalCallbackParam, RunContext
from graphls.train.callbacks.checkpoint import remove_file, unused_prefix
from graphls.train.feeding import Feed, first_row, steps_of_epoch, tensors_of

__all__ = [
    "CallbackManager", "CheckpointManager", "DatasetHelper", "InternalCallbackParam", "ParallelMode", "RunContext",
    "_CallbackManager", "_CheckpointManager", "_InternalCallbackParam", "_StepSync",
    "_chg_ckpt_file_name_if_same_exist", "_handle_loss", "_set_cur_net", "_transfer_tensor_to_tuple",
    "connect_network_with_dataset", "data_sink", "set_cur_net",
]  # fmt: skip


class DatasetHelper:
    """The rows of a dataset, as tensors, for the user's own loop: `for inputs in helper: network(*inputs)`.

    Each pass is an epoch, or `sink_size` rows of an endless one. In sink mode, too, each row holds the inputs of one
    step. Raises GraphTypeError for anything but a dataset, GraphValueError for an empty one and for invalid sizes.
    """

    def __init__(
        self, dataset: object, dataset_sink_mode: bool = True, sink_size: int = -1, epoch_num: int = 1
    ) -> None:
        if not isinstance(dataset_sink_mode, bool):
            raise GraphTypeError(f"dataset_sink_mode must be bool, but got {dataset_sink_mode!r}.")
        if not isinstance(sink_size, int) or (sink_size != -1 and sink_size <= 0):
            raise GraphValueError(f"sink_size must be -1 or above 0, but got {sink_size!r}.")
        self._steps = steps_of_epoch("DatasetHelper", dataset)
        self._dataset, self._is_sink, self._sink_size, self._epochs = dataset, dataset_sink_mode, sink_size, epoch_num
        self._feed: Feed | None = None
        self._endless: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        if self._feed is None:
            is_endless = self._is_sink and self._sink_size != -1
            self._feed = Feed(self._dataset, "dataset", num_epochs=-1 if is_endless else self._epochs)
        if not self._is_sink or self._sink_size == -1:
            yield from map(tensors_of, self._feed.epoch())
            return
        self._endless = self._endless or self._feed.endless()
        for _ in range(self._sink_size):
            yield tensors_of(next(self._endless))

    def types_shapes(self) -> tuple[list[Any], list[Any]]:
        """The dtypes and shapes of the columns, by the first row."""
        row = first_row("DatasetHelper", self._dataset, "dataset", None)
        return [as_dtype(array.dtype) for array in row], [list(array.shape) for array in row]

    def sink_size(self) -> int:
        """The number of rows in a pass."""
        return self._steps if self._sink_size == -1 or not self._is_sink else self._sink_size

    def stop_send(self) -> None:
        """Stop the background work of the dataset."""
        self.release()

    def release(self) -> None:
        """Stop the background work of the dataset; a further pass starts again."""
        if self._feed is not None:
            self._feed.__exit__()
        self._feed = self._endless = None

    def continue_send(self, run_context: TensorLike | None = None) -> None:
        """Does nothing: rows are computed on demand and ahead of it."""


def connect_network_with_dataset(network: Cell, dataset_helper: DatasetHelper) -> Cell:
    """The network itself, whose inputs are the rows of the helper. Raises GraphTypeError for other classes."""
    if not isinstance(network, Cell) or not isinstance(dataset_helper, DatasetHelper):
        message = f"connect_network_with_dataset takes a Cell and a DatasetHelper, not {network!r}, {dataset_helper!r}."
        raise GraphTypeError(message)
    return network


def data_sink(
    fn: Callable[..., Any], dataset: TensorLike, sink_size: int = 1, jit_config: TensorLike | None = None,
    input_signature: TensorLike | None = None,
) -> Callable[[], Any]:  # fmt: skip
    """A function that calls `fn` on the next `sink_size` rows of an endless dataset and returns the last result.

    Raises as DatasetHelper does.
    """
    helper = DatasetHelper(dataset, True, sink_size, epoch_num=-1)

    def sink_process() -> Any:
        output = None
        for row in helper:
            output = fn(*row)
        return output

    return sink_process


def _transfer_tensor_to_tuple(inputs: TensorLike) -> Any:
    """A tensor as a tuple of one; anything else itself."""
    return (inputs,) if isinstance(inputs, Tensor) else inputs


_CallbackManager, _InternalCallbackParam = CallbackManager, InternalCallbackParam


class _CheckpointManager:
    """The checkpoint files of one prefix in a folder, oldest first."""

    def __init__(self, format: str = "ckpt") -> None:
        self._format = format
        self._files: list[str] = []

    @property
    def ckpoint_filelist(self) -> list[str]:
        """The paths of the files."""
        return self._files

    @property
    def ckpoint_num(self) -> int:
        """The number of files."""
        return len(self._files)

    def update_ckpoint_filelist(self, directory: str, prefix: str) -> None:
        """List the files `<prefix>-<epoch>_<step>` in a folder, without those of other prefixes."""
        pattern = re.compile(rf"{re.escape(prefix)}-\d+_\d+\.{re.escape(self._format)}")
        files = [os.path.join(directory, name) for name in os.listdir(directory) if pattern.fullmatch(name)]
        self._files = sorted(files, key=os.path.getmtime)

    def remove_ckpoint_file(self, file_name: str) -> None:
        """Remove a file, with a warning if that fails."""
        remove_file(Path(file_name))
        self._files = [name for name in self._files if name != file_name]

    def remove_oldest_ckpoint_file(self) -> None:
        """Remove the oldest file."""
        self.remove_ckpoint_file(min(self._files, key=os.path.getmtime))

    def keep_one_ckpoint_per_minutes(self, minutes: float, cur_time: float) -> None:
        """Remove the files of the last `minutes` but the oldest of them."""
        recent = [name for name in self._files if cur_time - os.path.getmtime(name) <= 60 * minutes]
        for name in sorted(recent, key=os.path.getmtime)[1:]:
            self.remove_ckpoint_file(name)


CheckpointManager = _CheckpointManager


def _chg_ckpt_file_name_if_same_exist(directory: str, prefix: str, exception: bool = False) -> Any:
    """The prefix, followed by a number if checkpoints in the folder have the same one."""
    return prefix if callable(prefix) or callable(directory) else unused_prefix(Path(directory), prefix)


def set_cur_net(net: Cell | None) -> None:
    """Does nothing: MindSpore keeps the network for operators that save checkpoints, and there are none here."""


_set_cur_net = set_cur_net


class _StepSync(Callback):
    """Does nothing: a step is synchronous."""


def _handle_loss(loss: Any) -> Any:
    """The first of several results; of one tensor the mean of its elements as a number."""
    if isinstance(loss, (tuple, list)):
        return loss[0] if is_tensor(loss[0]) else loss
    return float(np.mean(loss.asnumpy())) if is_tensor(loss) else loss
