"""Thread-safe process settings: an update is visible as a whole, and updates never interleave."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from graphls.base.sharing.forks import Guard


class Settings(Guard):
    """Values by name over their defaults, for all threads of the process, also for those that start later.

    A change is one assignment, so that readers need no lock. Whoever changes values with something else that depends on
    them holds `lock` around both.
    """

    __slots__ = ("_defaults", "_given")

    def __init__(self, defaults: Mapping[str, object]) -> None:
        super().__init__()
        self._defaults = defaults
        self._given: Mapping[str, object] = {}

    def __getitem__(self, name: str) -> Any:
        """The value of a setting, in a list or dict of the caller's own."""
        value = self._given.get(name, self._defaults.get(name))
        return copy.copy(value) if isinstance(value, (list, dict)) else value

    def explicit_value(self, name: str) -> Any:
        """The value that a setting was given; None where it has its default."""
        return self._given.get(name)

    def values(self) -> dict[str, object]:
        """All settings by name."""
        return {**self._defaults, **self._given}

    def update(self, values: Mapping[str, object]) -> None:
        """Give settings other values."""
        with self.lock:
            self._given = {**self._given, **values}

    def reset(self) -> Collection[str]:
        """Give every setting its default again; returns the names of those that had another value."""
        with self.lock:
            before, self._given = self._given, {}
        return before.keys()

    @contextmanager
    def preserved(self) -> Iterator[None]:
        """Give every setting, behind a block, the value that it has now."""
        before = self._given
        try:
            yield
        finally:
            self._given = before
