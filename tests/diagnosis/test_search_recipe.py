"""Which layers can be low: effects on gradient and loss are those of steps with the recipes, which the code gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops
from graphls.base.errors import GraphKeyError, GraphTypeError, GraphValueError
from graphls.diagnosis import LayerChoice, RecipeSearch, RoundingEffect
from graphls.inspect.diagnosis.recipe_choice import Limits, RecipeChoice
from graphls.inspect.diagnosis.sensitivity import Layer, halved
from tests.diagnosis.test_explain_precision import LABELS, Network, X, states, training

F32 = np.float32
NVFP4, MXFP8, CURRENT = amp.NVFP4(), amp.MXFP8(), amp.CurrentScaling()
NEAREST = amp.NVFP4(stochastic_rounding=False)
RNG = np.random.default_rng(5)


def step_of(make: Callable[[], nn.Cell], give: Callable[[nn.Cell], object], *inputs: Any, **options: Any) -> Any:
    """A training step of a new network by SGD at the rate 1, so that a step takes off the gradient."""
    options = options or {"backend": "numpy"}  # which compiles fast
    graphls.set_seed(3)
    network = make()
    give(network)
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    cell = nn.TrainOneStepCell(loss, nn.SGD(network.trainable_params(), 1.0)).set_train()
    return graphls.compile(cell, *inputs, **options)


Arrays = list[Any]


def run(make: Callable[[], nn.Cell], give: Callable[[nn.Cell], object], *inputs: Any) -> tuple[float, Arrays]:
    """The loss and the gradients of that step."""
    step = step_of(make, give, *inputs)
    before = {name: p.asnumpy().astype(float) for name, p in step.parameters.items() if p.requires_grad}
    loss = float(step(*inputs))
    return loss, [before[name] - step.parameters[name].asnumpy() for name in before]


def noise_of(changes: Arrays, gradients: Arrays) -> float:
    """The mean over the elements of all parameters of the noise of each parameter."""
    ratios = [min(1, change.sum() / (g**2).sum()) for change, g in zip(changes, gradients, strict=True)]
    return float(np.average(ratios, weights=[g.size for g in gradients]))


def effect(make: Callable[[], nn.Cell], give: Callable[[nn.Cell], object], *inputs: Any) -> tuple[float, float]:
    """The noise and the rise of the loss by the recipes that `give` sets, from two steps without a search."""
    (plain, gradients), (loss, rounded) = run(make, lambda _: None, *inputs), run(make, give, *inputs)
    changes = [(a - b) ** 2 for a, b in zip(rounded, gradients, strict=True)]
    return noise_of(changes, gradients), loss / plain - 1


class Convolutions(nn.Cell):
    """Images of 6 x 6, and a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 8, 3), nn.Conv2d(8, 8, 3)
        self.head = nn.Dense(8, 5)

    def construct(self, x: Any) -> Any:
        x = ops.relu(self.first(x.reshape(16, 2, 6, 6)))
        return self.head(ops.mean(x + self.second(x), (2, 3)))


class Attention(nn.Cell):
    """One layer in a loop, products of two activations, and one layer that is computed again."""

    def __init__(self) -> None:
        super().__init__()
        self.turn, self.head = nn.Dense(12, 12), nn.Dense(12, 5)
        self.head.recompute()

    def construct(self, x: Any) -> Any:
        x = x.reshape(16, 6, 12)
        for _ in ops.arange(3):
            x = ops.tanh(self.turn(x))
        x = ops.matmul(ops.softmax(ops.matmul(x, x.swapaxes(1, 2))), x)
        return self.head(ops.mean(x, 1))


IMAGES = RNG.standard_normal((16, 72)).astype(F32)


def to(path: str, recipe: amp.Recipe) -> Callable[[nn.Cell], object]:
    """What gives a recipe to a cell."""
    return lambda network: dict(network.cells_and_names())[path].to_float(recipe)


