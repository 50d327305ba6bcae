"""Saves a model that was trained with quantized products as one that computes them with integers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from graphls.base.errors import GraphValueError
from graphls.base.files.files import as_path, write_parts
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.nn.cell import Cell
from graphls.nn.quantization import Quantized, before_rounding, quantization_of
from graphls.onnx.analysis import KERNELS, MATRICES, SAME
from graphls.onnx.cell import OnnxCell, cell_of
from graphls.onnx.importing.files import Original
from graphls.onnx.opset_conversion import converted, version_of
from graphls.onnx.program import program_of
from graphls.onnx.saving import network, saved_model
from graphls.onnx.selection import Selection
from graphls.runtime.lowering.protos import copied, operators, replace_items, text_of

MOVES = ("Flatten", "Identity", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that only move elements: runtimes expect the quantization before them, at the producer of the elements."""
FIRST_VERSION, FIRST_BY_CHANNEL = 10, 13
"""The versions of ONNX's operators from which on QuantizeLinear exists, and takes a scale for each channel."""
CLOSE = 1e-4
"""How far outputs of a converted model may be from the original's, as a part of the largest."""


def save_quantized(net: Cell, path: object) -> None:
    """Write the ONNX model of a network of `load` and `fake_quantize` with integers for its weights.

    Each rounded product reads its first operand through QuantizeLinear (uint8) and DequantizeLinear, and its weight is
    int8 behind a DequantizeLinear, as its bias is in int32: runtimes make products of integers of that. All else is as
    `save` writes it. A model of older operators than those need is converted to version 13 (10 without
    `per_channel`). A file is written whole or not at all. Raises GraphTypeError for a cell that is or holds no such
    network, GraphValueError for one without rounded products, GraphFileError where a file cannot be written; all else
    that would prevent the file is an error of `fake_quantize`.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn, train
        >>> from graphls.nn.quantization import fake_quantize
        >>> train.export(nn.Dense(8, 2), np.ones((1, 8), np.float32), file_name="net.onnx", file_format="ONNX")
        >>> net = graphls.onnx.load("net.onnx")
        >>> x = graphls.tensor(np.ones((1, 8), np.float32))
        >>> names = fake_quantize(net, x)
        >>> _ = net.set_train()(x)  # observes ranges, as training does
        >>> graphls.onnx.save_quantized(net, "small.onnx")
    """
    cell, target = network(net), as_path(path)
    quantized = [each for _, part in net.cells_and_names() if (each := quantization_of(part)) is not None]
    if quantization_of(cell) is None or len(quantized) != 1:
        raise GraphValueError("The network computes no rounded products; graphls.quantization.fake_quantize adds them.")
    model = converted(saved_model(cell, target), _version(quantized[0]))
    _Writer(cell, model, quantized[0], {}).run()
    write_parts(target, [memoryview(model.SerializeToString())])


def _version(quantized: Quantized) -> int:
    """The version of operators that quantized products need."""
    return FIRST_BY_CHANNEL if quantized.options.per_channel else FIRST_VERSION


@before_rounding
def _require_savable(
    net: Cell, quantized: Quantized, ranges: Mapping[str, Parameter], inputs: Sequence[object]
) -> None:
    """Raise what `save_quantized` would raise after a training with these products; `ranges` are their parameters."""
    if not any(isinstance(cell, OnnxCell) for _, cell in net.cells_and_names()):
        return
    if not isinstance(net, OnnxCell):
        text = "A network of graphls.onnx.load is rounded by itself, as save_quantized writes it"
        raise GraphValueError(f"{text}: call fake_quantize on it, rather than on a cell that holds it.")
    cell, original = net, net.original.model()
    model = converted(original, _version(quantized))
    if model is not original:
        _require_same(cell, original, model, inputs)
    _Writer(cell, copied(model), quantized, ranges).run()


def _require_same(cell: OnnxCell, original: ModelProto, model: ModelProto, inputs: Sequence[object]) -> None:
    """Raise GraphValueError where a converted model computes something else than the original one."""
    fixed, outputs = cell._fixed, cell.program.main.outputs
    for before, after in zip(*(_results(each, fixed, outputs, inputs) for each in (original, model)), strict=True):
        if before.shape != after.shape or not np.allclose(before, after, CLOSE, CLOSE * _largest(before), True):
            text = f"onnx.version_converter changes what the model computes from version {version_of(original)}"
            raise GraphValueError(f"{text} to {version_of(model)}; export it again in that version or later.")


def _results(
    model: ModelProto, fixed: Mapping[str, Tensor], outputs: Sequence[str], inputs: Sequence[object]
) -> list[Array]:
    """The outputs of a model in evaluation."""
    source = Original(model.SerializeToString())
    net = cell_of(source, program_of(model, None, outputs), Selection(), fixed)
    return [y.asnumpy() for y in leaves(net.set_train(False)(*inputs)) if isinstance(y, Tensor)]


