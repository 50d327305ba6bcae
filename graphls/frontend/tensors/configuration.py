"""The change counter of all configuration that compiled steps contain as constants."""

from __future__ import annotations

from itertools import count


class Configuration:
    """Numbers changes of any cell or known tensor, so that one comparison tells that no step is out of date."""

    changes = 0
    _numbers = count(1)

    @classmethod
    def note_change(cls) -> None:
        """Have a number that was never there before, whatever other threads do."""
        cls.changes = next(cls._numbers)
