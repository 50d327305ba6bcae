"""The engine "auto": what is chosen, that it is chosen once, and that a trial changes nothing of the step.

Times are made up and engines are of this file, so that nothing depends on a machine.
"""

from __future__ import annotations

import copy
import gc
import json
from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.cli.main import main
from graphls.context import get_context, reset_context, set_context
from graphls.dataset import NumpySlicesDataset
from graphls.distributed.world import Group, Ranks
from graphls.ir import engines
from graphls.ir.errors import GraphKeyError, GraphRuntimeError
from graphls.ir.graph import Node
from graphls.runtime import engine_choice
from graphls.runtime.cache import Cache
from graphls.runtime.engine_choice import Choice, remembered_choices
from graphls.runtime.engine_trial import LEAST_STEPS, seconds_of_step
from graphls.runtime.engines import Numpy
from graphls.runtime.states import copies
from graphls.runtime.target import ExecutionTarget
from graphls.train import Model

X = np.linspace(-1, 1, 32 * 64, dtype=np.float32).reshape(32, 64)
Y = np.zeros((32, 128), np.float32)
OTHERS = ("onednn", "xla")
TODAY = "2026-01-02"


class Rapid(Numpy):
    """An engine that takes what NumPy computes."""

    name = "rapid"

    def version(self) -> str:
        return "1.0"


class Picky(Rapid):
    """An engine that takes nothing."""

    name = "picky"

    def takes(self, node: Node) -> bool:
        return False


