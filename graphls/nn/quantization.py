"""Quantization-aware training: products round their operands to 8-bit integers while the network is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.configuration import Configuration
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.trace.trace import trace
from graphls.ir.graph import Graph, Value
from graphls.nn.cell import Cell
from graphls.passes.adapters.fake_quantize import FakeQuantize, quantized

__all__ = ["fake_quantize"]


@dataclass(frozen=True)
class Quantized:
    """The quantized products of a cell; as a pass of the cell it inserts the rounding.

    `sites` are, in execution order, the paths of the weight and of the range of the other operand.
    """

    options: FakeQuantize
    sites: tuple[tuple[str, str], ...] = ()
    calibrates: bool = False

    def rewrite(self, graph: Graph, training: bool) -> Graph:
        """The graph with rounded products; in training, observed ranges follow the values."""
        match = tuple(dict.fromkeys(weight for weight, _ in self.sites))
        options = replace(self.options, match=match, training=training or self.calibrates)
        return replace(options, ranges="observed").run(graph) if self.calibrates else options.run(graph)


@dataclass
class _SiteCollector:
    """A pass of a cell that changes nothing and collects the products that would be rounded."""

    options: FakeQuantize
    sites: tuple[tuple[str, str], ...] = ()
    ranges: tuple[Value, ...] = ()

    def rewrite(self, graph: Graph, training: bool) -> Graph:
        rounded, sites = quantized(graph, self.options)
        known = set(graph.states)
        self.sites, self.ranges = tuple(sites), tuple(state for state in rounded.states if state not in known)
        return graph


Check: TypeAlias = "Callable[[Cell, Quantized, Mapping[str, Parameter], Sequence[object]], None]"
"""Raises where a network is not to be rounded: from it, its products, the parameters of its ranges and its inputs."""
_CHECKS: list[Check] = []


def fake_quantize(
    net: Cell, *inputs: object, match: str | Sequence[str] = "*", ranges: str = "observed", per_channel: bool = True,
    momentum: float = 0.1,
) -> list[str]:  # fmt: skip
    """Round the operands of products to values that 8-bit integers represent; returns the paths of their weights.

    `inputs` are examples of the network's inputs, and the first ranges are those of a run on them. `match` is a pattern
    as of files, or several, of the names of weights or of the cells that use them. Weights are symmetric, by output
    channel or as a whole. The ranges of the other operands are parameters `<module>.input_range`, two numbers each:
    "observed" ones follow the smallest and the largest number by `momentum` in each step of a training, "learned" ones
    have gradients. Gradients pass straight through inside of a range. Create steps and optimizers of the network
    afterwards. `graphls.onnx.save_quantized` writes an ONNX model with integers.

    Raises GraphTypeError and GraphValueError for arguments that do not fit, for a network that is rounded already or
    has adapters, where no product matches, and for a network of `graphls.onnx.load` that `save_quantized` could not
    write after the training: with such weights in another dtype than float32 or read inside of functions, or of
    operators that are too old and cannot be converted.

    Examples:
        >>> import numpy as np
        >>> from graphls import nn
        >>> from graphls.nn.quantization import fake_quantize
        >>> net = nn.SequentialCell(nn.Dense(8, 8), nn.ReLU(), nn.Dense(8, 2))
        >>> fake_quantize(net, np.ones((1, 8), np.float32))
        ['0.weight', '2.weight']
    """
    if not isinstance(net, Cell):
        raise GraphTypeError(f"fake_quantize takes a Cell, not {type(net).__name__}.")
    if not inputs:
        raise GraphTypeError("fake_quantize takes inputs like those of the network, whose ranges are the first ones.")
    if any(cell._passes for _, cell in net.cells_and_names()):
        text = "The products of the network are rounded already, or have adapters"
        raise GraphValueError(f"{text}; merge these first, by graphls.adapters.merge(net).")
    patterns = (match,) if isinstance(match, str) else tuple(match)
    options = FakeQuantize(patterns, ranges=ranges, per_channel=per_channel, momentum=momentum)
    collector = _SiteCollector(options)
    _add_pass(net, collector)
    try:
        trace(net, tuple(inputs))
    finally:
        _remove_pass(net, collector)
    if not collector.sites:
        raise GraphValueError(f"The network has no product with a weight that matches {match!r}, outside of branches.")
    quantization = Quantized(options, collector.sites)
    parameters = _range_parameters(net, collector.ranges, ranges == "learned")
    for check in _CHECKS:
        check(net, quantization, parameters, inputs)
    for name, parameter in parameters.items():
        net.insert_param_to_cell(name, parameter, check_name_contain_dot=False)
    _calibrate(net, quantization, inputs)
    return list(dict.fromkeys(weight for weight, _ in collector.sites))


def before_rounding(check: Check) -> Check:
    """Register a function that `fake_quantize` calls before it changes a network, for packages above this one."""
    _CHECKS.append(check)
    return check


def quantization_of(cell: Cell) -> Quantized | None:
    """The quantized products of a cell; None without any."""
    return next((each for each in cell._passes if isinstance(each, Quantized)), None)


def _range_parameters(net: Cell, ranges: Sequence[Value], are_learned: bool) -> dict[str, Parameter]:
    """Parameters for the ranges of a network by their paths, with the prefix of its other parameters."""
    path, first = next(net.parameters_and_names())
    prefix = first.name.removesuffix(path) if first.name.endswith(path) else ""
    zeros = {state.name: np.zeros(state.type.shape, state.type.dtype.numpy) for state in ranges}
    return {name: Parameter(zero, prefix + name, requires_grad=are_learned) for name, zero in zeros.items()}


def _calibrate(net: Cell, quantization: Quantized, inputs: Sequence[object]) -> None:
    """Run the network once in evaluation, so that its ranges are those of these inputs."""
    calibrating = replace(quantization, calibrates=True, options=replace(quantization.options, momentum=1.0))
    modes = [(cell, cell.training) for _, cell in net.cells_and_names()]
    net.set_train(False)
    _add_pass(net, calibrating)
    try:
        net(*inputs)
    finally:
        _remove_pass(net, calibrating)
        for cell, mode in modes:
            cell.__dict__["training"] = mode
        Configuration.note_change()
    _add_pass(net, quantization)


def _add_pass(net: Cell, each: Any) -> None:
    net.__dict__["_passes"] += (each,)
    net._changed()


def _remove_pass(net: Cell, each: object) -> None:
    net.__dict__["_passes"] = tuple(other for other in net._passes if other is not each)
    net._changed()
