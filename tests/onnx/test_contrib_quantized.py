"""Operators on integers that ONNX Runtime's quantizer writes give what its kernels give; gradients pass through."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import numpy_helper

import graphls
import graphls.onnx
from graphls import ops
from tests.onnx.contrib_cases import RECENT, Operator
from tests.quantization.test_fake_quantize import digits

DRAW = np.random.default_rng(7)


def unit(x: float) -> Any:
    return np.array(x, np.float32)


def whole(dtype: Any, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    return DRAW.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def floats(*shape: int) -> Any:
    return DRAW.normal(size=shape).astype(np.float32)


def scales(*shape: int) -> Any:
    return np.asarray(DRAW.uniform(0.01, 0.05, shape), np.float32)


def zero(dtype: Any) -> Any:
    return np.array(DRAW.integers(100, 150) if dtype == np.uint8 else DRAW.integers(-20, 20), dtype)


def elementwise() -> Iterator[Operator]:
    for dtype, has_zero in product((np.uint8, np.int8), (True, False)):
        def z(of: Any = dtype, has: bool = has_zero) -> Any:
            return zero(of) if has else None

        for kind in ("QLinearAdd", "QLinearMul") if has_zero else ():
            for other in ((2, 3, 4), (4,), (1,), (3, 1)):
                operands = [whole(dtype, 2, 3, 4), scales(), z(), whole(dtype, *other), scales(), z()]
                yield Operator(kind, [*operands, unit(0.06), z()])
        x = whole(dtype, 2, 5, 4)
        yield Operator("QLinearSigmoid", [x, scales(), z(), unit(1 / 256), z()])
        yield Operator("QLinearLeakyRelu", [x, scales(), z(), scales(), z()], {"alpha": 0.2})
        yield Operator("QLinearLeakyRelu", [x, scales(), z(), scales(), z()])
        for opset, axis in product((12, 13), (1, -1, 2)):
            operands = [x, scales(), z(), unit(1 / 256), np.array(0 if dtype == np.uint8 else -128, dtype)]
            yield Operator("QLinearSoftmax", operands, {"opset": opset, "axis": axis})
        image = whole(dtype, 2, 3, 6, 5)
        for last in (0, 1):
            operands = [image, scales(), zero(dtype), unit(0.02), zero(dtype)]
            yield Operator("QLinearGlobalAveragePool", operands, {"channels_last": last})
            window = {"kernel_shape": [3, 2], "strides": [2, 1], "channels_last": last}
            yield Operator("QLinearAveragePool", operands, {**window, "pads": [1, 0, 1, 1]})
            # By channels first, ONNX Runtime also counts elements behind the padding, which ONNX does not.
            counted = {"count_include_pad": 1, "ceil_mode": last}
            yield Operator("QLinearAveragePool", operands, {**window, "pads": [1, 0, 1, 1], **counted})
        window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
        yield Operator("NhwcMaxPool", [whole(dtype, 2, 6, 5, 3)], window)
        parts = [each for n in (1, 3) for each in (whole(dtype, 2, n, 4), scales(), zero(dtype))]
        yield Operator("QLinearConcat", [scales(), zero(dtype), *parts], {"axis": 1}, constants=(0, 1, 3, 4, 6, 7))
        chosen = DRAW.random((2, 1, 4)) > 0.5
        pair = [each for n in (3, 1) for each in (whole(dtype, 2, n, 4), scales(), zero(dtype))]
        yield Operator("QLinearWhere", [chosen, *pair, scales(), zero(dtype)])


def products() -> Iterator[Operator]:
    for left, right in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
        a, b = whole(left, 5, 7), whole(right, 7, 3)
        for columns in (1, 3):
            of = (3,) if columns == 3 else ()
            points = np.resize(zero(right), of).astype(right)
            pair = [a, scales(), zero(left), b, scales(*of), points]
            for c, rest in product((None, whole(np.int16, 3).astype(np.int32)), ([], [unit(0.2), zero(left)])):
                constants = [4, 5] + ([7, 8] if rest else [])
                yield Operator("QGemm", [*pair, c, *rest], {"alpha": 1.0}, constants=constants)
            bias = floats(3)
            operands = [whole(left, 2, 5, 7), b, scales(), scales(*of), zero(left), points]
            yield Operator("MatMulIntegerToFloat", [*operands, bias], constants=(1, 3, 5))
            yield Operator("MatMulIntegerToFloat", operands[:4], constants=(1, 3))
            if left == np.uint8:
                operands = [floats(2, 5, 7), b, scales(*of), points, bias]
                yield Operator("DynamicQuantizeMatMul", operands, constants=(1, 2, 3))
                yield Operator("DynamicQuantizeMatMul", [floats(5, 7), b, scales(*of)], constants=(1, 2))
        pair = [whole(left, 7, 5), scales(), zero(left), whole(right, 3, 7), scales(), zero(right)]
        yield Operator("QGemm", [*pair, None, unit(0.2), zero(left)], {"transA": 1, "transB": 1, "alpha": 0.5})
        points = np.resize(np.array(0, right) if right == np.int8 else zero(right), 4).astype(right)
        kernels = [whole(right, 4, 2, 3, 3), scales(4), points]
        image = [whole(left, 1, 2, 5, 6), scales(), zero(left), *kernels, unit(0.3), zero(left)]
        bias = whole(np.int16, 4).astype(np.int32)
        yield Operator("QLinearConv", [*image, bias], {"pads": [1, 1, 1, 1]}, domain="", constants=(4, 5))
        image[0] = np.ascontiguousarray(np.moveaxis(image[0], 1, -1))
        shape = {"pads": [1, 1, 0, 0], "strides": [2, 1], "channels_last": 1}
        yield Operator("QLinearConv", [*image, bias], shape, constants=(4, 5))
    yield Operator("MatMulInteger16", [whole(np.int16, 4, 6) // 64, whole(np.int16, 6, 3) // 64])


def attention() -> Iterator[Operator]:
    for dtype, has_past, mask, causal in product((np.uint8, np.int8), (False, True), (0, 1, 2), (0, 1)):
        x, w = whole(np.uint8, 2, 4, 6), whole(dtype, 6, 24)
        masks = [None, np.array([3, 4], np.int32), np.array([[1, 1, 0, 1], [1, 1, 1, 1]], np.int32)]
        if has_past and mask == 2:
            masks[2] = np.array([[1, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1]], np.int32)
        past = floats(2, 2, 2, 2, 4) if has_past else None
        operands = [x, w, floats(24), unit(0.01), unit(0.01), masks[mask], zero(np.uint8), zero(dtype), past]
        outputs = (True, True) if has_past else (True,)
        attributes = {"num_heads": 2, "unidirectional": causal}
        yield Operator("QAttention", operands, attributes, outputs, constants=(1, 3, 4, 6, 7))


def embeddings() -> Iterator[Operator]:
    ids = np.array([[1, 2, 3], [0, 1, 4]], np.int32)
    for has_segments, mask in product((True, False), (None, np.array([[1, 1, 0], [1, 1, 1]], np.int32))):
        tables = [whole(np.uint8, n, 8) for n in (5, 4, 2)] + [whole(np.uint8, 8), whole(np.uint8, 8)]
        units, points = [scales() for _ in range(5)], [zero(np.uint8) for _ in range(5)]
        if not has_segments:
            tables[2] = units[2] = points[2] = None
        operands = [ids, ids // 3 if has_segments else None, *tables, mask, *units, *points]
        yield Operator("QEmbedLayerNormalization", operands, {"epsilon": 1e-5}, (True, True), constants=range(8, 18)
                       if has_segments else [8, 9, 11, 12, 13, 14, 16, 17])  # fmt: skip


def lstms() -> Iterator[Operator]:
    settings = product((np.uint8, np.int8), ("forward", "reverse", "bidirectional"), (False, True))
    for dtype, direction, by_column in settings:
        ways, size, width, batch = 2 if direction == "bidirectional" else 1, 3, 5, 1
        units = (ways, 4 * size) if by_column else (ways,)
        point = np.zeros(units, dtype) if dtype == np.int8 else np.full(units, 128, dtype)
        for has_states in (False, True):
            states = [floats(ways, batch, size) if has_states else None for _ in range(2)]
            operands = [
                floats(4, batch, width), whole(dtype, ways, width, 4 * size), whole(dtype, ways, size, 4 * size),
                floats(ways, 8 * size), np.array([3], np.int32) if has_states else None, *states,
                floats(ways, 3 * size) if has_states else None, scales(*units) / 5, point, scales(*units) / 5, point,
            ]  # fmt: skip
            attributes, held = {"hidden_size": size, "direction": direction}, (1, 2, 8, 9, 10, 11)
            yield Operator("DynamicQuantizeLSTM", operands, attributes, (True, True, True), held)


def few_bits() -> Iterator[Operator]:
    for bits, block, has_zeros, has_bias in product((4, 8), (16, 32), (False, True), (False, True)):
        rows, columns = 6, 40
        blocks = -(-columns // block)
        packed = whole(np.uint8, rows, blocks, block * bits // 8)
        zeros = whole(np.uint8, rows, -(-blocks * bits // 8)) if has_zeros else None
        bias = floats(rows) if has_bias else None
        operands = [floats(2, 3, columns), packed, scales(rows, blocks), zeros, None, bias]
        shape = {"K": columns, "N": rows, "bits": bits, "block_size": block}
        held = (1, 2, 3) if has_zeros else (1, 2)
        yield Operator("MatMulNBits", operands, shape, constants=held)
        if bits == 4 and not has_bias:
            operands[3] = floats(rows, blocks) * 3 + 8 if has_zeros else None
            yield Operator("MatMulNBits", operands[:4], shape, constants=held)
            group = DRAW.permutation(np.arange(blocks * block) // block).astype(np.int32)
            yield Operator("MatMulNBits", [*operands[:4], group], shape, constants=(*held, 4))
    for kind in (0, 1):
        shape = {"K": 32, "N": 6, "block_size": 16, "quant_type": kind}
        yield Operator("MatMulBnb4", [floats(5, 32), whole(np.uint8, 6 * 16), scales(12)], shape, constants=(1, 2))
    for bits, has_zeros in product((4, 8), (False, True)):
        packed, ids = whole(np.uint8, 7, 32 * bits // 8), np.array([[1, 6], [0, 3]], np.int64)
        zeros = whole(np.uint8, 7, -(-2 * bits // 8)) if has_zeros else None
        shape = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
        held = (0, 2, 3)[: 2 + has_zeros]
        yield Operator("GatherBlockQuantized", [packed, ids, scales(7, 2), zeros], shape, constants=held)


CASES = {
    "elementwise": elementwise, "products": products, "attention": attention, "embeddings": embeddings,
    "lstms": lstms, "few_bits": few_bits,
}  # fmt: skip


def check(case: Operator) -> str:
    """How a result differs from ONNX Runtime's; empty where it does not."""
    expected = case.expected()
    net = graphls.onnx.load(case.model())
    step = graphls.compile(net, *case.inputs.values(), backend="numpy")
    results = step(*case.inputs.values())
    for y, wanted in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
        found = y.asnumpy()
        if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
            return f"{case}: {found.dtype}{found.shape}, not {wanted.dtype}{wanted.shape}"
        # A quotient that lies between two integers is one of them, by the last bit of a float.
        apart = abs(found.astype(np.float64) - wanted)
        if found.dtype.kind != "f":
            is_close = apart.max() <= (0 if found.dtype.itemsize > 1 else 1) and (apart > 0).mean() < 0.05
        else:
            is_close = bool(np.allclose(found, wanted, 1e-4, 1e-4 * max(1.0, float(abs(wanted).max()))))
        if not is_close:
            return f"{case}: {apart.max()} apart, {(apart > 0).mean():.2f} differ"
    return ""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.skipif(not RECENT, reason="the kernels of this release differ")
