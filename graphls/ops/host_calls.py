"""Host calls in a step: Python functions of arrays, and prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.base.location import Location, user_location
from graphls.frontend.tensors.pytree import leaves, rebuild, structure
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike, is_tensor
from graphls.frontend.trace.host_calls import call_python, host_function, show
from graphls.frontend.trace.rewriting.functions import in_trace
from graphls.frontend.trace.tracer import Tracer, current_tracer
from graphls.ir.types import TOKEN, Type, as_dtype
from graphls.ops.arrays.creation import zeros_like
from graphls.ops.gradients import with_gradient
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation
from graphls.primitives.host import HostFunction, call
from graphls.primitives.printed import number_text, show_printed

Array = np.ndarray[Any, Any]


@operation
def pure_callback(
    function: Callable[..., Any], result_types: Any, *inputs: TensorLike, vjp: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """The results of a Python function of arrays, also in the middle of a compiled step.

    `inputs` are tensors, numbers and pytrees of them; the function gets read-only NumPy arrays, and returns arrays of
    the types that `result_types` declares: one, or a pytree of them, each a tensor (`Tensor(shape=(2, 3),
    dtype=float32)`), a pair of a shape and a dtype, or any object with these two attributes. The function has no
    effect besides its results: a step may drop an unused call, and merge two equal ones. It is never called while a
    step is compiled. Without a `vjp` it has no gradient; `vjp(*inputs, results, gradients of the results)` returns a
    gradient for each tensor input, or None, as the `bprop` of a cell does, by operations or by another pure_callback.

    Raises GraphTypeError unless `function` is callable and the types are declared, TraceError in a loop or a branch on
    a tensor, and at run time GraphTypeError or GraphValueError for results of other types; exceptions of the function
    propagate unchanged.
    """
    return _host_call("pure_callback", function, result_types, inputs, vjp)


@operation
def py_func(
    function: Callable[..., Any], result_types: Any, *inputs: TensorLike, vjp: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """The results of a Python function with effects: it is called once in each step, in program order.

    See `pure_callback`, which is for functions without effects. With None for `result_types`, which declares no
    results, the function is called after the rest of the step, unless a later one has results.
    """
    return _host_call("py_func", function, result_types, inputs, vjp)


@operation(classes="Print")
def print_(*input_x: object) -> Any:
    """Print texts and tensors, each on its own lines, whenever the graph runs; returns the first tensor.

    The format is that of MindSpore's graphs; they appear after the step, in program order, those of a branch of an
    `if` only if it is taken. One in a loop (`ops.scan`) prints the values of all iterations, after the loop; in a loop
    whose number of iterations the graph decides it prints nothing, with a warning.
    """
    items = leaves(input_x)
    tensors = [tensor_of(item) for item in items if is_tensor(item)]
    parts = tuple(None if is_tensor(item) else _text(item) for item in items)
    tracer = current_tracer()
    if tracer is not None:
        show(tracer, "print", [tracer.value(tensor) for tensor in tensors], {"parts": parts})
    else:
        show_printed(parts, [tensor.asnumpy() for tensor in tensors])
    return tensors[0] if tensors else Tensor(0)


def _text(item: object) -> str:
    return number_text(item) if isinstance(item, (bool, int, float)) else str(item)


def concrete_hook(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A gradient hook that is called with concrete values, whenever the graph runs; its results have their types."""

    def called(gradients: tuple[Tensor, ...]) -> Any:
        return py_func(of_arrays, gradients, *gradients)

    @wraps(hook, assigned=("__qualname__",))
    def of_arrays(*arrays: Array) -> Any:
        replaced = hook(tuple(map(Tensor, arrays)))
        if replaced is None:
            return arrays
        return tuple(tensor_of(g).asnumpy() for g in (replaced if isinstance(replaced, tuple) else (replaced,)))

    return called


def report(name: str, tensors: Sequence[Tensor], shown: Callable[[list[Array]], None]) -> None:
    """Call a function with the arrays of tensors: at once, or in a trace whenever the graph has run."""
    tracer = current_tracer()
    if tracer is None:
        shown([tensor.asnumpy() for tensor in tensors])
        return

    def called(*arrays: Array) -> None:
        shown(list(arrays))

    function = host_function(tracer, name, shown, called)
    show(tracer, "py_func", [tracer.value(tensor) for tensor in tensors], {"function": function})


def _host_call(
    kind: str, function: Callable[..., Any], result_types: Any, inputs: tuple[Any, ...], vjp: Callable[..., Any] | None
) -> Any:
    for each in (function, *(() if vjp is None else (vjp,))):
        if not callable(each):
            raise GraphTypeError(f"{kind} takes a function, not {each!r}.")
    results = _declared(() if result_types is None else result_types)
    if results == () and kind == "pure_callback":
        text = "pure_callback declares at least one result, as a call without results has no effect; see py_func."
        raise GraphTypeError(text)
    call = _Call(kind, function, inputs, results, user_location())
    tensors = [tensor_of(leaf) for leaf in leaves(inputs)]
    tracer = current_tracer()
    if tracer is None:
        return call.at_once(tensors)
    symbols = [Symbol(tracer.value(tensor)) for tensor in tensors]
    forward = partial(call.in_graph, tracer)
    if vjp is None or results == ():
        return forward(*symbols)
    return with_gradient(forward, partial(_backward, vjp, inputs), *symbols)


