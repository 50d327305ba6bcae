"""A warning about operators that do not run on the device of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphls.base.reporting import warn

if TYPE_CHECKING:
    from graphls.step.step import Compiled

MOST = 3
"""How many kinds of operators a warning names; step.placement() has all."""


def warn_of_placement(step: Compiled) -> None:
    """Warn once, with the user's lines and what is copied, where operators of a step have no kernel on its device."""
    found = step.placement()
    if found.sentences:
        groups = sorted(found.groups, key=lambda group: group[1].copied, reverse=True)
        listed = "; ".join(f"{node.operator}: {node.reason} ({node.line or 'no line'})" for _, node in groups[:MOST])
        more = f"; and {len(groups) - MOST} others" if len(groups) > MOST else ""
        warn(f"{' '.join(found.sentences)} These are {listed}{more}; step.placement() tells all.")
