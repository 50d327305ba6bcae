"""Models for any size of some axes, from models of the same network for some sizes each.

A graph has static shapes, and so has its model. Where the models of one network for several sizes have the same
operators, what differs between them are numbers, such as those of shapes: these are functions of the sizes, and the
model for any size computes them. Every rule that lowers a primitive serves this without knowing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

from graphls.backends.onnx.formulas import Formula, Sizes, formula
from graphls.backends.onnx.grids import Counting, grid
from graphls.backends.onnx.lowering import Lowered
from graphls.backends.onnx.shapes import operators, subgraphs
from graphls.backends.onnx.sizes import Axes, SizeOperators
from graphls.ir.errors import GraphValueError

Array = np.ndarray[Any, Any]


def with_symbols(models: Sequence[Lowered], at: Sequence[Sizes], axes: Axes) -> Lowered:
    """The first of the models with symbols for sizes; `models` are those of one network for the sizes `at`.

    Raises GraphValueError, with the user's line, where the network is another one for other sizes.
    """
    _Symbolic(models, at, axes).run()
    return models[0]


class _Symbolic:
    def __init__(self, models: Sequence[Lowered], at: Sequence[Sizes], axes: Axes) -> None:
        self.models, self.at, self.axes = models, at, axes
        self.main = models[0].model.graph
        self.constants = [_constants(model) for model in models]
        self.pairs: list[dict[str, str]] = [{} for _ in models]
        """The names of the tensors of the first model by those of each one."""
        taken = {name for node in operators(self.main.node) for name in node.output}
        taken |= {info.name for info in self.main.input} | self.constants[0].keys()
        self.sizes = SizeOperators(self.main, axes, taken, models[0].origins)

    def run(self) -> None:
        for inputs in zip(*(model.model.graph.input for model in self.models), strict=True):
            self.pair([info.name for info in inputs])
        self.graphs([model.model.graph for model in self.models])
        for info in self.main.input:
            for number, dim in enumerate(info.type.tensor_type.shape.dim):
                if (info.name, number) in self.axes:
                    dim.dim_param = self.axes[info.name, number]
        for infos in zip(*(model.model.graph.output for model in self.models), strict=True):
            self.describe([info.type.tensor_type.shape.dim for info in infos])
        rest = list(self.main.node)
        del self.main.node[:]
        self.main.node.extend([*self.sizes.nodes, *rest])

    def pair(self, names: Sequence[str]) -> None:
        for pairs, name in zip(self.pairs, names, strict=True):
            pairs[name] = names[0]

    def describe(self, shapes: Sequence[Any]) -> None:
        """Say of the sizes of an output how they follow from the symbols, and nothing of others."""
        for dims in zip(*shapes, strict=True):
            values = [dim.dim_value for dim in dims]
            if any(value != values[0] for value in values):
                found = formula(values, self.at)
                dims[0].Clear()
                if found is not None:
                    dims[0].dim_param = str(found)

    def graphs(self, graphs: Sequence[GraphProto]) -> None:
        """Compare graphs that are one but for sizes."""
        for number, node in enumerate(graphs[0].node):
            self.sizes.origin = self.models[0].origins.get(node.name)
            others = [graph.node[number] if number < len(graph.node) else None for graph in graphs]
            if any(other is None or _kind(other) != _kind(node) for other in others):
                self.fail("does something else")
            self.node([other for other in others if other is not None])
        if any(len(graph.node) != len(graphs[0].node) for graph in graphs):
            self.fail("does something else")
        for outputs in zip(*(graph.output for graph in graphs), strict=True):
            self.same([info.name for info in outputs])
            if graphs[0] is not self.main:
                self.describe([info.type.tensor_type.shape.dim for info in outputs])

    def node(self, nodes: Sequence[NodeProto]) -> None:
        bodies = [dict(subgraphs(node)) for node in nodes]
        for name in bodies[0]:
            inner = [body[name] for body in bodies]
            for inputs in zip(*(graph.input for graph in inner), strict=True):
                self.pair([info.name for info in inputs])
                self.describe([info.type.tensor_type.shape.dim for info in inputs])
            self.graphs(inner)
        if any(_attributes(node) != _attributes(nodes[0]) for node in nodes):
            self.fail(f"has the size as an attribute of {nodes[0].op_type}")
        for position, names in enumerate(zip(*(node.input for node in nodes), strict=True)):
            if all(name in constants for name, constants in zip(names, self.constants, strict=True)):
                arrays = [constants[name] for name, constants in zip(names, self.constants, strict=True)]
                nodes[0].input[position] = self.constant(names[0], arrays, nodes[0].op_type, position)
            else:
                self.same(names)
        for outputs in zip(*(node.output for node in nodes), strict=True):
            self.pair(outputs)

    def same(self, names: Sequence[str]) -> None:
        """Require that tensors are one and the same."""
        if any(name and pairs.get(name) != names[0] for pairs, name in zip(self.pairs, names, strict=True)):
            self.fail("reads something else")

    def constant(self, name: str, arrays: Sequence[Array], kind: str, position: int) -> str:
        """The tensor for constants that may differ."""
        first = arrays[0]
        if all(a.shape == first.shape and a.tobytes() == first.tobytes() for a in arrays):
            return name
        is_list = first.ndim == 1 and first.dtype == np.int64 and all(a.shape == first.shape for a in arrays)
        if is_list:
            columns = [[int(number) for number in column] for column in zip(*arrays, strict=True)]
            return self.list(columns, kind == "Reshape" and position == 1)
        if all(a.ndim == first.ndim for a in arrays):
            return self.array(arrays)
        return self.fail("has numbers that depend on the size")

    def list(self, columns: Sequence[Sequence[int]], may_leave_out: bool) -> str:
        """A list of whole numbers that follow from the symbols; of a shape, one may be left out."""
        entries: list[Formula | None] = [formula(column, self.at) for column in columns]
        differing = [i for i, column in enumerate(columns) if any(n != column[0] for n in column)]
        left_out = next((i for i in differing if entries[i] is None), differing[0])
        if may_leave_out and 0 not in (n for column in columns for n in column) and -1 not in (c[0] for c in columns):
            entries[left_out] = Formula({(): -1})
        known = [entry for entry in entries if entry is not None]
        if len(known) < len(entries):
            return self.fail("has a size that no sum of products of the given ones is")
        return self.sizes.concatenated(known)

    def array(self, arrays: Sequence[Array]) -> str:
        """An array of any size: the same numbers all along the axes whose sizes differ, or numbers by their indices."""
        first = arrays[0]
        axes = [i for i in range(first.ndim) if any(a.shape[i] != first.shape[i] for a in arrays)]
        one: Any = tuple(slice(1) if i in axes else slice(None) for i in range(first.ndim))
        single = np.ascontiguousarray(first[one])
        is_repeated = bool(axes) and all(np.array_equal(np.broadcast_to(single, a.shape), a) for a in arrays)
        found = None if is_repeated or not axes else grid(arrays, axes)
        shape = [formula([a.shape[i] for a in arrays], self.at) for i in range(first.ndim)]
        known = [entry for entry in shape if entry is not None]
        if len(known) < len(shape):
            return self.fail("has a size that no sum of products of the given ones is")
        if is_repeated:
            return self.sizes.expanded(single, known)
        if isinstance(found, Counting):
            return self.sizes.counted(found, known)
        return self.sizes.triangle(found, known) if found else self.fail("has numbers that depend on the size")

    def fail(self, reason: str) -> str:
        """Raise GraphValueError at the node that is being compared."""
        node = self.sizes.origin
        where = f"{node.primitive.name} of {node.outputs[0].name!r}" if node is not None else "The network"
        symbols = ", ".join(self.at[0])
        raise GraphValueError(
            f"The network cannot be exported for any size of {symbols}: {where} {reason} when the sizes change; make "
            "it of the shapes of tensors, or leave the symbol out of dynamic_axes and give the size.",
            node.loc if node is not None else None,
        )


def _kind(node: NodeProto) -> tuple[object, ...]:
    return node.op_type, node.domain, len(node.input), len(node.output), [name for name, _ in subgraphs(node)]


def _attributes(node: NodeProto) -> list[bytes]:
    """The attributes that are no graphs."""
    return [bytes(a.SerializeToString()) for a in node.attribute if not a.HasField("g")]


def _constants(model: Lowered) -> dict[str, Array]:
    """The constants of a model, by name."""
    return {tensor.name: _array(model, tensor) for tensor in model.model.graph.initializer}


def _array(model: Lowered, tensor: TensorProto) -> Array:
    return model.outside[tensor.name] if tensor.name in model.outside else numpy_helper.to_array(tensor)
