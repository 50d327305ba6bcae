"""The change counter of all configuration that compiled steps contain as constants."""

from __future__ import annotations

from itertools import count


class Configuration:
    """Numbers the changes of all cells and known tensors, so that one comparison shows whether steps are up to date.

    `gradient_changes` numbers those of `requires_grad` alone, which compiled steps compare as well.
    """

    changes = gradient_changes = 0
    _numbers = count(1)

    @classmethod
    def note_change(cls) -> None:
        """Set `changes` to a new number, unique over all threads."""
        cls.changes = next(cls._numbers)

    @classmethod
    def note_gradient_change(cls) -> None:
        """Set `gradient_changes`, and `changes`, to a new number."""
        cls.gradient_changes = cls.changes = next(cls._numbers)