@dataclass(frozen=True)
class _Call:
    """A function with the pytrees of its inputs and of its declared result types."""

    kind: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    results: Any
    location: Location | None

    @property
    def name(self) -> str:
        """The qualified name of the function without enclosing functions."""
        name = str(getattr(self.function, "__qualname__", type(self.function).__name__))
        return name.rpartition(".<locals>.")[2]

    def __call__(self, *arrays: Array) -> tuple[Any, ...]:
        """The results of the function for arrays, flat."""
        return tuple(self._flat(self.function(*rebuild(self.inputs, arrays)), self.results))

    def _flat(self, returned: Any, declared: Any) -> Iterator[Any]:
        """The arrays in the returned pytree; raises GraphTypeError where its structure is not the declared one."""
        if isinstance(declared, Type):
            yield returned
            return
        kinds = (dict,) if isinstance(declared, dict) else (tuple, list) if declared else (tuple, list, type(None))
        is_alike = isinstance(returned, kinds) and len(returned or ()) == len(declared)
        if not is_alike or (isinstance(returned, dict) and returned.keys() != declared.keys()):
            text = f"{self.name} gives {_kind(returned)} where {_kind(declared)} is declared."
            raise GraphTypeError(text, self.location)
        for key in declared if isinstance(declared, dict) else range(len(declared)):
            yield from self._flat(returned[key], declared[key])

    def at_once(self, tensors: Sequence[Tensor]) -> Any:
        """The results as tensors."""
        types = leaves(self.results)
        named = HostFunction(self.name, self, self.location)
        arrays = call(named, tuple(tensor.asnumpy() for tensor in tensors), tuple(types))
        return self._results([Tensor.on_host(np.array(a), t) for a, t in zip(arrays, types, strict=True)])

    def in_graph(self, tracer: Tracer, *symbols: Symbol) -> Any:
        """The results as symbols."""
        structures = structure(self.results), structure(self.inputs)
        named = host_function(tracer, self.name, self.function, self, *structures)
        values = [tracer.value(symbol) for symbol in symbols]
        return self._results(map(Symbol, call_python(tracer, self.kind, named, values, leaves(self.results))))

    def _results(self, tensors: Iterable[Tensor]) -> Any:
        """The pytree of results, or None where none is declared."""
        return None if self.results == () else rebuild(self.results, tensors)


def _kind(returned: Any) -> str:
    if isinstance(returned, (tuple, list, dict)):
        return f"a {type(returned).__name__} of {len(returned)}"
    return type(returned).__name__


def _backward(vjp: Callable[..., Any], inputs: tuple[Any, ...], *arguments: Any) -> tuple[Tensor, ...]:
    """The gradients by the inputs, flat; zeros where `vjp` returns None."""
    tensors, (results, gradients) = arguments[:-2], arguments[-2:]
    returned = in_trace(vjp)(*rebuild(inputs, tensors), results, gradients)
    flat = leaves(returned)
    if len(flat) != len(tensors):
        raise GraphTypeError(f"A vjp gives a gradient for each of the {len(tensors)} inputs, not {len(flat)}.")
    return tuple(map(_checked_gradient, tensors, flat))


def _checked_gradient(tensor: Tensor, gradient: Any) -> Tensor:
    """A gradient of a tensor, checked to be of its type."""
    result = zeros_like(tensor) if gradient is None else tensor_of(gradient)
    if result.type != tensor.type:
        raise GraphTypeError(f"A vjp gives a gradient of the type of each input, not {result.type} for {tensor.type}.")
    return result


def _declared(result_types: Any) -> Any:
    """The pytree of declared types; raises GraphTypeError for anything else in it."""
    if _is_pair(result_types):
        return _type(*result_types)
    if isinstance(result_types, (tuple, list)):
        return tuple(map(_declared, result_types))
    if isinstance(result_types, dict):
        return {key: _declared(item) for key, item in result_types.items()}
    if hasattr(result_types, "shape") and hasattr(result_types, "dtype"):
        return _type(result_types.shape, result_types.dtype)
    text = "A result is declared by a tensor, or by a pair of a shape and a dtype as in ((2, 3), float32)"
    raise GraphTypeError(f"{text}, not by {result_types!r}.")


def _is_pair(item: Any) -> bool:
    """True for a shape with a dtype, as opposed to a pytree of two types."""
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        return False
    shape, dtype = item
    is_shape = isinstance(shape, (tuple, list)) and all(isinstance(size, (int, np.integer)) for size in shape)
    return is_shape and not isinstance(dtype, (tuple, list, dict)) and not hasattr(dtype, "shape")


def _type(shape: Any, dtype: Any) -> Type:
    declared = Type(as_dtype(dtype), tuple(int(size) for size in shape))
    if declared == TOKEN or min(declared.shape, default=0) < 0:
        raise GraphTypeError(f"A result has sizes from 0 on and a dtype of arrays, not {tuple(shape)} and {dtype!r}.")
    return declared
