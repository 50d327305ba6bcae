"""What other recipes would make of a tensor: their forms, computed by NumPy on the very numbers of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphls.inspect.diagnosis.measuring import Run, figures_of
from graphls.inspect.diagnosis.rounded import Alternative, Figures
from graphls.inspect.diagnosis.roundings import Reading, Rounding, roundings
from graphls.inspect.diagnosis.usual import usual_ratios
from graphls.ir.build import Builder, Names
from graphls.ir.graph import Graph, Value
from graphls.ir.interpret import interpret
from graphls.ir.types import Type, bfloat16, float32
from graphls.passes.precision.forms import DelayedForm, Form, NVFP4Form
from graphls.passes.precision.hadamard import restored
from graphls.passes.precision.low_precision import LowPrecision
from graphls.passes.precision.recipes import (
    MXFP8,
    NVFP4,
    BlockScaling,
    CurrentScaling,
    DelayedScaling,
    Recipe,
)
from graphls.passes.precision.scales import absolute_maximum, largest_number

Array = np.ndarray[Any, Any]
States = Mapping[str, Array]

MOST_MARGIN = 3
"""The largest margin that is tried; beyond it a scale had better follow the tensor."""


def alternatives(
    rounding: Rounding, run: Run, figures: Figures, low: LowPrecision | None, history: Sequence[float] | None
) -> tuple[Alternative, ...]:
    """The recipes that change the least of that of its layer, the nearest one first, and bfloat16.

    None where its products are not clear. While a history is empty, the next step has the scale of its own maximum.
    """
    readings = [each for each in rounding.readings if each.product and each.is_moved]
    cell = low.cell(readings[0].node) if low is not None and readings else None
    if cell is None or figures.not_finite:
        return ()
    tensor = _Tensor(rounding, run, cell.recipe, {each.product: each for each in readings}, history)
    if history is not None and not any(history):
        return tuple(tensor.tried([_current(cell.recipe)]))
    return (*tensor.tried(_near(cell.recipe, figures, rounding, history)), tensor.unrounded())


def _near(
    recipe: Recipe, figures: Figures, rounding: Rounding, history: Sequence[float] | None
) -> Iterator[Recipe]:
    """The recipes to try, with the options of this one that they have, too."""
    has_form = rounding.role == "gradient" and getattr(recipe, "fp8_format", "") in ("HYBRID", "E4M3")
    if isinstance(recipe, DelayedScaling) and history:
        yield from _delayed(recipe, figures, history)
        yield _current(recipe)
    if isinstance(recipe, NVFP4):
        yield from _of_four_bits(recipe, rounding)
    if isinstance(recipe, MXFP8) and recipe.scale_rule == "floor":
        yield replace(recipe, scale_rule="ceil")
    if isinstance(recipe, (DelayedScaling, CurrentScaling, BlockScaling, MXFP8)) and has_form:
        yield replace(recipe, fp8_format="E4M3" if recipe.fp8_format == "HYBRID" else "HYBRID")
    if not isinstance(recipe, (BlockScaling, MXFP8, NVFP4)):
        yield BlockScaling(attention=recipe.attention, keep=recipe.keep)
    if not isinstance(recipe, MXFP8):
        yield MXFP8(attention=recipe.attention, keep=recipe.keep)


def _current(recipe: Recipe) -> CurrentScaling:
    format = recipe.fp8_format if isinstance(recipe, DelayedScaling) else "HYBRID"
    return CurrentScaling(format, attention=recipe.attention, keep=recipe.keep)


def _delayed(recipe: DelayedScaling, figures: Figures, history: Sequence[float]) -> Iterator[Recipe]:
    """A larger margin for a tensor that has grown, and a shorter history for one that has been larger."""
    beyond = figures.amax * figures.scales[1] / figures.window.saturates
    above = math.ceil(math.log2(beyond)) if beyond > 1 else 0
    if 0 < above <= MOST_MARGIN:
        yield replace(recipe, margin=recipe.margin + above)
    last = next((count for count, maximum in enumerate(reversed(history)) if maximum > 2 * figures.amax), 0)
    if last and recipe.amax_compute_algo == "max":
        yield replace(recipe, amax_history_len=last)


def _of_four_bits(recipe: NVFP4, rounding: Rounding) -> Iterator[Recipe]:
    """NVFP4 with or without the transform, and with blocks of lines in place of squares."""
    if "weight_gradient" in rounding.products:
        yield replace(recipe, random_hadamard_transform=not recipe.random_hadamard_transform)
    if rounding.role == "weight" and recipe.fp4_2d_quantization:
        yield replace(recipe, fp4_2d_quantization=False)


@dataclass
class _Tensor:
    """A tensor of one run, as each product of its layer reads it."""

    rounding: Rounding
    run: Run
    recipe: Recipe
    readings: Mapping[str, Reading]
    history: Sequence[float] | None

    def tried(self, recipes: Iterator[Recipe] | Sequence[Recipe]) -> Iterator[Alternative]:
        """The figures by each of these recipes, where it rounds the tensor."""
        for recipe in recipes:
            by_product = [figures for name in self.readings if (figures := self.by(recipe, name)) is not None]
            if by_product:
                yield Alternative(recipe, max(by_product, key=lambda figures: figures.shortfall))

    def by(self, recipe: Recipe, product: str) -> Figures | None:
        """The figures for one product; None where the recipe leaves it as it is."""
        reading = self.readings[product]
        kind, x = self.operand(reading)
        form = self.form(recipe, product, kind)
        return None if form is None else measured(form, kind, x, self.states(form))

    def unrounded(self) -> Alternative:
        """The figures in bfloat16."""
        _, x = self.operand(next(iter(self.readings.values())))
        near = x.astype(bfloat16.numpy).astype(np.float32)
        usual = usual_ratios(self.rounding.maker.output.type.dtype)
        return Alternative(None, Figures.of(bfloat16, x, x, near, near, np.ones(1, np.float32), usual))

    def form(self, recipe: Recipe, product: str, kind: Type) -> Form | None:
        """The form that a recipe has for a product."""
        node, at = self.readings[product].node, self.readings[product].at
        assert node.primitive.summed_axes is not None
        axes = node.primitive.summed_axes(*(v.type for v in node.inputs), **node.attrs)[at]
        return recipe.form(self.rounding.role, product, kind, axes)

    def operand(self, reading: Reading) -> tuple[Type, Array]:
        """What the product would read without a recipe, of its type."""
        value = self.rounding.plain or self.rounding.maker.inputs[0]
        x = self.run[value].reshape(self.rounding.maker.inputs[0].type.shape)
        kind = reading.node.inputs[reading.at].type
        form = self.form(self.recipe, reading.product, kind)
        for node in (*self.rounding.moves, *reading.moves):
            primitive: Any = node.primitive
            x = primitive.numpy(x, **node.attrs)
        if isinstance(form, NVFP4Form) and form.hadamard_axis is not None:
            x = restored(x, form.hadamard_axis)
        return kind, x.astype(kind.dtype.numpy)

    def states(self, form: Form) -> States:
        """The states that delayed scaling would have now, on the history of this tensor."""
        last = (self.history or ())[-form.amax_history_len :] if isinstance(form, DelayedForm) else ()
        last = last[-1:] if isinstance(form, DelayedForm) and form.amax_compute_algo == "most_recent" else last
        if not isinstance(form, DelayedForm) or not max(last, default=0):
            return form.states
        scale = np.float32(largest_number(form.dtype)) / np.float32(max(last)) / np.float32(2.0**form.margin)
        return {**form.states, "scale": np.asarray(scale)}


class _More:
    """What a form reads besides the tensor, as constants of a graph."""

    def __init__(self, e: Builder, states: States) -> None:
        self.e, self.states = e, {name: e.constant(array, float32) for name, array in states.items()}

    def absolute_maximum(self, x: Value) -> Value:
        return absolute_maximum(self.e, x, (0,) * x.rank)

    def uniform(self, kind: Type) -> Value:
        numbers = np.random.default_rng(0).integers(0, 256, kind.shape) / 256 + 1 / 512 - 0.5
        return self.e.constant(numbers.astype(np.float32), float32)


def measured(form: Form, kind: Type, x: Array, states: States) -> Figures | None:
    """The figures of an array that a form rounds, the worst where it rounds several; None where it rounds none."""
    source = Value("x", kind)
    e = Builder(Names(["x"]))
    result = form.rounded(e, source, _More(e, states))
    graph = Graph("form", (source,), (), tuple(e.nodes), (), (result,))
    by_rounding = []
    for rounding in roundings(graph):
        values = list(dict.fromkeys(rounding.values))
        arrays, _ = interpret(graph.replace(outputs=tuple(values)), [x])
        by_rounding.append(figures_of(rounding, dict(zip(values, arrays, strict=True))))
    return max(by_rounding, key=lambda figures: figures.shortfall, default=None)
