"""Registries that upper packages fill: functions that tensors and traces call, and the compiler of cell calls.

`graphls.ops`, `graphls.initializer` and `graphls.step.calling`, which stand above, register theirs as they are
imported. Python runs `graphls/__init__.py`, which imports all of them, before any module of the package: so no tensor
is ever without them, and `import graphls.ir` loads them, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Function = Callable[..., Any]

_functions: dict[str, Function] = {}


def register(**functions: Function) -> None:
    """Register functions by the names under which `function` finds them."""
    _functions.update(functions)


def function(name: str) -> Function:
    """The function that was registered by a name."""
    return _functions[name]


class Compiler(Protocol):
    """The interface of `graphls.step.calling.cache` for the packages below it."""

    def call_cell(self, cell: Any, inputs: tuple[object, ...], options: dict[str, object]) -> Any:
        """Call a cell: compile it once for inputs like these, and run it."""

    def compile_cell(self, cell: Any, inputs: tuple[object, ...], options: dict[str, object]) -> Any:
        """The step that a call of the cell runs."""

    def derived_cache(self, of: Function, key: tuple[object, ...], function: Function) -> Function:
        """The compiled steps of a function that is derived from another one, by the key of the derivation."""


_compilers: list[Compiler] = []


def register_compiler(compiler: Compiler) -> None:
    """Register the compiler of cell calls outside of a trace."""
    _compilers.append(compiler)


def compiler() -> Compiler:
    """The compiler of cell calls outside of a trace."""
    return _compilers[-1]
