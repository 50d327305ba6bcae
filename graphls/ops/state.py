"""Functions that order what a step does, write parameters, and stop gradients."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphTypeError
from graphls.ops.elementwise import add, sub
from graphls.ops.operands import apply, state_of, tensor_of
from graphls.ops.record import operation
from graphls.tensors.parameter import Parameter
from graphls.tensors.pytree import map_leaves
from graphls.tensors.tensor import Symbol, Tensor, TensorLike, is_tensor
from graphls.trace.current import current_tracer


@operation(classes="Depend")
def depend(value: object, expr: object) -> Any:
    """`value` unchanged, made after everything in `expr`; both may be nests of tensors."""
    tracer = current_tracer()
    return value if tracer is None else tracer.depend(value, expr)


@operation(classes="Assign CopyWithSlice")
def assign(variable: TensorLike, value: TensorLike) -> Tensor:
    """Give a parameter a new value, which is cast to its dtype and returned.

    Raises GraphTypeError for anything but a parameter, GraphValueError for another shape.
    """
    parameter, tracer = parameter_of(variable), current_tracer()
    if tracer is not None:
        return Symbol(tracer.write(parameter, value))
    return parameter.set_data(value).data


@operation(classes="AssignAdd")
def assign_add(variable: TensorLike, value: TensorLike) -> Tensor:
    """Add to a parameter; returns its new value."""
    return assign(variable, add(state_of(parameter_of(variable)), value))


@operation(classes="AssignSub")
def assign_sub(variable: TensorLike, value: TensorLike) -> Tensor:
    """Subtract from a parameter; returns its new value."""
    return assign(variable, sub(state_of(parameter_of(variable)), value))


def parameter_of(variable: TensorLike) -> Parameter:
    """The parameter itself, also behind `depend`."""
    parameter = getattr(variable, "parameter", None) if isinstance(variable, Symbol) else variable
    if not isinstance(parameter, Parameter):
        raise GraphTypeError(f"assign takes a Parameter to write to, not {variable!r}.")
    return parameter


@operation(classes="StopGradient")
def stop_gradient(value: object) -> Any:
    """A tensor, or the tensors in a nest, through which no gradient flows."""
    return map_leaves(lambda x: apply("stop_gradient", tensor_of(x)) if is_tensor(x) else x, value)


@operation(classes="Identity")
def identity(x: TensorLike) -> Any:
    """x itself."""
    return x
