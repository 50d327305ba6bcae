"""Probes of ONNX Runtime kernels at special numbers, each run once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial, reduce
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from graphls.ir.types import DType, as_dtype, float32
from graphls.runtime.low_products import multiplies_float8
from graphls.runtime.lowering.kernel_tables import best_opset, ir_version
from graphls.runtime.lowering.types import ELEMENT_TYPES, HELD, LOW_TYPES

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


def _run(provider: str, operator: str, *inputs: Array, outputs: int = 1, domain: str = "", **attributes: Any) -> Array:
    import onnxruntime

    model = _model_of((operator, domain), inputs, outputs, best_opset(onnxruntime.__version__), **attributes)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[provider])
    return np.asarray(session.run(None, {f"x{i}": _fed(array) for i, array in enumerate(inputs) if array.size})[0])


def _fed(array: Array) -> Array:
    """What the runtime takes: float8 comes as float32."""
    return array.astype(np.float32) if as_dtype(array.dtype).is_low else array


def _model_of(
    operator: tuple[str, str], inputs: tuple[Array, ...], outputs: int, opset: int, **attributes: Any
) -> ModelProto:
    """A model of one operator of a domain with inputs like these arrays, called x0, x1 and so on, and its last result.

    An empty array is an absent input, and one of float8 is cast from float32 in the model.
    """
    names, infos, nodes = [], [], []
    for number, array in enumerate(inputs):
        dtype, fed = as_dtype(array.dtype), f"x{number}"
        if array.size:
            infos.append(helper.make_tensor_value_info(fed, ELEMENT_TYPES[HELD.get(dtype, dtype)], array.shape))
        if dtype.is_low:
            nodes.append(helper.make_node("Cast", [fed], [f"low{number}"], to=LOW_TYPES[dtype]))
        names.append(f"low{number}" if dtype.is_low else fed if array.size else "")
    results = [f"y{i}" for i in range(outputs)]
    nodes.append(helper.make_node(operator[0], names, results, domain=operator[1], **attributes))
    graph = helper.make_graph(nodes, operator[0], infos, [helper.make_empty_tensor_value_info(results[-1])])
    opsets = [helper.make_opsetid(domain, version) for domain, version in {operator[1]: 1, "": opset}.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version(opset))


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


def _float8_products(dtype: DType, run: Run) -> bool:
    """A check of GemmFloat8: its sums are as exact as those of a dtype.

    Cards of the Hopper kind cut off the digits of terms behind the 14th, unless asked otherwise (DeepSeek-V3 Technical
    Report, section 3.3.2); cards before Ada, and runtimes built without float8, raise.
    """

    def multiply(*operands: Array) -> Array:
        a, b, *scales = operands
        options = {"domain": "com.microsoft", "transA": 0, "transB": 1, "dtype": ELEMENT_TYPES[float32]}
        return run("GemmFloat8", a, b, np.zeros(0, np.float32), *scales, **options)

    return multiplies_float8(multiply, dtype)


_CHECKS: dict[str, Callable[[DType, Run], bool]] = {
    "Ceil": _elementwise("Ceil", np.ceil, -0.5, -0.0, 0.5),
    "Clip": _bounds,
    "Exp": _elementwise("Exp", np.exp, -np.inf, 1.0),
    "Floor": _elementwise("Floor", np.floor, -0.0, 0.5),
    "GemmFloat8": _float8_products,
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
