"""Operator classes, as MindSpore 1 writes operations, made from functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from graphls.ir.errors import GraphTypeError
from graphls.ops.primitive import Primitive
from graphls.tensors.tensor import Tensor

REQUIRED = inspect.Parameter.empty
"""The default of a setting that has none."""

_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD


class Operator(Primitive):
    """A function of tensors whose settings are given once, when it is made: `ReduceSum(keep_dims=True)(x, 0)`.

    Raises GraphTypeError for settings and arguments that the function does not take.
    """

    function: ClassVar[Callable[..., Any]]
    defaults: ClassVar[inspect.Signature]

    def __init__(self, *args: Any, **options: Any) -> None:
        name = type(self).__name__
        if any(isinstance(arg, Tensor) for arg in args):
            text = f"{name} is made with its settings first, and then called with tensors: ops.{name}()(x)."
            raise GraphTypeError(text)
        bound = _bound(f"The operator {name}", self.defaults, args, options)
        bound.apply_defaults()
        self.settings = dict(bound.arguments)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"


def operator(name: str, function: Callable[..., Any], settings: Mapping[str, Any], module: str) -> type[Operator]:
    """The class of `function`, of whose parameters those in `settings`, with their defaults, are given first."""
    defaults = inspect.Signature([inspect.Parameter(key, _KIND, default=value) for key, value in settings.items()])
    signature = inspect.signature(function)
    inputs = [p for p in signature.parameters.values() if p.name not in settings and p.kind is not p.KEYWORD_ONLY]
    written = f"{name}{defaults}({', '.join(p.name for p in inputs)})"
    fields = {
        "__module__": module,
        "__doc__": f"{inspect.getdoc(function) or ''}\n\nWritten `{written}`.",
        "__signature__": defaults,
        "__call__": _call(function, signature, inputs),
        "function": staticmethod(function),
        "defaults": defaults,
    }
    return type(name, (Operator,), fields)


def _call(
    function: Callable[..., Any], signature: inspect.Signature, inputs: list[inspect.Parameter]
) -> Callable[..., Any]:
    def call(self: Operator, *inputs: Any) -> Any:
        _bound(f"A call of {self!r}", signature, inputs, self.settings)
        return function(*inputs, **self.settings)

    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    call.__signature__ = inspect.Signature([itself, *inputs])  # type: ignore[attr-defined]
    call.__doc__ = inspect.getdoc(function)
    return call


def _bound(
    what: str, signature: inspect.Signature, args: tuple[Any, ...], options: dict[str, Any]
) -> inspect.BoundArguments:
    try:
        return signature.bind(*args, **options)
    except TypeError as error:
        taken = ", ".join(signature.parameters) or "nothing"
        raise GraphTypeError(f"{what} takes {taken}: {error}.") from None
