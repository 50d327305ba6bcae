"""Training steps written out in NumPy: a network by hand, loss scaling, clipping, accumulation, moving averages.

Nothing here comes from graphls. Everything is in float32, optimizers (`descent`) and averages too, and where a network
is in half precision, every result of its forward and backward is rounded to float16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.nn.descent import Reference

F32 = np.float32
MASK = np.array([True, True, False, True])
FACTORS = np.array([1.0, 0.5, 4096.0, 2.0], F32)
"""The third unit counts for nothing; its gradient, before the mask, is larger than any other's."""


def initial_weights(seed: int) -> dict[str, Any]:
    """Float32 weights of the network by name."""
    rng = np.random.default_rng(seed)
    shapes = {"w1": (3, 4), "b1": (4,), "w2": (4, 2), "gamma": (2,)}
    return {name: (0.5 + 0.3 * rng.normal(size=shape)).astype(F32) for name, shape in shapes.items()}


class Network:
    """loss = mean((gamma * ((x w1 + b1)^2 [mask] * FACTORS) w2 - y)^2).

    Where `half`, x, y, the weights and all results up to the difference are float16.
    """

    def __init__(self, half: bool = False) -> None:
        self.half = half

    def rounded(self, x: Any) -> Any:
        """What is left of a result in the precision of the network, as float32."""
        return x.astype(np.float16).astype(F32) if self.half else x.astype(F32)

    def forward(self, weights: dict[str, Any], x: Any, y: Any) -> tuple[Any, dict[str, Any]]:
        """The loss, and what the backward needs."""
        r, t = self.rounded, {name: self.rounded(w) for name, w in weights.items()}
        t["x"] = r(x)
        t["a"] = r(r(t["x"] @ t["w1"]) + t["b1"])
        t["z"] = r(np.where(MASK, r(t["a"] * t["a"]), F32(0)) * FACTORS)
        t["q"] = r(t["z"] @ t["w2"])
        t["d"] = r(t["q"] * t["gamma"]) - r(y)
        return np.mean(t["d"] * t["d"], dtype=F32), t

    def backward(self, t: dict[str, Any], sensitivity: Any) -> tuple[list[Any], list[Any]]:
        """The gradients by w1, b1, w2 and gamma, and every value that was made on the way."""
        r = self.rounded
        g_square = sensitivity * F32(1 / t["d"].size)
        g_d = g_square * (2 * t["d"])
        g_p = r(g_d)
        g_q, g_scaled = r(g_p * t["gamma"]), r(g_p * t["q"])
        g_z = r(g_q @ t["w2"].T)
        g_masked = r(g_z * FACTORS)
        g_a = r(np.where(MASK, g_masked, F32(0)) * r(2 * t["a"]))
        by_weight = [r(t["x"].T @ g_a), r(g_a.sum(0)), r(t["z"].T @ g_q), r(g_scaled.sum(0))]
        return by_weight, [g_square, g_d, g_p, g_q, g_scaled, g_z, g_masked, g_a, *by_weight]


class FixedScale:
    """A loss scale that stays, unless somebody sets `value`."""

    def __init__(self, value: float) -> None:
        self.value = F32(value)

    def update(self, overflow: bool) -> None:
        """What a step does to the scale."""


class DynamicScale(FixedScale):
    """Falls by `factor` at an overflow, not below 1; rises after `window` steps without a change."""

    def __init__(self, value: float, factor: float, window: int) -> None:
        super().__init__(value)
        self.factor, self.window = factor, window
        self.iteration, self.last = 1, 0

    def update(self, overflow: bool) -> None:
        rises = self.window <= self.iteration - self.last
        if overflow:
            self.value = max(F32(self.value / F32(self.factor)), F32(1))
        elif rises:
            self.value = F32(self.value * F32(self.factor))
        if overflow or rises:
            self.last = self.iteration
        self.iteration += 1