def _largest(array: Array) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max(initial=0))


@dataclass
class _Site:
    """A product in the model: its operator, its constant, the constant's reader, and the axis of output channels."""

    node: NodeProto
    weight: str
    reader: NodeProto
    channel: int


class _Writer:
    """Changes a model for the products of a network; `ranges` are parameters that the network is yet to get."""

    def __init__(
        self, cell: OnnxCell, model: ModelProto, quantized: Quantized, ranges: Mapping[str, Parameter]
    ) -> None:
        self.cell, self.graph, self.quantized = cell, model.graph, quantized
        self.parameters = {**dict(cell.parameters_and_names()), **ranges}
        self.names = {id(p): stored.name for stored, p in cell.stored.items()}
        self.used_names = {name for node in model.graph.node for name in node.output}
        self.used_names |= {each.name for each in (*model.graph.initializer, *model.graph.input)}
        self.added: list[NodeProto] = []
        self.activations: dict[tuple[str, str], str] = {}
        self.weights: dict[str, str] = {}
        self.producers = {name: node for node in model.graph.node for name in node.output}
        self.readers = Counter(name for node in operators(model.graph.node) for name in node.input)
        self.readers.update(each.name for each in model.graph.output)
        self.reader = {name: node for node in model.graph.node for name in node.input}
        self.scales: dict[str, Array] = {}
        self.replaced: set[str] = set()

    def run(self) -> None:
        """Change the model."""
        sites = self.sites()
        for weight, ends in self.quantized.sites:
            name = self.names[id(self.parameters[weight])]
            if not sites[name]:
                text = f"No MatMul, Gemm or Conv of the graph of the model itself reads {weight!r}"
                raise GraphValueError(f"{text}, which is rounded; leave it out of `match`.")
            site = sites[name].pop(0)
            for reader in self.readers_of_input(site.node):
                reader.input[0] = self.activation(reader.input[0], ends)
            self.weight(weight, site)
            self.bias(site, ends)
        self.clean()

    def sites(self) -> dict[str, list[_Site]]:
        """The products of the model's graph by their constants, in order."""
        constants = {text_of(t.name) for t in self.graph.initializer}
        constants |= {node.output[0] for node in self.graph.node if node.op_type == "Constant"}
        sources: dict[str, tuple[str, NodeProto | None, bool]] = {name: (name, None, False) for name in constants}
        sites: dict[str, list[_Site]] = defaultdict(list)
        for node in self.graph.node:
            kind = ("" if node.domain == "ai.onnx" else node.domain), node.op_type
            if node.op_type in (*SAME, "Transpose") and node.input[0] in sources:
                name, reader, is_swapped = sources[node.input[0]]
                sources[node.output[0]] = name, reader or node, is_swapped != (node.op_type == "Transpose")
            elif kind in MATRICES | KERNELS and len(node.input) > 1 and node.input[1] in sources:
                name, reader, is_swapped = sources[node.input[1]]
                is_other = any(a.name == "transB" and a.i for a in node.attribute) != is_swapped
                sites[name].append(_Site(node, name, reader or node, 0 if kind in KERNELS or is_other else 1))
        return sites

    def readers_of_input(self, node: NodeProto) -> list[NodeProto]:
        """The operators whose first operand is quantized for a product: itself, and those before that only move it."""
        readers, producer = [node], self.producers.get(node.input[0])
        while producer is not None and producer.op_type in MOVES:
            if self.readers[producer.output[0]] != 1 or len(producer.output) != 1:
                break
            readers.append(producer)
            producer = self.producers.get(producer.input[0])
        return readers

    def activation(self, name: str, ends: str) -> str:
        """The name of a tensor behind QuantizeLinear and DequantizeLinear."""
        if (name, ends) not in self.activations:
            low, high = self.parameters[ends].asnumpy().astype(np.float32)
            scale, zero = grid(np.minimum(low, 0), np.maximum(high, 0), 255)
            self.scales[ends] = scale
            operands = self.constants(name, scale, zero.astype(np.uint8))
            integers, floats = self.fresh(f"{name}_quantized"), self.fresh(f"{name}_dequantized")
            self.added.append(helper.make_node("QuantizeLinear", [name, *operands], [integers], integers))
            self.added.append(helper.make_node("DequantizeLinear", [integers, *operands], [floats], floats))
            self.activations[name, ends] = floats
        return self.activations[name, ends]

    def weight(self, path: str, site: _Site) -> None:
        """Insert DequantizeLinear between the weight of a product and its reader."""
        name = site.weight
        if name not in self.weights:
            self.weights[name] = self.quantized_weight(path, name, site.channel)
        if name in site.reader.input:  # which several products may share
            site.reader.input[list(site.reader.input).index(name)] = self.weights[name]

    def quantized_weight(self, path: str, name: str, channel: int) -> str:
        """The name of a weight behind DequantizeLinear."""
        array = self.parameters[path].asnumpy()
        if array.dtype != np.float32:
            text = f"save_quantized takes weights in float32, and {path!r} is in {array.dtype}"
            raise GraphValueError(f"{text}; export the model in float32, or leave it out of `match`.")
        reduced = tuple(i for i in range(array.ndim) if not self.quantized.options.per_channel or i != channel)
        most = np.abs(array).max(axis=reduced, keepdims=True)
        scale, zero = grid(-most, most, 254)
        integers = np.clip(np.rint(array / scale) + zero, 0, 254) - zero
        flat = scale.reshape(-1) if self.quantized.options.per_channel else scale.reshape(())
        self.scales[name] = flat
        return self.dequantized(name, integers.astype(np.int8), flat, channel)

    def dequantized(self, name: str, integers: Array, scale: Array, axis: int) -> str:
        """The name of a constant that is stored as integers behind DequantizeLinear."""
        operands = self.constants(name, scale, np.zeros(scale.shape, integers.dtype))
        stored, floats = self.fresh(f"{name}_quantized"), self.fresh(f"{name}_dequantized")
        self.graph.initializer.append(numpy_helper.from_array(integers, stored))
        node = helper.make_node("DequantizeLinear", [stored, *operands], [floats], floats)
        if scale.ndim:
            node.attribute.append(helper.make_attribute("axis", axis))
        self.added.append(node)
        self.replaced.add(name)
        return floats

    def bias(self, site: _Site, ends: str) -> None:
        """Store the bias of a product in int32, at the scale of the sums of products, if it has one by channel."""
        node = self.sum_of(site.node)
        first = 2 if node is site.node else 0
        constants = self.cell.program.main.constants
        candidates = ((i, constants[name]) for i, name in enumerate(node.input) if i >= first and name in constants)
        position, constant = next(candidates, (0, None))
        parameter = None if constant is None else self.cell.stored.get(constant)
        if constant is None or parameter is None or constant.rank != 1:
            return
        scale = (self.scales[ends] * self.scales[site.weight]).astype(np.float32)
        rounded = np.rint(parameter.asnumpy() / scale)
        if rounded.size == parameter.size and np.abs(rounded).max(initial=0) < 2**31:
            node.input[position] = self.dequantized(constant.name, rounded.astype(np.int32), scale, 0)

    def sum_of(self, product: NodeProto) -> NodeProto:
        """The operator that adds a bias to a product: itself, or the Add that alone reads a matrix product."""
        node = product
        while product.op_type == "MatMul" and self.readers[node.output[0]] == 1 and node.output[0] in self.reader:
            node = self.reader[node.output[0]]
            if node.op_type not in SAME:
                return node if node.op_type == "Add" else product
        return product

    def constants(self, name: str, scale: Array, zero: Array) -> list[str]:
        """Names of new initializers with a scale and a zero point."""
        names = [self.fresh(f"{name}_scale"), self.fresh(f"{name}_zero_point")]
        tensors = (scale.astype(np.float32), zero)
        initializers = (numpy_helper.from_array(np.asarray(t), n) for t, n in zip(tensors, names, strict=True))
        self.graph.initializer.extend(initializers)
        return names

    def fresh(self, wish: str) -> str:
        name, number = wish, 1
        while name in self.used_names:
            name, number = f"{wish}_{number}", number + 1
        self.used_names.add(name)
        return name

    def clean(self) -> None:
        """Insert the new operators in topological order, and remove constants without readers."""
        read = {name for node in operators(self.graph.node) for name in node.input}
        read |= {each.name for each in self.graph.output}
        unread = self.replaced - read
        nodes = [n for n in self.graph.node if not (n.op_type == "Constant" and n.output[0] in unread)]
        for field in (self.graph.initializer, self.graph.input):
            replace_items(field, [each for each in field if each.name not in unread])
        replace_items(self.graph.node, _in_order(nodes, self.added))


def grid(low: Array, high: Array, steps: int) -> tuple[Array, Array]:
    """The scale and the zero point, counted from 0, of a range, as in the primitive `fake_quantize`."""
    width = (high - low) / np.float32(steps)
    scale = np.where(width > 0, width, np.float32(1)).astype(np.float32)
    return scale, np.clip(np.rint(-low / scale), 0, steps)


def _in_order(nodes: list[NodeProto], added: list[NodeProto]) -> Iterator[NodeProto]:
    """The operators, with each new one before the first reader of its result."""
    producers = {node.output[0]: node for node in added}

    def inserted(name: str) -> Iterator[NodeProto]:
        node = producers.pop(name, None)
        if node is not None:
            yield from inserted(node.input[0])
            yield node

    for node in nodes:
        for name in node.input:
            yield from inserted(name)
        yield node
