"""Thread-safe process settings: updates are atomic and never interleave."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from graphls.base.sharing.forks import Guard


class Settings(Guard):
    """Values by name over their defaults, for all threads of the process, also for those that start later.

    A change is one assignment, so that readers need no lock. To change values together with other state that depends on
    them, hold `lock` around both.
    """

    __slots__ = ("_defaults", "_explicit")

    def __init__(self, defaults: Mapping[str, object]) -> None:
        super().__init__()
        self._defaults = defaults
        self._explicit: Mapping[str, object] = {}

    def __getitem__(self, name: str) -> Any:
        """The value of a setting; a list or dict is copied."""
        value = self._explicit.get(name, self._defaults.get(name))
        return copy.copy(value) if isinstance(value, (list, dict)) else value

    def explicit_value(self, name: str) -> Any:
        """The value that a setting was set to; None where it has its default."""
        return self._explicit.get(name)

    def values(self) -> dict[str, object]:
        """All settings by name."""
        return {**self._defaults, **self._explicit}

    def update(self, values: Mapping[str, object]) -> None:
        """Set settings to other values, in one assignment."""
        with self.lock:
            self._explicit = {**self._explicit, **values}

    def reset(self) -> Collection[str]:
        """Restore all defaults; returns the names of the settings that had other values."""
        with self.lock:
            before, self._explicit = self._explicit, {}
        return before.keys()

    @contextmanager
    def preserved(self) -> Iterator[None]:
        """Restore every setting at the end of the block."""
        before = self._explicit
        try:
            yield
        finally:
            self._explicit = before
