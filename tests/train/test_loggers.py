"""Loggers for Weights & Biases and MLflow, with modules that stand in for their packages."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from graphls import train
from tests.train.standins import Loss, Rows, line, linear


class Wandb(ModuleType):
    """What WandbLogger calls of wandb 0.2x: `run`, `init`, and `log` and `finish` of a run."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.run: Any = None
        self.calls: list[Any] = []

    def init(self, **settings: Any) -> Any:
        self.calls.append(("init", settings))
        self.run = self
        return self

    def log(self, values: dict[str, float], step: int) -> None:
        self.calls.append((step, values))

    def finish(self, exit_code: int = 0) -> None:
        self.calls.append(("finish", exit_code))
        self.run = None


class MLflow(ModuleType):
    """What MLflowLogger calls of mlflow 2 and 3."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.active: Any = None
        self.calls: list[Any] = []

    def active_run(self) -> Any:
        return self.active

    def start_run(self, **settings: Any) -> Any:
        self.active = self
        self.calls.append(("start_run", settings))
        return self

    def end_run(self, status: str = "FINISHED") -> None:
        self.active = None
        self.calls.append(("end_run", status))

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.calls.append((step, metrics))

    def __getattr__(self, name: str) -> Any:
        if name not in ("set_tracking_uri", "set_experiment", "log_params"):
            raise AttributeError(name)
        return lambda value: self.calls.append((name, value))


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Wandb:
    monkeypatch.setitem(sys.modules, "wandb", Wandb())
    return sys.modules["wandb"]  # type: ignore[return-value]


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> MLflow:
    monkeypatch.setitem(sys.modules, "mlflow", MLflow())
    return sys.modules["mlflow"]  # type: ignore[return-value]


def test_a_run_of_wandb_has_losses_rates_and_evaluations(wandb: Wandb) -> None:
    model, _ = linear(metrics={"loss": Loss()})
    logger = train.WandbLogger(2, project="digits", config={"rate": 0.1})
    model.fit(2, Rows(*line(12)), Rows(*line(12)), callbacks=[logger])
    (_, settings), *rows, last = wandb.calls
    assert settings == {"project": "digits", "config": {"rate": 0.1}}
    assert last == ("finish", 0) and wandb.run is None
    assert [(step, sorted(values)) for step, values in rows] == [
        (1, ["train/learning_rate", "train/loss"]),
        (3, ["train/learning_rate", "train/loss"]),
        (3, ["epoch", "eval/eval_loss", "eval/loss"]),
        (5, ["train/learning_rate", "train/loss"]),
        (6, ["epoch", "eval/eval_loss", "eval/loss"]),
    ]
    assert all(type(value) is float for _, values in rows for value in values.values())


def test_a_run_of_mlflow_has_parameters_too(mlflow: MLflow) -> None:
    logger = train.MLflowLogger(
        experiment="digits", tracking_uri="file:runs", parameters={"rate": 0.1}, run_name="first"
    )
    linear()[0].train(1, Rows(*line(12)), logger)
    assert mlflow.calls[:4] == [
        ("set_tracking_uri", "file:runs"), ("set_experiment", "digits"), ("start_run", {"run_name": "first"}),
        ("log_params", {"rate": 0.1}),
    ]  # fmt: skip
    assert [step for step, _ in mlflow.calls[4:-1]] == [1, 2, 3, 3]
    assert mlflow.calls[-1] == ("end_run", "FINISHED")


def test_runs_that_go_on_already_are_used_and_stay_open(wandb: Wandb, mlflow: MLflow) -> None:
    wandb.run, mlflow.active = wandb, mlflow
    linear()[0].train(1, Rows(*line(12)), [train.WandbLogger(), train.MLflowLogger()])
    assert [step for step, _ in wandb.calls] == [step for step, _ in mlflow.calls] == [1, 2, 3, 3]


def test_a_run_that_fails_is_marked(wandb: Wandb, mlflow: MLflow) -> None:
    def fail(run: Any) -> None:
        raise RuntimeError("stop here")

    callbacks = [train.WandbLogger(), train.MLflowLogger(), train.LambdaCallback(on_train_step_end=fail)]
    with pytest.raises(RuntimeError, match="stop here"):
        linear()[0].train(1, Rows(*line(12)), callbacks)
    assert (wandb.calls[-1], mlflow.calls[-1]) == (("finish", 1), ("end_run", "FAILED"))


@pytest.mark.parametrize(("make", "package"), [(train.WandbLogger, "wandb"), (train.MLflowLogger, "mlflow")])
def test_without_the_package_it_says_what_to_install(make: Any, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    text = f"{make.__name__} needs the package {package}, .*; run pip install {package}"
    with pytest.raises(RuntimeError, match=text):
        linear()[0].train(1, Rows(*line(12)), make())


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="'every' must be int"):
        train.WandbLogger(0)
