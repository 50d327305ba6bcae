"""Primitive, the base of operator classes with what MindSpore keeps at one, and classes made from functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar, TypeVar

from graphls.base.errors import GraphAttributeError, GraphRuntimeError, GraphTypeError
from graphls.frontend.tensors.tensor import Tensor, TensorLike

Self = TypeVar("Self", bound="Primitive")


class Primitive:
    """An operator with a name and attributes; a subclass computes by its `__call__`, or `construct`.

    Attributes, devices, stages and strategies for several devices are kept, and change nothing that is computed.
    Raises GraphRuntimeError where one is called that says only of which shapes and dtypes its results are, since there
    is no kernel for it.
    """

    name = ""

    def __init__(self, name: str = "", **attrs: Any) -> None:
        self.name = name or type(self).__name__
        self.attrs.update(attrs)

    @property
    def attrs(self) -> dict[str, Any]:
        """What `add_prim_attr` has kept."""
        found: dict[str, Any] = self.__dict__.setdefault("_attrs", {})
        return found

    @property
    def instance_name(self) -> str:
        """The name of this one operator."""
        return str(self.__dict__.get("_instance_name", ""))

    def add_prim_attr(self: Self, name: str, value: TensorLike) -> Self:
        """Keep an attribute, which is an attribute of the object as well; returns the operator."""
        self.attrs[name] = value
        self.__dict__[name] = value
        return self

    add_attr = set_attr = add_prim_attr

    def del_prim_attr(self: Self, name: str) -> Self:
        """Forget an attribute; returns the operator."""
        self.attrs.pop(name, None)
        self.__dict__.pop(name, None)
        return self

    def get_attr_dict(self) -> dict[str, Any]:
        """All attributes by name."""
        return dict(self.attrs)

    def init_prim_io_names(self, inputs: TensorLike, outputs: TensorLike) -> None:
        """Keep the names of inputs and outputs as the attributes `input_names` and `output_names`."""
        self.add_prim_attr("input_names", inputs)
        self.add_prim_attr("output_names", outputs)

    def set_prim_instance_name(self: Self, name: str) -> Self:
        """Name this one operator; returns it."""
        self.__dict__["_instance_name"] = name
        return self

    def _kept(self: Self, *args: TensorLike, **options: object) -> Self:
        """Returns the operator: on one device, nothing is divided, placed or recomputed by it."""
        return self

    shard = set_stage = place = set_device = recompute = set_prim_instance_user_data = _kept
    set_inplace_prim = set_user_data = add_pre_hook = _kept

    def check_elim(self, *args: TensorLike) -> tuple[bool, Any]:
        """(False, None): an operator is computed whenever it is called."""
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
    """An operator that says by `infer_shape` and `infer_dtype` what its results are."""

    def infer_shape(self, *args: TensorLike) -> Any:
        """The shape of the result; raises GraphAttributeError unless a subclass defines it."""
        return self._not_there("infer_shape")

    def infer_dtype(self, *args: TensorLike) -> Any:
        """The dtype of the result; raises GraphAttributeError unless a subclass defines it."""
        return self._not_there("infer_dtype")

    def infer_value(self, *args: TensorLike) -> Any:
        """The result, where it is known before the graph runs; else None."""
        return None

    def _not_there(self, name: str) -> Any:
        raise GraphAttributeError(f"The operator {type(self).__name__} has no {name}.")


class PrimitiveWithCheck(Primitive):
    """An operator that checks its inputs by `check_shape` and `check_dtype`."""

    def check_shape(self, *args: TensorLike) -> None:
        """Nothing, unless a subclass checks shapes."""

    def check_dtype(self, *args: TensorLike) -> None:
        """Nothing, unless a subclass checks dtypes."""


def prim_attr_register(fn: Callable[..., None]) -> Callable[..., None]:
    """The `__init__` of an operator, whose arguments become attributes of the operator."""
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
    def call(self: Operator, *inputs: Any, **named: Any) -> Any:
        given = {**self.settings, **named}
        _bound(f"A call of {self!r}", signature, inputs, given)
        return function(*inputs, **given)

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
