"""ONNX rules of primitives of plugins, whose operators ONNX checks before a runtime sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
from onnx import GraphProto, ModelProto, ValueInfoProto

from graphls.ir.graph import Node
from graphls.ir.types import Type
from graphls.primitives.faults import listed, tell, unfit
from graphls.runtime.lowering.kernel_tables import ir_version
from graphls.runtime.lowering.types import ELEMENT_TYPES, describe
from graphls.runtime.lowering.values import Values

_DTYPES = {number: dtype for dtype, number in ELEMENT_TYPES.items()}


def results_of(e: Values, node: Node, operands: Sequence[Any], rule: Callable[[], Any]) -> tuple[str, ...]:
    """The names that a rule gives for the results of a node; raises GraphlsError for what is no such rule."""
    begun = e.position()
    try:
        given = rule()
    except Exception as error:
        tell(node.primitive, "onnx", error)
    names = given if isinstance(given, tuple) else (given,)
    known = {*operands, *(t.name for t in e.main.initializer), *(n for o in e.body.node for n in o.output)}
    if len(names) != len(node.outputs) or not all(isinstance(name, str) and name in known for name in names):
        wanted = f"the name of a tensor that was given or made is wanted for each result, {len(node.outputs)} in all"
        raise unfit(node.primitive, "onnx", listed(names), wanted)
    model = _model_of(e, begun, operands, names)
    if model is not None:
        _check(node, model, names, e.out_types)
    return names


def _model_of(e: Values, begun: Any, operands: Sequence[Any], names: Sequence[str]) -> ModelProto | None:
    """The operators that a rule has appended as a model; None where they read what it was not given."""
    operators = e.written_since(begun)
    graph = GraphProto(name="rule", node=operators)
    types = dict(zip(operands, e.in_types, strict=True)) if all(isinstance(x, str) for x in operands) else {}
    for name, kind in types.items():
        describe(graph.input.add(), name, kind)
    read = {name for operator in operators for name in operator.input if name}
    made = {name for operator in operators for name in operator.output}
    constants = [tensor for tensor in e.main.initializer if tensor.name in read]
    graph.initializer.extend(constants)
    graph.output.extend(ValueInfoProto(name=name) for name in names if name in made)
    if read - made - types.keys() - {tensor.name for tensor in constants} or not graph.output:
        return None
    opsets = [onnx.helper.make_opsetid("", e.opset)]
    opsets += [onnx.helper.make_opsetid(domain, 1) for domain in {o.domain for o in operators} - {""}]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=ir_version(e.opset))


def _check(node: Node, model: ModelProto, names: Sequence[str], types: Sequence[Type]) -> None:
    """Raise GraphTypeError where ONNX refuses the operators, or says that their results are of other types."""
    try:
        for operator in model.graph.node:
            onnx.checker.check_node(operator, _context_of(model))
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # of several kinds, one for each part of ONNX
        reason = str(error).strip().rstrip(".").replace("[", "").replace("]", "")
        given = f"operators that ONNX refuses ({' '.join(reason.splitlines()[:1])})"
        raise unfit(node.primitive, "onnx", given, f"{listed(types)} is wanted") from error
    found = {info.name: info for info in inferred.graph.output}
    types_given = [_as_inferred(found.get(name), kind) for name, kind in zip(names, types, strict=True)]
    if types_given != list(types):
        raise unfit(node.primitive, "onnx", listed(types_given), f"its type rule says {listed(types)}")


def _context_of(model: ModelProto) -> Any:
    """The context of a model for ONNX's operator checker."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {entry.domain: entry.version for entry in model.opset_import}
    return context


def _as_inferred(info: ValueInfoProto | None, kind: Type) -> Type:
    """The type of a result as far as ONNX knows it, for the rest that which it should be."""
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
