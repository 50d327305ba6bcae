"""`mindspore.mint.optim` and `mindspore.experimental.optim`: optimizers with the arguments and formulas of PyTorch."""

from __future__ import annotations

from typing import Any

from graphls import nn, ops
from graphls.base.errors import GraphValueError
from graphls.compat.mint.groups import GroupedOptimizer, in_groups
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.base import Decay, Parameters, Tensors, states_like
from graphls.ops.operands import state_of

__all__ = [
    "ASGD", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop",
]  # fmt: skip

Optimizer = GroupedOptimizer
Betas = tuple[float, float]


def minimising(name: str, maximize: bool) -> None:
    """Raise GraphValueError for an optimizer with `maximize`."""
    if maximize:
        raise GraphValueError(f"{name} minimises; give it the negative loss instead of 'maximize'.")


class Adam(GroupedOptimizer, nn.Adam):
    """Adam; weight decay is added to the gradient. Raises as Optimizer does, and GraphValueError for `maximize`."""

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: Decay = 0.0, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("Adam", maximize)
        super(GroupedOptimizer, self).__init__(params, lr, *betas, eps, weight_decay=weight_decay, use_amsgrad=amsgrad)


class AdamW(GroupedOptimizer, nn.AdamW):
    """Adam with decoupled weight decay. Raises as Optimizer does, and GraphValueError for `maximize`."""

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: Decay = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("AdamW", maximize)
        super(GroupedOptimizer, self).__init__(params, lr, betas, eps, weight_decay, amsgrad)


class SGD(GroupedOptimizer, nn.SGD):
    """Gradient descent with momentum. Raises as Optimizer does, and GraphValueError for `maximize`."""

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("SGD", maximize)
        super(GroupedOptimizer, self).__init__(params, lr, momentum, dampening, weight_decay, nesterov)


class ByElement(GroupedOptimizer):
    """An optimizer that subtracts the result of `step_of` from each parameter, with states of constant initial values.

    `initial_states` are the name and the initial value of each state, and `torch_kind` is the name of an optimizer of
    PyTorch with the same formula, states and settings.
    """

    torch_kind: str | None = None
    initial_states: tuple[tuple[str, float], ...] = ()

    def __init__(self, params: Parameters, lr: LearningRate, weight_decay: Decay, **settings: Any) -> None:
        super(GroupedOptimizer, self).__init__(lr, params, weight_decay)
        self.settings = settings
        for name, start in self.initial_states:
            setattr(self, name, states_like(self.parameters, name, settings.get(f"first_{name}", start)))

    def update(self, gradients: Tensors, rates: Tensors) -> None:
        count = ops.cast(ops.reshape(state_of(self.global_step), ()), "float32")
        for i, (parameter, g, rate) in enumerate(zip(self.parameters, gradients, rates, strict=True)):
            states = [getattr(self, name)[i] for name, _ in self.initial_states]
            self.descend(parameter, self.step_of(g, rate, count, states))

    def step_of(self, g: Tensor, rate: Tensor, count: Tensor, states: list[Parameter]) -> Tensor:
        """The step that update `count`, from 1 on, subtracts; writes the states."""
        raise NotImplementedError(f"{type(self).__name__} does not define step_of.")


def _mean(state: Parameter, share: float, value: Tensor) -> Tensor:
    """Write share * state + (1 - share) * value."""
    return ops.assign(state, ops.add(ops.mul(state_of(state), share), ops.mul(value, 1 - share)))


class RMSprop(ByElement):
    """s = alpha * s + (1 - alpha) * g * g; w = w - lr * g / (sqrt(s) + eps), as in PyTorch."""

    torch_kind = "RMSprop"
    initial_states = (("square_avg", 0.0), ("grad_avg", 0.0), ("momentum_buffer", 0.0))

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: Decay = 0.0, momentum: float = 0.0, centered: bool = False, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("RMSprop", maximize)
        super().__init__(params, lr, weight_decay, alpha=alpha, eps=eps, momentum=momentum, centered=centered)

    def step_of(self, g: Tensor, rate: Tensor, count: Tensor, states: list[Parameter]) -> Tensor:
        alpha, momentum = self.settings["alpha"], self.settings["momentum"]
        squares = _mean(states[0], alpha, ops.square(g))
        if self.settings["centered"]:
            squares = ops.sub(squares, ops.square(_mean(states[1], alpha, g)))
        step = ops.div(g, ops.add(ops.sqrt(squares), self.settings["eps"]))
        if momentum:
            step = ops.assign(states[2], ops.add(ops.mul(state_of(states[2]), momentum), step))
        return ops.mul(step, rate)


class Adagrad(ByElement):
    """h = h + g * g; w = w - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(h) + eps), as in PyTorch."""

    torch_kind = "Adagrad"
    initial_states = (("sum", 0.0),)

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-2, lr_decay: float = 0.0, weight_decay: Decay = 0.0,
        initial_accumulator_value: float = 0.0, eps: float = 1e-10, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("Adagrad", maximize)
        super().__init__(params, lr, weight_decay, lr_decay=lr_decay, eps=eps, first_sum=initial_accumulator_value)

    def step_of(self, g: Tensor, rate: Tensor, count: Tensor, states: list[Parameter]) -> Tensor:
        total = ops.assign(states[0], ops.add(state_of(states[0]), ops.square(g)))
        rate = ops.div(rate, ops.add(ops.mul(ops.sub(count, 1.0), self.settings["lr_decay"]), 1.0))
        return ops.div(ops.mul(g, rate), ops.add(ops.sqrt(total), self.settings["eps"]))


