"""Hooks: functions around a cell's construct, and those of its gradients."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.pytree import leaves, rebuild
from graphls.frontend.tensors.tensor import Array, Tensor, TensorLike, is_tensor
from graphls.frontend.trace.tracer import current_tracer
from graphls.nn.hook_kinds import returns_none, stores
from graphls.nn.hook_traces import call_on_host, observe_symbols
from graphls.ops.gradients import is_gradient_alone, with_hooks
from graphls.ops.host_calls import concrete_hook, report
from graphls.ops.operands import tensor_of
from graphls.runtime.context import is_eager

KINDS = ("forward_pre", "forward", "backward_pre", "backward")


class HookHandle:
    """A registered hook of a cell, which `remove` removes."""

    def __init__(self, hooks: dict[int, Any], key: int, changed: Callable[[], None]) -> None:
        self._hooks, self._key, self._changed = hooks, key, changed

    def remove(self) -> None:
        """Remove the hook; does nothing if it is removed already."""
        if self._hooks.pop(self._key, None) is not None:
            self._changed()


class Hooks:
    """The hooks of a cell.

    A hook that returns nothing, such as a function without `return` or a lambda that appends to a list, is an observer:
    it is called with numbers each time that the cell runs, also in a graph, where it is called when the graph has run;
    `construct` can read what it stores, such as features for a loss. A hook that returns something takes part: in a
    graph it is called once, during the trace, on symbols, and its computation is part of the graph and of its gradient.
    In eager mode it has numbers each time, also where a gradient function runs the cell, and is differentiated.
    """

    def _changed(self, name: str = "") -> None:
        """Mark compiled steps as out of date."""

    def register_forward_pre_hook(
        self, hook_fn: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call `hook_fn(cell, inputs)` before `construct`; its result, unless None, replaces the inputs.

        With `with_kwargs` it is `hook_fn(cell, inputs, options)`, which returns both. Raises GraphTypeError for
        anything but a function, as the other hooks do.
        """
        return _register(self, "forward_pre", hook_fn, prepend, with_kwargs)

    def register_forward_hook(
        self, hook_fn: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> HookHandle:  # fmt: skip
        """Call `hook_fn(cell, inputs, outputs)` after `construct`; its result, unless None, replaces the outputs.

        With `with_kwargs` it is `hook_fn(cell, inputs, options, outputs)`.
        """
        return _register(self, "forward", hook_fn, prepend, with_kwargs)

    def register_backward_pre_hook(self, hook_fn: Callable[..., Any]) -> HookHandle:
        """Call `hook_fn(cell, gradients of the outputs)`; its result, unless None, replaces these gradients."""
        return _register(self, "backward_pre", hook_fn, False, False)

    def register_backward_hook(self, hook_fn: Callable[..., Any]) -> HookHandle:
        """Call `hook_fn(cell, gradients of the inputs, gradients of the outputs)`.

        Its result, unless None, replaces the gradients of the inputs. Those of the outputs are available to a
        `register_backward_pre_hook` only; reading them here is an error.
        """
        return _register(self, "backward", hook_fn, False, False)


class _Unread(tuple[Any, ...]):
    """The gradients of the outputs in a backward hook, which has those of the inputs only."""

    __slots__ = ()

    def __getitem__(self, index: object) -> Any:
        raise GraphValueError(
            "A backward hook has the gradients of the inputs; read those of the outputs in a "
            "register_backward_pre_hook.",
        )

    __iter__ = __getitem__  # type: ignore[assignment]


def _register(cell: Hooks, kind: str, hook: object, is_first: bool, with_options: bool) -> HookHandle:
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
    """Run `construct` between the hooks of a cell and return its outputs."""
    table = cell.__dict__.get("_hooks")
    if table is None:
        return construct(*args, **options)
    for hook, with_options in [*table["forward_pre"].values()]:
        returned = _call_hook(cell, hook, (args, options)) if with_options else _call_hook(cell, hook, (args,), args)
        if returned is not None:
            args, options = returned if with_options else (_as_tuple(returned), options)
    if table["backward"] and current_tracer() is not None:
        args = with_hooks(args, [_of_inputs(cell, hook) for hook, _ in table["backward"].values()])
    outputs = construct(*args, **options)
    for hook, with_options in [*table["forward"].values()]:
        arguments = (args, options, outputs) if with_options else (args, outputs)
        returned = _call_hook(cell, hook, arguments, outputs)
        outputs = outputs if returned is None else returned
    if table["backward_pre"] and current_tracer() is not None:
        outputs = with_hooks(outputs, [_of_outputs(cell, hook) for hook, _ in table["backward_pre"].values()])
    return outputs


def _call_hook(cell: Hooks, hook: Callable[..., Any], arguments: tuple[Any, ...], replaced: Any = None) -> Any:
    """Call a hook; its result replaces `replaced`, by default all its arguments.

    An observer is called with numbers, in a graph whenever that has run.
    """
    tracer = current_tracer()
    if tracer is None:
        return hook(cell, *arguments)
    if not returns_none(hook):
        has_numbers = is_eager() and is_gradient_alone()
        return call_on_host(tracer, hook, cell, arguments, replaced) if has_numbers else hook(cell, *arguments)
    if stores(hook):
        with Observing():
            observe_symbols(tracer, hook, cell, arguments)
    with_numbers(lambda *numbers: hook(cell, *numbers), arguments)
    return None


def _as_tuple(value: TensorLike) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _of_inputs(cell: Hooks, hook: Any) -> Any:
    return of_gradients(hook, lambda gradients: hook(cell, gradients, _Unread()))


def _of_outputs(cell: Hooks, hook: Any) -> Any:
    return of_gradients(hook, lambda gradients: hook(cell, gradients))


class Observing:
    """A block in which an observer runs: attributes that it sets on a cell do not outdate compiled steps.

    A construct that reads such an attribute gets the symbol that the hook stores there during the trace.
    """

    _depth: ClassVar[ContextVar[int]] = ContextVar("observing", default=0)

    def __enter__(self) -> None:
        self._token = self._depth.set(self._depth.get() + 1)

    def __exit__(self, *_: object) -> None:
        self._depth.reset(self._token)

    @classmethod
    def is_on(cls) -> bool:
        """Returns whether an observer is running."""
        return cls._depth.get() > 0


def of_gradients(hook: object, call: Callable[[tuple[Any, ...]], Any]) -> Callable[..., Any]:
    """A hook of gradients as a function: in the graph, or on numbers in eager mode and for observers."""
    if returns_none(hook):
        return lambda gradients: with_numbers(call, (gradients,))
    return concrete_hook(call) if is_eager() else call


def with_numbers(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Call a function with nests of tensors of a graph as numbers, whenever the graph has run."""
    flat = leaves(arguments)

    def shown(arrays: list[Array]) -> None:
        numbers = map(Tensor, arrays)
        with Observing():
            function(*rebuild(arguments, [next(numbers) if is_tensor(leaf) else leaf for leaf in flat]))

    report("hook", [tensor_of(leaf) for leaf in flat if is_tensor(leaf)], shown)
