"""Functions of PyTorch on tensors of graphls: an error at the user's line that names the function of graphls."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.base.errors import GraphTypeError, TraceError
from graphls.frontend.names.habits import TORCH
from graphls.frontend.names.torch_functions import counterpart

X = np.ones((2, 3), np.float32)
Function = Callable[[Any], Any]


class Applied(nn.Cell):
    """A function of the input, traced."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def construct(self, x: Any) -> Any:
        return self.function(x)


def like_torch(name: str, module: str = "torch") -> Function:
    """A function that asks its operands as those of PyTorch do."""

    def function(x: Any, *others: Any) -> Any:
        operands = x if isinstance(x, list) else [x]
        return type(operands[0]).__torch_function__(function, (type(operands[0]),), (x, *others), {})

    function.__name__, function.__module__ = name, module
    return function


@pytest.fixture(autouse=True)
def no_torch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of functions come from the stand-ins, whether torch is installed or not, except in tests of torch."""
    if "torch" not in request.fixturenames:
        monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("tanh", "use ops.tanh"), ("linear", "use nn.Dense"), ("special_expit", "functions of graphls are in"),
        ("add_", "use ops.add"), ("gather", "use ops.gather_elements"), ("clone", "use the tensor itself"),
        ("lobpcg", "functions of graphls are in graphls.ops"),
    ],
)  # fmt: skip
def test_a_function_of_torch_on_a_value_of_the_graph_names_the_one_of_graphls(name: str, advice: str) -> None:
    text = f"torch.{name} cannot take a f32[2,3] that the graph computes while the cell is traced; {advice}"
    with pytest.raises(TraceError, match=rf"{re.escape(text)}.*test_torch_functions.py:\d+") as caught:
        Applied(like_torch(name))(graphls.Tensor(X))
    assert isinstance(caught.value, TypeError)


def test_a_value_in_a_list_is_seen() -> None:
    function = like_torch("cat")
    with pytest.raises(TraceError, match=r"torch.cat cannot take a f32\[2,3\].*use ops.cat"):
        Applied(lambda x: function([x, x]))(graphls.Tensor(X))


def test_outside_of_a_trace_the_numbers_can_be_handed_over() -> None:
    with pytest.raises(GraphTypeError, match=r"torch.tanh takes tensors of PyTorch.*use ops.tanh, or torch.as_tensor"):
        like_torch("tanh")(graphls.Tensor(X))


def test_all_counterparts_are_there() -> None:
    for text in TORCH.values():
        for room, name in re.findall(r"\b(ops|nn)\.(\w+)", text):
            assert hasattr({"ops": ops, "nn": nn}[room], name), text
    assert counterpart("torch.nn.functional.relu") == "; use ops.relu"
    assert counterpart("torch.save").startswith("; functions of graphls")


CASES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "function": (lambda torch, x: torch.tanh(x), "torch.tanh cannot take.*use ops.tanh"),
    "functional": (lambda torch, x: torch.nn.functional.relu(x), "torch.nn.functional.relu cannot.*use ops.relu"),
    "module": (lambda torch, x: torch.nn.Linear(3, 2)(x), "torch.nn.functional.linear cannot take.*use nn.Dense"),
    "loss": (lambda torch, x: torch.nn.MSELoss()(x, torch.ones(2, 3)), "mse_loss cannot take.*use ops.mse_loss"),
    "list": (lambda torch, x: torch.cat([x, x]), "torch.cat cannot take.*use ops.cat"),
    "method": (lambda torch, x: torch.ones(3).add(x), "torch.Tensor.add cannot take.*use ops.add"),
    "special": (lambda torch, x: torch.special.expit(x), "torch.special.expit cannot take.*use ops.sigmoid"),
    "numbers": (lambda torch, x: torch.as_tensor(x), "cannot be read as numbers while the cell is traced"),
}


@pytest.mark.parametrize("case", CASES)
def test_functions_modules_and_methods_of_torch_itself(case: str, torch: Any) -> None:
    call, text = CASES[case]
    with pytest.raises(TypeError, match=rf"{text}.*test_torch_functions.py:\d+"):
        Applied(lambda x: call(torch, x))(graphls.Tensor(X))


def test_operators_with_tensors_of_torch_compute(torch: Any) -> None:
    three = torch.full((3,), 3.0)
    functions: list[Function] = [
        lambda x: three + x, lambda x: x + three, lambda x: three - x, lambda x: three * x, lambda x: x / three,
        lambda x: torch.ones(4, 2) @ x, lambda x: x.add(three), lambda x: ops.maximum(x, three),
    ]  # fmt: skip
    expected = [X + 3, X + 3, 3 - X, 3 * X, X / 3, np.ones((4, 2)) @ X, X + 3, np.maximum(X, 3)]
    for function, y in zip(functions, expected, strict=True):
        for compute in (Applied(function), function):
            np.testing.assert_allclose(compute(graphls.Tensor(X)).asnumpy(), y)
    assert (three > graphls.Tensor(X)).asnumpy().all()


def test_torch_still_reads_tensors_of_graphls(torch: Any) -> None:
    x = graphls.Tensor(X)
    for read in (torch.as_tensor, torch.tensor, torch.from_dlpack, lambda x: torch.from_numpy(x.asnumpy())):
        np.testing.assert_array_equal(read(x).numpy(), X)
    assert torch.zeros(int(graphls.Tensor(2))).shape == (2,)
    with pytest.raises(TypeError, match=r"torch.tanh takes tensors of PyTorch, and this is one of graphls; use ops"):
        torch.tanh(x)
