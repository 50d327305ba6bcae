"""The interface of a parameter as a backend sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from graphls.base.sharing.storage import Storage


class HasStorage(Protocol):
    """Something whose value lives in a Storage."""

    storage: Storage


@dataclass
class Copied:
    """A state with a copy of its own."""

    storage: Storage


def copied(state: HasStorage) -> Copied:
    """A copy of a state, which nobody else reads or changes."""
    return Copied(state.storage.twin())


def copies(states: Mapping[str, HasStorage]) -> dict[str, Copied]:
    """A copy of each state, by its name."""
    return {name: copied(state) for name, state in states.items()}
