"""A function of tensors gives the same at once, traced on NumPy, and traced on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphls
from graphls.frontend.tensors.pytree import leaves

BACKENDS = ("numpy", "onnxruntime")


def agree(function: Callable[..., Any], expected: Any, *inputs: Any, rtol: float = 1e-6, atol: float = 1e-6) -> None:
    """Check all three against what NumPy says, shapes included."""
    tensors = [graphls.Tensor(i) if isinstance(i, np.ndarray) else i for i in inputs]
    eager = function(*tensors)
    compared(eager, expected, rtol, atol)
    for backend in BACKENDS:
        found = graphls.compile(function, *tensors, backend=backend)(*tensors)
        compared(found, expected, rtol, atol)
        assert [t.dtype for t in leaves(found)] == [t.dtype for t in leaves(eager)]


def compared(found: Any, expected: Any, rtol: float, atol: float) -> None:
    """Check nests of tensors against nests of arrays."""
    assert len(leaves(found)) == len(leaves(expected))
    for tensor, array in zip(leaves(found), leaves(expected), strict=True):
        assert tensor.shape == np.shape(array)
        np.testing.assert_allclose(tensor.asnumpy(), array, rtol=rtol, atol=atol)
