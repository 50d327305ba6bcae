"""The optimizers of PyTorch that update as those of graphls: names of states and settings, and differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.foreign import offers_array
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.interop.matching import listed
from graphls.interop.optimizer_sources import OptimizerState, number_of
from graphls.interop.parameter_order import Row
from graphls.interop.report import counted
from graphls.ir.types import int32
from graphls.nn.cell import Cell
from graphls.nn.learning_rate_schedule import rate_now
from graphls.nn.optimizers.adaptive import Adadelta, Adagrad, Adam, AdaMax, AdamW, AdamWeightDecay, RMSProp
from graphls.nn.optimizers.base import Optimizer
from graphls.nn.optimizers.descent import ASGD, SGD, Momentum, Rprop
from graphls.nn.optimizers.muon import Muon

Settings = dict[str, Any]
LIKE_TORCH = "mindspore.experimental.optim.{} behind graphls.compat.install() has PyTorch's formula"


@dataclass(frozen=True)
class Counterpart:
    """An optimizer of PyTorch that updates as one here.

    `states` maps PyTorch's tensors to attributes here, and `settings` returns the settings here by PyTorch's names.
    `counts` tells that the formula depends on the number of updates. `differences` yields the settings that mean
    something else in PyTorch, with an explanation, for an optimizer, a group of PyTorch and a number of updates.
    """

    kind: str
    states: Mapping[str, str]
    settings: Callable[[Any], Settings]
    counts: bool = True
    differences: Callable[[Any, Mapping[str, Any], int], Iterator[tuple[str, str]]] = lambda *_: iter(())

    @property
    def begins_without_state(self) -> bool:
        """Tells whether a parameter without a state is one with the state 0."""
        return self.kind == "SGD"


def _betas(optimizer: Any) -> Settings:
    return {"betas": (optimizer.beta1, optimizer.beta2), "eps": optimizer.eps}


def _momentum(optimizer: Any) -> Settings:
    return {"momentum": float(optimizer.momentum.asnumpy())}


def _sgd(optimizer: SGD) -> Settings:
    return {**_momentum(optimizer), "dampening": optimizer.dampening, "nesterov": optimizer.nesterov}


def _heavy_ball(optimizer: Momentum) -> Settings:
    return {**_momentum(optimizer), "dampening": 0.0, "nesterov": optimizer.use_nesterov}


def _adam(optimizer: Adam) -> Settings:
    return {**_betas(optimizer), "amsgrad": optimizer.use_amsgrad, "decoupled_weight_decay": False}


def _adamw(optimizer: AdamW) -> Settings:
    return {**_betas(optimizer), "amsgrad": optimizer.amsgrad, "decoupled_weight_decay": True}


def _rprop(optimizer: Rprop) -> Settings:
    sizes = (optimizer.step_size_min, optimizer.step_size_max)
    return {"etas": (optimizer.etaminus, optimizer.etaplus), "step_sizes": sizes}


def _asgd(optimizer: ASGD) -> Settings:
    return {"lambd": optimizer.lambd, "alpha": optimizer.alpha, "t0": optimizer.t0}


def _own_settings(optimizer: Any) -> Settings:
    settings = {name: value for name, value in optimizer.settings.items() if not name.startswith("first_")}
    return {**settings, "decoupled_weight_decay": False} if "betas" in settings else settings


def _of_adam(optimizer: Adam, group: Mapping[str, Any], count: int) -> Iterator[tuple[str, str]]:
    if optimizer.use_nesterov:
        yield "nesterov", "Adam of PyTorch has no Nesterov's momentum, and 'use_nesterov' is set here"
    larger = optimizer.eps / (1 - optimizer.beta2 ** max(count, 1)) ** 0.5
    if larger > optimizer.eps * (1 + 1e-6):
        yield (
            "eps",
            f"Adam adds 'eps' before the bias is corrected, which at update {max(count, 1)} is an eps of {larger:.3g} "
            "in PyTorch's formula (without weight decay, nn.AdamW(parameters, weight_decay=0.0) is Adam of PyTorch)",
        )


def _of_adamax(optimizer: AdaMax, group: Mapping[str, Any], count: int) -> Iterator[tuple[str, str]]:
    if group.get("eps", 1e-8):
        yield "eps", "AdaMax adds 'eps' to the largest gradient, and PyTorch to each one"


def _of_adagrad(optimizer: Adagrad, group: Mapping[str, Any], count: int) -> Iterator[tuple[str, str]]:
    if not optimizer.update_slots:
        yield "update_slots", "the sums of Adagrad grow in PyTorch, and 'update_slots' is False here"
    if eps := group.get("eps", 1e-10):
        yield "eps", f"Adagrad divides by the root alone, to which PyTorch adds {eps} ({LIKE_TORCH.format('Adagrad')})"


MOMENTS = {"exp_avg": "moments1", "exp_avg_sq": "moments2", "max_exp_avg_sq": "vhat"}
COUNTERPARTS: dict[type[Optimizer], Counterpart] = {
    SGD: Counterpart("SGD", {"momentum_buffer": "accum"}, _sgd, counts=False),
    Momentum: Counterpart("SGD", {"momentum_buffer": "moments"}, _heavy_ball, counts=False),
    Adam: Counterpart(
        "Adam",
        {"exp_avg": "moment1", "exp_avg_sq": "moment2", "max_exp_avg_sq": "vhat"},
        _adam,
        differences=_of_adam,
    ),
    AdamW: Counterpart("Adam", MOMENTS, _adamw),
    AdaMax: Counterpart("Adamax", {"exp_avg": "moment1", "exp_inf": "moment2"}, _betas, differences=_of_adamax),
    Adagrad: Counterpart("Adagrad", {"sum": "accum"}, lambda _: {"lr_decay": 0.0}, False, _of_adagrad),
    Adadelta: Counterpart(
        "Adadelta",
        {"square_avg": "accum", "acc_delta": "accum_update"},
        lambda optimizer: {"rho": optimizer.rho, "eps": optimizer.epsilon},
        counts=False,
    ),
    Rprop: Counterpart("Rprop", {"prev": "prev", "step_size": "step_size"}, _rprop),
    ASGD: Counterpart("ASGD", {"ax": "ax"}, _asgd),
}
REFUSED: dict[type[Optimizer], str] = {
    RMSProp: "it divides by sqrt(s + epsilon) where PyTorch divides by sqrt(s) + eps, and its moment holds the "
    f"learning rate; {LIKE_TORCH.format('RMSprop')}",
    AdamWeightDecay: "it does not correct the bias of its moments, as AdamW of PyTorch does; use nn.AdamW",
    Muon: "it iterates in float32 and updates all other parameters, too, where Muon of PyTorch takes matrices only and "
    "iterates in bfloat16",
}
"""Optimizers that look like one of PyTorch but update by another formula, with the difference."""


def counterpart_of(optimizer: Optimizer) -> Counterpart:
    """The counterpart of an optimizer in PyTorch; raises GraphValueError with the reason if there is none.

    Optimizers with PyTorch's formula describe themselves: `torch_kind` is the name there, `initial_states` has the
    states and `settings` the settings.
    """
    if getattr(optimizer, "state_bits", 32) != 32:
        text = f"The states of this {type(optimizer).__name__} are codes in {optimizer.state_bits} bits"
        raise GraphValueError(f"{text}, which optimizers of PyTorch do not have; exchange those of state_bits=32.")
    kind = getattr(optimizer, "torch_kind", None)
    if kind is not None:
        states: Any = getattr(optimizer, "initial_states", ())
        return Counterpart(kind, {name: name for name, _ in states}, _own_settings)
    for each in type(optimizer).__mro__:
        if each in COUNTERPARTS:
            return COUNTERPARTS[each]
        if each in REFUSED:
            raise GraphValueError(f"{type(optimizer).__name__} is not an optimizer of PyTorch: {REFUSED[each]}.")
    known = ", ".join(each.__name__ for each in COUNTERPARTS)
    raise GraphValueError(f"PyTorch has no optimizer as {type(optimizer).__name__} is; those that it has are {known}.")


UNSET: Settings = {"maximize": False, "nesterov": False, "amsgrad": False, "weight_decay": 0.0}
"""The values of settings that are missing in groups of older versions, or of optimizers without them."""


def settings_of(optimizer: Optimizer, counterpart: Counterpart, parameter: Parameter, count: int) -> Settings:
    """The settings of a parameter in the update after `count` others, by PyTorch's names."""
    number = next(i for i, group in enumerate(optimizer.groups) if any(p is parameter for p in group.parameters))
    group = optimizer.groups[number]
    rate = optimizer.group_rates[number if optimizer.is_group_lr else 0]
    decay = group.weight_decay if group.decays(parameter) else 0.0
    settings = counterpart.settings(optimizer)
    return {"lr": at(rate, count), "weight_decay": at(decay, count), "maximize": False, **settings}


