"""Which layers of a step can be low: each is measured with each recipe, and takes the first that is good enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from graphls.base.errors import GraphKeyError, GraphTypeError
from graphls.base.text.html import Page
from graphls.base.text.plain import shown
from graphls.base.text.tables import Table
from graphls.frontend.tensors.random import random_state
from graphls.inspect.diagnosis.precision import LowTensors
from graphls.inspect.diagnosis.rounded import RoundedTensor, decibels
from graphls.inspect.diagnosis.roundings import base
from graphls.inspect.diagnosis.watched import Array, Probe
from graphls.ir.graph import Graph, definers, walk
from graphls.ir.registry import nearest
from graphls.passes import Pipeline
from graphls.passes.precision.low_precision import RANDOM, LowCell, LowPrecision
from graphls.passes.precision.placing import behind_gradient
from graphls.passes.precision.recipes import Recipe
from graphls.runtime.step import Step


@dataclass(frozen=True)
class LayerChoice:
    """A layer, and what it loses with each of the recipes: `ratios` are in dB, of the worst of its tensors.

    `path` is that in the network, `cell` that in the step. `recipe` is the first one whose ratio is at least the
    budget, None where the layer is to stay as it is. `worst` has the role of the worst tensor for each recipe.

    Examples:
        >>> from graphls.diagnosis import LayerChoice
        >>> LayerChoice("fc1", "network.fc1", (31.5,), ("weight",), None).worst
        ('weight',)
    """

    path: str
    cell: str
    ratios: tuple[float, ...]
    worst: tuple[str, ...]
    recipe: Recipe | None


@dataclass(frozen=True, repr=False)
class RecipeSearch(Mapping[str, "Recipe | None"]):
    """A recipe for each layer of a network, by its path: the first of `recipes` that leaves `budget` dB to all tensors.

    None stands for a layer that stays as it is. Printed, it is a table and the lines of Python that give the recipes to
    a network, `code()`; `apply(net)` does that.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import amp, nn
        >>> net = nn.SequentialCell(nn.Dense(32, 32), nn.ReLU(), nn.Dense(32, 4))
        >>> x = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
        >>> search = graphls.compile(net, x).search_recipe(x, recipes=[amp.NVFP4(), amp.MXFP8()], budget=20)
        >>> print(search.code())
        net[0].to_float(amp.MXFP8())
        net[2].to_float(amp.MXFP8())
        >>> search.apply(net) is net
        True
    """

    layers: tuple[LayerChoice, ...]
    recipes: tuple[Recipe, ...]
    budget: float

    def __getitem__(self, path: str) -> Recipe | None:
        """The recipe of a layer; raises GraphKeyError for a path of none."""
        for layer in self.layers:
            if layer.path == path:
                return layer.recipe
        raise GraphKeyError(f"No layer {path!r} was measured{nearest(path, self)}.")

    def __iter__(self) -> Iterator[str]:
        return (layer.path for layer in self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def summary(self) -> str:
        """The result in a sentence."""
        low = sum(layer.recipe is not None for layer in self.layers)
        return f"{low} of {len(self.layers)} layers keep {self.budget:g} dB with a recipe; the others stay as they are."

    def code(self, name: str = "net") -> str:
        """The lines of Python that give the recipes to the network `name`."""
        lines = (f"{_expression(name, path)}.to_float({_call(recipe)})" for path, recipe in self._by_path())
        return "\n".join(lines)

    def apply(self, network: Any) -> Any:
        """Give the recipes to the layers of a network, and return it; raises GraphKeyError where it has no such layer.

        Compile its step again, as a compiled one stays as it is.
        """
        cells = dict(network.cells_and_names())
        for path, recipe in self._by_path():
            if path not in cells:
                raise GraphKeyError(f"The network has no cell {path!r}{nearest(path, cells)}.")
            cells[path].to_float(recipe)
        return network

    def _by_path(self) -> Iterator[tuple[str, Recipe]]:
        """The paths with their recipes, outer cells first; an outer one leaves out the layers in it that stay."""
        for layer in sorted(self.layers, key=lambda layer: layer.path.count(".") + bool(layer.path)):
            if layer.recipe is not None:
                start = f"{layer.path}." if layer.path else ""
                others = (o.path for o in self.layers if o.recipe is None and o is not layer)
                inner = tuple(path.removeprefix(start) for path in others if path.startswith(start))
                yield layer.path, replace(layer.recipe, keep=(*layer.recipe.keep, *inner)) if inner else layer.recipe

    def __str__(self) -> str:
        return "\n".join([self.summary, "", *self._table().lines(), "", self.code()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = Page("Recipes", self.summary)
        self._table().add_to(page)
        page.lines([(line, None) for line in self.code().splitlines()])
        return page.text()

    def _table(self) -> Table:
        header = ("layer", "takes", "worst tensor", *(f"{_call(recipe)} dB" for recipe in self.recipes))
        return Table(header, [self._row(layer) for layer in self.layers], texts=3)

    def _row(self, layer: LayerChoice) -> tuple[str, ...]:
        chosen = "stays" if layer.recipe is None else _call(layer.recipe)
        at = len(self.recipes) - 1 if layer.recipe is None else self.recipes.index(layer.recipe)
        return shown(layer.path) or "the network", chosen, layer.worst[at], *map(decibels, layer.ratios)


def search_recipe(
    step: Step, traced: Graph, pipeline: Pipeline, arrays: Sequence[Array], recipes: Sequence[Recipe], budget: float
) -> RecipeSearch:
    """The search; see Compiled.search_recipe."""
    _check(recipes, budget)
    measured = [_measured(step, traced, pipeline, arrays, recipe) for recipe in recipes]
    cells = list(dict.fromkeys(cell for by_cell in measured for cell in by_cell))
    paths = _paths(traced, cells)
    layers = []
    for cell in cells:
        worst = [by_cell.get(cell) for by_cell in measured]
        ratios = tuple(float("-inf") if each is None else _ratio(each) for each in worst)
        fitting = (r for r, each, ratio in zip(recipes, worst, ratios, strict=True) if each and ratio >= budget)
        roles = tuple("-" if each is None else each.role for each in worst)
        layers.append(LayerChoice(paths[cell], cell, ratios, roles, next(fitting, None)))
    return RecipeSearch(tuple(layers), tuple(recipes), float(budget))


def _check(recipes: object, budget: object) -> None:
    if not isinstance(recipes, (list, tuple)) or not recipes or not all(isinstance(r, Recipe) for r in recipes):
        raise GraphTypeError("recipes is a list of recipes, the best one first, such as [amp.NVFP4(), amp.MXFP8()].")
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise GraphTypeError(f"budget={budget!r} is a number of dB, such as 20.")


def _measured(
    step: Step, traced: Graph, pipeline: Pipeline, arrays: Sequence[Array], recipe: Recipe
) -> dict[str, RoundedTensor]:
    """The worst tensor of each cell with a recipe."""
    scopes = {node.scope for node in walk(traced)}
    cells = {scope: LowCell(recipe, {}) for scope in scopes if not _is_kept(scope, recipe)}
    low = behind_gradient(pipeline, LowPrecision(cells=cells))
    graph = low.run(traced.replace(name=f"{traced.name}_low"), keep=False, source="trace").graph
    variant = replace(step, graph=graph, parameters={RANDOM: random_state(), **step.parameters})
    worst: dict[str, RoundedTensor] = {}
    for tensor in LowTensors(graph, _opening(variant)).explain(arrays, variant.parameters):
        if tensor.cell not in worst or _ratio(tensor) < _ratio(worst[tensor.cell]):
            worst[tensor.cell] = tensor
    return dict(sorted(worst.items(), key=lambda item: _first_use(traced, item[0])))


def _opening(step: Step) -> Callable[[Graph], Probe]:
    return lambda graph: Probe(graph, step)


def _is_kept(scope: str, recipe: Recipe) -> bool:
    """Whether a recipe leaves a cell as it is, by the path in some cell around it."""
    names = scope.split(".")
    paths = [".".join(names[start:]) for start in range(len(names))]
    return any(fnmatchcase(path, pattern) for path in paths for pattern in recipe.keep)


def _first_use(traced: Graph, cell: str) -> int:
    """The position of the first node of a cell."""
    return next((i for i, node in enumerate(walk(traced)) if node.scope == cell), 0)


def _ratio(tensor: RoundedTensor) -> float:
    """The worse of the two ratios of a tensor; one that is not finite has none."""
    return float("-inf") if tensor.not_finite else min(tensor.sqnr, tensor.element_sqnr)


def _paths(traced: Graph, cells: Sequence[str]) -> dict[str, str]:
    """The paths of cells in the network, which is what the names of weights begin with.

    The cell of a step may have other cells around the network, such as one with the loss; most weights say which.
    """
    definer = definers(walk(traced))
    around: Counter[str] = Counter()
    for node in walk(traced):
        for value in node.inputs if node.scope in cells else ():
            state = base(value, definer)
            owner = state.name.rpartition(".")[0] if state.is_state else ""
            if owner and f".{node.scope}".endswith(f".{owner}"):
                around[node.scope.removesuffix(owner)] += 1
    start = around.most_common(1)[0][0] if around else ""
    return {cell: cell.removeprefix(start) for cell in cells}


def _expression(name: str, path: str) -> str:
    """A cell as Python writes it: net.layers[0].fc1."""
    parts = (f"[{part}]" if part.isdigit() else f".{part}" for part in path.split(".") if part)
    return name + "".join(parts)


def _call(recipe: Recipe) -> str:
    """A recipe as Python writes it, without arguments that are the defaults."""
    kind = type(recipe)
    changed = [f for f in fields(recipe) if getattr(recipe, f.name) != f.default]
    module = "amp." if kind.__module__.startswith("graphls.") else ""
    return f"{module}{kind.__name__}({', '.join(f'{f.name}={getattr(recipe, f.name)!r}' for f in changed)})"
