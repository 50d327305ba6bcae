"""Converts the settings and states of an optimizer of graphls to those of PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.interop.counterparts import Counterpart, asgd_rate, settings_of
from graphls.interop.fitting import listed, outward
from graphls.interop.parameter_mapping import ParameterMapping
from graphls.interop.sources import Array, Arrays
from graphls.nn.optimizers.base import Optimizer

Named = dict[str, ParameterMapping]


def groups_saved(optimizer: Optimizer, named: Named, names: Sequence[str] | None) -> list[Named]:
    """The parameters of each group by name, in the order of PyTorch."""
    if names is not None:
        order = {name: i for i, name in enumerate(names)}
        absent = [name for name in named if name not in order]
        if absent:
            raise GraphValueError(f"The names have no {absent[0]!r}, which is a parameter of the optimizer.")
        named = dict(sorted(named.items(), key=lambda pair: order[pair[0]]))
    number = {id(p): i for i, group in enumerate(optimizer.groups) for p in group.parameters}
    count = len(optimizer.groups)
    return [{n: p for n, p in named.items() if number[id(p.parameter)] == i} for i in range(count)]


def group_settings_saved(
    optimizer: Optimizer, counterpart: Counterpart, group: Named, count: int, changed: Collection[str]
) -> dict[str, Any]:
    """The settings of a group; raises GraphValueError if they mean something else in PyTorch."""
    each = [settings_of(optimizer, counterpart, mapping.parameter, count) for mapping in group.values()]
    for name, mapping in group.items():
        if settings_of(optimizer, counterpart, mapping.parameter, count) != each[0]:
            raise GraphValueError(
                f"In a group, {name!r} decays or not otherwise than {next(iter(group))!r}, and these are two groups in "
                "PyTorch; give the optimizer groups with a weight_decay each.",
            )
    if counterpart.kind == "Rprop" and each[0]["weight_decay"]:
        raise GraphValueError("Rprop of PyTorch has no weight decay, and that here has one.")
    differences = {n: text for n, text in counterpart.differences(optimizer, each[0], count) if n not in changed}
    if differences:
        raise GraphValueError(
            f"PyTorch would go on in another way: {listed(differences.values())}; changed={tuple(differences)!r} "
            "writes its state all the same.",
        )
    if counterpart.kind == "Adagrad":
        each[0].setdefault("eps", 1e-10)  # PyTorch's default; the formula here has no eps
    if counterpart.kind == "Rprop":  # which has no decay in PyTorch
        del each[0]["weight_decay"]
    return each[0]


def tensors_saved(
    optimizer: Optimizer, counterpart: Counterpart, mapping: ParameterMapping, settings: Mapping[str, Any], count: int
) -> Arrays:
    """The state of a parameter by PyTorch's names."""
    index = next(i for i, p in enumerate(optimizer.parameters) if p is mapping.parameter)
    used = [key for key in counterpart.states if _is_used(key, optimizer, counterpart, settings)]
    arrays = {key: getattr(optimizer, counterpart.states[key])[index].asnumpy() for key in used}
    if counterpart.kind == "SGD" and not count and not any(array.any() for array in arrays.values()):
        return {}  # before the first update; a loaded state may lack a count
    if "mu_product" in arrays:
        arrays["mu_product"] = arrays["mu_product"].reshape(-1)[:1].reshape(())
    step = {} if counterpart.kind == "SGD" else {"step": np.array(count, np.float32)}
    return {**step, **arrays, **_asgd_states(settings, count)}


def _is_used(key: str, optimizer: Optimizer, counterpart: Counterpart, settings: Mapping[str, Any]) -> bool:
    """Tells whether PyTorch stores a state with these settings."""
    if key == "grad_avg":
        return bool(settings["centered"])
    if key == "momentum_buffer":
        return bool(settings["momentum"])
    return hasattr(optimizer, counterpart.states[key])


def _asgd_states(settings: Mapping[str, Any], count: int) -> Arrays:
    """Further states of ASGD: the rate and the averaging coefficient of the coming update."""
    if "lambd" not in settings:
        return {}
    mu = 1 / max(1.0, count - settings["t0"])
    return {"eta": np.array(asgd_rate(settings, count), np.float32), "mu": np.array(mu, np.float32)}


def array_saved(mapping: ParameterMapping, array: Array, name: str, pattern: str | None) -> Array:
    """A state in PyTorch's layout, if it has the shape of its parameter."""
    return outward(mapping, array, name, pattern) if array.shape == mapping.parameter.shape else array
