"""What stands in for a name of MindSpore that graphls does not offer: it can be named, and fails when it is used."""

from __future__ import annotations

import sys
from typing import Any, NoReturn, Union

from graphls.compat.asking import ATTRIBUTE_ERRORS, is_decorator, is_guarded, is_statement
from graphls.ir.errors import GraphAttributeError
from graphls.tensors.tensor import TensorLike

USES = """
abs add aenter aexit aiter and anext await bool bytes complex contains delitem divmod enter exit float floordiv ge
getitem gt iadd iand ifloordiv ilshift imatmul imod imul index int invert ior ipow irshift isub iter itruediv ixor le
len length_hint lshift lt matmul mod mul neg next pos pow radd rand rdivmod reversed rfloordiv rlshift rmatmul rmod
rmul round rpow rrshift rshift rsub rtruediv rxor setitem sub truediv trunc ceil floor
"""
"""Operators and conversions, without underscores, which read a value."""


class StandIn:
    """A class, function, module or value of MindSpore that is not offered.

    Naming it, its attributes, `x: Missing` and `isinstance(x, Missing)` work; nothing is an instance of it. A class
    that derives from it fails when it is instantiated, and what it decorates when that is called. Calling it, and
    reading it as a value, raises GraphAttributeError with its name, the nearest that is offered, and the user's line.
    """

    def __init__(self, name: str, message: str) -> None:
        self.__dict__.update(__name__=name.rpartition(".")[2], __qualname__=name, _message=message, _base=None)

    def __getattr__(self, name: str) -> Any:
        frame = sys._getframe(1)
        if name.startswith("__") or not is_statement(frame) or is_guarded(frame, ATTRIBUTE_ERRORS):
            raise GraphAttributeError(self._message)
        return StandIn(f"{self.__qualname__}.{name}", self._message)

    def __call__(self, *args: Any, **options: Any) -> Any:
        if is_decorator(sys._getframe(1)):
            return self  # of `@missing`, the decorated object; of `@missing(...)`, the decorator
        self._fail()

    def _fail(self) -> NoReturn:
        raise GraphAttributeError(self._message)

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
        if isinstance(other, (int, float, str)):  # else it is a search among types, as `Optional[Missing]` makes it
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
    """The base of classes that derive from a stand-in: they can be made, but not have instances."""

    def new(cls: type, *args: TensorLike, **options: object) -> NoReturn:
        stand_in._fail()

    return type(stand_in.__name__, (), {"__new__": new, "__doc__": repr(stand_in), "__module__": "mindspore"})
