"""Functions of tensors as cells: as networks and losses of a Model and of training steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from graphls.base.errors import GraphTypeError
from graphls.frontend.trace.closure_variables import ClosureVariables
from graphls.frontend.trace.rewriting.functions import rewritten
from graphls.nn.cell import Cell

CellOrFunction: TypeAlias = "Cell | Callable[..., Any]"


class CalledFunction(Cell):
    """A function of tensors as a cell.

    Its parts are the cells that the function, or the method, reads from around it, so that `set_train`, checkpoints
    and mixed precision reach them; their parameters keep their names.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(auto_prefix=False)
        self.function = function
        for reference in ClosureVariables(function.func if isinstance(function, partial) else function).references:
            cell = reference.value()
            if isinstance(cell, Cell) and all(cell is not part for part in self.cells()):
                name = reference.name if not hasattr(type(self), reference.name) else f"{reference.name}_"
                self.insert_child_to_cell(name if name not in self.__dict__ else str(len(self.cells())), cell)

    def construct(self, *inputs: object) -> Any:
        self._check(inputs)
        return rewritten(self.function)(*inputs)

    def _check(self, inputs: tuple[object, ...]) -> None:
        """Raise GraphTypeError for a number of inputs that the function does not take."""
        try:
            signature = inspect.signature(self.function)
        except ValueError:  # a function of C without one
            return
        try:
            signature.bind(*inputs)
        except TypeError as error:
            text = f"The function {self.extend_repr()}{signature} is called with {len(inputs)} inputs"
            raise GraphTypeError(f"{text}: {error}.") from None

    def extend_repr(self) -> str:
        function: Any = self.function.func if isinstance(self.function, partial) else self.function
        return str(getattr(function, "__name__", type(function).__name__))


def as_cell(part: object, argument: str) -> Cell:
    """The cell of an argument, which may be a function; raises GraphTypeError for anything else."""
    if isinstance(part, Cell):
        return part
    if not callable(part) or isinstance(part, type):
        advice = "; call the class" if isinstance(part, type) and issubclass(part, Cell) else ""
        raise GraphTypeError(f"The argument {argument!r} must be a Cell or a function, but got {part!r}{advice}.")
    return CalledFunction(part)
