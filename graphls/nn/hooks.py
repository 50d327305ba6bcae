"""Hooks: functions around a cell's construct, and those of its gradients."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.pytree import leaves, rebuild
from graphls.frontend.tensors.tensor import Array, Tensor, TensorLike, is_tensor
from graphls.frontend.trace.tracer import current_tracer
from graphls.nn.hook_kinds import gives_nothing, keeps
from graphls.nn.hook_numbers import given_by
from graphls.nn.hook_traces import keep_in_trace
from graphls.ops.gradients import is_gradient_alone, with_hooks
from graphls.ops.host_calls import of_numbers, report
from graphls.ops.operands import tensor_of
from graphls.runtime.context import is_eager

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

    One that gives nothing, such as a function without `return` or a lambda that appends to a list, looks on: it has
    numbers, each time that the cell runs, also in a graph, where it is called when the graph has run; `construct` finds
    what it keeps, such as features for a loss. One that gives something takes part: in a graph it is called once, while
    that is traced, on symbols, and what it computes is part of the graph and of its gradient. In eager mode it has
    numbers each time, also where a gradient function runs the cell, which then takes the gradient of what was computed.
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
        self, hook_fn: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
        always_call: bool = False,
    ) -> HookHandle:  # fmt: skip
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
        given = _called(cell, hook, (args, options)) if with_options else _called(cell, hook, (args,), args)
        if given is not None:
            args, options = given if with_options else (_as_tuple(given), options)
    if table["backward"] and current_tracer() is not None:
        args = with_hooks(args, [_of_inputs(cell, hook) for hook, _ in table["backward"].values()])
    outputs = construct(*args, **options)
    for hook, with_options in [*table["forward"].values()]:
        seen = (args, options, outputs) if with_options else (args, outputs)
        given = _called(cell, hook, seen, outputs)
        outputs = outputs if given is None else given
    if table["backward_pre"] and current_tracer() is not None:
        outputs = with_hooks(outputs, [_of_outputs(cell, hook) for hook, _ in table["backward_pre"].values()])
    return outputs


def _called(cell: Hooks, hook: Callable[..., Any], given: tuple[Any, ...], replaced: Any = None) -> Any:
    """What a hook gives in place of `replaced`, by default of all that it is given.

    One that only looks on is called with numbers, in a graph whenever that has run.
    """
    tracer = current_tracer()
    if tracer is None:
        return hook(cell, *given)
    if not gives_nothing(hook):
        has_numbers = is_eager() and is_gradient_alone()
        return given_by(tracer, hook, cell, given, replaced) if has_numbers else hook(cell, *given)
    if keeps(hook):
        with Looking():
            keep_in_trace(tracer, hook, cell, given)
    with_numbers(lambda *numbers: hook(cell, *numbers), given)
    return None


def _as_tuple(given: TensorLike) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)


def _of_inputs(cell: Hooks, hook: Any) -> Any:
    return of_gradients(hook, lambda gradients: hook(cell, gradients, _Unread()))


def _of_outputs(cell: Hooks, hook: Any) -> Any:
    return of_gradients(hook, lambda gradients: hook(cell, gradients))


class Looking:
    """As long as a hook looks on: what it keeps as an attribute of a cell is nothing that a compiled step depends on.

    A construct that reads the attribute has the symbol that the hook keeps there while the construct is traced.
    """

    _depth: ClassVar[ContextVar[int]] = ContextVar("looking", default=0)

    def __enter__(self) -> None:
        self._token = self._depth.set(self._depth.get() + 1)

    def __exit__(self, *_: object) -> None:
        self._depth.reset(self._token)

    @classmethod
    def is_on(cls) -> bool:
        """Whether a hook that looks on is running."""
        return cls._depth.get() > 0


def of_gradients(hook: object, call: Callable[[tuple[Any, ...]], Any]) -> Callable[..., Any]:
    """A hook of gradients, which `call` calls: in the graph, or with numbers in eager mode and where it only looks."""
    if gives_nothing(hook):
        return lambda gradients: with_numbers(call, (gradients,))
    return of_numbers(call) if is_eager() else call


def with_numbers(function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    """Call a function with nests of tensors of a graph as numbers, whenever the graph has run."""
    found = leaves(given)

    def shown(arrays: list[Array]) -> None:
        numbers = map(Tensor, arrays)
        with Looking():
            function(*rebuild(given, [next(numbers) if is_tensor(leaf) else leaf for leaf in found]))

    report("hook", [tensor_of(leaf) for leaf in found if is_tensor(leaf)], shown)
