"""Operator classes, `ops.Name(settings)(tensors)`, which records declare beside their functions (`ops/record.py`)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from graphls.ir.errors import GraphAttributeError
from graphls.names.habits import PACKAGE, instead
from graphls.ops.operator import REQUIRED, Operator, operator
from graphls.ops.record import FUNCTIONS, OPERATORS, operator_class

TABLES = ("adam", "adaptive", "descent")
"""The modules `operations_*` that have tables of classes, not records."""

for _tables in (import_module(f"graphls.ops.operations_{name}") for name in TABLES):
    for _name, (_function, _settings) in ({n: (f, {}) for n, f in _tables.PLAIN.items()} | _tables.CONFIGURED).items():
        operator_class(_name, " ".join(_settings), defaults=_settings)(_function)

__all__ = ["OPERATORS", "REQUIRED", "Operator", "operator", *OPERATORS]


def __getattr__(name: str) -> Any:
    """An operator class or a function by its name; raises GraphAttributeError, which names what is near."""
    if name in OPERATORS or name in FUNCTIONS:
        return OPERATORS.get(name) or FUNCTIONS[name]
    raise GraphAttributeError(f"graphls.ops has no {name!r}{instead(name, PACKAGE, [*OPERATORS, *FUNCTIONS])}.")


def __dir__() -> list[str]:
    return sorted({*globals(), *OPERATORS})
