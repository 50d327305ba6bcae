"""Bindings of sessions to state buffers, made once and renewed when a buffer moves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from graphls.base.sharing.locks import Group
from graphls.base.sharing.storage import Storage, Version, array_in
from graphls.ir.types import Type
from graphls.runtime.states import HasStorage
from graphls.runtime.torn import Torn


class BoundStates(ABC):
    """Bindings to the states of a graph: one, or one for each turn where states have two buffers, `swapped` by version.

    `types` are those in which the states are exchanged, by their names; `in_place` are those that are updated in their
    own buffer. `seen` is the count of replaced buffers up to which the bindings are known to be those of today.
    """

    parameters: dict[str, HasStorage]
    types: Mapping[str, Type]
    swapped: Mapping[str, Version]
    in_place: set[str]
    group: Group
    seen: int
    versions: tuple[Version, ...]
    bindings: dict[int, Any]
    bound: list[tuple[Storage, tuple[Any, ...], Version | None, int]]

    def forget_bindings(self) -> None:
        """Bind all states again at the next step."""
        self.bindings, self.bound, self.seen = {}, [], -1

    def turn(self) -> Any:
        """The binding for the next step."""
        if self.seen != self.group.changes:
            self._follow_changes()
        turn = 0
        for version in self.versions:
            turn = 2 * turn + (version.ticks & 1)
        if turn not in self.bindings:
            self.bindings[turn] = self._binding(turn)
        return self.bindings[turn]

    def _invalidate(self, names: Iterable[str], reason: str) -> None:
        """Let each use of these states raise, until they are set."""
        for name in names:
            self.parameters[name].storage.replace(Torn(name, reason))

    @abstractmethod
    def _reopen(self) -> None:
        """Open again what a fork has closed."""

    @abstractmethod
    def _is_fit(self, name: str, buffer: Any) -> bool:
        """Whether a state can be bound to this buffer."""

    @abstractmethod
    def _fit(self, name: str, array: np.ndarray[Any, Any]) -> Any:
        """A buffer to which a state can be bound, with the value of an array in the dtype of the state."""

    def _moved(self, name: str, buffer: Any, dtype: np.dtype[Any]) -> Any:
        """A buffer to which a state can be bound, with the value that another one holds."""
        return self._fit(name, array_in(buffer).astype(dtype, copy=False))

    @abstractmethod
    def _second(self, name: str) -> Any:
        """Such a buffer without a value."""

    @abstractmethod
    def _binding(self, turn: int) -> Any:
        """A binding to the buffers of this turn, which is the next one."""

    def _buffers(self, name: str) -> tuple[Any, Any]:
        """The buffers of the old and of the new value of a state."""
        storage = self.parameters[name].storage
        return storage.current, storage.buffers[1 - storage.index] if name in self.swapped else storage.current

    def _follow_changes(self) -> None:
        """Let every state be bound to the buffer that holds it now, unless only others have got new ones."""
        self._reopen()
        if not self.bindings or not all(map(self._is_current, self.bound)):
            for name in self.types:
                self._settle(name)
            self.versions, self.bindings = tuple(dict.fromkeys(self.swapped.values())), {}
            storages = [self.parameters[name].storage for name in self.types]
            self.bound = [(s, s.buffers, s.version, s.index) for s in storages]
        self.seen = self.group.changes

    def _is_current(self, bound: tuple[Storage, tuple[Any, ...], Version | None, int]) -> bool:
        storage, buffers, version, index = bound
        if storage.buffers is not buffers or storage.version is not version:
            return False
        return version in self.versions or storage.index == index

    def _settle(self, name: str) -> None:
        """Move a state to the device of the session, into one buffer or, where it is swapped, into two."""
        storage, dtype = self.parameters[name].storage, self.types[name].dtype.numpy
        storage.fit(self.types[name].shape)
        if not self._is_fit(name, storage.current):
            storage.move(self._moved(name, storage.current, dtype))
        if name in self.swapped:
            if storage.version is not self.swapped[name]:
                storage.swap_with(self._second(name), self.swapped[name])
        elif storage.version is not None and name in self.in_place:
            storage.move(storage.current)
