"""ONNX models with tensors of float8 and float4, beside the interpreter, ONNX's reference and ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from graphls.base.errors import GraphValueError
from graphls.inspect.testing.agreement import same_bits
from graphls.inspect.testing.samples import draw, single
from graphls.ir.registry import operations
from graphls.ir.types import float8_e8m0fnu
from graphls.runtime.lowering.kernel_tables import best_opset
from graphls.runtime.lowering.lowering import lower
from graphls.runtime.lowering.types import LOW_TYPES
from tests.low_precision.steps import LABELS, RECIPES, X, compiled, named, network


def dtypes(sample: Any) -> list[Any]:
    return [*(kind.dtype for kind in sample.types), sample.attrs.get("dtype")]


SEEING = [each for each in operations() if each.native_low]
CASES = [(each, s) for each in SEEING for s in each.samples if any(d in LOW_TYPES for d in dtypes(s))]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("primitive", "sample"), CASES, ids=lambda case: getattr(case, "name", None))
def test_rules_in_low_dtypes_give_the_bits_of_the_interpreter(primitive: Any, sample: Any) -> None:
    arrays, graph = draw(sample, sample.types), single(primitive, sample, sample.types)
    if sample.attrs.get("dtype") is float8_e8m0fnu:
        arrays = [abs(array) for array in arrays]  # what becomes of negative numbers is free in ONNX
    model = lower(graph, opset=24, native_low=True)
    onnx.checker.check_model(model.model, full_check=True)
    wanted = {LOW_TYPES[dtype] for dtype in dtypes(sample) if dtype in LOW_TYPES}
    casts = (a.i for node in model.model.graph.node for a in node.attribute if a.name == "to")
    assert wanted <= set(casts) or not graph.outputs[0].type.size
    fed = [np.float32(a) if v.dtype.is_low else a for a, v in zip(arrays, graph.inputs, strict=True)]
    (result,) = ReferenceEvaluator(model.model).run(None, dict(zip(model.inputs, fed, strict=True)))
    (expected,) = primitive.evaluate(tuple(arrays), sample.attrs, (graph.outputs[0].type,))
    kind = graph.outputs[0].type.dtype.numpy
    assert same_bits(np.asarray(result).astype(kind), expected.astype(kind))


@pytest.mark.parametrize("name", RECIPES)
def test_steps_have_tensors_of_low_dtypes(name: str, tmp_path: Path) -> None:
    step = compiled(network(RECIPES[name]), backend="numpy")
    path, draws = tmp_path / "step.onnx", np.random.default_rng(0)
    step.save(path, native_low=True)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    kinds = [i.type.tensor_type.elem_type for i in model.graph.value_info]
    low = {node.output.type.dtype for node in step.graph.nodes if node.output.type.dtype.is_low}
    assert low and all(LOW_TYPES[dtype] in kinds for dtype in low)
    linear = sum(node.op_type == "DequantizeLinear" for node in model.graph.node)
    assert linear == len(named(step.graph, "dequantize")) - (2 if name == "nvfp4" else 0)  # with blocks along two axes
    fed = {value.name: array for value, array in zip(step.graph.inputs, (X, LABELS), strict=True)}
    fed |= {key: parameter.asnumpy() for key, parameter in step.parameters.items()}
    names = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    feeds = {key: fed[key] if key in fed else draws.random(shape, np.float32) for key, shape in names.items()}
    (loss, *_) = ReferenceEvaluator(model).run(None, feeds)
    expected = float(step(X, LABELS))
    assert float(loss) == pytest.approx(expected, rel=1e-6)
    reads = model.opset_import[0].version <= best_opset(onnxruntime.__version__)
    if reads and name != "nvfp4":  # ONNX Runtime has no cast to float4
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.disable_quant_qdq", "1")  # 1.19 makes a QGemm that it then refuses
        (loss, *_) = onnxruntime.InferenceSession(path, options).run(None, feeds)
        assert float(loss) == pytest.approx(expected, rel=1e-3)


def test_an_opset_that_lacks_a_dtype_is_an_error(tmp_path: Path) -> None:
    step = compiled(network(RECIPES["nvfp4"]), backend="numpy")
    with pytest.raises(GraphValueError, match="ONNX has float4_e2m1fn from opset 23 on, not in 21; take a later one"):
        step.save(tmp_path / "step.onnx", opset=21, native_low=True)
