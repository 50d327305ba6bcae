"""Functions of 16-bit floats give the float32 result, rounded once: compositions do not round in between."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError, Tensor, ops
from graphls.frontend.tensors.pytree import leaves
from graphls.ir.types import DType, bfloat16, float16

RANDOM = {"graphls.ops.randomness.random", "graphls.ops.randomness.distributions", "graphls.ops.network.network"}
OTHERS = {
    "eps",  # is another number in each dtype
    "rrelu", "dropout",  # draw
    "index_add", "inplace_add", "inplace_index_add", "inplace_sub",  # add one by one
    "addbmm", "addmm", "addmv", "baddbmm", "bidense", "scaled_dot_product_attention",  # round what a product gives
}  # fmt: skip
FUNCTIONS = {
    name: getattr(ops, name)
    for name in ops.__all__
    if inspect.isfunction(getattr(ops, name)) and getattr(ops, name).__module__ not in RANDOM and name not in OTHERS
}
"""Those that take one, two or three tensors of floats are tried with them; the others refuse them."""
MORE: dict[str, Callable[..., Any]] = {
    "gelu-tanh": lambda x: ops.gelu(x, "tanh"),
    "softplus": lambda x: ops.softplus(x, 2.0),
    "var": lambda x: ops.var(x, 0, 1),
    "norm": lambda x: ops.norm(x, 3),
    "logsumexp": lambda x: ops.logsumexp(x, 1),
    "glu": lambda x: ops.glu(x, 1),
}


def units(found: Any, expected: Any) -> Any:
    """How many numbers of the dtype lie between two arrays; nan is next to nan only."""
    a, b = (np.ascontiguousarray(array).view(np.int16).astype(np.int32) for array in (found, expected))
    a, b = (np.where(bits < 0, -(bits & 0x7FFF), bits) for bits in (a, b))
    nans = np.isnan(found.astype(np.float32)), np.isnan(expected.astype(np.float32))
    return np.where(nans[0] & nans[1], 0, np.where(nans[0] | nans[1], 2**16, np.abs(a - b)))


def operands(dtype: DType) -> Iterator[list[Tensor]]:
    """One to three tensors of ordinary numbers, of both signs and of one."""
    random = np.random.default_rng(0)
    for count, low, high in ((1, -4.0, 4.0), (1, 0.05, 1.0), (2, -4.0, 4.0), (2, 0.05, 300.0), (3, -4.0, 4.0)):
        yield [Tensor(random.uniform(low, high, (3, 6)), dtype) for _ in range(count)]


def results(function: Callable[..., Any], tensors: list[Tensor]) -> list[Any]:
    try:
        return leaves(function(*tensors))
    except (GraphlsError, TypeError):
        return []


def check(function: Callable[..., Any], tensors: list[Tensor]) -> None:
    dtype = tensors[0].dtype
    wide = [ops.cast(t, graphls.float32) for t in tensors]
    for found, expected in zip(results(function, tensors), results(function, wide), strict=False):
        if isinstance(found, Tensor) and found.dtype is dtype and expected.dtype is graphls.float32:
            once = expected.asnumpy().astype(dtype.numpy)
            assert units(found.asnumpy(), once).max(initial=0) <= 1, (found.asnumpy(), once)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*FUNCTIONS, *MORE])
def test_a_function_rounds_once(name: str) -> None:
    for dtype in (float16, bfloat16):
        for tensors in operands(dtype):
            check(MORE.get(name) or FUNCTIONS[name], tensors)


@pytest.mark.parametrize("backend", ["eager", "numpy", "onnxruntime"])
def test_results_that_were_lost_between_two_roundings(backend: str) -> None:
    def run(function: Callable[..., Any], dtype: str, *numbers: Any) -> Any:
        tensors = [Tensor(np.array(n), dtype) for n in numbers]
        called = function if backend == "eager" else graphls.compile(function, *tensors, backend=backend)
        return called(*tensors).asnumpy().astype(np.float64)

    np.testing.assert_allclose(run(ops.gelu, "float16", [-3.67]), [-4.45e-4], rtol=2e-3)
    np.testing.assert_allclose(run(ops.gelu, "bfloat16", [-3.125]), [-2.78e-3], rtol=8e-3)
    rows = np.array([300.0, 909.0] * 8)
    np.testing.assert_allclose(run(lambda x: ops.std(x, ddof=0), "float16", rows), 304.5, rtol=1e-3)
    np.testing.assert_allclose(run(ops.lerp, "bfloat16", [1.0], [1.0078125], [0.25]), [1.0], rtol=0)
    np.testing.assert_allclose(run(ops.lerp, "bfloat16", [-1.0], [1.0078125], [0.5]), [0.00390625], rtol=0)
    np.testing.assert_allclose(run(ops.addcmul, "bfloat16", [-1.0], [1.0234375], [1.0234375]), [0.0474243], rtol=4e-3)