def is_finite(arrays: Sequence[Any]) -> bool:
    """Whether no array holds an infinity or nan."""
    return all(bool(np.isfinite(a).all()) for a in arrays)


def clipped(gradients: Sequence[Any], limit: float) -> tuple[list[Any], float]:
    """Gradients scaled to a common norm of about `limit` at most, and their norm before."""
    norm = float(np.sqrt(sum(np.sum(np.square(g.astype(np.float64))) for g in gradients)))
    larger = norm if norm >= limit else limit
    coefficient = min(limit / (larger + 1e-6), 1.0)
    return [g * coefficient for g in gradients], norm


@dataclass
class Training:
    """A program that trains: `step(x, y)` gives (loss, overflow, scale after the step, norm of the gradients).

    `skips` says whether overflowing updates are skipped and gradients divided by the scale; `watches` whether every
    value of the backward counts, or only the gradients. `accumulates` calls are one update.
    """

    network: Network
    optimizer: list[Reference]
    scale: FixedScale
    skips: bool = True
    watches: bool = False
    limit: float | None = None
    accumulates: int = 1
    ema_decay: float | None = None
    calls: int = 0
    overflowed: bool = False
    sums: list[Any] = field(default_factory=list)
    averages: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sums = [np.zeros_like(r.w) for r in self.optimizer]
        self.averages = [r.w.copy() for r in self.optimizer]

    def step(self, x: Any, y: Any) -> tuple[Any, bool, float, float]:
        with np.errstate(all="ignore"):
            names = ("w1", "b1", "w2", "gamma")
            weights = {name: r.w.astype(F32) for name, r in zip(names, self.optimizer, strict=True)}
            loss, tape = self.network.forward(weights, x, y)
            gradients, made = self.network.backward(tape, self.scale.value)
            if not self.skips:
                self.update(gradients)
                return loss, False, self.scale.value, 0.0
            gradients = [g * F32(1) / self.scale.value for g in gradients]
            overflow = not is_finite([*made, *gradients] if self.watches else gradients)
            return loss, *self.scaled(gradients, overflow)

    def scaled(self, gradients: list[Any], overflow: bool) -> tuple[bool, float, float]:
        """The rest of a step with loss scaling."""
        self.calls += 1
        overflow = self.overflowed = self.overflowed or overflow
        means = [s + g / self.accumulates for s, g in zip(self.sums, gradients, strict=True)]
        is_last = self.calls == self.accumulates
        if not is_last:
            self.sums = self.sums if overflow else means
        limited, norm = clipped(means, self.limit) if self.limit is not None else (means, 0.0)
        if is_last:
            self.scale.update(overflow)
            if not overflow:
                self.update(limited)
            self.calls, self.overflowed, self.sums = 0, False, [np.zeros_like(s) for s in self.sums]
        return overflow, self.scale.value, norm

    def update(self, gradients: Sequence[Any]) -> None:
        """One update of all parameters and their averages."""
        for reference, g in zip(self.optimizer, gradients, strict=True):
            reference.step(g)
        if self.ema_decay is not None:
            rest = 1 - self.ema_decay
            pairs = zip(self.averages, self.optimizer, strict=True)
            self.averages = [a + rest * (r.w - a) for a, r in pairs]


def batches(seed: int, count: int, broken: Callable[[int, Any], bool]) -> list[tuple[Any, Any]]:
    """Batches of (x, y), y made with other weights; where `broken(number, rng)`, one element is not finite."""
    rng = np.random.default_rng(seed)
    teacher, weights = Network(), initial_weights(seed)
    made = []
    for number in range(count):
        x = rng.normal(size=(4, 3)).astype(F32)
        y = teacher.forward(weights, x, np.zeros((4, 2), F32))[1]["d"]
        if broken(number, rng):
            target = (x, y)[rng.integers(2)]
            target.flat[rng.integers(target.size)] = rng.choice([np.inf, -np.inf, np.nan])
        made.append((x, y))
    return made
