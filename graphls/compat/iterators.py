"""`mindspore.dataset.engine.iterators`: what tests end datasets with; here iterators end on their own."""

from __future__ import annotations

from typing import Any

from graphls.dataset.pipeline.iterators import DatasetIterator, _close_all

Iterator = DictIterator = TupleIterator = DatasetIterator
ITERATORS_LIST: list[Any] = []
"""Empty: an iterator that is forgotten ends, and those that are left end with the process."""

__all__ = [
    "ITERATORS_LIST", "DictIterator", "Iterator", "TupleIterator", "_cleanup", "_set_iterator_cleanup",
    "_unset_iterator_cleanup", "check_iterator_cleanup",
]  # fmt: skip


def _cleanup() -> None:
    """End everything that datasets do in the background; iterators that are used later begin anew."""
    _close_all()


def _set_iterator_cleanup() -> None:
    """Nothing: there is no mark to set."""


_unset_iterator_cleanup = _set_iterator_cleanup


def check_iterator_cleanup() -> bool:
    """False: no iterator is being ended."""
    return False
