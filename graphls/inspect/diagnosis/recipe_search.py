"""Which layers of a step can be low: what each recipe does in each of them, and the choice that stays within limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from graphls.base.errors import GraphKeyError, GraphTypeError, GraphValueError
from graphls.base.text.html import Page
from graphls.base.text.plain import shown
from graphls.base.text.tables import Table
from graphls.inspect.diagnosis.recipe_choice import Limits, RecipeChoice
from graphls.inspect.diagnosis.rounded import written
from graphls.inspect.diagnosis.roundings import base
from graphls.inspect.diagnosis.sensitivity import Batch, Layer, RoundingEffect, Sensitivity
from graphls.ir.graph import Graph, Value, definers, walk
from graphls.ir.registry import nearest
from graphls.passes import Pipeline
from graphls.passes.precision.recipes import Recipe
from graphls.runtime.step import Step

OF_BATCHES = 0.1
"""The noise that is admitted of that among batches: about as much as a tenth fewer rows in each batch would bring.

A fifth fewer rows cost the perceptron of benchmarks/low_precision.py 6.8 +- 0.8 % of its final loss, by ten seeds.
"""

WITHOUT_BATCHES = 0.01
"""The noise that is admitted where that among batches is not measured: 20 dB below what it is in."""


@dataclass(frozen=True)
class LayerChoice:
    """A layer, and what each of the recipes does in it alone; None for one that keeps the layer as it is.

    `path` is that in the network, `cell` that in the step, `line` the user's. `share` is that of the operations of all
    products. `recipe` is None where the layer is to stay as it is.

    Examples:
        >>> from graphls.diagnosis import LayerChoice, RoundingEffect
        >>> LayerChoice("fc1", "network.fc1", "train.py:7", 0.5, (RoundingEffect(0.02, 0.001),), None).effects[0].noise
        0.02
    """

    path: str
    cell: str
    line: str
    share: float
    effects: tuple[RoundingEffect | None, ...]
    recipe: Recipe | None


@dataclass(frozen=True, repr=False)
class RecipeSearch(Mapping[str, "Recipe | None"]):
    """A recipe for each layer of a network, by its path, that together stay within `budget` and `noise`.

    None stands for a layer that stays as it is. `measured` is the effect of all of them together, `added` the sum of
    their effects alone. `among_batches` is the noise of the gradient among batches, None where it was not measured;
    `bits` the share of the bits that operands of products have left, weighted by their operations; `runs` the number
    of runs of the step. `others` are the paths of cells with products that are no choice: those without an effect,
    as in a branch that did not run, and those that all recipes keep as they are. Printed, it is a table and the lines
    of Python that give the recipes to a network, `code()`; `apply(net)` does that.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import amp, nn
        >>> graphls.set_seed(0)
        >>> net = nn.SequentialCell(nn.Dense(32, 32), nn.ReLU(), nn.Dense(32, 4))
        >>> x = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
        >>> search = graphls.compile(net, x).search_recipe(x, recipes=[amp.NVFP4(), amp.MXFP8()])
        >>> print(search.code())
        net[0].to_float(amp.NVFP4())
        net[2].to_float(amp.MXFP8())
        >>> search.apply(net) is net
        True
    """

    layers: tuple[LayerChoice, ...]
    recipes: tuple[Recipe, ...]
    budget: float
    noise: float
    measured: RoundingEffect
    added: RoundingEffect
    among_batches: float | None
    bits: float
    batches: int
    runs: int
    others: tuple[str, ...] = ()

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
        """The result in some sentences."""
        return " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        low = sum(layer.recipe is not None for layer in self.layers)
        measured, added, has_loss = self.measured, self.added, self.measured.rise is not None
        count = f"{low} of {_count(len(self.layers), 'layer')}"
        yield f"{count} take a recipe; operands of products have {self.bits:.0%} of their bits."
        if low and has_loss:
            error = f" ± {measured.error:.1%}" if measured.error is not None else ""
            others = f"{added.rise:.1%} by layers, at most {self.budget:.1%}"
            yield f"The loss rises by {measured.rise:.1%}{error} ({others})."
        if low:
            what = "gradient" if has_loss else "outputs"
            others = f"{_share(added.noise)} by layers, at most {_share(self.noise)}"
            yield f"The noise of the {what} is {_share(measured.noise)} ({others})."
        if self.among_batches is not None:
            yield f"That among batches is {_share(self.among_batches)}."
        few = ", which says little about the loss: give more by batches=" if self.batches == 1 and has_loss else ""
        yield f"Measured on {_count(self.batches, 'batch')} in {self.runs} runs of the step{few}."
        if self.others:
            yield f"Without an effect here, or kept by all recipes: {', '.join(map(_shown, self.others))}."

    def code(self, name: str = "net") -> str:
        """The lines of Python that give the recipes to the network `name`."""
        lines = []
        for path, recipe in self._assignments():
            call = f"{_expression(name, path)}.to_float({written(recipe)})"
            lines.append(call if path else f"amp.auto_mixed_precision({name}, {written(recipe)})")
        return "\n".join(lines)

    def apply(self, network: Any) -> Any:
        """Give the recipes to the layers of a network, and return it; raises GraphKeyError where it has no such layer.

        Compile its step again, as a compiled one stays as it is.
        """
        cells = dict(network.cells_and_names())
        for path in self:
            if path not in cells:
                raise GraphKeyError(f"The network has no cell {path!r}{nearest(path, cells)}.")
        for path, recipe in self._assignments():
            cells[path].to_float(recipe)
        return network

    def _assignments(self) -> list[tuple[str, Recipe]]:
        """The paths of cells and the recipe of each: of every layer, or of the network and of what differs in it."""
        by_layer = list(self._by_layer(self.layers))
        often = Counter(layer.recipe for layer in self.layers if layer.recipe is not None).most_common(1)
        if not often:
            return []
        most = often[0][0]
        others = [layer for layer in self.layers if layer.recipe != most]
        keep = tuple(path for path in (*(layer.path for layer in others), *self.others) if path)
        together = [("", replace(most, keep=keep)), *self._by_layer(others)]
        is_kept = any(layer.path == "" for layer in others)  # no pattern is the path of the network itself
        return by_layer if is_kept or len(by_layer) <= len(together) else together

    def _by_layer(self, layers: Sequence[LayerChoice]) -> Iterator[tuple[str, Recipe]]:
        """The paths with their recipes, outer cells first; an outer one leaves out the cells in it that differ."""
        for layer in sorted(layers, key=lambda layer: layer.path.count(".") + bool(layer.path)):
            if layer.recipe is not None:
                start = f"{layer.path}." if layer.path else ""
                differ = (*(o.path for o in self.layers if o.recipe != layer.recipe), *self.others)
                inside = (path for path in differ if path.startswith(start) and path != layer.path)
                yield layer.path, replace(layer.recipe, keep=tuple(path.removeprefix(start) for path in inside))

    def __str__(self) -> str:
        code = self.code()
        return "\n".join([*self._sentences(), "", *self._table().lines(), *(["", code] if code else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = Page("Recipes", self.summary)
        self._table().add_to(page)
        page.lines([(line, None) for line in self.code().splitlines()])
        return page.text()

    def _table(self) -> Table:
        has_loss = self.measured.rise is not None
        header = ["layer", "line", "takes", "products"]
        for recipe in self.recipes:
            header += [f"{written(replace(recipe, keep=()))} noise", *(["loss"] if has_loss else [])]
        return Table(header, [self._row(layer, has_loss) for layer in self.layers], texts=3)

    def _row(self, layer: LayerChoice, has_loss: bool) -> tuple[str, ...]:
        recipe = "-" if layer.recipe is None else written(replace(layer.recipe, keep=()))
        cells = [shown(layer.path) or "the network", shown(layer.line), recipe, f"{layer.share:.1%}"]
        for effect in layer.effects:
            cells.append("-" if effect is None else _share(effect.noise))
            if has_loss:
                cells.append("-" if effect is None or effect.rise is None else f"{effect.rise:+.1%}")
        return tuple(cells)


def search_recipe(
    step: Step, traced: Graph, pipeline: Pipeline, gradients: Sequence[Value], batches: Sequence[Batch],
    recipes: Sequence[Recipe], budget: float, noise: float | None,
) -> RecipeSearch:  # fmt: skip
    """The search; see Compiled.search_recipe."""
    _check(recipes, budget, noise)
    paths = _paths(traced)
    allowed = {cell: [None if _is_kept(path, r) else r for r in recipes] for cell, path in paths.items()}
    sensitivity = Sensitivity(step, traced, pipeline, gradients, allowed, batches)
    effects = {
        (layer.cell, number): sensitivity.effect({layer.cell: number})
        for layer in sensitivity.layers
        for number in layer.bits
        if allowed[layer.cell][number - 1] is not None
    }
    among = sensitivity.among_batches()
    limits = Limits(noise or (WITHOUT_BATCHES if among is None else OF_BATCHES * among), budget)
    with_effect = {cell for (cell, _), effect in effects.items() if effect.noise or effect.rise}
    layers = [layer for layer in sensitivity.layers if layer.cell in with_effect]
    effects = {step: effect for step, effect in effects.items() if step[0] in with_effect}
    chosen = RecipeChoice(layers, effects, limits, sensitivity.effect).chosen()
    measured = sensitivity.effect(chosen)
    parts = [effects[step] for step in chosen.items()]
    has_loss = measured.rise is not None
    added = RoundingEffect(sum(e.noise for e in parts), sum(e.rise or 0.0 for e in parts) if has_loss else None)
    return RecipeSearch(
        tuple(_choice(layer, paths, effects, recipes, chosen) for layer in layers), tuple(recipes), float(budget),
        limits.noise, measured, added, among, _bits(layers, chosen), len(batches), sensitivity.runs,
        tuple(paths[cell] for cell in sensitivity.cells if cell not in with_effect),
    )  # fmt: skip


def _choice(
    layer: Layer, paths: Mapping[str, str], effects: Mapping[tuple[str, int], RoundingEffect],
    recipes: Sequence[Recipe], chosen: Mapping[str, int],
) -> LayerChoice:  # fmt: skip
    own = tuple(effects.get((layer.cell, number)) for number in range(1, len(recipes) + 1))
    recipe = recipes[chosen[layer.cell] - 1] if layer.cell in chosen else None
    line = f"{layer.loc.file}:{layer.loc.line}" if layer.loc is not None else ""
    return LayerChoice(paths[layer.cell], layer.cell, line, layer.share, own, recipe)


def _bits(layers: Sequence[Layer], chosen: Mapping[str, int]) -> float:
    """The share of their bits that operands have left; those of products that no layer has keep theirs."""
    return 1 - sum(layer.share * (1 - layer.bits[chosen[layer.cell]]) for layer in layers if layer.cell in chosen)


def _check(recipes: object, budget: object, noise: object) -> None:
    if not isinstance(recipes, (list, tuple)) or not recipes or not all(isinstance(r, Recipe) for r in recipes):
        raise GraphTypeError("recipes is a list of recipes to choose from, such as [amp.NVFP4(), amp.MXFP8()].")
    shares = {"budget": (budget, "a share of the loss, such as 0.02")}
    shares |= {} if noise is None else {"noise": (noise, "a share of the gradient, such as 0.1, or None")}
    for name, (value, what) in shares.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise GraphTypeError(f"{name}={value!r} is {what}.")
        if not 0 < value < float("inf"):
            raise GraphValueError(f"{name}={value!r} is {what}; it is above 0.")


def _is_kept(path: str, recipe: Recipe) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in recipe.keep)


def _paths(traced: Graph) -> dict[str, str]:
    """The paths in the network of the cells of a step, in the order of the graph.

    Names of weights begin with them, while the cell of a step may have other cells around the network, such as one with
    the loss; most weights say which.
    """
    definer, around = definers(walk(traced)), Counter[str]()
    for node in walk(traced):
        if node.primitive.summed_axes is not None:
            for state in (base(value, definer) for value in node.inputs):
                owner = state.name.rpartition(".")[0]
                if state.is_state and f".{node.scope}".endswith(owner and f".{owner}"):
                    around[f"{node.scope}.".removesuffix(f"{owner}.") if owner else f"{node.scope}."] += 1
    start = around.most_common(1)[0][0].lstrip(".") if around else ""
    cells = dict.fromkeys(node.scope for node in walk(traced) if f"{node.scope}.".startswith(start))
    return {cell: f"{cell}.".removeprefix(start).removesuffix(".") for cell in cells}


def _share(value: float) -> str:
    """A share of a square in percent, with two digits for a small one."""
    return f"{value:.1%}" if value >= 0.01 else f"{value:.2%}" if value else "0"


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}{'es' if name.endswith('ch') else 's'}"


def _shown(path: str) -> str:
    return shown(path) or "the network itself"


def _expression(name: str, path: str) -> str:
    """A cell as Python writes it: net.layers[0].fc1."""
    parts = (f"[{part}]" if part.isdigit() else f".{part}" for part in path.split(".") if part)
    return name + "".join(parts)
