"""Convolution and pooling against plain loops, over strides, padding, dilations and groups."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphls.primitives  # noqa: F401
from graphls.ir import Builder, Graph, Value, interpret
from graphls.ir.registry import operations
from graphls.ir.types import Type, float32, type_of
from graphls.primitives.primitive import Array
from graphls.runtime.lowering import lower

GEOMETRIES = [
    {"strides": s, "pads": p, "dilations": d, "groups": g}
    for s, p, d, g in product([(1, 1), (2, 3)], [(0, 0, 0, 0), (1, 2, 0, 1), (3, 0, 2, 4)], [(1, 1), (2, 1)], [1, 2])
]
POOLS = [
    {"kernel": k, "strides": s, "pads": p}
    for k, s, p in product([(2, 2), (3, 2)], [(1, 1), (2, 2), (3, 1)], [(0, 0, 0, 0), (1, 0, 0, 1), (1, 1, 1, 1)])
]


def _samples(primitive: Any) -> Any:
    module = type(primitive).__module__
    return primitive.samples if module.endswith((".convolution", ".pooling")) else ()


def apply(name: str, arrays: list[Array], **attrs: Any) -> tuple[list[Array], list[Array]]:
    """The results of one primitive in the interpreter and on ONNX Runtime."""
    inputs = tuple(Value(f"x{i}", type_of(a)) for i, a in enumerate(arrays))
    e = Builder()
    outputs = e.emit(name, inputs, attrs)
    graph = Graph("one", inputs, (), tuple(e.nodes), (), outputs)
    lowered = lower(graph)
    session = onnxruntime.InferenceSession(lowered.model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(list(lowered.outputs), dict(zip(lowered.inputs, arrays, strict=True)))
    return interpret(graph, arrays)[0], list(found)


def naive_convolution(x: Array, w: Array, strides: Any, pads: Any, dilations: Any, groups: int) -> Array:
    """Seven loops, in float64."""
    top, left, bottom, right = pads
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    outputs, inputs, height, width = w.shape
    rows = (x.shape[2] - dilations[0] * (height - 1) - 1) // strides[0] + 1
    columns = (x.shape[3] - dilations[1] * (width - 1) - 1) // strides[1] + 1
    y = np.zeros((x.shape[0], outputs, rows, columns))
    for n, o, r, c in np.ndindex(*y.shape):
        group = o // (outputs // groups)
        for i, h, v in np.ndindex(inputs, height, width):
            row, column = r * strides[0] + h * dilations[0], c * strides[1] + v * dilations[1]
            y[n, o, r, c] += x[n, group * inputs + i, row, column] * w[o, i, h, v]
    return y


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_convolution_and_its_adjoints(geometry: dict[str, Any]) -> None:
    """<g, conv(x, w)> is linear in x and in w, so that the adjoints follow from the loops on unit arrays."""
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 4, 7, 6)).astype(np.float32)
    w = random.normal(size=(2, 4 // geometry["groups"], 3, 2)).astype(np.float32)
    y = naive_convolution(x, w, **geometry)
    g = random.normal(size=y.shape).astype(np.float32)
    for found in apply("convolution", [x, w], **geometry):
        np.testing.assert_allclose(found[0], y, rtol=1e-4, atol=1e-4)
    for found in apply("convolution_input_gradient", [g, w], shape=x.shape, **geometry):
        check_adjoint(found[0], x, lambda u: np.sum(g * naive_convolution(u, w, **geometry)))
    for found in apply("convolution_weight_gradient", [x, g], shape=w.shape, **geometry):
        check_adjoint(found[0], w, lambda u: np.sum(g * naive_convolution(x, u, **geometry)))


ADJOINTS = {
    "turned kernels": ((3, 128, 9, 11), (130, 128, 3, 2), {"pads": (1, 0, 2, 1)}, "Conv"),
    "turned and dilated": ((2, 128, 14, 13), (128, 128, 2, 3), {"pads": (2, 4, 0, 1), "dilations": (2, 3)}, "Conv"),
    "turned along one axis": ((2, 128, 150), (128, 128, 3), {}, "Conv"),
    "turned volumes": ((2, 128, 6, 5, 7), (128, 128, 1, 2, 3), {"pads": (0, 1, 2, 0, 0, 0)}, "Conv"),
    "kernels of size 1": ((2, 65, 12, 12), (70, 65, 1, 1), {}, "Conv"),
    "one product": ((3, 65, 5, 4), (70, 65, 1, 1), {}, "MatMul"),
    "one window": ((1, 65, 1, 1), (70, 65, 1, 1), {}, "MatMul"),
    "strides": ((2, 128, 24, 24), (128, 128, 3, 3), {"strides": (2, 2)}, "ConvTranspose"),
    "more padding than kernel": ((2, 128, 12, 12), (128, 128, 2, 2), {"pads": (2, 0, 0, 0)}, "ConvTranspose"),
    "padded kernels of size 1": ((2, 128, 12, 12), (128, 128, 1, 1), {"pads": (1, 1, 1, 1)}, "ConvTranspose"),
    "groups": ((2, 256, 12, 12), (256, 128, 2, 2), {"groups": 2}, "ConvTranspose"),
    "few channels": ((2, 64, 12, 12), (128, 64, 3, 3), {}, "ConvTranspose"),
}


@pytest.mark.parametrize("name", ADJOINTS)
def test_the_forms_of_the_adjoint_give_the_same_numbers(name: str) -> None:
    shape, kernels, geometry, form = ADJOINTS[name]
    random = np.random.default_rng(0)
    w = random.normal(size=kernels).astype(np.float32)
    x = Value("x", Type(float32, shape)), Value("w", Type(float32, kernels))
    (y,) = Builder().emit("convolution", x, geometry)
    g = random.normal(size=y.type.shape).astype(np.float32)
    expected, found = apply("convolution_input_gradient", [g, w], shape=shape, **geometry)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-3)
    assert form in operators_of_adjoint(g, w, shape, geometry, "cpu")
    assert "ConvTranspose" in operators_of_adjoint(g, w, shape, geometry, "cuda")


def operators_of_adjoint(g: Array, w: Array, shape: Any, geometry: Any, device: str) -> list[str]:
    """The operators of the model of one adjoint."""
    e, inputs = Builder(), (Value("g", type_of(g)), Value("w", type_of(w)))
    outputs = e.emit("convolution_input_gradient", inputs, {"shape": shape, **geometry})
    model = lower(Graph("one", inputs, (), tuple(e.nodes), (), outputs), device=device).model
    return [node.op_type for node in model.graph.node]


def check_adjoint(gradient: Array, like: Array, functional: Any) -> None:
    """A linear functional's value is the inner product with its gradient, at a random point and at units."""
    random = np.random.default_rng(1)
    points = [random.normal(size=like.shape)]
    for at in random.integers(0, like.size, 3):
        points.append(np.eye(1, like.size, at).reshape(like.shape))
    for point in points:
        assert float(np.sum(gradient * point)) == pytest.approx(float(functional(point)), rel=1e-3, abs=1e-3)


