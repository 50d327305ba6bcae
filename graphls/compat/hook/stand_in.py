"""Stand-ins for names of MindSpore that graphls does not offer: they can be named, and raise an error when used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType, new_class
from typing import Any, NoReturn, Union

from graphls.base.errors import GraphAttributeError
from graphls.compat.hook.import_intent import ATTRIBUTE_ERRORS, is_decorator, is_guarded, is_loading, is_statement
from graphls.frontend.tensors.tensor import TensorLike
from graphls.nn.cell import Cell
from graphls.ops.primitive import Primitive

USES = """
abs add aenter aexit aiter and anext await bool bytes complex contains delitem divmod enter exit float floordiv ge
getitem gt iadd iand ifloordiv ilshift imatmul imod imul index int invert ior ipow irshift isub iter itruediv ixor le
len length_hint lshift lt matmul mod mul neg next pos pow radd rand rdivmod reversed rfloordiv rlshift rmatmul rmod
rmul round rpow rrshift rshift rsub rtruediv rxor setitem sub truediv trunc ceil floor
"""
"""Special methods, without underscores, that use a value: operators and conversions."""


class StandIn:
    """A class, function, module or value of MindSpore that is not offered.

    Naming it, its attributes, `x: Missing` and `isinstance(x, Missing)` work; nothing is an instance of it. A derived
    class fails when it is instantiated, and a decorated function when it is called. A call in the body of an imported
    module returns another stand-in. Any other call, and any use as a value, raises GraphAttributeError with its name,
    the closest name that is offered, and the user's line.
    """

    def __init__(self, name: str, message: Callable[[], str]) -> None:
        self.__dict__.update(__name__=name.rpartition(".")[2], __qualname__=name, _message=message, _base=None)

    def __getattr__(self, name: str) -> Any:
        return _attribute(self, name, sys._getframe(1))

    def __call__(self, *args: Any, **options: Any) -> Any:
        frame = sys._getframe(1)
        if is_decorator(frame):
            return self  # of `@missing`, the decorated object; of `@missing(...)`, the decorator
        if is_loading(frame):
            return StandIn(f"{self.__qualname__}()", self._message)
        self._fail()

    def _fail(self) -> NoReturn:
        raise GraphAttributeError(self._message())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        if self._base is None:
            self.__dict__["_base"] = _base_of(self)
        return (self._base,)

    def __instancecheck__(self, instance: TensorLike) -> bool:
        return self.__subclasscheck__(type(instance))

    def __subclasscheck__(self, subclass: type) -> bool:
        return self._base is not None and self._base in subclass.__mro__

    def __or__(self, other: TensorLike) -> Any:
        return Union[self, other]  # noqa: UP007  (this is what that operator calls)

    def __ror__(self, other: TensorLike) -> Any:
        return Union[other, self]  # noqa: UP007

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float, str)):  # else types are compared, as by `Optional[Missing]`
            self._fail()
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{self.__qualname__}, which graphls does not offer>"


def _used(self: StandIn, *args: TensorLike) -> NoReturn:
    self._fail()


for _name in USES.split():
    setattr(StandIn, f"__{_name}__", _used)


def _base_of(stand_in: StandIn) -> type:
    """The base of classes that derive from a stand-in, which can be defined but not instantiated."""

    def new(cls: type, *args: TensorLike, **options: object) -> NoReturn:
        stand_in._fail()

    return type(stand_in.__name__, (), {"__new__": new, "__doc__": repr(stand_in), "__module__": "mindspore"})


def _attribute(owner: Any, name: str, frame: FrameType) -> StandIn:
    """The stand-in for an attribute of a stand-in; raises an error where code tests whether the attribute exists."""
    if name.startswith("__") or not is_statement(frame) or is_guarded(frame, ATTRIBUTE_ERRORS):
        raise GraphAttributeError(owner._message())
    return StandIn(f"{owner.__qualname__}.{name}", owner._message)


class StandInType(type):
    """The metaclass of stand-in classes, whose missing attributes are stand-ins as well."""

    def __getattr__(cls, name: str) -> Any:
        return _attribute(cls, name, sys._getframe(1))


def stand_in_class(
    name: str, bases: tuple[type, ...], attributes: Mapping[str, Any], message: Callable[[], str]
) -> type:
    """A class of MindSpore that is not offered: it can be derived from, and instantiated with any arguments.

    A cell raises GraphAttributeError when it is called, unless a derived class has its own `construct`; so does an
    operator, and any other object in each method. An error can be raised and caught.
    """
    module, _, short = name.rpartition(".")
    is_error = any(issubclass(base, BaseException) for base in bases)
    fields = {"__module__": module, "__doc__": f"{name}, which graphls does not offer.", **attributes}
    if not is_error:
        fields |= {"_message": staticmethod(message), **_methods(bases, message)}
    metaclass = {} if is_error else {"metaclass": StandInType}
    return new_class(short, bases, metaclass, lambda namespace: namespace.update(fields))


def _methods(bases: tuple[type, ...], message: Callable[[], str]) -> dict[str, Any]:
    """The methods of a stand-in class, which replace those of its bases."""

    def fail(self: object, *args: object, **options: object) -> NoReturn:
        raise GraphAttributeError(message())

    def call(self: object, *args: object, **options: object) -> Any:
        return self if is_decorator(sys._getframe(1)) else fail(self)

    methods = {"__init__": _initialise, "__getattr__": fail}
    if any(issubclass(base, Cell) for base in bases):
        return {**methods, "construct": fail}
    if any(issubclass(base, Primitive) for base in bases):
        return {**methods, "__call__": fail}
    public = {name for base in bases for name in dir(base) if not name.startswith("_")}
    return {**dict.fromkeys(public, fail), **methods, "__call__": call}


def _initialise(self: object, *args: object, **options: object) -> None:
    """Initialise an object from any arguments."""
    if isinstance(self, Cell):
        Cell.__init__(self)
    elif isinstance(self, Primitive):
        Primitive.__init__(self)
