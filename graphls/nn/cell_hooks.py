"""Hooks of cells: functions that a call of a cell passes its inputs, its outputs and the gradients of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.gradients import with_gradient
from graphls.tensors.pytree import leaves, rebuild
from graphls.tensors.tensor import TensorLike, is_tensor
from graphls.trace.current import current_tracer

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
    forward are called each time; gradients are graphs there, too.
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


def run(cell: Hooks, construct: Callable[..., Any], args: tuple[Any, ...], options: dict[str, object]) -> Any:
    """What `construct` gives, between the hooks of a cell."""
    table = cell.__dict__.get("_hooks")
    if table is None:
        return construct(*args, **options)
    for hook, with_options in [*table["forward_pre"].values()]:
        given = hook(cell, args, options) if with_options else hook(cell, args)
        if given is not None:
            args, options = given if with_options else (_as_tuple(given), options)
    if table["backward"] and current_tracer() is not None:
        args = _differentiated(args, [_with_outputs(cell, hook) for hook, _ in table["backward"].values()])
    outputs = construct(*args, **options)
    for hook, with_options in [*table["forward"].values()]:
        given = hook(cell, args, options, outputs) if with_options else hook(cell, args, outputs)
        outputs = outputs if given is None else given
    if table["backward_pre"] and current_tracer() is not None:
        outputs = _differentiated(outputs, [_of_outputs(cell, hook) for hook, _ in table["backward_pre"].values()])
    return outputs


def _as_tuple(given: TensorLike) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)


def _with_outputs(cell: Hooks, hook: Any) -> Any:
    return lambda gradients: hook(cell, gradients, _Unread())


def _of_outputs(cell: Hooks, hook: Any) -> Any:
    return lambda gradients: hook(cell, gradients)


def _differentiated(tree: object, hooks: list[Any]) -> Any:
    """The tensors of a pytree, whose gradients go through hooks."""
    found = leaves(tree)
    tensors = [leaf for leaf in found if is_tensor(leaf)]
    if not tensors:
        return tree
    given = with_gradient(lambda *same: same if len(same) > 1 else same[0], _through(hooks), *tensors)
    passed = iter(given if len(tensors) > 1 else (given,))
    return rebuild(tree, [next(passed) if is_tensor(leaf) else leaf for leaf in found])


def _through(hooks: list[Any]) -> Callable[..., Any]:
    """What makes the gradients of inputs that are given on as they are: those of the outputs, through hooks."""

    def gradient(*arguments: Any) -> Any:
        gradients = _as_tuple(arguments[-1])
        for hook in hooks:
            given = hook(gradients)
            gradients = gradients if given is None else _as_tuple(given)
        return gradients

    return gradient