def test_operators_give_what_onnx_runtime_gives(name: str) -> None:
    wrong = []
    for case in CASES[name]():
        try:
            wrong.append(check(case))
        except Exception as error:
            wrong.append(f"{case}: {type(error).__name__}: {str(error)[:300]}")
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_gradients_pass_through_integers_as_through_floats() -> None:
    """A convolution, pooling, a product and a sum in integers are linear inside of their ranges."""
    w, m = whole(np.int8, 4, 2, 3, 3), whole(np.int8, 36, 3)
    text = """
    <ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>
    net (float[2, 2, 7, 7] x) => (float[2, 3] y)
    <float s = {0.05}, uint8 z = {128}, float t = {0.01}, int8 n = {0}, float u = {0.2}, float v = {0.5}>
    {
        q = QuantizeLinear(x, s, z)
        c = QLinearConv <strides = [2, 2], pads = [1, 1, 0, 0]> (q, s, z, w, t, n, u, z)
        p = com.microsoft.QLinearAdd(c, u, z, c, u, z, v, z)
        r = com.microsoft.QLinearConcat <axis = 1> (u, z, p, v, z)
        f = Flatten(r)
        g = com.microsoft.QGemm(f, u, z, m, t, n, , v, z)
        y = DequantizeLinear(g, v, z)
    }
    """
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend([numpy_helper.from_array(w, "w"), numpy_helper.from_array(m, "m")])
    x = floats(2, 2, 7, 7) / 4
    net = graphls.onnx.load(model)
    found = graphls.compile(lambda x: graphls.grad(lambda x: ops.sum(net(x)))(x), x)(x).asnumpy()
    assert isinstance(found, np.ndarray) and net(graphls.Tensor(x)).asnumpy().shape == (2, 3)
    kernel, matrix = graphls.Tensor(w * unit(0.01)), graphls.Tensor(m * unit(0.01))

    def plain(x: Any) -> Any:
        y = ops.conv2d(ops.pad(x, (1, 0, 1, 0)), kernel, stride=2)
        return ops.sum(ops.matmul(ops.reshape(2 * y, (2, -1)), matrix))

    expected = graphls.compile(lambda x: graphls.grad(plain)(x), x)(x).asnumpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["DynamicQuantizeLSTM", "DynamicQuantizeMatMul"])
