"""Derives one ONNX model for all sizes from models traced at several sizes.

The graphs of graphls have static sizes. Traced at three sizes, a step gives models of the same operators, whose
constants differ where they depend on the sizes: shapes, counts, masks. Each of these is replaced by operators that
compute it; if no formula gives it, or the operators differ, the sizes cannot be dynamic.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import replace

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from graphls.base.errors import GraphValueError
from graphls.ir.graph import Node
from graphls.primitives.primitive import Array
from graphls.runtime.lowering.lowering import Lowered
from graphls.runtime.lowering.protos import copied, names_read, replace_items
from graphls.runtime.lowering.size_arrays import SizeArrays
from graphls.runtime.lowering.size_terms import Sizes, integer_formula

Names = list[dict[str, str]]
"""For each model, the names of its tensors in the first model."""


def with_dynamic_sizes(
    models: Sequence[ModelProto], sizes: Sizes, origins: MutableMapping[str, Node] | None = None
) -> ModelProto:
    """The model that equals each of `models` at its sizes; three models suffice to tell formulas from coincidences.

    Inputs have the names of the sizes on their axes. `origins` has the nodes that the operators of the first model
    compute, by name; entries for added operators are inserted. Raises GraphValueError, with the user's line if
    `origins` has it, where a model depends on a size in another way than by shapes, counts and masks, or has other
    operators at another size.
    """
    if len(models) == 1:
        return models[0]
    merged = copied(models[0])
    comparison = _Comparison(models, sizes, {} if origins is None else origins)
    comparison.graph([model.graph for model in models], merged.graph)
    return merged


def generalized(models: Sequence[Lowered], sizes: Sizes) -> Lowered:
    """The lowered model that equals each of `models` at its sizes; see `with_dynamic_sizes`."""
    first = models[0]
    return replace(first, model=with_dynamic_sizes([each.model for each in models], sizes, first.origins))


class _Comparison:
    """A node-by-node comparison of models."""

    def __init__(self, models: Sequence[ModelProto], sizes: Sizes, origins: MutableMapping[str, Node]) -> None:
        self.sizes = sizes
        self.origins = origins
        self.origin: Node | None = None
        self.names: Names = [{} for _ in models]
        self.arrays: list[dict[str, TensorProto]] = [{} for _ in models]
        self.size_arrays = SizeArrays(sizes)
        self.replaced: dict[tuple[str, ...], str] = {}
        self.placed: list[str] = []

    def graph(self, graphs: Sequence[GraphProto], merged: GraphProto) -> None:
        """Compare the graphs of models, and generalize the first one."""
        for inputs in zip(*(graph.input for graph in graphs), strict=True):
            self._same([info.name for info in inputs])
        self._name_sizes(list(zip(*(graph.input for graph in graphs), strict=True)), merged.input, True)
        self._body(graphs, merged)
        self._name_sizes(list(zip(*(graph.output for graph in graphs), strict=True)), merged.output, False)
        replace_items(merged.node, [*self.size_arrays.nodes, *merged.node])
        merged.initializer.extend(self.size_arrays.constants)
        read = {*names_read(merged.node), *(info.name for info in merged.output)}
        replace_items(merged.initializer, [tensor for tensor in merged.initializer if tensor.name in read])

    def _body(self, graphs: Sequence[GraphProto], merged: GraphProto) -> None:
        for arrays, graph in zip(self.arrays, graphs, strict=True):
            arrays.update((tensor.name, tensor) for tensor in graph.initializer)
        counts = " and ".join(str(len(graph.node)) for graph in graphs)
        reason = f"the model has {counts} operators for different sizes"
        is_other = len({len(graph.node) for graph in graphs}) > 1
        if is_other and not self.origins:  # else the first operator that differs has a line
            raise self._fault(reason)
        for number, nodes in enumerate(zip(*(graph.node for graph in graphs), strict=False)):
            self.origin = self.origins.get(nodes[0].name)
            self._node(nodes, merged.node[number])
            for added in self.size_arrays.nodes[len(self.placed) :]:
                self.placed.append(added.name)
                if self.origin is not None:
                    self.origins[added.name] = self.origin
        if is_other:
            raise self._fault(reason)
        for number, outputs in enumerate(zip(*(graph.output for graph in graphs), strict=True)):
            merged.output[number].name = self._tensor([info.name for info in outputs], "an output")

    def _node(self, nodes: Sequence[NodeProto], merged: NodeProto) -> None:
        kinds = {(n.domain, n.op_type, len(n.input), len(n.output), len(n.attribute)) for n in nodes}
        if len(kinds) > 1:
            raise self._fault(f"at {nodes[0].name!r} the operators differ")
        for number, names in enumerate(zip(*(node.input for node in nodes), strict=True)):
            is_shape = nodes[0].op_type == "Reshape" and number == 1
            merged.input[number] = self._tensor(names, f"{nodes[0].op_type} {nodes[0].name!r}", is_shape)
        for number, attributes in enumerate(zip(*(node.attribute for node in nodes), strict=True)):
            self._attribute(nodes[0], attributes, merged.attribute[number])
        for names in zip(*(node.output for node in nodes), strict=True):
            self._same(names)

    def _attribute(self, node: NodeProto, attributes: Sequence[AttributeProto], merged: AttributeProto) -> None:
        if merged.HasField("g"):
            graphs = [attribute.g for attribute in attributes]
            for inputs in zip(*(graph.input for graph in graphs), strict=True):
                self._same([info.name for info in inputs])
            self._body(graphs, merged.g)
            for info in (*merged.g.input, *merged.g.output, *merged.g.value_info):
                if info.type.HasField("tensor_type"):
                    info.type.tensor_type.ClearField("shape")
        elif len({attribute.SerializeToString(deterministic=True) for attribute in attributes}) > 1:
            raise self._fault(f"{node.op_type} {node.name!r} has another {merged.name} for another size")

    def _same(self, names: Sequence[str]) -> None:
        for known, name in zip(self.names, names, strict=True):
            known[name] = names[0]

    def _tensor(self, names: Sequence[str], where: str, is_shape: bool = False) -> str:
        """The name of an operator's input in the derived model; of a shape to take, one size may be -1."""
        first_names = {known.get(name) for known, name in zip(self.names, names, strict=True)}
        if len(first_names) == 1 and None not in first_names:
            return names[0]
        if not any(names):
            return ""
        constants = [arrays.get(name) for arrays, name in zip(self.arrays, names, strict=True)]
        if any(tensor is None for tensor in constants):
            raise self._fault(f"{where} takes other tensors for other sizes")
        key = (*names, str(is_shape))
        if key not in self.replaced:
            self.replaced[key] = self._constant([tensor for tensor in constants if tensor is not None], where, is_shape)
        return self.replaced[key]

    def _constant(self, tensors: Sequence[TensorProto], where: str, is_shape: bool) -> str:
        first = tensors[0]
        if all(t.data_type == first.data_type and t.dims == first.dims for t in tensors):
            contents = {_content(t) for t in tensors}
            if len(contents) == 1:
                return first.name
        arrays = [numpy_helper.to_array(tensor) for tensor in tensors]
        name = self.size_arrays.add(_with_inferred_size(arrays) if is_shape else arrays)
        if name is None:
            shapes = " and ".join(str(tuple(t.dims)) for t in tensors[:2])
            raise self._fault(f"{where} takes a constant of the shapes {shapes} that no formula of the sizes gives")
        return name

    def _name_sizes(
        self, infos: Sequence[Sequence[ValueInfoProto]], merged: Sequence[ValueInfoProto], is_input: bool
    ) -> None:
        """Name the dynamic sizes in the shapes of inputs or outputs."""
        for group, info in zip(infos, merged, strict=True):
            if not info.type.tensor_type.HasField("shape"):
                continue
            dims = zip(*(i.type.tensor_type.shape.dim for i in group), strict=True)
            for axis, (dim, sizes) in enumerate(zip(info.type.tensor_type.shape.dim, dims, strict=True)):
                values = [size.dim_value for size in sizes]
                if len(set(values)) == 1:
                    continue
                formula = integer_formula(values, self.sizes)
                dim.Clear()
                if formula is not None and formula.size is not None:
                    dim.dim_param = formula.size
                    if is_input:
                        self.size_arrays.sources.setdefault(formula.size, (info.name, axis))

    def _fault(self, reason: str) -> GraphValueError:
        where = f" of {self.origin.primitive.name}" if self.origin is not None else ""
        location = self.origin.loc if self.origin is not None else None
        return GraphValueError(f"The sizes {', '.join(self.sizes[0])} cannot stay open: {reason}{where}.", location)


def _with_inferred_size(shapes: Sequence[Array]) -> Sequence[Array]:
    """Shapes whose first differing size is -1: it follows from the others, and needs no formula."""
    stacked = np.stack(shapes) if len({shape.shape for shape in shapes}) == 1 else np.zeros((1, 0))
    differing = np.flatnonzero((stacked != stacked[0]).any(0))
    if not len(differing) or stacked.min() < 1:
        return shapes
    stacked[:, differing[0]] = -1
    return list(stacked)


def _content(tensor: TensorProto) -> bytes:
    if tensor.HasField("raw_data"):
        return bytes(tensor.raw_data)
    bare = copied(tensor)
    bare.ClearField("name")
    bare.ClearField("doc_string")
    return bytes(bare.SerializeToString(deterministic=True))
