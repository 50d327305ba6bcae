"""Batches from anywhere as a dataset: a list of them, the loader of another library, or a generator function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

from graphls.base.errors import GraphTypeError
from graphls.frontend.tensors.foreign import offers_array

REQUIRED = "get_dataset_size", "create_tuple_iterator"
"""What a dataset has."""


class Batches:
    """The batches of a list, of a loader, or of a generator function, which is called for each epoch.

    A function, and a loader without a length, is gone through once more to count its batches. A batch is a tuple or
    list of columns, a dict of them, in its order, or a single array.
    """

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Sequence[Any]]:
        return map(_columns, self._epoch())

    def _epoch(self) -> Iterable[Any]:
        made: Iterable[Any] = self.source() if _is_function(self.source) else self.source
        return made

    @cached_property
    def _size(self) -> int:
        try:
            return len(self.source)
        except TypeError:  # which loaders of torch raise, too, whose dataset has no length
            return sum(1 for _ in self._epoch())

    def get_dataset_size(self) -> int:
        """The number of batches in an epoch."""
        return self._size

    def create_tuple_iterator(self) -> Batches:
        """Itself, as each iteration is an epoch."""
        return self


def as_dataset(owner: str, source: Any) -> Any:
    """A dataset as it is, and batches from elsewhere as one; raises GraphTypeError for what gives no batches."""
    missing = [name for name in REQUIRED if not callable(getattr(source, name, None))]
    if not missing:
        return source
    if isinstance(source, Iterator):
        raise GraphTypeError(
            f"{owner} goes through its batches more than once, and this {type(source).__name__} gives them once; give "
            "the function that makes it, or a list.",
        )
    if _is_function(source) or _is_loader(source):
        return Batches(source)
    raise GraphTypeError(
        f"{owner} takes a dataset, and {type(source).__name__} has no {missing[0]}(); it may also be a list of "
        "batches, a loader, or a generator function.",
    )


def said_of_columns(dataset: object) -> str:
    """What to say where a list of arrays is as many batches of one column each, and was meant as columns."""
    source = dataset.source if isinstance(dataset, Batches) else None
    if not isinstance(source, (list, tuple)) or not all(map(offers_array, source)):
        return ""
    return "; each array of (x, y) is a batch, and [(x, y)] is one batch of two columns"


def _is_loader(source: object) -> bool:
    is_other = isinstance(source, (str, bytes, Mapping, Set)) or offers_array(source)
    return isinstance(source, Iterable) and not is_other


def _is_function(source: object) -> bool:
    return callable(source) and not isinstance(source, (type, Iterable))


def _columns(batch: Any) -> Sequence[Any]:
    """The columns of a batch; raises GraphTypeError for what is none."""
    if isinstance(batch, Mapping):
        return tuple(batch.values())
    if isinstance(batch, (tuple, list)):
        return batch
    if not offers_array(batch):
        raise GraphTypeError(f"A batch is an array, or a tuple, list or dict of arrays, not {type(batch).__name__}.")
    return (batch,)