def test_gradients_of_dynamic_quantization(kind: str) -> None:
    """The gradient is nearly a difference over many steps of the integers."""
    case = next(case for case in (*lstms(), *products()) if case.kind == kind)
    net, x = graphls.onnx.load(case.model()), case.inputs["x0"]
    rest = [value for name, value in case.inputs.items() if name != "x0"]

    def total(x: Any) -> Any:
        y = net(x, *rest)
        return ops.sum(ops.square(y[0] if isinstance(y, tuple) else y))

    found = graphls.compile(lambda x: graphls.grad(total)(x), x)(x).asnumpy()
    step, direction = 0.1 * np.abs(x).max(), floats(*x.shape)
    forward = graphls.compile(total, x)
    ends = [float(forward(x + side * step * direction).asnumpy()) for side in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * step)
    assert slope == pytest.approx(float((found * direction).sum()), rel=0.1)


def test_integers_that_nothing_reads_as_floats_are_computed_once() -> None:
    """The floats of a Quantized are no second forward."""
    case = next(c for c in products() if c.kind == "QLinearConv")
    step = graphls.compile(graphls.onnx.load(case.model()), *case.inputs.values())
    assert sum(node.primitive.name == "convolution" for node in step.graph.nodes) == 1


@pytest.mark.skipif(not RECENT, reason="the quantizer of this release differs")
@pytest.mark.parametrize("form", ["dynamic", "operators"])
def test_what_the_quantizer_writes_gives_its_numbers_and_gradients(form: str, tmp_path: Path) -> None:
    """A network of convolutions and products behind ONNX Runtime's own quantizer."""
    quantizer = pytest.importorskip("onnxruntime.quantization")
    source, target, x = tmp_path / "net.onnx", tmp_path / "quantized.onnx", floats(3, 1, 8, 8)
    onnx.save(digits(), source)
    if form == "dynamic":
        quantizer.quantize_dynamic(source, target, weight_type=quantizer.QuantType.QUInt8)
    else:

        class Reader(quantizer.CalibrationDataReader):  # type: ignore[misc]
            def __init__(self) -> None:
                self.rows = iter([{"x": x}])

            def get_next(self) -> Any:
                return next(self.rows, None)

        quantizer.quantize_static(source, target, Reader(), quant_format=quantizer.QuantFormat.QOperator)
    net = graphls.onnx.load(target)
    found = net(graphls.Tensor(x)).asnumpy()
    (expected,) = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(found, expected, atol=np.ptp(expected) / 50)
    slope = graphls.compile(lambda x: graphls.grad(lambda x: ops.sum(ops.square(net(x))))(x), x)(x).asnumpy()
    plain = graphls.onnx.load(source)
    wanted = graphls.compile(lambda x: graphls.grad(lambda x: ops.sum(ops.square(plain(x))))(x), x)(x).asnumpy()
    cosine = float((slope * wanted).sum()) / float(np.linalg.norm(slope) * np.linalg.norm(wanted))
    assert cosine > 0.9


