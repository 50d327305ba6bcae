"""Primitives of users on XLA: those that say that their rules can be traced, and all others between its programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphls
from graphls.base.errors import GraphTypeError
from graphls.ir import registry
from graphls.primitives import FloatElementwise, f32, namespace, sample
from graphls.tensors import apply

pytest.importorskip("jax")

X = np.float32([[0.5, 1.0], [2.0, 4.0]])


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Primitives that a test defines are forgotten behind it."""
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))
    yield


def primitive(**members: Any) -> None:
    """Define the primitive `of_a_user` with these rules and facts."""
    samples = (sample(f32(2, 2)),)
    members = {"samples": samples, "name": "of_a_user", "__doc__": "A function of floats.", **members}
    type("OfAUser", (FloatElementwise,), {"__module__": __name__, **members})


def compiled(dtype: Any = np.float32) -> Any:
    x = graphls.Tensor(X.astype(dtype))
    return graphls.compile(lambda x: apply("of_a_user", x * 2.0) + 1.0, x, engine="xla"), x


def exponential(self: Any, x: Any) -> Any:
    return np.asarray(np.exp(x))


def traceable(self: Any, x: Any) -> Any:
    return namespace(x).exp(x)


@pytest.mark.parametrize(
    ("members", "engines"),
    [
        ({"numpy": traceable, "is_traceable": True}, ["xla"]),
        ({"numpy": np.exp}, ["xla"]),
        ({"numpy": exponential, "xla": lambda self, jax, x: jax.numpy.exp(x)}, ["xla"]),
        ({"numpy": exponential, "onnx": "Exp"}, ["xla", "onnxruntime", "xla"]),
    ],
    ids=["is_traceable", "function of NumPy", "xla", "neither"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_rule_of_a_user_runs_where_it_can(members: dict[str, Any], engines: list[str], dtype: Any) -> None:
    primitive(**members)
    step, x = compiled(dtype)
    expected = (np.exp((X * 2).astype(np.float32)).astype(dtype) + dtype(1)).astype(dtype)
    np.testing.assert_allclose(step(x).asnumpy(), expected, rtol=1e-6 if dtype is np.float32 else 1e-3)
    assert [segment.engine for segment in step.plan.segments] == engines


def test_a_rule_that_calls_numpy_is_not_traceable() -> None:
    primitive(numpy=exponential, is_traceable=True)
    with pytest.raises(GraphTypeError, match=r"NumPy rule of .* of_a_user takes no arrays of XLA.*namespace"):
        compiled()[0](graphls.Tensor(X))


@pytest.mark.parametrize("rule", ["numpy", "xla"])
def test_a_rule_of_another_shape_is_an_error_that_names_it(rule: str) -> None:
    rules = {"numpy": exponential, "is_traceable": True}
    rules[rule] = (lambda self, jax, x: x[:1]) if rule == "xla" else lambda self, x: x[:1]
    primitive(**rules)
    with pytest.raises(GraphTypeError, match=rf"gives the shapes .*its type rule says .*mend `{rule}` of OfAUser"):
        compiled()[0](graphls.Tensor(X))
