"""Two numbers of float4 in a byte, as ONNX stores them."""

from __future__ import annotations

import numpy as np
import onnx.numpy_helper
import pytest
from onnx import TensorProto

import graphls
from graphls.inspect.testing.samples import run
from graphls.ir import Builder, Value, interpret, verify
from graphls.ir.types import Type, float4_e2m1fn, uint8
from graphls.runtime.lowering import lower
from graphls.runtime.xla.tracing import traced
from tests.low_precision.numbers import Array, bits, every


def graph_of(primitive: str, kind: Type, **attrs: int) -> graphls.Graph:
    x, e = Value("x", kind), Builder()
    y = getattr(e, primitive)(x, **attrs)
    return verify(graphls.Graph("main", (x,), (), tuple(e.nodes), (), (y,)))


def on_all_engines(graph: graphls.Graph, x: Array) -> list[Array]:
    jax = pytest.importorskip("jax")
    by_xla = jax.jit(lambda x: traced(jax, graph, [x])[0])(x)[0]
    return [np.asarray(interpret(graph, [x])[0][0]), run(lower(graph), graph, [x])[0], np.asarray(by_xla)]


def pairs() -> Array:
    """All pairs of numbers."""
    codes = np.stack(np.meshgrid(np.arange(16), np.arange(16)), -1).reshape(-1).astype(np.uint8)
    return codes.view(float4_e2m1fn.numpy)


def test_all_pairs_are_packed_as_onnx_packs_them() -> None:
    x = pairs()
    for result in on_all_engines(graph_of("pack", Type(float4_e2m1fn, x.shape)), x):
        codes = bits(x)
        np.testing.assert_array_equal(result, codes[0::2] | codes[1::2] << 4)
    if hasattr(TensorProto, "FLOAT4E2M1"):
        proto = onnx.numpy_helper.from_array(x)
        np.testing.assert_array_equal(np.frombuffer(proto.raw_data, np.uint8), result)


@pytest.mark.parametrize("shape", [(16,), (3, 4), (3, 5), (1,), (2, 3, 7)])
def test_unpacking_is_the_inverse(shape: tuple[int, ...]) -> None:
    x = np.resize(bits(every(float4_e2m1fn)), shape).view(float4_e2m1fn.numpy)
    for packed in on_all_engines(graph_of("pack", Type(float4_e2m1fn, shape)), x):
        assert packed.shape == (*shape[:-1], -(-shape[-1] // 2)) and packed.dtype == np.uint8
        for result in on_all_engines(graph_of("unpack", Type(uint8, packed.shape), size=shape[-1]), packed):
            np.testing.assert_array_equal(bits(result), bits(x))


def test_what_cannot_be_packed_says_so() -> None:
    with pytest.raises(TypeError, match="pack takes arrays of float4_e2m1fn"):
        graph_of("pack", Type(uint8, (4,)))
    with pytest.raises(TypeError, match="unpack takes arrays of uint8"):
        graph_of("unpack", Type(float4_e2m1fn, (4,)), size=8)
    with pytest.raises(ValueError, match="unpack makes 8 numbers of"):
        graph_of("unpack", Type(uint8, (4,)), size=6)
