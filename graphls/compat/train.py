"""Names of `mindspore.train` for loops of a script's own over a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import as_dtype
from graphls.nn.cell import Cell
from graphls.runtime.context.parallel import ParallelMode
from graphls.train.callbacks.callback import RunContext
from graphls.train.feeding import Feed, first_row, steps_of_epoch, tensors_of

__all__ = [
    "DatasetHelper", "ParallelMode", "RunContext", "_transfer_tensor_to_tuple", "connect_network_with_dataset",
    "data_sink",
]  # fmt: skip


class DatasetHelper:
    """The rows of a dataset, as tensors, for a loop of the user's own: `for inputs in helper: network(*inputs)`.

    Each pass is an epoch, or `sink_size` rows of an endless one. In sink mode, too, a row is what the network takes,
    once for each step. Raises GraphTypeError for what is no dataset, GraphValueError for an empty one and for sizes
    that do not fit.
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
        """The dtypes and the shapes of the columns, as those of the first row."""
        row = first_row("DatasetHelper", self._dataset, "dataset", None)
        return [as_dtype(array.dtype) for array in row], [list(array.shape) for array in row]

    def sink_size(self) -> int:
        """How many rows a pass has."""
        return self._steps if self._sink_size == -1 or not self._is_sink else self._sink_size

    def stop_send(self) -> None:
        """End what the dataset does in the background."""
        self.release()

    def release(self) -> None:
        """End what the dataset does in the background; a further pass begins anew."""
        if self._feed is not None:
            self._feed.__exit__()
        self._feed = self._endless = None

    def continue_send(self, run_context: TensorLike | None = None) -> None:
        """Nothing: rows are made when they are asked for, and ahead."""


def connect_network_with_dataset(network: Cell, dataset_helper: DatasetHelper) -> Cell:
    """The network itself, which takes rows of the helper as its inputs. Raises GraphTypeError for other classes."""
    if not isinstance(network, Cell) or not isinstance(dataset_helper, DatasetHelper):
        message = f"connect_network_with_dataset takes a Cell and a DatasetHelper, not {network!r}, {dataset_helper!r}."
        raise GraphTypeError(message)
    return network


def data_sink(
    fn: Callable[..., Any], dataset: TensorLike, sink_size: int = 1, jit_config: TensorLike | None = None,
    input_signature: TensorLike | None = None,
) -> Callable[[], Any]:  # fmt: skip
    """A function that calls `fn` on the next `sink_size` rows of an endless dataset; it gives what the last gave.

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
