"""Wrong uses of `graphls.ops`: one sentence with the user's line, at once and traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from graphls.ir.errors import GraphAttributeError, GraphTypeError, GraphValueError

X = np.ones((2, 3), np.float32)
IMAGE = np.ones((1, 2, 5, 5), np.float32)
KERNEL = np.ones((4, 2, 3, 3), np.float32)

WRONG: list[Any] = [
    (lambda x: x + ops.ones(4), ValueError, "broadcast"),
    (lambda x: x + "a", TypeError, None),
    (lambda x: ops.add(x, "a"), TypeError, "neither a tensor nor a number"),
    (lambda x: ops.add(x, None), TypeError, "neither a tensor nor a number"),
    (lambda x: ops.cast(None, "float32"), TypeError, "None is neither a tensor nor a number"),
    (lambda x: ops.matmul(x, x), ValueError, "inner sizes 3 and 2 differ"),
    (lambda x: ops.matmul(x, 2.0), ValueError, "vectors and matrices"),
    (lambda x: ops.reshape(x, (4, 2)), ValueError, "6 elements"),
    (lambda x: ops.reshape(x, 2.5), TypeError, "shape"),
    (lambda x: ops.reshape(x, (2, 3.0)), TypeError, "size is an integer"),
    (lambda x: ops.reshape(x, (x.sum(), 1)), TypeError, "Python index"),
    (lambda x: ops.transpose(x, (0, 0)), ValueError, "order"),
    (lambda x: ops.sum(x, 2), ValueError, "no axis 2"),
    (lambda x: ops.sum(x, (0, 0)), ValueError, "twice"),
    (lambda x: ops.sum(x, "a"), TypeError, "axis is an integer"),
    (lambda x: ops.squeeze(x, 0), ValueError, "size 1"),
    (lambda x: ops.softmax(x, 5), ValueError, "no axis 5"),
    (lambda x: ops.concat((x, x[0])), ValueError, "join"),
    (lambda x: ops.concat(()), TypeError, "one tensor or more"),
    (lambda x: ops.stack(x), TypeError, "tuple or list"),
    (lambda x: ops.split(x, (1, 5), 1), ValueError, "cannot cut"),
    (lambda x: ops.split(x, 0), ValueError, "1 element or more"),
    (lambda x: ops.var(x, 0, ddof=2), ValueError, "ddof"),
    (lambda x: ops.cast(x, "float23"), TypeError, "not a dtype"),
    (lambda x: ops.gather(x, ops.ones(2), 0), TypeError, "int32 or int64"),
    (lambda x: ops.gather(x, graphls.Tensor([2]), 0), IndexError, "out of range"),
    (lambda x: ops.broadcast_to(x, (3, 3)), ValueError, "broadcast"),
    (lambda x: ops.clip_by_value(x), ValueError, "least or a largest"),
    (lambda x: ops.dropout(x, 1.5), ValueError, "'p' must be at least 0 and at most 1"),
    (lambda x: ops.dropout(x, "a"), TypeError, "type of 'p' should be 'float'"),
    (lambda x: ops.gelu(x, "fast"), ValueError, "'none' or 'tanh'"),
    (lambda x: ops.flatten(x, "F"), ValueError, "order"),
    (lambda x: ops.assign("x", 1), TypeError, "Parameter to write to"),
    (lambda x: ops.assign(graphls.Parameter(np.ones(2)), x), ValueError, "Parameter"),
    (lambda x: x.nothing(), AttributeError, "no 'nothing'"),
    (lambda x: ops.conv2d(x, KERNEL), ValueError, "images of shape"),
    (lambda x: ops.strided_slice(x, (0,), (1,), end_mask="a"), TypeError, "'mask' must be int"),
    (lambda x: ops.one_hot(x, 1e30), TypeError, "'depth' must be int"),
    (lambda x: ops.pad(x, [1, 1], mode=["reflect"]), ValueError, "modes"),
    (lambda x: ops.broadcast_to(x, (10**19, *x.shape)), MemoryError, "which no memory holds"),
    (lambda x: x + ops.tril_indices(10**14, 10**14), MemoryError, "memory is too small"),
    (lambda x: ops.linspace(0, 1, 10**14), MemoryError, "memory is too small"),
]


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int, is_traced: bool) -> None:
    function, error, message = WRONG[number]
    if not is_traced and message == "Python index":
        pytest.skip("a tensor that is known is a size")
    x = graphls.Tensor(X)
    with pytest.raises(error, match=message) as caught:
        graphls.compile(function, x, backend="numpy") if is_traced else function(x)
    if message:
        assert isinstance(caught.value, graphls.GraphlsError)
        assert caught.value.location is not None and caught.value.location.file.endswith("test_wrong_uses.py")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pad_mode": "full"}, ValueError, "'same', 'valid' or 'pad'"),
        ({"padding": 1}, ValueError, "'padding' is 0"),
        ({"pad_mode": "pad", "padding": -1}, ValueError, "0 or more"),
        ({"pad_mode": "pad", "padding": (1, 2, 3)}, TypeError, "two or four"),
        ({"pad_mode": "pad", "padding": "a"}, TypeError, "two or four"),
        ({"stride": 0}, ValueError, "1 or more"),
        ({"stride": 1.5}, TypeError, "one integer or two"),
        ({"groups": 3}, ValueError, "groups"),
        ({"dilation": 3}, ValueError, "does not fit"),
    ],
)
def test_wrong_convolutions(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        ops.conv2d(IMAGE, KERNEL, **options)
    assert isinstance(caught.value, graphls.GraphlsError) and caught.value.location is not None


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: ops.arange("a"), GraphTypeError, "'a' is neither a tensor nor a number"),
        (lambda: ops.arange(0, 3, 0), GraphValueError, "a step that is not 0"),
        (lambda: graphls.ParameterTuple(3), GraphTypeError, "holds parameters, not 3"),
        (lambda: graphls.Parameter([1.0]).clone("foo"), GraphTypeError, "made of numbers"),
        (lambda: delattr(graphls.nn.ReLU(), "foo"), GraphAttributeError, "no attribute 'foo'"),
        (lambda: graphls.nn.ReLU().to_float("foo"), GraphTypeError, "'foo' is not a dtype"),
    ],
)
def test_other_wrong_uses(use: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=rf"{message}.*test_wrong_uses\.py"):
        use()
