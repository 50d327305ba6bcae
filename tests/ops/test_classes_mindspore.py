"""Operator classes against what those of MindSpore 2.10 gave on its CPU, once.

A row of the file has the settings, the inputs and the results. An input with a shape is a wave, positive or not, that
may be a parameter; its elements after the call are in the row, too. Rows where that CPU departs from its documentation
are left out; `test_classes_programs` has those.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.frontend.tensors.pytree import leaves, map_leaves
from tests.ops.slopes import assert_slopes

ROWS = json.loads(Path(__file__).with_name("classes_mindspore.json").read_text())
FIRST = [*{row["name"]: row for row in reversed(ROWS)}.values()][::-1]
STATIC = {
    "AdaptiveMaxPool3D", "BatchToSpaceNDV2", "Bincount", "Conv2DTranspose", "CumulativeLogsumexp", "Expand", "FillV2",
    "ListDiff", "NthElement", "PadV3", "Polygamma", "ResizeArea", "ResizeLinear1D", "SegmentMax", "SegmentMean",
    "SegmentMin", "SegmentProd", "SegmentSum", "UnravelIndex", "Col2Im",
}  # fmt: skip
"""Operators whose integer inputs say what shape the result has, and are known."""


PARTLY = {"BatchNorm", "LSTM"}
"""Operators whose last results that CPU leaves unwritten."""


def wave(spec: dict[str, Any]) -> Any:
    count = np.arange(int(np.prod(spec["shape"])))
    values = np.sin((count + 1.0) ** 2 * 0.37 + spec["seed"]).reshape(spec["shape"])
    return (np.abs(values) + 0.5 if spec.get("positive") else values).astype(np.float32)


def tupled(value: Any) -> Any:
    return tuple(map(tupled, value)) if isinstance(value, list) else value


def input_of(spec: dict[str, Any]) -> Any:
    if "shape" in spec:
        return graphls.Parameter(wave(spec), name=f"p{spec['seed']}") if spec.get("parameter") else wave(spec)
    ((kind, value),) = spec.items()
    if kind == "parameter_of":
        return graphls.Parameter(np.array(value, np.float32), name="flags")
    if kind == "tensors":
        return tuple(map(input_of, value))
    return tupled(value) if kind == "value" else np.array(value, dtype=kind)


def is_traced(leaf: Any, is_static: bool) -> bool:
    return isinstance(leaf, np.ndarray) and (leaf.dtype.kind == "f" or not is_static)


def operator_of(row: dict[str, Any]) -> Any:
    settings = {k: getattr(graphls, v["dtype"]) if isinstance(v, dict) else v for k, v in row["settings"].items()}
    return getattr(ops, row["name"])(**{k: tupled(v) for k, v in settings.items()})


class Call(nn.Cell):
    """A call of an operator on the traced ones among its inputs, and on the others, as they are."""

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__()
        self.operator, self.inputs = operator_of(row), [input_of(spec) for spec in row["inputs"]]
        self.weights = graphls.ParameterTuple([i for i in self.inputs if isinstance(i, graphls.Parameter)])
        self.is_static = row["name"] in STATIC

    def traced(self) -> list[Any]:
        return [leaf for leaf in leaves(self.inputs) if is_traced(leaf, self.is_static)]

    def construct(self, *tensors: Any) -> Any:
        given = iter(tensors)
        inputs = map_leaves(lambda leaf: next(given) if is_traced(leaf, self.is_static) else leaf, tuple(self.inputs))
        result = self.operator(*inputs)
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def identity_of(row: dict[str, Any]) -> str:
    return "-".join((row["name"], *(f"{k}={v}" for k, v in row["settings"].items())))


@pytest.mark.parametrize("row", ROWS, ids=identity_of)
def test_results_at_once(row: dict[str, Any]) -> None:
    call = Call(row)
    check(row, call, call(*map(graphls.Tensor, call.traced())))


@pytest.mark.parametrize("row", ROWS, ids=identity_of)
def test_results_on_onnx_runtime(row: dict[str, Any]) -> None:
    call = Call(row)
    check(row, call, graphls.compile(call, *call.traced(), backend="onnxruntime")(*call.traced()))


@pytest.mark.parametrize("row", FIRST, ids=identity_of)
def test_results_on_numpy(row: dict[str, Any]) -> None:
    call = Call(row)
    check(row, call, graphls.compile(call, *call.traced(), backend="numpy")(*call.traced()))


def check(row: dict[str, Any], call: Call, found: Any) -> None:
    results = row["results"] or [None] * len(found)
    for result, expected in zip(found, results, strict=row["name"] not in PARTLY):
        if expected is None:
            continue
        assert result.dtype.long_name == expected["dtype"] and result.shape == tuple(expected["shape"])
        values = np.reshape(expected["array"], expected["shape"])
        tolerance = 2e-3 if row["name"] == "ResizeBicubic" else 3e-5  # MindSpore rounds its cubics to a table
        np.testing.assert_allclose(result.asnumpy(), values, rtol=tolerance, atol=tolerance / 2)
    parameters = zip(call.weights, row.get("parameters", ()), strict=True)
    for number, (parameter, expected) in enumerate(parameters):
        np.testing.assert_allclose(parameter.asnumpy().reshape(-1), expected, rtol=3e-5, atol=3e-6)
        if not row["results"] and number < len(found):
            np.testing.assert_array_equal(found[number].asnumpy(), parameter.asnumpy())


HALVES = [r for r in FIRST if not r.get("parameters") and any("float" in found["dtype"] for found in r["results"])]


@pytest.mark.parametrize("row", HALVES, ids=identity_of)
def test_sixteen_bits(row: dict[str, Any]) -> None:
    call = Call(row)
    rounded = [a.astype(np.float16) if a.dtype.kind == "f" else a for a in call.traced()]
    wide = call(*(graphls.Tensor(a.astype(np.float32) if a.dtype.kind == "f" else a) for a in rounded))
    found = graphls.compile(call, *rounded, backend="onnxruntime")(*rounded)
    for narrow, exact in zip(found, wide, strict=True):
        values = exact.asnumpy()
        largest = np.finfo(np.float16).max if narrow.dtype is graphls.float16 else np.inf
        np.testing.assert_allclose(narrow.asnumpy(), np.clip(values, -largest, largest), rtol=5e-3, atol=5e-3)


ROUGH = {"FillV2", "Histogram", "ListDiff", "LogSpace", "ResizeArea", "StopGradient", "UnsortedSegmentMax",
         "UnsortedSegmentMin"}  # fmt: skip
"""Those without a slope in float64: constants, counts, float32 alone, and the extremes of empty segments."""

SMOOTH = [row for row in HALVES if row["name"] not in ROUGH]


@pytest.mark.parametrize("row", SMOOTH, ids=identity_of)
def test_slopes(row: dict[str, Any]) -> None:
    call = Call(row)
    if not any(a.dtype.kind == "f" for a in call.traced()):
        pytest.skip("no float operand")
    count = 1 if row["name"] == "LayerNorm" else None  # its statistics give no gradient
    assert_slopes(lambda *tensors: leaves(call.construct(*tensors))[:count], *call.traced())
