"""Where random transforms draw from: a generator made anew for each row by whoever runs a `map`."""

from __future__ import annotations

from contextvars import ContextVar

import numpy as np

import graphls.random

_of_the_row: ContextVar[np.random.Generator | None] = ContextVar("generator_of_the_row", default=None)


def generator() -> np.random.Generator:
    """The generator of the row that is being transformed; outside of a pipeline, the one of `graphls.set_seed`."""
    current = _of_the_row.get()
    return current if current is not None else graphls.random.generator()