def at(rate: float | Parameter | Cell, count: int) -> float:
    """A rate or decay in the update after `count` others."""
    if isinstance(rate, (Parameter, Cell)):
        return float(rate_now(rate, Tensor([count], int32)).asnumpy())
    return float(rate)


def check_settings(
    optimizer: Optimizer, counterpart: Counterpart, state: OptimizerState, rows: Sequence[Row], count: int,
    changed: Collection[str],
) -> None:  # fmt: skip
    """Raise GraphValueError for settings that differ, by name, unless they are `changed`."""
    differences: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for position in row.positions:
            theirs = state.groups[state.group_of(position)]
            ours = settings_of(optimizer, counterpart, row.mapping.parameter, count)
            own = [*_differences(theirs, ours), *counterpart.differences(optimizer, theirs, count)]
            own += _rate_differences(state.states.get(state.numbers[position], {}), ours, count)
            own += [("grad_centralization", "gradients are centralised here") for _ in _centralised(optimizer, row)]
            for each in own:
                if each[0] not in changed:
                    differences.setdefault(each, []).append(row.mapping.path)
    if differences:
        texts = [f"{text} ({_some(paths)})" for (_, text), paths in differences.items()]
        names = tuple(dict.fromkeys(name for name, _ in differences))
        raise GraphValueError(
            f"The optimizer in {state.origin} would continue differently here: {listed(texts)}; set them as they are "
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
    """Tells whether settings are equal, numbers in the precision of float32."""
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


def asgd_rate(settings: Mapping[str, Any], count: int) -> float:
    """The rate `eta` of ASGD in the update after `count` others."""
    rate: float = settings["lr"] / (1 + settings["lambd"] * settings["lr"] * count) ** settings["alpha"]
    return rate


def _rate_differences(theirs: Mapping[str, Any], ours: Settings, count: int) -> Iterator[tuple[str, str]]:
    """The rate of ASGD, which PyTorch stores from the previous update, if it differs from the current one."""
    if "eta" in theirs and "lambd" in ours:
        own = asgd_rate(ours, count)
        if not _is_same(number_of(theirs["eta"]), own, 1e-9):
            yield "eta", f"the rate 'eta' of ASGD is {_shown(theirs['eta'])} there and {_shown(own)} here"


def _centralised(optimizer: Optimizer, row: Row) -> Iterator[bool]:
    groups = (g for g in optimizer.groups if g.is_centralised)
    return (True for g in groups if any(p is row.mapping.parameter for p in g.parameters))
