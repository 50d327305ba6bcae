"""Operators at the start of a model that compute, from the shapes of its inputs, what depends on sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from graphls.backends.onnx.formulas import Formula
from graphls.backends.onnx.grids import Counting, Triangle
from graphls.ir.graph import Node

Array = np.ndarray[Any, Any]
Axes = Mapping[tuple[str, int], str]
"""The symbols, by the names of inputs and the numbers of their axes."""


class SizeOperators:
    """Operators and constants, each once: `nodes` are for the start of the graph `main`, whose names are `taken`.

    `origins` learns of which node each of them is; `origin` is the one that needs what comes next.
    """

    def __init__(self, main: GraphProto, axes: Axes, taken: set[str], origins: dict[str, Node]) -> None:
        self.main, self.axes, self.taken, self.origins = main, axes, taken, origins
        self.made: dict[object, str] = {}
        self.nodes: list[NodeProto] = []
        self.origin: Node | None = None

    def concatenated(self, entries: Sequence[Formula]) -> str:
        """A list of int64 of the numbers of formulas."""
        parts: list[str] = []
        plain: list[int] = []
        for entry in entries:
            if set(entry.factors) <= {()}:
                plain.append(entry.at({}))
                continue
            parts += [self.stored(np.array(plain, np.int64))] if plain else []
            plain = []
            parts.append(self.sum(entry))
        parts += [self.stored(np.array(plain, np.int64))] if plain else []
        return parts[0] if len(parts) == 1 else self.operator("Concat", parts, axis=0)

    def sum(self, entry: Formula) -> str:
        """The number of a formula as a list of one."""
        total = ""
        for symbols, factor in sorted(entry.factors.items(), key=lambda term: -len(term[0])):
            term = self.product(symbols)
            if not symbols:
                term = self.stored(np.array([factor], np.int64))
            elif factor != 1:
                term = self.operator("Mul", [term, self.stored(np.array([factor], np.int64))])
            total = self.operator("Add", [total, term]) if total else term
        return total

    def product(self, symbols: Sequence[str]) -> str:
        total = ""
        for symbol in symbols:
            name, axis = next(place for place, its in self.axes.items() if its == symbol)
            size = self.operator("Shape", [name], start=axis, end=axis + 1)
            total = self.operator("Mul", [total, size]) if total else size
        return total

    def operator(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """An operator at the start of the model, each once."""
        key = (kind, *inputs, *attributes.items())
        if key not in self.made:
            self.made[key] = name = self.fresh("size")
            node = helper.make_node(kind, inputs, [name], name=f"sizes/{kind}/{name}", **attributes)
            if self.origin is not None:
                self.origins[node.name] = self.origin
            self.nodes.append(node)
        return self.made[key]

    def stored(self, array: Array) -> str:
        """A constant, each once."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.made:
            self.made[key] = name = self.fresh("constant_of_sizes")
            self.main.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return self.made[key]

    def fresh(self, wish: str) -> str:
        """A name that no tensor of the model has."""
        name = next(name for number in count() if (name := f"{wish}_{number}") not in self.taken)
        self.taken.add(name)
        return name


    def expanded(self, array: Array, shape: Sequence[Formula]) -> str:
        """An array repeated to a shape."""
        return self.operator("Expand", [self.stored(array), self.concatenated(shape)])

    def counted(self, found: Counting, shape: Sequence[Formula]) -> str:
        """An array that counts along an axis of its shape."""
        steps = self.line(shape, found.axis)
        kind = helper.np_dtype_to_tensor_dtype(found.first.dtype)
        steps = self.operator("Cast", [steps], to=kind)
        product = self.operator("Mul", [steps, self.stored(found.step)])
        return self.operator("Add", [product, self.stored(found.first)])

    def triangle(self, found: Triangle, shape: Sequence[Formula]) -> str:
        """An array with one number on and below a diagonal, and another one above."""
        row, column = (self.line(shape, axis) for axis in found.axes)
        row = self.operator("Add", [row, self.stored(np.array(found.diagonal))])
        is_below = self.operator("GreaterOrEqual", [row, column])
        if found.below.dtype == bool:  # runtimes have no Where of bool
            chosen = is_below if found.below else self.operator("Not", [is_below])
        else:
            chosen = self.operator("Where", [is_below, self.stored(found.below), self.stored(found.above)])
        return chosen if len(shape) == 2 else self.operator("Expand", [chosen, self.concatenated(shape)])

    def line(self, shape: Sequence[Formula], axis: int) -> str:
        """The numbers from 0 on along one axis, of size 1 along the others, as int64."""
        size = self.operator("Squeeze", [self.sum(shape[axis])])
        numbers = self.operator("Range", [self.stored(np.array(0)), size, self.stored(np.array(1))])
        places = [1] * len(shape)
        places[axis] = -1
        return self.operator("Reshape", [numbers, self.stored(np.array(places))])
