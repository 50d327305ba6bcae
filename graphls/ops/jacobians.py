"""All derivatives of all elements of outputs by all elements of inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.errors import GraphTypeError
from graphls.ops.control_flow import scan
from graphls.ops.creation import zeros
from graphls.ops.diagonals import eye
from graphls.ops.differentiate import compiled_outside, positions_of, running_tracer
from graphls.ops.directions import moved
from graphls.ops.movement import movedim
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import reshape
from graphls.tensors.pytree import leaves, rebuild
from graphls.tensors.tensor import Tensor
from graphls.trace.gradients import gradient
from graphls.trace.rewriting.functions import in_trace

Position = int | tuple[int, ...]


@operation
def jacrev(fn: Callable[..., Any], grad_position: Position = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the Jacobian of `fn`, by as many gradients as the outputs have elements.

    It has the shape of the output, then that of the input: one for each output, in the structure of the outputs, and
    where there are several positions a tuple for each of them. With `has_aux` only the first output is differentiated,
    and the result is a pair with the others. In a graph the gradients are one loop. Raises GraphTypeError for what is
    no function, for positions that are not there, and where no output is a float.
    """
    positions = _positions("jacrev", fn, grad_position)

    def jacobian(*args: Any) -> Any:
        _check(args, grad_position, positions)
        outputs = in_trace(fn)(*args)
        floats = _differentiated(outputs, has_aux)
        found = [_rows(fn, args, positions, floats, i, has_aux) for i in range(len(floats))]
        return _arranged(outputs, found, has_aux)

    return compiled_outside(jacobian, fn, ("jacrev", type(grad_position), positions, has_aux))


def _rows(
    fn: Callable[..., Any], args: Any, positions: tuple[int, ...], floats: list[Tensor], number: int, has_aux: bool
) -> list[Tensor]:
    """The gradients of every element of one output, by each position."""
    output = floats[number]

    def one(carry: Any, unit: Tensor) -> tuple[Any, tuple[Tensor, ...]]:
        seeds = [zeros(t.shape, t.dtype) for t in floats]
        seeds[number] = reshape(unit, output.shape)
        _, by_input, _ = gradient(running_tracer(), fn, args, positions, (), tuple(seeds), has_aux)
        return carry, tuple(by_input)

    columns = scan(one, (), eye(output.size, dtype=output.dtype))[1]
    inputs = [tensor_of(args[i]) for i in positions]
    return [reshape(c, (*output.shape, *x.shape)) for c, x in zip(columns, inputs, strict=True)]


@operation
def jacfwd(fn: Callable[..., Any], grad_position: Position = 0, has_aux: bool = False) -> Callable[..., Any]:
    """What `jacrev` gives, by as many products with vectors as the inputs have elements.

    Each is the gradient of a gradient, so that it is worth it where the outputs are many times larger than the inputs.
    """
    positions = _positions("jacfwd", fn, grad_position)

    def jacobian(*args: Any) -> Any:
        _check(args, grad_position, positions)
        outputs = in_trace(fn)(*args)
        _differentiated(outputs, has_aux)
        columns = [_columns(fn, args, positions, i, has_aux) for i in range(len(positions))]
        found = [list(of_output) for of_output in zip(*columns, strict=True)]
        return _arranged(outputs, found, has_aux)

    return compiled_outside(jacobian, fn, ("jacfwd", type(grad_position), positions, has_aux))


def _columns(fn: Callable[..., Any], args: Any, positions: tuple[int, ...], number: int, has_aux: bool) -> list[Tensor]:
    """What every float output changes by with each element of one input."""
    inputs = [tensor_of(args[i]) for i in positions]
    moving = inputs[number]

    def one(carry: Any, unit: Tensor) -> tuple[Any, tuple[Tensor, ...]]:
        vectors = [zeros(x.shape, x.dtype) for x in inputs]
        vectors[number] = reshape(unit, moving.shape)
        outputs, tangents = moved(fn, args, positions, tuple(vectors), has_aux)
        kept = zip(leaves(outputs[0] if has_aux else outputs), leaves(tangents), strict=True)
        return carry, tuple(t for y, t in kept if isinstance(y, Tensor) and y.dtype.is_float)

    rows = scan(one, (), eye(moving.size, dtype=moving.dtype))[1]
    return [reshape(movedim(r, 0, -1), (*r.shape[1:], *moving.shape)) for r in rows]


def _positions(name: str, fn: Any, position: Any) -> tuple[int, ...]:
    if not callable(fn):
        raise GraphTypeError(f"{name} takes a cell or a function, not {fn!r}.")
    return positions_of(position)


def _check(args: tuple[Any, ...], position: Any, positions: tuple[int, ...]) -> None:
    if not positions or any(not -len(args) <= i < len(args) for i in positions):
        message = f"grad_position {position} does not name some of the {len(args)} inputs given."
        raise GraphTypeError(message)


def _differentiated(outputs: Any, has_aux: bool) -> list[Tensor]:
    of = outputs[0] if has_aux else outputs
    floats = [leaf for leaf in leaves(of) if isinstance(leaf, Tensor) and leaf.dtype.is_float]
    if not floats:
        text = "A Jacobian is that of floats, and the function gives none; cast its output to a float."
        raise GraphTypeError(text)
    return floats


def _arranged(outputs: Any, found: list[list[Tensor]], has_aux: bool) -> Any:
    """The Jacobians of each output in the structure of the float outputs, with the other outputs where there are."""
    each = [of_output[0] if len(of_output) == 1 else tuple(of_output) for of_output in found]
    of = outputs[0] if has_aux else outputs
    floats = _differentiated(outputs, has_aux)
    jacobians = rebuild(of, each) if len(floats) == len(leaves(of)) else tuple(each)
    if not has_aux:
        return jacobians
    rest = outputs[1:]
    return jacobians, rest[0] if len(rest) == 1 else tuple(rest)
