"""One model for all sizes, made of models for some: what differs between them is computed from the sizes of inputs.

The graphs of graphls have fixed sizes. Traced at three sizes, a step gives models of the same operators, whose
constants differ where they tell of the sizes: shapes, counts, masks. Each of these is replaced by operators that
compute it; where no formula gives it, or where the operators differ, the sizes cannot stay open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from graphls.backends.onnx.size_arrays import SizeArrays
from graphls.backends.onnx.size_terms import Sizes, integer_formula
from graphls.ir.errors import GraphValueError

Names = list[dict[str, str]]
"""For each model, how the first one calls its tensors."""


def with_open_sizes(models: Sequence[ModelProto], sizes: Sizes) -> ModelProto:
    """The model that is each of `models` at its sizes; the first three suffice to tell formulas from coincidences.

    Inputs have the names of the sizes where these stand. Raises GraphValueError where a model depends on a size in
    another way than by shapes, counts and masks, or has other operators at another size.
    """
    made = ModelProto()
    made.CopyFrom(models[0])
    _Opening(models, sizes).graph([model.graph for model in models], made.graph)
    return made


class _Opening:
    """The comparison of models node by node."""

    def __init__(self, models: Sequence[ModelProto], sizes: Sizes) -> None:
        self.sizes = sizes
        self.names: Names = [{} for _ in models]
        self.arrays: list[dict[str, TensorProto]] = [{} for _ in models]
        self.made = SizeArrays(sizes)
        self.replaced: dict[tuple[str, ...], str] = {}

    def graph(self, graphs: Sequence[GraphProto], made: GraphProto) -> None:
        """Compare the graphs of models, and complete the first one."""
        for inputs in zip(*(graph.input for graph in graphs), strict=True):
            self._same([info.name for info in inputs])
        self._open(list(zip(*(graph.input for graph in graphs), strict=True)), made.input, True)
        self._body(graphs, made)
        self._open(list(zip(*(graph.output for graph in graphs), strict=True)), made.output, False)
        nodes = [*self.made.nodes, *made.node]
        del made.node[:]
        made.node.extend(nodes)
        made.initializer.extend(self.made.constants)
        _drop_unused(made)

    def _body(self, graphs: Sequence[GraphProto], made: GraphProto) -> None:
        for arrays, graph in zip(self.arrays, graphs, strict=True):
            arrays.update((tensor.name, tensor) for tensor in graph.initializer)
        if len({len(graph.node) for graph in graphs}) > 1:
            counts = " and ".join(str(len(graph.node)) for graph in graphs)
            raise self._fault(f"the model has {counts} operators for different sizes")
        for number, nodes in enumerate(zip(*(graph.node for graph in graphs), strict=True)):
            self._node(nodes, made.node[number])
        for number, outputs in enumerate(zip(*(graph.output for graph in graphs), strict=True)):
            made.output[number].name = self._tensor([info.name for info in outputs], "an output")

    def _node(self, nodes: Sequence[NodeProto], made: NodeProto) -> None:
        kinds = {(n.domain, n.op_type, len(n.input), len(n.output), len(n.attribute)) for n in nodes}
        if len(kinds) > 1:
            raise self._fault(f"at {nodes[0].name!r} the operators differ")
        for number, names in enumerate(zip(*(node.input for node in nodes), strict=True)):
            made.input[number] = self._tensor(names, f"{nodes[0].op_type} {nodes[0].name!r}")
        for number, attributes in enumerate(zip(*(node.attribute for node in nodes), strict=True)):
            self._attribute(nodes[0], attributes, made.attribute[number])
        for names in zip(*(node.output for node in nodes), strict=True):
            self._same(names)

    def _attribute(self, node: NodeProto, attributes: Sequence[AttributeProto], made: AttributeProto) -> None:
        if made.HasField("g"):
            graphs = [attribute.g for attribute in attributes]
            for inputs in zip(*(graph.input for graph in graphs), strict=True):
                self._same([info.name for info in inputs])
            self._body(graphs, made.g)
            for info in (*made.g.input, *made.g.output, *made.g.value_info):
                if info.type.HasField("tensor_type"):
                    info.type.tensor_type.ClearField("shape")
        elif len({attribute.SerializeToString(deterministic=True) for attribute in attributes}) > 1:
            raise self._fault(f"{node.op_type} {node.name!r} has another {made.name} for another size")

    def _same(self, names: Sequence[str]) -> None:
        for known, name in zip(self.names, names, strict=True):
            known[name] = names[0]

    def _tensor(self, names: Sequence[str], where: str) -> str:
        """What an input of an operator is called in the model that is made."""
        found = {known.get(name) for known, name in zip(self.names, names, strict=True)}
        if len(found) == 1 and None not in found:
            return names[0]
        if not any(names):
            return ""
        held = [arrays.get(name) for arrays, name in zip(self.arrays, names, strict=True)]
        if any(tensor is None for tensor in held):
            raise self._fault(f"{where} takes other tensors for other sizes")
        key = tuple(names)
        if key not in self.replaced:
            self.replaced[key] = self._constant([tensor for tensor in held if tensor is not None], where)
        return self.replaced[key]

    def _constant(self, tensors: Sequence[TensorProto], where: str) -> str:
        first = tensors[0]
        if all(t.data_type == first.data_type and t.dims == first.dims for t in tensors):
            contents = {_content(t) for t in tensors}
            if len(contents) == 1:
                return first.name
        name = self.made.add([numpy_helper.to_array(tensor) for tensor in tensors])
        if name is None:
            shapes = " and ".join(str(tuple(t.dims)) for t in tensors[:2])
            raise self._fault(f"{where} takes a constant of the shapes {shapes} that no formula of the sizes gives")
        return name

    def _open(self, infos: Sequence[Sequence[ValueInfoProto]], made: Sequence[ValueInfoProto], is_input: bool) -> None:
        """Name the open sizes in the shapes of inputs or outputs."""
        for group, info in zip(infos, made, strict=True):
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
                        self.made.sources.setdefault(formula.size, (info.name, axis))

    def _fault(self, reason: str) -> GraphValueError:
        return GraphValueError(f"The sizes {', '.join(self.sizes[0])} cannot stay open: {reason}.")


def _content(tensor: TensorProto) -> bytes:
    if tensor.HasField("raw_data"):
        return bytes(tensor.raw_data)
    bare = TensorProto()
    bare.CopyFrom(tensor)
    bare.ClearField("name")
    bare.ClearField("doc_string")
    return bytes(bare.SerializeToString(deterministic=True))


def _drop_unused(graph: GraphProto) -> None:
    """Leave out constants that only took part in the comparison."""
    used = set(_read(graph))
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _read(graph: GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _read(attribute.g)
    yield from (info.name for info in graph.output)
