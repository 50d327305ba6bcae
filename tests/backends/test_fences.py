"""Where ONNX Runtime removes two casts in a row, branches and bodies that read the second one find it all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops

B, P = Tensor(np.array([True, False, True])), Tensor(1.0)
F = Tensor(np.arange(6.0).reshape(3, 2), "float32")


def there_and_back(x: Any, dtype: str) -> Any:
    return ops.cast(ops.cast(x, dtype), x.dtype)


def by_scan(x: Any) -> Any:
    y = there_and_back(x, "uint8")
    return ops.scan(lambda carry, _: (ops.logical_or(y, carry), carry), y, ops.zeros((2,), "int64"))[0]


def by_while(x: Any) -> Any:
    y = there_and_back(x, "float64")
    return ops.while_loop(lambda s: ops.sum(s) < 20.0, lambda s: s + y * y + 1, x)


def by_branch_in_scan(x: Any, p: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        y = ops.cast(row, "float16") * 1
        z = there_and_back(row, "float64")
        return ops.cond(p > 0, lambda: carry + y + z, lambda: carry - y), carry

    return ops.scan(body, ops.sum(x, 0), x)[0]


PROGRAMS: dict[str, tuple[Any, tuple[Tensor, ...]]] = {
    "a branch": (
        lambda x, p: (lambda y: ops.cond(p > 0, lambda: ops.sin(y), lambda: ops.cos(y)))(there_and_back(x, "float64")),
        (F, P),
    ),
    "a branch behind an alias": (
        lambda x, p: (lambda y: ops.cond(p > 0, lambda: ops.sin(y), lambda: ops.cos(y)))(
            ops.stop_gradient(there_and_back(x, "float64"))
        ),
        (F, P),
    ),
    "a branch of float16 behind a product with one": (
        lambda x, p: (lambda y: ops.cond(p > 0, lambda: ops.sin(y), lambda: ops.cos(y)))(x * 1),
        (Tensor(F, "float16"), P),
    ),
    "a scan": (by_scan, (B,)),
    "a while loop": (by_while, (F,)),
    "a branch in a scan": (by_branch_in_scan, (F, P)),
}


I32, I64, BOOL = (Tensor(np.array([[1, -2, 3], [0, 5, -6]]), dtype) for dtype in ("int32", "int64", "bool"))
TRANSPOSED: dict[str, Tensor] = {
    **{name: I32 for name in ("abs", "neg", "sign", "square", "bitwise_not")},
    **{name: Tensor(I32, "float32") for name in ("isnan", "isinf", "isfinite", "signbit")},
    "logical_not": BOOL,
}


def by_transposed(name: str) -> Any:
    def step(x: Any, p: Any) -> Any:
        y = getattr(ops, name)(ops.transpose(x, (1, 0)))
        return ops.cond(p > 0, lambda: ops.cast(y, "float32") + 1, lambda: ops.cast(y, "float32") * 2)

    return step


PROGRAMS.update({f"{name} of what was transposed": (by_transposed(name), (x, P)) for name, x in TRANSPOSED.items()})
PROGRAMS["int64 of what was transposed"] = by_transposed("abs"), (I64, P)


@pytest.mark.parametrize("passes", [None, "gradient"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_cast_there_and_back_is_found_by_those_who_capture_it(name: str, passes: str | None) -> None:
    function, inputs = PROGRAMS[name]
    options: dict[str, Any] = {} if passes is None else {"passes": passes}
    steps = (graphls.compile(function, *inputs, backend=b, **options) for b in ("numpy", "onnxruntime"))
    expected, found = (step(*inputs) for step in steps)
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-3)
