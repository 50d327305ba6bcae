"""What ONNX rules append operators with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls.frontend.tensors import dispatch
from graphls.ir import registry
from graphls.primitives.emitter import Emitter, Operator
from graphls.primitives.primitive import FloatElementwise, f32, sample
from graphls.runtime.lowering.kernel_tables import PORTABLE


@pytest.mark.parametrize("name", [name for name, member in vars(Emitter).items() if isinstance(member, Operator)])
def test_the_operators_of_an_emitter_are_those_of_onnx(name: str) -> None:
    assert onnx.defs.has(name, PORTABLE, "")


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))
    yield


def test_a_rule_of_a_user_may_append_operators_that_no_other_rule_does(known: None) -> None:
    class Grown(FloatElementwise):
        samples = (sample(f32(3)),)

        def numpy(self, x: Any) -> Any:
            return np.maximum(x, 0) + np.minimum(0, np.expm1(x)) + np.maximum(x, 0)

        def onnx(self, e: Emitter, x: str) -> str:
            return e.Add(e.operator("Celu", [x], {"alpha": 1.0}), e.Relu(x))

    x = np.array([-1.0, 0.5, 2.0], np.float32)
    step = graphls.compile(lambda x: dispatch.apply("grown", x), graphls.Tensor(x))
    np.testing.assert_allclose(step(graphls.Tensor(x)).asnumpy(), Grown().numpy(x), rtol=1e-6)


def test_an_emitter_has_no_names_but_those_that_it_says() -> None:
    assert not hasattr(Emitter, "Celu") and not hasattr(Emitter, "__getattr__")
