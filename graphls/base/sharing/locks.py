"""Locks for the states of steps: steps that share states share a lock, which one thread holds at a time."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from graphls.base.sharing.forks import Guard

COMPILING = Guard()
"""Held while a cell is traced and compiled: constructs may change their cells, and a network has one mode at a time."""
SEEDING = Guard()
"""Held while a seed is set, so that the seed, the generator and the random state of steps are those of one call."""
_MERGING = Guard()


@contextmanager
def compiling() -> Iterator[None]:
    """Hold COMPILING with garbage collection disabled, which would visit every node again and again."""
    with COMPILING.lock:
        was_enabled = gc.isenabled()
        try:
            gc.disable()
            yield
        finally:
            if was_enabled:
                gc.enable()


class Group(Guard):
    """States that steps share, under one `lock`, which a thread holds to run a step or to read or replace a value.

    `changes` counts how often a storage got another buffer, so that a session sees with one comparison that everything
    it bound is still current. `into` is the group that this one has become part of.
    """

    __slots__ = ("changes", "into")

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.into: Group | None = None

    def is_held(self) -> bool:
        """Whether this thread has the lock."""
        owned: bool = self.lock._is_owned()  # type: ignore[attr-defined]
        return owned

    def root(self) -> Group:
        """The group into which this one has been merged, or itself."""
        group = self
        while group.into is not None:
            group = group.into
        return group


class Shared(Protocol):
    """An object shared by steps and protected by a lock: the storage of a parameter."""

    group: Group


LOOSE = Group()
"""The group of storages that no step uses yet."""


def merged_group(storages: Iterable[Shared]) -> Group:
    """Merge the groups of some storages, which share a step from here on, and return the result."""
    storages = list(storages)
    with _MERGING.lock:
        groups = _groups(storages)
        own = [group for group in groups if group is not LOOSE]
        target = own[0] if own else Group()
        if groups == [target]:
            return target
        with _locked(groups):
            target.changes = 1 + max(group.changes for group in (*groups, target))
            for group in own[1:]:
                group.into = target
            for storage in storages:
                storage.group = target
        return target


@contextmanager
def holding(storage: Shared) -> Iterator[Group]:
    """The group of a storage, locked so that no other thread reads or changes the value within the block."""
    while True:
        group = storage.group.root()
        with group.lock:
            if storage.group.root() is group:
                yield group
                return


@contextmanager
def holding_all(storages: Iterable[Shared]) -> Iterator[None]:
    """Lock several storages at once, so that their values are those of one moment."""
    storages = list(storages)
    while True:
        groups = _groups(storages)
        with _locked(groups):
            if _groups(storages) == groups:
                yield
                return


@contextmanager
def _locked(groups: list[Group]) -> Iterator[None]:
    """Hold the locks of groups, each by a `with` statement: a Ctrl-C reaches an ExitStack before it has a lock."""
    yield from _locked_in_order(groups)


def _locked_in_order(groups: list[Group]) -> Iterator[None]:
    if groups:
        with groups[0].lock:
            yield from _locked_in_order(groups[1:])
    else:
        yield


def _groups(storages: list[Shared]) -> list[Group]:
    """The groups of storages, in the order in which every thread takes their locks."""
    return sorted({storage.group.root() for storage in storages}, key=lambda group: group.number)
