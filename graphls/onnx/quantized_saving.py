"""Writing a model that was trained with rounded products as one that computes them with integers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from graphls.base.errors import GraphValueError
from graphls.base.files.files import as_path, write_parts
from graphls.nn.cell import Cell
from graphls.nn.quantization.fake_quantize import Quantized, quantization_of
from graphls.onnx.cell import OnnxCell
from graphls.onnx.products import KERNELS, MATRICES, SAME
from graphls.onnx.saving import network, saved_model
from graphls.onnx.tensors import Array
from graphls.runtime.lowering.protos import operators, replace_items, text_of

MOVES = ("Flatten", "Identity", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that may as well move rounded numbers: runtimes want integers where the numbers are made."""
FIRST_VERSION = 13
"""The version of ONNX's operators in which QuantizeLinear takes a scale for each channel."""


def save_quantized(net: Cell, path: object) -> None:
    """Write the ONNX model of a network of `load` and `fake_quantize` with integers for its weights.

    Each rounded product reads its first operand through QuantizeLinear (uint8) and DequantizeLinear, and its weight is
    int8 behind a DequantizeLinear, as its bias is in int32: runtimes make products of integers of that. All else is as
    `save` writes it. A file is written whole or not at all. Raises GraphTypeError for a cell that is or holds no such
    network, GraphValueError for one without rounded products, of an opset before 13, of another dtype than float32, or
    with such products in functions, GraphFileError where a file cannot be written.

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
    found = [each for _, part in net.cells_and_names() if (each := quantization_of(part)) is not None]
    if quantization_of(cell) is None or len(found) != 1:
        raise GraphValueError("The network computes no rounded products; graphls.quantization.fake_quantize adds them.")
    model = saved_model(cell, target)
    _Writer(cell, model, found[0]).run()
    write_parts(target, [memoryview(model.SerializeToString())])


@dataclass
class _Place:
    """A product in the model: its operator, the constant, what reads that, and its axis of output channels."""

    node: NodeProto
    weight: str
    reader: NodeProto
    channel: int


class _Writer:
    def __init__(self, cell: OnnxCell, model: ModelProto, found: Quantized) -> None:
        self.cell, self.graph, self.found = cell, model.graph, found
        self.model = model
        self.parameters = dict(cell.parameters_and_names())
        self.names = {id(p): stored.name for stored, p in cell.stored.items()}
        self.taken = {name for node in model.graph.node for name in node.output}
        self.taken |= {each.name for each in (*model.graph.initializer, *model.graph.input)}
        self.added: list[NodeProto] = []
        self.activations: dict[tuple[str, str], str] = {}
        self.weights: dict[str, str] = {}
        self.makers = {name: node for node in model.graph.node for name in node.output}
        self.readers = Counter(name for node in operators(model.graph.node) for name in node.input)
        self.readers.update(each.name for each in model.graph.output)
        self.reader = {name: node for node in model.graph.node for name in node.input}
        self.scales: dict[str, Array] = {}
        self.replaced: set[str] = set()

    def run(self) -> None:
        """Change the model."""
        version = max((e.version for e in self.model.opset_import if e.domain in ("", "ai.onnx")), default=0)
        if version < FIRST_VERSION:
            text = f"The model has operators of version {version}, and integers by channel need {FIRST_VERSION}"
            raise GraphValueError(f"{text}; convert it by onnx.version_converter before it is loaded.")
        places = self.places()
        for weight, ends in self.found.sites:
            name = self.names[id(self.parameters[weight])]
            if not places[name]:
                text = f"No MatMul, Gemm or Conv of the graph of the model itself reads {weight!r}"
                raise GraphValueError(f"{text}, which is rounded; leave it out of `match`.")
            place = places[name].pop(0)
            for reader in self.readers_of_input(place.node):
                reader.input[0] = self.activation(reader.input[0], ends)
            self.weight(weight, place)
            self.bias(place, ends)
        self.clean()

    def places(self) -> dict[str, list[_Place]]:
        """The products of the model's graph by their constants, in order."""
        held = {text_of(t.name) for t in self.graph.initializer}
        held |= {node.output[0] for node in self.graph.node if node.op_type == "Constant"}
        sources: dict[str, tuple[str, NodeProto | None, bool]] = {name: (name, None, False) for name in held}
        found: dict[str, list[_Place]] = defaultdict(list)
        for node in self.graph.node:
            kind = ("" if node.domain == "ai.onnx" else node.domain), node.op_type
            if node.op_type in (*SAME, "Transpose") and node.input[0] in sources:
                name, reader, is_swapped = sources[node.input[0]]
                sources[node.output[0]] = name, reader or node, is_swapped != (node.op_type == "Transpose")
            elif kind in MATRICES | KERNELS and len(node.input) > 1 and node.input[1] in sources:
                name, reader, is_swapped = sources[node.input[1]]
                is_other = any(a.name == "transB" and a.i for a in node.attribute) != is_swapped
                found[name].append(_Place(node, name, reader or node, 0 if kind in KERNELS or is_other else 1))
        return found

    def readers_of_input(self, node: NodeProto) -> list[NodeProto]:
        """The operators before which the first operand of a product is rounded: itself, and those that only move it."""
        found, maker = [node], self.makers.get(node.input[0])
        while maker is not None and maker.op_type in MOVES and self.readers[maker.output[0]] == 1 == len(maker.output):
            found.append(maker)
            maker = self.makers.get(maker.input[0])
        return found

    def activation(self, name: str, ends: str) -> str:
        """The name of a tensor behind QuantizeLinear and DequantizeLinear."""
        if (name, ends) not in self.activations:
            low, high = self.parameters[ends].asnumpy().astype(np.float32)
            scale, zero = grid(np.minimum(low, 0), np.maximum(high, 0), 255)
            self.scales[ends] = scale
            operands = self.constants(name, scale, zero.astype(np.uint8))
            whole, again = self.fresh(f"{name}_quantized"), self.fresh(f"{name}_dequantized")
            self.added.append(helper.make_node("QuantizeLinear", [name, *operands], [whole], whole))
            self.added.append(helper.make_node("DequantizeLinear", [whole, *operands], [again], again))
            self.activations[name, ends] = again
        return self.activations[name, ends]

    def weight(self, path: str, place: _Place) -> None:
        """Let a product read its weight, or what is made of it, through DequantizeLinear."""
        name = place.weight
        if name not in self.weights:
            self.weights[name] = self.quantized(path, name, place.channel)
        if name in place.reader.input:  # which several products may share
            place.reader.input[list(place.reader.input).index(name)] = self.weights[name]

    def quantized(self, path: str, name: str, channel: int) -> str:
        """The name of a weight behind DequantizeLinear."""
        array = self.parameters[path].asnumpy()
        if array.dtype != np.float32:
            raise GraphValueError(f"save_quantized takes weights in float32, and {path!r} is in {array.dtype}.")
        whole = tuple(i for i in range(array.ndim) if not self.found.options.per_channel or i != channel)
        most = np.abs(array).max(axis=whole, keepdims=True)
        scale, zero = grid(-most, most, 254)
        integers = np.clip(np.rint(array / scale) + zero, 0, 254) - zero
        flat = scale.reshape(-1) if self.found.options.per_channel else scale.reshape(())
        self.scales[name] = flat
        return self.held(name, integers.astype(np.int8), flat, channel)

    def held(self, name: str, integers: Array, scale: Array, axis: int) -> str:
        """The name of a constant that is held in integers behind DequantizeLinear."""
        operands = self.constants(name, scale, np.zeros(scale.shape, integers.dtype))
        held, again = self.fresh(f"{name}_quantized"), self.fresh(f"{name}_dequantized")
        self.graph.initializer.append(numpy_helper.from_array(integers, held))
        node = helper.make_node("DequantizeLinear", [held, *operands], [again], again)
        if scale.ndim:
            node.attribute.append(helper.make_attribute("axis", axis))
        self.added.append(node)
        self.replaced.add(name)
        return again

    def bias(self, place: _Place, ends: str) -> None:
        """Let a product read its bias in int32, in the unit of the sums of products, where it is one by channel."""
        node = self.sum_of(place.node)
        first = 2 if node is place.node else 0
        constants = self.cell.program.main.constants
        found = ((i, constants[name]) for i, name in enumerate(node.input) if i >= first and name in constants)
        position, constant = next(found, (0, None))
        parameter = None if constant is None else self.cell.stored.get(constant)
        if constant is None or parameter is None or constant.rank != 1:
            return
        scale = (self.scales[ends] * self.scales[place.weight]).astype(np.float32)
        whole = np.rint(parameter.asnumpy() / scale)
        if whole.size == parameter.size and np.abs(whole).max(initial=0) < 2**31:
            node.input[position] = self.held(constant.name, whole.astype(np.int32), scale, 0)

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
        made = (numpy_helper.from_array(np.asarray(t), n) for t, n in zip(tensors, names, strict=True))
        self.graph.initializer.extend(made)
        return names

    def fresh(self, wish: str) -> str:
        name, number = wish, 1
        while name in self.taken:
            name, number = f"{wish}_{number}", number + 1
        self.taken.add(name)
        return name

    def clean(self) -> None:
        """Put the new operators where what they read is there, and take away constants that nothing reads now."""
        read = {name for node in operators(self.graph.node) for name in node.input}
        read |= {each.name for each in self.graph.output}
        unread = self.replaced - read
        nodes = [n for n in self.graph.node if not (n.op_type == "Constant" and n.output[0] in unread)]
        for field in (self.graph.initializer, self.graph.input):
            replace_items(field, [each for each in field if each.name not in unread])
        replace_items(self.graph.node, _in_order(nodes, self.added))


def grid(low: Array, high: Array, steps: int) -> tuple[Array, Array]:
    """The scale and the zero point, from 0, of a range; as the primitive `fake_quantize` has them."""
    width = (high - low) / np.float32(steps)
    scale = np.where(width > 0, width, np.float32(1)).astype(np.float32)
    return scale, np.clip(np.rint(-low / scale), 0, steps)


def _in_order(nodes: list[NodeProto], added: list[NodeProto]) -> Iterator[NodeProto]:
    """The operators, with each new one before the first that reads what it makes."""
    makers = {node.output[0]: node for node in added}

    def needed(name: str) -> Iterator[NodeProto]:
        node = makers.pop(name, None)
        if node is not None:
            yield from needed(node.input[0])
            yield node

    for node in nodes:
        for name in node.input:
            yield from needed(name)
        yield node
