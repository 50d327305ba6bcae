"""ONNX's own node tests through graphls: `python -m tests.onnx.node_tests [pattern]` runs them all and reports.

A test is left out where its tensors are of types that graphls has not (texts, 8-bit floats, sequences), or where it is
listed in left_out.txt, with the reason.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper
from onnx.backend.test.case import node as cases_of_nodes

import graphls
import graphls.onnx
from graphls import nn, ops
from graphls.frontend.tensors.pytree import leaves
from graphls.ir.types import DTYPES

HERE = Path(__file__).parent
NAMES = {dtype.long_name for dtype in DTYPES}
STEPS = (1e-5, 1e-6, 1e-7)
TOLERANCE = 1e-5
HALVES = {"float16": 2**-9, "bfloat16": 2**-6}
"""What two roundings of a 16-bit float may differ by."""


@dataclass
class Case:
    """A test of one's own in the form of those of ONNX."""

    name: str
    model: ModelProto
    data_sets: list[Any]
    rtol: float = 1e-3
    atol: float = 1e-7


@cache
def modules() -> list[str]:
    """The modules that make the tests, each of one operator."""
    found = [name for _, name, _ in pkgutil.iter_modules(cases_of_nodes.__path__) if name != "ai_onnx_ml"]
    inner = importlib.import_module(f"{cases_of_nodes.__name__}.ai_onnx_ml")
    return [*found, *(f"ai_onnx_ml.{name}" for _, name, _ in pkgutil.iter_modules(inner.__path__))]