def naive_pool(x: Array, kernel: Any, strides: Any, pads: Any) -> tuple[Array, Array, Array, Array]:
    """Largest, its position, mean without and with padding, by loops."""
    top, left, bottom, right = pads
    rows = (x.shape[2] + top + bottom - kernel[0]) // strides[0] + 1
    columns = (x.shape[3] + left + right - kernel[1]) // strides[1] + 1
    shape = (*x.shape[:2], rows, columns)
    largest, places = np.zeros(shape, x.dtype), np.zeros(shape, np.int64)
    inside, padded = np.zeros(shape, x.dtype), np.zeros(shape, x.dtype)
    for n, c, r, s in np.ndindex(*shape):
        seen = []
        for h, v in np.ndindex(*kernel):
            row, column = r * strides[0] + h - top, s * strides[1] + v - left
            if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
                seen.append((x[n, c, row, column], np.ravel_multi_index((n, c, row, column), x.shape)))
        values = [value for value, _ in seen]
        first = int(np.argmax(values))
        largest[n, c, r, s], places[n, c, r, s] = seen[first]
        inside[n, c, r, s] = np.mean(values)
        padded[n, c, r, s] = np.sum(values) / (kernel[0] * kernel[1])
    return largest, places, inside, padded


@pytest.mark.parametrize("geometry", POOLS, ids=str)
def test_pooling(geometry: dict[str, Any]) -> None:
    """The images hold few distinct numbers, so that most windows have ties."""
    x = np.random.default_rng(0).integers(-3, 4, (2, 2, 7, 6)).astype(np.float32)
    largest, places, inside, padded = naive_pool(x, **geometry)
    for found in apply("max_pool", [x], **geometry):
        np.testing.assert_array_equal(found[0], largest)
        np.testing.assert_array_equal(found[1], places)
    for include, expected in ((False, inside), (True, padded)):
        for found in apply("avg_pool", [x], count_include_pad=include, **geometry):
            np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)
        check_average_gradient(x, expected, include, geometry)


def check_average_gradient(x: Array, y: Array, include: bool, geometry: dict[str, Any]) -> None:
    g = np.random.default_rng(1).normal(size=y.shape).astype(np.float32)
    index = 3 if include else 2
    for found in apply("avg_pool_gradient", [g], shape=x.shape, count_include_pad=include, **geometry):
        assert float(np.sum(found[0] * x)) == pytest.approx(float(np.sum(g * y)), rel=1e-3, abs=1e-3)
        for at in (0, 17, x.size - 1):
            unit = np.eye(1, x.size, at, dtype=np.float64).reshape(x.shape)
            expected = np.sum(g * naive_pool(unit, **geometry)[index])
            assert found[0].reshape(-1)[at] == pytest.approx(expected, abs=1e-5)


DOUBLES = [pytest.param(p, s, id=f"{p.name}-{i}") for p in operations() for i, s in enumerate(_samples(p))]


@pytest.mark.parametrize(("primitive", "sample"), DOUBLES)
def test_float64_is_computed_in_float64(primitive: Any, sample: Any) -> None:
    """The runtime has no such convolution or average, and float32 would be off by 1e-8."""
    random = np.random.default_rng(0)
    arrays = [random.normal(size=t.shape) for t in sample.types]
    expected, found = apply(primitive.name, arrays, **sample.attrs)
    for wanted, array in zip(expected, found, strict=True):
        assert array.dtype == wanted.dtype
        np.testing.assert_allclose(array, wanted, rtol=1e-13, atol=1e-13)
