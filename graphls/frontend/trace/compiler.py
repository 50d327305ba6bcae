"""The registry of the compile function that cells use outside of a trace.

`graphls.step.calling`, which stands above, registers itself as it is imported; `import graphls` imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Function = Callable[..., Any]


class Compiler(Protocol):
    """The interface of `graphls.step.calling.cache` for the packages below it."""

    def call_cell(self, cell: Any, inputs: tuple[object, ...], options: dict[str, object]) -> Any:
        """Call a cell: compile it once for inputs like these, and run it."""

    def compile_cell(self, cell: Any, inputs: tuple[object, ...], options: dict[str, object]) -> Any:
        """The step that a call of the cell runs."""

    def derived_cache(self, of: Function, key: tuple[object, ...], function: Function) -> Function:
        """The compiled steps of a function that is derived from another one, by the key of the derivation."""


_compilers: list[Compiler] = []


def register(compiler: Compiler) -> None:
    """Register the compiler of calls outside of a trace."""
    _compilers.append(compiler)


def compiler() -> Compiler:
    """The compiler of calls outside of a trace."""
    return _compilers[-1]
