"""What of a model no graph has, because its shapes depend on data: it runs on arrays, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TypeProto, ValueInfoProto, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from graphls.base.errors import GraphlsError, GraphRuntimeError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import DTYPES, float32
from graphls.onnx.importing.files import Original
from graphls.onnx.importing.types import element_type
from graphls.onnx.program import Block, OnnxNode
from graphls.onnx.tensors import Array
from graphls.onnx.values import Open, array_of, float_type, is_known, plain, value_of
from graphls.ops.host_calls import pure_callback
from graphls.ops.math.elementwise import cast
from graphls.ops.operands import state_of, tensor_of
from graphls.runtime.lowering.protos import copied, in_order, text_of
from graphls.runtime.onnxruntime.runtime import load_runtime

_OLDEST = 10
"""The version of the format that every runtime reads."""
_SMALL = 256
"""Elements of a known tensor that types may follow from."""

Values = Mapping[str, Any]
Key = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


class Rest:
    """The operators of a model behind those whose results have shapes that depend on data."""

    def __init__(self, original: Original, block: Block, parameters: Container[str]) -> None:
        self.original = original
        self.block = block
        self.parameters = parameters
        self.pieces: dict[Key, Callable[[dict[str, Array]], list[Any]]] = {}

    @cached_property
    def model(self) -> ModelProto:
        """The model itself."""
        return self.original.model()

    @cached_property
    def makers(self) -> dict[str, tuple[int, NodeProto, tuple[str, ...]]]:
        """For each tensor the number of the operator that gives it, the operator, and what that needs."""
        ordered = enumerate(in_order(list(self.model.graph.node)))
        return {text_of(name): (i, proto, needed) for i, (proto, needed) in ordered for name in proto.output if name}

    def given_for(self, wanted: Sequence[str], values: Values) -> dict[str, Any]:
        """The tensors of the graph from which other ones can be computed."""
        given, seen, ahead = {}, set(wanted), list(wanted)
        while ahead:
            name = ahead.pop()
            if name not in values or isinstance(values[name], Open):
                found = [n for n in self.makers[name][2] if n not in seen] if name in self.makers else []
                seen.update(found)
                ahead += found
            elif name in self.parameters or name not in self.block.constants:
                given[name] = _as_in_the_model(values[name])
        return given

    def named(self, names: Sequence[str], results: Sequence[Any], values: Values) -> dict[str, Any]:
        """The outputs of the graph by name, with the tensors from which the other outputs can be computed."""
        wanted = [name for name, result in zip(names, results, strict=True) if isinstance(result, Open)]
        closed = {n: y for n, y in zip(names, results, strict=True) if not isinstance(y, Open)}
        return {**self.given_for(wanted, values), **closed}

    def outputs(self, names: Sequence[str], given: Mapping[str, Any]) -> list[Any]:
        """All outputs, by what `named` gave."""
        wanted = tuple(dict.fromkeys(name for name in names if name not in given))
        arrays = {name: value.asnumpy() if isinstance(value, Tensor) else value for name, value in given.items()}
        found = dict(zip(wanted, map(value_of, self.run(arrays, wanted)), strict=True)) if wanted else {}
        return [found[name] if name in found else given[name] for name in names]

    def closed(self, node: OnnxNode, results: Sequence[Any], values: Values) -> Sequence[Any]:
        """The results of an operator of which some are open: by a call of Python, if all have shapes that are known."""
        if not any(isinstance(result, Open) for result in results):
            return results
        types = self._types(node, values)
        wanted = [name for name in node.outputs if name]
        for name, result in zip(node.outputs, results, strict=False):
            if isinstance(result, Open):
                result.type = types.get(name)
        declared = [_static(types.get(name)) for name in wanted]
        if None in declared:
            return results
        given = self.given_for(wanted, values)
        call = _Call(self, tuple(given), tuple(wanted))
        found = pure_callback(call, declared, *given.values())
        by_name = dict(zip(wanted, map(_as_in_the_network, found), strict=True))
        return [by_name.get(name) for name in node.outputs]

    def _types(self, node: OnnxNode, values: Values) -> dict[str, TypeProto]:
        """What ONNX infers of the results of an operator; nothing where it cannot."""
        _, proto, needed = self.makers[next(filter(None, node.outputs))]
        inputs, held = [], []
        for name in needed:
            value = plain(values.get(name))
            if is_known(value) and np.size(array_of(value)) <= _SMALL:
                held.append(numpy_helper.from_array(array_of(value), name))
            inputs.append(ValueInfoProto(name=name, type=_type_of(value)))
        outputs = [ValueInfoProto(name=name) for name in node.outputs if name]
        model = self._model([proto], inputs, outputs, held)
        try:
            inferred = shape_inference.infer_shapes(model)
        except Exception:  # of many kinds
            return {}
        return {info.name: info.type for info in (*inferred.graph.output, *inferred.graph.value_info)}

    def _model(self, nodes: Any, inputs: Any, outputs: Any, held: Any) -> ModelProto:
        graph = helper.make_graph(nodes, "rest", inputs, outputs, held)
        version = min(self.model.ir_version, _OLDEST)
        made: ModelProto = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=version)
        made.functions.extend(self.model.functions)
        return made

    def run(self, given: Mapping[str, Array], wanted: tuple[str, ...]) -> list[Any]:
        """Tensors of the model by arrays of those that they come from."""
        key = (tuple(given), tuple(a.dtype.name for a in given.values()), wanted)
        if key not in self.pieces:
            self.pieces[key] = _runner(self._piece(given, wanted))
        return self.pieces[key](dict(given))

    def _piece(self, given: Mapping[str, Array], wanted: tuple[str, ...]) -> ModelProto:
        """The part of the model between some tensors and others."""
        numbers: dict[int, NodeProto] = {}
        held, seen, ahead = [], set(wanted), list(wanted)
        while ahead:
            name = ahead.pop()
            if name in given:
                continue
            if name in self.block.constants:
                held.append(numpy_helper.from_array(self.block.constants[name].read(), name))
            elif name in self.makers:
                number, proto, needed = self.makers[name]
                numbers[number] = _renamed(proto, given)
                ahead += [n for n in needed if n not in seen]
                seen.update(needed)
        nodes = [numbers[i] for i in sorted(numbers)]
        infos = [_info(name, array) for name, array in given.items()]
        return self._model(nodes, infos, [ValueInfoProto(name=name) for name in wanted], held)


def _renamed(proto: NodeProto, taken: Container[str]) -> NodeProto:
    """An operator whose results have other names where these are taken, as one may be of the graph and another not."""
    made = copied(proto)
    made.output[:] = [f"{name} (again)" if name in taken else name for name in proto.output]
    return made


class _Call:
    """The operators between some tensors and others, as a function of arrays."""

    def __init__(self, rest: Rest, given: tuple[str, ...], wanted: tuple[str, ...]) -> None:
        self.rest, self.given, self.wanted = rest, given, wanted
        self.__qualname__ = f"the operators up to {wanted[0]!r}"

    def __call__(self, *arrays: Array) -> list[Any]:
        return self.rest.run(dict(zip(self.given, arrays, strict=True)), self.wanted)


def by_itself(node: OnnxNode, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[Any]:
    """What an operator gives for arrays."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    given = {name: a for name, a in zip(names, inputs, strict=True) if name}
    results = [f"y{i}" if name else "" for i, name in enumerate(node.outputs)]
    proto = helper.make_node(node.kind, names, results, domain=node.domain, **attributes)
    infos = [_info(name, a) for name, a in given.items()]
    outputs = [ValueInfoProto(name=name) for name in results if name]
    graph = helper.make_graph([proto], "operator", infos, outputs)
    opsets = [helper.make_opsetid(node.domain, node.version)]
    found = iter(_runner(helper.make_model(graph, opset_imports=opsets, ir_version=_OLDEST))(given))
    return [np.asarray(next(found)) if name else None for name in results]


