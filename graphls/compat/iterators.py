"""`mindspore.dataset.engine.iterators`: the iterators and their cleanup, which happens on its own here."""

from __future__ import annotations

from typing import Any

from graphls.dataset.pipeline.iterators import DatasetIterator, _close_all

Iterator = DictIterator = TupleIterator = DatasetIterator
ITERATORS_LIST: list[Any] = []
"""Empty: an unreferenced iterator ends, and the others end with the process."""

__all__ = [
    "ITERATORS_LIST", "DictIterator", "Iterator", "TupleIterator", "_cleanup", "_set_iterator_cleanup",
    "_unset_iterator_cleanup", "check_iterator_cleanup",
]  # fmt: skip


def _cleanup() -> None:
    """Stop the background work of all datasets; iterators that are used later start again."""
    _close_all()


def _set_iterator_cleanup() -> None:
    """Does nothing: there is no flag to set."""


_unset_iterator_cleanup = _set_iterator_cleanup


def check_iterator_cleanup() -> bool:
    """False: no cleanup is in progress."""
    return False
