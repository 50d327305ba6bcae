"""What the calls of a program have in common."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from graphls.ir.graph import Node
from graphls.runtime.onednn.order import Ordered

EARLY = ("update", "check")
"""The phases of nodes that run as soon as they can, while what they read is in the cache, and so that it is freed."""


class AnyCall(Ordered, Protocol):
    """Something that a program runs."""

    @property
    def kind(self) -> str:
        """What runs."""

    @property
    def node(self) -> Node | None:
        """The node of the graph that it is for; None for the results of the graph."""

    def bound(self, binding: Any) -> partial[Any]:
        """The call on the memories of a binding, which returns 0 or None if it succeeds."""


class PythonCall:
    """A call of NumPy on the arrays of a binding, for a node."""

    node: Node
    runs_python = True

    @property
    def is_early(self) -> bool:
        """Whether it runs as soon as it can."""
        return self.node.phase in EARLY

    def bound(self, binding: Any) -> partial[Any]:
        """The call on the arrays of a binding."""
        return partial(self.run, binding)

    def run(self, binding: Any) -> int | None:
        """Compute; returns 0 or None, or a status of oneDNN."""
        raise NotImplementedError
