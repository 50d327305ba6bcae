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
    weight_decay: float = 0.0
    loss_scale: float = 1.0
    t: int = 0
    state: dict[str, Any] = field(default_factory=dict)

    def step(self, gradient: Any) -> None:
        g = (gradient.astype(self.w.dtype) + self.weight_decay * self.loss_scale * self.w) / self.loss_scale
        rates = self.lr if isinstance(self.lr, list) else [self.lr]
        rate = rates[min(self.t, len(rates) - 1)]
        self.t += 1
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
