"""Calls of cells in eager mode, which run `construct` as plain Python on numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

from graphls.base.errors import GraphlsError
from graphls.base.reporting import recursion_error
from graphls.frontend.tensors import dispatch, executor
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.frontend.trace.casting import Casting, in_dtype
from graphls.frontend.trace.cells import name_cell
from graphls.frontend.trace.inputs import static_inputs
from graphls.ir.types import DType
from graphls.runtime.context import is_eager


class EagerCell(Protocol):
    """The attributes of a cell that eager mode reads."""

    _float_type: DType | None
    _output_type: DType | None
    _casting: Casting | None
    _passes: tuple[Any, ...]
    _recipe: Any

    def _eager_construct(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run `construct` between the hooks of the cell."""


def runs_eagerly(cell: EagerCell) -> bool:
    """Returns whether a cell called outside of a trace runs operation by operation, rather than as one graph."""
    return is_eager() and not needs_graph(cell)


def needs_graph(cell: EagerCell) -> bool:
    """Returns whether a cell runs as a graph in eager mode, too.

    It does with passes, with a recipe, and with an optimizer or a gradient inside.
    """
    if cell._passes or cell._recipe or getattr(type(getattr(type(cell), "construct", None)), "needs_graph", False):
        return True
    fields = vars(cell)
    version, needs = fields.get("_needs_graph", (None, False))
    if version != fields["_version"]:
        needs = any(getattr(type(part), "needs_graph", False) for part in (cell, *fields.values()))
        fields["_needs_graph"] = fields["_version"], needs
    return bool(needs)


def in_construct() -> bool:
    """Returns whether a `construct` is running, in a trace or eagerly."""
    return executor.executor() is not None


_PASSED_THROUGH = frozenset((Tensor, Parameter, type(None), bool, int, float, str))


@dataclass(frozen=True)
class Running:
    """A cell that runs eagerly, with the dtypes that it computes in; it takes the place of a tracer."""

    float_type: DType | None
    casting: Casting | None
    cell: Any = None

    is_trace: ClassVar[Literal[False]] = False

    @property
    def casts_any(self) -> bool:
        """True if operands are cast, for the cell or by mixed precision."""
        return self.float_type is not None or self.casting is not None

    def apply(self, name: str, operands: tuple[object, ...], attrs: dict[str, object]) -> Any:
        """Compute a primitive at once, in the dtypes of the cell."""
        if not self.casts_any:
            return dispatch.evaluate(name, operands, attrs)
        read = tuple(map(self._operand, self.cast_operands(name, operands)))
        results = dispatch.evaluate(name, read, attrs)
        if self.casting is None:
            return results
        several = isinstance(results, tuple)
        results = self.casting.results(name, results if several else (results,))
        return results if several else results[0]

    def cast_operands(self, name: str, operands: tuple[object, ...]) -> tuple[Any, ...]:
        """The operands in the dtype that the network computes this operation in."""
        return operands if self.casting is None else self.casting.operands(name, operands)

    @contextmanager
    def without_casts(self) -> Iterator[None]:
        """A block in which no operand is cast."""
        before = executor.EXECUTOR.get()
        try:
            executor.execute_by(replace(self, casting=None))
            yield
        finally:
            executor.EXECUTOR.set(before)

    def read(self, parameter: Parameter) -> Tensor:
        """The value of a parameter as the cell sees it: cast where the cell has `to_float`."""
        if not self.casts(parameter):
            return parameter.value()
        return Tensor(dispatch.evaluate("cast", (parameter,), {"dtype": self.float_type}))

    def casts(self, parameter: Parameter) -> bool:
        """Returns whether `to_float` casts a parameter: the cell has one, and the parameter floats of another dtype."""
        target = self.float_type
        return target is not None and parameter.dtype.is_float and parameter.dtype is not target

    def cast_input(self, leaf: TensorLike) -> Any:
        """An input of the cell, in its `to_float` type."""
        return leaf if isinstance(leaf, Parameter) else in_dtype(leaf, self.float_type)

    def _operand(self, operand: TensorLike) -> Any:
        return self.read(operand) if isinstance(operand, Parameter) and self.casts(operand) else operand


def call_eagerly(cell: EagerCell, args: tuple[object, ...], options: dict[str, object]) -> Any:
    """Run a cell's construct as plain Python and return its result; arrays among the inputs become tensors."""
    outer = executor.running()
    inherited = outer.casting if isinstance(outer, Running) else None
    running = Running(cell._float_type, None if cell._float_type else cell._casting or inherited, cell)
    before = executor.EXECUTOR.get()
    try:
        executor.execute_by(running)
        args, options = _cast_inputs(running, args, options)
        outputs = cell._eager_construct(args, options)
        output_type = cell._output_type
        return outputs if output_type is None else map_leaves(lambda leaf: in_dtype(leaf, output_type), outputs)
    except GraphlsError as error:
        if isinstance(outer, Running) and outer.cell is not None:
            name_cell(error, cell, _name_in(outer.cell, cell))
        raise
    except RecursionError as error:
        if outer is not None:
            raise
        raise recursion_error(error) from None
    finally:
        executor.EXECUTOR.set(before)


def _name_in(caller: Any, cell: Any) -> str:
    """The path to a cell from the one that calls it."""
    return next((path for path, inner in caller.cells_and_names() if inner is cell), str(cell._scope_name))


def _cast_inputs(running: Running, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The inputs cast to the cell's dtype: the very same objects, lists included, where nothing is cast."""
    inputs = args, options
    if running.float_type is None and not options and all(type(item) in _PASSED_THROUGH for item in args):
        return inputs
    cast = map_leaves(running.cast_input, static_inputs(inputs))
    is_same = all(a is b for a, b in zip(leaves(inputs), leaves(cast), strict=True))
    return inputs if is_same else cast
