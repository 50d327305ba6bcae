"""Chooses a recipe for each layer: what saves most per harm, as far as all of it together stays within the limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from graphls.inspect.diagnosis.sensitivity import Choices, Layer, RoundingEffect

ATTEMPTS = 4
"""How often the order begins anew behind a step that did not fit."""

Step = tuple[str, int]
"""A cell and the number of the recipe that it takes."""


@dataclass(frozen=True)
class Limits:
    """The noise that all choices together may bring, and the rise of the loss."""

    noise: float
    rise: float

    def allow(self, effect: RoundingEffect, is_sure: bool = True) -> bool:
        """Whether an effect is within the limits; `is_sure`, also where the loss rises by the standard error more."""
        rise = (effect.rise or 0.0) + (effect.error or 0.0 if is_sure else 0.0)
        return effect.noise <= self.noise and rise <= self.rise

    def harm(self, effect: RoundingEffect) -> float:
        """The shares of the limits that an effect takes; a loss that falls makes up for nothing."""
        return effect.noise / self.noise + max(effect.rise or 0.0, 0.0) / self.rise


@dataclass
class RecipeChoice:
    """The choice among `effects`, those of each cell with each recipe alone; `measure` says what several do together.

    Each step of the order gives a cell a recipe with fewer bits: the one that saves most bits of operands, times the
    operations that read them, for the share of the limits that it takes by itself. Noises of layers do not add up
    exactly, so that what is measured decides how many steps are taken, by bisection; the order begins anew behind one
    that does not fit.
    """

    layers: Sequence[Layer]
    effects: Mapping[Step, RoundingEffect]
    limits: Limits
    measure: Callable[[Choices], RoundingEffect]

    def __post_init__(self) -> None:
        self.by_cell = {layer.cell: layer for layer in self.layers}
        self.open = {step for step, effect in self.effects.items() if self.limits.allow(effect, is_sure=False)}

    def chosen(self) -> dict[str, int]:
        """The number of a recipe for each cell that takes one."""
        chosen: dict[str, int] = {}
        for _ in range(ATTEMPTS):
            order = self.order(chosen)
            fitting = self.most(chosen, order)
            chosen.update(order[:fitting])
            if fitting == len(order):
                break
            self.open.discard(order[fitting])
        return chosen

    def most(self, chosen: Choices, order: Sequence[Step]) -> int:
        """How many steps of the order fit, of which most is asked first."""
        low, high, tried = 0, len(order), len(order)
        while low < high:
            if self.limits.allow(self.measure({**chosen, **dict(order[:tried])})):
                low = tried
            else:
                high = tried - 1
            tried = (low + high + 1) // 2
        return low

    def order(self, chosen: Choices) -> list[Step]:
        """The steps from these choices on, the best first."""
        now, steps = dict(chosen), []
        while candidates := [step for step in self.open if self.saved(step, now) > 0]:
            best = max(sorted(candidates), key=lambda step: self.worth(step, now))
            now[best[0]] = best[1]
            steps.append(best)
        return steps

    def saved(self, step: Step, now: Choices) -> float:
        """What a step saves of the bits of all operands."""
        layer, before = self.by_cell[step[0]], now.get(step[0], 0)
        return layer.share * (layer.bits.get(before, 1.0) - layer.bits[step[1]])

    def worth(self, step: Step, now: Choices) -> tuple[float, float]:
        """What a step saves for each share of the limits that it takes; of those that take none, what it saves."""
        before = (step[0], now.get(step[0], 0))
        harm = self.limits.harm(self.effects[step]) - (self.limits.harm(self.effects[before]) if before[1] else 0.0)
        saved = self.saved(step, now)
        return (saved / harm, saved) if harm > 0 else (float("inf"), saved)
