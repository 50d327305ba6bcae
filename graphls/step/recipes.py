"""Recipes in steps: the pass that quantizes the operands of products, and the states that it needs."""

from __future__ import annotations

from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.random import random_state
from graphls.frontend.trace.trace import Traced
from graphls.ir.graph import Graph
from graphls.nn.recipe_states import states_of
from graphls.passes.manager import Pipeline
from graphls.passes.precision.low_precision import RANDOM, LowCell, LowPrecision
from graphls.passes.precision.placing import behind_gradient


def for_recipes(pipeline: Pipeline, traced: Traced) -> Pipeline:
    """The pipeline with the pass for the recipes of cells behind the gradient; `traced` gets the states of these."""
    if not traced.recipes:
        return pipeline
    cells, parameters = {}, dict[str, Parameter]()
    for scope, cell in traced.recipes.items():
        states = states_of(cell)
        names = {role: {name: own.name for name, own in by_name.items()} for role, by_name in states.items()}
        cells[scope] = LowCell(cell._recipe, names)
        parameters.update((own.name, own) for by_name in states.values() for own in by_name.values())
    traced.parameters = {RANDOM: random_state(), **parameters, **traced.parameters}
    return behind_gradient(pipeline, LowPrecision(cells=cells))


def drop_unread(traced: Traced, graph: Graph) -> None:
    """Leave `traced` without parameters that neither its graph nor the final one has as states."""
    names = {state.name for state in (*traced.graph.states, *graph.states)}
    traced.parameters = {name: own for name, own in traced.parameters.items() if name in names}
