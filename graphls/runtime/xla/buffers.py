"""Arrays of JAX as buffers of states and results."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.runtime.xla.processes import gathered, is_spread


class XlaBuffer:
    """A cell that holds an array of JAX, which a step replaces by that of the new value."""

    __slots__ = ("array",)

    def __init__(self, array: Any = None) -> None:
        self.array = array

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host: a step may give the memory of its states to their new values.

        Where the array is divided among processes, all of them read it together.
        """
        return np.array(gathered(self.array) if is_spread(self.array) else self.array)
