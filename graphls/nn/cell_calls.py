"""How a cell is called in eager mode, which runs its construct as plain Python on numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

from graphls.base.errors import GraphlsError
from graphls.base.reporting import too_deep
from graphls.frontend.tensors import dispatch, executor
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.frontend.trace.casting import Casting, in_dtype
from graphls.frontend.trace.cells import say_cell
from graphls.frontend.trace.inputs import static_inputs
from graphls.ir.types import DType
from graphls.runtime.context import is_eager


class Runs(Protocol):
    """What eager mode knows of a cell."""

    _float_type: DType | None
    _output_type: DType | None
    _casting: Casting | None
    _passes: tuple[Any, ...]

    def _eager_construct(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What `construct` gives, between the hooks of the cell."""


def runs_eagerly(cell: Runs) -> bool:
    """Whether a cell that is called outside of a trace runs step by step, rather than as one graph."""
    return is_eager() and not needs_graph(cell)


def needs_graph(cell: Runs) -> bool:
    """Whether a cell is a graph in eager mode, too: an optimizer, what holds one or takes gradients, or has passes."""
    if cell._passes or getattr(type(getattr(type(cell), "construct", None)), "needs_graph", False):
        return True
    fields = vars(cell)
    version, found = fields.get("_needs_graph", (None, False))
    if version != fields["_version"]:
        found = any(getattr(type(part), "needs_graph", False) for part in (cell, *fields.values()))
        fields["_needs_graph"] = fields["_version"], found
    return bool(found)


def in_construct() -> bool:
    """Whether a construct is running, in a trace or step by step."""
    return executor.executor() is not None


_TAKEN_AS_THEY_ARE = frozenset((Tensor, Parameter, type(None), bool, int, float, str))


@dataclass(frozen=True)
class Running:
    """A cell that runs, as far as it decides in which dtypes: what a tracer does when it traces the cell."""

    float_type: DType | None
    casting: Casting | None
    cell: Any = None

    is_trace: ClassVar[Literal[False]] = False

    @property
    def casts_any(self) -> bool:
        """Whether operands are cast, for the cell or for what it computes."""
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
        """Whether the cell has a `to_float`, and the parameter floats of another dtype."""
        wanted = self.float_type
        return wanted is not None and parameter.dtype.is_float and parameter.dtype is not wanted

    def cast_input(self, leaf: TensorLike) -> Any:
        """An input of the cell, in its `to_float` type."""
        return leaf if isinstance(leaf, Parameter) else in_dtype(leaf, self.float_type)

    def _operand(self, operand: TensorLike) -> Any:
        return self.read(operand) if isinstance(operand, Parameter) and self.casts(operand) else operand


def call_eagerly(cell: Runs, args: tuple[object, ...], options: dict[str, object]) -> Any:
    """What a cell's construct gives, run as plain Python; arrays among its inputs become tensors."""
    outer = executor.running()
    inherited = outer.casting if isinstance(outer, Running) else None
    running = Running(cell._float_type, None if cell._float_type else cell._casting or inherited, cell)
    before = executor.EXECUTOR.get()
    try:
        executor.execute_by(running)
        args, options = _given(running, args, options)
        outputs = cell._eager_construct(args, options)
        wanted = cell._output_type
        return outputs if wanted is None else map_leaves(lambda leaf: in_dtype(leaf, wanted), outputs)
    except GraphlsError as error:
        if isinstance(outer, Running) and outer.cell is not None:
            say_cell(error, cell, _name_in(outer.cell, cell))
        raise
    except RecursionError as error:
        if outer is not None:
            raise
        raise too_deep(error) from None
    finally:
        executor.EXECUTOR.set(before)


def _name_in(caller: Any, cell: Any) -> str:
    """The path to a cell from the one that calls it."""
    return next((path for path, inner in caller.cells_and_names() if inner is cell), str(cell._scope_name))


def _given(running: Running, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The inputs as the cell takes them: the very same objects, lists included, where nothing is cast."""
    inputs = args, options
    if running.float_type is None and not options and all(type(item) in _TAKEN_AS_THEY_ARE for item in args):
        return inputs
    cast = map_leaves(running.cast_input, static_inputs(inputs))
    is_same = all(a is b for a, b in zip(leaves(inputs), leaves(cast), strict=True))
    return inputs if is_same else cast
