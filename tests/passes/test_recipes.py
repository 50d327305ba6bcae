"""Recipes say the form of each operand: formats by role, blocks by the summed axes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import graphls
from graphls import amp
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir import Type, parse_type
from graphls.ir.types import float8_e4m3fn, float8_e5m2
from graphls.passes.precision.recipes import PRODUCTS, RECIPES, ROLES

MATRIX = parse_type("f32[512,256]")
KERNELS = parse_type("f32[64,32,3,3]")


@pytest.mark.parametrize("recipe", [amp.DelayedScaling(), amp.CurrentScaling(), *(
    kind(fp8_format="HYBRID") for kind in (amp.BlockScaling, amp.MXFP8)
)], ids=str)  # fmt: skip
def test_hybrid_recipes_have_more_range_for_gradients(recipe: Any) -> None:
    for product in PRODUCTS:
        dtypes = [recipe.form(role, product, MATRIX, (1,)).dtype for role in ROLES]
        assert dtypes == [float8_e4m3fn, float8_e4m3fn, float8_e5m2]


@pytest.mark.parametrize("recipe", [amp.BlockScaling(), amp.MXFP8(), *(
    kind(fp8_format="E4M3") for kind in (amp.DelayedScaling, amp.CurrentScaling)
)], ids=str)  # fmt: skip
def test_others_have_one_format(recipe: Any) -> None:
    assert {recipe.form(role, "forward", MATRIX, (1,)).dtype for role in ROLES} == {float8_e4m3fn}


@pytest.mark.parametrize("recipe", [amp.DelayedScaling(), amp.CurrentScaling(power_of_two=True)], ids=str)
def test_a_form_for_the_tensor_is_the_same_for_all_products(recipe: Any) -> None:
    """So a tensor is rounded once, and its transposed copy is a view of the rounded one."""
    for role in ROLES:
        forms = {recipe.form(role, product, MATRIX, axes) for product in PRODUCTS for axes in ((0,), (1,))}
        assert len(forms) == 1 and forms.pop().is_whole


@pytest.mark.parametrize(
    ("recipe", "line", "square"),
    [(amp.BlockScaling(), 128, 128), (amp.MXFP8(), 32, None), (amp.NVFP4(), 16, 16),
     (amp.NVFP4(fp4_2d_quantization=False), 16, None)],
    ids=str,
)  # fmt: skip
def test_blocks_lie_along_the_summed_axis(recipe: Any, line: int, square: int | None) -> None:
    def block(role: str, product: str, kind: Type, *axes: int) -> Any:
        return recipe.form(role, product, kind, axes).block

    for role in ("input", "gradient"):
        assert block(role, "forward", MATRIX, 1) == (1, line)
        assert block(role, "weight_gradient", MATRIX, 0) == (line, 1)
    of_images = parse_type("f32[8,32,20,20]")
    assert block("input", "forward", of_images, 1, 2, 3) == (1, line, 1, 1)
    assert block("gradient", "weight_gradient", of_images, 0, 2, 3) == (line, 1, 1, 1)
    both = (square, square) if square else None
    assert block("weight", "forward", MATRIX, 1) == (both or (1, line))
    assert block("weight", "input_gradient", MATRIX, 0) == (both or (line, 1))
    assert block("weight", "forward", KERNELS, 1, 2, 3) == ((*both, 1, 1) if both else (1, line, 1, 1))
    assert block("weight", "input_gradient", KERNELS, 0, 2, 3) == ((*both, 1, 1) if both else (line, 1, 1, 1))


def test_nvfp4_transforms_both_operands_of_the_gradient_of_a_weight() -> None:
    for role in ("input", "gradient"):
        axes = {p: amp.NVFP4().form(role, p, MATRIX, (0,)).hadamard_axis for p in PRODUCTS}  # type: ignore[union-attr]
        assert axes == {"forward": None, "input_gradient": None, "weight_gradient": 0}
        plain = amp.NVFP4(random_hadamard_transform=False).form(role, "weight_gradient", MATRIX, (0,))
        assert isinstance(plain, amp.NVFP4Form) and plain.hadamard_axis is None


def test_nvfp4_rounds_gradients_alone_at_random() -> None:
    for recipe, expected in ((amp.NVFP4(), [False, False, True]), (amp.NVFP4(stochastic_rounding=False), [False] * 3)):
        forms = [recipe.form(role, "input_gradient", MATRIX, (1,)) for role in ROLES]
        assert [form.is_stochastic for form in forms] == expected  # type: ignore[union-attr]


def test_every_recipe_has_a_name() -> None:
    assert {kind.__name__ for kind in RECIPES.values()} == {
        "DelayedScaling", "CurrentScaling", "BlockScaling", "MXFP8", "NVFP4",
    }  # fmt: skip
    assert all(kind() == kind() and hash(kind()) == hash(kind()) for kind in RECIPES.values())


def test_a_recipe_of_ones_own() -> None:
    class Wide(amp.Recipe):
        def form(self, role: str, product: str, kind: Type, axes: tuple[int, ...]) -> amp.Form:
            return amp.CurrentForm(graphls.float8_e5m2)

    recipe = Wide(attention=True, keep=["head"])  # type: ignore[arg-type]
    assert recipe.form("weight", "forward", MATRIX, (1,)) == amp.CurrentForm(float8_e5m2)
    assert (recipe.attention, recipe.keep, Wide().attention, Wide().keep) == (True, ("head",), False, ())
    with pytest.raises(NotImplementedError):
        amp.Recipe().form("weight", "forward", MATRIX, (1,))


WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: amp.DelayedScaling(fp8_format="E5M2"), GraphValueError, "fp8_format='E5M2' is one of 'HYBRID', 'E4M3'."),  # type: ignore[arg-type]
    (lambda: amp.DelayedScaling(amax_compute_algo="mean"), GraphValueError, "is one of 'max', 'most_recent'"),  # type: ignore[arg-type]
    (lambda: amp.DelayedScaling(amax_history_len=0), GraphValueError, "amax_history_len=0 is a number of steps"),
    (lambda: amp.DelayedScaling(margin=1000), GraphValueError, "margin=1000 is a number of bits"),
    (lambda: amp.MXFP8(scale_rule="round"), GraphValueError, "scale_rule='round' is one of 'ceil', 'floor'."),  # type: ignore[arg-type]
    (lambda: amp.BlockScaling(keep="head"), GraphTypeError, "keep='head' is a tuple of patterns"),  # type: ignore[arg-type]
    (lambda: amp.NVFP4(attention="yes"), GraphTypeError, "attention='yes' is True or False."),  # type: ignore[arg-type]
    (lambda: amp.NVFP4(stochastic_rounding=1), GraphTypeError, "stochastic_rounding=1 is True or False."),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("wrong", "kind", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_other_arguments_are_refused(wrong: Callable[[], object], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        wrong()
