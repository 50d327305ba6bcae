"""Operands that do not fit: one sentence, and an error that is also the builtin that fits."""

from __future__ import annotations

from typing import Any

import pytest

import graphls.primitives  # noqa: F401
from graphls.ir import Builder, Type, Value
from graphls.ir.errors import GraphlsError
from graphls.ir.types import bool_, float16, float32, int32, int64
from graphls.primitives import Operand
from graphls.primitives.primitive import f32, of

STATE = of(int64, 2)
IMAGE, KERNEL = f32(1, 2, 4, 4), f32(2, 2, 3, 3)
CUT = {"starts": (0,), "stops": (4,), "steps": (1,)}
FAULTS: list[tuple[type[Exception], str, tuple[Type, ...], dict[str, Any], str]] = [
    (TypeError, "add", (f32(2), of(int32, 2)), {}, "one dtype"),
    (TypeError, "neg", (f32(2), f32(2)), {}, "1 operands, not 2"),
    (ValueError, "mul", (f32(2), f32(3)), {}, "do not broadcast"),
    (TypeError, "exp", (of(int32, 2),), {}, "floating point"),
    (TypeError, "exp", (f32(2),), {"axis": 1}, "exp has no attribute 'axis'"),
    (TypeError, "where", (f32(2), f32(2), f32(2)), {}, "bool condition"),
    (TypeError, "logical_and", (f32(2), f32(2)), {}, "takes bools"),
    (TypeError, "less", (of(bool_, 2), of(bool_, 2)), {}, "takes numbers"),
    (TypeError, "cast", (f32(2),), {"dtype": "float16"}, "dtype"),
    (TypeError, "is_finite", (of(int32, 2),), {}, "floating point"),
    (ValueError, "reshape", (f32(2, 3),), {"shape": (4, 2)}, "cannot have the shape"),
    (ValueError, "reshape", (f32(2, 3),), {"shape": (-1, -1)}, "cannot have the shape"),
    (ValueError, "reshape", (f32(0, 3),), {"shape": (-1, 0)}, "cannot have the shape"),
    (ValueError, "broadcast_to", (f32(2),), {"shape": (2, 3)}, "broadcast"),
    (ValueError, "broadcast_to", (f32(2, 3),), {"shape": (3,)}, "does not broadcast to"),
    (ValueError, "sum", (f32(2, 3),), {"axis": (2,)}, "no axis 2"),
    (ValueError, "sum", (f32(2, 3),), {"axis": (1, -1)}, "twice"),
    (TypeError, "sum", (of(bool_, 3),), {}, "takes numbers"),
    (TypeError, "mean", (of(int32, 3),), {}, "floating point"),
    (ValueError, "max", (f32(0, 3),), {}, "over no elements"),
    (ValueError, "min", (f32(2, 0),), {"axis": (1,)}, "over no elements"),
    (ValueError, "argmax", (f32(2, 0),), {"axis": 1}, "over no elements"),
    (TypeError, "any", (f32(2),), {}, "takes bools"),
    (ValueError, "softmax", (f32(),), {"axis": -1}, "no axis -1"),
    (TypeError, "concat", (), {"axis": 0}, "one array or more"),
    (ValueError, "concat", (f32(2, 3), f32(3, 2)), {"axis": 0}, "other sizes differ"),
    (ValueError, "concat", (f32(2, 3), f32(2)), {"axis": 0}, "other sizes differ"),
    (ValueError, "slice", (f32(4, 4),), CUT, "each of the 2 axes"),
    (ValueError, "slice", (f32(4),), {**CUT, "steps": (0,)}, "steps of 1 or more"),
    (ValueError, "slice_gradient", (f32(3),), {**CUT, "shape": (4,)}, "not that of"),
    (TypeError, "gather", (f32(2), f32(2)), {"axis": 0}, "int32 or int64"),
    (ValueError, "gather", (f32(2), of(int64, 2)), {"axis": 1}, "no axis 1"),
    (ValueError, "gather_gradient", (f32(3), of(int64, 2)), {"axis": 0, "size": 4}, "does not fit"),
    (ValueError, "gather_elements", (f32(2, 3), of(int64, 3, 1)), {"axis": 1}, "off axis 1 differ"),
    (ValueError, "gather_elements_gradient", (f32(2), of(int64, 3)), {"axis": 0, "size": 4}, "of that shape"),
    (ValueError, "one_hot", (of(int64, 2),), {"depth": -1, "dtype": float32}, "depth of 0 or more"),
    (ValueError, "convolution", (f32(2, 4, 4), KERNEL), {}, "batch, channels, height, width"),
    (ValueError, "convolution", (IMAGE, f32(2, 3, 3)), {}, "batch, channels, length"),
    (ValueError, "convolution", (IMAGE, KERNEL), {"groups": 3}, "3 groups"),
    (ValueError, "convolution", (IMAGE, KERNEL), {"groups": 0}, "groups of 1 or more"),
    (ValueError, "convolution", (IMAGE, KERNEL), {"pads": (-1, 0, 0, 0)}, "no negative padding"),
    (ValueError, "convolution", (IMAGE, KERNEL), {"dilations": (9, 9)}, "does not fit"),
    (TypeError, "convolution", (IMAGE, of(float16, 2, 2, 3, 3)), {}, "one dtype"),
    (ValueError, "convolution_input_gradient", (IMAGE, KERNEL), {"shape": (1, 2, 4, 4)}, "takes the gradient of"),
    (ValueError, "convolution_weight_gradient", (IMAGE, IMAGE), {"shape": (2, 2, 3, 3)}, "takes the gradient of"),
    (ValueError, "max_pool", (IMAGE,), {"kernel": (2, 2), "pads": (2, 0, 0, 0)}, "padding smaller"),
    (TypeError, "avg_pool", (IMAGE,), {"kernel": (2, 2), "dilations": (2, 2)}, "no dilations"),
    (ValueError, "avg_pool", (IMAGE,), {"kernel": (5, 2)}, "does not fit"),
    (ValueError, "avg_pool_gradient", (IMAGE,), {"kernel": (2, 2), "shape": (1, 2, 4, 4)}, "takes the gradient of"),
    (TypeError, "random_uniform", (f32(2),), {"shape": (2,), "site": 0}, "seed and the step"),
    (ValueError, "random_bernoulli", (STATE,), {"shape": (2,), "site": 0, "probability": 1.5}, "between 0 and 1"),
]


