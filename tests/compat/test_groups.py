"""Optimizers of groups with any settings, and schedules of their rates, beside numbers that MindSpore 2.10 gave."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls import GraphlsError, Parameter, Tensor, compat, nn, ops, set_context

FOUND = json.loads(Path(__file__).with_name("groups.json").read_text(encoding="utf-8"))
LONG = "mindspore.experimental.optim"


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    set_context(mode=1)
    compat.install()
    yield
    compat.uninstall()
    set_context(mode=0)


def module(name: str) -> Any:
    return importlib.import_module(name)


def parameter(name: str) -> Parameter:
    return Parameter(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), name=name)


def gradients(count: int) -> Iterator[tuple[Tensor, ...]]:
    return ((Tensor(np.array(g, np.float32)),) * count for g in FOUND["gradients"])


def rates(optimizer: Any) -> list[float]:
    return [float(group["lr"].asnumpy()) for group in optimizer.param_groups]


def of_two_groups() -> Any:
    return module(LONG).SGD([{"params": [parameter("a")], "lr": 0.4}, {"params": [parameter("b")]}], lr=0.1)


@pytest.mark.parametrize(("name", "settings", "wanted"), FOUND["schedules"])
def test_schedules_of_groups(name: str, settings: dict[str, Any], wanted: list[list[float]]) -> None:
    metrics = settings.get("metrics")
    optimizer = of_two_groups()
    options = {key: value for key, value in settings.items() if key != "metrics"}
    schedule = getattr(module(f"{LONG}.lr_scheduler"), name)(optimizer, **options)
    found = [] if metrics else [rates(optimizer)]
    for metric in metrics or [None] * (len(wanted) - 1):
        schedule.step(Tensor(metric)) if metrics else schedule.step()
        found.append(rates(optimizer))
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-8)
    assert [float(rate.asnumpy()) for rate in schedule.get_last_lr()] == found[-1]


@pytest.mark.parametrize(("name", "settings", "own", "wanted"), FOUND["optimizers"])
def test_settings_of_groups(name: str, settings: Any, own: Any, wanted: Any) -> None:
    own = {key: tuple(value) if isinstance(value, list) else value for key, value in own.items()}
    groups = [{"params": [parameter("gamma")], **own}, {"params": [parameter("b")]}]
    optimizer = getattr(module(LONG), name)(groups, **settings)
    for step in gradients(2):
        optimizer(step)
    found = [p.asnumpy() for p in optimizer.parameters]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
    assert int(optimizer.global_step.asnumpy()[0]) == 3
    names = [p.name for p in optimizer.get_parameters()]
    assert len(set(names)) == len(names)


def test_keys_of_groups() -> None:
    groups = [{"params": iter([parameter("a")]), "note": 1}, {"params": parameter("b"), "lr": 1}]
    optimizer = module(LONG).Adam(groups, 0.5)
    first, second = optimizer.param_groups
    assert sorted(first) == ["amsgrad", "betas", "eps", "lr", "maximize", "note", "params", "weight_decay"]
    assert (first["note"], rates(optimizer), second["betas"]) == (1, [0.5, 1.0], (0.9, 0.999))
    assert isinstance(optimizer, module(LONG).Optimizer) and isinstance(optimizer, nn.Optimizer)
    first["lr"], second["lr"] = 0.25, Tensor(0.125)
    ops.assign(first["lr"], first["lr"] * 2)
    assert rates(optimizer) == [0.5, 0.125] == [float(rate.asnumpy()) for rate in optimizer.lrs]
    with pytest.raises(ValueError, match="'eps' of a group is set when the optimizer is created"):
        first["eps"] = 1.0


def test_a_group_that_is_added_leaves_states_as_they_are() -> None:
    before, after = (module(LONG).Adam([parameter("a")], lr=0.1) for _ in range(2))
    for number, step in enumerate(gradients(1)):
        before(step)
        if number == 1:
            after.add_param_group({"params": [parameter("b")], "betas": (0.5, 0.5)})
        after(step * (1 if number == 0 else 2))
    np.testing.assert_allclose(before.parameters[0].asnumpy(), after.parameters[0].asnumpy(), rtol=1e-6)
    assert len(after.param_groups) == 2 and [p.name for p in after.parameters] == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "groups"),
    [(TypeError, [{"params": [1]}]), (KeyError, [{"lr": 0.1}]), (ValueError, [{"params": []}]), (TypeError, [{}, 3])],
)
def test_groups_that_are_none(error: type[Exception], groups: Any) -> None:
    error = KeyError if groups[0] == {} else error
    with pytest.raises(error) as raised:
        module(LONG).SGD(groups, lr=0.1)
    assert isinstance(raised.value, GraphlsError)


def test_a_parameter_is_in_one_group() -> None:
    one, optimizer = parameter("a"), of_two_groups()
    with pytest.raises(ValueError, match="more than one group"):
        module(LONG).SGD([{"params": [one]}, {"params": [one]}], lr=0.1)
    for error, group in ((TypeError, [one]), (KeyError, {"lr": 1}), (ValueError, {"params": optimizer.parameters[:1]})):
        with pytest.raises(error):
            optimizer.add_param_group(group)


def test_optimizers_and_schedules_that_users_write() -> None:
    class Signs(module(LONG).Optimizer):  # type: ignore[misc]
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr, "power": 1.0})

        def construct(self, gradients: Any) -> Any:
            for group, g in zip(self.param_groups, gradients, strict=True):
                ops.assign_sub(group["params"][0], group["lr"] * group["power"] * ops.sign(g))
            return True

    class Halving(module(f"{LONG}.lr_scheduler").LRScheduler):  # type: ignore[misc]
        def get_lr(self) -> Any:
            return [group["lr"] * 0.5 for group in self.optimizer.param_groups]

    optimizer = Signs([{"params": [parameter("a")], "power": 2.0}, {"params": [parameter("b")]}], 0.5)
    schedule = Halving(optimizer)
    optimizer((Tensor(np.ones((2, 3), np.float32)),) * 2)
    assert [float(p.asnumpy()[0, 0]) for p in optimizer.parameters] == [-1.5, -1.25]
    schedule.step()
    assert rates(optimizer) == [0.125, 0.125] and int(schedule.last_epoch) == 1


@pytest.mark.parametrize(
    ("error", "name", "arguments"),
    [
        (TypeError, "StepLR", ["a"]),
        (TypeError, "MultiStepLR", [3]),
        (TypeError, "ExponentialLR", ["a"]),
        (ValueError, "LinearLR", [1.5]),
        (ValueError, "LinearLR", [0.0]),
        (ValueError, "ConstantLR", [1.5]),
        (ValueError, "LambdaLR", [[abs, abs, abs]]),
        (ValueError, "CosineAnnealingWarmRestarts", [0]),
        (ValueError, "CyclicLR", [0.1, 0.2, 2, 2, "square"]),
        (ValueError, "CyclicLR", [[0.1], 0.2]),
        (ValueError, "ReduceLROnPlateau", ["middle"]),
        (ValueError, "ReduceLROnPlateau", ["min", 1.5]),
        (ValueError, "SequentialLR", [[], [1, 2]]),
        (KeyError, "StepLR", [1, 0.5, 3]),
    ],
)
def test_schedules_that_do_not_fit(error: type[Exception], name: str, arguments: list[Any]) -> None:
    schedules = module(f"{LONG}.lr_scheduler")
    with pytest.raises(error) as raised:
        getattr(schedules, name)(of_two_groups(), *arguments)
    assert isinstance(raised.value, GraphlsError)
    with pytest.raises((TypeError, ValueError)):
        getattr(schedules, name)(3, *arguments)


def test_schedules_one_after_another() -> None:
    schedules, optimizer = module(f"{LONG}.lr_scheduler"), of_two_groups()
    parts = [schedules.ConstantLR(optimizer, 0.1, 2), schedules.ExponentialLR(optimizer, 0.9)]
    schedule = schedules.SequentialLR(optimizer, parts, [2])
    found = [rates(optimizer)[0]]
    for _ in range(3):
        schedule.step()
        found.append(rates(optimizer)[0])
    np.testing.assert_allclose(found, [0.04, 0.04, 0.4, 0.36], rtol=1e-6)
    schedule = schedules.MultiplicativeLR(optimizer, lambda count: 0.5)
    schedule.step()
    np.testing.assert_allclose(rates(optimizer), [0.18, 0.045], rtol=1e-6)
