"""The registry of the operations that tensors call, filled by the packages above.

`graphls.ops` and `graphls.initializer`, which stand above, register theirs as they are imported; `import graphls`
imports both, so that no tensor is ever there without them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

_functions: dict[str, Function] = {}


def register(**functions: Function) -> None:
    """Have tensors call these functions by these names."""
    _functions.update(functions)


def function(name: str) -> Function:
    """The function that was registered by a name."""
    return _functions[name]
