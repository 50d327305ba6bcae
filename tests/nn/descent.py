"""Optimizers written out in NumPy, in the precision of the parameter that they start with, one at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Reference:
    """A parameter w, its settings and its states; `step` is one update by a gradient."""

    w: Any
    lr: Any
    weight_decay: Any = 0.0
    loss_scale: float = 1.0
    t: int = 0
    state: dict[str, Any] = field(default_factory=dict)

    def step(self, gradient: Any) -> None:
        rate, decay = self.now(self.lr), self.now(self.weight_decay)
        self.t += 1
        self.descend(gradient.astype(self.w.dtype), rate, decay)

    def now(self, setting: Any) -> Any:
        """A rate or decay at the coming update: a number, a list whose last number stays, a function of the step."""
        if isinstance(setting, list):
            return setting[min(self.t, len(setting) - 1)]
        return setting(self.t) if callable(setting) else setting

    def descend(self, gradient: Any, rate: float, decay: float) -> None:
        g = (gradient + decay * self.loss_scale * self.w) / self.loss_scale
        self.w = (self.w - self.move(g, rate)).astype(self.w.dtype)

    def move(self, g: Any, rate: float) -> Any:
        raise NotImplementedError


@dataclass
class Momentum(Reference):
    momentum: float = 0.9
    nesterov: bool = False

    def move(self, g: Any, rate: float) -> Any:
        v = self.state["v"] = self.momentum * self.state.get("v", 0) + g
        return rate * (g + self.momentum * v if self.nesterov else v)


@dataclass
class SGD(Reference):
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False

    def move(self, g: Any, rate: float) -> Any:
        if self.momentum == 0:
            return rate * g
        v = self.state.get("v")
        v = g if v is None else self.momentum * v + (1 - self.dampening) * g
        self.state["v"] = v
        return rate * (g + self.momentum * v if self.nesterov else v)


@dataclass
class Adam(Reference):
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    nesterov: bool = False
    amsgrad: bool = False

    def move(self, g: Any, rate: float) -> Any:
        m = self.state["m"] = self.beta1 * self.state.get("m", 0) + (1 - self.beta1) * g
        v = self.state["v"] = self.beta2 * self.state.get("v", 0) + (1 - self.beta2) * g**2
        top = self.beta1 * m + (1 - self.beta1) * g if self.nesterov else m
        if self.amsgrad:
            v = self.state["vhat"] = np.maximum(self.state.get("vhat", 0), v)
        rate = rate * np.sqrt(1 - self.beta2**self.t) / (1 - self.beta1**self.t)
        return rate * top / (np.sqrt(v) + self.eps)


def average(state: dict[str, Any], name: str, beta: float, value: Any, start: float = 0.0) -> Any:
    """beta times the state and 1 - beta times the value."""
    state[name] = beta * state.get(name, start) + (1 - beta) * value
    return state[name]


@dataclass
class AdaMax(Reference):
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def move(self, g: Any, rate: float) -> Any:
        m = average(self.state, "m", self.beta1, g)
        v = self.state["v"] = np.maximum(self.beta2 * self.state.get("v", 0.0), np.abs(g))
        return rate / (1 - self.beta1**self.t) * m / (v + self.eps)


@dataclass
class AdamWeightDecay(Reference):
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-6

    def descend(self, gradient: Any, rate: float, decay: float) -> None:
        m = average(self.state, "m", self.beta1, gradient)
        v = average(self.state, "v", self.beta2, gradient**2)
        self.w = self.w - rate * (m / (np.sqrt(v) + self.eps) + decay * self.w)


@dataclass
class AdamW(Reference):
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    amsgrad: bool = False

    def descend(self, gradient: Any, rate: float, decay: float) -> None:
        beta1, beta2 = self.betas
        g = gradient / self.loss_scale
        self.w = self.w * (1 - rate * decay)
        m = average(self.state, "m", beta1, g)
        v = average(self.state, "v", beta2, g**2)
        if self.amsgrad:
            v = self.state["vhat"] = np.maximum(self.state.get("vhat", 0.0), v)
        bottom = np.sqrt(v) / np.sqrt(1 - beta2**self.t) + self.eps
        self.w = self.w - rate / (1 - beta1**self.t) * m / bottom


@dataclass
class Lamb(Reference):
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-6

    def descend(self, gradient: Any, rate: float, decay: float) -> None:
        m = average(self.state, "m", self.beta1, gradient) / (1 - self.beta1**self.t)
        v = average(self.state, "v", self.beta2, gradient**2) / (1 - self.beta2**self.t)
        update = m / (np.sqrt(v) + self.eps) + decay * self.w
        length = np.linalg.norm(np.ravel(self.w))
        measured = np.linalg.norm(np.ravel(m / np.sqrt(v + self.eps) + decay * self.w))
        trust = min(length / measured, 10.0) if length > 0 and measured > 0 else 1.0
        self.w = self.w - trust * rate * update


@dataclass
class LARS(Momentum):
    """LARS around Momentum."""

    epsilon: float = 1e-5
    coefficient: float = 0.001
    use_clip: bool = False
    is_scaled: bool = True

    def descend(self, gradient: Any, rate: float, decay: float) -> None:
        g = gradient / self.loss_scale
        if self.is_scaled:
            length, slope = np.linalg.norm(np.ravel(self.w)), np.linalg.norm(np.ravel(g))
            ratio = self.coefficient * length / (slope + decay * length + self.epsilon)
            if self.use_clip:
                ratio = min(ratio / rate, 1.0) if rate > 0 else 1.0
            g = ratio * (g + decay * self.w)
        self.w = self.w - self.move(g, rate)


@dataclass
class RMSProp(Reference):
    decay: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-10
    centered: bool = False

    def move(self, g: Any, rate: float) -> Any:
        s = average(self.state, "s", self.decay, g**2, start=1.0)
        if self.centered:
            s = s - average(self.state, "a", self.decay, g) ** 2
        step = self.momentum * self.state.get("v", 0.0) + rate * g / np.sqrt(s + self.epsilon)
        self.state["v"] = step
        return step


@dataclass
class Adagrad(Reference):
    accum: float = 0.1
    update_slots: bool = True

    def move(self, g: Any, rate: float) -> Any:
        h = self.state.get("h", self.accum)
        if self.update_slots:
            h = self.state["h"] = h + g**2
        return rate * g / np.sqrt(h)


@dataclass
class Adadelta(Reference):
    rho: float = 0.9
    epsilon: float = 1e-6

    def move(self, g: Any, rate: float) -> Any:
        a = average(self.state, "a", self.rho, g**2)
        step = np.sqrt(self.state.get("u", 0.0) + self.epsilon) / np.sqrt(a + self.epsilon) * g
        average(self.state, "u", self.rho, step**2)
        return rate * step
