"""Lint of a compiled step: warnings about loss scaling, weights, and operators that its device has no kernel for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakSet

from graphls.base.reporting import warn
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.trace.trace import Traced
from graphls.ir.graph import Graph, Node, Value, blocks, definers, uses, walk
from graphls.ir.reachability import reached
from graphls.ir.types import bfloat16, float32, float64
from graphls.nn.cell import Cell
from graphls.passes.overflow.overflow import can_overflow_early
from graphls.passes.windows import windows

if TYPE_CHECKING:
    from graphls.step.step import Compiled

_warned: WeakSet[Parameter] = WeakSet()
_SHOWN = 3
"""The most names, or kinds of operators, that a warning lists."""


class Lint:
    """One reading of the traced graph of a step, of its gradients and of what `graph` has become of it, for all rules.

    Users are told of each parameter once.
    """

    def __init__(self, cell: object, traced: Traced, graph: Graph) -> None:
        self.cell = cell
        self.traced, self.graph = traced.graph, graph
        self.parameters = traced.parameters
        self.nodes = tuple(walk(traced.graph))
        self.gradients = [node for node in self.nodes if node.primitive.name == "gradient"]
        self.written = {write.state for write in traced.graph.writes}
        self.trained = {state for state in self.written if self.parameters[state.name].requires_grad}

    @cached_property
    def definer(self) -> dict[Value, Node]:
        """The node of each value of the traced graph."""
        return definers(self.nodes)

    def warn(self) -> None:
        """Warn of what the rules find."""
        self.idle_scaling()
        self.untrained()
        self.frozen()
        self.float64_weights()

    def idle_scaling(self) -> None:
        """Warn of loss scaling where nothing in the overflow windows is float16: only that has too little range.

        A loss scale is a state of one element above 1 that is not trained and that the loss, or the sensitivity that
        its gradient starts with, is multiplied by.
        """
        states = (v for v in self._reached(lambda of: 2 * of, _factors) if v.is_state)
        scales = {self.parameters[state.name] for state in states}
        scales = {p for p in scales if not p.requires_grad and p.size == 1 and float(p) > 1} - set(_warned)
        overflow_windows = [window for block in blocks(self.graph) for window in windows(block.nodes)] if scales else []
        if not overflow_windows or any(can_overflow_early(window.inside) for window in overflow_windows):
            return
        _warned.update(scales)
        dtypes = {v.type.dtype for window in overflow_windows for node in window.inside for v in node.outputs}
        dtype = bfloat16 if bfloat16 in dtypes else float32
        warn(
            f"Gradients in {dtype.long_name} need no loss scaling, and nothing between this loss and its overflow "
            "check is float16; train with TrainOneStepCell, or compute the network in float16.",
            overflow_windows[0].get.loc,
        )

    def untrained(self) -> None:
        """Warn of parameters that a step differentiates by, does not write and does not know.

        A cell in a plain list or dict is not a part of the cell around it, so that `trainable_params` does not have its
        weights: the step runs, and the loss falls by what is trained besides.
        """
        if not isinstance(self.cell, Cell) or not self.trained:
            return
        known = {*self.cell.get_parameters(), *_warned}
        strange = {v: self.parameters[v.name] for v in self.traced.states if v not in self.written}
        strange = {v: p for v, p in strange.items() if p.requires_grad and p not in known}
        differentiated = set(self._reached(lambda of: of, _unstopped)) if strange else ()
        untrained = {state: parameter for state, parameter in strange.items() if state in differentiated}
        if untrained:
            _warned.update(untrained.values())
            first = next(iter(untrained))
            reader = next(node for node in self.nodes if first in node.inputs)
            warn(_untrained_text([parameter.name for parameter in untrained.values()]), reader.loc)

    def frozen(self) -> None:
        """Warn of parameters without `requires_grad` that a step updates by their gradients all the same.

        Optimizers of `nn` leave them unchanged; a cell of the user's that updates parameters may not ask.
        """
        pairs = [pair for node in self.gradients for pair in zip(_sources(node), node.outputs, strict=True)]
        for write in self.traced.writes:
            parameter = self.parameters[write.state.name]
            if parameter.requires_grad or parameter in _warned:
                continue
            gradients = {gradient for source, gradient in pairs if source is write.state}
            if gradients and self._is_from(write.value, gradients):
                _warned.add(parameter)
                text = f"{parameter.name!r} has requires_grad=False and is updated all the same"
                warn(f"{text}; leave it out of the update, or derive the optimizer of this step from nn.Optimizer.")

    def float64_weights(self) -> None:
        """Warn of a weight that a step trains and takes to float64 for an input: that takes several times as long."""
        is_given = any(value.type.dtype is float64 for value in self.traced.inputs)
        for node in self.nodes if is_given else ():
            if node.primitive.name == "cast" and node.attrs["dtype"] is float64 and node.inputs[0] in self.trained:
                of = node.inputs[0]
                text = f"{of.name!r} is {of.type.dtype} and meets float64, in which a step takes several times as long"
                warn(f"{text}; give inputs as {of.type.dtype}, or weights of float64 if that is meant.", node.loc)
                return

    def _reached(self, count: Callable[[int], int], operands: Callable[[Node], Iterable[Value]]) -> Iterable[Value]:
        """The first operands of all gradients, and what leads to them by these operands of nodes."""

        def following(value: Value) -> Iterable[Value]:
            return operands(self.definer[value]) if value in self.definer else ()

        return reached((v for node in self.gradients for v in node.inputs[: count(node.attrs["of"])]), following)

    def _is_from(self, value: Value, sources: set[Value]) -> bool:
        """Whether a value is computed from any of some others."""
        ancestors = reached([value], lambda v: uses(self.definer[v]) if v in self.definer else ())
        return not sources.isdisjoint(ancestors)


def _sources(node: Node) -> Iterable[Value]:
    """The values that a gradient is taken by."""
    return node.inputs[2 * node.attrs["of"] :][: node.attrs["wrt"]]


def _factors(node: Node) -> Iterable[Value]:
    """The factors of a node's result."""
    return (node.inputs[at] for at in node.primitive.factors)


def _unstopped(node: Node) -> Iterable[Value]:
    """The operands of a node that a gradient flows to."""
    return () if node.primitive.name == "stop_gradient" else uses(node)


def _untrained_text(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN])) + (f" and {len(names) - _SHOWN} others" if names[_SHOWN:] else "")
    return (
        f"No optimizer trains {shown}, whose cell is not part of the network, as one in a plain list or dict; keep "
        "cells in nn.CellList or nn.CellDict, or set requires_grad=False if that is meant."
    )


def warn_of_placement(step: Compiled) -> None:
    """Warn once, with the user's lines and what is copied, where operators of a step have no kernel on its device."""
    placement = step.placement()
    if placement.sentences:
        groups = sorted(placement.groups, key=lambda group: group[1].copied, reverse=True)
        listed = "; ".join(f"{node.operator}: {node.reason} ({node.line or 'no line'})" for _, node in groups[:_SHOWN])
        more = f"; and {len(groups) - _SHOWN} others" if len(groups) > _SHOWN else ""
        warn(f"{' '.join(placement.sentences)} These are {listed}{more}; step.placement() tells all.")
