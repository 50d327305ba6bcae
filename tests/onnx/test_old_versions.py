"""Forms that operators had in opsets 7 to 11: what they give is what ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import NodeProto, helper

import graphls
import graphls.onnx
from graphls import ops
from tests.onnx.models import INT, model, node, tensor

DRAW = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return DRAW.normal(size=shape).astype(np.float32)


IMAGE, ROWS = floats(2, 2, 4, 6), floats(2, 3, 4)
BATCH = {"s": floats(2), "b": floats(2), "m": floats(2), "v": abs(floats(2))}
EACH = {"s": floats(2, 4, 6), "b": floats(2, 4, 6), "m": floats(2, 4, 6), "v": abs(floats(2, 4, 6))}
STEPS = helper.make_graph(
    [node("Add", "state element", "after"), node("Identity", "after", "shown")], "body",
    [tensor("state", [4]), tensor("element", [4])], [tensor("after", [4]), tensor("shown", [4])],
)  # fmt: skip
SCAN = helper.make_node("Scan", ["", "x0", "x1"], ["last", "y"], body=STEPS, num_scan_inputs=1)
SCALES = {"s": np.array([1, 1, 1.5, 2], np.float32)}

CASES: dict[str, tuple[NodeProto, list[Any], dict[str, Any], list[int]]] = {
    "Upsample of numbers": (node("Upsample", "x0", "y", scales=[1.0, 1.0, 1.5, 2.0], mode="linear"), [IMAGE], {}, [7]),
    "Upsample": (node("Upsample", "x0 s", "y", mode="nearest"), [IMAGE], SCALES, [9]),
    "Resize": (node("Resize", "x0 s", "y", mode="linear"), [IMAGE], SCALES, [10]),
    "Dropout": (node("Dropout", "x0", "y", ratio=0.3), [ROWS], {}, [7, 10]),
    "Clip": (node("Clip", "x0", "y", min=-0.5, max=0.7), [ROWS], {}, [7, 10]),
    "Pad": (node("Pad", "x0", "y", pads=[0, 1, -1, 1, 0, 2], value=3.0), [ROWS], {}, [7, 10]),
    "Pad by reflection": (node("Pad", "x0", "y", pads=[0, 1, 0, 1, 0, 2], mode="reflect"), [ROWS], {}, [8]),
    "Slice": (node("Slice", "x0", "y", starts=[1, -3], ends=[1000, -1], axes=[1, 2]), [ROWS], {}, [7, 9]),
    "Squeeze": (node("Squeeze", "x0", "y", axes=[1]), [floats(2, 1, 3)], {}, [7, 11]),
    "Unsqueeze": (node("Unsqueeze", "x0", "y", axes=[0, 3]), [floats(2, 3)], {}, [7, 11]),
    "Softmax": (node("Softmax", "x0", "y"), [ROWS], {}, [7, 11]),
    "Split": (node("Split", "x0", "y z", axis=1, split=[1, 2]), [ROWS], {}, [7, 11]),
    "ReduceSum": (node("ReduceSum", "x0", "y", axes=[1], keepdims=0), [ROWS], {}, [7, 11]),
    "TopK": (node("TopK", "x0", "y z", k=2), [ROWS], {}, [7, 9]),
    "BatchNormalization": (node("BatchNormalization", "x0 s b m v", "y"), [IMAGE], BATCH, [7, 9]),
    "BatchNormalization of elements":
        (node("BatchNormalization", "x0 s b m v", "y", spatial=0), [IMAGE], EACH, [7]),
    "Scan": (SCAN, [floats(2, 4), floats(2, 3, 4)], {}, [8]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "opset"), [(name, opset) for name, case in CASES.items() for opset in case[3]])
def test_a_form(name: str, opset: int) -> None:
    operator, arrays, constants, _ = CASES[name]
    given = {f"x{i}": array for i, array in enumerate(arrays)}
    outputs = [tensor(o, None, INT if (name, o) == ("TopK", "z") else 1) for o in operator.output]
    proto = model([operator], [tensor(n, a.shape) for n, a in given.items()], outputs, constants, opset)
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, given)
    net = graphls.onnx.load(proto)
    found = net(*arrays)
    for y, wanted in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        assert y.asnumpy().dtype == wanted.dtype
        np.testing.assert_allclose(y.asnumpy(), wanted, rtol=1e-5, atol=1e-6)


def test_statistics_of_elements_follow_in_training() -> None:
    net = graphls.onnx.load(model([CASES["BatchNormalization of elements"][0]], [tensor("x0", None)], ["y"], EACH, 7))
    net.set_train()
    y = net(IMAGE).asnumpy()
    wide = (IMAGE - IMAGE.mean(0)) / np.sqrt(IMAGE.var(0) + 1e-5) * EACH["s"] + EACH["b"]
    np.testing.assert_allclose(y, wide, rtol=1e-4, atol=1e-5)
    mean = net.parameters_dict()["m"].asnumpy()
    np.testing.assert_allclose(mean, 0.9 * EACH["m"] + 0.1 * IMAGE.mean(0), rtol=1e-5, atol=1e-6)
    assert ops.grad(lambda x: ops.sum(net(x)))(graphls.Tensor(IMAGE)).shape == IMAGE.shape
