"""`mindspore.ops.operations._sequence_ops`, and what `_inner_ops` and `_scalar_ops` have of the kind."""

from __future__ import annotations

from typing import Any

from graphls.compat.functional import CLASSES, _class

_made: dict[str, Any] = {name: _class(name, function) for name, function in CLASSES.items()}


def __getattr__(name: str) -> Any:
    if name in _made:
        return _made[name]
    raise AttributeError(name)


def __dir__() -> list[str]:
    return sorted(_made)
