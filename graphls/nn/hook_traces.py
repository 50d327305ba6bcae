"""Hooks under a trace: observers store symbols for its duration, and eager hooks with results become host calls."""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial, wraps
from io import StringIO
from typing import Any

from graphls.base.errors import GraphlsError, GraphTypeError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, rebuild, structure
from graphls.frontend.tensors.tape import noting
from graphls.frontend.tensors.tensor import Array, Symbol, Tensor, is_tensor
from graphls.frontend.trace.branches import explore
from graphls.frontend.trace.calls import Fork
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.graph import inside
from graphls.nn.hook_kinds import function_of
from graphls.ops.gradients import compiled_outside
from graphls.ops.host_calls import py_func
from graphls.ops.operands import state_of, tensor_of
from graphls.ops.replayed import Replayed

Restore = Callable[[], None]


def observe_symbols(tracer: Tracer, hook: Any, cell: object, arguments: tuple[object, ...]) -> None:
    """Call a hook with the symbols of a trace, which `construct` may read where the hook stores them.

    When the trace ends, containers, variables and attributes that the hook can reach are restored. A hook that reads
    numbers fails here, silently; it is called with numbers later.
    """
    tracer.end_callbacks += list(restoring(hook, cell))
    try:
        with suppress(GraphlsError):
            hook(cell, *arguments)
    except Fork:
        tracer.fork = None


def restoring(hook: Any, cell: object) -> Iterator[Restore]:
    """Functions that undo all that a hook can change: values it names, attributes of its object and of the cell."""
    values: list[Any] = []
    while isinstance(hook, partial):
        values += [*hook.args, *hook.keywords.values()]
        hook = hook.func
    function = function_of(hook)
    if function is not None:
        for name in {step.argval for step in dis.get_instructions(function) if step.opname == "STORE_GLOBAL"}:
            yield partial(_restore, function.__globals__, name, dict(function.__globals__))
        values += [function.__globals__.get(name) for name in function.__code__.co_names]
        for variable in function.__closure__ or ():
            with suppress(ValueError):
                values.append(variable.cell_contents)
                yield partial(setattr, variable, "cell_contents", variable.cell_contents)
    owner = getattr(hook, "__self__", hook)
    for item in (cell, owner):
        if hasattr(item, "__dict__") and item is not function:
            values += vars(item).values()
            yield partial(_without_symbols, vars(item), dict(vars(item)))
    for item in values:
        if type(item) in (list, deque, set, dict):
            yield partial(_restore_contents, item, item.copy())


@contextmanager
def preserving_attributes(hook: Any, cell: object) -> Iterator[None]:
    """Restore attributes of a hook's object and of the cell after a block, except those that hold symbols."""
    owners = [vars(item) for item in (cell, getattr(hook, "__self__", hook)) if hasattr(item, "__dict__")]
    before = [dict(attributes) for attributes in owners]
    try:
        yield
    finally:
        for attributes, old in zip(owners, before, strict=True):
            changed = [name for name, value in attributes.items() if value is not old.get(name)]
            for name in changed:
                if not _holds_symbols(attributes[name]):
                    _restore(attributes, name, old)


def _holds_symbols(value: object) -> bool:
    return any(isinstance(leaf, Symbol) for leaf in leaves(value))


def _restore(attributes: dict[str, Any], name: str, before: dict[str, Any]) -> None:
    attributes.pop(name, None)
    attributes.update({name: before[name]} if name in before else {})


def _restore_contents(container: Any, before: Any) -> None:
    """Restore the contents of a container."""
    container.clear()
    (container.extend if isinstance(container, (list, deque)) else container.update)(before)


def _without_symbols(attributes: dict[str, Any], before: dict[str, Any]) -> None:
    """Restore attributes that hold symbols of a trace."""
    for name, value in list(attributes.items()):
        if value is not before.get(name) and _holds_symbols(value):
            _restore(attributes, name, before)


def call_on_host(tracer: Tracer, hook: Any, cell: object, arguments: tuple[Any, ...], replaced: Any = None) -> Any:
    """Call a hook by a host call in the graph; its result replaces `replaced`, by default all its arguments.

    It is called whenever the graph runs. It is traced once as well, for the types of its results and the parameters
    that it reads; everything it stores then is restored. If it cannot be traced, since it reads numbers, its results
    have the types of the values they replace. In branches and loops, which cannot call Python, it is part of the graph.
    """
    replaced = arguments if replaced is None else replaced
    if tracer.here.in_branch or tracer.here.in_loop:
        return hook(cell, *arguments)
    outputs, parameters = tracer.recorded("hook", lambda: _traced(tracer, hook, cell, arguments))
    expected = replaced if outputs is None else outputs
    host_hook = _HostHook(hook, cell, arguments, replaced, expected, parameters)
    if not host_hook.expected:
        return outputs
    tensors = [tensor_of(leaf) for leaf in leaves(arguments) if is_tensor(leaf)]
    states = list(map(state_of, parameters))
    results = iter(py_func(host_hook.forward(), tuple(host_hook.expected), *tensors, *states, vjp=host_hook.gradients))
    return rebuild(expected, [next(results) if is_tensor(leaf) else leaf for leaf in leaves(expected)])


