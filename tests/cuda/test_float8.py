"""Products of float8 on a card: whether its kernels are right, and steps that multiply by them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest

from graphls import amp
from graphls.ir.types import DType, float16, float32
from graphls.runtime.onnxruntime.kernel_checks import is_right
from tests.low_precision.test_native_products import LABELS, X, trained

Note = Callable[[str], None]
PROVIDER = "CUDAExecutionProvider"


def test_sums_of_gemm_float8(note: Note) -> None:
    sums = {dtype.long_name: is_right("GemmFloat8", dtype, PROVIDER) for dtype in (float32, float16)}
    note(f"ONNX Runtime {onnxruntime.__version__}: sums of GemmFloat8 are as exact as {sums}")


@pytest.mark.parametrize("dtype", [float32, float16], ids=lambda dtype: dtype.long_name)
@pytest.mark.parametrize("recipe", [amp.DelayedScaling(), amp.CurrentScaling()], ids=["delayed", "current"])
def test_a_step_learns_as_on_the_cpu(recipe: amp.Recipe, dtype: DType, note: Note) -> None:
    steps = [trained(recipe, dtype, device=device) for device in ("cuda", "cpu")]
    losses = [[float(step(X, LABELS)) for _ in range(8)] for step in steps]
    products = steps[0].placement().low_products
    note(f"{recipe}: {sum(product.is_native for product in products)} of {len(products)} products from float8")
    assert np.isfinite(losses).all()
    np.testing.assert_allclose(*losses, rtol=1e-2 if dtype is float32 else 5e-2)
