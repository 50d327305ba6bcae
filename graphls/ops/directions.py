"""Jacobian-vector and vector-Jacobian products, full Jacobians, and directional derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.base.checks import at_least
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves, rebuild
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.frontend.trace.gradients import backward_of, forward_of, gradient, tangents_of
from graphls.frontend.trace.rewriting.functions import in_trace
from graphls.frontend.trace.states import copies
from graphls.frontend.trace.tracer import current_tracer
from graphls.ops.arrays.arrangement import movedim
from graphls.ops.arrays.creation import ones_like, zeros, zeros_like
from graphls.ops.arrays.diagonals import eye
from graphls.ops.arrays.shapes import reshape
from graphls.ops.control_flow import scan
from graphls.ops.gradients import compiled_outside, parameters_of, positions_of, running_tracer
from graphls.ops.operands import float_of, tensor_of
from graphls.ops.record import operation


@operation
def vjp(fn: Callable[..., Any], *inputs: TensorLike, weights: TensorLike | None = None, has_aux: bool = False) -> Any:
    """(the outputs of `fn(*inputs)`, a function from sensitivities to the tuple of gradients by all inputs).

    With `weights`, the function returns a pair of tuples. With `has_aux` only the first output is differentiated, and
    the others follow the function: one as it is, several as a tuple. Outside of a graph the function computes the
    forward once more. Raises GraphTypeError unless `fn` is callable and the others are tensors and weights.
    """
    _check("vjp", fn, inputs)
    parameters = parameters_of(weights) if weights is not None else ()
    positions = range(len(inputs))

    def pulled(record: Any, sensitivities: tuple[Any, ...]) -> Any:
        gradients = backward_of(running_tracer(), record, positions, parameters, sensitivities, has_aux)
        by_input, by_weight = map(tuple, gradients)
        return by_input if weights is None else (by_input, by_weight)

    if current_tracer() is not None:
        record = forward_of(running_tracer(), fn, inputs, positions)
        return _with_aux(copies(record.outputs), lambda *v: pulled(record, v), has_aux)

    def again(args: tuple[Any, ...], v: tuple[Any, ...]) -> Any:
        return pulled(forward_of(running_tracer(), fn, args, positions), v)

    outer = compiled_outside(again, fn, ("vjp", len(inputs), weights is None, has_aux, *map(id, parameters)))
    return _with_aux(fn(*inputs), lambda *v: outer(inputs, v), has_aux)


@operation
def jvp(fn: Callable[..., Any], inputs: TensorLike, v: TensorLike, has_aux: bool = False) -> Any:
    """(the outputs of `fn(*inputs)`, their directional derivatives along the vectors `v`).

    Both are pytrees of one structure. With `has_aux` only the first output is differentiated, and the others come last:
    one as it is, several as a tuple. `inputs` and `v` are a tensor each, or as many in a tuple. In a graph this is the
    gradient of a gradient. Raises GraphTypeError unless `fn` is callable and the others are tensors, GraphValueError
    where the vectors have other shapes than the inputs.
    """
    args, vectors = (tuple(x) if isinstance(x, (tuple, list)) else (x,) for x in (inputs, v))
    _check("jvp", fn, (*args, *vectors))
    if [_shape(x) for x in args] != [_shape(x) for x in vectors]:
        message = f"jvp takes vectors in the shapes of the inputs, {[_shape(x) for x in args]}."
        raise GraphValueError(message)

    def pushed(args: tuple[Any, ...], vectors: tuple[Any, ...]) -> Any:
        outputs, tangents = jvp_in_trace(fn, args, range(len(args)), vectors, has_aux)
        return _with_aux(outputs, tangents, has_aux)

    return compiled_outside(pushed, fn, ("jvp", has_aux))(args, vectors)


def jvp_in_trace(
    fn: Callable[..., Any], args: tuple[Any, ...], positions: Any, vectors: tuple[Any, ...], has_aux: bool = False
) -> tuple[Any, Any]:
    """In a trace, the outputs and a pytree of their tangents, with zero for outputs that are not floats."""
    tracer = running_tracer()
    record = forward_of(tracer, fn, args, positions)
    tangents = iter(tangents_of(tracer, record, positions, vectors, has_aux))
    outputs = copies(record.outputs)

    def tangent(leaf: TensorLike) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return next(tangents) if leaf.dtype.is_float else zeros_like(leaf)

    return outputs, map_leaves(tangent, outputs[0] if has_aux else outputs)


@operation(checks={"order": at_least(1)})
def derivative(fn: Callable[..., Any], primals: TensorLike, order: int) -> tuple[Any, Any]:
    """(the outputs of `fn`, its directional derivative of some order along ones for every input).

    For a function of single elements these are their own derivatives. `primals` is a tensor, or a tuple of them;
    integers become float32. Each order is the gradient of a gradient of the one before, so that a graph grows with it.
    Raises GraphTypeError unless `fn` is callable and the inputs are tensors, GraphValueError for an order below 1.
    """
    args = tuple(primals) if isinstance(primals, (tuple, list)) else (primals,)
    _check("derivative", fn, args)

    def along(*args: TensorLike) -> Any:
        return in_trace(fn)(*args), _derivative(fn, order)(*args)

    outputs, series = compiled_outside(along, fn, ("derivative", order))(*map(float_of, args))
    return outputs, series


def _derivative(fn: Callable[..., Any], order: int) -> Callable[..., Any]:
    if not order:
        return fn

    def slope(*args: Tensor) -> Any:
        return jvp_in_trace(_derivative(fn, order - 1), args, range(len(args)), tuple(map(ones_like, args)))[1]

    return slope


@operation
def get_grad(gradients: TensorLike, identifier: TensorLike) -> Tensor:
    """The gradient by an input, given its position, or by a Parameter, from the results of `grad` with `return_ids`.

    Raises GraphTypeError for another identifier, GraphRuntimeError where its gradient is missing.
    """
    if isinstance(identifier, bool) or not isinstance(identifier, (int, Parameter)):
        raise GraphTypeError(f"A gradient is found by a position or a Parameter, not {identifier!r}.")
    key = identifier.name if isinstance(identifier, Parameter) else identifier
    flat = leaves(gradients)
    for name, item in zip(flat[::2], flat[1::2], strict=False):
        if type(name) is type(key) and name == key:
            gradient: Tensor = item
            return gradient
    raise GraphRuntimeError(f"There is no gradient by {key!r} among these.")


def _check(name: str, fn: Any, inputs: tuple[Any, ...]) -> None:
    if not callable(fn):
        raise GraphTypeError(f"{name} takes a cell or a function, not {fn!r}.")
    if not inputs or not all(is_tensor(x) or isinstance(x, Parameter) for x in inputs):
        raise GraphTypeError(f"{name} takes one tensor or more, not {inputs!r}.")


def _shape(x: Tensor) -> tuple[int, ...]:
    shape: tuple[int, ...] = x.shape
    return shape


def _with_aux(outputs: Tensor, other: object, has_aux: bool) -> Any:
    if not has_aux:
        return outputs, other
    first, *rest = outputs
    return first, other, rest[0] if len(rest) == 1 else tuple(rest)


Position = int | tuple[int, ...]


@operation
def jacrev(fn: Callable[..., Any], grad_position: Position = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the Jacobian of `fn`, computed by one gradient for each element of the outputs.

    Its shape is that of the output, then that of the input: one Jacobian for each output, in the structure of the
    outputs, or a tuple of them for several positions. With `has_aux` only the first output is differentiated, and the
    result is a pair with the others. In a graph the gradients are one loop. Raises GraphTypeError unless `fn` is
    callable, for missing positions, and where no output is a float.
    """
    positions = _positions("jacrev", fn, grad_position)

    def jacobian(*args: Tensor) -> Any:
        _check_operator(args, grad_position, positions)
        outputs = in_trace(fn)(*args)
        floats = _differentiated(outputs, has_aux)
        jacobians = [_rows(fn, args, positions, floats, i, has_aux) for i in range(len(floats))]
        return _arranged(outputs, jacobians, has_aux)

    return compiled_outside(jacobian, fn, ("jacrev", type(grad_position), positions, has_aux))


