"""What a fault is, and whether a comparison finds one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.runtime.lowering.lowering import Lowered
from tests.networks.agreement import Prepared, difference
from tests.networks.evaluator import Rounding, to_nearest

Generator = np.random.Generator


@dataclass(frozen=True)
class Faulty:
    """A model with a fault, or a device that has one, and where it is."""

    where: str
    lowered: Lowered
    rounding: Rounding = to_nearest


Fault = Callable[[Prepared, Generator], Faulty]


def is_found(prepared: Prepared, faulty: Faulty) -> bool:
    """Whether a comparison with the faithful model shows a difference, or the faulty model cannot run at all."""
    try:
        return bool(difference(prepared, faulty.lowered, faulty.rounding))
    except Exception:  # such as shapes that do not fit any more
        return True


def one(rng: Generator, candidates: Iterable[Any]) -> Any:
    """One of several; there must be any."""
    found = list(candidates)
    assert found, "there is nothing in this step that could have the fault"
    return found[int(rng.integers(len(found)))]
