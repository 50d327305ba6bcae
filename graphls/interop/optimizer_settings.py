"""Settings of an optimizer here beside those of the groups of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.foreign import offers_array
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.interop.counterparts import Counterpart, Settings
from graphls.interop.fitting import listed
from graphls.interop.optimizer_sources import OptimizerState, number_of
from graphls.interop.parameter_order import Row
from graphls.interop.report import counted
from graphls.ir.types import int32
from graphls.nn.cell import Cell
from graphls.nn.learning_rate_schedule import rate_now
from graphls.nn.optimizers.base import Optimizer

UNSET: Settings = {"maximize": False, "nesterov": False, "amsgrad": False, "weight_decay": 0.0}
"""What settings are that groups of older versions, or of optimizers without them, do not have."""


def settings_of(optimizer: Optimizer, counterpart: Counterpart, parameter: Parameter, count: int) -> Settings:
    """What is set for a parameter in the update after so many, by PyTorch's names."""
    number = next(i for i, group in enumerate(optimizer.groups) if any(p is parameter for p in group.parameters))
    group = optimizer.groups[number]
    rate = optimizer.group_rates[number if optimizer.is_group_lr else 0]
    decay = group.weight_decay if group.decays(parameter) else 0.0
    made = dict(counterpart.settings(optimizer))
    return {"lr": at(rate, count), "weight_decay": at(decay, count), "maximize": False, **made}


def at(rate: float | Parameter | Cell, count: int) -> float:
    """A rate or decay in the update after so many."""
    if isinstance(rate, (Parameter, Cell)):
        return float(rate_now(rate, Tensor([count], int32)).asnumpy())
    return float(rate)


def check_settings(
    optimizer: Optimizer, counterpart: Counterpart, state: OptimizerState, rows: Sequence[Row], count: int,
    changed: Collection[str],
) -> None:  # fmt: skip
    """Raise GraphValueError for settings that differ, by name, unless they are `changed`."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for position in row.positions:
            theirs = state.groups[state.group_of(position)]
            ours = settings_of(optimizer, counterpart, row.place.parameter, count)
            told = [*_differences(theirs, ours), *counterpart.differences(optimizer, theirs, count)]
            told += _slowed(state.states.get(state.numbers[position], {}), ours, count)
            told += [("grad_centralization", "gradients are centralised here") for _ in _centralised(optimizer, row)]
            for each in told:
                if each[0] not in changed:
                    found.setdefault(each, []).append(row.place.path)
    if found:
        texts = [f"{text} ({_some(paths)})" for (_, text), paths in found.items()]
        names = tuple(dict.fromkeys(name for name, _ in found))
        raise GraphValueError(
            f"The optimizer in {state.origin} would go on in another way here: {listed(texts)}; set them as they are "
            f"there, or name those that may differ: changed={names!r}.",
        )


def _some(paths: Sequence[str]) -> str:
    distinct = [*dict.fromkeys(paths)]
    return repr(distinct[0]) + (f" and {counted(len(distinct) - 1, 'other')}" if len(distinct) > 1 else "")


def _differences(theirs: Mapping[str, Any], ours: Settings) -> Iterator[tuple[str, str]]:
    for name, own in ours.items():
        other = theirs.get(name, UNSET.get(name, own))
        is_of_decay = name == "decoupled_weight_decay"
        if is_of_decay and not (ours["weight_decay"] or number_of(theirs.get("weight_decay", 0.0))):
            continue
        if not _is_same(other, own, 1e-9 if name == "lr" else 0.0):
            yield name, f"{name!r} is {_shown(other)} there and {_shown(own)} here"


def _is_same(other: Any, own: Any, distance: float) -> bool:
    """Whether settings are equal, for numbers as far as float32 goes."""
    if isinstance(own, (tuple, list)):
        return len(other) == len(own) and all(_is_same(a, b, distance) for a, b in zip(other, own, strict=True))
    if isinstance(own, (bool, int, float)) and (isinstance(other, (bool, int, float)) or offers_array(other)):
        return math.isclose(number_of(other), own, rel_tol=1e-5 if distance else 1e-6, abs_tol=distance)
    return bool(other == own)


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_shown, value))})"
    if isinstance(value, (bool, str)) or value is None:
        return repr(value)
    return f"{number_of(value):.7g}"


def _slowed(theirs: Mapping[str, Any], ours: Settings, count: int) -> Iterator[tuple[str, str]]:
    """The rate of ASGD, which PyTorch keeps from the update before, where it is not that of now."""
    if "eta" in theirs and "lambd" in ours:
        own = ours["lr"] / (1 + ours["lambd"] * ours["lr"] * count) ** ours["alpha"]
        if not _is_same(number_of(theirs["eta"]), own, 1e-9):
            yield "eta", f"the rate 'eta' of ASGD is {_shown(theirs['eta'])} there and {_shown(own)} here"


def _centralised(optimizer: Optimizer, row: Row) -> Iterator[bool]:
    groups = (g for g in optimizer.groups if g.is_centralised)
    return (True for g in groups if any(p is row.place.parameter for p in g.parameters))
