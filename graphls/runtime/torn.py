"""States that a failed step may have half written."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError


class Torn:
    """The content of a state that a failed step may have half written: each use raises, until it is set."""

    def __init__(self, name: str, reason: str) -> None:
        self.message = (
            f"The state {name!r} may be that of half a step, because a step has failed in the middle ({reason}); load "
            "a checkpoint, or set its data."
        )

    def numpy(self) -> np.ndarray[Any, Any]:
        """Raises GraphRuntimeError."""
        raise GraphRuntimeError(self.message)
