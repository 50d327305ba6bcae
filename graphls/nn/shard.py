"""Cells and functions whose inputs, results and parameters the devices of a mesh divide by strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.registry import nearest
from graphls.ir.sharding import Mesh
from graphls.ir.slices import axes_of_slices
from graphls.ops.strategies import EachStrategy, Layout
from graphls.runtime.context.parallel import parallel_layout


def sharded(
    function: Callable[..., Any], in_strategy: object, out_strategy: object, parameter_plan: object = None
) -> Callable[..., Any]:
    """A function that calls another one, or a cell, and cuts its inputs and results among the devices of a mesh.

    Strategies are tuples with numbers of slices, or a Layout, for each tensor; each takes the first axes of the mesh.
    `parameter_plan` has such a strategy by the names of parameters of a cell. Raises GraphTypeError for anything else,
    GraphValueError for unknown parameters and, when a step is compiled, for strategies that do not fit.
    """
    name = getattr(function, "__name__", type(function).__name__)
    strategy = EachStrategy(name, in_strategy, out_strategy)
    if parameter_plan is not None:
        _plan(function, parameter_plan)

    def call(*inputs: Any, **options: Any) -> Any:
        return strategy.applied(lambda *x: function(*x, **options), inputs, {})

    return wraps(function)(call) if hasattr(function, "__name__") else call


def _plan(cell: Any, plan: object) -> None:
    """Set how parameters of a cell are divided."""
    if not isinstance(plan, Mapping) or not hasattr(cell, "parameters_and_names"):
        text = "The parameter_plan is a dict of strategies by the names of the parameters of a cell"
        raise GraphTypeError(f"{text}, not {plan!r} for {cell!r}.")
    named = {parameter.name: parameter for _, parameter in cell.parameters_and_names()}
    named.update(cell.parameters_and_names())
    mesh = parallel_layout().mesh
    for name, each in plan.items():
        parameter = named.get(name.removeprefix("self."))
        if parameter is None:
            text = f"The parameter_plan names {name!r}"
            raise GraphValueError(f"{text}, and {type(cell).__name__} has no such parameter{nearest(name, named)}.")
        if mesh is not None:
            parameter.sharding = _axes(mesh, name, each)


def _axes(mesh: Mesh, name: str, each: Any) -> tuple[tuple[str, ...], ...]:
    if isinstance(each, Layout):
        return each.axes(mesh)
    return axes_of_slices(mesh, each, f"The parameter_plan {each!r} of {name!r}")
