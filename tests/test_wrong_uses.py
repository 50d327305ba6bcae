"""Wrong uses of the entry points: one sentence, the user's line, the fitting builtin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError, nn

X = np.ones((2, 4), np.float32)
STEP = graphls.compile(nn.ReLU(), X)


@pytest.mark.parametrize(
    ("use", "builtin", "text"),
    [
        (lambda: graphls.compile(nn.ReLU(), X, passes=3), TypeError, "3 is neither"),
        (lambda: graphls.compile(nn.ReLU(), X, passes=["fold", 3]), TypeError, "3 is neither"),
        (lambda: graphls.compile(nn.ReLU(), X, passes="fold,, dce"), ValueError, "does not parse"),
        (lambda: graphls.compile(nn.ReLU(), X, device="tpu"), ValueError, "is not a device"),
        (lambda: graphls.compile(nn.ReLU(), X, overflow_mode="all"), ValueError, "not 'all'"),
        (lambda: graphls.compile(nn.ReLU(), X, backend="numpy", device="tpu"), ValueError, "not on 'tpu'"),
        (lambda: graphls.compile(nn.ReLU(), X, backend="numpy", device="cuda"), ValueError, "runs on 'cpu', not on"),
        (lambda: graphls.compile(nn.ReLU(), X, passes="fold", overflow_mode="window"), ValueError, "no overflow pass"),
        (lambda: graphls.compile(nn.ReLU(), X, passes="overflow", overflow_mode="all"), ValueError, "not 'all'"),
        (
            lambda: graphls.compile(nn.ReLU(), X, passes="overflow{mode=window}", overflow_mode="outputs"),
            ValueError,
            "'outputs' here and 'window' among the passes",
        ),
        (
            lambda: graphls.compile(nn.ReLU(), X, passes="overflow{mode=outputs}", overflow_mode="window"),
            ValueError,
            "'window' here and 'outputs' among the passes",
        ),
        (lambda: STEP(X, label=X), TypeError, "not by name \\(label\\)"),
        (lambda: graphls.Tensor(X, dtype="float33"), TypeError, "'float33' is not a dtype"),
        (lambda: graphls.Tensor(dtype=3, shape=(2,)), TypeError, "3 is not a dtype"),
        (lambda: graphls.Tensor(X.astype(complex)), TypeError, "complex128"),
        (lambda: graphls.Tensor(X).astype("half-size"), TypeError, "'half-size' is not a dtype"),
    ],
)
def test_a_wrong_use_is_one_sentence_with_a_line(use: Callable[[], Any], builtin: type[Exception], text: str) -> None:
    with pytest.raises(GraphlsError, match=text) as caught:
        use()
    assert isinstance(caught.value, builtin)
    assert f"test_wrong_uses.py:{use.__code__.co_firstlineno}" in str(caught.value)


def test_only_text_is_parsed() -> None:
    with pytest.raises(TypeError, match="not int") as caught:
        graphls.parse(3)  # type: ignore[arg-type]
    assert isinstance(caught.value, GraphlsError)


@pytest.mark.parametrize("use", [lambda x, kept: x + kept, lambda x, kept: kept])
def test_a_tensor_of_another_trace_is_refused(use: Callable[[Any, Any], Any]) -> None:
    kept: list[Any] = []

    def keeping(x: graphls.Tensor) -> graphls.Tensor:
        kept.append(x)
        return x + 1

    graphls.compile(keeping, X)
    with pytest.raises(graphls.TraceError, match="the trace of another cell") as caught:
        graphls.compile(lambda x: use(x, kept[0]), X)
    assert "test_wrong_uses.py" in str(caught.value)
