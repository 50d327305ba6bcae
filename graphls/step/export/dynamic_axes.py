"""The dynamic axes of an exported network's inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.dynamic_sizes import ANY_RANK
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Tensor
from graphls.frontend.trace.inputs import is_input, static_inputs
from graphls.ir.build import Names
from graphls.ir.registry import nearest
from graphls.nn.cell import Cell, input_names
from graphls.step.export.dynamic_sizes import BATCH, SAMPLES, Point, symbol_sizes

DynamicAxes = Mapping[str, Mapping[int, str] | Sequence[int]]
"""The names of the sizes by input and axis, as `torch.onnx.export` takes them, or axes only."""

MOST = 3
"""Symbols that a model may have."""


@dataclass(frozen=True)
class Symbolic:
    """Inputs with symbols for some sizes: their names by place, and for each some sizes to try."""

    inputs: tuple[Any, ...]
    axes: dict[tuple[str, int], str]
    sizes: dict[str, tuple[int, ...]]
    wishes: tuple[str, ...]

    def points(self) -> list[Point]:
        """The sizes to trace with: three for one symbol, and one more for each other; one point where there is none."""
        count = SAMPLES - 1 + len(self.sizes) if self.sizes else 1
        return [{symbol: sizes[number] for symbol, sizes in self.sizes.items()} for number in range(count)]

    def at(self, sizes: Mapping[str, int]) -> tuple[Any, ...]:
        """Inputs of these sizes."""
        names = Names()
        return tuple(
            map_leaves(partial(self._leaf, wish, names, sizes), arg)
            for wish, arg in zip(self.wishes, self.inputs, strict=True)
        )

    def _leaf(self, wish: str, names: Names, sizes: Mapping[str, int], leaf: Any) -> Any:
        if not is_input(leaf):
            return leaf
        name = names.fresh(wish)
        dynamic = {axis: sizes[symbol] for (its, axis), symbol in self.axes.items() if its == name}
        shape = tuple(dynamic.get(axis, size) for axis, size in enumerate(leaf.type.shape))
        return Tensor(np.broadcast_to(np.zeros((), leaf.type.dtype.numpy), shape)) if dynamic else leaf


def symbolic(net: Callable[..., object], inputs: Sequence[object], dynamic_axes: DynamicAxes | None) -> Symbolic:
    """The dynamic sizes that the arguments of `export` declare.

    Raises GraphTypeError and GraphValueError for names of no input, axes that it does not have, and too many symbols.
    """
    wrapped = tuple(map(static_inputs, inputs))
    wishes = _argument_names(net, len(wrapped))
    fresh, shapes = Names(), dict[str, tuple[int, ...]]()
    for wish, arg in zip(wishes, wrapped, strict=True):
        shapes.update((fresh.fresh(wish), leaf.type.shape) for leaf in leaves(arg) if is_input(leaf))
    axes = {(name, axis): _plain(axis) for name, shape in shapes.items() for axis, n in enumerate(shape) if n < 0}
    if any(shape == (ANY_RANK,) for shape in shapes.values()):
        raise GraphValueError("A model has inputs of known numbers of axes: give a shape, with None for open sizes.")
    axes |= _named(dynamic_axes or {}, shapes)
    symbols = dict.fromkeys(axes.values())
    if len(symbols) > MOST:
        raise GraphValueError(f"export takes up to {MOST} sizes that vary, not {', '.join(symbols)}; fix some of them.")
    sizes = {}
    for number, symbol in enumerate(symbols):
        declared = {axis: shapes[name][axis] for (name, axis), its in axes.items() if its == symbol}
        sizes[symbol] = symbol_sizes(number, None if 0 in declared else max(declared.values()))
    return Symbolic(wrapped, axes, sizes, wishes)


def _argument_names(net: Callable[..., object], count: int) -> tuple[str, ...]:
    """The names of a network's inputs: its parameters, and numbered names where it does not tell them."""
    if isinstance(net, Cell):
        names = input_names(net, count)
    else:
        try:
            parameters = list(inspect.signature(net).parameters.values())
        except (TypeError, ValueError):  # of a function of another language
            parameters = []
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    return (*names, *(f"x{i}" for i in range(len(names), count)))


def _plain(axis: int) -> str:
    return BATCH if axis == 0 else f"axis_{axis}"


def _named(dynamic_axes: object, shapes: Mapping[str, tuple[int, ...]]) -> dict[tuple[str, int], str]:
    """The symbols of `dynamic_axes`; names of outputs, whose sizes follow, are passed over."""
    if not isinstance(dynamic_axes, Mapping):
        text = "dynamic_axes maps names of inputs to axes, as {'x': {0: 'batch'}}"
        raise GraphTypeError(f"{text}, and is not {dynamic_axes!r}.")
    symbols: dict[tuple[str, int], str] = {}
    for name, axes in dynamic_axes.items():
        if name not in shapes:
            if name == "output" or str(name).startswith("output_"):
                continue
            near = nearest(str(name), shapes)
            raise GraphValueError(f"dynamic_axes names {name!r}, and the inputs are {', '.join(shapes)}{near}.")
        named = axes if isinstance(axes, Mapping) else {axis: _plain(axis) for axis in _axes(name, axes)}
        rank = len(shapes[name])
        for axis, symbol in named.items():
            if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
                raise GraphValueError(f"dynamic_axes names the axis {axis!r} of {name!r}, which has {rank} axes.")
            if not (isinstance(symbol, str) and symbol.isidentifier()):
                raise GraphTypeError(f"A size in dynamic_axes has a name such as 'batch', not {symbol!r}.")
            symbols[name, axis % rank] = symbol
    return symbols


def _axes(name: object, axes: object) -> list[Any]:
    if isinstance(axes, (list, tuple)):
        return list(axes)
    raise GraphTypeError(f"dynamic_axes has {axes!r} for {name!r}; give a list of axes, or names of sizes by axis.")
