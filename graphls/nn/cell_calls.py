"""How a cell is called: hooks around its construct, and eager mode, which runs it as plain Python on numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

from graphls.context import is_eager
from graphls.ir.errors import GraphlsError, GraphTypeError, GraphValueError
from graphls.ir.reporting import too_deep
from graphls.ir.types import DType
from graphls.ops.gradients import with_hooks
from graphls.ops.host_calls import of_numbers
from graphls.tensors import dispatch, executor
from graphls.tensors.parameter import Parameter
from graphls.tensors.pytree import leaves, map_leaves
from graphls.tensors.tensor import Tensor, TensorLike
from graphls.trace.casting import Casting, in_dtype
from graphls.trace.current import current_tracer
from graphls.trace.inputs import static_inputs
from graphls.trace.whereabouts import say_cell

KINDS = ("forward_pre", "forward", "backward_pre", "backward")


class HookHandle:
    """A hook of a cell, which `remove` takes away again."""

    def __init__(self, hooks: dict[int, Any], key: int, changed: Callable[[], None]) -> None:
        self._hooks, self._key, self._changed = hooks, key, changed

    def remove(self) -> None:
        """Take the hook away; without it nothing happens."""
        if self._hooks.pop(self._key, None) is not None:
            self._changed()


class Hooks:
    """What a cell has of hooks.

    A graph calls them once, while it is traced, on symbols: what they compute is part of it. In eager mode those of the
    forward are called each time, and those of the backward by the graph of the gradients, each time with numbers.
    """

    def _changed(self, name: str = "") -> None:
        """Take note that compiled steps are out of date."""

    def register_forward_pre_hook(
        self, hook_fn: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call `hook_fn(cell, inputs)` before `construct`; what it gives, unless None, are the inputs.

        With `with_kwargs` it is `hook_fn(cell, inputs, options)`, which gives both. Raises GraphTypeError for what is
        no function, as the other hooks do.
        """
        return _registered(self, "forward_pre", hook_fn, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook_fn: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> HookHandle:
        """Call `hook_fn(cell, inputs, outputs)` behind `construct`; what it gives, unless None, are the outputs.

        With `with_kwargs` it is `hook_fn(cell, inputs, options, outputs)`.
        """
        return _registered(self, "forward", hook_fn, prepend, with_kwargs)

    def register_backward_pre_hook(self, hook_fn: Callable[..., Any]) -> HookHandle:
        """Call `hook_fn(cell, gradients of the outputs)`; what it gives, unless None, are these gradients."""
        return _registered(self, "backward_pre", hook_fn, False, False)

    def register_backward_hook(self, hook_fn: Callable[..., Any]) -> HookHandle:
        """Call `hook_fn(cell, gradients of the inputs, gradients of the outputs)`.

        What it gives, unless None, are the gradients of the inputs. Those of the outputs are there for a
        `register_backward_pre_hook` only; reading them here is an error.
        """
        return _registered(self, "backward", hook_fn, False, False)


class _Unread(tuple[Any, ...]):
    """The gradients of the outputs in a backward hook, which has those of the inputs only."""

    __slots__ = ()

    def __getitem__(self, index: object) -> Any:
        raise GraphValueError(
            "A backward hook has the gradients of the inputs; read those of the outputs in a "
            "register_backward_pre_hook.",
        )

    __iter__ = __getitem__  # type: ignore[assignment]


def _registered(cell: Hooks, kind: str, hook: object, is_first: bool, with_options: bool) -> HookHandle:
    if not callable(hook):
        raise GraphTypeError(f"A hook of a cell is a function, not {hook!r}.")
    table: dict[str, dict[int, Any]] = cell.__dict__.setdefault("_hooks", {kind: {} for kind in KINDS})
    hooks = table[kind]
    key = max((*hooks, *hooks), default=0) + 1
    others = dict(hooks)
    hooks.clear()
    hooks.update({key: (hook, with_options), **others} if is_first else {**others, key: (hook, with_options)})
    cell._changed()
    return HookHandle(hooks, key, cell._changed)


def between_hooks(cell: Hooks, construct: Callable[..., Any], args: tuple[Any, ...], options: dict[str, object]) -> Any:
    """What `construct` gives, between the hooks of a cell."""
    table = cell.__dict__.get("_hooks")
    if table is None:
        return construct(*args, **options)
    for hook, with_options in [*table["forward_pre"].values()]:
        given = hook(cell, args, options) if with_options else hook(cell, args)
        if given is not None:
            args, options = given if with_options else (_as_tuple(given), options)
    if table["backward"] and current_tracer() is not None:
        args = with_hooks(args, [_with_outputs(cell, hook) for hook, _ in table["backward"].values()])
    outputs = construct(*args, **options)
    for hook, with_options in [*table["forward"].values()]:
        given = hook(cell, args, options, outputs) if with_options else hook(cell, args, outputs)
        outputs = outputs if given is None else given
    if table["backward_pre"] and current_tracer() is not None:
        outputs = with_hooks(outputs, [_of_outputs(cell, hook) for hook, _ in table["backward_pre"].values()])
    return outputs


def _as_tuple(given: TensorLike) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)


def _with_outputs(cell: Hooks, hook: Any) -> Any:
    return _as_the_mode_says(lambda gradients: hook(cell, gradients, _Unread()))


def _of_outputs(cell: Hooks, hook: Any) -> Any:
    return _as_the_mode_says(lambda gradients: hook(cell, gradients))


def _as_the_mode_says(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A hook of gradients: with numbers in eager mode, and in a graph with symbols, as part of it."""
    return of_numbers(hook) if is_eager() else hook


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
    if cell._passes:
        return True
    parts = (cell, getattr(type(cell), "construct", None), *vars(cell).values())
    return any(getattr(type(part), "needs_graph", False) for part in parts)


def in_construct() -> bool:
    """Whether a construct is running, in a trace or step by step."""
    return executor.executor() is not None


@dataclass(frozen=True)
class Running:
    """A cell that runs, as far as it decides in which dtypes: what a tracer does when it traces the cell."""

    float_type: DType | None
    casting: Casting | None
    cell: Any = None

    is_trace: ClassVar[Literal[False]] = False

    def apply(self, name: str, operands: tuple[object, ...], attrs: dict[str, object]) -> Any:
        """Compute a primitive at once, in the dtypes of the cell."""
        if self.float_type is None and self.casting is None:
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
            return parameter.data
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
        args, options = _given(running, (args, options))
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


def _given(running: Running, inputs: object) -> Any:
    """The inputs as the cell takes them: the very same objects, lists included, where nothing is cast."""
    cast = map_leaves(running.cast_input, static_inputs(inputs))
    is_same = all(a is b for a, b in zip(leaves(inputs), leaves(cast), strict=True))
    return inputs if is_same else cast
