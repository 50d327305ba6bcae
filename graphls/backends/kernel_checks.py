"""Which kernels of the runtime at hand are right at special numbers, found out by running each once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from onnx import helper

from graphls.backends.onnx import ELEMENT_TYPES, IR_VERSION, OPSET
from graphls.ir.types import DType, as_dtype

Array = np.ndarray[Any, Any]

_LANES = 64
"""How often a number is repeated, so that the vector unit computes it, whose kernels are the ones that go wrong."""


@cache
def is_right(operator: str, dtype: DType) -> bool:
    """Whether the CPU's kernel of an operator gives what NumPy gives, at the numbers that are known to need care."""
    function, places = _PLACES[operator]
    tiny = np.finfo(dtype.numpy).tiny / 1024
    x = np.repeat(np.array([*places, tiny, -tiny], dtype.numpy), _LANES)
    with np.errstate(all="ignore"):
        expected = function(x)
    return _agree(_run(operator, x), expected)


_PLACES: dict[str, tuple[Callable[[Array], Array], tuple[float, ...]]] = {
    "Ceil": (np.ceil, (-0.5, -0.0, 0.5)),
    "Exp": (np.exp, (-np.inf, 1.0)),
    "Floor": (np.floor, (-0.0, 0.5)),
    "Log": (np.log, (1.5, np.inf)),
    "Sqrt": (np.sqrt, (np.inf, -0.0, 1.5)),
}


def _run(operator: str, x: Array) -> Array:
    import onnxruntime

    kind = ELEMENT_TYPES[as_dtype(x.dtype)]
    names = [helper.make_tensor_value_info(name, kind, x.shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], operator, names[:1], names[1:])
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def _agree(found: Array, expected: Array) -> bool:
    """Whether they are equal within a few roundings, zeros and infinities with their signs."""
    close = np.isclose(found, expected, rtol=4 * float(np.finfo(found.dtype).eps), atol=0, equal_nan=True)
    same_sign = (np.signbit(found) == np.signbit(expected)) | np.isnan(expected)
    return bool(np.all(close & same_sign))
