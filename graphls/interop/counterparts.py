"""Which optimizer here is which one of PyTorch: the names of states and settings, and where the formulas differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.nn.optimizers.adaptive import Adadelta, Adagrad, Adam, AdaMax, AdamW, AdamWeightDecay, RMSProp
from graphls.nn.optimizers.base import Optimizer
from graphls.nn.optimizers.descent import ASGD, SGD, Momentum, Rprop
from graphls.nn.optimizers.muon import Muon

Settings = dict[str, Any]
LIKE_TORCH = "mindspore.experimental.optim.{} behind graphls.compat.install() has PyTorch's formula"


@dataclass(frozen=True)
class Counterpart:
    """An optimizer of PyTorch that updates as one here.

    `states` maps PyTorch's tensors to attributes here, and `settings` gives what is set here by PyTorch's names.
    `counts` says that the formula depends on the number of updates. `differences` gives settings that mean something
    else in PyTorch, and what, for an optimizer, a group of PyTorch and a number of updates.
    """

    kind: str
    states: Mapping[str, str]
    settings: Callable[[Any], Settings]
    counts: bool = True
    differences: Callable[[Any, Mapping[str, Any], int], Iterator[tuple[str, str]]] = lambda *_: iter(())

    @property
    def begins_without_state(self) -> bool:
        """Whether a parameter without a state is one whose state is 0."""
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
    found = {name: value for name, value in optimizer.settings.items() if not name.startswith("first_")}
    return {**found, "decoupled_weight_decay": False} if "betas" in found else found


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
        "Adam", {"exp_avg": "moment1", "exp_avg_sq": "moment2", "max_exp_avg_sq": "vhat"}, _adam, differences=_of_adam,
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
"""Optimizers that look like one of PyTorch and update otherwise, and how."""


def counterpart_of(optimizer: Optimizer) -> Counterpart:
    """What an optimizer is in PyTorch; raises GraphValueError, which says why, for one that nothing there is like.

    Optimizers with PyTorch's own names say so themselves: `torch_kind` is its name there, `made` has the states and
    `settings` the settings.
    """
    kind = getattr(optimizer, "torch_kind", None)
    if kind is not None:
        given: Any = optimizer
        return Counterpart(kind, {name: name for name, _ in given.initial_states}, _own_settings)
    for each in type(optimizer).__mro__:
        if each in COUNTERPARTS:
            return COUNTERPARTS[each]
        if each in REFUSED:
            raise GraphValueError(f"{type(optimizer).__name__} is no optimizer of PyTorch: {REFUSED[each]}.")
    known = ", ".join(each.__name__ for each in COUNTERPARTS)
    raise GraphValueError(f"PyTorch has no optimizer as {type(optimizer).__name__} is; those that it has are {known}.")