class Absent(Rapid):
    """An engine whose package is there and does not work."""

    name = "absent"

    def check(self, device: object) -> None:
        raise GraphRuntimeError("It is not there.")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of choices of a user who names none, and no choice of other tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GRAPHLS_CACHE", raising=False)
    monkeypatch.delenv("GRAPHLS_ENGINE", raising=False)
    monkeypatch.setattr(engine_choice, "_unwritten", {})
    Cache.has_warned.clear()
    yield tmp_path / "graphls" / "compiled"
    reset_context()


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The registered engines: those of this file instead of those that may be installed."""
    others = {name: engine for name, engine in engines._engines.items() if name not in OTHERS}
    registered = {**others, "picky": Picky(), "absent": Absent(), "rapid": Rapid()}
    monkeypatch.setattr(engines, "_engines", registered)
    return registered


class Times(dict[str, float | BaseException]):
    """The seconds of a step by engine, or the error of the engine.

    `measured` are the engines that have been tried, and `best` the times of the fastest engines before them.
    """

    measured: list[str]
    best: list[object]

    def seconds_of_step(self, target: ExecutionTarget, *others: object) -> float:
        self.measured.append(target.engine)
        self.best.append(others[-1])
        seconds = self[target.engine]
        if isinstance(seconds, BaseException):
            raise seconds
        return seconds


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    """Made up times, on a made up day."""
    result = Times(onnxruntime=0.2, rapid=0.1)
    result.measured, result.best = [], []
    monkeypatch.setattr(engine_choice, "seconds_of_step", result.seconds_of_step)
    monkeypatch.setattr(engine_choice, "date", type("Date", (), {"today": staticmethod(lambda: Day())}))
    return result


class Day:
    def isoformat(self) -> str:
        return TODAY


def training(seed: int = 3, size: int = 128) -> nn.Cell:
    """A training step with a random mask, a moment and statistics."""
    graphls.set_seed(seed)
    layers = nn.Dense(64, size), nn.BatchNorm1d(size), nn.ReLU(), nn.Dropout(p=0.5)
    net = nn.SequentialCell(*layers)
    return nn.TrainOneStepCell(
        nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9)
    ).set_train()


def compiled(**options: Any) -> graphls.Compiled:
    return graphls.compile(training(), X, Y, **{"engine": "auto", **options})


def choice_of(step: graphls.Compiled) -> Choice:
    assert step.engine_choice is not None
    return step.engine_choice


def used(step: graphls.Compiled) -> set[str]:
    return {segment.engine for segment in step.plan.segments}


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.engine"))


def test_the_fastest_engine_runs_the_step_and_the_summary_says_why(times: Times) -> None:
    step = compiled()
    assert used(step) == {"rapid"}
    assert times.measured == ["onnxruntime", "rapid"]
    sentence = f"Engine: rapid, 100 ms a step (onnxruntime 200 ms; measured on {TODAY})."
    assert str(choice_of(step)) == sentence
    assert step.summary().notes == (sentence,)
    assert sentence in str(step.summary())
    assert sentence.split(", ")[1] in step._repr_html_()


def test_the_page_of_a_step_has_the_choice(times: Times, tmp_path: Path) -> None:
    assert f"measured on {TODAY}" in compiled().show(tmp_path / "step.html").read_text()


def test_a_named_engine_is_no_choice(times: Times) -> None:
    step = compiled(engine="rapid")
    assert step.engine_choice is None
    assert not step.summary().notes
    assert not times.measured


def test_times_that_differ_by_noise_choose_the_engine_that_is_registered_first(times: Times) -> None:
    times |= {"onnxruntime": 0.104, "rapid": 0.1}
    choice = choice_of(compiled())
    assert choice.engine == "onnxruntime"
    assert choice.explanation.endswith(f"measured on {TODAY}; times within 5 % count as equal)")


def test_a_choice_is_final(times: Times, folder: Path) -> None:
    first = choice_of(compiled())
    times |= {"onnxruntime": 0.001}
    assert choice_of(compiled()) == first
    assert len(times.measured) == 2
    assert len(entries(folder)) == 1
    assert remembered_choices() == [first]


@pytest.mark.parametrize("other", ["version", "threads", "graph"])
def test_another_engine_or_machine_or_step_is_measured_anew(
    times: Times, monkeypatch: pytest.MonkeyPatch, installed: Mapping[str, Any], folder: Path, other: str
) -> None:
    compiled()
    if other == "version":
        monkeypatch.setattr(installed["rapid"], "version", lambda: "1.1", raising=False)
    elif other == "threads":
        monkeypatch.setenv("OMP_NUM_THREADS", "17")
    times |= {"onnxruntime": 0.001}
    if other == "graph":
        step = graphls.compile(training(size=256), X, np.zeros((32, 256), np.float32), engine="auto")
    else:
        step = compiled()
    assert choice_of(step).engine == "onnxruntime"
    assert len(entries(folder)) == 2


def test_a_damaged_choice_is_measured_anew_and_written_again(times: Times, folder: Path) -> None:
    compiled()
    (entry,) = entries(folder)
    for damaged in (b"", b"rapid", entry.read_bytes()[:-9], entry.read_bytes().replace(b"rapid", b"rabid")):
        times.measured.clear()
        entry.write_bytes(damaged)
        assert choice_of(compiled()).engine == "rapid"
        assert times.measured
    times.measured.clear()
    compiled()
    assert not times.measured


def test_a_remembered_engine_that_no_longer_works_is_measured_anew(
    times: Times, installed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled()
    monkeypatch.setattr(Rapid, "check", Absent.check)
    assert choice_of(compiled()).explanation == "without a trial, as no other engine runs a part of the step"


def test_without_a_folder_that_can_be_written_a_process_has_its_own_choice(times: Times, folder: Path) -> None:
    folder.parent.write_text("no folder")
    with pytest.warns(UserWarning, match="The choice of an engine could not be kept in") as warnings:
        first = choice_of(compiled())
    times |= {"onnxruntime": 0.001}
    assert choice_of(compiled()) == first
    assert len(warnings) == 1


def test_a_user_without_a_home_has_a_choice_in_each_process(times: Times, monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", home)
    first = choice_of(compiled())
    times |= {"onnxruntime": 0.001}
    assert choice_of(compiled()) == first
    assert not remembered_choices()


def test_choices_are_in_the_folder_of_the_compile_cache_where_there_is_one(times: Times, tmp_path: Path) -> None:
    graphls.set_cache_dir(tmp_path / "steps")
    compiled()
    assert len(entries(tmp_path / "steps")) == 1


def test_the_choice_of_a_process_that_was_faster_holds(times: Times, monkeypatch: pytest.MonkeyPatch) -> None:
    def after_another(target: ExecutionTarget, *_: object) -> float:
        monkeypatch.setattr(engine_choice, "seconds_of_step", times.seconds_of_step)
        times.update({"onnxruntime": 0.001})
        compiled()
        times.update({"onnxruntime": 0.2})
        return 0.2

    monkeypatch.setattr(engine_choice, "seconds_of_step", after_another)
    assert choice_of(compiled()).engine == "onnxruntime"


def test_a_trial_knows_the_fastest_engine_before(times: Times) -> None:
    times |= {"rapid": 0.3}
    compiled()
    assert times.best == [inf, 0.2]


def test_an_engine_that_fails_is_left_out(times: Times) -> None:
    times |= {"rapid": RuntimeError("no\nat all")}
    with pytest.warns(UserWarning, match=r"The engine 'rapid' could not run the step in its trial: no \("):
        choice = choice_of(compiled())
    assert choice.explanation == f"200 ms a step (rapid failed; measured on {TODAY})"


def test_a_step_that_no_engine_runs_is_not_remembered(times: Times, folder: Path) -> None:
    times |= {"rapid": RuntimeError("no"), "onnxruntime": RuntimeError("no")}
    with pytest.warns(UserWarning, match="could not run the step in its trial: no"):
        choice = choice_of(compiled())
    assert choice.explanation == "as no engine could run the step in a trial"
    assert not entries(folder)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ImportError()])
def test_a_trial_ends_at_a_ctrl_c(times: Times, error: BaseException, folder: Path) -> None:
    if isinstance(error, ImportError):
        error.__cause__ = KeyboardInterrupt()
    times |= {"rapid": error}
    with pytest.raises(KeyboardInterrupt):
        compiled()
    assert not entries(folder)


def explanation(cell: Any, *inputs: Any, **options: Any) -> str:
    return choice_of(graphls.compile(cell, *inputs, engine="auto", **options)).explanation


def test_a_small_step_has_no_trial(times: Times) -> None:
    reason = "without a trial, as the step is small (56 FLOPs)"
    assert explanation(nn.Dense(3, 4), np.ones((2, 3), np.float32)) == reason


def test_a_step_has_no_trial_where_one_engine_is_installed(times: Times, installed: dict[str, Any]) -> None:
    for name in ("picky", "absent", "rapid"):
        del installed[name]
    assert explanation(training(), X, Y) == "without a trial, as no other engine is installed"


def test_a_step_has_no_trial_where_no_other_engine_takes_any_of_it(times: Times, installed: dict[str, Any]) -> None:
    del installed["rapid"]
    assert explanation(training(), X, Y) == "without a trial, as no other engine runs a part of the step"


def test_a_gpu_has_one_engine(times: Times) -> None:
    step = graphls.compile(training(), X, Y)._step
    target = ExecutionTarget("onnxruntime", graphls.Cuda(), "auto")
    choice = engine_choice.choose_engine(target, step.session_graph, step.parameters, list)
    assert (choice.engine, choice.explanation) == ("onnxruntime", "without a trial, as the device is not the CPU")


def test_a_trial_calls_no_python_of_the_user(times: Times) -> None:
    calls = []

    def doubled(x: Any) -> Any:
        calls.append(x)
        return 2 * x

    def step(x: Any, y: Any) -> Any:
        return ops.pure_callback(doubled, x, x) @ y

    x = np.ones((128, 128), np.float32)
    assert explanation(step, x, x) == "without a trial, as the step calls Python, which a trial must not"
    assert not calls


def test_ranks_have_no_trial_as_each_might_choose_another_engine(times: Times, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_choice, "world", lambda: Group("world", (0, 1), 0))
    assert Ranks.groups["world"].size == 1
    assert explanation(training(), X, Y) == "without a trial, as all ranks have to take the same engine"


def test_primitives_of_ones_own_have_no_trial(times: Times, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphls.runtime.cache._OURS", "other.")
    assert explanation(training(), X, Y) == "without a trial, as the step has primitives of your own"


def test_the_reference_interpreter_has_no_engines(times: Times) -> None:
    step = compiled(backend="numpy")
    assert str(choice_of(step)) == "Engine: numpy, as the backend is the reference interpreter."
    step(X, Y)


def test_inputs_that_the_step_refuses_are_no_error_before_its_call(times: Times, folder: Path) -> None:
    net = nn.Dense(64, 128)
    step = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    labels = np.full(64, 999, np.int32)
    reason = explanation(step, np.ones((64, 64), np.float32), labels)
    assert reason == "without a trial, as the step cannot run on the inputs that it is compiled for"
    assert not entries(folder)


def states(step: graphls.Compiled) -> dict[str, bytes]:
    return {name: parameter.asnumpy().tobytes() for name, parameter in step.parameters.items()}


def test_a_trial_changes_no_state_and_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """The trial is a real one: the states of random numbers, moments and statistics stay, and nothing is printed."""

    class Shown(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.step = training()
            self.show = ops.Print()

        def construct(self, x: Any, y: Any) -> Any:
            loss = self.step(x, y)
            self.show("the loss", loss)
            return loss

    cell = Shown()
    untried = graphls.compile(cell, X, Y)
    untried(X, Y)
    before, version = states(untried), untried.version.ticks
    assert "random_state" in before
    capfd.readouterr()
    step = graphls.compile(cell, X, Y, engine="auto")
    assert sorted(choice_of(step).seconds) == ["onnxruntime", "rapid"]
    assert states(step) == before
    assert (step.version.ticks, untried.version.ticks) == (0, version)
    assert capfd.readouterr().out == ""
    step(X, Y)
    assert states(step) != before
    assert "the loss" in capfd.readouterr().out


class Clock:
    """A clock whose readings are these."""

    def __init__(self, *readings: float) -> None:
        self.readings = list(readings)

    def __call__(self) -> float:
        return self.readings.pop(0)


def timed(clock: Clock, best: float = inf) -> float:
    step = graphls.compile(training(), X, Y, engine="rapid")._step
    return seconds_of_step(step.target, step.partitioned, step.parameters, [X, Y], best, clock)


def test_a_trial_takes_the_least_time_until_half_a_second_is_over() -> None:
    clock = Clock(5.0, 5.2, 5.3, 5.4, 5.75, 9.0)
    assert timed(clock) == pytest.approx(0.1)
    assert clock.readings == [9.0]


def test_the_trial_of_an_engine_that_is_much_slower_than_another_ends_early() -> None:
    clock = Clock(5.0, 5.04, 5.07, 5.11, 9.0)
    assert timed(clock, best=0.0125) == pytest.approx(0.03)
    assert clock.readings == [9.0]
    clock = Clock(5.0, 5.04, 5.07, 5.11, 5.5, 9.0)
    assert timed(clock, best=0.0175) == pytest.approx(0.03)
    assert clock.readings == [9.0]


def test_a_slow_step_is_measured_twice() -> None:
    assert LEAST_STEPS == 2
    clock = Clock(5.0, 8.0, 10.0, 99.0)
    assert timed(clock) == pytest.approx(2.0)
    assert clock.readings == [99.0]


def sessions_left_by_a_trial(
    step: Any, monkeypatch: pytest.MonkeyPatch, x: Any = X, y: Any = Y, **options: Any
) -> list[Any]:  # fmt: skip
    """The sessions that a trial has opened, None for those that are gone, while nothing collects cycles."""
    sessions: list[ref[Any]] = []
    open_session = ExecutionTarget.open

    def opened(*arguments: Any) -> Any:
        session = open_session(*arguments)
        sessions.append(ref(session))
        return session

    monkeypatch.setattr(ExecutionTarget, "open", opened)
    gc.collect()
    gc.disable()  # as while a step is compiled
    try:
        seconds_of_step(step.target, step.partitioned, step.parameters, [x, y], **options)
        return [session() for session in sessions]
    finally:
        gc.enable()


def test_a_session_is_closed_when_its_trial_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    step = graphls.compile(training(), X, Y, engine="rapid")._step
    assert sessions_left_by_a_trial(step, monkeypatch, clock=Clock(0.0, 1.0, 2.0)) == [None]


def test_a_trial_runs_on_copies() -> None:
    step = graphls.compile(training(), X, Y, engine="rapid")
    before = states(step)
    clock = Clock(0.0, 1.0, 2.0)
    seconds_of_step(step._step.target, step._step.partitioned, copies(step.parameters), [X, Y], clock=clock)
    assert states(step) == before


def test_a_cell_has_one_trial_for_inputs_of_all_sizes(times: Times) -> None:
    set_context(engine="auto")
    net = nn.SequentialCell(nn.Dense(64, 256), nn.ReLU())
    for size in (64, 1, 65):
        net(graphls.Tensor(np.ones((size, 64), np.float32)))
    steps = [step for several in net.__dict__["_compiled"][()].steps.values() for step in several]
    assert times.measured == ["onnxruntime", "rapid"]
    assert [used(step) for step in steps] == [{"rapid"}] * 3
    assert str(choice_of(steps[-1])) == "Engine: rapid, as for the first inputs of this cell or function."


def test_a_first_step_without_a_trial_does_not_choose_for_others(times: Times) -> None:
    set_context(engine="auto")
    net = nn.SequentialCell(nn.Dense(64, 256), nn.ReLU())
    for size in (1, 64):
        net(graphls.Tensor(np.ones((size, 64), np.float32)))
    steps = [step for several in net.__dict__["_compiled"][()].steps.values() for step in several]
    assert [used(step) for step in steps] == [{"onnxruntime"}, {"rapid"}]


def test_auto_is_named_where_engines_are(times: Times, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_context(engine="auto")
    assert get_context("engine") == "auto"
    assert used(graphls.compile(training(), X, Y)) == {"rapid"}
    reset_context()
    monkeypatch.setenv("GRAPHLS_ENGINE", "auto")
    assert used(graphls.compile(training(), X, Y)) == {"rapid"}
    monkeypatch.delenv("GRAPHLS_ENGINE")
    step = graphls.compile(training(), X, Y, engine="onnxruntime")
    assert used(graphls.load_step(step.export(tmp_path / "bundle", predict=False), engine="auto")) == {"rapid"}


def test_a_model_trains_on_the_engine_that_is_chosen(times: Times) -> None:
    net = nn.Dense(64, 128)
    model = Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.1, 0.9), engine="auto")
    rows = np.tile(X, (3, 1)), np.tile(Y, (3, 1))
    model.train(2, NumpySlicesDataset(rows, shuffle=False).batch(64))
    steps = [step for several in model._runner.cache.steps.values() for step in several]
    assert [used(step) for step in steps] == [{"rapid"}] * 2
    assert times.measured == ["onnxruntime", "rapid"]


def test_unknown_engines_are_errors_that_list_auto() -> None:
    with pytest.raises(GraphKeyError, match=r"There is no engine 'aut'; did you mean 'auto'.* there are absent, auto"):
        compiled(engine="aut")


def test_a_copy_of_a_step_has_its_engine_and_its_choice(times: Times) -> None:
    step = compiled()
    again = copy.deepcopy(step)
    assert used(again) == {"rapid"}
    assert again.engine_choice == step.engine_choice


def test_several_steps_in_one_call_run_on_the_chosen_engine(times: Times) -> None:
    losses = compiled().repeated(2)(np.stack([X, X]), np.stack([Y, Y]))
    assert losses.shape == (2,)


def test_doctor_lists_the_engines_and_the_choices(
    times: Times, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    main(["doctor"])
    assert f"{'engine auto':26} chooses from onnxruntime, picky, absent, rapid\n" in capsys.readouterr().out
    compiled()
    main(["doctor"])
    printed = capsys.readouterr().out
    assert f"{'engine auto':26} its choices are in {folder}\n" in printed
    assert f"{'engine auto':26} TrainOneStepCell: rapid, 100 ms a step (onnxruntime 200 ms; measured on" in printed


def test_the_file_of_a_choice_is_data(times: Times, folder: Path) -> None:
    compiled()
    (entry,) = entries(folder)
    text = entry.read_bytes().partition(b'{"engine"')[2].rstrip(b"\0")
    data = json.loads(b'{"engine"' + text)
    assert data["engine"] == "rapid"
    assert data["seconds"] == {"onnxruntime": 0.2, "rapid": 0.1}