def _runner(model: ModelProto) -> Callable[[dict[str, Array]], list[Any]]:
    """A function of arrays that runs a model: ONNX Runtime, or where that has no such operator ONNX's reference."""
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

    def run(given: dict[str, Array]) -> list[Any]:
        try:
            return list(session.run(None, given))
        except GraphlsError:
            raise
        except Exception as error:  # of many kinds
            raise GraphRuntimeError(f"ONNX Runtime could not run a part of the model: {error}.") from None

    return run


def _as_in_the_model(value: Any) -> Any:
    """A tensor in the dtype that the model has; a network in 16 bits computes in those in place of 32."""
    value = plain(value)
    if isinstance(value, Parameter):
        return state_of(value)
    if not isinstance(value, Tensor):
        return value
    return cast(value, float32) if value.dtype is float_type() else tensor_of(value)


def _as_in_the_network(value: Tensor) -> Tensor:
    """The way back."""
    wanted = float_type()
    return value if wanted is None or value.dtype is not float32 else cast(value, wanted)


def _type_of(value: Any) -> TypeProto:
    if isinstance(value, Open):
        return value.type or TypeProto()
    if isinstance(value, Tensor):
        dtype = float32 if value.dtype is float_type() else value.dtype
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype.numpy), value.shape)
    if isinstance(value, np.ndarray):
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
    return TypeProto()


def _info(name: str, array: Any) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype), None)


def _static(kind: TypeProto | None) -> tuple[tuple[int, ...], Any] | None:
    """The shape and dtype of a tensor, where both are known."""
    if kind is None or kind.WhichOneof("value") != "tensor_type" or not kind.tensor_type.HasField("shape"):
        return None
    sizes = kind.tensor_type.shape.dim
    dtype = element_type(kind.tensor_type.elem_type)
    if dtype not in DTYPES or not all(dim.HasField("dim_value") for dim in sizes):
        return None
    return tuple(dim.dim_value for dim in sizes), dtype
