"""Exports a module of PyTorch to ONNX by PyTorch's own exporter, once for training and once for evaluation."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from graphls.base.errors import GraphlsError, GraphRuntimeError, GraphValueError
from graphls.frontend.tensors.tensor import Array
from graphls.interop.sources import tensors_of
from graphls.onnx.importing.origins import function_of_torch
from graphls.onnx.pytorch.cell import ModeSource
from graphls.onnx.pytorch.forward import Forward
from graphls.onnx.pytorch.preparation import prepare
from graphls.runtime.lowering.protos import operators, replace_items, text_of

LARGE = 1024
"""Elements from which on tensors stay out of the exported model, whose bytes are copied and are limited to 2 GiB."""
_ADVICE = "; train=False takes the module in evaluation mode only, which works"
_STATISTICS = "aten._native_batch_norm_legit_functional"


@dataclass
class Exported:
    """A module in one mode: what it is read from, and the names of the tensors of the module in it.

    `updated` are the buffers that the forward pass writes; `is_open` tells whether the sizes of all
    first axes vary.
    """

    source: ModeSource
    tensors: set[str]
    updated: set[str]
    is_open: bool


def array_of_torch(tensor: Any) -> Array:
    """A copy of the elements of a tensor of PyTorch, in its dtype."""
    torch = import_module("torch")
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype is torch.bfloat16:
        from ml_dtypes import bfloat16

        return np.array(tensor.view(torch.int16).numpy()).view(bfloat16)
    return np.array(tensor.numpy())


def export(module: Any, arguments: Mapping[str, Any], dynamic_shapes: Mapping[str, Any], training: bool) -> Exported:
    """The module in one mode; raises GraphlsError with the reason where the exporter fails."""
    torch = import_module("torch")
    _require_onnxscript()
    with _mode(module, training), _silence():
        try:
            forward = Forward(torch, module, arguments)
            shapes = {name: dynamic_shapes[name] for name in forward.inputs}
            with forward.installed():
                program = torch.export.export(module, (), forward.inputs, dynamic_shapes=shapes, strict=False)
            prepare(torch, program)
            exported = torch.onnx.export(program, (), dynamo=True, optimize=False, verbose=False)
        except GraphlsError as error:  # its line is one of PyTorch's
            raise type(error)(error.message) from None
        except Exception as error:  # of many kinds: what forward raises, and what the exporter cannot do
            raise _refused(module, training, error) from None
        return _read(module, exported, forward)


@contextmanager
def _mode(module: Any, training: bool) -> Iterator[None]:
    """Sets the mode of all modules; parts of a module in training that are in evaluation mode stay so."""
    modes = [(each, each.training) for each in module.modules()]
    try:
        if not training:
            module.eval()
        elif not module.training:
            module.train()
        yield
    finally:
        for each, mode in modes:
            each.training = mode


@contextmanager
def _silence() -> Iterator[None]:
    """Keeps back what the exporter prints, logs and warns of; errors are exceptions."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _read(module: Any, exported: Any, forward: Forward) -> Exported:
    """The model of the exporter under the names of the module."""
    program, groups = exported.exported_program, tensors_of(module)
    canonical = {name: first for first, (_, names) in groups.items() for name in names}
    model = _without_data(exported, canonical)
    updates = _updates(program, canonical)
    _rename(model, canonical)
    is_open = _fix_sizes(model)
    updated = set(updates)
    _restore_statistics(model, updates)
    inputs = [spec.arg.name for spec in program.graph_signature.input_specs if _is_input_tensor(spec)]
    replace_items(model.graph.output, list(model.graph.output)[: len(model.graph.output) - len(forward.written)])
    outputs = tuple(text_of(info.name) for info in model.graph.output)
    data = model.SerializeToString()
    source = ModeSource(data, tuple(inputs), outputs, forward.results, updates)
    initializers = {text_of(tensor.name) for tensor in model.graph.initializer}
    return Exported(source, initializers & groups.keys(), updated, is_open)


def _is_input_tensor(spec: Any) -> bool:
    return spec.kind.name == "USER_INPUT" and type(spec.arg).__name__ == "TensorArgument"


def _updates(program: Any, canonical: Mapping[str, str]) -> dict[str, str]:
    """The tensors that hold the new values of buffers, by the names of the buffers."""
    specs = program.graph_signature.output_specs
    return {canonical[s.target]: s.arg.name for s in specs if s.kind.name == "BUFFER_MUTATION"}


def _without_data(exported: Any, canonical: Mapping[str, str]) -> ModelProto:
    """The model, with the shapes but not the elements of large parameters and float buffers."""
    ir, initializers = import_module("onnx_ir"), exported.model.graph.initializers
    values = {name: initializers[name].const_value for name in initializers if name in canonical}
    large = {n: t for n, t in values.items() if t is not None and t.size >= LARGE and t.dtype.is_floating_point()}
    try:
        for name in large:
            initializers[name].const_value = ir.tensor(np.zeros(0, np.float32), name=name)
        model: ModelProto = exported.model_proto
    finally:
        for name, tensor in large.items():
            initializers[name].const_value = tensor
    for proto in model.graph.initializer:
        name = text_of(proto.name)
        if name in large:
            proto.Clear()
            proto.name, proto.data_type = name, int(large[name].dtype)
            proto.dims.extend(int(size) for size in large[name].shape)
    return model