def _rows(
    fn: Callable[..., Any], args: Any, positions: tuple[int, ...], floats: list[Tensor], number: int, has_aux: bool
) -> list[Tensor]:
    """The gradients of every element of one output, by each position."""
    output = floats[number]

    def one(carry: TensorLike, unit: Tensor) -> tuple[Any, tuple[Tensor, ...]]:
        seeds = [zeros(t.shape, t.dtype) for t in floats]
        seeds[number] = reshape(unit, output.shape)
        _, by_input, _ = gradient(running_tracer(), fn, args, positions, (), tuple(seeds), has_aux)
        return carry, tuple(by_input)

    columns = scan(one, (), eye(output.size, dtype=output.dtype))[1]
    inputs = [tensor_of(args[i]) for i in positions]
    return [reshape(c, (*output.shape, *x.shape)) for c, x in zip(columns, inputs, strict=True)]


@operation
def jacfwd(fn: Callable[..., Any], grad_position: Position = 0, has_aux: bool = False) -> Callable[..., Any]:
    """As `jacrev`, computed by one Jacobian-vector product for each element of the inputs.

    Each is the gradient of a gradient, which pays where the outputs are many times larger than the inputs.
    """
    positions = _positions("jacfwd", fn, grad_position)

    def jacobian(*args: Tensor) -> Any:
        _check_operator(args, grad_position, positions)
        outputs = in_trace(fn)(*args)
        _differentiated(outputs, has_aux)
        columns = [_columns(fn, args, positions, i, has_aux) for i in range(len(positions))]
        jacobians = [list(of_output) for of_output in zip(*columns, strict=True)]
        return _arranged(outputs, jacobians, has_aux)

    return compiled_outside(jacobian, fn, ("jacfwd", type(grad_position), positions, has_aux))


