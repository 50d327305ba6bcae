"""Runs the part of a model whose shapes depend on data outside of the graph, on arrays, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from graphls.base.errors import GraphlsError, GraphRuntimeError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.ir.types import DTYPES, DType, float32
from graphls.onnx.importing.files import Original
from graphls.onnx.importing.types import element_type
from graphls.onnx.program import Argument, Block, OnnxNode
from graphls.onnx.values import Dynamic, Input, ModelValue, PlainValue, array_of, float_type, is_known, plain, value_of
from graphls.ops.host_calls import pure_callback
from graphls.ops.math.elementwise import cast
from graphls.ops.operands import state_of, tensor_of
from graphls.runtime.lowering.protos import copied, in_order, text_of
from graphls.runtime.onnxruntime.runtime import load_runtime

_OLDEST = 10
"""The version of the format that every runtime reads."""
_SMALL = 256
"""Elements up to which a known tensor is shown to type inference."""

Values: TypeAlias = Mapping[str, ModelValue]
Runner: TypeAlias = Callable[[dict[str, Array]], list[Array]]
Key = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


class DynamicFallback:
    """The operators of a model with data-dependent result shapes, and those behind them."""

    def __init__(self, original: Original, block: Block, parameters: Container[str]) -> None:
        self.original = original
        self.block = block
        self.parameters = parameters
        self.pieces: dict[Key, Runner] = {}

    @cached_property
    def model(self) -> ModelProto:
        """The model itself."""
        return self.original.model()

    @cached_property
    def producers(self) -> dict[str, tuple[int, NodeProto, tuple[str, ...]]]:
        """For each tensor the number of its operator, the operator, and the names of the operator's operands."""
        ordered = enumerate(in_order(list(self.model.graph.node)))
        return {text_of(name): (i, node, operands) for i, (node, operands) in ordered for name in node.output if name}

    def sources_of(self, names: Sequence[str], values: Values) -> dict[str, Input]:
        """The tensors of the graph from which others can be computed, by name."""
        sources, seen, worklist = dict[str, Input](), set(names), list(names)
        while worklist:
            name = worklist.pop()
            if name not in values or isinstance(values[name], Dynamic):
                operands = [n for n in self.producers[name][2] if n not in seen] if name in self.producers else []
                seen.update(operands)
                worklist += operands
            elif name in self.parameters or name not in self.block.constants:
                sources[name] = _in_model_dtype(values[name])
        return sources

    def named(self, names: Sequence[str], results: Sequence[PlainValue], values: Values) -> dict[str, PlainValue]:
        """The outputs of the graph by name, with the tensors from which the other outputs can be computed."""
        dynamic = [name for name, result in zip(names, results, strict=True) if isinstance(result, Dynamic)]
        static = {n: y for n, y in zip(names, results, strict=True) if not isinstance(y, Dynamic)}
        return {**self.sources_of(dynamic, values), **static}

    def outputs(self, names: Sequence[str], values: Mapping[str, PlainValue]) -> list[PlainValue]:
        """All outputs, from the results of `named`."""
        missing = tuple(dict.fromkeys(name for name in names if name not in values))
        arrays = {name: array_of(value) for name, value in values.items() if isinstance(value, (Tensor, np.ndarray))}
        computed = dict(zip(missing, map(value_of, self.run(arrays, missing)), strict=True)) if missing else {}
        return [computed[name] if name in computed else values[name] for name in names]

    def resolved(self, node: OnnxNode, results: Sequence[ModelValue], values: Values) -> Sequence[ModelValue]:
        """The results of an operator; dynamic ones are computed by a host call if all their shapes are inferred."""
        if not any(isinstance(result, Dynamic) for result in results):
            return results
        types = self._types(node, values)
        names = [name for name in node.outputs if name]
        for name, result in zip(node.outputs, results, strict=False):
            if isinstance(result, Dynamic):
                result.type = types.get(name)
        declared = [_static(types.get(name)) for name in names]
        if None in declared:
            return results
        sources = self.sources_of(names, values)
        call = _Call(self, tuple(sources), tuple(names))
        computed = pure_callback(call, declared, *sources.values())
        by_name = dict(zip(names, map(_in_network_dtype, computed), strict=True))
        return [by_name.get(name) for name in node.outputs]

    def _types(self, node: OnnxNode, values: Values) -> dict[str, TypeProto]:
        """The types that ONNX infers for the results of an operator; empty where inference fails."""
        _, proto, operands = self.producers[next(filter(None, node.outputs))]
        inputs, constants = [], []
        for name in operands:
            value = plain(values.get(name))
            if is_known(value) and np.size(array_of(value)) <= _SMALL:
                constants.append(numpy_helper.from_array(array_of(value), name))
            inputs.append(ValueInfoProto(name=name, type=_type_of(value)))
        outputs = [ValueInfoProto(name=name) for name in node.outputs if name]
        model = self._model([proto], inputs, outputs, constants)
        try:
            inferred = shape_inference.infer_shapes(model)
        except Exception:  # of many kinds
            return {}
        return {info.name: info.type for info in (*inferred.graph.output, *inferred.graph.value_info)}

    def _model(
        self, nodes: Sequence[NodeProto], inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto],
        constants: Sequence[TensorProto],
    ) -> ModelProto:  # fmt: skip
        graph = helper.make_graph(nodes, "rest", inputs, outputs, constants)
        version = min(self.model.ir_version, _OLDEST)
        model: ModelProto = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=version)
        model.functions.extend(self.model.functions)
        return model

    def run(self, sources: Mapping[str, Array], names: tuple[str, ...]) -> list[Array]:
        """Compute some tensors of the model from others."""
        key = (tuple(sources), tuple(a.dtype.name for a in sources.values()), names)
        if key not in self.pieces:
            self.pieces[key] = _runner(self._piece(sources, names))
        return self.pieces[key](dict(sources))

    def _piece(self, sources: Mapping[str, Array], names: tuple[str, ...]) -> ModelProto:
        """The part of the model between some tensors and others."""
        operators: dict[int, NodeProto] = {}
        constants, seen, worklist = [], set(names), list(names)
        while worklist:
            name = worklist.pop()
            if name in sources:
                continue
            if name in self.block.constants:
                constants.append(numpy_helper.from_array(self.block.constants[name].read(), name))
            elif name in self.producers:
                number, proto, operands = self.producers[name]
                operators[number] = _without_names(proto, sources)
                worklist += [n for n in operands if n not in seen]
                seen.update(operands)
        nodes = [operators[i] for i in sorted(operators)]
        infos = [_info(name, array) for name, array in sources.items()]
        return self._model(nodes, infos, [ValueInfoProto(name=name) for name in names], constants)


