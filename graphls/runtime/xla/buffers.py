"""Arrays of JAX as buffers of states and results."""

from __future__ import annotations

from typing import Any

import numpy as np


class XlaBuffer:
    """A cell that holds an array of JAX, which a step replaces by that of the new value."""

    __slots__ = ("array",)

    def __init__(self, array: Any = None) -> None:
        self.array = array

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host: a step may give the memory of its states to their new values."""
        return np.array(self.array)
