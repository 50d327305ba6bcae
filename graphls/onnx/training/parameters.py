"""The file of a checkpoint: parameters, their descriptions, and the state of the optimizer, as safetensors."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from graphls.base.errors import GraphValueError
from graphls.base.files.files import as_path, parse_json, read_bytes, write_bytes
from graphls.frontend.tensors.tensor import Array
from graphls.interop.formats.safetensors import decode, encode
from graphls.onnx.training import flat

Property = int | float | str
HEAD, OPTIMIZER = "onnx.training", "optimizer/"
MOMENTS = ("first_order_moments", "second_order_moments")
"""The moments of the optimizer, by their names in its model."""


@dataclass(frozen=True)
class Kind:
    """The description of a parameter without its value."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_trained: bool

    @property
    def size(self) -> int:
        """The number of its elements."""
        return prod(self.shape)


@dataclass
class Content:
    """The content of a checkpoint; a nominal one has no values of parameters.

    `moments` are rows for all trained parameters, one after the other, by their names in the optimizer model.
    """

    kinds: list[Kind]
    values: dict[str, Array] = field(default_factory=dict)
    properties: dict[str, Property] = field(default_factory=dict)
    moments: dict[str, Array] = field(default_factory=dict)
    optimizer: dict[str, float] = field(default_factory=dict)


def write(content: Content, path: object) -> None:
    """Write a checkpoint; raises GraphFileError where it cannot be written, GraphRuntimeError without safetensors."""
    head = {
        "parameters": [[kind.name, list(kind.shape), kind.dtype, kind.is_trained] for kind in content.kinds],
        "properties": content.properties,
        "optimizer": content.optimizer,
    }
    arrays = content.values | {OPTIMIZER + name: row for name, row in content.moments.items()}
    write_bytes(as_path(path), encode({**arrays, HEAD: json.dumps(head)}))


def read(path: object) -> Content:
    """Read a checkpoint; raises GraphFileError for a file that cannot be read, GraphValueError for another."""
    file = as_path(path)
    data = read_bytes(file)
    try:
        return _content_of_flatbuffer(data) if data[4:8] == flat.MARK else _content(decode(data))
    except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        reason = error.message if isinstance(error, GraphValueError) else str(error)
        raise GraphValueError(f"{file} is not a checkpoint of a training, or is damaged: {reason}.") from None


def _content_of_flatbuffer(data: bytes) -> Content:
    """The content of a checkpoint of ONNX Runtime training."""
    checkpoint, content = flat.root(data), Content([])
    module, properties = checkpoint.table(1), checkpoint.table(3)
    if module is None or module.value(2, "?", False):
        raise GraphValueError("it has no values of parameters; give the complete one")
    for number, is_trained in ((0, True), (1, False)):
        for tensor in module.tables(number):
            name = tensor.text(0)
            content.values[name] = array = flat.array_of(tensor, name)
            content.kinds.append(Kind(name, array.shape, array.dtype.name, is_trained))
    for group in checkpoint.tables(2):
        content.optimizer = {"step": group.value(1, "q"), "learning_rate": group.value(2, "f")}
        content.moments = _moments(group, content.kinds)
    if properties is not None:
        for number, kind in enumerate("qf"):
            content.properties |= {p.text(0): p.value(1, kind) for p in properties.tables(number)}
        content.properties |= {p.text(0): p.text(1) for p in properties.tables(2)}
    return content


def _moments(group: flat.Table, kinds: Sequence[Kind]) -> dict[str, Array]:
    """The moments of all trained parameters, one after the other."""
    states = {state.text(0): list(state.tables(1)) for state in group.tables(3)}
    names = [kind.name for kind in kinds if kind.is_trained]
    count = min(map(len, states.values()), default=0)
    rows = ([flat.array_of(states[name][number], name).reshape(-1) for name in names] for number in range(count))
    return {name: np.concatenate(row) for name, row in zip(MOMENTS, rows, strict=False)}


def _content(entries: Mapping[str, Array | str]) -> Content:
    head = parse_json(str(entries[HEAD]))
    arrays = {name: entry for name, entry in entries.items() if isinstance(entry, np.ndarray)}
    kinds = [Kind(name, tuple(shape), dtype, bool(trained)) for name, shape, dtype, trained in head["parameters"]]
    values = {kind.name: arrays[kind.name] for kind in kinds if kind.name in arrays}
    for kind in kinds:
        if values and (values[kind.name].shape, values[kind.name].dtype.name) != (kind.shape, kind.dtype):
            raise GraphValueError(f"{kind.name!r} is {values[kind.name].dtype}{values[kind.name].shape} in it")
    moments = {name.removeprefix(OPTIMIZER): row for name, row in arrays.items() if name.startswith(OPTIMIZER)}
    return Content(kinds, values, dict(head["properties"]), moments, dict(head["optimizer"]))


def save_checkpoint(
    parameters: tuple[Sequence[TensorProto], Sequence[TensorProto]],
    path_to_checkpoint: object,
    nominal_checkpoint: bool = False,
) -> None:
    """Write the checkpoint of parameters that are trained and others; a nominal one is without their values.

    Examples:
        >>> import numpy as np
        >>> from onnx import numpy_helper
        >>> from graphls.onnx.training import CheckpointState, onnxblock
        >>> weight = numpy_helper.from_array(np.ones(2, np.float32), "weight")
        >>> onnxblock.save_checkpoint(([weight], []), "checkpoint")
        >>> CheckpointState.load_checkpoint("checkpoint").parameters["weight"].data.tolist()
        [1.0, 1.0]
    """
    trained, frozen = parameters
    kinds = [_kind(tensor, True) for tensor in trained] + [_kind(tensor, False) for tensor in frozen]
    values = {} if nominal_checkpoint else {t.name: numpy_helper.to_array(t) for t in (*trained, *frozen)}
    write(Content(kinds, values), path_to_checkpoint)


def load_checkpoint_to_model(path_to_checkpoint: object, model: ModelProto) -> None:
    """Give the initializers of a model, in place, the values that a checkpoint has for their names.

    Raises GraphFileError for a checkpoint that cannot be read, GraphValueError for one that is damaged.

    Examples:
        >>> import numpy as np
        >>> from onnx import helper, numpy_helper
        >>> from graphls.onnx.training import onnxblock
        >>> trained, first = (numpy_helper.from_array(np.full(2, n, np.float32), "weight") for n in (3, 0))
        >>> onnxblock.save_checkpoint(([trained], []), "checkpoint")
        >>> model = helper.make_model(helper.make_graph([], "graph", [], [], [first]))
        >>> onnxblock.load_checkpoint_to_model("checkpoint", model)
        >>> numpy_helper.to_array(model.graph.initializer[0]).tolist()
        [3.0, 3.0]
    """
    values = read(path_to_checkpoint).values
    for tensor in model.graph.initializer:
        if tensor.name in values:
            tensor.CopyFrom(numpy_helper.from_array(values[tensor.name], tensor.name))


def _kind(tensor: TensorProto, is_trained: bool) -> Kind:
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    return Kind(tensor.name, tuple(tensor.dims), dtype.name, is_trained)
