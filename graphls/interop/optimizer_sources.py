"""Reads the state of an optimizer of PyTorch from files, dicts and optimizers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.files.files import as_path, read_bytes
from graphls.frontend.tensors.foreign import offers_array
from graphls.interop.formats import torch as torch_format
from graphls.interop.matching import listed
from graphls.interop.sources import PICKLES, Arrays, array_of

INSIDE = ("optimizer", "optimizer_state_dict", "optim", "optimizer_states")
"""Keys of the optimizer state in a file that holds more, such as the weights; Lightning has a list under it."""
KINDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("NAdam", frozenset({"momentum_decay"})),
    ("Muon", frozenset({"ns_steps"})),
    ("Adam", frozenset({"betas", "amsgrad"})),
    ("RAdam", frozenset({"betas", "decoupled_weight_decay"})),
    ("RMSprop", frozenset({"alpha", "centered"})),
    ("Adagrad", frozenset({"lr_decay"})),
    ("Adadelta", frozenset({"rho"})),
    ("Rprop", frozenset({"etas"})),
    ("ASGD", frozenset({"lambd"})),
    ("Adafactor", frozenset({"beta2_decay"})),
    ("LBFGS", frozenset({"history_size"})),
    ("SGD", frozenset({"dampening"})),
)
"""Settings by which the optimizer of a state is recognised, as the state does not have its name."""


@dataclass(frozen=True)
class OptimizerState:
    """The saved state of an optimizer of PyTorch: groups with settings, and states by parameter number.

    `numbers` are those of the parameters, group after group. `weights` are those of the network, if they are in the
    same file.
    """

    groups: Sequence[Mapping[str, Any]]
    numbers: tuple[Any, ...]
    states: Mapping[Any, Mapping[str, Any]]
    weights: Arrays
    origin: str

    def kind(self) -> str:
        """The name of the optimizer; raises GraphValueError for one that is not in `torch.optim`."""
        group = self.groups[0]
        name = next((kind for kind, keys in KINDS if keys <= group.keys()), None)
        name = self._kind_with_betas(group) if name is None and "betas" in group else name
        if name is None:
            names = listed(map(repr, group))
            raise GraphValueError(f"The groups in {self.origin} are of no optimizer of torch.optim: they have {names}.")
        return name

    def _kind_with_betas(self, group: Mapping[str, Any]) -> str | None:
        """The optimizer by its states: Adamax and older versions of RAdam have the same settings."""
        if "weight_decay" not in group:
            return "SparseAdam"
        keys = {key for state in self.states.values() for key in state}
        return "Adamax" if "exp_inf" in keys else "RAdam" if "exp_avg_sq" in keys else None

    def parameter_names(self) -> tuple[str, ...] | None:
        """The names of the parameters, if the optimizer was created from named ones."""
        names = [name for group in self.groups for name in group.get("param_names", ())]
        return tuple(map(str, names)) if names and len(names) == len(self.numbers) else None

    def group_of(self, position: int) -> int:
        """The number of the group of a parameter."""
        ends = np.cumsum([len(group["params"]) for group in self.groups])
        return int(np.searchsorted(ends, position, "right"))


def optimizer_state_of(source: object) -> OptimizerState:
    """The state in a file, a dict or an optimizer; raises as `load_optimizer_state_dict`."""
    origin = "the dict"
    if isinstance(source, (str, bytes, os.PathLike)):
        origin, source = str(as_path(source)), _read(source)
    elif callable(saved := getattr(source, "state_dict", None)):
        source = saved()
    if not isinstance(source, Mapping):
        raise GraphTypeError(f"The state of an optimizer is a file or a dict of PyTorch, not {source!r}.")
    saved_state = _optimizer_in(source, origin)
    groups, states = saved_state["param_groups"], saved_state["state"]
    if not groups or not isinstance(states, Mapping) or not all("params" in group for group in groups):
        raise GraphValueError(f"{origin} is damaged: it has no groups of parameters with states.")
    numbers = tuple(number for group in groups for number in group["params"])
    return OptimizerState(groups, numbers, states, _weights_beside(source), origin)


def _read(source: str | bytes | os.PathLike[str]) -> Any:
    path = as_path(source)
    if path.suffix not in PICKLES:
        raise GraphValueError(f"Files with the state of an optimizer end with {', '.join(PICKLES)}; {path} does not.")
    try:
        return torch_format.decode_all(read_bytes(path))
    except GraphValueError as error:
        raise GraphValueError(f"{path} cannot be read: {error.message.rstrip('.')}.") from None


def _optimizer_in(content: Mapping[Any, Any], origin: str) -> Mapping[str, Any]:
    """The dict with groups and states: the content itself, or its value under one of the usual keys."""
    if {"param_groups", "state"} <= content.keys():
        return content
    inner = next((content[name] for name in INSIDE if name in content), None)
    if isinstance(inner, (list, tuple)) and len(inner) == 1:
        inner = inner[0]
    if isinstance(inner, Mapping) and {"param_groups", "state"} <= inner.keys():
        return inner
    names = listed(map(repr, content))
    raise GraphValueError(
        f"There is no state of one optimizer in {origin}, as one of {', '.join(INSIDE)}: it has {names}."
    )


def _weights_beside(content: Mapping[Any, Any]) -> Arrays:
    """The weights of the network in a dict that holds more than the state of an optimizer."""
    weights = torch_format.network_in(content)
    if weights is content or not all(isinstance(n, str) and offers_array(v) for n, v in weights.items()):
        return {}
    return {name: array_of(value) for name, value in weights.items()}


def number_of(value: Any) -> float:
    """A number that PyTorch stores as such or as a tensor of one element."""
    return float(array_of(value).reshape(()) if offers_array(value) else value)
