"""Optimizers by name with their settings, and learning rate schedules."""

from __future__ import annotations

import argparse
import ast
import inspect
import math
import re
from collections.abc import Sequence
from typing import Any

from graphls import nn, ops
from graphls.base.errors import GraphValueError
from graphls.ir.registry import nearest
from graphls.ir.types import float32
from graphls.nn.optimizers.base import Optimizer

OPTIMIZERS = {
    name.lower(): kind
    for name, kind in vars(nn).items()
    if isinstance(kind, type) and issubclass(kind, Optimizer) and kind is not Optimizer and name in nn.__all__
    and name != "LARS"  # which wraps another optimizer
}  # fmt: skip
RATE = 1e-3
"""The learning rate of optimizers that have none of their own."""
_TEXT = re.compile(r"\s*(\w+)\s*(?:\{(.*)\})?\s*")
_SETTING = re.compile(r"\s*(\w+)\s*=\s*((?:[^,(\[]|\([^)]*\)|\[[^\]]*\])+?)\s*(?:,|$)")
_WORDS = {"true": True, "false": False, "none": None}


class Schedule(nn.LearningRateSchedule):
    """A rate that rises over `warmup` steps and then stays, or falls to 0 at step `total`: linearly or as a cosine."""

    def __init__(self, rate: float, kind: str, warmup: int, total: int) -> None:
        super().__init__()
        self.rate, self.kind, self.warmup, self.total = rate, kind, warmup, total

    def construct(self, global_step: Any) -> Any:
        step = ops.cast(global_step, float32)
        rate = ops.minimum(ops.div(ops.add(step, 1.0), float(max(self.warmup, 1))), 1.0)
        rest = float(max(self.total - self.warmup, 1))
        share = ops.minimum(ops.maximum(ops.div(ops.sub(step, float(self.warmup)), rest), 0.0), 1.0)
        if self.kind == "linear":
            rate = ops.mul(rate, ops.sub(1.0, share))
        if self.kind == "cosine":
            rate = ops.mul(rate, ops.mul(ops.add(ops.cos(ops.mul(share, math.pi)), 1.0), 0.5))
        return ops.mul(rate, self.rate)


def optimizer_of(options: argparse.Namespace, parameters: Sequence[Any], total: int) -> Optimizer:
    """The optimizer that the options name, for `total` steps; `--optimizer` may hold settings: `sgd{momentum=0.9}`.

    Raises GraphValueError for an unknown name or setting, and as the optimizer does.
    """
    kind, settings = _kind(options.optimizer)
    known = inspect.signature(kind).parameters
    for name in settings:
        if name not in known or name == "params":
            listed = ", ".join(n for n in known if n != "params")
            raise GraphValueError(f"The optimizer {kind.__name__} has no setting {name!r}; it has {listed}.")
    if options.weight_decay is not None:
        if "weight_decay" not in known:
            raise GraphValueError(f"The optimizer {kind.__name__} has no weight decay; leave --weight-decay out.")
        settings["weight_decay"] = options.weight_decay
    if kind is nn.Momentum:
        settings.setdefault("momentum", 0.9)
    rate = _rate(options, known["learning_rate"].default, total)
    if kind is nn.AdaFactor and rate is not None:
        settings.setdefault("relative_step", False)
    optimizer: Optimizer = kind(parameters, **({} if rate is None else {"learning_rate": rate}), **settings)
    return optimizer


def _kind(text: str) -> tuple[Any, dict[str, Any]]:
    match = _TEXT.fullmatch(text)
    name = match[1].lower() if match else text
    if match is None or name not in OPTIMIZERS:
        listed = ", ".join(sorted(OPTIMIZERS))
        raise GraphValueError(f"There is no optimizer {text!r}{nearest(name, OPTIMIZERS)}; take one of {listed}.")
    return OPTIMIZERS[name], _settings(match[2] or "")


def _settings(text: str) -> dict[str, Any]:
    settings, position = {}, 0
    while text[position:].strip():
        match = _SETTING.match(text, position)
        if match is None:
            raise GraphValueError(f"The settings {text!r} do not parse; write them like 'momentum=0.9, nesterov=true'.")
        settings[match[1]], position = _value(match[2]), match.end()
    return settings


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return tuple(value) if isinstance(value, list) else value


def _rate(options: argparse.Namespace, default: Any, total: int) -> Any:
    """The learning rate or schedule; None for the default of the optimizer."""
    rate = options.learning_rate
    is_plain = options.schedule == "constant" and not options.warmup
    if rate is None and default is None and is_plain:
        return None
    if rate is None:
        rate = default if isinstance(default, float) else RATE
    if is_plain:
        return rate
    if not rate >= 0 or math.isinf(rate):
        raise GraphValueError(f"--learning-rate is a number of 0 or more, not {rate}.")
    return Schedule(rate, options.schedule, options.warmup, total)