def _columns(fn: Callable[..., Any], args: Any, positions: tuple[int, ...], number: int, has_aux: bool) -> list[Tensor]:
    """The columns of the Jacobians of every float output by each element of one input."""
    inputs = [tensor_of(args[i]) for i in positions]
    moving = inputs[number]

    def one(carry: TensorLike, unit: Tensor) -> tuple[Any, tuple[Tensor, ...]]:
        vectors = [zeros(x.shape, x.dtype) for x in inputs]
        vectors[number] = reshape(unit, moving.shape)
        outputs, tangents = jvp_in_trace(fn, args, positions, tuple(vectors), has_aux)
        pairs = zip(leaves(outputs[0] if has_aux else outputs), leaves(tangents), strict=True)
        return carry, tuple(t for y, t in pairs if isinstance(y, Tensor) and y.dtype.is_float)

    rows = scan(one, (), eye(moving.size, dtype=moving.dtype))[1]
    return [reshape(movedim(r, 0, -1), (*r.shape[1:], *moving.shape)) for r in rows]


def _positions(name: str, fn: Any, position: Any) -> tuple[int, ...]:
    if not callable(fn):
        raise GraphTypeError(f"{name} takes a cell or a function, not {fn!r}.")
    return positions_of(position)


def _check_operator(args: tuple[Any, ...], position: TensorLike, positions: tuple[int, ...]) -> None:
    if not positions or any(not -len(args) <= i < len(args) for i in positions):
        message = f"grad_position {position} is out of range for the {len(args)} inputs."
        raise GraphTypeError(message)


def _differentiated(outputs: Tensor, has_aux: bool) -> list[Tensor]:
    of = outputs[0] if has_aux else outputs
    floats = [leaf for leaf in leaves(of) if isinstance(leaf, Tensor) and leaf.dtype.is_float]
    if not floats:
        text = "A Jacobian takes float outputs, and the function returns none; cast its output to a float."
        raise GraphTypeError(text)
    return floats


def _arranged(outputs: Tensor, jacobians_of_outputs: list[list[Tensor]], has_aux: bool) -> Any:
    """The Jacobians of each output in the structure of the float outputs, with the auxiliary outputs, if any."""
    each = [of_output[0] if len(of_output) == 1 else tuple(of_output) for of_output in jacobians_of_outputs]
    of = outputs[0] if has_aux else outputs
    floats = _differentiated(outputs, has_aux)
    jacobians = rebuild(of, each) if len(floats) == len(leaves(of)) else tuple(each)
    if not has_aux:
        return jacobians
    rest = outputs[1:]
    return jacobians, rest[0] if len(rest) == 1 else tuple(rest)