def _rename(model: ModelProto, canonical: Mapping[str, str]) -> None:
    """Give initializers the first of the names of their tensor."""
    others = {old: new for old, new in canonical.items() if old != new}
    present: set[str] = set()
    distinct = []
    for tensor in model.graph.initializer:
        tensor.name = others.get(text_of(tensor.name), text_of(tensor.name))
        if tensor.name not in present:
            distinct.append(tensor)
        present.add(text_of(tensor.name))
    replace_items(model.graph.initializer, distinct)
    _replace_names(model, others)


def _fix_sizes(model: ModelProto) -> bool:
    """Declare the sizes that the module fixes, which the exporter writes as names; returns whether no first one is."""
    shapes = [info.type.tensor_type.shape.dim for info in model.graph.input]
    for dim in (dim for shape in shapes for dim in shape):
        if text_of(dim.dim_param).isdecimal():
            dim.dim_value = int(dim.dim_param)
    return all(not shape or not shape[0].HasField("dim_value") for shape in shapes)


def _replace_names(model: ModelProto, others: Mapping[str, str]) -> None:
    """Replace names of tensors in the inputs of all nodes and in the outputs of the model."""
    for node in operators(model.graph.node):
        for number, name in enumerate(node.input):
            if text_of(name) in others:
                node.input[number] = others[text_of(name)]
    for info in model.graph.output:
        info.name = others.get(text_of(info.name), text_of(info.name))


def _restore_statistics(model: ModelProto, updates: dict[str, str]) -> None:
    """Mark the batch normalisations that update statistics, and drop the copies of these that a second call reads."""
    copies = {
        text_of(node.output[0]): text_of(node.input[0])
        for node in model.graph.node
        if node.op_type == "Identity" and function_of_torch(node).startswith(_STATISTICS)
    }
    nodes = [node for node in model.graph.node if not (node.output and text_of(node.output[0]) in copies)]
    replace_items(model.graph.node, nodes)
    _replace_names(model, copies)
    computed, statistics = {text_of(name) for node in nodes for name in node.output}, set[str]()
    for node in operators(model.graph.node):
        if node.op_type == "BatchNormalization" and function_of_torch(node).startswith(_STATISTICS):
            node.attribute.append(helper.make_attribute("training_mode", 1))
            statistics.update(map(text_of, node.input[3:5]))
    for name in [name for name, new in updates.items() if new not in computed]:
        if name not in statistics:
            raise GraphValueError(f"PyTorch's exporter loses what training writes into the buffer {name!r}{_ADVICE}.")
        del updates[name]  # statistics, which the operator itself updates


def _require_onnxscript() -> None:
    """Raise GraphRuntimeError without the package that PyTorch's exporter needs."""
    try:
        import_module("onnxscript")
    except ImportError:
        text = "from_torch needs the package onnxscript, as PyTorch's exporter does: pip install onnxscript"
        raise GraphRuntimeError(f"{text}.") from None


def _refused(module: Any, training: bool, error: Exception) -> GraphlsError:
    """The error for what the exporter of PyTorch cannot do, with its reason."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    text = (_depends_on_data(causes) and _cumulative(module)) or _reason(causes)
    mode = "training" if training else "evaluation"
    advice = _ADVICE if training else ""
    return GraphValueError(f"PyTorch cannot export {type(module).__name__} in {mode} mode: {text}{advice}.")


def _cumulative(module: Any) -> str:
    """The reason where a normalisation takes its momentum from the number of batches, "" elsewhere."""
    for path, layer in module.named_modules():
        if getattr(layer, "momentum", 0) is None and getattr(layer, "running_mean", None) is not None:
            return f"{path!r} takes its momentum, which is None, from the value of a counter; set a number"
    return ""


def _reason(causes: Sequence[BaseException]) -> str:
    """The first line of the innermost exception that says something, or what it means."""
    text = next((str(c) for c in reversed(causes) if str(c).strip()), type(causes[0]).__name__)
    if _depends_on_data(causes):
        return "its control flow or the shape of a tensor depends on values of tensors, which torch.cond would express"
    line = next(filter(None, map(str.strip, text.splitlines())), text)
    return f"{type(causes[-1]).__name__}: {line.rstrip('.:')}"


def _depends_on_data(causes: Sequence[BaseException]) -> bool:
    """Whether the exporter has met a Python value that depends on values of tensors."""
    return any("DataDependent" in type(c).__name__ or "data-dependent" in str(c).lower() for c in causes)
