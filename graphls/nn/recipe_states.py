"""Recipes of cells: which of them have low products, and the parameters in which scales outlive a step."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from graphls.frontend.tensors.configuration import Configuration
from graphls.frontend.tensors.parameter import Parameter
from graphls.ir.types import Type, float32
from graphls.passes.precision.recipes import ROLES, Recipe

Cell = Any
"""A cell, which has a recipe by its method `to_float`."""


def give_recipe(network: Cell, recipe: Recipe | None) -> None:
    """Let the products of a cell and of all inside it read operands as a recipe says, but for those that it keeps.

    A cell with one weight of its own, such as Dense, gets the states of the recipe as parameters: the history of maxima
    and the scale of each of its tensors, `input_amax_history`, `input_scale` and so on, for a recipe that has them.
    None ends the recipes of all these cells. States stay, for a step that was compiled before, and for a recipe that
    comes back; those of another shape are replaced.
    """
    for path, cell in network.cells_and_names():
        is_kept = recipe is None or any(fnmatchcase(path, pattern) for pattern in recipe.keep)
        cell.__dict__["_recipe"] = None if is_kept else recipe
        weight = None if is_kept else _only_weight(cell)
        if recipe is not None and weight is not None:
            for name, parameter in _states(recipe, weight):
                if name not in cell._params or cell._params[name].shape != parameter.shape:
                    setattr(cell, name, parameter)
    Configuration.note_change()


def states_of(cell: Cell) -> dict[str, dict[str, Parameter]]:
    """The states of the recipe of a cell: by the role of a tensor, then by the name in its form."""
    recipe: Recipe = cell.__dict__["_recipe"]
    weight = _only_weight(cell)
    own: dict[str, dict[str, Parameter]] = {}
    for role in ROLES if weight is not None else ():
        names = _initial(recipe, role, weight).keys() if weight is not None else ()
        if names and all(f"{role}_{name}" in cell._params for name in names):
            own[role] = {name: cell._params[f"{role}_{name}"] for name in names}
    return own


def _states(recipe: Recipe, weight: Parameter) -> Iterator[tuple[str, Parameter]]:
    prefix = weight.name.rpartition(".")[0]
    for role in ROLES:
        for name, array in _initial(recipe, role, weight).items():
            own = f"{role}_{name}"
            yield own, Parameter(array, f"{prefix}.{own}".strip("."), requires_grad=False)


def _initial(recipe: Recipe, role: str, weight: Parameter) -> dict[str, object]:
    """The first states of a tensor; which one that is makes no difference to their names."""
    form = recipe.form(role, "forward", Type(float32, weight.shape), (weight.ndim - 1,))
    return {} if form is None else dict(form.states)


def _only_weight(cell: Cell) -> Parameter | None:
    """The only matrix, or array of more axes, among the trained parameters of a cell itself."""
    own = (p for p in cell._params.values() if isinstance(p, Parameter))
    weights = [p for p in own if p.requires_grad and len(p.shape) > 1]
    return weights[0] if len(weights) == 1 else None