CASES = {
    "dense": (Network, X, MXFP8, "fc2"), "nvfp4": (Network, X, NEAREST, "fc1"),
    "convolution": (Convolutions, IMAGES, CURRENT, "second"), "loop": (Attention, IMAGES, MXFP8, "turn"),
    "attention": (Attention, IMAGES, amp.MXFP8(attention=True, keep=("turn", "head")), ""),
    "recompute": (Attention, IMAGES, CURRENT, "head"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_effect_of_a_layer_is_that_of_a_step_with_its_recipe(case: str) -> None:
    make, x, recipe, path = CASES[case]
    found = step_of(make, lambda _: None, x, LABELS).search_recipe(x, LABELS, recipes=[recipe])
    (layer,) = (layer for layer in found.layers if layer.path == path)
    (own,) = layer.effects
    noise, rise = effect(make, to(path, recipe), x, LABELS)
    assert own is not None and noise > 1e-6 and own.noise == pytest.approx(noise, rel=0.01)
    assert own.rise == pytest.approx(rise, rel=0.05, abs=2e-6)


def test_the_code_compiles_and_does_what_was_measured() -> None:
    """Layers together bring from half to one and a half times the sum of their noises."""
    step = step_of(Network, lambda _: None, X, LABELS)
    before = states(step)
    found = step.search_recipe(X, LABELS, recipes=[NEAREST, MXFP8], budget=1, noise=0.09)
    assert all(np.array_equal(value, before[name]) for name, value in states(step).items())
    assert set(found.values()) == {NEAREST, MXFP8} and found.measured.noise <= 0.09 and not step.rounds_tensors
    for give in (lambda net: exec(found.code("mine"), {"mine": net, "amp": amp}), found.apply):
        noise, rise = effect(Network, give, X, LABELS)
        assert found.measured.noise == pytest.approx(noise, rel=0.01)
        assert found.measured.rise == pytest.approx(rise, rel=0.05, abs=2e-6)
    assert 0.5 < found.measured.noise / found.added.noise < 1.5


@pytest.mark.parametrize("engine", ["onnxruntime", "onednn"])
def test_engines_measure_the_same(engine: str) -> None:
    def search(**options: Any) -> RecipeSearch:
        step = step_of(lambda: nn.SequentialCell(nn.Dense(24, 5)), lambda _: None, X, LABELS, **options)
        return step.search_recipe(X, LABELS, recipes=[NVFP4])

    for layer, other in zip(search().layers, search(engine=engine).layers, strict=True):
        assert layer.path == other.path and layer.share == other.share
        assert layer.effects[0].noise == pytest.approx(other.effects[0].noise, rel=0.02)  # type: ignore[union-attr]


def test_a_loss_scale_changes_nothing() -> None:
    def search(scale: float) -> RecipeSearch:
        graphls.set_seed(3)
        network = Network()
        loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        manager = nn.FixedLossScaleUpdateCell(scale)
        cell = nn.TrainOneStepWithLossScaleCell(loss, nn.SGD(network.trainable_params(), 1.0), manager).set_train()
        return graphls.compile(cell, X, LABELS, backend="numpy").search_recipe(X, LABELS, recipes=[MXFP8])

    for one, other in zip(search(1.0).layers, search(1024.0).layers, strict=True):
        assert one.effects[0].noise == pytest.approx(other.effects[0].noise, rel=1e-3)  # type: ignore[union-attr]
        assert one.effects[0].rise == pytest.approx(other.effects[0].rise, rel=0.02, abs=1e-6)  # type: ignore[union-attr]


def test_the_noise_among_batches_is_that_of_their_gradients() -> None:
    class Plain(Network):
        """Without dropout, whose masks differ among batches."""

        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Identity()

    x = RNG.standard_normal((3, 16, 24)).astype(F32)
    step = step_of(Plain, lambda _: None, X, LABELS)
    found = step.search_recipe(x[0], LABELS, recipes=[MXFP8], batches=[(x[1], LABELS), [x[2], LABELS]])
    by_parameter = [np.stack(g) for g in zip(*(run(Plain, lambda _: None, each, LABELS)[1] for each in x), strict=True)]
    variances = [3 * np.var(g, axis=0, ddof=1) for g in by_parameter]
    assert found.among_batches == pytest.approx(noise_of(variances, by_parameter), rel=1e-3)
    assert found.noise == pytest.approx(found.among_batches / 10) and found.batches == 3
    assert all(e.error is not None for layer in found.layers for e in layer.effects)  # type: ignore[union-attr]
    first, second = halved([x[0], LABELS, np.array(0.1)])
    assert [a.shape for a in first] == [(16, 24), (16,), ()] and np.array_equal(second[0], np.tile(x[0][8:], (2, 1)))
    assert halved([x[0], LABELS[:8]]) == () == halved([x[0][:1], LABELS[:1]])
    halves = [run(Plain, lambda _: None, *half[:2])[1] for half in (first, second)]
    alone = step.search_recipe(x[0], LABELS, recipes=[MXFP8])
    quarters = [(a - b) ** 2 / 4 for a, b in zip(*halves, strict=True)]
    own = [g[0] for g in by_parameter]
    assert alone.among_batches == pytest.approx(noise_of(quarters, own), rel=1e-3)
    assert alone.summary.endswith("give more by batches=.")


def test_without_gradients_the_outputs_count() -> None:
    graphls.set_seed(3)
    net = Network().set_train(False)
    plain = net(graphls.Tensor(X)).asnumpy().astype(float)
    found = graphls.compile(net, X, backend="numpy").search_recipe(X, recipes=[NVFP4, MXFP8])
    assert (found.noise, found.among_batches, found.measured.rise) == (0.01, None, None)
    assert MXFP8 in found.values() and "The noise of the outputs is" in str(found) and "loss" not in str(found)
    rounded = found.apply(net)(graphls.Tensor(X)).asnumpy().astype(float)
    noise = ((plain - rounded) ** 2).sum() / (plain**2).sum()
    assert found.measured.noise == pytest.approx(noise, rel=0.01) and noise <= 0.01


def test_what_had_no_effect_is_said_and_left_out() -> None:
    class Branched(nn.Cell):
        """A layer in a branch that does not run, one that runs, and one whose result nobody reads."""

        def __init__(self) -> None:
            super().__init__()
            self.often, self.never, self.last = nn.Dense(24, 24), nn.Dense(24, 24), nn.Dense(24, 5)

        def construct(self, x: Any) -> Any:
            x = self.never(x) if ops.mean(x) > 100 else self.often(x)
            return self.last(x)

    step = step_of(Branched, lambda _: None, X, LABELS)
    found = step.search_recipe(X, LABELS, recipes=[MXFP8, amp.CurrentScaling(keep=("l*",))], budget=1, noise=1)
    assert sorted(found) == ["last", "often"] and found.others == ("never",)
    assert "kept by all recipes: never." in found.summary
    assert found.layers[-1].effects[1] is None
    assert found.code() == "amp.auto_mixed_precision(net, amp.MXFP8(keep=('never',)))"
    kept = step.search_recipe(X, LABELS, recipes=[amp.MXFP8(keep=("often",))], budget=1, noise=1)
    assert sorted(kept) == ["last"] and sorted(kept.others) == ["never", "often"]


def test_paths_and_code() -> None:
    one, other = RoundingEffect(0.01, 0.0), amp.DelayedScaling(margin=1)

    def search(choices: dict[str, amp.Recipe | None], others: tuple[str, ...] = ()) -> RecipeSearch:
        layers = tuple(LayerChoice(p, p, "", 0.1, (one, one), recipe) for p, recipe in choices.items())
        return RecipeSearch(layers, (MXFP8, other), 0.02, 0.1, one, one, None, 0.5, 1, 9, others)

    assert search({"fc": None}).code() == ""
    assert search({"a.0.fc": MXFP8, "b": None}).code() == "net.a[0].fc.to_float(amp.MXFP8())"
    assert search({"1.inner": None, "1": MXFP8}).code() == "net[1].to_float(amp.MXFP8(keep=('inner',)))"
    assert search({"": MXFP8, "in": None}).code() == "amp.auto_mixed_precision(net, amp.MXFP8(keep=('in',)))"
    mixed = search({"a": MXFP8, "b": other, "c": None, "d": MXFP8, "e": MXFP8}, ("f",))
    lines = "amp.auto_mixed_precision(my, amp.MXFP8(keep=('b', 'c', 'f')))\nmy.b.to_float(amp.DelayedScaling(margin=1))"
    assert mixed.code("my") == lines and lines.replace("my", "net") in str(mixed)
    assert "graphls-card" in mixed._repr_html_() and "amp.DelayedScaling(margin=1) noise" in str(mixed)
    with pytest.raises(GraphKeyError, match="No layer 'g' was measured"):
        mixed["g"]
    with pytest.raises(GraphKeyError, match="no cell 'a'"):
        mixed.apply(nn.SequentialCell(nn.Dense(2, 2)))
    step = step_of(lambda: nn.Dense(24, 5), lambda _: None, X, LABELS)
    dense = step.search_recipe(X, LABELS, recipes=[MXFP8], budget=1)
    assert list(dense) == [""] and dense.code() == "amp.auto_mixed_precision(net, amp.MXFP8())"
    assert dense.apply(nn.Dense(24, 5))._recipe == MXFP8


@dataclass(frozen=True)
class Synthetic:
    """Layers with random effects, of two recipes, that add up."""

    seed: int
    count: int = 5

    def parts(self) -> tuple[list[Layer], dict[tuple[str, int], RoundingEffect]]:
        rng = np.random.default_rng(self.seed)
        shares = rng.dirichlet(np.ones(self.count))
        layers = [Layer(f"fc{i}", None, share, {1: 0.25, 2: 0.5}) for i, share in enumerate(shares)]
        effects = {}
        for layer, number in product(layers, (1, 2)):
            noise, rise = rng.exponential(0.1, 2) / (1, 30)[number - 1]
            effects[layer.cell, number] = RoundingEffect(noise, rise - 0.02 / number)
        return layers, effects


def added(effects: Iterator[RoundingEffect]) -> RoundingEffect:
    several = list(effects)
    return RoundingEffect(sum(e.noise for e in several), sum(e.rise or 0 for e in several))


@pytest.mark.parametrize("seed", range(8))
def test_the_choice_is_within_the_limits_and_near_the_best_one(seed: int) -> None:
    layers, effects = Synthetic(seed).parts()
    limits = Limits(0.2, 0.1)

    def measure(choices: Any) -> RoundingEffect:
        return added(effects[step] for step in choices.items())

    def saved(choices: dict[str, int]) -> float:
        return sum(layer.share * (1 - layer.bits[choices[layer.cell]]) for layer in layers if layer.cell in choices)

    chosen = RecipeChoice(layers, effects, limits, measure).chosen()
    every = ({f"fc{i}": n for i, n in enumerate(numbers) if n} for numbers in product(range(3), repeat=5))
    best = max(saved(choices) for choices in every if limits.allow(measure(choices)))
    assert limits.allow(measure(chosen)) and saved(chosen) >= 0.8 * best
    unsure = replace(limits, rise=0.02)
    assert not unsure.allow(RoundingEffect(0.1, 0.015, 0.01)) and unsure.allow(RoundingEffect(0.1, 0.015, 0.004))
    assert RecipeChoice(layers, effects, Limits(1e-9, 1e-9), measure).chosen() == {}


def test_wrong_arguments() -> None:
    step = training(None, backend="numpy")
    for recipes in ([], MXFP8, ["mxfp8"], "nvfp4"):
        with pytest.raises(GraphTypeError, match="recipes is a list of recipes"):
            step.search_recipe(X, LABELS, recipes=recipes)
    for error, text, options in (
        (GraphTypeError, "budget='20' is a share of the loss", {"budget": "20"}),
        (GraphValueError, "budget=0 is .* above 0", {"budget": 0}),
        (GraphTypeError, "noise=True is a share of the gradient", {"noise": True}),
        (GraphValueError, "noise=-1 is .* above 0", {"noise": -1}),
        (GraphTypeError, "batches has a tuple", {"batches": [X]}),
        (GraphTypeError, "batches has a tuple", {"batches": 2}),
        (GraphTypeError, "compiled for 2 tensors", {"batches": [(X,)]}),
    ):
        with pytest.raises(error, match=text):
            step.search_recipe(X, LABELS, recipes=[MXFP8], **options)


def test_steps_in_which_nothing_can_be_measured() -> None:
    with pytest.raises(GraphValueError, match="No layer of this step has a product"):
        graphls.compile(lambda x: ops.relu(x), X, backend="numpy").search_recipe(X, recipes=[MXFP8])
    with pytest.raises(GraphValueError, match="rounds tensors by a recipe already"):
        training(CURRENT, backend="numpy").search_recipe(X, LABELS, recipes=[MXFP8])
    step, bad = training(None, backend="numpy"), X.copy()
    bad[0, 0] = np.nan
    with pytest.raises(GraphValueError, match=r"not finite on these inputs.*explain_overflow"):
        step.search_recipe(bad, LABELS, recipes=[MXFP8])
    zeros = graphls.compile(nn.Dense(24, 5, has_bias=False), X, backend="numpy")
    with pytest.raises(GraphValueError, match="outputs of this step are 0"):
        zeros.search_recipe(np.zeros_like(X), recipes=[MXFP8])
