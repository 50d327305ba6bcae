"""`ops.depend` in a trace: control edges between values."""

from __future__ import annotations

from typing import TypeVar

from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Symbol, Tensor, is_tensor
from graphls.frontend.trace.states import Scratch, StateSymbol
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.graph import Value

Tree = TypeVar("Tree")


def depend(tracer: Tracer, value: Tree, expression: object) -> Tree:
    """`value`, computed after everything in `expression`."""
    tensors = [leaf for leaf in leaves(expression) if isinstance(leaf, (Symbol, Parameter))]
    after = tuple(value for tensor in tensors for value in ends(tracer, tensor))
    if not after:
        return value

    def ordered(leaf: object) -> object:
        if isinstance(leaf, Parameter):
            return StateSymbol(tracer, leaf, after)
        if isinstance(leaf, StateSymbol):
            return StateSymbol(tracer, leaf.parameter, (*leaf.after, *after))
        if not is_tensor(leaf):
            return leaf
        of = tracer.value(leaf)
        return Symbol(tracer.emit("depend", (of,), {}, after=after, name=of.name)[0])

    result: Tree = map_leaves(ordered, value)
    return result


def ends(tracer: Tracer, tensor: Tensor) -> tuple[Value, ...]:
    """The values that a tensor is complete with: its own, or those that a scratch tensor depends on."""
    if isinstance(tensor, StateSymbol) and isinstance(tensor.parameter, Scratch):
        return tensor.after
    return (tracer.value(tensor),)


def awaited(tracer: Tracer, tensor: object) -> tuple[Value, ...]:
    """The values that a tensor waits for by `depend`, in order."""
    if isinstance(tensor, StateSymbol):
        return tensor.after
    return tracer.aliases.awaited(tracer.value(tensor))


def without_depends(tracer: Tracer, item: object) -> object:
    """The value or parameter of a symbol, behind all `depend`s; other objects as they are."""
    if isinstance(item, StateSymbol):
        return item.parameter
    return tracer.aliases.original(item.graph_value) if isinstance(item, Symbol) else item
