"""The laws of primitives, which are public: primitives of others keep them, or hear which they break."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import pytest

from graphls.base.errors import GraphAttributeError, VerifyError
from graphls.inspect.testing import laws
from graphls.ir import Builder, Value, parse, registry, verify
from graphls.ir.errors import GraphTypeError
from graphls.ir.types import Type, float32
from graphls.passes import register_pass
from graphls.primitives.primitive import FloatElementwise, Primitive, f32, sample
from graphls.runtime.lowering.kernel_tables import best_opset
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


def test_the_model_is_of_the_opset_that_compile_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    opsets = []

    def onnx(self: Any, e: Any, x: Any) -> Any:
        opsets.append(e.opset)
        return e.Exp(e.Neg(e.Mul(x, x)))

    check_primitive(bell(onnx=onnx))
    assert {*opsets} == {best_opset(onnxruntime.__version__)}
    monkeypatch.setattr(laws.onnxruntime, "__version__", "1.18.0")
    opsets.clear()
    check_primitive(bell(onnx=onnx))
    assert {*opsets} == {best_opset("1.18.0")}


def test_rank_type_and_constants_mean_the_same_in_all_rules() -> None:
    ranks = []

    def read(x: Any) -> None:
        assert x.rank == x.type.rank == len(x.shape) and x.dtype is x.type.dtype and x.shape == x.type.shape
        ranks.append(x.rank)

    def infer(self: Any, x: Any) -> Any:
        read(x)
        return x

    def vjp(self: Any, e: Any, g: Any, x: Any, out: Any) -> Any:
        read(x)
        return e.mul(g, e.mul(out, e.mul(e.const(-2.0, x.dtype), e.mul(x, e.constant(1.0, x.dtype)))))

    def onnx(self: Any, e: Any, x: Any) -> Any:
        read(x)
        return e.Exp(e.Mul(e.constant(-1.0, x.dtype), e.Mul(e.Mul(x, x), e.const(1.0, x.dtype))))

    check_primitive(bell(infer=infer, vjp=vjp, onnx=onnx))
    assert {1, 2} == {*ranks}


MISSPELLED = [
    ({"elementwize": True}, GraphAttributeError, "no member 'elementwize'", "did you mean 'elementwise'"),
    ({"sample": ()}, GraphAttributeError, "no member 'sample'", "did you mean 'samples'"),
    ({"flops_per_elemnt": 2}, GraphAttributeError, "which is in the class Bell", "did you mean 'flops_per_element'"),
]


@pytest.mark.parametrize(("members", "kind", "message", "near"), MISSPELLED)
def test_misspelled_facts_of_a_primitive_are_corrected(members: Any, kind: Any, message: str, near: str) -> None:
    with pytest.raises(kind) as caught:
        bell(**members)
    assert message in str(caught.value) and near in str(caught.value)


def test_members_of_ones_own_with_other_names_are_free() -> None:
    check_primitive(bell(steepness=3, table=(1, 2), _samples=()))


def test_misspelled_rules_options_and_attributes_are_corrected() -> None:
    rule = {"infr": lambda self, x: x, "samples": (sample(f32(2)),), "__doc__": "A rule with another name."}
    strange = type("Strange", (Primitive,), {**rule, "vjp": lambda self, e, g, x, out: g})
    with pytest.raises(AssertionError, match="has no type rule; did you mean 'infer' by 'infr'"):
        check_primitive(strange)
    with pytest.raises(GraphTypeError, match="no option 'abstrac'; did you mean 'abstract'"):
        type("Other", (Primitive,), {}, abstrac=True)
    with pytest.raises(GraphTypeError, match="sum has no attribute 'axsi'; did you mean 'axis'"):
        Builder().sum(Value("x", f32(2)), axsi=(0,))
    with pytest.raises(VerifyError, match="has no attribute 'keepdim'; did you mean 'keepdims'"):
        verify(parse("graph @m(%x: f32[2]) {\n%y = sum(%x) {axis=[0], keepdim=true} : f32[]\nreturn %y\n}\n"))


@pytest.mark.parametrize(
    ("onnx", "message"),
    [
        (lambda self, e, x: e.Sigmod(x), "did you mean 'Sigmoid'; an operator that is not a method is e.operator"),
        (lambda self, e, x: e.operatr("Exp", [x]), "did you mean 'operator'; mend"),
        (lambda self, e, x: e.operator("Geluu", [x]), "did you mean 'Gelu')"),
    ],
)
def test_misspelled_operators_of_onnx_are_corrected(onnx: Any, message: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_primitive(bell(onnx=onnx))
    assert message in str(caught.value)


def test_misspelled_members_of_a_pass_are_corrected() -> None:
    with pytest.raises(GraphTypeError, match="did you mean 'name' by 'nam'"):
        register_pass(dataclass(frozen=True)(type("Mine", (), {"nam": "mine", "run": lambda self, graph: graph})))
    with pytest.raises(GraphTypeError, match="did you mean 'run' by 'runn'"):
        register_pass(dataclass(frozen=True)(type("Mine", (), {"name": "mine", "runn": lambda self, graph: graph})))
