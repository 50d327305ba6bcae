"""Converts models to a later version of ONNX's operators, with onnx.version_converter."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, checker, helper, version_converter

from graphls.base.errors import GraphValueError
from graphls.runtime.lowering.protos import copied, graphs, replace_items

_WITHOUT_INPUTS = 4
"""The version of the format from which on initializers need not be inputs."""


def version_of(model: ModelProto) -> int:
    """The version of ONNX's own operators that a model imports."""
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)


def converted(model: ModelProto, version: int) -> ModelProto:
    """A model of at least this version of ONNX's operators: the model itself, or a copy that computes the same.

    Names of tensors stay. Raises GraphValueError where the converter of the package onnx cannot convert the model.
    """
    if version_of(model) >= version:
        return model
    begin = f"The model has operators of version {version_of(model)}, and {version} is needed"
    reason = "it defines functions" if model.functions else "its data is in files of its own"
    if model.functions or any(t.data_location == TensorProto.EXTERNAL for t in _initializers(model)):
        raise GraphValueError(f"{begin}; onnx.version_converter cannot convert it, because {reason}: export it again.")
    listed = copied(model)
    inputs = {info.name for info in listed.graph.input}
    unlisted = [tensor for tensor in listed.graph.initializer if tensor.name not in inputs]
    if listed.ir_version < _WITHOUT_INPUTS:
        infos = (helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in unlisted)
        listed.graph.input.extend(infos)
    try:
        result: ModelProto = version_converter.convert_version(listed, version)
        result.ir_version = max(result.ir_version, helper.find_min_ir_version_for(list(result.opset_import)))
        added = {tensor.name for tensor in unlisted}
        replace_items(result.graph.input, [info for info in result.graph.input if info.name not in added])
        checker.check_model(result)
    except Exception as error:  # ConvertError and ValidationError, which no public module of onnx has
        reason = " ".join(str(error).split()) or type(error).__name__
        text = f"{begin}, to which onnx.version_converter cannot convert it: {reason.rstrip('.')}"
        raise GraphValueError(f"{text}; export it again in version {version} or later.") from None
    return result


def _initializers(model: ModelProto) -> list[TensorProto]:
    return [tensor for graph in graphs(model.graph) for tensor in graph.initializer]
