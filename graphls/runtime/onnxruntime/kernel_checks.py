"""Probes of ONNX Runtime kernels at special numbers."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from graphls.ir.types import DType
from graphls.runtime.lowering.kernel_checks import Array, is_right_by, model_of
from graphls.runtime.lowering.kernel_tables import best_opset


@cache
def is_right(operator: str, dtype: DType, provider: str = "CPUExecutionProvider") -> bool:
    """Whether a provider's kernel of an operator agrees with NumPy at the numbers where kernels tend to be wrong."""
    return is_right_by(partial(_run, provider), operator, dtype)


def _run(provider: str, operator: str, *inputs: Array, outputs: int = 1, **attributes: Any) -> Array:
    import onnxruntime

    model = model_of(operator, inputs, outputs, best_opset(onnxruntime.__version__), **attributes)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[provider])
    return np.asarray(session.run(None, {f"x{i}": array for i, array in enumerate(inputs)})[0])