def _traced(tracer: Tracer, hook: Any, cell: object, arguments: tuple[Any, ...]) -> tuple[Any, list[Parameter]]:
    """The hook's results on symbols, None if it cannot be traced, and the trained parameters that it reads."""
    tracer.end_callbacks += list(restoring(hook, cell))
    first, outputs = len(tracer.builder.nodes), None
    # A hook that fails on symbols may succeed on numbers; if not, it raises then. No symbols are printed.
    with suppress(Exception), preserving_attributes(hook, cell), redirect_stdout(StringIO()):
        outputs = explore(tracer, lambda: hook(cell, *arguments))
    read = {v for node in tracer.builder.nodes[first:] for n in (node, *inside(node)) for v in n.inputs}
    return outputs, [p for p, value in tracer.states.items() if p.requires_grad and value in read]


class _HostHook:
    """A hook that a graph calls with numbers; for its gradient, it replays the last call."""

    def __init__(
        self,
        hook: Any,
        cell: object,
        arguments: tuple[Any, ...],
        replaced: Any,
        expected: Any,
        parameters: list[Parameter],
    ) -> None:
        self.hook, self.cell, self.arguments, self.replaced = hook, cell, arguments, replaced
        self.parameters = parameters
        self.structure = structure(expected)
        self.expected = [tensor_of(leaf) for leaf in leaves(expected) if is_tensor(leaf)]
        self.tensor_mask = [is_tensor(leaf) for leaf in leaves(arguments)]
        self.gradient_functions: dict[Hashable, Callable[..., Any]] = {}
        self.last: tuple[Replayed, list[Tensor]] | None = None

    def forward(self) -> Callable[..., tuple[Array, ...]]:
        """The function that the graph calls, under the name of the hook."""

        @wraps(self.hook, assigned=("__qualname__",), updated=())
        def called(*arrays: Array) -> tuple[Array, ...]:
            numbers = [Tensor(array) for array in arrays[: sum(self.tensor_mask)]]
            with noting() as noted:
                results = self._results(numbers)
            sources = [*numbers, *self.parameters]
            self.last = Replayed(noted, sources, results), numbers
            return tuple(result.asnumpy() for result in results)

        return called

    def _results(self, numbers: Sequence[Tensor]) -> list[Tensor]:
        """The hook's results for numbers; raises GraphTypeError where their structure is not the traced one."""
        args = self._with_numbers(self.arguments, numbers)
        outputs = self.hook(self.cell, *args)
        if outputs is None:
            outputs = self._original_value(args)
        if structure(outputs) != self.structure:
            text = "A hook gives the same kind of nest each time that it is called under a gradient"
            raise GraphTypeError(f"{text}, not once {self.structure} and once {structure(outputs)}.")
        return [tensor_of(leaf) for leaf in leaves(outputs) if is_tensor(leaf)]

    def _with_numbers(self, tree: Any, numbers: Sequence[Tensor]) -> Any:
        items = iter(numbers)
        flat = leaves(tree)
        return rebuild(tree, [next(items) if is_tensor(leaf) else leaf for leaf in flat])

    def _original_value(self, args: tuple[Any, ...]) -> Any:
        """The value that the hook would have replaced: the corresponding one of these arguments."""
        if self.replaced is self.arguments:
            return args
        return next(new for old, new in zip(self.arguments, args, strict=True) if old is self.replaced)

    def gradients(self, *arguments: Any) -> list[Any]:
        """The gradients by the hook's arguments and its parameters, as host calls in the graph of the gradient."""
        *inputs, results, seeds = arguments
        of = [tensor for tensor in inputs if tensor.dtype.is_float]
        gradients: Iterator[Any] = iter(py_func(self._computed_gradients, tuple(of), *leaves(seeds), *leaves(results)))
        return [next(gradients) if tensor.dtype.is_float else None for tensor in inputs]

    def _computed_gradients(self, *arrays: Array) -> tuple[Array, ...]:
        assert self.last is not None, "the graph has called the hook before"
        replayed, numbers = self.last
        seeds = tuple(map(Tensor, arrays[: len(self.expected)]))
        sources = (*numbers, *(p.value() for p in self.parameters))
        tensors = (*sources, *replayed.constants)
        gradients = self._gradient_function(replayed)(tensors, seeds)[: len(sources)]
        return tuple(g.asnumpy() for g, source in zip(gradients, sources, strict=True) if source.dtype.is_float)

    def _gradient_function(self, replayed: Replayed) -> Callable[..., Any]:
        """The compiled function of the gradients, shared by hooks that compute the same each time."""
        key = replayed.key
        if key is None or key not in self.gradient_functions:
            self.gradient_functions[key] = compiled_outside(replayed.pulled, replayed, ())
        return self.gradient_functions[key]
