"""Gradients of cells and functions: GradOperation, grad, value_and_grad, and custom gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.registry import compiler
from graphls.frontend.tensors.parameter import Parameter, ParameterTuple
from graphls.frontend.tensors.pytree import leaves, rebuild
from graphls.frontend.tensors.tensor import Symbol, TensorLike, is_tensor
from graphls.frontend.trace.custom_gradient import with_custom_gradient
from graphls.frontend.trace.gradients import gradient
from graphls.frontend.trace.regions import once
from graphls.frontend.trace.tracer import current_tracer
from graphls.ops.record import operation

Result = TypeVar("Result")


@dataclass(frozen=True)
class _CustomGradient:
    """A function with a custom gradient, in the form of a cell with a `bprop`."""

    construct: Callable[..., Any]
    bprop: Callable[..., Any]


def with_gradient(function: Callable[..., Result], gradient: Callable[..., Any], *tensors: TensorLike) -> Result:
    """`function(*tensors)` with the custom gradients `gradient(*tensors, result, sensitivity)`.

    They are a tuple with a gradient of the type of each tensor. In a backward, for second derivatives, the operations
    of the function have their own gradients: a formula that calls the function again would otherwise recurse forever.
    """
    tracer = current_tracer()
    if tracer is None or tracer.here.phase == "backward" or not any(isinstance(t, Symbol) for t in tensors):
        return function(*tensors)
    formula = _CustomGradient(function, gradient)
    result: Result = once(tracer, "custom_gradient", lambda: with_custom_gradient(formula, tensors, {}))
    return result


def with_hooks(tree: object, hooks: list[Any]) -> Any:
    """The tensors of a pytree, with hooks on their gradients."""
    flat = leaves(tree)
    tensors = [leaf for leaf in flat if is_tensor(leaf)]
    if not tensors:
        return tree
    results = with_gradient(lambda *same: same if len(same) > 1 else same[0], _hooked_gradient(hooks), *tensors)
    passed = iter(results if len(tensors) > 1 else (results,))
    return rebuild(tree, [next(passed) if is_tensor(leaf) else leaf for leaf in flat])


def _as_tuple(item: TensorLike) -> tuple[Any, ...]:
    return item if isinstance(item, tuple) else (item,)


def _hooked_gradient(hooks: list[Any]) -> Callable[..., Any]:
    """The gradient function of the identity with hooks: the gradients of the outputs, passed through the hooks."""

    def gradient(*arguments: Any) -> Any:
        gradients = _as_tuple(arguments[-1])
        for hook in hooks:
            replaced = hook(gradients)
            gradients = gradients if replaced is None else _as_tuple(replaced)
        return gradients

    return gradient


@operation
class GradOperation:
    """A factory of gradient functions, with MindSpore's flags.

    Without flags: the gradient by the first input. `get_all`: a tuple for all tensor inputs. `get_by_list`: a tuple
    for the given weights, or a bare tensor for a single Parameter. Both: a pair of tuples.
    `sens_param`: the last argument is the sensitivity of the output, a tuple where there are several outputs;
    without it all outputs are summed. Raises GraphTypeError for a flag that is not a bool.
    """

    needs_graph = True

    def __init__(self, get_all: bool = False, get_by_list: bool = False, sens_param: bool = False) -> None:
        flags = {"get_all": get_all, "get_by_list": get_by_list, "sens_param": sens_param}
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                message = f"For 'GradOperation', the '{name}' should be bool, but got {type(flag).__name__}"
                raise GraphTypeError(message)
        self.get_all = get_all
        self.get_by_list = get_by_list
        self.sens_param = sens_param

    def __call__(self, fn: Callable[..., Any], weights: Any = None) -> Callable[..., Any]:
        """The gradient function of `fn`, a cell or a function of tensors.

        With `get_by_list` and no weights, they are the trainable parameters of the cell.
        """
        if not callable(fn):
            raise GraphTypeError(f"GradOperation takes a cell or a function, not {fn!r}.")
        if self.get_by_list and weights is None:
            weights = _trainable(fn)
        parameters = parameters_of(weights) if self.get_by_list else ()

        def gradients(*inputs: TensorLike) -> Any:
            args, sensitivity = (inputs[:-1], inputs[-1]) if self.sens_param and inputs else (inputs, None)
            if self.sens_param and not inputs:
                raise GraphTypeError("The sensitivity is missing: it is the last argument.")
            positions = [i for i, arg in enumerate(args) if is_tensor(arg)]
            if not self.get_all:
                positions = [] if self.get_by_list else positions[:1]
            _, by_input, by_weight = gradient(running_tracer(), fn, args, positions, parameters, sensitivity)
            _accumulate(fn, parameters, by_weight)
            listed = by_weight[0] if isinstance(weights, Parameter) else tuple(by_weight)
            if self.get_by_list:
                return (tuple(by_input), listed) if self.get_all else listed
            return tuple(by_input) if self.get_all or not by_input else by_input[0]

        by_list = isinstance(weights, Parameter) if self.get_by_list else None
        flags = self.get_all, self.get_by_list, self.sens_param, by_list
        key = "GradOperation", *flags, *map(id, parameters)
        compiled = compiled_outside(gradients, fn, key, is_gradient=True)
        return _with_named_sensitivity(compiled) if self.sens_param else compiled


def _with_named_sensitivity(function: Callable[..., Any]) -> Callable[..., Any]:
    """A gradient function whose last argument may be given as `sens`, as in MindSpore."""

    @wraps(function)
    def call(*inputs: TensorLike, **options: TensorLike) -> Any:
        return function(*inputs, *((options.pop("sens"),) if "sens" in options else ()), **options)

    return call


def _accumulate(fn: Any, parameters: Sequence[Parameter], gradients: Sequence[Any]) -> None:
    """Let parameters `accu_grads.<name>` of the running cell have the gradients of a network on parts of a batch.

    MindSpore's compiler adds the gradients of each part to them; a step of a script reads them, and sets them to zero
    behind that. So they are no states: what a step writes there ends with it.
    """
    tracer = running_tracer()
    own = getattr(tracer.here.cell, "accu_grads", None)
    cells = fn.cells_and_names() if hasattr(fn, "cells_and_names") else ()
    if isinstance(own, ParameterTuple) and any(getattr(cell, "_adds_gradients", False) for _, cell in cells):
        of_name = {parameter.name: parameter for parameter in own}
        for parameter, value in zip(parameters, gradients, strict=True):
            accumulator = of_name.get(f"accu_grads.{parameter.name}")
            if accumulator is not None and accumulator not in tracer.states:
                tracer.scratches.add(accumulator)
                tracer.write(accumulator, value)


def _trainable(fn: Any) -> tuple[Parameter, ...]:
    """The trainable parameters of a cell, or of the one that a method belongs to."""
    cell = getattr(fn, "__self__", fn)
    if not hasattr(cell, "trainable_params"):
        message = f"get_by_list without weights takes those of a cell; give the weights of {fn!r}."
        raise GraphTypeError(message)
    return tuple(cell.trainable_params())


def _flag(_: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise GraphTypeError(f"For '_Grad', the {name!r} should be bool, but got {type(value).__name__}.")
    return value


@operation(checks={"has_aux": _flag})
def grad(
    fn: Callable[..., Any], grad_position: int | tuple[int, ...] | None = 0, weights: TensorLike | None = None,
    has_aux: bool = False, return_ids: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function that returns the gradients of `fn` by inputs at `grad_position` and by `weights`.

    For one position it returns a tensor, for several a tuple; with weights too, a pair. With `has_aux` only the first
    output is differentiated, and the result is (gradients, the other outputs). With `return_ids` each gradient is in a
    pair after its position or the name of its weight; see `get_grad`.

    Examples:
        >>> import graphls
        >>> slope = graphls.grad(lambda x, y: (x * x * y).sum(), grad_position=(0, 1))
        >>> [g.asnumpy().tolist() for g in slope(graphls.Tensor([1.0, 2.0]), graphls.Tensor([3.0, 4.0]))]
        [[6.0, 16.0], [1.0, 4.0]]
    """
    both = value_and_grad(fn, grad_position, weights, has_aux, return_ids)

    def gradients(*inputs: TensorLike) -> Any:
        value, result = both(*inputs)
        return (result, tuple(value[1:])) if has_aux else result

    key = "grad", *_settings(grad_position, weights, has_aux, return_ids)
    return compiled_outside(gradients, fn, key, is_gradient=True)


