"""More optimizers written out in NumPy, by the formulas of their papers; see `descent.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.nn.descent import Reference


@dataclass
class FTRL(Reference):
    initial_accum: float = 0.1
    lr_power: float = -0.5
    l1: float = 0.0
    l2: float = 0.0

    def descend(self, gradient: Any, rate: float, decay: float) -> None:
        g = gradient / self.loss_scale + decay * self.w
        m = self.state.get("m", self.initial_accum)
        self.state["m"] = m + g**2
        raised = [number ** (-self.lr_power) for number in (m, self.state["m"])]
        u = self.state["u"] = self.state.get("u", 0.0) + g - (raised[1] - raised[0]) / rate * self.w
        self.w = np.where(np.abs(u) > self.l1, (np.sign(u) * self.l1 - u) / (raised[1] / rate + 2 * self.l2), 0.0)


@dataclass
class ProximalAdagrad(Reference):
    accum: float = 0.1
    l1: float = 0.0
    l2: float = 0.0

    def descend(self, gradient: Any, rate: float, decay: float) -> None:
        g = gradient / self.loss_scale + decay * self.w
        h = self.state["h"] = self.state.get("h", self.accum) + g**2
        v = self.w - rate * g / np.sqrt(h)
        self.w = np.sign(v) * np.maximum(np.abs(v) - rate * self.l1, 0) / (1 + rate * self.l2)


@dataclass
class ASGD(Reference):
    lambd: float = 1e-4
    alpha: float = 0.75
    t0: float = 1e6

    def descend(self, gradient: Any, rate: float, decay: float) -> None:
        eta = rate / (1 + self.lambd * rate * (self.t - 1)) ** self.alpha
        mu = 1 / max(1.0, self.t - 1 - self.t0)
        self.w = self.w * (1 - self.lambd * eta) - eta * (gradient + decay * self.w)
        self.state["ax"] = self.state.get("ax", 0.0) + (self.w - self.state.get("ax", 0.0)) * mu


@dataclass
class Rprop(Reference):
    etas: tuple[float, float] = (0.5, 1.2)
    step_sizes: tuple[float, float] = (1e-6, 50.0)

    def descend(self, gradient: Any, rate: float, decay: float) -> None:
        g = gradient + decay * self.w
        size = self.state.get("size", np.full(np.shape(g), rate, g.dtype))
        product = g * self.state.get("prev", 0.0)
        size = np.select([product > 0, product < 0], [size * self.etas[1], size * self.etas[0]], size)
        size = self.state["size"] = np.clip(size, *self.step_sizes)
        g = self.state["prev"] = np.where(product < 0, 0.0, g)
        self.w = self.w - size * np.sign(g)


def rms(x: Any) -> Any:
    """The root of the mean square."""
    return np.sqrt(np.mean(np.square(x)))


@dataclass
class AdaFactor(Reference):
    eps: tuple[float, float] = (1e-30, 1e-3)
    clip_threshold: float = 1.0
    decay_rate: float = 0.8
    beta1: float | None = 0.9
    scale_parameter: bool = True
    relative_step: bool = True
    warmup_init: bool = False

    def descend(self, gradient: Any, rate: Any, decay: float) -> None:
        g = gradient / self.loss_scale
        if self.relative_step:
            rate = min(1e-6 * self.t if self.warmup_init else 1e-2, 1 / np.sqrt(self.t))
        if self.scale_parameter:
            rate = rate * max(self.eps[1], rms(self.w))
        u = g / np.sqrt(self.second_moment(g**2 + self.eps[0]))
        step = rate * u / max(1.0, rms(u) / self.clip_threshold)
        if self.beta1:
            step = self.state["m"] = self.beta1 * self.state.get("m", 0.0) + (1 - self.beta1) * step
        self.w = self.w - rate * decay * self.w - step

    def second_moment(self, squares: Any) -> Any:
        past = 1 - self.t**-self.decay_rate
        if squares.ndim < 2:
            self.state["v"] = past * self.state.get("v", 0.0) + (1 - past) * squares
            return self.state["v"]
        for axis in (-1, -2):
            name = f"mean{axis}"
            self.state[name] = past * self.state.get(name, 0.0) + (1 - past) * squares.mean(axis)
        rows, columns = self.state["mean-1"], self.state["mean-2"]
        return rows[..., :, None] * columns[..., None, :] / rows.mean(-1, keepdims=True)[..., None]
