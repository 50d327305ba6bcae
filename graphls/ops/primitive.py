"""Primitive, the base class of operators with MindSpore's attributes, and operator classes from functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, ClassVar, TypeVar

from graphls.base.errors import GraphAttributeError, GraphRuntimeError, GraphTypeError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.strategies import Strategy

Self = TypeVar("Self", bound="Primitive")


class Primitive:
    """An operator with a name and attributes; a subclass computes by its `__call__`, or `construct`.

    Attributes, devices and stages are accepted and have no effect. Calling
    an operator that only infers shapes and dtypes raises GraphRuntimeError, since there is no kernel for it.
    """

    name = ""

    def __init__(self, name: str = "", **attrs: Any) -> None:
        self.name = name or type(self).__name__
        self.attrs.update(attrs)

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes added by `add_prim_attr`."""
        attributes: dict[str, Any] = self.__dict__.setdefault("_attrs", {})
        return attributes

    @property
    def instance_name(self) -> str:
        """The name of this instance."""
        return str(self.__dict__.get("_instance_name", ""))

    def add_prim_attr(self: Self, name: str, value: TensorLike) -> Self:
        """Add an attribute, also as an attribute of the object; returns the operator."""
        self.attrs[name] = value
        self.__dict__[name] = value
        return self

    add_attr = set_attr = add_prim_attr

    def del_prim_attr(self: Self, name: str) -> Self:
        """Remove an attribute; returns the operator."""
        self.attrs.pop(name, None)
        self.__dict__.pop(name, None)
        return self

    def get_attr_dict(self) -> dict[str, Any]:
        """All attributes by name."""
        return dict(self.attrs)

    def init_prim_io_names(self, inputs: TensorLike, outputs: TensorLike) -> None:
        """Store the names of inputs and outputs in the attributes `input_names` and `output_names`."""
        self.add_prim_attr("input_names", inputs)
        self.add_prim_attr("output_names", outputs)

    def set_prim_instance_name(self: Self, name: str) -> Self:
        """Name this instance; returns it."""
        self.__dict__["_instance_name"] = name
        return self

    def shard(self: Self, in_strategy: object = None, out_strategy: object = None) -> Self:
        """Cut operands and results among the devices of a mesh, each axis into so many slices; returns the operator.

        `ops.MatMul().shard(((4, 2), (2, 1)))` cuts m into 4 slices and k into 2, on 8 devices; layouts name mesh axes.
        Without a mesh it has no effect. Raises GraphTypeError for anything but tuples of slices or of layouts, and when
        a step is compiled GraphValueError for a strategy that does not fit the operands or the devices.
        """
        self.__dict__["_strategy"] = Strategy(self.name or type(self).__name__, in_strategy, out_strategy)
        return self

    def _ignored(self: Self, *args: TensorLike, **options: object) -> Self:
        """Accepted without an effect; returns the operator."""
        return self

    set_stage = place = set_device = recompute = set_prim_instance_user_data = _ignored
    set_inplace_prim = set_user_data = add_pre_hook = _ignored

    def check_elim(self, *args: TensorLike) -> tuple[bool, Any]:
        """(False, None): no call is eliminated."""
        return False, None

    def __call__(self, *inputs: Any) -> Any:
        construct = getattr(self, "construct", None) or getattr(self, "vm_impl", None)
        if construct is not None:
            return construct(*inputs)
        text = f"There is no kernel for the operator {self.name or type(self).__name__}; give its class a __call__."
        raise GraphRuntimeError(text)

    def __repr__(self) -> str:
        return f"Prim[{self.name or type(self).__name__}]{self.attrs or ''}"


class PrimitiveWithInfer(Primitive):
    """An operator that infers the types of its results by `infer_shape` and `infer_dtype`."""

    def infer_shape(self, *args: TensorLike) -> Any:
        """The shape of the result; raises GraphAttributeError unless a subclass defines it."""
        return self._undefined("infer_shape")

    def infer_dtype(self, *args: TensorLike) -> Any:
        """The dtype of the result; raises GraphAttributeError unless a subclass defines it."""
        return self._undefined("infer_dtype")

    def infer_value(self, *args: TensorLike) -> Any:
        """The result where it is known at compile time, else None."""
        return None

    def _undefined(self, name: str) -> Any:
        raise GraphAttributeError(f"The operator {type(self).__name__} has no {name}.")


class PrimitiveWithCheck(Primitive):
    """An operator that checks its inputs by `check_shape` and `check_dtype`."""

    def check_shape(self, *args: TensorLike) -> None:
        """Check shapes; without an effect unless a subclass defines it."""

    def check_dtype(self, *args: TensorLike) -> None:
        """Check dtypes; without an effect unless a subclass defines it."""


def prim_attr_register(fn: Callable[..., None]) -> Callable[..., None]:
    """Decorates the `__init__` of an operator: its arguments become attributes of the operator."""
    signature = inspect.signature(fn)

    @wraps(fn)
    def initialise(self: Any, *args: TensorLike, **options: object) -> None:
        bound = signature.bind(self, *args, **options)
        bound.apply_defaults()
        own = next(iter(signature.parameters))
        Primitive.__init__(self, type(self).__name__)
        for name, value in bound.arguments.items():
            if name != own:
                self.add_prim_attr(name, value)
        fn(self, *args, **options)

    return initialise


prim_arg_register = prim_attr_register


REQUIRED = inspect.Parameter.empty
"""The default of a required setting."""

_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD


class Operator(Primitive):
    """A function of tensors whose settings are bound at construction: `ReduceSum(keep_dims=True)(x, 0)`.

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
    """The operator class of `function`, constructed with the parameters in `settings`, with their defaults."""
    defaults = inspect.Signature([inspect.Parameter(key, _KIND, default=value) for key, value in settings.items()])
    signature = inspect.signature(function)
    inputs = [p for p in signature.parameters.values() if p.name not in settings and p.kind is not p.KEYWORD_ONLY]
    usage = f"{name}{defaults}({', '.join(p.name for p in inputs)})"
    fields = {
        "__module__": module,
        "__doc__": f"{inspect.getdoc(function) or ''}\n\nWritten `{usage}`.",
        "__signature__": defaults,
        "__call__": _call(function, signature, inputs),
        "function": staticmethod(function),
        "defaults": defaults,
    }
    return type(name, (Operator,), fields)


def _call(
    function: Callable[..., Any], signature: inspect.Signature, inputs: list[inspect.Parameter]
) -> Callable[..., Any]:
    def call(self: Operator, *inputs: Any, **named: Any) -> Any:
        settings = {**self.settings, **named}
        _bound(f"A call of {self!r}", signature, inputs, settings)
        strategy = self.__dict__.get("_strategy")
        if strategy is not None:
            return strategy.applied(partial(function, **settings), inputs, settings)
        return function(*inputs, **settings)

    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    call.__signature__ = inspect.Signature([itself, *inputs])  # type: ignore[attr-defined]
    call.__doc__ = inspect.getdoc(function)
    return call


def _bound(
    subject: str, signature: inspect.Signature, args: tuple[Any, ...], options: dict[str, Any]
) -> inspect.BoundArguments:
    try:
        return signature.bind(*args, **options)
    except TypeError as error:
        parameters = ", ".join(signature.parameters) or "nothing"
        raise GraphTypeError(f"{subject} takes {parameters}: {error}.") from None
