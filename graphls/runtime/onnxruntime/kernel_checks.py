"""Probes of ONNX Runtime kernels at special numbers, each run once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial, reduce
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from graphls.ir.types import DType, as_dtype
from graphls.runtime.lowering.kernel_tables import best_opset, ir_version
from graphls.runtime.lowering.types import ELEMENT_TYPES

Array = np.ndarray[Any, Any]
Run = Callable[..., Array]
"""`run(operator, *inputs, **attributes)` returns the last output of one operator."""

_LANES = 64
"""Repetitions of a number, so that the vector unit computes it: its kernels are the ones that go wrong."""

_LARGE = 1 << 60
"""float64, in which a GPU compares int64, represents neither this number plus one nor this number minus one."""


@cache
def is_right(operator: str, dtype: DType, provider: str = "CPUExecutionProvider") -> bool:
    """Whether a provider's kernel of an operator agrees with NumPy at the numbers where kernels tend to be wrong."""
    return _CHECKS[operator](dtype, partial(_run, provider))


def _run(provider: str, operator: str, *inputs: Array, outputs: int = 1, **attributes: Any) -> Array:
    import onnxruntime

    model = _model_of(operator, inputs, outputs, best_opset(onnxruntime.__version__), **attributes)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[provider])
    return np.asarray(session.run(None, {f"x{i}": array for i, array in enumerate(inputs)})[0])


def _model_of(operator: str, inputs: tuple[Array, ...], outputs: int, opset: int, **attributes: Any) -> ModelProto:
    """A model of one operator with inputs like these arrays, called x0, x1 and so on, and its last result."""
    names = [f"x{i}" for i in range(len(inputs))]
    kinds = [ELEMENT_TYPES[as_dtype(array.dtype)] for array in inputs]
    infos = [helper.make_tensor_value_info(n, k, a.shape) for n, k, a in zip(names, kinds, inputs, strict=True)]
    results = [f"y{i}" for i in range(outputs)]
    last = helper.make_empty_tensor_value_info(results[-1])
    graph = helper.make_graph([helper.make_node(operator, names, results, **attributes)], operator, infos, [last])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version(opset))


def _elementwise(operator: str, function: Callable[[Array], Array], *numbers: float) -> Callable[[DType, Run], bool]:
    """A check at these numbers and at denormal ones."""

    def check(dtype: DType, run: Run) -> bool:
        tiny = np.finfo(dtype.numpy).tiny / 1024
        x = np.repeat(np.array([*numbers, tiny, -tiny], dtype.numpy), _LANES)
        with np.errstate(all="ignore"):
            expected = function(x)
        return _agree(run(operator, x), expected)

    return check


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x.astype(np.float64))), x.dtype)


def _reduction(operator: str, sign: int) -> Callable[[DType, Run], bool]:
    """A check of the worst infinities, or of integers that float64 does not tell apart."""

    def check(dtype: DType, run: Run) -> bool:
        x = sign * (np.array([-np.inf, -np.inf]) if dtype.is_float else np.array([_LARGE - 1, _LARGE - 2]))
        return bool(run(operator, x.astype(dtype.numpy), keepdims=0) == x[0].astype(dtype.numpy))

    return check


def _integers(operator: str, function: Callable[..., Any]) -> Callable[[DType, Run], bool]:
    """A check of integers: overflow wraps around rather than saturates."""

    def check(dtype: DType, run: Run) -> bool:
        x = np.array([np.iinfo(dtype.numpy).max, 5, 7], dtype.numpy)
        return bool(run(operator, x, keepdims=0) == function(x, dtype=dtype.numpy))

    return check


def _order(dtype: DType, run: Run) -> bool:
    """A check of TopK: infinities have positions as other numbers have."""
    x = np.array([np.inf, 1, -np.inf, np.inf, 2], dtype.numpy)
    return bool(np.array_equal(run("TopK", x, np.array([5]), largest=0, outputs=2), [2, 1, 4, 0, 3]))


def _bounds(dtype: DType, run: Run) -> bool:
    """A check of Clip: a nan stays one, in whole vectors too, and so does the sign of a zero."""
    x = np.repeat(np.array([np.nan, np.inf, -0.0, 2.0], dtype.numpy), _LANES)
    low, high = np.array(-1, dtype.numpy), np.array(1, dtype.numpy)
    return _agree(run("Clip", x, low, high), np.clip(x, low, high))


def _smaller(dtype: DType, run: Run) -> bool:
    """A check of Min: a nan of the first operand is the result, in whole vectors too."""
    x, y = (np.repeat(np.array(each, dtype.numpy), _LANES) for each in ([np.nan, np.nan, 3.0], [1.0, np.inf, 2.0]))
    return _agree(run("Min", x, y), np.minimum(x, y))


def _threshold(dtype: DType, run: Run) -> bool:
    """A check of ThresholdedRelu: a nan is 0, and the sign of a zero above the threshold stays."""
    x = np.repeat(np.array([np.nan, -0.0, 0.0, -2.0, 3.0, -5.0], dtype.numpy), _LANES)
    return _agree(run("ThresholdedRelu", x, alpha=-4.0), np.where(x > -4, x, np.zeros((), dtype.numpy)))


def _sums(dtype: DType, run: Run) -> bool:
    """A check of MatMul: of 16 products, which are exact, each sum has their order, in matrices and in batches."""
    random = np.random.default_rng(0)
    factors = random.choice([-0.25, 0.25], (16, 16)).astype(dtype.numpy)
    for columns in (2, 67):
        x = random.standard_normal((3, 16, columns)).astype(dtype.numpy)
        expected = reduce(np.add, (factors[:, k, None] * x[:, k, None] for k in range(16)))
        flat, rows = (np.ascontiguousarray(each.swapaxes(1, 2).reshape(-1, 16)) for each in (x, expected))
        results = run("MatMul", factors, x), run("MatMul", flat, np.ascontiguousarray(factors.T))
        if not all(map(np.array_equal, results, (expected, rows))):
            return False
    return True


_CHECKS: dict[str, Callable[[DType, Run], bool]] = {
    "Ceil": _elementwise("Ceil", np.ceil, -0.5, -0.0, 0.5),
    "Clip": _bounds,
    "Exp": _elementwise("Exp", np.exp, -np.inf, 1.0),
    "Floor": _elementwise("Floor", np.floor, -0.0, 0.5),
    "Log": _elementwise("Log", np.log, 1.5, np.inf),
    "MatMul": _sums,
    "Min": _smaller,
    "ReduceMax": _reduction("ReduceMax", 1),
    "ReduceMin": _reduction("ReduceMin", -1),
    "ReduceProd": _integers("ReduceProd", np.prod),
    "ReduceSum": _integers("ReduceSum", np.sum),
    "Sigmoid": _elementwise("Sigmoid", _logistic, -17.0, -15.3, 2.0),
    "Sign": _elementwise("Sign", np.sign, np.nan, 2.0),
    "Sqrt": _elementwise("Sqrt", np.sqrt, np.inf, -0.0, 1.5),
    "ThresholdedRelu": _threshold,
    "TopK": _order,
}


def _agree(actual: Array, expected: Array) -> bool:
    """True for arrays that are equal within a few roundings, with the same signs of zeros and infinities."""
    close = np.isclose(actual, expected, rtol=4 * float(np.finfo(actual.dtype).eps), atol=0, equal_nan=True)
    same_sign = (np.signbit(actual) == np.signbit(expected)) | np.isnan(expected)
    return bool(np.all(close & same_sign))
