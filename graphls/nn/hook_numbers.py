"""Hooks that give something in eager mode: under a gradient they have numbers, and what they compute has a gradient."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from functools import wraps
from io import StringIO
from typing import Any

from graphls.base.errors import GraphTypeError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, rebuild, structure
from graphls.frontend.tensors.tape import noting
from graphls.frontend.tensors.tensor import Array, Tensor, is_tensor
from graphls.frontend.trace.branches import explore
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.graph import inside
from graphls.nn.hook_traces import kept_attributes, restoring
from graphls.ops.gradients import compiled_outside
from graphls.ops.host_calls import py_func
from graphls.ops.operands import state_of, tensor_of
from graphls.ops.replayed import Replayed


def given_by(tracer: Tracer, hook: Any, cell: object, given: tuple[Any, ...], replaced: Any = None) -> Any:
    """What a hook gives in place of `replaced`, or of all that it is given, by a call of Python in the graph.

    It is called whenever that runs. It is traced once as well, for the types of what it gives and the parameters that
    it reads; what it keeps then is put back. One that cannot be traced, since it reads numbers, gives what has the
    types of what it replaces. Where no Python can be called, in a branch or a loop, it is part of the graph.
    """
    replaced = given if replaced is None else replaced
    if tracer.here.in_branch or tracer.here.in_loop:
        return hook(cell, *given)
    found, parameters = tracer.kept("hook", lambda: _traced(tracer, hook, cell, given))
    wanted = replaced if found is None else found
    called = _Called(hook, cell, given, replaced, wanted, parameters)
    if not called.wanted:
        return found
    tensors = [tensor_of(leaf) for leaf in leaves(given) if is_tensor(leaf)]
    states = list(map(state_of, parameters))
    made = iter(py_func(called.forward(), tuple(called.wanted), *tensors, *states, vjp=called.gradients))
    return rebuild(wanted, [next(made) if is_tensor(leaf) else leaf for leaf in leaves(wanted)])


def _traced(tracer: Tracer, hook: Any, cell: object, given: tuple[Any, ...]) -> tuple[Any, list[Parameter]]:
    """What a hook gives on symbols, or None where it cannot be traced, and the trained parameters that it reads."""
    tracer.endings += list(restoring(hook, cell))
    first, found = len(tracer.builder.nodes), None
    # A hook that fails on symbols may not on numbers; where it does, that comes out. No symbols are printed.
    with suppress(Exception), kept_attributes(hook, cell), redirect_stdout(StringIO()):
        found = explore(tracer, lambda: hook(cell, *given))
    read = {v for node in tracer.builder.nodes[first:] for n in (node, *inside(node)) for v in n.inputs}
    return found, [p for p, value in tracer.states.items() if p.requires_grad and value in read]


class _Called:
    """A hook that a graph calls with numbers, and that its gradient asks what the last call has computed."""

    def __init__(
        self, hook: Any, cell: object, given: tuple[Any, ...], replaced: Any, wanted: Any, parameters: list[Parameter]
    ) -> None:
        self.hook, self.cell, self.given, self.replaced = hook, cell, given, replaced
        self.parameters = parameters
        self.structure = structure(wanted)
        self.wanted = [tensor_of(leaf) for leaf in leaves(wanted) if is_tensor(leaf)]
        self.places = [is_tensor(leaf) for leaf in leaves(given)]
        self.pulls: dict[Hashable, Callable[..., Any]] = {}
        self.last: tuple[Replayed, list[Tensor]] | None = None

    def forward(self) -> Callable[..., tuple[Array, ...]]:
        """What the graph calls, under the name of the hook."""

        @wraps(self.hook, assigned=("__qualname__",), updated=())
        def called(*arrays: Array) -> tuple[Array, ...]:
            numbers = [Tensor(array) for array in arrays[: sum(self.places)]]
            with noting() as noted:
                results = self._results(numbers)
            sources = [*numbers, *self.parameters]
            self.last = Replayed(noted, sources, results), numbers
            return tuple(result.asnumpy() for result in results)

        return called

    def _results(self, numbers: Sequence[Tensor]) -> list[Tensor]:
        """What the hook gives for numbers; raises GraphTypeError where that is another nest than was traced."""
        args = self._nest(self.given, numbers)
        found = self.hook(self.cell, *args)
        if found is None:
            found = self._same(args)
        if structure(found) != self.structure:
            text = "A hook gives the same kind of nest each time that it is called under a gradient"
            raise GraphTypeError(f"{text}, not once {self.structure} and once {structure(found)}.")
        return [tensor_of(leaf) for leaf in leaves(found) if is_tensor(leaf)]

    def _nest(self, tree: Any, numbers: Sequence[Tensor]) -> Any:
        given = iter(numbers)
        found = leaves(tree)
        return rebuild(tree, [next(given) if is_tensor(leaf) else leaf for leaf in found])

    def _same(self, args: tuple[Any, ...]) -> Any:
        """What the hook would have replaced: the same place among what it was given."""
        if self.replaced is self.given:
            return args
        return next(new for old, new in zip(self.given, args, strict=True) if old is self.replaced)

    def gradients(self, *arguments: Any) -> list[Any]:
        """The gradients by what the hook was given and by its parameters, as the graph of the gradient has them."""
        *inputs, results, seeds = arguments
        of = [tensor for tensor in inputs if tensor.dtype.is_float]
        made: Iterator[Any] = iter(py_func(self._pulled, tuple(of), *leaves(seeds), *leaves(results)))
        return [next(made) if tensor.dtype.is_float else None for tensor in inputs]

    def _pulled(self, *arrays: Array) -> tuple[Array, ...]:
        assert self.last is not None, "the graph has called the hook before"
        replayed, numbers = self.last
        seeds = tuple(map(Tensor, arrays[: len(self.wanted)]))
        sources = (*numbers, *(p.value() for p in self.parameters))
        tensors = (*sources, *replayed.constants)
        found = self._pull(replayed)(tensors, seeds)[: len(sources)]
        return tuple(g.asnumpy() for g, source in zip(found, sources, strict=True) if source.dtype.is_float)

    def _pull(self, replayed: Replayed) -> Callable[..., Any]:
        """What computes the gradients, compiled once for hooks that compute the same each time."""
        key = replayed.key
        if key is None or key not in self.pulls:
            self.pulls[key] = compiled_outside(replayed.pulled, replayed, ())
        return self.pulls[key]
