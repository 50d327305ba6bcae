"""Effects of a step: order, writes to parameters, and MindSpore's overflow status."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike, is_tensor
from graphls.frontend.trace import ordering
from graphls.frontend.trace.states import Scratch, StateSymbol
from graphls.frontend.trace.tracer import Tracer, current_tracer
from graphls.ir.graph import Value
from graphls.ir.sharding import Sharding
from graphls.ir.types import DTypeLike, Type, float32, int32
from graphls.ops.arrays.shapes import broadcast_to, reshape
from graphls.ops.math.elementwise import add, cast, sub
from graphls.ops.operands import apply, state_of, tensor_of
from graphls.ops.record import in_place_method, operation, operator_class


@operation(classes="Depend")
def depend(value: object, expr: object) -> Any:
    """`value` unchanged, ordered after everything in `expr`; both may be pytrees of tensors."""
    tracer = current_tracer()
    return value if tracer is None else ordering.depend(tracer, value, expr)


@operation(classes="Assign CopyWithSlice")
def assign(variable: TensorLike, value: TensorLike) -> Tensor:
    """Assign a value to a parameter, or outside of a trace to any tensor; it is cast to its dtype and returned.

    Raises GraphTypeError for anything else, GraphValueError for another shape.
    """
    state, tracer = writable(variable), current_tracer()
    if tracer is not None:
        return Symbol(tracer.write(state, value))
    return state.set_data(value).value() if isinstance(state, Parameter) else _assign_to_tensor(state, value)


_assign_to_tensor = in_place_method("assign", lambda x, value: value)


@operation(classes="AssignAdd")
def assign_add(variable: TensorLike, value: TensorLike) -> Tensor:
    """Add to a parameter; returns its new value."""
    return assign(variable, add(current_value(variable), value))


@operation(classes="AssignSub")
def assign_sub(variable: TensorLike, value: TensorLike) -> Tensor:
    """Subtract from a parameter; returns its new value."""
    return assign(variable, sub(current_value(variable), value))


def writable(variable: TensorLike) -> Any:
    """The parameter itself, also through `depend`, or outside of a trace a tensor; raises GraphTypeError for others."""
    state = variable.parameter if isinstance(variable, StateSymbol) else variable
    if isinstance(state, Parameter) or (isinstance(state, Tensor) and current_tracer() is None):
        return state
    raise GraphTypeError(f"assign takes a Parameter to write to, not {variable!r}.")


def current_value(variable: TensorLike) -> Tensor:
    """The current value of a parameter, or outside of a trace of a tensor."""
    state = writable(variable)
    return state_of(state) if isinstance(state, Parameter) else tensor_of(state)


@operation(classes="StopGradient")
def stop_gradient(value: object) -> Any:
    """A tensor, or the tensors in a pytree, through which no gradient flows."""
    return map_leaves(lambda x: apply("stop_gradient", tensor_of(x)) if is_tensor(x) else x, value)


@operation(method=False)
def shard(x: TensorLike, *axes: str | tuple[str, ...] | None) -> Any:
    """`x` itself, which a mesh of devices divides: axis by axis by a mesh axis, by several in a tuple, or by none.

    `shard(x, "data", None)` divides the rows of a matrix among the devices along the mesh axis "data". Its gradient is
    divided alike. A step that is compiled without a mesh is not affected.

    Raises GraphValueError for another number of axes than x has, for a mesh axis that stands twice or that the mesh
    lacks, and where the devices do not divide an axis evenly; GraphTypeError for anything but names, tuples of names
    and None.
    """
    tensor, sharding, tracer = tensor_of(x), Sharding.of(*axes), current_tracer()
    mesh = None if tracer is None else tracer.mesh
    if (fault := sharding.fault(tensor.shape, mesh)) is not None:
        raise GraphValueError(f"The tensor {fault}.")
    return x if mesh is None else apply("shard", tensor, axes=sharding.axes)


@operation(classes="Identity")
def identity(x: TensorLike) -> Any:
    """x itself."""
    return x


@operator_class("NPUAllocFloatStatus")
def alloc() -> Tensor:
    """An overflow status, f32[8]: zeros, and ones once NPUGetFloatStatus has detected an overflow."""
    return new_status(_tracer("NPUAllocFloatStatus"))


@operator_class("NPUClearFloatStatus NPUClearFloatStatusV2")
def clear(input_x: Any) -> Tensor:
    """Open the overflow window of a status, after everything that the status depends on.

    Operations that depend on the result run inside the window. A status that is cleared again reads zeros.
    """
    tracer = _tracer("NPUClearFloatStatus", input_x)
    if _is_allocated(input_x):
        tracer.set_written(input_x.parameter, tracer.zeros(input_x.parameter.type))
    return clear_status(tracer, input_x)  # type: ignore[no-any-return]


@operator_class("NPUGetFloatStatus")
def get(input_x: Any) -> Tensor:
    """Fill a status with ones where a float tensor overflowed that it depends on since it was cleared.

    Raises GraphTypeError for anything but a result of NPUAllocFloatStatus or `start_overflow_check`, GraphValueError
    where the status depends on nothing.
    """
    tracer = _tracer("NPUGetFloatStatus", input_x)
    if not _is_allocated(input_x):
        message = f"NPUGetFloatStatus fills what NPUAllocFloatStatus gave in the same step, not {input_x!r}."
        raise GraphTypeError(message)
    raised = get_status(tracer, input_x)
    with tracer.phase("check"):
        tracer.set_written(input_x.parameter, tracer.value(_filled(raised, float32)))
    return ordering.depend(tracer, input_x, raised)  # type: ignore[no-any-return]


@operator_class("NPUGetFloatStatusV2")
def get_v2(input: TensorLike) -> Tensor:
    """Ones, i32[8], where a float tensor overflowed that a status depends on since it was cleared.

    Zeros otherwise. Raises GraphValueError where the status depends on nothing.
    """
    tracer = _tracer("NPUGetFloatStatusV2", input)
    raised = get_status(tracer, input)
    with tracer.phase("check"):
        return _filled(raised, int32)


class Flag(Symbol):
    """The result of `float_status` in a trace: its tensors are checked together, when it is read."""

    __slots__ = ("checked",)

    def __init__(self, checked: tuple[Tensor, ...]) -> None:
        self.checked = checked

    @property
    def graph_value(self) -> Value:
        return _tracer("FloatStatus").value(_flag(self.checked))

    @property
    def type(self) -> Type:
        return Type(float32, (1,))

    def __add__(self, other: TensorLike) -> Any:
        if isinstance(other, Flag):
            return Flag(self.checked + other.checked)
        return add(self, other)


@operator_class("FloatStatus")
def float_status(x: TensorLike) -> Tensor:
    """1.0 where a float tensor has an infinity or nan, else 0.0: float32 of shape (1,).

    In a step the sum of several is one status, 1.0 where any of their tensors has one, so that a step has one window
    and one check whatever the number of gradients.
    """
    x = tensor_of(x)
    return Flag((x,)) if isinstance(x, Symbol) else _flag((x,))


def _flag(checked: tuple[Tensor, ...]) -> Tensor:
    return reshape(cast(overflow_get(None, checked), float32), (1,))


def _tracer(name: str, *status: object) -> Tracer:
    tracer = current_tracer()
    if tracer is None:
        raise GraphRuntimeError(f"{name} is a part of a step; call it in the construct of a cell.")
    if not all(map(is_tensor, status)):
        raise GraphTypeError(f"{name} takes a status, which is a tensor, not {status[0]!r}.")
    return tracer


def _is_allocated(status: TensorLike) -> bool:
    return isinstance(status, StateSymbol) and isinstance(status.parameter, Scratch)


def _filled(raised: Tensor, dtype: DTypeLike) -> Tensor:
    return broadcast_to(cast(raised, dtype), (8,))


def overflow_start(pre_cond: TensorLike, compute_input: TensorLike) -> tuple[Any, Any]:
    """A cleared overflow status, set after `pre_cond`; `compute_input` comes back ordered after it."""
    tracer = current_tracer()
    if tracer is None:
        return Tensor(np.zeros(8, np.int32)), compute_input
    status = ordering.depend(tracer, new_status(tracer), _tensors(pre_cond))
    cleared = clear_status(tracer, status)
    with tracer.phase("backward"):
        return status, ordering.depend(tracer, compute_input, cleared)


def overflow_get(status: Any, compute_output: Any) -> Tensor:
    """True where a float tensor in `compute_output` has an infinity or nan; a bool of shape ().

    For a status that was not cleared, the compiler places the window. Raises GraphValueError where there is no float
    tensor.
    """
    floats = [t for t in map(tensor_of, _tensors(compute_output)) if t.dtype.is_float]
    if not floats:
        raise GraphValueError("There is no float tensor to look at; give the gradients.")
    tracer = current_tracer()
    if tracer is None:
        return Tensor(not all(np.isfinite(t.array).all() for t in floats))
    token = tracer.windows.get(_key(tracer, status)) if is_tensor(status) else None
    read = () if token is None else (token,)
    with tracer.phase("check"):
        return Symbol(tracer.emit("overflow_get", (*read, *map(tracer.value, floats)), {}, name="overflow")[0])


def new_status(tracer: Tracer) -> Tensor:
    """A status, f32[8], zeros until it is read."""
    return tracer.scratch("float_status", Type(float32, (8,)))


def clear_status(tracer: Tracer, status: TensorLike) -> Any:
    """Open a window; returns the status, ordered after that."""
    with tracer.phase("check"):
        (token,) = tracer.emit("overflow_start", (), {}, after=ordering.awaited(tracer, status), name="status")
    tracer.windows[_key(tracer, status)] = token
    return ordering.depend(tracer, status, Symbol(token))


def get_status(tracer: Tracer, status: TensorLike) -> Tensor:
    """True where a tensor overflowed that the status depends on since its window opened; a bool of shape ().

    Raises GraphValueError where it depends on none.
    """
    token = tracer.windows.get(_key(tracer, status))
    opened = -1 if token is None else tracer.order[token]
    floats = (v for v in ordering.awaited(tracer, status) if v.type.dtype.is_float)
    inside = [Symbol(v) for v in floats if tracer.order.get(v, -1) > opened]
    if not inside:
        raise GraphValueError(
            "The status depends on no float tensor made since it was cleared, so it says nothing; write "
            "`status = ops.depend(status, grads)` before you read it.",
        )
    return overflow_get(status, inside)


def _key(tracer: Tracer, status: TensorLike) -> Any:
    """The value that identifies a status, through all `depend` nodes."""
    return ordering.without_depends(tracer, status if isinstance(status, Symbol) else Symbol(tracer.value(status)))


def _tensors(tree: TensorLike) -> list[Any]:
    """The tensors in a pytree."""
    return [leaf for leaf in leaves(tree) if is_tensor(leaf)]
