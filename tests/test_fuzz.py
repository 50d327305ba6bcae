"""Some random programs, and what finds their faults; `make fuzz` runs many more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls.ir.parse import parse
from graphls.ir.registry import lookup
from graphls.ir.text import dump
from graphls.runtime.onednn.engine import Onednn
from tests.fuzz import judge as judging
from tests.fuzz import pairs, workers
from tests.fuzz.control_judge import NUMPY, _shorter, judge_control_flow
from tests.fuzz.judge import FAULTS, compared, judge
from tests.fuzz.programs import program
from tests.fuzz.reduce import gradients
from tests.fuzz.wide import Wide, unreliable


def test_random_programs_neither_die_nor_give_wrong_numbers() -> None:
    found = list(workers.run_programs(range(40)))
    assert [f.seed for f in found] == [*range(40)]
    assert not [f for f in found if f.outcome in FAULTS]
    assert sum(f.outcome == "same" for f in found) >= 30


@pytest.mark.parametrize("engine", ["onnxruntime", "onednn"])
def test_pairs_of_operations_give_the_numbers_of_numpy(engine: str) -> None:
    if engine == "onednn" and not Onednn().version():
        pytest.skip("oneDNN is not installed")
    found = list(workers.judged(range(0, pairs.COUNT, 120), engine, "pairs"))
    assert not [f for f in found if f.outcome in FAULTS]
    assert sum(f.outcome == "same" for f in found) >= len(found) - 3


def test_a_pair_that_is_wrong_is_found_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    of_sign: Any = type(lookup("sign"))
    monkeypatch.setattr(of_sign, "onnx", lambda self, e, x: e.Mul(e.Sign(x), e.const(1.001, e.out_types[0].dtype)))
    kinds = list(pairs.ALL)
    found = workers.judged(range(kinds.index("sign") - 3, kinds.index("sign") + 3), "onnxruntime", "pairs")
    assert [f.seed for f in found if f.outcome == "wrong"] == [kinds.index("sign")]


def test_a_seed_stands_for_one_program() -> None:
    assert dump(gradients(program(7))[0]) == dump(gradients(program(7))[0])


def test_a_wrong_number_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    of_tanh: Any = type(lookup("tanh"))
    monkeypatch.setattr(of_tanh, "onnx", lambda self, e, x: e.Mul(e.Tanh(x), e.const(1.001, e.out_types[0].dtype)))
    outcomes = [judge(program(seed)) for seed in range(12)]
    wrong = [verdict for verdict in outcomes if verdict.outcome == "wrong"]
    assert wrong and all("the runtime gives" in verdict.text for verdict in wrong)


SUM = """
graph @main(%x: f32[3], %y: f32[3]) {
  %d = sub(%x, %y) : f32[3]
  %s = sum(%d) : f32[]
  %b = less(%s, %s) : bool[]
  return %s, %b
}
"""


def test_a_difference_that_rounding_explains_is_none() -> None:
    graph = parse(SUM)
    x = np.array([1e6, 1.0, 0.5], np.float32)
    inputs = x, x + np.float32(0.0625)
    exact = float(np.sum(inputs[0].astype(float) - inputs[1]))
    found = [np.float32(exact + 0.02), np.asarray(False)]
    assert compared(graph, inputs, {}, [np.asarray(f) for f in found], [np.asarray(f) for f in found]) == ""
    found[0] = np.float32(exact + 20.0)
    text = compared(graph, inputs, {}, [np.asarray(f) for f in found], [np.float32(exact), np.asarray(False)])
    assert text is not None and "result 0: the runtime gives" in text


def test_decisions_that_noise_changes_are_not_compared() -> None:
    graph = parse("graph @main(%x: f32[2], %y: f32[2]) {\n  %b = less(%x, %y) : bool[2]\n  return %b\n}")
    equal = np.array([0.1, 3.0], np.float32), np.array([0.1, 4.0], np.float32)
    exact = Wide(graph, equal, {})
    noisy = [Wide(graph, equal, {}, np.random.default_rng(i)) for i in range(judging.NOISES)]
    assert unreliable(graph, exact, noisy) == {graph.outputs[0]}


class Ends:
    """A worker's process that died in its second program."""

    def __init__(self, seeds: range, engine: str, kind: str, together: int) -> None:
        self.seeds, self.together = seeds, together

    def results(self) -> Any:
        for seed in self.seeds:
            has_died = seed == 1 or (seed == 0 and self.together > 1)
            yield workers.Found(seed, "died" if has_died else "same")
            if has_died:
                return


def test_a_death_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_Worker", Ends)
    assert [f.outcome for f in workers.run_programs(range(4))] == ["same", "died", "same", "same"]
    found = list(workers.run_programs(range(104), kind="pairs"))
    assert [f.seed for f in found if f.outcome == "died"] == [1] and len(found) == 104


def test_faults_are_printed_with_what_runs_them_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workers, "_Worker", Ends)
    assert workers.main(["programs", "--count", "3"]) == 1
    out = capsys.readouterr().out
    assert "FAULT died: python -m tests.fuzz programs --seed 1 --count 1 --reduce" in out
    assert "3 programs from seed 0: 2 same, 1 died" in out


def test_random_branches_and_loops_give_what_python_gives() -> None:
    found = [judge_control_flow(seed, "eager,onnxruntime") for seed in range(3)]
    assert [(verdict.outcome, verdict.text) for verdict in found] == [("same", "")] * 3


def test_a_wrong_branch_is_seen_and_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NUMPY, "tanh", np.sin)
    seed = next(seed for seed in range(40) if judge_control_flow(seed, "numpy").outcome == "wrong")
    assert "not array" in judge_control_flow(seed, "numpy").text
    short = list(_shorter("def f(x):\n    if x:\n        y = 1\n    return x"))
    assert {"def f(x):\n    return x", "def f(x):\n    y = 1\n    return x"} < set(short)
