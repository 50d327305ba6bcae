"""Applies the ONNX rules of plugin primitives; ONNX's checker validates their operators before a runtime runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
from onnx import GraphProto, ModelProto, ValueInfoProto

from graphls.ir.graph import Node
from graphls.ir.registry import nearest
from graphls.ir.types import Type
from graphls.primitives.faults import listed, mismatch, raise_from_rule
from graphls.runtime.lowering.kernel_tables import ir_version
from graphls.runtime.lowering.types import ELEMENT_TYPES, describe
from graphls.runtime.lowering.values import Values
from graphls.runtime.lowering.writer import Position

_DTYPES = {number: dtype for dtype, number in ELEMENT_TYPES.items()}


def results_of(e: Values, node: Node, operands: Sequence[Any], rule: Callable[[], Any]) -> tuple[str, ...]:
    """The names that a rule returns for the results of a node; raises GraphlsError for a faulty rule."""
    begun = e.position()
    try:
        result = rule()
    except Exception as error:
        raise_from_rule(node.primitive, "onnx", error)
    names = result if isinstance(result, tuple) else (result,)
    known = {*operands, *(t.name for t in e.main.initializer), *(n for o in e.body.node for n in o.output)}
    if len(names) != len(node.outputs) or not all(isinstance(name, str) and name in known for name in names):
        expected = f"the name of a tensor is expected for each result, {len(node.outputs)} in all"
        raise mismatch(node.primitive, "onnx", listed(names), expected)
    model = _model_of(e, begun, operands, names)
    if model is not None:
        _check(node, model, names, e.out_types)
    return names


def _model_of(e: Values, begun: Position, operands: Sequence[Any], names: Sequence[str]) -> ModelProto | None:
    """The operators that a rule has appended as a model; None if they read tensors other than its operands."""
    operators = e.written_since(begun)
    graph = GraphProto(name="rule", node=operators)
    types = dict(zip(operands, e.in_types, strict=True)) if all(isinstance(x, str) for x in operands) else {}
    for name, kind in types.items():
        describe(graph.input.add(), name, kind)
    read = {name for operator in operators for name in operator.input if name}
    computed = {name for operator in operators for name in operator.output}
    constants = [tensor for tensor in e.main.initializer if tensor.name in read]
    graph.initializer.extend(constants)
    graph.output.extend(ValueInfoProto(name=name) for name in names if name in computed)
    if read - computed - types.keys() - {tensor.name for tensor in constants} or not graph.output:
        return None
    opsets = [onnx.helper.make_opsetid("", e.opset)]
    opsets += [onnx.helper.make_opsetid(domain, 1) for domain in {o.domain for o in operators} - {""}]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=ir_version(e.opset))


def _check(node: Node, model: ModelProto, names: Sequence[str], types: Sequence[Type]) -> None:
    """Raise GraphTypeError where ONNX rejects the operators, or infers other types for their results."""
    try:
        for operator in model.graph.node:
            onnx.checker.check_node(operator, _context_of(model))
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # of several kinds, one for each part of ONNX
        reason = str(error).strip().rstrip(".").replace("[", "").replace("]", "")
        operators = f"operators that ONNX refuses ({' '.join(reason.splitlines()[:1])}{_nearest_operator(model)})"
        raise mismatch(node.primitive, "onnx", operators, f"{listed(types)} is expected") from error
    infos = {info.name: info for info in inferred.graph.output}
    inferred_types = [_as_inferred(infos.get(name), kind) for name, kind in zip(names, types, strict=True)]
    if inferred_types != list(types):
        raise mismatch(node.primitive, "onnx", listed(inferred_types), f"its type rule says {listed(types)}")


def _nearest_operator(model: ModelProto) -> str:
    """A hint to the name of an operator, for the first one that ONNX does not have."""
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    strange = (operator.op_type for operator in model.graph.node if operator.domain == "")
    return next((nearest(name, known) for name in strange if name not in known), "")


def _context_of(model: ModelProto) -> Any:
    """The context of a model for ONNX's operator checker."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {entry.domain: entry.version for entry in model.opset_import}
    return context


def _as_inferred(info: ValueInfoProto | None, kind: Type) -> Type:
    """The inferred type of a result, completed by the expected type where inference is partial."""
    tensor = None if info is None else info.type.tensor_type
    if tensor is None or tensor.elem_type not in _DTYPES:
        return kind
    kind = kind.with_dtype(_DTYPES[tensor.elem_type])
    if not tensor.HasField("shape"):
        return kind
    sizes = tensor.shape.dim
    if len(sizes) != kind.rank:
        return kind.with_shape(tuple(size.dim_value for size in sizes))
    known = (s.dim_value if s.HasField("dim_value") else own for s, own in zip(sizes, kind.shape, strict=True))
    return kind.with_shape(tuple(known))
