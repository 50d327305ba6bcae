"""`_cell_graph_executor` and `_pynative_executor` of `mindspore.common.api`, by which tests compile and wait."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from graphls.api import Compiled
from graphls.compile_cache import compile_cell
from graphls.ir.errors import GraphTypeError
from graphls.nn.cell import Cell
from graphls.source import user_location

__all__ = ["_CellGraphExecutor", "_PyNativeExecutor", "_cell_graph_executor", "_executor", "_pynative_executor"]

OPTIONS = ("auto_parallel_mode", "do_convert", "jit_config_dict", "params", "is_auto_parallel")
"""Options of `compile` that say how MindSpore compiles."""


class _CellGraphExecutor:
    """Compiles cells without running them."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Compiled, int] = WeakKeyDictionary()
        self._count = 0

    def compile(self, obj: Any, *args: Any, phase: str = "predict", **options: Any) -> tuple[str, bool]:
        """Compile a cell for inputs like these: the name of the graph, and whether it has been made just now.

        The name begins with `phase`. Raises GraphTypeError for what is no cell, and what compiling raises.
        """
        if not isinstance(obj, Cell):
            raise GraphTypeError(f"compile takes a Cell, not {obj!r}.", user_location())
        inputs = {name: value for name, value in options.items() if name not in OPTIONS}
        step = compile_cell(obj, args, inputs)
        is_new = step not in self._numbers
        if is_new:
            self._count += 1
            self._numbers[step] = self._count
        return f"{phase}.{self._numbers[step]}", is_new

    def has_compiled(self, phase: str = "predict") -> bool:
        """Whether there is a graph of this name."""
        return phase.rpartition(".")[2] in map(str, self._numbers.values())

    def set_jit_config(self, jit_config: Any) -> None:
        """Nothing: how MindSpore compiles changes nothing here."""

    def __call__(self, obj: Any, *args: Any, phase: str = "predict") -> Any:
        return obj(*args)


class _PyNativeExecutor:
    """Cells that run step by step: what they compute is there when they return, so there is nothing to wait for."""

    def sync(self) -> None:
        """Nothing."""

    def set_grad_flag(self, flag: bool) -> None:
        """Nothing: gradients are taken where they are asked for."""

    def clear_res(self) -> None:
        """Nothing."""


_cell_graph_executor = _executor = _CellGraphExecutor()
_pynative_executor = _PyNativeExecutor()
