"""Recipes that a run chooses: each operand of a product is rounded by one of several, or by none, as an input says."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Value
from graphls.ir.types import DType, Type
from graphls.passes.precision.forms import Form
from graphls.passes.precision.low_precision import LowCell
from graphls.passes.precision.recipes import Recipe
from graphls.primitives.low_precision import FORMATS

Bits = dict[tuple[int, int], list[float]]
"""For the place of a cell and the number of a recipe: the share of its bits that each tensor of the cell still has."""


@dataclass(frozen=True)
class RunRecipe(Recipe):
    """The one of `recipes` whose number `choices`, an int32 input of the graph, has at the place of a cell; 0 is none.

    The first recipe has the number 1, and None stands for one that leaves the cell as it is. `bits` gets what the pass
    sees of its tensors.
    """

    choices: Value
    place: int
    recipes: tuple[Recipe | None, ...]
    bits: Bits = field(default_factory=lambda: defaultdict(list), compare=False)

    def form(self, role: str, product: str, kind: Type, axes: tuple[int, ...]) -> Form | None:
        forms = tuple(recipe.form(role, product, kind, axes) if recipe else None for recipe in self.recipes)
        return RunForm(self.choices, self.place, forms, self.bits)


class RunCell(LowCell):
    """A cell with a RunRecipe; each of the recipes says for itself whether products of two activations are low."""

    def of_products(self, has_weight: bool) -> LowCell | None:
        own: Any = self.recipe
        recipes = tuple(recipe if recipe and (has_weight or recipe.attention) else None for recipe in own.recipes)
        return self._replace(recipe=replace(own, recipes=recipes)) if any(recipes) else None


@dataclass(frozen=True)
class RunForm(Form):
    """The form whose number `choices` has at `place`, without states; the tensor as it is for 0 and where it is None.

    Only the branch of that form computes, so that a run costs what a step with its choices does.
    """

    choices: Value
    place: int
    forms: tuple[Form | None, ...]
    bits: Bits = field(compare=False)

    def rounded(self, e: Builder, x: Value, more: Any) -> Value:
        chosen = e.slice(self.choices, starts=(self.place,), stops=(self.place + 1,), steps=(1,))
        chosen, before = e.reshape(chosen, shape=()), bits_of(x.dtype)
        for number, form in enumerate(self.forms, 1):
            share = 1.0
            if form is not None:
                region = more.in_branch(form.without_states, x)
                regions = region, Graph("region", (), (), (), (), (x,))
                share = least_bits(region) / before
                (x,) = e.emit("cond", (e.equal(chosen, number),), regions=regions)
            self.bits[self.place, number].append(share)
        return x


def least_bits(region: Graph) -> float:
    """The bits of the narrowest float that a region computes."""
    dtypes = {value.dtype for value in (*(v for node in region.nodes for v in node.outputs), *region.outputs)}
    return min(bits_of(dtype) for dtype in dtypes if dtype.is_float or dtype.is_low)


def bits_of(dtype: DType) -> int:
    """The bits of a float dtype."""
    return FORMATS[dtype].bits if dtype.is_low else 8 * dtype.numpy.itemsize
