"""The base of optimizers: parameters in groups with settings of their own, and the update."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphls import ops
from graphls.base.checks import boolean, not_negative, positive, positive_int
from graphls.base.errors import GraphKeyError, GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.sharing.arrays import full
from graphls.frontend.names.habits import OPTIMIZER
from graphls.frontend.tensors.parameter import Parameter, ParameterTuple
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.types import DType, float32, int32
from graphls.nn.cell import Cell
from graphls.nn.learning_rate_schedule import (
    FixedLearningRate,
    LearningRate,
    ListedLearningRate,
    learning_rate_of,
    rate_now,
)
from graphls.ops.eight_bit_states import LEAST, EightBitState
from graphls.ops.operands import state_of, tensor_of

__all__ = ["Optimizer"]


Parameters: TypeAlias = "Iterable[Parameter | Mapping[str, Any]]"
"""Parameters, or groups of them with settings of their own."""
Decay: TypeAlias = "float | Cell"
"""A weight decay, or a cell that computes that of a step."""
Decays: TypeAlias = "Sequence[Tensor | float | None]"
"""The weight decay of each parameter in a step; None where it does not decay."""

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
        """Returns whether a parameter decays; outside of groups, not with beta or gamma in its name."""
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
        numbers = {id(p): i for i, group in enumerate(self.groups) for p in group.parameters}
        return tuple(numbers[id(p)] for p in self.parameters)


def grouping(optimizer: str, parameters: Parameters | None, weight_decay: Decay) -> Grouping:
    """The groups of an optimizer's argument `parameters`.

    Raises GraphValueError for None and for an empty list, GraphTypeError for anything but parameters or groups,
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


def _listed(optimizer: str, parameters: Parameters | None) -> list[Any]:
    if parameters is None:
        raise GraphValueError("For 'Optimizer', the argument parameters can not be None.")
    if callable(listed := getattr(parameters, "trainable_params", None)):
        text = f"For 'Optimizer', the parameters are those of a network, not the {type(parameters).__name__} itself"
        raise GraphTypeError(f"{text}; give network.trainable_params(), which has {len(listed())}.")
    if isinstance(parameters, (Parameter, dict)) or not isinstance(parameters, Iterable):
        raise GraphTypeError(
            f"For 'Optimizer', the argument parameters must be Iterable type, but got {type(parameters)}; give a list "
            "of Parameters or of groups.",
        )
    items = list(parameters)
    if not items:
        text = "For 'Optimizer', the argument parameters must not be empty"
        raise GraphValueError(f"{text}; cells in a plain list or dict are in no network: use nn.CellList or CellDict.")
    return items


def _check_parameters(optimizer: str, items: Iterable[object]) -> None:
    for item in items:
        if not isinstance(item, Parameter):
            raise GraphTypeError(
                "For 'Optimizer', all elements of the argument 'parameters' must be 'Parameter' or 'dict', but "
                f"{optimizer} got {item!r}.",
            )


def _check_keys(optimizer: str, item: object) -> None:
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


def _group(optimizer: str, item: Mapping[str, Any], decay: float | Cell) -> Group:
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


def _ordered(optimizer: str, every: tuple[Parameter, ...], order: Parameters) -> tuple[Parameter, ...]:
    items = _listed(optimizer, order)
    if len(items) != len(every) or {id(p) for p in items} != {id(p) for p in every}:
        raise GraphValueError(
            f"The 'order_params' name {len(items)} parameters and must name each of the {len(every)} in the groups "
            "once.",
        )
    return tuple(items)


def decay_of(optimizer: str, weight_decay: Decay) -> float | Cell:
    """A weight decay: a number of 0 or more, or a cell of the step.

    Raises GraphTypeError for anything else, GraphValueError for a number below 0.
    """
    return weight_decay if isinstance(weight_decay, Cell) else not_negative(optimizer, "weight_decay", weight_decay)


Tensors = tuple[Tensor, ...]


