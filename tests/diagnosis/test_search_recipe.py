"""Which layers can be low: measured with each recipe, one that fits a budget, and the code that applies it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops
from graphls.base.errors import GraphKeyError, GraphTypeError, GraphValueError
from graphls.diagnosis import LayerChoice, RecipeSearch
from tests.diagnosis.test_explain_precision import LABELS, Network, X, planted, states, training

NVFP4, MXFP8, CURRENT = amp.NVFP4(), amp.MXFP8(), amp.CurrentScaling()


def test_each_layer_takes_the_first_recipe_that_fits_the_budget() -> None:
    step = training(None)
    before = states(step)
    loose, tight, all_high = (
        step.search_recipe(X, LABELS, recipes=[NVFP4, MXFP8], budget=budget) for budget in (5, 20, 60)
    )
    assert dict(loose) == dict.fromkeys(("fc1", "fc2", "fc3"), NVFP4)
    assert dict(tight) == dict.fromkeys(("fc1", "fc2", "fc3"), MXFP8)
    assert dict(all_high) == dict.fromkeys(("fc1", "fc2", "fc3")) and all_high.code() == ""
    assert all(np.array_equal(value, before[name]) for name, value in states(step).items())
    assert not step.rounds_tensors


def test_the_ratios_are_those_of_the_network_with_the_recipe() -> None:
    found = training(None).search_recipe(X, LABELS, recipes=[CURRENT])
    explanation = training(CURRENT).explain_precision(X, LABELS)
    for layer in found.layers:
        tensors = [t for t in explanation if t.cell == layer.cell]
        worst = min(tensors, key=lambda t: min(t.sqnr, t.element_sqnr))
        assert layer.ratios == pytest.approx([min(worst.sqnr, worst.element_sqnr)], rel=1e-3)
        assert layer.worst == (worst.role,)


def test_a_layer_with_an_outlier_stays_high_and_the_code_applies_the_rest() -> None:
    found = training(None).search_recipe(planted(), LABELS, recipes=[CURRENT], budget=4)
    assert dict(found) == {"fc1": None, "fc2": CURRENT, "fc3": CURRENT}
    assert found.code() == "net.fc2.to_float(amp.CurrentScaling())\nnet.fc3.to_float(amp.CurrentScaling())"
    assert found.summary.startswith("2 of 3 layers keep 4 dB")
    by_code, applied = Network(), Network()
    exec(found.code("by_code"), {"by_code": by_code, "amp": amp})
    assert found.apply(applied) is applied
    for network in (by_code, applied):
        step = graphls.compile(network, X)
        assert {t.cell for t in step.explain_precision(X)} == {"fc2", "fc3"}


def test_it_is_a_table_a_card_and_a_mapping() -> None:
    found = training(None).search_recipe(X, LABELS, recipes=[NVFP4, amp.DelayedScaling(margin=1)], budget=20)
    lines = str(found).splitlines()
    assert lines[0] == found.summary and "amp.NVFP4() dB" in lines[2] and "amp.DelayedScaling(margin=1) dB" in lines[2]
    assert lines[-1] == "net.fc3.to_float(amp.DelayedScaling(margin=1))"
    assert "graphls-card" in found._repr_html_() and found.code() in repr(found)
    with pytest.raises(GraphKeyError, match="No layer 'fc4' was measured; did you mean"):
        found["fc4"]
    with pytest.raises(GraphKeyError, match="no cell 'fc1'"):
        found.apply(nn.SequentialCell(nn.Dense(2, 2)))


def test_patterns_of_the_recipe_and_cells_around_layers() -> None:
    class Outer(nn.Cell):
        """A product of its own around a layer."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = graphls.Parameter(np.eye(24, dtype=np.float32), name="weight")
            self.inner = nn.Dense(24, 5)

        def construct(self, x: Any) -> Any:
            return self.inner(ops.matmul(x, self.weight))

    net = nn.SequentialCell(nn.Dense(24, 24), Outer())
    step = graphls.compile(net, X)
    found = step.search_recipe(X, recipes=[amp.MXFP8(keep=("0",))])
    assert dict(found) == {"1": amp.MXFP8(keep=("0",)), "1.inner": amp.MXFP8(keep=("0",))}
    outer, inner = (LayerChoice(p, p, (30.0,), ("input",), recipe) for p, recipe in (("1", MXFP8), ("1.inner", None)))
    search = RecipeSearch((inner, outer), (MXFP8,), 20)
    assert search.code() == "net[1].to_float(amp.MXFP8(keep=('inner',)))"
    search.apply(net)
    assert {t.cell for t in graphls.compile(net, X).explain_precision(X)} == {"1"}


def test_wrong_arguments() -> None:
    step = training(None)
    for recipes in ([], MXFP8, ["mxfp8"], "nvfp4"):
        with pytest.raises(GraphTypeError, match="recipes is a list of recipes"):
            step.search_recipe(X, LABELS, recipes=recipes)
    with pytest.raises(GraphTypeError, match="budget='20' is a number of dB"):
        step.search_recipe(X, LABELS, recipes=[MXFP8], budget="20")
    with pytest.raises(GraphValueError, match="rounds no tensor"):
        graphls.compile(lambda x: ops.relu(x), X).search_recipe(X, recipes=[MXFP8])
