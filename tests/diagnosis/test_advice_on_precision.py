"""Advice on low precision is measured on the tensor, and who follows it gets those figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn
from graphls.diagnosis import RoundedTensor
from graphls.ir import Graph, Type, Value, interpret
from graphls.ir.build import Builder, Names
from graphls.ir.types import float32
from graphls.passes.precision.hadamard import restored, transformed

F32 = np.float32
RANDOM = np.random.default_rng(1)
X = RANDOM.standard_normal((32, 128)).astype(F32)
Y = RANDOM.standard_normal((32, 16)).astype(F32)
WIDE = (10.0 ** np.linspace(-6, 0, 32)).astype(F32)
"""Factors of rows from a millionth to one."""


def training(recipe: Any, weight: Any = None, x: Any = X, y: Any = Y) -> Any:
    """A step of two layers with the recipe, which NumPy runs."""
    graphls.set_seed(3)
    net = nn.SequentialCell(nn.Dense(128, 64, has_bias=False), nn.Dense(64, 16, has_bias=False))
    for layer in net:
        layer.to_float(recipe)
    if weight is not None:
        net[0].weight.set_data(graphls.tensor(weight))
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 1e-6)).set_train()
    return graphls.compile(cell, x, y, engine="numpy")


def tensor_of(step: Any, role: str, product: str, x: Any = X, y: Any = Y) -> RoundedTensor:
    """The tensor of a role of the first layer, as a product reads it."""
    found = step.explain_precision(x, y)
    return next(t for t in found if t.cell.endswith(".0") and t.role == role and product in t.products)


def followed(tensor: RoundedTensor) -> Any:
    """What the advice says to give to `to_float`."""
    assert tensor.is_poor and tensor.advice is not None and tensor.advice.code in tensor.remedy
    return eval(tensor.advice.code, {"amp": amp, "graphls": graphls})


def same_figures(found: RoundedTensor, tensor: RoundedTensor, role: str) -> None:
    """The figures are those that the advice said, and better than they were."""
    assert tensor.advice is not None
    predicted = tensor.advice.figures
    assert found.role == role and found.shortfall < tensor.shortfall and not found.is_poor
    pair, told = (found.sqnr, found.element_sqnr), (predicted.sqnr, predicted.element_sqnr)
    assert pair == pytest.approx(told, abs=0.3)
    assert (found.saturated, found.flushed) == pytest.approx((predicted.saturated, predicted.flushed), abs=0.005)


def rows_of_blocks() -> Any:
    """Inputs whose first 32 columns are a million times as large."""
    x = X.copy()
    x[:, :32] *= 1e6
    return x


def sparse() -> Any:
    """Inputs of which one row in sixteen is large."""
    x = X.copy()
    x[::16] *= 300
    return x


def rows_of_weights() -> Any:
    return (X[:1].repeat(64, 0) * np.where(np.arange(64) % 16, 1e-3, 1)[:, None]).astype(F32)


CASES: dict[str, tuple[amp.Recipe, str, str, dict[str, Any], str]] = {
    "smaller blocks": (amp.CurrentScaling(), "input", "forward", {"x": rows_of_blocks()}, "amp.MXFP8()"),
    "scales round up": (
        amp.MXFP8(scale_rule="floor"), "input", "forward",
        {"x": np.where(np.arange(128) % 32, X * 30, 500).astype(F32)}, "amp.MXFP8()",
    ),
    "a wider format": (
        amp.CurrentScaling(fp8_format="E4M3"), "gradient", "weight_gradient",
        {"x": X * WIDE[:, None], "y": Y * WIDE[:, None]},
        "amp.CurrentScaling()",
    ),
    "a transform": (
        amp.NVFP4(random_hadamard_transform=False), "input", "weight_gradient", {"x": sparse()}, "amp.NVFP4()",
    ),
    "blocks of lines": (
        amp.NVFP4(), "weight", "forward", {"weight": rows_of_weights()}, "amp.NVFP4(fp4_2d_quantization=False)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_advice_on_a_recipe_is_what_its_tensor_has_then(name: str) -> None:
    recipe, role, product, inputs, code = CASES[name]
    data = {key: value for key, value in inputs.items() if key != "weight"}
    tensor = tensor_of(training(recipe, **inputs), role, product, **data)
    recipe = followed(tensor)
    assert tensor.advice is not None and tensor.advice.code == code
    same_figures(tensor_of(training(recipe, **inputs), role, product, **data), tensor, role)


def after_steps(recipe: Any, *batches: Any) -> RoundedTensor:
    """The input of the first layer on the last batch, behind steps on the others."""
    step = training(recipe)
    for x in batches[:-1]:
        step(x, Y)
    return tensor_of(step, "input", "forward", x=batches[-1])


@pytest.mark.parametrize(
    ("batches", "reason", "code"),
    [
        ([X, X, 3 * X], "It has grown", "amp.DelayedScaling(margin=2, amax_history_len=8)"),
        ([X, X, 40 * X], "It has grown", "amp.CurrentScaling()"),
        ([1e6 * X, X, X, X], "It was larger", "amp.DelayedScaling(amax_history_len=2)"),
    ],
    ids=["margin", "current", "history"],
)
def test_advice_on_delayed_scaling_is_what_its_tensor_has_then(batches: list[Any], reason: str, code: str) -> None:
    tensor = after_steps(amp.DelayedScaling(amax_history_len=8), *batches)
    recipe = followed(tensor)
    assert tensor.reason.startswith(reason) and tensor.advice is not None and tensor.advice.code == code
    same_figures(after_steps(recipe, *batches), tensor, "input")


def test_the_step_behind_the_first_one_has_the_figures_that_it_says() -> None:
    recipe = amp.DelayedScaling(amax_history_len=8)
    first = after_steps(recipe, 1e-4 * X)
    assert "that of the next one gives it 31.6 dB, 0.0% flushed" in first.remedy
    same_figures(after_steps(recipe, 1e-4 * X, 1e-4 * X), first, "input")


def test_a_layer_that_stays_in_bfloat16_is_rounded_no_more() -> None:
    x = X * (10.0 ** RANDOM.uniform(-9, 0, X.shape)).astype(F32)
    tensor = tensor_of(training(amp.MXFP8()), "input", "forward", x=x)
    assert followed(tensor) is graphls.bfloat16 and "amp.MXFP8" not in tensor.remedy
    assert tensor.advice is not None
    near = x.astype(graphls.bfloat16.numpy).astype(float)
    error = 10 * np.log10(np.mean(np.minimum((near / x - 1) ** 2, 1)))
    assert tensor.advice.figures.element_sqnr == pytest.approx(-error, abs=0.1)


def test_the_best_recipe_is_the_advice_where_none_is_enough() -> None:
    """The layer then has its figures; bfloat16 is beside it."""
    x = X * (10.0 ** RANDOM.uniform(-5, 0, X.shape)).astype(F32)
    stale = [1e4 * x, x, x, x]
    tensor = after_steps(amp.DelayedScaling(amax_history_len=8), *stale)
    recipe = followed(tensor)
    assert tensor.advice is not None and tensor.advice.figures.is_poor and recipe is not graphls.bfloat16
    assert "to_float(graphls.bfloat16) would give" in tensor.remedy
    found = after_steps(recipe, *stale)
    assert found.shortfall < tensor.shortfall - 3
    assert found.element_sqnr == pytest.approx(tensor.advice.figures.element_sqnr, abs=0.3)


@pytest.mark.parametrize("shape", [(32, 5), (16, 3), (37, 2), (7, 3)])
def test_what_is_transformed_is_restored(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).standard_normal(shape).astype(F32)
    source, e = Value("x", Type(float32, shape)), Builder(Names(["x"]))
    y = transformed(e, source, 0)
    (array,), _ = interpret(Graph("g", (source,), (), tuple(e.nodes), (), (y,)), [x])
    assert np.allclose(restored(array, 0), x, atol=1e-6)