class NAdam(ByElement):
    """Adam with Nesterov's momentum (Dozat, 2016), which grows with the updates, as in PyTorch."""

    torch_kind = "NAdam"
    initial_states = (("exp_avg", 0.0), ("exp_avg_sq", 0.0), ("mu_product", 1.0))

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: Decay = 0.0, momentum_decay: float = 4e-3,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, weight_decay, betas=betas, eps=eps, momentum_decay=momentum_decay)

    def step_of(self, g: Tensor, rate: Tensor, count: Tensor, states: list[Parameter]) -> Tensor:
        beta1, beta2 = self.settings["betas"]

        def share(update: Tensor) -> Tensor:
            power = ops.pow(0.96, ops.mul(update, self.settings["momentum_decay"]))
            return ops.mul(ops.sub(1.0, ops.mul(power, 0.5)), beta1)

        now, later = share(count), share(ops.add(count, 1.0))
        product = ops.assign(states[2], ops.mul(state_of(states[2]), now))
        mean, squares = _mean(states[0], beta1, g), _mean(states[1], beta2, ops.square(g))
        first = ops.div(ops.mul(g, ops.sub(1.0, now)), ops.sub(1.0, product))
        second = ops.div(ops.mul(mean, later), ops.sub(1.0, ops.mul(product, later)))
        root = ops.sqrt(ops.div(squares, ops.sub(1.0, ops.pow(beta2, count))))
        return ops.div(ops.mul(ops.add(first, second), rate), ops.add(root, self.settings["eps"]))


class RAdam(ByElement):
    """Rectified Adam, which is adaptive once the variance of the squares is tractable (Liu et al., 2020)."""

    torch_kind = "RAdam"
    initial_states = (("exp_avg", 0.0), ("exp_avg_sq", 0.0))

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: Decay = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, weight_decay, betas=betas, eps=eps)

    def step_of(self, g: Tensor, rate: Tensor, count: Tensor, states: list[Parameter]) -> Tensor:
        beta1, beta2 = self.settings["betas"]
        mean, squares = _mean(states[0], beta1, g), _mean(states[1], beta2, ops.square(g))
        bias, left, factor = self._rectified(ops.cast(count, "float64"))
        scaled = ops.div(ops.sqrt(left), ops.add(ops.sqrt(squares), self.settings["eps"]))
        step = ops.mul(ops.div(mean, bias), rate)
        return ops.where(ops.greater(factor, 0.0), ops.mul(ops.mul(step, scaled), factor), step)

    def _rectified(self, count: Tensor) -> list[Tensor]:
        """1 - beta1 ** t, 1 - beta2 ** t and the rectification factor, 0 while the variance is not tractable.

        They are computed in float64: the length of the average is a small difference of large numbers.
        """
        beta1, beta2 = self.settings["betas"]
        most = 2 / (1 - beta2) - 1
        power = ops.pow(beta2, count)
        left = ops.sub(1.0, power)
        length = ops.sub(most, ops.div(ops.mul(ops.mul(count, 2.0), power), left))
        is_known = ops.greater(length, 5.0)
        spread = ops.mul(ops.mul(ops.sub(length, 4.0), ops.sub(length, 2.0)), most)
        spread = ops.div(spread, ops.mul(length, (most - 4) * (most - 2)))
        factor = ops.where(is_known, ops.sqrt(ops.where(is_known, spread, 1.0)), 0.0)
        return [ops.cast(each, "float32") for each in (ops.sub(1.0, ops.pow(beta1, count)), left, factor)]


class Adadelta(GroupedOptimizer, nn.Adadelta):
    """Adadelta (Zeiler, 2012). Raises as Optimizer does, and GraphValueError for `maximize`."""

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: Decay = 0.0, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("Adadelta", maximize)
        super(GroupedOptimizer, self).__init__(params, lr, rho, eps, weight_decay=weight_decay)


class Adamax(GroupedOptimizer, nn.AdaMax):
    """Adam with the infinity norm. Raises as Optimizer does, and GraphValueError for `maximize`."""

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: Decay = 0.0, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("Adamax", maximize)
        super(GroupedOptimizer, self).__init__(params, lr, *betas, eps, weight_decay)


class ASGD(GroupedOptimizer, nn.ASGD):
    """Averaged gradient descent. Raises as Optimizer does, and GraphValueError for `maximize`."""

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: Decay = 0.0, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("ASGD", maximize)
        super(GroupedOptimizer, self).__init__(params, lr, lambd, alpha, t0, weight_decay)


class Rprop(GroupedOptimizer, nn.Rprop):
    """Steps by the signs of gradients. Raises as Optimizer does, and GraphValueError for `maximize`."""

    @in_groups
    def __init__(
        self, params: Parameters, lr: LearningRate = 1e-2, etas: Betas = (0.5, 1.2), step_sizes: Betas = (1e-6, 50.0),
        *, maximize: bool = False,
    ) -> None:  # fmt: skip
        minimising("Rprop", maximize)
        super(GroupedOptimizer, self).__init__(params, lr, etas, step_sizes)
