"""Saves a model with changed parameters: only the bytes of their tensors differ from the original file."""

from __future__ import annotations

import mmap
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.files.files import Part, as_path, open_file, write_parts
from graphls.base.files.wire import fields
from graphls.frontend.tensors.tensor import Array
from graphls.interop.adapters.lora import adapters_of
from graphls.nn.cell import Cell
from graphls.onnx.cell import OnnxCell
from graphls.onnx.importing.files import Original
from graphls.onnx.tensors import MessagePath, Stored, external_path
from graphls.runtime.lowering.protos import graphs, operators, text_of

_RAW, _PACKED = 9, {"float32": 4, "float64": 10}
"""Fields of a tensor with its elements as plain bytes: of any dtype, and of one dtype."""

Message: TypeAlias = "ModelProto | GraphProto | FunctionProto | NodeProto | AttributeProto | TensorProto"


def save(net: Cell, path: object) -> None:
    """Write the ONNX model of a network of `load` with its current parameters.

    Nodes, names, order, metadata and where data lies stay; only the elements of tensors that have changed are others,
    so the file is the same, byte for byte, where none has. Data in files of its own goes to files of the same names
    beside `path`. A file is written whole or not at all. Raises GraphTypeError for a cell that is or holds no such
    network, or several, GraphValueError for adapters that are not merged, GraphFileError where a file cannot be
    written.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn, train
        >>> train.export(nn.Dense(3, 2), np.ones((1, 3), np.float32), file_name="net.onnx", file_format="ONNX")
        >>> net = graphls.onnx.load("net.onnx")
        >>> graphls.onnx.save(net, "again.onnx")
        >>> graphls.onnx.load("again.onnx")(graphls.tensor([[0.0, 0.0, 0.0]])).shape
        (1, 2)
    """
    cell, target = network(net), as_path(path)
    write_parts(target, [memoryview(_saved_bytes(cell, target.parent))])


def saved_model(cell: OnnxCell, target: Path) -> ModelProto:
    """The model that `save` would write to a file; its external data is written."""
    model: ModelProto = ModelProto.FromString(bytes(_saved_bytes(cell, target.parent)))
    return model


def _saved_bytes(cell: OnnxCell, folder: Path) -> bytes | bytearray:
    """The bytes of the model with its current parameters; external data is written to a folder."""
    changed = list(_changed(cell))
    apart = [(stored, array) for stored, array in changed if stored.apart]
    inside = [(stored, array) for stored, array in changed if not stored.is_external and not stored.apart]
    outside = [(stored, array) for stored, array in changed if stored.is_external and not stored.apart]
    data = _patched(cell.original, inside)
    data = _with_constants(bytes(data), apart) if apart else data
    for location, patches in _external(cell.original, outside).items():
        _write_external(cell.original, location, patches, folder)
    return data


def network(net: object) -> OnnxCell:
    """The one network of `load` that a cell is or contains; raises as `save` does."""
    cells = [cell for _, cell in net.cells_and_names()] if isinstance(net, Cell) else []
    if any(map(adapters_of, cells)):
        text = "The file has no place for adapters; merge them into the weights, by graphls.adapters.merge(net)"
        raise GraphValueError(f"{text}, or save them apart, by graphls.adapters.save_adapters(net, path).")
    networks = [cell for cell in cells if isinstance(cell, OnnxCell)]
    if len(networks) != 1:
        count = f"holds {len(networks)} of them" if networks else "is none"
        raise GraphTypeError(f"save takes a network of graphls.onnx.load, or a cell that holds one; this {count}.")
    return networks[0]


def _changed(cell: OnnxCell) -> Iterator[tuple[Stored, Array]]:
    """The constants whose parameters have other bits, with the arrays of the parameters."""
    for stored, parameter in cell.stored.items():
        array = _as_stored(stored, np.ascontiguousarray(parameter.asnumpy()))
        if not stored.has_data or not np.array_equal(_bits(array), _bits(stored.read())):
            yield stored, array


def _as_stored(stored: Stored, array: Array) -> Array:
    """An array in the dtype of a constant; raises GraphValueError for numbers beyond it."""
    if array.dtype == stored.dtype:
        return array
    with np.errstate(over="ignore"):
        rounded = array.astype(stored.dtype)
    if not np.array_equal(np.isfinite(array), np.isfinite(rounded.astype(array.dtype))):
        text = f"The model stores {stored.name!r} in {stored.dtype.name}, and trained numbers of it are beyond that"
        raise GraphValueError(f"{text}; train it in {stored.dtype.name}, or export the model in {array.dtype.name}.")
    return rounded


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _patched(original: Original, changed: list[tuple[Stored, Array]]) -> bytes | bytearray:
    """The bytes of a model with other elements in some tensors."""
    if not changed:
        return original.data
    data = bytearray(original.data)
    messages = _Messages(memoryview(data))
    others = [(stored, array) for stored, array in changed if not _overwrite(messages.at(stored.path), array)]
    return _replaced(bytes(data), others) if others else data


