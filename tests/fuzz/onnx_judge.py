"""What becomes of a random ONNX model: its results and its gradients beside those of ONNX's reference and ONNX Runtime.

Results are compared with both; gradients, along random directions, with differences of the reference in float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

import graphls
import graphls.onnx
from graphls import GraphlsError, ops
from tests.fuzz.judge import Verdict, unguarded
from tests.fuzz.onnx_models import Array, Model

STEPS = (1e-4, 1e-5)
"""Steps of differences; where they do not agree there is a corner, and nothing is compared."""
NEAR, OF_GRADIENT = 2e-4, 2e-3


def judge_model(model: Model, engine: str) -> Verdict:
    """Run a model forward and backward on an engine, or as NumPy, and compare its numbers.

    One that graphls does not take is "refused" where ONNX Runtime takes it, and else "rejected".
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"), unguarded():
        warnings.simplefilter("ignore")
        try:
            return _judged(model, engine)
        except GraphlsError as error:
            return Verdict("rejected" if _runtime(model) is None else "refused", f"{error}"[:1000])
        except Exception as error:
            return Verdict("error", f"{type(error).__name__}: {error}"[:1000])


def _judged(model: Model, engine: str) -> Verdict:
    wide = in_double(model.proto)
    outputs = [info.name for info in model.proto.graph.output]
    try:
        references = [_reference(wide, _doubled(model.inputs), outputs), _runtime(model)]
    except Exception:  # of many kinds: a rule of the reference that writes into what is constant
        return Verdict("undecided")
    backend: dict[str, Any] = {"backend": "numpy"} if engine == "numpy" else {"engine": engine}
    net = graphls.onnx.load(model.proto)
    tensors = [graphls.Tensor(array) for array in model.inputs.values()]
    step = graphls.compile(net, *tensors, **backend)
    results = step(*tensors)
    found = [np.asarray(r.asnumpy()) for r in (results if isinstance(results, tuple) else (results,))]
    for number, name in enumerate(outputs):
        expected = [reference[number] for reference in references if reference is not None]
        if not any(_agree(found[number], other, expected) for other in expected):
            if len(expected) == 1:
                return Verdict("undecided")  # of early versions the reference knows little
            return Verdict("wrong", f"{name!r} is {found[number]!r}, the references have {expected!r}")
    if not all(_agree(y, other, [other]) for y, other in zip(found, references[0] or [], strict=True)):
        return Verdict("undecided")  # ONNX Runtime differs from the reference, so that its differences say nothing
    return _of_gradients(model, net, wide, outputs, found, backend)


def _reference(proto: ModelProto, inputs: Mapping[str, Array], outputs: list[str]) -> list[Array]:
    return [np.asarray(y) for y in ReferenceEvaluator(proto).run(outputs, dict(inputs))]


def _runtime(model: Model) -> list[Array] | None:
    """What ONNX Runtime itself gives; None where it refuses the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.proto.SerializeToString(), options)
        return list(session.run(None, model.inputs))
    except Exception:  # of many kinds
        return None


def _agree(found: Array, other: Array, references: list[Array]) -> bool:
    if found.shape != other.shape:
        return False
    if found.dtype.kind != "f":
        return bool(np.array_equal(found, other))
    others = [r.astype(float) for r in references if r.shape == found.shape]
    spread = np.abs(others[0] - others[-1]).max(initial=0)
    largest = np.abs(other.astype(float)).max(initial=0)
    return bool(np.allclose(found, other, NEAR, NEAR * max(largest, 0.1) + min(4 * spread, 0.01), equal_nan=True))


def _of_gradients(
    model: Model, net: Any, wide: ModelProto, outputs: list[str], found: list[Array], backend: dict[str, Any]
) -> Verdict:
    """Gradients by inputs and weights of a weighted sum of all float results, along random directions."""
    draw = np.random.default_rng(1)
    weights = [draw.uniform(0.5, 1.5, y.shape) if y.dtype.kind == "f" else None for y in found]
    parameters = list(net.trainable_params())
    tensors = [graphls.Tensor(array) for array in model.inputs.values()]

    class Loss(graphls.nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def construct(self, *inputs: Any) -> Any:
            results = self.net(*inputs)
            results = results if isinstance(results, tuple) else (results,)
            terms = [ops.sum(y * w.astype(np.float32)) for y, w in zip(results, weights, strict=True) if w is not None]
            return sum(terms, ops.sum(inputs[0]) * 0.0)

    gradient = ops.grad(Loss(), tuple(range(len(tensors))), graphls.ParameterTuple(parameters) if parameters else None)
    compiled = graphls.compile(gradient, *tensors, **backend)(*tensors)
    by_inputs, by_weights = compiled if parameters else (compiled, ())
    by_inputs = by_inputs if isinstance(by_inputs, tuple) else (by_inputs,)
    given = dict(zip(model.inputs, by_inputs, strict=True))
    stored = {parameter: s.name for s, parameter in net.stored.items()}
    given |= {stored[p]: g for p, g in zip(parameters, by_weights, strict=True)}
    gradients = {name: np.asarray(g.asnumpy(), float) for name, g in given.items()}
    initializers = {t.name for t in wide.graph.initializer}
    gradients = {name: g for name, g in gradients.items() if name in model.inputs or name in initializers}

    def loss(directions: Mapping[str, Array], step: float) -> float:
        moved = ModelProto()
        moved.CopyFrom(wide)
        for tensor in moved.graph.initializer:
            if tensor.name in directions:
                array = numpy_helper.to_array(tensor) + step * directions[tensor.name]
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        inputs = {n: a + step * directions.get(n, 0.0) for n, a in _doubled(model.inputs).items()}
        results = _reference(moved, inputs, outputs)
        return float(sum((y * w).sum() for y, w in zip(results, weights, strict=True) if w is not None))

    outcome, largest = "same", max(float(np.abs(y.astype(float)).max(initial=0)) for y in found)
    for names in (*([name] for name in gradients), [*gradients]):
        directions = {name: draw.choice([-1.0, 1.0], gradients[name].shape) for name in names}
        slopes = [(loss(directions, h) - loss(directions, -h)) / (2 * h) for h in STEPS]
        size = sum(np.abs(gradients[name]).sum() for name in names)
        allowed = OF_GRADIENT * max(size, abs(slopes[0]), 0.05 * (1 + largest))  # what cancels leaves its rounding
        if not np.isfinite(slopes).all() or abs(slopes[0] - slopes[1]) > 0.1 * allowed:
            outcome = "undecided"
            continue
        slope = sum(float((gradients[name] * directions[name]).sum()) for name in names)
        if not abs(slope - slopes[0]) <= allowed:
            return Verdict("wrong", f"the slope by {names} is {slope!r}, differences in float64 give {slopes!r}")
    return Verdict(outcome)


def _doubled(inputs: Mapping[str, Array]) -> dict[str, Array]:
    return {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in inputs.items()}


def in_double(proto: ModelProto) -> ModelProto:
    """The same model in float64."""
    made = ModelProto()
    made.CopyFrom(proto)
    _double(made.graph)
    return made


def _double(graph: GraphProto) -> None:
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in graph.initializer:
        _double_tensor(tensor)
    for node in graph.node:
        _double_node(node)


def _double_node(node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            _double(attribute.g)
        if attribute.HasField("t"):
            _double_tensor(attribute.t)
        if attribute.name == "to" and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE


def _double_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
