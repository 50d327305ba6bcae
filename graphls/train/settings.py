"""Validation of the arguments of Model, and the train network that they describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphls.base.checks import not_negative_int, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.nn.amp import Recipe
from graphls.nn.amp.build import build_train_network
from graphls.nn.cell import Cell
from graphls.nn.loss_scale import LossScaleManager
from graphls.nn.train_step import TrainOneStepWithLossScaleCell, WithLossCell
from graphls.train.feeding import first_step
from graphls.train.runner import Training

SETTINGS = ("loss_scale_manager", "keep_batchnorm_fp32", "boost_config_dict", "acc_level")
FOR_BUILD = ("loss_scale_manager", "keep_batchnorm_fp32")
UPDATES: Mapping[str, object] = {"accumulate_steps": 1, "clip_norm": None, "clip_value": None, "ema_decay": None}
"""Settings of a Model for its updates, with their defaults."""


def check_settings(
    optimizer: object, amp_level: object, boost_level: object, updates: Mapping[str, object],
    settings: Mapping[str, Any],
) -> None:  # fmt: skip
    """Raise GraphValueError for unknown settings of a Model, and for settings that need an optimizer."""
    for name in settings:
        if name not in SETTINGS:
            known = ", ".join(map(repr, SETTINGS))
            text = f"The arguments of Model in 'kwargs' are {known}, but got {name!r}."
            raise GraphValueError(text)
    for name, level in {"boost_level": boost_level, "acc_level": settings.get("acc_level", "O0")}.items():
        if level != "O0":
            raise GraphValueError(refusal("boost", f"{name}={level!r}"))
    if settings.get("boost_config_dict"):
        raise GraphValueError(refusal("boost", "a 'boost_config_dict'"))
    needing = {"loss_scale_manager": settings.get("loss_scale_manager"), "amp_level": amp_level != "O0"}
    needing |= {name: value != UPDATES[name] for name, value in updates.items()}
    for name, is_set in needing.items():
        if is_set and optimizer is None:
            text = f"The argument 'optimizer' can not be None when set {name!r}."
            raise GraphValueError(text)


def train_network_of(
    network: Cell, loss_fn: Cell | None, optimizer: Any, level: str | Recipe, updates: dict[str, Any],
    settings: dict[str, Any],
) -> Cell:  # fmt: skip
    """The network that a step of training runs; raises as build_train_network and WithLossCell do."""
    if optimizer is not None:
        options = {name: settings[name] for name in FOR_BUILD if name in settings}
        return build_train_network(network, optimizer, loss_fn, level, **updates, **options)
    return network if loss_fn is None else WithLossCell(network, loss_fn)


def updated_manager(manager: Any, network: Cell) -> LossScaleManager | None:
    """The manager, if it is updated after each step by whether that was skipped."""
    if not isinstance(network, TrainOneStepWithLossScaleCell) or manager is None:
        return None
    drops = getattr(manager, "get_drop_overflow_update", None)
    return manager if drops is None or drops() else None


def check_sink_size(owner: str, sink_size: object) -> None:
    """Raise GraphTypeError for anything but an integer, GraphValueError for 0 and numbers below -1."""
    if isinstance(sink_size, bool) or not isinstance(sink_size, int):
        text = f"For {owner!r}, the argument 'sink_size' must be int, but got {sink_size!r}."
        raise GraphTypeError(text)
    if sink_size < -1 or sink_size == 0:
        text = f"For {owner!r}, the argument 'sink_size' must be -1 or positive, but got {sink_size}."
        raise GraphValueError(text)


def epochs_to_train(owner: str, epoch: Any, initial_epoch: Any, state: Any) -> range:
    """The epochs, numbered from 0; sets `epoch_num` and `cur_step_num` in the state.

    Raises GraphTypeError and GraphValueError for numbers that do not fit each other or the position of the dataset.
    """
    positive_int(owner, "epoch", epoch)
    not_negative_int(owner, "initial_epoch", initial_epoch)
    step = first_step(state.train_dataset)
    first = step // state.batch_num if step else initial_epoch
    if initial_epoch not in (0, first):
        raise GraphValueError(
            f"For {owner!r}, the dataset continues after step {step}, which is in the epoch that 'initial_epoch' "
            f"{first} begins with, but got {initial_epoch}.",
        )
    if first >= epoch:
        raise GraphValueError(
            f"For {owner!r}, the parameter 'epoch' must bigger than parameter 'initial_epoch', but got the parameter "
            f"'epoch' is {epoch}, 'initial_epoch' is {first}.",
        )
    state.epoch_num = epoch - first
    state.cur_step_num = step or first * state.batch_num
    return range(first, epoch)


def valid_frequency_of(frequency: object) -> Callable[[Training], bool]:
    """The predicate of epochs that an evaluation follows.

    Raises GraphTypeError for anything but an integer or a list of them, GraphValueError for one below 1.
    """
    if not isinstance(frequency, (list, tuple)):
        number = positive_int("Model.fit", "valid_frequency", frequency)
        return lambda run: bool(run.state.cur_epoch_num % number == 0)
    epochs = {positive_int("Model.fit", "valid_frequency", number) for number in frequency}
    return lambda run: run.state.cur_epoch_num in epochs
