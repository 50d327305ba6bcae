"""Every primitive on every one of its samples: types, gradients, ONNX, text, docstring."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls.primitives  # noqa: F401
from graphls.inspect.testing import laws
from graphls.inspect.testing.samples import single
from graphls.ir import DType, interpret
from graphls.ir.registry import operations
from graphls.ir.types import bfloat16, float16, float32, float64, type_of
from graphls.primitives.primitive import Sample
from graphls.runtime.lowering import lower

LOOPS = {"product_of_rounds", "scan", "sum_of_rounds", "while_loop"}
HOST_CALLS = {"print", "pure_callback", "py_func"}
COLLECTIVES = {
    "all_gather", "all_reduce", "all_reduce_where", "all_to_all", "barrier", "broadcast", "gather_shards",
    "neighbor_exchange", "reduce_scatter", "reduce_shards", "reduce_to",
}  # fmt: skip
WITHOUT_SAMPLES = {
    "composition", "cond", "custom_gradient", "gradient", "overflow_start", "segment", *LOOPS, *HOST_CALLS,
    *COLLECTIVES,
}  # fmt: skip
PRIMITIVES: list[Any] = [p for p in operations() if type(p).__module__.startswith("graphls.primitives")]
CASES = [pytest.param(p, s, id=f"{p.name}-{i}") for p in PRIMITIVES for i, s in enumerate(p.samples)]
SMOOTH = [case for case in CASES if laws.is_smooth(case.values[1])]  # type: ignore[arg-type]
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda p: p.name)
def test_a_docstring_and_samples_stand(primitive: Any) -> None:
    if primitive.name not in WITHOUT_SAMPLES:
        laws.is_stated(primitive)


@pytest.mark.parametrize(("primitive", "sample"), CASES)
@pytest.mark.parametrize("dtype", laws.LAWS[laws.has_types_of_numpy], ids=str)
def test_the_type_rule_agrees_with_numpy(primitive: Any, sample: Sample, dtype: DType) -> None:
    laws.has_types_of_numpy(primitive, sample, dtype)


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_the_text_reads_back(primitive: Any, sample: Sample) -> None:
    laws.reads_back(primitive, sample, float32)


@pytest.mark.parametrize(("primitive", "sample"), SMOOTH)
def test_the_gradient_is_the_slope(primitive: Any, sample: Sample) -> None:
    laws.has_gradient(primitive, sample, float64)


@pytest.mark.parametrize(("primitive", "sample"), SMOOTH)
def test_the_second_gradient_is_the_slope_of_the_first(primitive: Any, sample: Sample) -> None:
    laws.has_second_gradient(primitive, sample, float64)


@pytest.mark.parametrize(("primitive", "sample"), CASES)
@pytest.mark.parametrize("dtype", laws.LAWS[laws.agrees_with_numpy], ids=str)
def test_the_onnx_model_agrees_with_numpy(primitive: Any, sample: Sample, dtype: DType) -> None:
    laws.agrees_with_numpy(primitive, sample, dtype)


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_the_onnx_model_agrees_with_numpy_in_bfloat16(primitive: Any, sample: Sample) -> None:
    laws.agrees_in_bfloat16(primitive, sample, bfloat16)


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_the_model_in_native_half_is_well_typed(primitive: Any, sample: Sample) -> None:
    laws.is_well_typed_in_native_half(primitive, sample, float16)


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_the_model_for_a_gpu_agrees_with_numpy(primitive: Any, sample: Sample) -> None:
    laws.agrees_on_a_gpu(primitive, sample, float32)


ELEMENTWISE = [p for p in PRIMITIVES if laws.is_elementwise(p)]


@pytest.mark.parametrize("primitive", ELEMENTWISE, ids=lambda p: p.name)
@pytest.mark.parametrize("dtype", laws.FLOATS, ids=str)
def test_elementwise_infinities_and_nans_agree_with_numpy(primitive: Any, dtype: DType) -> None:
    laws.keeps_special_numbers(primitive, dtype)


def primitive_of(name: str) -> Any:
    (primitive,) = (p for p in PRIMITIVES if p.name == name)
    return primitive


COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_finite"]


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("dtype", [float32, float16, float64], ids=str)
def test_comparisons_with_infinities_and_nans_agree_with_numpy(name: str, dtype: DType) -> None:
    grid = np.meshgrid(*[np.array(laws.SPECIAL)] * (1 if name == "is_finite" else 2))
    laws.check_special(primitive_of(name), [g.reshape(-1).astype(dtype.numpy) for g in grid], {})


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, "both"])
@pytest.mark.parametrize("dtype", [float32, float16, float64], ids=str)
def test_reductions_keep_infinities_and_nans(name: str, axis: int, special: Any, dtype: DType) -> None:
    """The special number stands first, last and in the middle of the rows, some of which have none."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, (24, 24))
    first, second = (np.inf, -np.inf) if special == "both" else (special, special)
    x[3, 0] = x[7, 20] = x[9, 23] = first
    x[7, 3] = second
    along: Any = axis if "softmax" in name else (axis,)
    laws.check_special(primitive_of(name), [x.astype(dtype.numpy)], {"axis": along})


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1)])
@pytest.mark.parametrize("dtype", [float32, float16, float64], ids=str)
def test_max_pool_keeps_infinities_and_nans(pads: Any, dtype: DType) -> None:
    x = np.random.default_rng(0).normal(size=(2, 2, 12, 12))
    x[0, 0, 3, 3], x[0, 1, 8, 2], x[1, 0, 5, 5], x[1, 1] = np.nan, np.inf, -np.inf, np.nan
    x = x.astype(dtype.numpy)
    sample = Sample((), {"kernel": (3, 3), "strides": (2, 2), "pads": pads})
    graph = single(primitive_of("max_pool"), sample, (type_of(x),))
    (expected, places), (found, found_places) = interpret(graph, [x])[0], laws.run(lower(graph), graph, [x])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.where(np.isnan(found), 0, found_places), np.where(np.isnan(found), 0, places))
    assert found_places.min() >= 0 and found_places.max() < x.size
