"""Parameter groups of `mindspore.experimental.optim`: `param_groups`, in which every setting may differ."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeAlias, cast

import numpy as np

from graphls import ops
from graphls.base.errors import GraphKeyError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.base import Decay, Optimizer, Parameters

Settings: TypeAlias = "Mapping[str, Any]"
Groups: TypeAlias = "list[dict[str, Any]]"

RATES = ("lr", "weight_decay", "grad_centralization")
"""The settings that every optimizer of `graphls.nn` takes for each group."""


class Group(dict[str, Any]):
    """The settings of a group: "lr" is a Parameter that takes numbers, others are constant, further keys are free.

    Raises GraphValueError for a change of a setting after the creation of the optimizer.
    """

    settings: frozenset[str] = frozenset()

    def __setitem__(self, key: str, value: object) -> None:
        current = self.get(key)
        if key in self.settings and value is not current:
            if key != "lr" or not isinstance(current, Parameter):
                text = f"The {key!r} of a group is set when the optimizer is created"
                raise GraphValueError(f"{text}; of its settings only a learning rate that is a number changes.")
            set_rate(current, cast(Tensor, value))
            return
        super().__setitem__(key, value)


def set_rate(rate: Parameter, value: Tensor | float) -> None:
    """Write a learning rate."""
    rate.set_data(np.asarray(float(value), rate.dtype.numpy).reshape(rate.shape))


class GroupedOptimizer(Optimizer):
    """An optimizer of parameters in `param_groups`, each of which may have its own settings: `Adam([{...}], 0.1)`.

    A user's subclass passes `params` and `defaults`, a dict of settings with "lr". `add_param_group` adds a group.
    Raises GraphTypeError, GraphKeyError and GraphValueError for invalid groups.
    """

    param_groups: list[Group]
    parts: Any = ()
    """An optimizer for each group, if their settings differ in more than RATES."""

    def __init__(self, params: Parameters, defaults: Mapping[str, Decay]) -> None:
        groups = _groups(params, defaults)
        super().__init__(defaults["lr"], _restricted(groups), defaults.get("weight_decay", 0.0))
        self._keep_groups(groups, defaults)

    def _keep_groups(self, groups: Groups, settings: Settings) -> None:
        rates = [self.group_rates[i if len(self.group_rates) > 1 else 0] for i in range(len(groups))]
        self.__dict__["defaults"] = dict(settings)
        pairs = zip(groups, rates, strict=True)
        self.__dict__["param_groups"] = [Group({**group, "lr": rate}) for group, rate in pairs]
        for group in self.param_groups:
            group.settings = frozenset((*settings, "params"))

    @property
    def lrs(self) -> tuple[Any, ...]:
        """The learning rate of each group."""
        return tuple(group["lr"] for group in self.param_groups)

    def construct(self, gradients: Sequence[Tensor]) -> tuple[bool, ...]:
        if not self.parts:
            return super().construct(gradients)
        for number, part in enumerate(self.parts):
            part(tuple(g for g, its in zip(gradients, self.group_numbers, strict=True) if its == number))
        ops.assign_add(self.global_step, 1)
        return (True,) * len(gradients)

    def add_param_group(self, param_group: Settings) -> None:
        """Add a group; parameters and states of existing groups stay as they are."""
        _complete(param_group, self.defaults)
        values = {p.name: p.asnumpy() for p in self.get_parameters()}
        groups = [dict(group) | {"lr": _number(group["lr"])} for group in self.param_groups]
        self.__init__([*groups, param_group], **self.defaults)  # type: ignore[misc]
        for parameter in self.get_parameters():
            if parameter.name in values and not parameter.name.startswith("learning_rate"):
                parameter.set_data(values[parameter.name])


def _number(rate: LearningRate) -> LearningRate:
    return float(rate.asnumpy()) if isinstance(rate, Parameter) else rate


def in_groups(init: Callable[..., None]) -> Callable[..., None]:
    """Extends the `__init__` of an optimizer to groups that may have their own value of each setting."""
    signature = inspect.signature(init)

    @wraps(init)
    def __init__(self: GroupedOptimizer, *args: object, **options: object) -> None:
        bound = signature.bind(self, *args, **options)
        bound.apply_defaults()
        settings = dict(bound.arguments)
        del settings["self"]
        groups = _groups(settings.pop("params"), settings)
        own = {key for group in groups for key in settings if group[key] is not settings[key]} - set(RATES)
        if own:
            Optimizer.__init__(self, settings["lr"], _restricted(groups), settings.get("weight_decay", 0.0))
            kind = next(c for c in type(self).__mro__ if inspect.unwrap(vars(c).get("__init__", c)) is init)
            _make_parts(self, kind, groups, settings)
        else:
            init(self, _restricted(groups), **settings)
        self._keep_groups(groups, settings)

    return __init__


def _make_parts(optimizer: Optimizer, kind: Any, groups: Groups, settings: Iterable[str]) -> None:
    """Create an optimizer for each group, which shares its learning rate with the whole."""
    parts, names = [], {parameter.name for parameter in optimizer.get_parameters()}
    for number, (group, rate) in enumerate(zip(groups, optimizer.group_rates, strict=True)):
        part = kind(group["params"], **{key: group[key] for key in settings})
        part.learning_rate_group_0, part.learning_rate, part.group_rates = rate, (rate,), (rate,)
        for state in part.get_parameters():
            if state is not rate and all(state is not parameter for parameter in group["params"]):
                state.name = f"{state.name}_{number}" if state.name in names else state.name
                names.add(state.name)
        setattr(optimizer, f"part_{number}", part)
        parts.append(part)
    optimizer.__dict__["parts"] = tuple(parts)


def _groups(params: object, settings: Settings) -> Groups:
    """The groups with all settings; raises GraphTypeError, GraphKeyError and GraphValueError for invalid groups."""
    is_one = isinstance(params, (Parameter, Mapping)) or not isinstance(params, Iterable)
    items: Any = params if is_one else list(cast("Iterable[Any]", params))
    has_groups = isinstance(items, list) and any(isinstance(item, Mapping) for item in items)
    groups = [_complete(item, settings) for item in (items if has_groups else [{"params": items}])]
    every = [id(p) for group in groups if isinstance(group["params"], list) for p in group["params"]]
    if len(set(every)) < len(every):
        raise GraphValueError("Some parameters appear in more than one group; give each once.")
    return groups


def _complete(group: object, settings: Settings) -> dict[str, Any]:
    if not isinstance(group, Mapping):
        raise GraphTypeError(f"A group of parameters is a dict, not {group!r}.")
    if "params" not in group:
        raise GraphKeyError("A group of parameters needs 'params'.")
    params: Any = group["params"]
    params = [params] if isinstance(params, Parameter) else params
    is_listed = isinstance(params, Iterable) and not isinstance(params, Mapping)
    return {**settings, **group, "params": list(params) if is_listed else params}


def _restricted(groups: Groups) -> Any:
    """The groups with only the settings that optimizers of `graphls.nn` take."""
    return [{key: group[key] for key in ("params", *RATES) if key in group} for group in groups]
