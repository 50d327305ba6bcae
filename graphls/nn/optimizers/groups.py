"""What an optimizer is given: parameters, or groups of them with settings of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from graphls.ir.checks import boolean, not_negative
from graphls.ir.errors import GraphKeyError, GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.nn.cell import Cell
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import TensorLike

KEYS = ("params", "lr", "weight_decay", "grad_centralization", "order_params")


@dataclass(frozen=True, eq=False)
class Group:
    """Parameters with one learning rate (None for the optimizer's own), weight decay and centralisation."""

    parameters: tuple[Parameter, ...]
    learning_rate: Any
    weight_decay: float | Cell
    is_centralised: bool = False
    is_by_name: bool = False

    def decays(self, parameter: Parameter) -> bool:
        """Whether weight decay applies; outside of groups, not to what is called beta or gamma."""
        if self.is_by_name and ("beta" in parameter.name or "gamma" in parameter.name):
            return False
        return isinstance(self.weight_decay, Cell) or self.weight_decay > 0


@dataclass(frozen=True)
class Grouping:
    """The groups, all parameters in the order of updates, and whether the user gave groups and an order."""

    groups: tuple[Group, ...]
    parameters: tuple[Parameter, ...]
    is_grouped: bool
    is_ordered: bool

    def group_numbers(self) -> tuple[int, ...]:
        """The number of the group that each parameter is in."""
        found = {id(p): i for i, group in enumerate(self.groups) for p in group.parameters}
        return tuple(found[id(p)] for p in self.parameters)


def grouping(optimizer: str, parameters: Any, weight_decay: TensorLike) -> Grouping:
    """The groups in what a user gave as parameters.

    Raises GraphValueError for None and for nothing, GraphTypeError for what are neither parameters nor groups,
    GraphKeyError for an unknown key of a group, GraphRuntimeError for a parameter in two groups.
    """
    items = _listed(optimizer, parameters)
    decay = decay_of(optimizer, weight_decay)
    if not any(isinstance(item, dict) for item in items):
        _check_parameters(optimizer, items)
        return Grouping((Group(tuple(items), None, decay, is_by_name=True),), tuple(items), False, False)
    for item in items:
        _check_keys(optimizer, item)
    groups = tuple(_group(optimizer, item, decay) for item in items if "order_params" not in item)
    every = _distinct(optimizer, groups)
    orders = [item["order_params"] for item in items if "order_params" in item]
    return Grouping(groups, _ordered(optimizer, every, orders[-1]) if orders else every, True, bool(orders))


def _listed(optimizer: str, parameters: Any) -> list[Any]:
    if parameters is None:
        raise GraphValueError("For 'Optimizer', the argument parameters can not be None.")
    if isinstance(parameters, (Parameter, dict)) or not isinstance(parameters, Iterable):
        raise GraphTypeError(
            f"For 'Optimizer', the argument parameters must be Iterable type, but got {type(parameters)}; give a list "
            "of Parameters or of groups.",
        )
    items = list(parameters)
    if not items:
        raise GraphValueError("For 'Optimizer', the argument parameters must not be empty.")
    return items


def _check_parameters(optimizer: str, items: Iterable[Any]) -> None:
    for item in items:
        if not isinstance(item, Parameter):
            raise GraphTypeError(
                "For 'Optimizer', all elements of the argument 'parameters' must be 'Parameter' or 'dict', but "
                f"{optimizer} got {item!r}.",
            )


def _check_keys(optimizer: str, item: TensorLike) -> None:
    if not isinstance(item, dict):
        raise GraphTypeError(f"{optimizer} takes groups only or parameters only, not {item!r} too.")
    unknown = [key for key in item if key not in KEYS]
    if unknown:
        raise GraphKeyError(
            f"For 'Optimizer', the key in group params must be one of in {list(KEYS)}, but got {unknown}.",
        )
    if "order_params" in item and len(item) > 1:
        raise GraphValueError("The 'order_params' stand alone in their group.")
    if "order_params" not in item and "params" not in item:
        raise GraphKeyError("A group of parameters needs 'params'.")


def _group(optimizer: str, item: dict[str, Any], decay: float | Cell) -> Group:
    parameters = _listed(optimizer, item["params"])
    _check_parameters(optimizer, parameters)
    own = decay_of(optimizer, item["weight_decay"]) if "weight_decay" in item else decay
    centralised = boolean(optimizer, "grad_centralization", item.get("grad_centralization", False))
    return Group(tuple(parameters), item.get("lr"), own, centralised)


def _distinct(optimizer: str, groups: tuple[Group, ...]) -> tuple[Parameter, ...]:
    every = tuple(p for group in groups for p in group.parameters)
    seen: set[int] = set()
    for parameter in every:
        if id(parameter) in seen:
            raise GraphRuntimeError(
                f"For {optimizer!r}, the {parameter!r} already exists, it does not support repeated setting.",
            )
        seen.add(id(parameter))
    return every


def _ordered(optimizer: str, every: tuple[Parameter, ...], order: TensorLike) -> tuple[Parameter, ...]:
    items = _listed(optimizer, order)
    if len(items) != len(every) or {id(p) for p in items} != {id(p) for p in every}:
        raise GraphValueError(
            f"The 'order_params' name {len(items)} parameters and must name each of the {len(every)} in the groups "
            "once.",
        )
    return tuple(items)


def decay_of(optimizer: str, weight_decay: TensorLike) -> float | Cell:
    """A weight decay: a number of 0 or more, or a cell of the step.

    Raises GraphTypeError for anything else, GraphValueError for a number below 0.
    """
    return weight_decay if isinstance(weight_decay, Cell) else not_negative(optimizer, "weight_decay", weight_decay)
