"""Symbols for states in a trace: parameters behind `ops.depend`, and scratch tensors.

Also copies of symbols: their elements can be assigned, so a trace records other symbols than it hands out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.tensors.tensor import Symbol, Tensor
from graphls.ir.graph import Value
from graphls.ir.types import Type


class HasStates(Protocol):
    """The interface of a tracer for symbols of states."""

    def read(self, parameter: Parameter) -> Value:
        """The current value of a parameter."""

    def write(self, parameter: Parameter, operand: object) -> Value:
        """Give a parameter a new value."""

    def emit(
        self, primitive: str, inputs: Sequence[Value], attrs: Mapping[str, object], *, after: Sequence[Value] = (),
        name: str | None = None,
    ) -> tuple[Value, ...]:  # fmt: skip
        """Append a node."""


class Scratch(Parameter):
    """A tensor that a step writes and reads and that does not outlive it: zeros at the start."""


class StateSymbol(Symbol):
    """A parameter behind `ops.depend`: it reads as the parameter's value at the time of use."""

    __slots__ = ("after", "parameter", "tracer")

    def __init__(self, tracer: HasStates, parameter: Parameter, after: tuple[Value, ...]) -> None:
        self.tracer, self.parameter, self.after = tracer, parameter, after

    @property
    def graph_value(self) -> Value:
        now = self.tracer.read(self.parameter)
        if not self.after:
            return now
        return self.tracer.emit("depend", (now,), {}, after=self.after, name=now.name)[0]

    @property
    def type(self) -> Type:
        return self.parameter.type

    def _become(self, other: Tensor) -> None:
        self.tracer.write(self.parameter, other)


def copies(tree: object) -> Any:
    """The pytree with new symbols of the same values."""
    return map_leaves(lambda leaf: Symbol(leaf.graph_value) if type(leaf) is Symbol else leaf, tree)
