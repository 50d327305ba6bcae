"""What Python and NumPy raise within graphls is an error of graphls; what code of a user raises stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphls import GraphlsError, Parameter, Tensor, nn, ops

X = Tensor(np.ones((2, 3), np.float32))


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (TypeError, lambda: ops.sin(X, none_such=1)),
        (TypeError, lambda: ops.sin()),
        (TypeError, lambda: X.sin(1, 2, 3)),
        (TypeError, lambda: ops.multinomial(X, (1, 2))),
        (TypeError, lambda: X.reshape_as(3)),
        (TypeError, lambda: ops.polygamma(np.ones(3), X)),
        (TypeError, lambda: X.sum(keepdims="yes")),
        (TypeError, lambda: ops.argsort(X, descending=1)),
        (TypeError, lambda: ops.zeros((2, 3), dtype=0)),
        (TypeError, lambda: ops.ones_like(X, dtype={})),
        (ValueError, lambda: X.sum(axis=np.ones(3))),
        (TypeError, lambda: nn.Dense(2, 3, none_such=1)),
        (TypeError, lambda: ops.ReduceSum()(X, none_such=1)),
    ],
)
def test_wrong_arguments(error: type[Exception], call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=r"test_guarded\.py") as raised:
        call()
    assert isinstance(raised.value, GraphlsError)


def test_full_tracebacks_show_what_was_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GraphlsError) as folded:
        X.sin(1, 2, 3)
    assert folded.value.__cause__ is None
    monkeypatch.setenv("GRAPHLS_TRACEBACK", "full")
    with pytest.raises(GraphlsError) as full:
        X.sin(1, 2, 3)
    assert isinstance(full.value.__cause__, TypeError)


class Wrong(nn.Cell):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.sizes = len(size)  # type: ignore[arg-type]


def wrong(x: Tensor) -> Any:
    return {}[x.shape]


@pytest.mark.parametrize(("error", "call"), [(TypeError, lambda: Wrong(2)), (KeyError, lambda: ops.vmap(wrong)(X))])
def test_errors_of_code_that_users_write(error: type[Exception], call: Callable[[], Any]) -> None:
    with pytest.raises(error) as raised:
        call()
    assert type(raised.value) is error


def test_arguments_that_were_missing() -> None:
    assert ops.ReduceSum()(X, axis=1).tolist() == [3.0, 3.0]
    assert ops.softmax(X, dtype=np.float64).dtype is ops.log_softmax(X, dtype="float64").dtype
    assert not Parameter(X, parallel_optimizer=False, storage_format="").parallel_optimizer
    with pytest.raises(TypeError, match="parallel_optimizer"):
        Parameter(X, parallel_optimizer=3)  # type: ignore[arg-type]
