"""The registry of the operations that tensors call, filled by the packages above.

`graphls.ops` and `graphls.initializer`, which stand above, register theirs as they are imported. Python runs
`graphls/__init__.py`, which imports both, before any module of the package: so no tensor is ever without them, and
`import graphls.ir` loads them, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

_functions: dict[str, Function] = {}


def register(**functions: Function) -> None:
    """Register functions by the names under which tensors call them."""
    _functions.update(functions)


def function(name: str) -> Function:
    """The function that was registered by a name."""
    return _functions[name]