@pytest.mark.parametrize(("error", "name", "types", "attrs", "words"), FAULTS)
def test_a_fault_is_one_sentence(
    error: type[Exception], name: str, types: tuple[Type, ...], attrs: dict[str, Any], words: str
) -> None:
    operands = [Value(f"x{i}", t) for i, t in enumerate(types)]
    with pytest.raises(error, match=words) as caught:
        Builder().emit(name, operands, attrs)
    assert isinstance(caught.value, GraphlsError)
    assert caught.value.message.endswith(".")


@pytest.mark.parametrize(
    "use", [lambda x: x + x, lambda x: x + 1.0, lambda x: "y" + x, lambda x: 2 * x, lambda x: x / x, lambda x: 1 - x]
)
def test_an_operand_of_an_onnx_rule_has_no_operators(use: Any) -> None:
    with pytest.raises(TypeError, match=r"The operand 'x' of an ONNX rule is the name of a tensor.* as e.Add\(x, y\)"):
        use(Operand("x", f32(2)))


def test_a_member_that_a_value_does_not_have_suggests_the_nearest_or_the_builder() -> None:
    value = Value("x", f32(2))
    with pytest.raises(AttributeError, match="A value of a graph has no 'shpae'; did you mean 'shape'"):
        value.shpae()
    with pytest.raises(AttributeError, match=r"has no 'sum'; .* methods of a Builder, such as e.sum\(x"):
        value.sum()
    assert not hasattr(value, "__array__")