class _Messages:
    """Messages inside the bytes of a model by their paths; each is parsed once."""

    def __init__(self, root: memoryview) -> None:
        self.root = root
        self.parts: dict[MessagePath, dict[int, list[memoryview]]] = {}

    def at(self, path: MessagePath) -> memoryview:
        """The bytes of the message at a path."""
        if not path:
            return self.root
        around, (field, number) = path[:-2], path[-2:]
        if around not in self.parts:
            self.parts[around] = defaultdict(list)
            for key, value in fields(self.at(around), with_floats=True):
                if isinstance(value, memoryview):
                    self.parts[around][key].append(value)
        return self.parts[around][field][number]


def _overwrite(message: memoryview, array: Array) -> bool:
    """Overwrite the elements of a tensor; returns False if it stores them in another form."""
    plain = (_RAW, _PACKED.get(array.dtype.name))
    views = [v for key, v in fields(message, with_floats=True) if key in plain and isinstance(v, memoryview)]
    if len(views) != 1 or len(views[0]) != array.nbytes or views[0].readonly:
        return False
    views[0][:] = _bytes(array)
    return True


def _bytes(array: Array) -> memoryview:
    """The elements as models store them: least significant byte first."""
    return _bits(array.astype(array.dtype.newbyteorder("<"), copy=False)).data


def _replaced(data: bytes, changed: list[tuple[Stored, Array]]) -> bytes:
    """The bytes of a model with other elements in some tensors, stored as raw bytes."""
    model = ModelProto.FromString(data)
    for stored, array in changed:
        tensor = _message(model, stored.path)
        assert isinstance(tensor, TensorProto)
        for name in ("float_data", "int32_data", "double_data"):
            tensor.ClearField(name)
        tensor.raw_data = bytes(_bytes(array))
    return bytes(model.SerializeToString())


def _with_constants(data: bytes, apart: list[tuple[Stored, Array]]) -> bytes:
    """The bytes of a model in which statistics that shared a tensor become Constant nodes of their own.

    Such a node replaces the Identity that passed the tensor on, or stands before the node that reads it.
    """
    model = ModelProto.FromString(data)
    by_node: dict[MessagePath, list[tuple[int, NodeProto]]] = defaultdict(list)
    for stored, array in apart:
        path, number = stored.apart or ((), 0)
        constant = helper.make_node("Constant", [], [stored.name], value=numpy_helper.from_array(array))
        by_node[path].append((number, constant))
    for path in sorted(by_node, reverse=True):  # in reverse order, as an insertion moves the operators behind it
        block, at = _message(model, path[:-2]), path[-1]
        assert isinstance(block, (GraphProto, FunctionProto))
        nodes, node = block.node, block.node[at]
        for number, constant in by_node[path]:
            if node.op_type == "Identity":
                node.CopyFrom(constant)
            else:
                node.input[number] = constant.output[0]
                nodes.insert(at, constant)
    return bytes(model.SerializeToString())


def _message(model: ModelProto, path: MessagePath) -> Message:
    """The message at a path."""
    message: Message = model
    for field, number in zip(path[::2], path[1::2], strict=True):
        value = getattr(message, message.DESCRIPTOR.fields_by_number[field].name)
        message = value if hasattr(value, "DESCRIPTOR") else value[number]
    return message


def _external(original: Original, changed: list[tuple[Stored, Array]]) -> dict[str, list[tuple[int, Array]]]:
    """The external files of a model, with the offsets and arrays to write into them."""
    patches: dict[str, list[tuple[int, Array]]] = {}
    for tensor in _tensors(original.model()):
        if tensor.data_location == TensorProto.EXTERNAL:
            entries = {text_of(e.key): text_of(e.value) for e in tensor.external_data}
            patches.setdefault(entries.get("location", ""), [])
    for stored, array in changed:
        patches[stored.external["location"]].append((int(stored.external.get("offset", 0)), array))
    return patches


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """All tensors of a model."""
    for graph in graphs(model.graph):
        yield from graph.initializer
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in operators(nodes):
            for attribute in node.attribute:
                yield from ([attribute.t] if attribute.HasField("t") else attribute.tensors)


def _write_external(original: Original, location: str, patches: list[tuple[int, Array]], folder: Path) -> None:
    """Write an external file: a copy of the original with patches."""
    source, target = external_path(original.folder, location, location), folder / location
    if not patches and os.path.exists(target) and target.samefile(source):
        return
    with open_file(source) as file:
        if not source.stat().st_size:
            write_parts(target, [b""])
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            view = memoryview(mapped)
            try:
                write_parts(target, _parts(view, patches))
            finally:
                view.release()


def _parts(original: memoryview, patches: list[tuple[int, Array]]) -> Iterator[Part]:
    position = 0
    for offset, array in sorted(patches, key=lambda patch: patch[0]):
        with original[position:offset] as before:
            yield before
        yield _bytes(array)
        position = offset + array.nbytes
    with original[position:] as rest:
        yield rest
