"""Models with tensors of float8 and float4: what ONNX's reference gives, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import graphls
import graphls.onnx
from graphls import ops
from tests.onnx.models import node

DRAWS = np.random.default_rng(0)
X = (DRAWS.standard_normal((6, 30)) * np.exp(DRAWS.uniform(-8, 8, (6, 30)))).astype(np.float32)
X[0, :8] = [0, -0.0, 448, 480, 1e9, -1e9, 57344, 2**-10]
SCALES = {
    "tensor": ((), {}), "rows": ((6,), {"axis": 0}), "columns": ((30,), {"axis": -1}),
    "blocks": ((6, 4), {"axis": 1, "block_size": 8}), "block_rows": ((2, 30), {"axis": 0, "block_size": 3}),
}  # fmt: skip


def low_model(element: int, scales: int) -> ModelProto:
    """Casts, and each kind of scale with a zero point and without, of an input and of an initializer."""
    dtype = helper.tensor_dtype_to_np_dtype(element)
    nodes: list[NodeProto] = []
    initializers = [numpy_helper.from_array(X.astype(dtype), "w"), numpy_helper.from_array(np.ones(1, dtype), "like")]
    outputs = {"cast": element, "open": element, "alike": element, "back": TensorProto.FLOAT}
    nodes += [node("Cast", "x", "cast", to=element), node("Cast", "x", "open", to=element, saturate=0)]
    nodes += [node("CastLike", "x like", "alike"), node("Cast", "w", "back", to=TensorProto.FLOAT)]
    for name, (shape, where) in SCALES.items():
        scale = np.exp(DRAWS.uniform(-3, 3, shape)).astype(helper.tensor_dtype_to_np_dtype(scales))
        initializers.append(numpy_helper.from_array(np.asarray(scale), f"{name}_s"))
        initializers.append(numpy_helper.from_array(np.zeros(shape, dtype), f"{name}_z"))
        nodes += [
            node("QuantizeLinear", f"x_s {name}_s {name}_z", f"{name}_q", **where),
            node("QuantizeLinear", f"x_s {name}_s", f"{name}_open", output_dtype=element, saturate=0, **where),
            node("DequantizeLinear", f"{name}_q {name}_s {name}_z", f"{name}_y", **where),
            node("DequantizeLinear", f"w {name}_s", f"{name}_w", output_dtype=TensorProto.FLOAT, **where),
        ]
        outputs |= {f"{name}_q": element, f"{name}_open": element, f"{name}_y": scales, f"{name}_w": TensorProto.FLOAT}
    nodes.insert(0, node("Cast", "x", "x_s", to=scales))
    infos = [helper.make_tensor_value_info(name, kind, X.shape) for name, kind in outputs.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    graph = helper.make_graph(nodes, "low", [x], infos, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


@pytest.mark.parametrize("scales", ["FLOAT", "FLOAT16", "BFLOAT16"])
@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1"])
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")
def test_casts_and_scales_are_those_of_the_reference(kind: str, scales: str) -> None:
    model = low_model(TensorProto.DataType.Value(kind), TensorProto.DataType.Value(scales))
    expected = ReferenceEvaluator(model).run(None, {"x": X})
    results = graphls.onnx.load(model)(graphls.Tensor(X))
    for result, array in zip(results, expected, strict=True):
        ours, theirs = result.asnumpy(), np.asarray(array)
        assert ours.dtype == theirs.dtype
        wide = [each.astype(np.float64) for each in (ours, theirs)]
        np.testing.assert_array_equal(*wide)
        if kind != "FLOAT4E2M1":  # -0 and a zero point of 0 are 0 there, where no pass has taken the sum away
            np.testing.assert_array_equal(*(np.signbit(np.where(np.isnan(each), 0, each)) for each in wide))


POWERS = [0.0, 2.0**-127, 1.0, 1.1, 1.5, 1.9, 3.0, np.inf, np.nan]
ROUNDED = {
    "up": [2.0**-127, 2.0**-127, 1, 2, 2, 2, 4, 2.0**127, np.nan],
    "down": [2.0**-127, 2.0**-127, 1, 1, 1, 1, 2, 2.0**127, np.nan],
    "nearest": [2.0**-127, 2.0**-127, 1, 1, 2, 2, 4, 2.0**127, np.nan],
}
"""By ONNX's table of Cast, and "ties round up"."""


@pytest.mark.parametrize("mode", ROUNDED)
def test_powers_of_two_are_rounded_as_the_node_says(mode: str) -> None:
    like = numpy_helper.from_array(np.ones(1, helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT8E8M0)), "like")
    nodes = [node("Cast", "x", "y", to=TensorProto.FLOAT8E8M0, round_mode=mode)]
    nodes += [node("CastLike", "x like", "z", round_mode=mode)]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT8E8M0, [9]) for name in "yz"]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [9])
    graph = helper.make_graph(nodes, "powers", [x], infos, [like])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=12)
    for result in graphls.onnx.load(model)(graphls.Tensor(np.float32(POWERS))):
        np.testing.assert_array_equal(result.asnumpy().astype(np.float32), np.float32(ROUNDED[mode]))


def test_gradients_pass_through_float8_within_its_range() -> None:
    scale = numpy_helper.from_array(np.array(2, np.float32), "s")
    zero = numpy_helper.from_array(np.zeros((), helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT8E4M3FN)), "z")
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph(nodes, "rounded", ends[:1], ends[1:], [scale, zero])
    net = graphls.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9))
    gradient = graphls.grad(lambda x: ops.sum(net(x) * graphls.Tensor(np.float32([1, 2, 3, 4]))))
    assert gradient(graphls.Tensor(np.float32([1.3, -800, 900, -1e4]))).asnumpy().tolist() == [1, 2, 0, 0]
