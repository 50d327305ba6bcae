"""Batches from anywhere as a dataset: a list of them, the loader of another library, or a generator function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from functools import cached_property
from typing import Any

from graphls.ir.errors import GraphTypeError
from graphls.tensors.foreign import offers_array

REQUIRED = "get_dataset_size", "create_tuple_iterator"
"""What a dataset has."""


class Batches:
    """The batches of a list, of a loader with a length, or of a generator function, which is called for each epoch.

    A function is called once more to count its batches. A batch is a tuple or list of columns, a dict of them, in its
    order, or a single array.
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
        return sum(1 for _ in self._epoch()) if _is_function(self.source) else len(self.source)

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
        "batches, a loader with a length, or a generator function.",
    )


def _is_loader(source: object) -> bool:
    is_sized = isinstance(source, Iterable) and isinstance(source, Sized)
    return is_sized and not isinstance(source, (str, bytes, Mapping, Set)) and not offers_array(source)


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
