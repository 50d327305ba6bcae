"""Probes of OpenVINO kernels at special numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from graphls.ir.types import DType
from graphls.runtime.lowering.kernel_checks import Array, is_right_by, model_of
from graphls.runtime.lowering.kernel_tables import PORTABLE
from graphls.runtime.openvino.runtime import compiled, core


@cache
def is_right(operator: str, dtype: DType) -> bool:
    """Whether the kernel of an operator gives what NumPy gives, at the numbers that are known to need care."""
    return is_right_by(_run, operator, dtype)


def _run(operator: str, *inputs: Array, outputs: int = 1, **attributes: Any) -> Array:
    read = core().read_model(model_of(operator, inputs, outputs, PORTABLE, **attributes).SerializeToString())
    return np.asarray(compiled(read)(list(inputs))[0])