class Optimizer(Cell):
    """Updates parameters by gradients: `optimizer(gradients)`, which returns True for each parameter.

    `parameters` are Parameters, or groups: dicts with "params" and any of "lr", "weight_decay" and
    "grad_centralization", and one with only "order_params", the order of updates. `learning_rate` is a number, a list
    or tensor of one number for each step (the last one stays), or a cell of the step. Gradients g become
    (g + weight_decay * loss_scale * w) / loss_scale, in float32. Outside of groups, parameters with beta or gamma in
    their names do not decay.

    Adam, LazyAdam, AdamW, AdamWeightDecay, Lamb, Lion, Momentum and SGD store their moments as uint8 with
    `state_bits=8` (not `stat` of SGD): a code of 256 numbers for each element, and for each block of 256 elements of
    the flat parameter the largest absolute value, in float32, in states with `_maxima` behind their prefix. A step
    computes in float32 and stores the nearest codes. Moments of parameters with less than 4096 elements, or of float64,
    stay as they are. The numbers are those of bitsandbytes (Dettmers et al., 2021, arXiv:2110.02861).

    A subclass defines `update`, or `construct` over `decay_weight`, `gradients_centralization`, `scale_grad`
    and `get_lr`. Raises GraphTypeError, GraphValueError, GraphKeyError and GraphRuntimeError for settings that do not
    fit.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn, ops
        >>> net = nn.Dense(2, 1, weight_init="ones", bias_init="zeros")
        >>> groups = [{"params": [net.weight], "weight_decay": 0.01}, {"params": [net.bias], "lr": 0.2}]
        >>> optimizer = nn.SGD(groups, learning_rate=0.1)
        >>> gradient = graphls.grad(lambda x: ops.sum(net(x)), None, optimizer.parameters)
        >>> done = optimizer(gradient(np.ones((1, 2), np.float32)))
        >>> print(net.bias.value(), optimizer.global_step.value())
        [-0.2] [1]
    """

    needs_graph = True
    _habits = OPTIMIZER
    _target = "CPU"

    def __init__(
        self, learning_rate: LearningRate, parameters: Parameters, weight_decay: Decay = 0.0, loss_scale: float = 1.0,
        *, state_bits: int = 32,
    ) -> None:  # fmt: skip
        super().__init__(auto_prefix=False)
        self.__dict__["_phase"] = "update"
        name = type(self).__name__
        self.loss_scale = positive(name, "loss_scale", loss_scale)
        self.state_bits = _bits(name, state_bits)
        grouped = grouping(name, parameters, weight_decay)
        self.is_group, self.is_group_params_ordered = grouped.is_grouped, grouped.is_ordered
        self.is_group_lr = any(group.learning_rate is not None for group in grouped.groups)
        self.groups = grouped.groups
        self.group_numbers = grouped.group_numbers()
        self.global_step = Parameter(np.zeros(1, np.int32), name="global_step", requires_grad=False)
        self.global_step_increase_tensor = Tensor([1], int32)
        self._set_learning_rates(name, learning_rate)
        self._set_weight_decays()
        self.parameters = ParameterTuple(grouped.parameters)

    @property
    def target(self) -> str:
        """The device on which MindSpore would update parameters; here the update is part of the step."""
        return self._target

    @target.setter
    def target(self, value: str) -> None:
        self._set_base_target(value)

    def _set_base_target(self, value: str) -> None:
        """Set the target; raises GraphTypeError and GraphValueError for any but "CPU", "Ascend" and "GPU"."""
        if value not in ("CPU", "Ascend", "GPU"):
            text = f"The target of an optimizer is 'CPU', 'Ascend' or 'GPU', not {value!r}."
            raise (GraphValueError if isinstance(value, str) else GraphTypeError)(text)
        self.__dict__["_target"] = value

    def _set_learning_rates(self, name: str, default: LearningRate) -> None:
        if not self.is_group_lr:
            rates = [learning_rate_of(name, default, "learning_rate")]
            self.learning_rate: Any = rates[0]
        else:
            rates = self._rates_of_groups(name, default)
            self.learning_rate = tuple(rates[i] for i in self.group_numbers)
        self.dynamic_lr = any(isinstance(rate, Cell) for rate in rates)
        self.group_rates = tuple(rates)

    def _rates_of_groups(self, name: str, default: LearningRate) -> list[Parameter | Cell]:
        """The learning rate of each group, all of them cells where one is."""
        default = list(default) if isinstance(default, Iterator) else default
        settings = [default if group.learning_rate is None else group.learning_rate for group in self.groups]
        _check_lengths(default, [group.learning_rate for group in self.groups])
        rates = [learning_rate_of(name, rate, f"learning_rate_group_{i}") for i, rate in enumerate(settings)]
        if any(isinstance(rate, Cell) for rate in rates):
            rates = [FixedLearningRate(rate) if isinstance(rate, Parameter) else rate for rate in rates]
        for i, rate in enumerate(rates):
            setattr(self, f"learning_rate_group_{i}", rate)
        return rates

    def _set_weight_decays(self) -> None:
        decays = [group.weight_decay for group in self.groups]
        self.weight_decay: Any = tuple(decays[i] for i in self.group_numbers) if self.is_group else decays[0]
        for i, decay in enumerate(decays):
            if self.is_group and isinstance(decay, Cell):
                setattr(self, f"weight_decay_group_{i}", decay)

    def add_states(self, attribute: str, prefix: str, is_signed: bool = True) -> None:
        """Set an attribute to states of zeros named `prefix.name`, one for each parameter, in 32 or 8 bits.

        With `state_bits` of 8 the maxima of the blocks are the attribute with `_maxima` behind its name.
        """
        states = ParameterTuple(self._state(p, prefix, is_signed) for p in self.parameters)
        setattr(self, attribute, states)
        if maxima := [state.maxima for state in states if isinstance(state, EightBitState)]:
            setattr(self, f"{attribute}_maxima", ParameterTuple(maxima))

    def _state(self, parameter: Parameter, prefix: str, is_signed: bool) -> Parameter:
        is_small = math.prod(parameter.shape) < LEAST
        if self.state_bits == 32 or is_small or wide_dtype(parameter) is not float32:
            return state_like(parameter, prefix)
        return EightBitState(parameter.shape, prefix, parameter.name, is_signed)

    # -- the step ---------------------------------------------------------------------------------------------

    def construct(self, gradients: Sequence[Tensor]) -> tuple[bool, ...]:
        gradients = self.scale_grad(self.gradients_centralization(self.decay_weight(gradients)))
        rates = self.rates_now()
        ops.assign_add(self.global_step, 1)
        self.update(gradients, rates)
        return (True,) * len(gradients)

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        """Write every parameter, given its gradient and its learning rate; every optimizer defines it."""
        raise NotImplementedError(f"{type(self).__name__} defines neither update nor construct.")

    def decay_weight(self, gradients: TensorLike) -> Tensors:
        """The gradients in float32, with weight_decay * loss_scale times the parameter added where it decays."""
        wide = self.widened(gradients)
        decays = self.decays_now(self.loss_scale)
        return tuple(
            g if decay is None else ops.add(g, ops.mul(self.weight(p), decay))
            for p, g, decay in zip(self.parameters, wide, decays, strict=True)
        )

    def widened(self, gradients: TensorLike) -> Tensors:
        """The gradients in the dtype that the update is computed in.

        Raises GraphTypeError for anything but a tuple or list, GraphValueError where number or shapes do not fit.
        """
        if not isinstance(gradients, (tuple, list)):
            raise GraphTypeError(f"An optimizer takes gradients in a tuple, not {gradients!r}.")
        tensors = tuple(map(tensor_of, gradients))
        shapes, expected = [t.shape for t in tensors], [p.shape for p in self.parameters]
        if shapes != expected:
            raise GraphValueError(
                f"The gradients of {len(expected)} parameters have the shapes {shapes} and must have {expected}.",
            )
        return tuple(ops.cast(t, wide_dtype(p)) for t, p in zip(tensors, self.parameters, strict=True))

    def decays_now(self, factor: float = 1.0) -> tuple[Any, ...]:
        """The weight decay of each parameter in the coming update times a factor; None where it does not decay."""
        step = state_of(self.global_step)
        decays = [
            ops.mul(rate_now(d, step), factor) if isinstance(d, Cell) else d * factor
            for d in (group.weight_decay for group in self.groups)
        ]
        rows = zip(self.group_numbers, self.decay_flags, strict=True)
        return tuple(decays[i] if flag else None for i, flag in rows)

    def gradients_centralization(self, gradients: Tensors) -> Tensors:
        """The gradients without their mean, in groups with "grad_centralization", for weights with 16 * n inputs."""
        return tuple(
            _centralised(g) if self.groups[i].is_centralised else g
            for g, i in zip(gradients, self.group_numbers, strict=True)
        )

    def scale_grad(self, gradients: Tensors) -> Tensors:
        """The gradients divided by the loss scale."""
        return tuple(ops.mul(g, self.reciprocal_scale) for g in gradients) if self.need_scale else gradients

    def get_lr(self) -> Tensor | Tensors:
        """The learning rate of the coming update; with groups that have rates of their own, one for each parameter."""
        step = state_of(self.global_step)
        rates = [rate_now(rate, step) for rate in self.group_rates]
        return tuple(rates[i] for i in self.group_numbers) if self.is_group_lr else rates[0]

    def rates_now(self) -> Tensors:
        """The learning rate of each parameter in the coming update."""
        rates = self.get_lr()
        return rates if isinstance(rates, tuple) else (rates,) * len(self.parameters)

    def weight(self, parameter: Parameter) -> Tensor:
        """A parameter in the dtype that its update is computed in."""
        return ops.cast(state_of(parameter), wide_dtype(parameter))

    def descend(self, parameter: Parameter, step: Tensor) -> None:
        """Subtract a step from a parameter."""
        ops.assign(parameter, ops.sub(self.weight(parameter), step))

    # -- attributes for optimizers of a user's own -------------------------------------------------------------

    hyper_map, map_ = ops.HyperMap(), ops.Map()
    """For updates of many parameters: `self.hyper_map(ops.partial(rule, rate), self.parameters, gradients)`."""

    @property
    def params(self) -> ParameterTuple:
        """The parameters in the order of updates."""
        parameters: ParameterTuple = self.parameters
        return parameters

    @property
    def param_length(self) -> int:
        """The number of parameters."""
        return len(self.parameters)

    @property
    def exec_weight_decay(self) -> bool:
        """True if any parameter decays."""
        return any(self.decay_flags)

    @property
    def dynamic_weight_decay(self) -> bool:
        """True if the weight decay is a cell of the step."""
        return any(isinstance(group.weight_decay, Cell) for group in self.groups)

    def flatten_gradients(self, gradients: TensorLike) -> Any:
        """The gradients as they are: no parameters share a buffer here."""
        return gradients

    def assignadd(self, variable: TensorLike, value: TensorLike) -> Tensor:
        """Add to a parameter, such as `global_step_increase_tensor` to `global_step`; returns its new value."""
        return ops.assign_add(variable, value)

    @property
    def decay_flags(self) -> tuple[bool, ...]:
        """For each parameter, True if it decays."""
        numbers = zip(self.parameters, self.group_numbers, strict=True)
        return tuple(self.groups[i].decays(p) for p, i in numbers)

    @property
    def need_scale(self) -> bool:
        """True if gradients come with a loss scale."""
        return self.loss_scale != 1.0

    @property
    def reciprocal_scale(self) -> float:
        """The factor that removes the loss scale from gradients."""
        return 1.0 / self.loss_scale

    # -- calls and queries -------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **options: Any) -> Any:
        if current_tracer() is None:
            self.warn_after_schedule()
            return super().__call__(*args, **options)
        before = [(state, tensor_of(state)) for state in self._frozen()]
        done = super().__call__(*args, **options)
        for state, value in before:
            ops.assign(state, value)
        return done

    def _frozen(self) -> list[Parameter]:
        """The parameters that no longer require gradients, with their states: an update leaves them unchanged."""
        rows = [part for part in vars(self)["_params"].values() if isinstance(part, ParameterTuple)]
        numbers = [i for i, p in enumerate(self.parameters) if not p.requires_grad]
        states = [row[i] for i in numbers for row in rows if len(row) == len(self.parameters)]
        return states + [state.maxima for state in states if isinstance(state, EightBitState)]

    def warn_after_schedule(self) -> None:
        """Warn, once, where a list of learning rates has ended before the coming update."""
        for rate in self.group_rates:
            if isinstance(rate, ListedLearningRate):
                rate.warn_after_end(self.global_step)

    def get_lr_parameter(self, param: Parameter | Sequence[Parameter]) -> Any:
        """The learning rate, a Parameter or a cell, of a parameter, or of each one in a list.

        Raises GraphTypeError for anything but a parameter, GraphValueError for one that is not the optimizer's.
        """
        if isinstance(param, (tuple, list)):
            return [self.get_lr_parameter(p) for p in param]
        if not isinstance(param, Parameter):
            raise GraphTypeError(f"get_lr_parameter takes a Parameter, not {param!r}.")
        positions = [i for p, i in zip(self.parameters, self.group_numbers, strict=True) if p is param]
        if not positions:
            raise GraphValueError(f"The optimizer does not update {param.name!r}.")
        return self.group_rates[positions[0] if self.is_group_lr else 0]

    def get_weight_decay(self) -> Any:
        """The weight decay of the coming update, a tensor; with groups, one for each parameter."""
        step, settings = state_of(self.global_step), [group.weight_decay for group in self.groups]
        decays = [rate_now(d, step) if isinstance(d, Cell) else Tensor(d, float32) for d in settings]
        return tuple(decays[i] for i in self.group_numbers) if self.is_group else decays[0]


