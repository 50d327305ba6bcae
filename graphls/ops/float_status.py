"""The overflow status in the words of MindSpore 1: allocate, clear and get it, each ordered by `ops.depend`."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphRuntimeError, GraphTypeError
from graphls.ir.graph import Value
from graphls.ir.types import Type, float32, int32
from graphls.ops.elementwise import add, cast
from graphls.ops.operands import tensor_of
from graphls.ops.overflow import clear_status, get_status, new_status, overflow_get
from graphls.ops.record import operator_class
from graphls.ops.shapes import broadcast_to, reshape
from graphls.tensors.tensor import Symbol, Tensor, is_tensor
from graphls.trace.current import current_tracer
from graphls.trace.states import Scratch, StateSymbol
from graphls.trace.tracer import Tracer


@operator_class("NPUAllocFloatStatus")
def alloc() -> Tensor:
    """An overflow status, f32[8]: zeros, and ones after NPUGetFloatStatus has found an overflow."""
    return new_status(_tracer("NPUAllocFloatStatus"))


@operator_class("NPUClearFloatStatus NPUClearFloatStatusV2")
def clear(input_x: Any) -> Tensor:
    """Open the overflow window of a status, after everything that the status was made to depend on.

    What is made to depend on the result runs inside the window. A status that is cleared again reads zeros.
    """
    tracer = _tracer("NPUClearFloatStatus", input_x)
    if _is_allocated(input_x):
        tracer.set_written(input_x.parameter, tracer.zeros(input_x.parameter.type))
    return clear_status(tracer, input_x)  # type: ignore[no-any-return]


@operator_class("NPUGetFloatStatus")
def get(input_x: Any) -> Tensor:
    """Fill a status with ones where a float tensor overflowed that it was made to depend on since it was cleared.

    Raises GraphTypeError for anything but what NPUAllocFloatStatus or `start_overflow_check` gave, GraphValueError
    where the status depends on nothing.
    """
    tracer = _tracer("NPUGetFloatStatus", input_x)
    if not _is_allocated(input_x):
        message = f"NPUGetFloatStatus fills what NPUAllocFloatStatus gave in the same step, not {input_x!r}."
        raise GraphTypeError(message)
    raised = get_status(tracer, input_x)
    with tracer.phase("check"):
        tracer.set_written(input_x.parameter, tracer.value(_filled(raised, float32)))
    return tracer.depend(input_x, raised)  # type: ignore[no-any-return]


@operator_class("NPUGetFloatStatusV2")
def get_v2(input: Any) -> Tensor:
    """Ones, i32[8], where a float tensor overflowed that a status was made to depend on since it was cleared.

    Zeros otherwise. Raises GraphValueError where the status depends on nothing.
    """
    tracer = _tracer("NPUGetFloatStatusV2", input)
    raised = get_status(tracer, input)
    with tracer.phase("check"):
        return _filled(raised, int32)


class Flag(Symbol):
    """What `float_status` says of tensors in a trace: they are looked at together, when it is read."""

    __slots__ = ("checked",)

    def __init__(self, checked: tuple[Tensor, ...]) -> None:
        self.checked = checked

    @property
    def graph_value(self) -> Value:
        return _tracer("FloatStatus").value(_flag(self.checked))

    @property
    def type(self) -> Type:
        return Type(float32, (1,))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Flag):
            return Flag(self.checked + other.checked)
        return add(self, other)


@operator_class("FloatStatus")
def float_status(x: Any) -> Tensor:
    """1.0 where a float tensor holds an infinity or nan, else 0.0: float32 of shape (1,).

    In a step the sum of several is one status, 1.0 where any of their tensors does, so that a step has one window and
    one check whatever the number of gradients.
    """
    x = tensor_of(x)
    return Flag((x,)) if isinstance(x, Symbol) else _flag((x,))


def _flag(checked: tuple[Tensor, ...]) -> Tensor:
    return reshape(cast(overflow_get(None, checked), float32), (1,))


def _tracer(name: str, *status: Any) -> Tracer:
    tracer = current_tracer()
    if tracer is None:
        raise GraphRuntimeError(f"{name} is a part of a step; call it in the construct of a cell.")
    if not all(map(is_tensor, status)):
        raise GraphTypeError(f"{name} takes a status, which is a tensor, not {status[0]!r}.")
    return tracer


def _is_allocated(status: Any) -> bool:
    return isinstance(status, StateSymbol) and isinstance(status.parameter, Scratch)


def _filled(raised: Tensor, dtype: Any) -> Tensor:
    return broadcast_to(cast(raised, dtype), (8,))
