"""The laws of primitives, which are public: primitives of others keep them, or hear which they break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from graphls.ir import registry
from graphls.ir.errors import GraphTypeError
from graphls.ir.types import Type, float32
from graphls.primitives.primitive import FloatElementwise, Primitive, f32, sample
from graphls.testing import check_primitive


@pytest.fixture(autouse=True)
def primitives_as_they_were(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))
    yield


def bell(**changes: Any) -> type[Primitive]:
    """A primitive that keeps every law, with other members where they are given."""
    members = {
        "__doc__": "The bell curve exp(-x * x), elementwise.",
        "samples": (sample(f32(2, 3)),),
        "onnx": lambda self, e, x: e.Exp(e.Neg(e.Mul(x, x))),
        "numpy": lambda self, x: np.exp(-x * x),
        "vjp": lambda self, e, g, x, out: e.mul(g, e.mul(out, e.neg(e.add(x, x)))),
    }
    return type("Bell", (FloatElementwise,), {**members, **changes})


def test_a_primitive_that_keeps_every_law_by_class_instance_and_name() -> None:
    cls = bell()
    for primitive in (cls, cls(), "bell", "matmul"):
        check_primitive(primitive)


def test_a_primitive_whose_operators_the_runtime_fuses_to_one_that_it_lacks() -> None:
    """ONNX Runtime 1.19 makes QuickGelu of these, and has it in float32 only."""

    def vjp(self: object, e: Any, g: Any, x: Any, out: Any) -> Any:
        s = e.sigmoid(x)
        return e.mul(g, e.add(s, e.mul(out, e.sub(1.0, s))))

    check_primitive(
        bell(numpy=lambda self, x: x / (1 + np.exp(-x)), onnx=lambda self, e, x: e.Mul(x, e.Sigmoid(x)), vjp=vjp)
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"__doc__": None}, "bell breaks a law: A docstring whose first line is one sentence"),
        ({"__doc__": "The bell."}, "one sentence of some words that ends with a full stop, not 'The bell.'"),
        ({"samples": ()}, "It has no samples to try; write"),
        ({"vjp": None}, "It has no gradient rule; define `vjp`"),
        (
            {"infer": lambda self, x: Type(float32, x.shape)},
            r"on its sample 0 \(f32\[2,3\]\) in float64: The type rule .*\n.* says f32.*, and NumPy makes f64",
        ),
        (
            {"vjp": lambda self, e, g, x, out: e.mul(g, e.tanh(x))},
            r"in float64: The gradient rule .*\nIn a random direction the rule gives .*, and differences ",
        ),
        (
            {"vjp": lambda self, e, g, x, out: e.cast(g, dtype=float32)},
            r"GraphTypeError: The gradient f32\[2,3\] of an operand f64\[2,3\] has another dtype; cast it",
        ),
        (
            {"vjp": lambda self, e, g, x, out: e.sum(g, axis=(1,))},
            r"GraphTypeError: The gradient f64\[2\] of an operand f64\[2,3\] has another shape",
        ),
        ({"vjp": lambda self, e, g, x, out: (g, g)}, r"vjp of bell: 2 gradients for 1 operands; return one"),
        ({"onnx": None}, r"in float32: The ONNX model agrees with NumPy\.\n\w+Error: .*bell"),
        ({"onnx": "Relu"}, r"in float32: The ONNX model agrees with NumPy\.\n\s*Not equal to tolerance rtol="),
        ({"onnx": "NoSuchOperator"}, r"in float32: The ONNX model agrees .*\n\w+: "),
        ({"onnx": lambda self, e, x: e.Log(e.one)}, r"in float32: The ONNX model agrees .*\n\w*AttributeError: "),
        (
            {"onnx": lambda self, e, x: e.Exp(e.Neg(e.Add(e.Mul(x, x), e.Sub(x, x))))},
            r"in float32: An elementwise primitive of floats agrees with NumPy at infinities",
        ),
    ],
)
def test_which_law_a_primitive_breaks(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_primitive(bell(**changes))


def test_anything_else_is_no_primitive() -> None:
    with pytest.raises(GraphTypeError, match="check_primitive takes a subclass of Primitive, or its name, not <class"):
        check_primitive(int)  # type: ignore[arg-type]