def _check_lengths(default: LearningRate, of_groups: Sequence[LearningRate | None]) -> None:
    """Raise GraphValueError where lists of learning rates, of groups and the default, differ in length."""
    lengths = {len(rates) for rates in (default, *of_groups) if isinstance(rates, (list, tuple))}
    if len(lengths) > 1:
        raise GraphValueError(
            "For 'Optimizer', the Tensor type dynamic learning rate in group must be the same size as the argument "
            f"'learning_rate'; the lists have the lengths {', '.join(map(str, sorted(lengths)))}.",
        )


def wide_dtype(parameter: Parameter) -> DType:
    """The dtype that a parameter's update is computed in: its own, or float32 for 16 bits."""
    return float32 if parameter.dtype.is_half else parameter.dtype


def bias_correction(beta: float, global_step: Parameter) -> Tensor:
    """1 - beta ** t after update t, the divisor of an average that began at 0."""
    count = ops.reshape(ops.cast(state_of(global_step), float32), ())
    return ops.sub(1.0, ops.pow(beta, count))


def states_like(parameters: Sequence[Parameter], prefix: str, value: float = 0.0) -> ParameterTuple:
    """A state for each parameter, in its shape, named `prefix.name`."""
    return ParameterTuple(state_like(p, prefix, value) for p in parameters)


def state_like(parameter: Parameter, prefix: str, value: float = 0.0) -> Parameter:
    """A state in the shape of a parameter, named `prefix.name`."""
    array = full(parameter.shape, value, wide_dtype(parameter).numpy)
    return Parameter(array, name=f"{prefix}.{parameter.name}", requires_grad=False)


def _bits(optimizer: str, bits: object) -> int:
    """The size of a state's elements; raises GraphTypeError or GraphValueError for anything but 32 and 8."""
    number = positive_int(optimizer, "state_bits", bits)
    if number not in (8, 32):
        raise GraphValueError(f"For {optimizer!r}, the 'state_bits' is 32 or 8, not {number}.")
    return number


def _centralised(gradient: Tensor) -> Tensor:
    if gradient.ndim < 2 or gradient.shape[1] % 16:
        return gradient
    return ops.sub(gradient, ops.mean(gradient, tuple(range(1, gradient.ndim)), keepdims=True))