def collect(names: Iterable[str]) -> list[Any]:
    """The tests that some modules make when they are imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            importlib.import_module(f"{cases_of_nodes.__name__}.{name}")
    return list(cases_of_nodes._NodeTestCases)


@cache
def left_out() -> dict[str, str]:
    """The reasons for patterns of names."""
    lines = (HERE / "left_out.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))  # type: ignore[misc]


def reason(case: Any, kind: str) -> str:
    """Why a test is left out; empty where it runs."""
    given = [a for arrays in data_of(case) for array in arrays for a in (array if isinstance(array, list) else [array])]
    if not all(isinstance(a, (np.ndarray, np.generic)) and a.dtype.name in NAMES for a in given):
        return "types"
    named = (case.name, f"{kind} of {case.name}")
    return next((w for pattern, w in left_out().items() if any(re.fullmatch(pattern, name) for name in named)), "")


def data_of(case: Any) -> tuple[list[Any], list[Any]]:
    """The inputs and the expected outputs of a test: arrays, and lists of them for sequences."""
    inputs, outputs = ([_array(item) for item in items] for items in case.data_sets[0])
    return inputs, outputs


def _array(item: Any) -> Any:
    if isinstance(item, TensorProto):
        return numpy_helper.to_array(item)
    return list(map(_array, item)) if isinstance(item, (list, tuple)) else item


def names_of(model: ModelProto) -> list[str]:
    """The inputs of a model without those that have a value."""
    held = {tensor.name for tensor in model.graph.initializer}
    return [info.name for info in model.graph.input if info.name not in held]


def training(model: ModelProto) -> bool:
    """Whether a test is about batch normalisation in training."""
    return any(
        node.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i for a in node.attribute)
        for node in model.graph.node
    )


def loaded(model: ModelProto, arrays: list[Any], by_floats: bool = False) -> tuple[Any, list[Any]]:
    """The network, and those of the inputs that are not shapes and the like; for gradients only floats may be data."""
    names = names_of(model)
    net = graphls.onnx.load(model)
    shaping = set(net.shaping)
    if by_floats and net.program.is_dynamic:
        shaping.update(name for name, a in zip(names, arrays, strict=False) if np.asarray(a).dtype.kind != "f")
    fixed = {name: array for name, array in zip(names, arrays, strict=False) if name in shaping}
    net = graphls.onnx.load(model, fixed=fixed)
    net.set_train(training(model))
    return net, [a for name, a in zip(names, arrays, strict=False) if name not in shaping]


def check_outputs(case: Any, backend: str = "onnxruntime") -> None:
    """Assert that a test gives the expected outputs, through import, passes and the runtime."""
    inputs, expected = data_of(case)
    net, arrays = loaded(case.model, inputs)
    tensors = [_tensor(array) for array in arrays]
    # What has a shape that depends on data comes of a call of the network itself.
    found = net(*tensors) if net.program.is_dynamic else graphls.compile(net, *tensors, backend=backend)(*tensors)
    for result, wanted in zip(leaves(found), leaves(expected), strict=True):
        array, right = result.asnumpy(), np.asarray(wanted)
        assert (array.dtype, array.shape) == (right.dtype, right.shape)
        rtol = max(case.rtol, HALVES.get(array.dtype.name, 0))
        # Of a Fourier transform, what should be 0 is as exact as the largest number.
        atol = 2**-24 * float(abs(right).max()) if case.name.startswith("test_dft") else case.atol
        np.testing.assert_allclose(_wide(array), _wide(right), rtol=rtol, atol=atol)


def _tensor(array: Any) -> Any:
    return [_tensor(a) for a in array] if isinstance(array, list) else graphls.Tensor(np.asarray(array))


def _wide(array: Any) -> Any:
    return array.astype(np.float64) if array.dtype.name in (*HALVES, "float32") else array


def check_gradient(case: Any, seed: int = 0) -> str:
    """Assert that the gradient agrees with differences along random directions; returns why there is none."""
    inputs, _ = data_of(case)
    if any(isinstance(a, list) for a in inputs):
        return "no floats but in sequences"
    net, arrays = loaded(in_double(case.model), [_double(a) for a in inputs], by_floats=True)
    positions = tuple(i for i, array in enumerate(arrays) if array.dtype == np.float64)
    draw = np.random.default_rng(seed)
    for i in positions:  # many tests have numbers at which a function has a kink, or the same number twice
        arrays[i] = arrays[i] + 1e-3 * draw.normal(size=arrays[i].shape)
    tensors = [graphls.Tensor(array) for array in arrays]
    if not positions or not isinstance(weighted(net, tensors), graphls.Tensor):
        return "no floats"
    forward = graphls.compile(_Weighted(net), *tensors, backend="numpy")
    backward = graphls.compile(_Gradient(net, positions), *tensors, backend="numpy")
    found = backward(*tensors)
    gradients = found if isinstance(found, tuple) else (found,)
    for _ in range(2):
        direction = {i: np.where(np.isfinite(arrays[i]), draw.normal(size=arrays[i].shape), 0.0) for i in positions}
        pairs = ((g.asnumpy(), direction[i]) for i, g in zip(positions, gradients, strict=True))
        slope = sum(float((g[d != 0] * d[d != 0]).sum()) for g, d in pairs)
        errors = [_error(forward, arrays, direction, step, slope) for step in STEPS]
        assert min(errors) < TOLERANCE, (slope, errors)
    return ""


def _error(forward: Any, arrays: list[Any], direction: dict[int, Any], step: float, slope: float) -> float:
    def at(way: float) -> float:
        moved = [a + way * direction[i] if i in direction else a for i, a in enumerate(arrays)]
        return float(forward(*map(graphls.Tensor, moved)).asnumpy())

    measured = (at(step) - at(-step)) / (2 * step)
    return abs(measured - slope) / max(1, abs(measured), abs(slope))


def weighted(net: Any, inputs: Any) -> Any:
    """The float outputs of a network, times random numbers, as one sum."""
    results = net(*inputs)
    draw, total = np.random.default_rng(1), 0.0
    for result in results if isinstance(results, tuple) else (results,):
        if isinstance(result, graphls.Tensor) and result.dtype.is_float:
            finite = ops.where(ops.isfinite(result), result, ops.zeros_like(result))
            total = total + ops.sum(finite * graphls.Tensor(draw.normal(size=result.shape)))
    return total


class _Weighted(nn.Cell):
    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def construct(self, *inputs: Any) -> Any:
        return weighted(self.net, inputs)


class _Gradient(_Weighted):
    def __init__(self, net: Any, positions: tuple[int, ...]) -> None:
        super().__init__(net)
        self.positions = positions

    def construct(self, *inputs: Any) -> Any:
        return ops.grad(lambda *xs: weighted(self.net, xs), self.positions)(*inputs)


def _double(array: Any) -> Any:
    array = np.asarray(array)
    return array.astype(np.float64) if array.dtype == np.float32 else array


def in_double(model: ModelProto) -> ModelProto:
    """The model with float64 wherever it has float32."""
    wide = ModelProto()
    wide.CopyFrom(model)
    _widen_graph(wide.graph)
    for function in wide.functions:
        for node in function.node:
            _widen_node(node)
    return wide


def _widen_graph(graph: GraphProto) -> None:
    for info in (*graph.input, *graph.output, *graph.value_info):
        _widen_type(info.type)
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        _widen_node(node)


def _widen_type(kind: TypeProto) -> None:
    if kind.HasField("tensor_type") and kind.tensor_type.elem_type == TensorProto.FLOAT:
        kind.tensor_type.elem_type = TensorProto.DOUBLE


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def _widen_node(node: NodeProto) -> None:
    if node.op_type == "ConstantOfShape" and not node.attribute:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
    for attribute in node.attribute:
        if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            value = np.array(attribute.f if attribute.name == "value_float" else attribute.floats, np.float64)
            attribute.Clear()
            attribute.name, attribute.type = "value", AttributeProto.TENSOR
            attribute.t.CopyFrom(numpy_helper.from_array(value))
        elif attribute.HasField("t"):
            _widen_tensor(attribute.t)
        elif attribute.HasField("g"):
            _widen_graph(attribute.g)
        elif attribute.name in ("to", "dtype", "stash_type") and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.DOUBLE


def verdict_of_loading(case: Any) -> str:
    """Why the model of a test is no cell; empty where it is one."""
    try:
        graphls.onnx.load(case.model)
    except graphls.GraphlsError as error:
        return str(error)
    return ""


def check_file(case: Any) -> None:
    """Assert that the model of a test is the same bytes when it has been loaded and saved, also with data apart."""
    with tempfile.TemporaryDirectory() as folder:
        inside, outside = Path(folder) / "in" / "model.onnx", Path(folder) / "out" / "model.onnx"
        inside.parent.mkdir()
        onnx.save(case.model, inside)
        onnx.save(case.model, inside.parent / "apart.onnx", save_as_external_data=True, size_threshold=0,
                  location="data.bin", convert_attribute=True)  # fmt: skip
        for path in sorted(inside.parent.glob("*.onnx")):
            graphls.onnx.save(graphls.onnx.load(path), outside)
            assert outside.read_bytes() == path.read_bytes()
        if (inside.parent / "data.bin").exists():
            assert (outside.parent / "data.bin").read_bytes() == (inside.parent / "data.bin").read_bytes()


def verdict(case: Any, kind: str) -> str:
    """What a test comes to: "ok", why it is left out, or the error."""
    why = reason(case, kind) if kind != "file" else ""
    if why:
        return f"left out ({why})"
    try:
        if kind == "file":
            check_file(case)
            return "ok"
        if kind == "gradient":
            return check_gradient(case) or "ok"
        check_outputs(case)
    except Exception as error:
        if "does not compute" in str(error) or "not in the table" in str(error):
            return "left out (operators)"
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return "ok"


def main(pattern: str = "", kinds: tuple[str, ...] = ("outputs", "gradient", "file")) -> int:
    """Run all tests whose names have a pattern in them."""
    cases = [case for case in collect(modules()) if re.search(pattern, case.name)]
    wrong = 0
    for kind in kinds:
        begin, counts = time.process_time(), Counter[str]()
        for case in cases:
            found = verdict(case, kind)
            known = found if found.startswith(("ok", "no ", "left out")) else "wrong"
            counts[known] += 1
            if known == "wrong":
                wrong += 1
                print(f"{kind} of {case.name}: {found}", flush=True)
        print(f"{kind}: {dict(counts)} in {time.process_time() - begin:.0f} s", flush=True)
    return wrong


if __name__ == "__main__":
    print(onnx.__version__)
    sys.exit(bool(main(*sys.argv[1:2])))
