"""Operator classes, `ops.Name(settings)(tensors)`, from the records of `ops/record.py`."""

from __future__ import annotations

from typing import Any

from graphls.base.errors import GraphAttributeError
from graphls.frontend.names.habits import NAMESPACE, instead
from graphls.ops.primitive import REQUIRED, Operator, operator
from graphls.ops.record import FUNCTIONS, OPERATORS

__all__ = ["OPERATORS", "REQUIRED", "Operator", "operator"]
__all__.extend(OPERATORS)


def __getattr__(name: str) -> Any:
    """An operator class or a function by its name; raises GraphAttributeError, which suggests the closest name."""
    if name in OPERATORS or name in FUNCTIONS:
        return OPERATORS.get(name) or FUNCTIONS[name]
    known = [] if name.startswith("_") else [*OPERATORS, *FUNCTIONS]  # tools ask for private names and go on
    raise GraphAttributeError(f"graphls.ops has no {name!r}{instead(name, NAMESPACE, known)}.")


def __dir__() -> list[str]:
    return sorted({*globals(), *OPERATORS})