def _without_names(proto: NodeProto, reserved: Container[str]) -> NodeProto:
    """An operator with other names for results whose names are reserved, as the graph may provide only some results."""
    copy = copied(proto)
    copy.output[:] = [f"{name} (again)" if name in reserved else name for name in proto.output]
    return copy


class _Call:
    """The operators between some tensors and others, as a function of arrays."""

    def __init__(self, fallback: DynamicFallback, sources: tuple[str, ...], names: tuple[str, ...]) -> None:
        self.fallback, self.sources, self.names = fallback, sources, names
        self.__qualname__ = f"the operators up to {names[0]!r}"

    def __call__(self, *arrays: Array) -> list[Array]:
        return self.fallback.run(dict(zip(self.sources, arrays, strict=True)), self.names)


def evaluated(node: OnnxNode, inputs: Sequence[Array | None], attributes: Mapping[str, Argument]) -> list[Array | None]:
    """The results of an operator for arrays."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    arrays = {name: a for name, a in zip(names, inputs, strict=True) if a is not None}
    results = [f"y{i}" if name else "" for i, name in enumerate(node.outputs)]
    proto = helper.make_node(node.kind, names, results, domain=node.domain)
    proto.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    infos = [_info(name, a) for name, a in arrays.items()]
    outputs = [ValueInfoProto(name=name) for name in results if name]
    graph = helper.make_graph([proto], "operator", infos, outputs)
    opsets = [helper.make_opsetid(node.domain, node.version)]
    computed = iter(_runner(helper.make_model(graph, opset_imports=opsets, ir_version=_OLDEST))(arrays))
    return [np.asarray(next(computed)) if name else None for name in results]


def _runner(model: ModelProto) -> Runner:
    """A function of arrays that runs a model in ONNX Runtime or, if that lacks an operator, in ONNX's reference."""
    runtime = load_runtime()
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of many kinds
        try:
            session = ReferenceEvaluator(model)
        except Exception:
            raise GraphRuntimeError(f"ONNX Runtime cannot run a part of the model: {error}.") from None

    def run(arrays: dict[str, Array]) -> list[Array]:
        try:
            return list(session.run(None, arrays))
        except GraphlsError:
            raise
        except Exception as error:  # of many kinds
            raise GraphRuntimeError(f"ONNX Runtime could not run a part of the model: {error}.") from None

    return run


def _in_model_dtype(quantized: ModelValue) -> Input:
    """A tensor in the dtype of the model; a 16-bit network computes in 16 bits in place of 32."""
    value = plain(quantized)
    if isinstance(value, Parameter):
        return state_of(value)
    if not isinstance(value, Tensor):
        return array_of(value)
    return cast(value, float32) if value.dtype is float_type() else tensor_of(value)


def _in_network_dtype(value: Tensor) -> Tensor:
    """A tensor of the model in the dtype in which the network computes; see `_in_model_dtype`."""
    dtype = float_type()
    return value if dtype is None or value.dtype is not float32 else cast(value, dtype)


def _type_of(value: ModelValue) -> TypeProto:
    if isinstance(value, Dynamic):
        return value.type or TypeProto()
    if isinstance(value, Tensor):
        dtype = float32 if value.dtype is float_type() else value.dtype
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype.numpy), value.shape)
    if isinstance(value, np.ndarray):
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
    return TypeProto()


def _info(name: str, array: Array) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype), None)


def _static(kind: TypeProto | None) -> tuple[tuple[int, ...], DType] | None:
    """The shape and dtype of a tensor, if both are static."""
    if kind is None or kind.WhichOneof("value") != "tensor_type" or not kind.tensor_type.HasField("shape"):
        return None
    sizes = kind.tensor_type.shape.dim
    dtype = element_type(kind.tensor_type.elem_type)
    if dtype not in DTYPES or not all(dim.HasField("dim_value") for dim in sizes):
        return None
    return tuple(dim.dim_value for dim in sizes), dtype