@operation(checks={"has_aux": _flag})
def value_and_grad(
    fn: Callable[..., Any], grad_position: int | tuple[int, ...] | None = 0, weights: Any = None, has_aux: bool = False,
    return_ids: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function that returns (the outputs of `fn`, its gradients); see `grad`.

    Raises GraphValueError where there is neither a position nor a weight, GraphTypeError where `fn` is not callable and
    for a `has_aux` that is not a bool.

    Examples:
        >>> import graphls
        >>> from graphls import nn, ops
        >>> net = nn.Dense(2, 1, weight_init="ones", has_bias=False)
        >>> forward = graphls.value_and_grad(lambda x: ops.sum(net(x)), None, net.trainable_params())
        >>> value, gradients = forward(graphls.Tensor([[1.0, 2.0]]))
        >>> float(value), gradients[0].asnumpy().tolist()
        (3.0, [[1.0, 2.0]])
    """
    if not callable(fn):
        raise GraphTypeError(f"A gradient is taken of a cell or a function, not of {fn!r}.")
    parameters = parameters_of(weights) if weights is not None else ()
    if grad_position is None and weights is None:
        message = "`grad_position` and `weight` can not be None at the same time; give grad_position, weights, or both."
        raise GraphValueError(message)
    positions = positions_of(grad_position)

    def value_and_gradients(*inputs: TensorLike) -> Any:
        if any(not -len(inputs) <= i < len(inputs) for i in positions):
            raise GraphTypeError(f"grad_position {grad_position} needs more than the {len(inputs)} inputs given.")
        value, by_input, by_weight = gradient(running_tracer(), fn, inputs, positions, parameters, has_aux=has_aux)
        if return_ids:
            by_input = list(zip(positions, by_input, strict=True))
            by_weight = [(p.name, g) for p, g in zip(parameters, by_weight, strict=True)]
        of_inputs = by_input[0] if len(positions) == 1 else tuple(by_input)
        of_weights = by_weight[0] if isinstance(weights, Parameter) else tuple(by_weight)
        if weights is None:
            return value, of_inputs
        return value, of_weights if grad_position is None else (of_inputs, of_weights)

    key = "value_and_grad", *_settings(grad_position, weights, has_aux, return_ids)
    return compiled_outside(value_and_gradients, fn, key, is_gradient=True)


def _settings(grad_position: Any, weights: Any, *flags: bool) -> tuple[Any, ...]:
    """The part of a cache key that distinguishes gradient functions of one function."""
    kind = type(grad_position), isinstance(weights, Parameter), weights is None
    return (*kind, positions_of(grad_position), *flags, *map(id, () if weights is None else parameters_of(weights)))


def positions_of(position: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """The positions of inputs; raises GraphTypeError for anything but integers."""
    items = () if position is None else position if isinstance(position, (tuple, list)) else (position,)
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in items):
        raise GraphTypeError(f"grad_position is an integer or a tuple of them, not {position!r}.")
    return tuple(items)


def parameters_of(weights: TensorLike) -> Sequence[Parameter]:
    """Weights as a tuple; raises GraphTypeError for anything but Parameters."""
    items = (weights,) if isinstance(weights, Parameter) else weights
    if not isinstance(items, (tuple, list)) or not all(isinstance(item, Parameter) for item in items):
        raise GraphTypeError("The weights of a gradient are a Parameter or a tuple of them.")
    return tuple(items)


def running_tracer() -> Any:
    """The tracer of the current trace."""
    tracer = current_tracer()
    assert tracer is not None
    return tracer


_IS_GRADIENT: ContextVar[bool] = ContextVar("is_gradient", default=False)


def is_gradient_alone() -> bool:
    """True while a first-order gradient function runs that was called outside of a trace."""
    return _IS_GRADIENT.get()


def compiled_outside(
    function: Callable[..., Any], of: Callable[..., Any], key: tuple[Any, ...], is_gradient: bool = False
) -> Callable[..., Any]:
    """The function inside a trace; outside of one, compiled once for each combination of input types."""
    cache = compiler().derived_cache(of, key, function)

    def call(*inputs: TensorLike) -> Any:
        is_traced = current_tracer() is not None
        before = _IS_GRADIENT.set(is_gradient and not is_traced)
        try:
            return function(*inputs) if is_traced else cache(*inputs)
        finally:
            _IS_GRADIENT.reset(before)

    call.__dict__["__wrapped__"] = of
    return call
