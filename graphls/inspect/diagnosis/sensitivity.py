"""What rounding by recipes does to the gradient and the loss of a step: one graph in which each run chooses recipes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.base.location import Location
from graphls.base.sharing.storage import array_in
from graphls.frontend.tensors.random import random_state
from graphls.ir.build import Names
from graphls.ir.engines import find_engine
from graphls.ir.flops import own_flops, runs
from graphls.ir.graph import Graph, Node, Value, definers, walk
from graphls.ir.types import Type, int32
from graphls.passes import Pipeline
from graphls.passes.overflow.rescale import outer_gradients
from graphls.passes.precision.choices import Bits, RunCell, RunRecipe
from graphls.passes.precision.low_precision import RANDOM, LowPrecision
from graphls.passes.precision.placing import behind_gradient
from graphls.passes.precision.recipes import Recipe
from graphls.passes.simplify.dce import Dce
from graphls.runtime.states import copies
from graphls.runtime.step import Step

Array = np.ndarray[Any, Any]
Batch = Sequence[Array]
Choices = Mapping[str, int]
"""The number of the recipe of each cell that has one, from 1 on."""


@dataclass(frozen=True)
class RoundingEffect:
    """What rounding does to a step: `noise` is the square of the change of the gradient over that of the gradient.

    Each parameter has a ratio of its own, 1 at most, and `noise` is their mean, weighted by the numbers of elements:
    optimizers such as Adam step as far for a parameter with a small gradient as for others. `rise` is the change of the
    loss over the loss, and `error` its standard error, where several batches tell it. In a step without gradients
    `noise` is that of its outputs, and there is no rise.

    Examples:
        >>> from graphls.diagnosis import RoundingEffect
        >>> RoundingEffect(0.02, 0.004).rise
        0.004
    """

    noise: float
    rise: float | None = None
    error: float | None = None


@dataclass(frozen=True)
class Layer:
    """A cell with products: its line, its share of the operations of all products, and the bits left by each recipe."""

    cell: str
    loc: Location | None
    share: float
    bits: Mapping[int, float]


@dataclass(frozen=True)
class _Run:
    """The loss of a run, where there is one, and the gradients or outputs."""

    loss: float | None
    arrays: list[Array]

    @property
    def squares(self) -> Array:
        """The square of each array."""
        return np.array([_square(array) for array in self.arrays])

    def distances(self, other: _Run) -> Array:
        """The square of the difference to each array of another run."""
        with np.errstate(all="ignore"):
            return np.array([_square(a - b) for a, b in zip(self.arrays, other.arrays, strict=True)])


class Sensitivity:
    """A step in which each run chooses the recipe of each cell, and the runs on some batches without any recipe.

    `gradients` are those of parameters in the traced graph; where there are none, outputs are compared. A batch has
    random numbers of its own, those of the rounding, too, and the same for all choices.
    """

    def __init__(
        self, step: Step, traced: Graph, pipeline: Pipeline, gradients: Sequence[Value],
        cells: Mapping[str, Sequence[Recipe | None]], batches: Sequence[Batch],
    ) -> None:  # fmt: skip
        self.has_gradients, self.places = bool(gradients), {cell: place for place, cell in enumerate(cells)}
        losses = [v for n in outer_gradients(traced) if n in set(traced.nodes) for v in n.inputs[: n.attrs["of"]]]
        self.losses = len(losses) if gradients else 0
        targets = (*losses, *gradients) if gradients else tuple(v for v in traced.outputs if v.type.dtype.is_float)
        if not targets:
            raise GraphValueError("This step has neither gradients nor outputs of floats that recipes could change.")
        choices = Value(Names.of(traced).fresh("choices"), Type(int32, (len(cells),)))
        bits: Bits = defaultdict(list)
        own = {cell: RunRecipe(choices, self.places[cell], tuple(r), bits) for cell, r in cells.items()}
        low = LowPrecision(cells={cell: RunCell(recipe, {}) for cell, recipe in own.items()})
        chosen = traced.replace(name=f"{traced.name}_recipes", inputs=(*traced.inputs, choices), outputs=targets)
        graph = behind_gradient(pipeline, low).run(chosen, keep=False, source="trace").graph
        graph = graph.replace(outputs=graph.outputs[: len(targets)], writes=())
        self.graph = Pipeline((Dce(),)).run(graph, keep=False).graph
        self.layers = list(_layers(self.graph, choices, self.places, bits))
        _check(self.graph, self.layers)
        multiplied = {node.scope for node in _products(self.graph)}
        spared = {cell for cell, own_recipes in cells.items() if not any(own_recipes)} & multiplied
        self.cells = [cell for cell in cells if cell in spared or any(layer.cell == cell for layer in self.layers)]
        self.open(step)
        self.batches = batches
        self.runs = 0
        self.plain = [self.run(batch, {}, number) for number, batch in enumerate(batches)]
        self.squares = np.sum([run.squares for run in self.plain], axis=0)
        self.sizes = np.array([array.size for array in self.plain[0].arrays])
        self.check_plain()
        self.seen: dict[tuple[int, ...], RoundingEffect] = {}

    def open(self, step: Step) -> None:
        """Open a session of the graph on the states of the step, with random numbers of its own."""
        parameters = {RANDOM: random_state(), **step.parameters}
        random = {node.inputs[0].name for node in walk(self.graph) if node.primitive.on_host}
        self.random = copies({name: parameters[name] for name in random})
        self.first = {name: np.array(state.storage.read()) for name, state in self.random.items()}
        own = replace(step, target=_fast_at_branches(step.target))
        self.session = own.open_session(self.graph, {**parameters, **self.random})

    def run(self, batch: Batch, choices: Choices, number: int) -> _Run:
        """A run on a batch of that number."""
        for name, state in self.random.items():
            state.storage.replace(self.first[name] + np.array([0, number], self.first[name].dtype))
        numbers = np.zeros(len(self.places), np.int32)
        for cell, recipe in choices.items():
            numbers[self.places[cell]] = recipe
        outputs = [np.array(array_in(output)) for output in self.session.run([*batch, numbers])]
        self.runs += 1
        losses, arrays = outputs[: self.losses], [_wide(array) for array in outputs[self.losses :]]
        return _Run(sum(float(_wide(loss).sum()) for loss in losses) if losses else None, arrays)

    def check_plain(self) -> None:
        """Raise GraphValueError where there is nothing that noise could be compared with."""
        what = "gradients" if self.has_gradients else "outputs"
        if not np.isfinite(self.squares).all():
            text = f"The {what} of this step are not finite on these inputs, so that no rounding can be compared"
            raise GraphValueError(f"{text}; step.explain_overflow(...) says why.")
        if not self.squares.any():
            raise GraphValueError(f"The {what} of this step are 0 on these inputs; search with others, or later.")

    def effect(self, choices: Choices) -> RoundingEffect:
        """What these choices do to the gradient and the loss, over all batches."""
        key = tuple(choices.get(cell, 0) for cell in self.places)
        if key not in self.seen:
            self.seen[key] = self.measured(choices) if choices else RoundingEffect(0.0, 0.0 if self.losses else None)
        return self.seen[key]

    def measured(self, choices: Choices) -> RoundingEffect:
        distances, rises = np.zeros(len(self.sizes)), []
        for number, (batch, plain) in enumerate(zip(self.batches, self.plain, strict=True)):
            run = self.run(batch, choices, number)
            distances += run.distances(plain)
            if run.loss is not None and plain.loss is not None:
                rises.append(run.loss - plain.loss)
        noise = self.noise(distances)
        if not rises:
            return RoundingEffect(noise)
        mean = abs(sum(run.loss or 0.0 for run in self.plain)) / len(rises)
        rise = float(np.mean(rises))
        error = float(np.std(rises, ddof=1)) / len(rises) ** 0.5 if len(rises) > 1 else None
        return RoundingEffect(noise, _over(rise, mean), None if error is None else _over(error, mean))

    def noise(self, distances: Array) -> float:
        """The noise by the squares of changes, of all batches together; inf where one is not finite."""
        if not np.isfinite(distances).all():
            return float("inf")
        ratios = np.divide(distances, self.squares, out=(distances > 0).astype(float), where=self.squares > 0)
        return float(np.minimum(ratios, 1) @ self.sizes / self.sizes.sum())

    def among_batches(self) -> float | None:
        """The noise that a gradient has because its batch is one of many of this size.

        With one batch it comes from the halves of that; None where there are no rows to halve, and no gradients.
        """
        if not self.has_gradients:
            return None
        if len(self.plain) > 1:
            return self.noise(_variances(self.plain) * len(self.plain))
        halves = halved(self.batches[0])
        if not halves:
            return None
        first, second = (self.run(half, {}, number) for number, half in enumerate(halves, 1))
        return self.noise(first.distances(second) / 4)  # the mean of two halves has a quarter of their square


def halved(batch: Batch) -> tuple[Batch, ...]:
    """The first half of the rows of a batch twice over, and the second half; nothing where arrays differ in rows."""
    lengths = {array.shape[0] for array in batch if array.ndim}
    rows = lengths.pop() if len(lengths) == 1 else 0
    if rows < 2:
        return ()
    half = np.arange(rows) % (rows // 2)
    return tuple([a[half + start] if a.ndim else a for a in batch] for start in (0, rows // 2))


def _variances(runs: Sequence[_Run]) -> Array:
    """The variance of each array among runs."""
    mean = _Run(None, [sum(arrays) / len(runs) for arrays in zip(*(run.arrays for run in runs), strict=True)])
    distances: Array = np.sum([run.distances(mean) for run in runs], axis=0)
    return distances / (len(runs) - 1)


def _square(array: Array) -> float:
    with np.errstate(all="ignore"):
        return float(np.sum(np.square(array, dtype=np.float64)))


def _wide(array: Array) -> Array:
    return array if array.dtype == np.float64 else array.astype(np.float32)


def _over(change: float, of: float) -> float:
    if not np.isfinite(change):
        return float("inf")
    return change / of if of else float("inf") if change > 0 else 0.0


def _fast_at_branches(target: Any) -> Any:
    """The target with ONNX Runtime, where its engine leaves branches to that: two engines wait for each other there."""
    is_partial = target.backend == "onnxruntime" and not find_engine(target.engine).runs_whole
    return replace(target, engine="onnxruntime") if is_partial else target


def _layers(graph: Graph, choices: Value, places: Mapping[str, int], bits: Bits) -> Iterator[Layer]:
    """The cells whose products recipes round, in the order of the graph; what rounds is no product of theirs."""
    definer = definers(walk(graph))
    own = {n for cond in walk(graph) if _is_choice(cond, choices, definer) for r in cond.regions for n in walk(r)}
    products = _products(graph)
    times = dict(runs(graph.nodes))
    flops: dict[str, int] = defaultdict(int)
    for node in products:
        flops[node.scope] += 0 if node in own else own_flops(node) * max(1, times[node])
    first = {node.scope: node for node in reversed(products)}
    total = sum(flops.values())
    for cell in dict.fromkeys(node.scope for node in walk(graph) if node.scope in flops):
        shares = {number: bits[place, number] for place, number in bits if place == places.get(cell)}
        if shares:
            mean = {number: sum(each) / len(each) for number, each in shares.items()}
            yield Layer(cell, first[cell].loc, flops[cell] / total, mean)


def _products(graph: Graph) -> list[Node]:
    return [node for node in walk(graph) if node.primitive.summed_axes is not None]


def _is_choice(node: Node, choices: Value, definer: Mapping[Value, Node]) -> bool:
    """Whether a branch is one that `choices` decide: slice, reshape and a comparison come before it."""
    if not node.primitive.is_branch:
        return False
    value = node.inputs[0]
    while value in definer and not value.type.dtype.is_float and definer[value].inputs:
        value = definer[value].inputs[0]
    return value is choices


def _check(graph: Graph, layers: Sequence[Layer]) -> None:
    if not layers:
        raise GraphValueError("No layer of this step has a product that one of these recipes rounds.")
    together = next((node for node in walk(graph) if node.primitive.is_collective), None)
    if together is not None:
        text = "The forward of this step communicates among ranks, which may choose different recipes"
        raise GraphValueError(f"{text}; search in one process.").at(together.loc)
