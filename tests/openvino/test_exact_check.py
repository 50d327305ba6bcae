"""A step with loss scaling is one without an overflow, and where its bound is inconclusive the exact check follows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.context import reset_context
from graphls.runtime.cache import Cache
from graphls.runtime.lowering.protos import operators
from graphls.runtime.openvino.exact_check import MOST_INCONCLUSIVE, ExactCheckPart
from graphls.runtime.openvino.part import OpenvinoPart

pytest.importorskip("openvino")
X, Y = np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)


def begun(size: int = 4) -> graphls.Compiled:
    graphls.set_seed(1)
    network = nn.SequentialCell(nn.Dense(3, size), nn.Dense(size, 2)).set_train()
    loss = nn.WithLossCell(network, nn.MSELoss())
    manager = nn.DynamicLossScaleUpdateCell(2.0, 2, 1000)
    optimizer = nn.Momentum(network.trainable_params(), 0.0, 0.9)
    return graphls.compile(nn.TrainOneStepWithLossScaleCell(loss, optimizer, manager), X, Y, engine="openvino")


def exact_check_part(step: graphls.Compiled) -> ExactCheckPart:
    (part,) = (each for each in (*step._session.first, *step._session.last) if isinstance(each, ExactCheckPart))
    return part


def has_conditions(opened: OpenvinoPart) -> bool:
    return any(proto.op_type == "If" for proto in operators(opened.model.lowered.model.graph.node))


@pytest.mark.parametrize("size", [4, 1 << 20])  # updated in the one segment, and in one of their own
def test_the_exact_check_runs_where_bounds_are_inconclusive(size: int, parts: list[OpenvinoPart]) -> None:
    step = begun(size)
    assert [bool(step(X, Y)[1]) for _ in range(2)] == [False, False]
    (first,) = parts
    assert not has_conditions(first)
    factors = iter(np.geomspace(1e16, 1e20, 90, dtype=np.float32))
    while len(parts) == 1:
        overflow = bool(step(X * next(factors), Y)[1])
    assert not overflow and has_conditions(parts[1]), "the bound is beyond the largest number, and no gradient is"
    _, overflow, scale = step(X * np.float32(1e30), Y)
    assert overflow and float(scale) == 1.0
    assert not step(X, Y)[1] and len(parts) == 2


def test_bounds_that_stay_inconclusive_are_no_second_run(
    parts: list[OpenvinoPart], monkeypatch: pytest.MonkeyPatch
) -> None:
    step, nan = begun(), X * np.float32("nan")
    for _ in range(MOST_INCONCLUSIVE):
        assert step(nan, Y)[1]
    first, exact = parts
    part = exact_check_part(step)
    with monkeypatch.context() as patched:
        patched.setattr(first, "turn", lambda: pytest.fail("it runs in vain"))
        assert step(nan, Y)[1] and step(nan, Y)[1]
    assert not step(X, Y)[1] and part.part is first and part.exact is exact


def test_bits_of_a_step_do_not_depend_on_those_before(parts: list[OpenvinoPart]) -> None:
    """The two models may differ in the last bit: which one answers must be the same for who resumes from a file."""
    step, nan = begun(), X * np.float32("nan")
    answers, part = [], exact_check_part(step)
    for x in (X, nan, X, *[nan] * (MOST_INCONCLUSIVE + 2), X, X, nan, X):
        assert bool(step(x, Y)[1]) == np.isnan(x).any()
        answers.append(part.answers is not parts[0])
    assert answers == [False, True, False, *[True] * (MOST_INCONCLUSIVE + 2), False, False, True, False]


def test_both_are_kept(tmp_path: Path, parts: list[OpenvinoPart], monkeypatch: pytest.MonkeyPatch) -> None:
    graphls.set_cache_dir(tmp_path)
    try:
        assert begun()(X * np.float32(1e30), Y)[1]
        kept: list[object] = []
        load = Cache.load
        monkeypatch.setattr(Cache, "load", lambda self, key: kept.append(found := load(self, key)) or found)
        again = begun()
        assert again(X * np.float32(1e30), Y)[1] and not again(X, Y)[1]
        assert len(parts) == 4 and None not in kept and len(kept) == 2
    finally:
        reset_context()