def test_what_differs_behind_a_resize_lies_between_two_integers() -> None:
    """A linear resize of integers gives many halves, which the last bit of a float32 rounds up or down."""
    model = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["": 13]>
    net (float[1, 4, 8, 8] x) => (float[1, 4, 16, 16] y)
    <float s = {0.0125821}, int8 z = {-128}, float[4] sizes = {1, 1, 2, 2}>
    {
        q = QuantizeLinear(x, s, z)
        d = DequantizeLinear(q, s, z)
        r = Resize <mode = "linear"> (d, , sizes)
        p = QuantizeLinear(r, s, z)
        y = DequantizeLinear(p, s, z)
    }
    """)
    x, s = np.abs(floats(1, 4, 8, 8)), np.float64(np.float32(0.0125821))
    found = graphls.onnx.load(model)(graphls.Tensor(x)).asnumpy()
    options = onnxruntime.SessionOptions()
    # 1.19.2 resizes the integers themselves and truncates them where it may rewrite the model.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    rounded = np.clip(np.rint(x / np.float32(s)), 0, 255).astype(np.float64)
    wide = np.pad(rounded, [(0, 0), (0, 0), (1, 1), (1, 1)], mode="edge")
    for axis in (2, 3):
        before, at, after = (np.take(wide, np.arange(8) + i, axis) for i in (0, 1, 2))
        pairs = np.stack([0.25 * before + 0.75 * at, 0.75 * at + 0.25 * after], axis + 1)
        wide = pairs.reshape(*pairs.shape[:axis], 16, *pairs.shape[axis + 2 :])
    is_half = np.abs(wide - np.floor(wide) - 0.5) < 1e-3
    assert is_half.mean() > 0.02
    np.testing.assert_allclose(found[~is_half], expected[~is_half], rtol=1e-6)
    assert np.abs(found - expected).max() < 1.001 * s


def test_a_scale_without_bounds_quantizes_finite_numbers_to_the_zero_point() -> None:
    """The quantizer of ONNX Runtime writes such scales behind masks of -inf; it does not define what -inf becomes."""
    model = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["": 13]>
    net (float[4] x) => (int8[4] y) <float s = {1}, int8 z = {3}>
    { y = QuantizeLinear(x, s, z) }
    """)
    next(t for t in model.graph.initializer if t.name == "s").CopyFrom(numpy_helper.from_array(np.float32("inf"), "s"))
    x = np.array([0, -2, 3e38, -np.inf], np.float32)
    found = graphls.onnx.load(model)(graphls.Tensor(x)).asnumpy()
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert found.tolist()[:3] == expected.tolist()[:3] == [3, 3, 3]
