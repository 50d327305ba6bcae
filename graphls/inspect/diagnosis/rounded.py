"""One tensor that a step rounds to a low dtype: how much of it is lost, and what would mend that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from graphls.base.location import Location
from graphls.base.text.plain import shown
from graphls.inspect.diagnosis.ranges import number, power
from graphls.inspect.diagnosis.usual import ratio
from graphls.ir.types import DType, Type
from graphls.passes.precision.recipes import Recipe

Array = np.ndarray[Any, Any]

SHORT = 6.0
"""The decibels by which a signal to noise ratio may stay below what the format gives."""

LESS = 3.0
"""The decibels by which a recipe has to be better to be the advice, where none mends a tensor."""

LEAST = 0.0005
"""The least share that is mentioned."""

AROUND = 16
"""The powers of two on either side of a format that a histogram has; further ones count with the outermost."""


@dataclass(frozen=True)
class Window:
    """The numbers of a narrow dtype: its least subnormal, least normal and largest ones, and the bits of its fraction.

    Examples:
        >>> import graphls
        >>> from graphls.diagnosis import Window
        >>> Window.of(graphls.float8_e4m3fn)
        Window(least=0.001953125, normal=0.015625, largest=448.0, fraction=3)
    """

    least: float
    normal: float
    largest: float
    fraction: int

    @classmethod
    def of(cls, dtype: DType) -> Window:
        """The numbers of a dtype."""
        import ml_dtypes  # only where low dtypes are in use, as in ir/types.py

        limits: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
        numbers = (float(limits.smallest_subnormal), float(limits.smallest_normal), float(limits.max))
        return cls(*numbers, int(limits.nmant))

    @property
    def saturates(self) -> float:
        """The number above which rounding ends beyond the largest one, which is half of its last place above it."""
        return self.largest + 2.0 ** (math.floor(math.log2(self.largest)) - self.fraction - 1)


@dataclass(frozen=True)
class Figures:
    """The figures of an array that is rounded to a low dtype; RoundedTensor says what they are."""

    format: DType
    saturated: float
    flushed: float
    subnormal: float
    not_finite: float
    sqnr: float
    element_sqnr: float
    amax: float
    scales: tuple[float, float]
    histogram: Mapping[int, int] = field(repr=False)
    usual: tuple[float, float]

    @classmethod
    def of(
        cls, format: DType, x: Array, scaled: Array, rounded: Array, mean: Array, scale: Array,
        usual: tuple[float, float],
    ) -> Figures:  # fmt: skip
        """The figures of x, x times the scale, x after rounding and the mean of that, in one shape, and of all scales.
        """
        window, size, finite = Window.of(format), max(1, x.size), np.isfinite(x)
        before, after, expected = (array[finite].astype(np.float64) for array in (x, rounded, mean))
        magnitude = np.abs(scaled[finite].astype(np.float64))
        flushed = (before != 0) & (after == 0)
        magnitude[flushed & (magnitude >= window.normal) & (expected == 0)] = window.least / 2**AROUND  # its scale is 0
        small = (magnitude < window.normal) & (after != 0)
        nonzero = before != 0
        off = np.square(before - expected)[nonzero]
        by_element = np.fmin(off / np.square(before[nonzero]), 1)  # a number, or nan, is lost only once
        return Figures(
            format=format,
            saturated=float(np.count_nonzero(magnitude > window.saturates) / size),
            flushed=float(np.count_nonzero(flushed) / size),
            subnormal=float(np.count_nonzero(small) / size),
            not_finite=(x.size - before.size) / size,
            sqnr=ratio(float(np.square(before).sum()), float(np.square(before - after).sum())),
            element_sqnr=ratio(1.0, float(by_element.mean()) if by_element.size else 0.0),
            amax=float(np.abs(before).max(initial=0.0)),
            scales=(float(scale.min(initial=np.inf)), float(scale.max(initial=-np.inf))),
            histogram=_histogram(magnitude, window),
            usual=usual,
        )

    @property
    def window(self) -> Window:
        """The numbers of the format."""
        return Window.of(self.format)

    @property
    def shortfall(self) -> float:
        """The decibels by which a ratio, the worse one, is below what is usual."""
        return math.inf if self.not_finite else self.below(self.usual)

    def below(self, usual: tuple[float, float]) -> float:
        """The decibels by which a ratio, the worse one, is below these."""
        return max(usual[0] - self.sqnr, usual[1] - self.element_sqnr)

    @property
    def is_poor(self) -> bool:
        """Whether it loses a good deal more than the format takes of normal numbers: a shortfall of more than 6 dB."""
        return self.shortfall > SHORT


@dataclass(frozen=True)
class Alternative:
    """The figures that a tensor would have with another recipe of its layer, None for bfloat16.

    A tensor that products read with different blocks has those of the worse ones.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import amp, nn
        >>> net = amp.auto_mixed_precision(nn.Dense(64, 2, "ones"), amp.CurrentScaling())
        >>> x = np.ones((1, 64), np.float32)
        >>> x[0, 40:] = 1e6
        >>> worst = graphls.compile(net, x).explain_precision(x)[0]
        >>> [(each.code, round(each.figures.flushed, 2)) for each in worst.alternatives]
        [('amp.BlockScaling()', 0.62), ('amp.MXFP8()', 0.12), ('graphls.bfloat16', 0.0)]
    """

    recipe: Recipe | None
    figures: Figures

    @property
    def code(self) -> str:
        """What `to_float` of the layer takes for it."""
        return "graphls.bfloat16" if self.recipe is None else written(self.recipe)

    def mends(self, tensor: Figures) -> bool:
        """Whether it loses no more than is usual for its format, and less than the tensor."""
        return not self.figures.is_poor and self.figures.below(tensor.usual) < tensor.shortfall


def written(recipe: Recipe) -> str:
    """A recipe as Python writes it, without arguments that are the defaults."""
    kind = type(recipe)
    changed = [f for f in fields(recipe) if getattr(recipe, f.name) != f.default]
    module = "amp." if kind.__module__.startswith("graphls.") else ""
    return f"{module}{kind.__name__}({', '.join(f'{f.name}={getattr(recipe, f.name)!r}' for f in changed)})"


@dataclass(frozen=True, kw_only=True)
class RoundedTensor(Figures):
    """A tensor that is rounded to the low dtype `format`, in one run, with its figures.

    `role` is "input", "weight" or "gradient", `products` those of the layer that read it, `cell` the path of the cell,
    `file` and `line` the user's line and `code` its text, each empty where it is not known. `history` has the maxima of
    the steps before, where these give the scale. A tensor in a loop has the figures of its worst `iteration`, and one
    of a layer that runs several times, as for parts of a batch, those of the worst of `runs`, which is number `run`.

    The figures are: `saturated`, the share of elements that round beyond the largest number of the format, `flushed`,
    that of those which become zero and were not, `subnormal`, that of other elements below the least normal number, and
    `not_finite`, that of infinities and nans, which the other figures leave out; `sqnr`, the signal to quantization
    noise ratio in dB, 10 log10(sum x^2 / sum (x - rounded)^2), and `element_sqnr`, the mean by element, -10 log10(mean
    min(1, ((x - rounded) / x)^2)), which a few large numbers cannot hide, both inf where nothing is lost; `amax`, the
    absolute maximum; `scales`, the least and the largest multiplier of blocks that are not 0; `histogram`, which counts
    elements by the power of two of their magnitude times the scale; and `usual`, the two ratios of normally distributed
    numbers in blocks of that size, which say what the format can give.

    Stochastic rounding has more noise, and none in the mean: `usual` counts the former, and `element_sqnr` is that of
    the mean, inf but for numbers that saturate or whose block has a scale of 0. `alternatives` has, for a tensor that
    loses much, what other recipes of its layer would make of these very numbers.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import amp, nn
        >>> net = amp.auto_mixed_precision(nn.Dense(4, 2), amp.CurrentScaling())
        >>> x = np.float32([[1, 2, 4, 8]])
        >>> tensor = graphls.compile(net, x).explain_precision(x)["input"]
        >>> tensor.format, tensor.amax, tensor.scales, tensor.sqnr
        (Float8_e4m3fn, 8.0, (56.0, 56.0), inf)
    """

    name: str
    type: Type
    role: str
    products: tuple[str, ...]
    phase: str
    cell: str
    file: str
    line: int
    code: str
    block: tuple[int, ...]
    history: tuple[float, ...] | None
    iteration: tuple[int, ...] = ()
    run: int = 1
    runs: int = 1
    alternatives: tuple[Alternative, ...] = field(default=(), repr=False)

    @property
    def has_one_scale(self) -> bool:
        """Whether one scale is that of all elements."""
        return not any(self.block)

    @property
    def place(self) -> str:
        """The cell and the user's line."""
        line = f" ({shown(str(Location(self.file, self.line)))})" if self.file else ""
        at = f", iteration {', '.join(map(str, self.iteration))}" if self.iteration else ""
        at += f", run {self.run} of {self.runs}" if self.runs > 1 else ""
        return f"{shown(self.cell) or 'the step'}{line}{at}"

    @property
    def purpose(self) -> str:
        """The role and the products that read it: `input for forward, weight_gradient`."""
        return f"{self.role} for {', '.join(self.products)}" if self.products else self.role

    @property
    def reason(self) -> str:
        """A sentence without its end on why it loses much; empty where it does not."""
        if self.not_finite:
            return "It is not finite before it is rounded; step.explain_overflow says why"
        if not self.is_poor:
            return ""
        if self.history is not None and not any(self.history):
            return "Its history is empty, and this step rounds with the first scale"
        if self.history is not None and self.saturated:
            return "It has grown since the steps of its history"
        if self.history is not None and self.amax * self.scales[1] < self.window.largest / 4:
            return "It was larger in its history"
        if self.saturated and not self.has_one_scale:
            return "Its scales let the largest numbers saturate"
        return "One scale does not fit all numbers" if self.has_one_scale else "One scale does not fit all of a block"

    @property
    def advice(self) -> Alternative | None:
        """The first alternative that would lose no more than is usual; else the best one, or bfloat16."""
        mending = next((each for each in self.alternatives if each.recipe is not None and each.mends(self)), None)
        if mending is not None or not self.alternatives:
            return mending
        below = [each.figures.below(self.usual) for each in self.alternatives[:-1]]
        least = min(below, default=math.inf)
        at = next((at for at, each in enumerate(below) if each <= least + LESS), -1)
        return self.alternatives[at if least < self.shortfall - LESS else -1]

    @property
    def remedy(self) -> str:
        """A sentence on what would mend it, and on what it would have then; empty where nothing is to be mended."""
        return self.remedy_of("it")

    def remedy_of(self, whose: str) -> str:
        """That sentence, where `whose` stands for the tensor."""
        if not self.reason or self.not_finite:
            return self.reason and f"{self.reason}."
        advice = self.advice
        gain = "" if advice is None else self.gain(advice)
        if self.history is not None and not any(self.history):
            return f"{self.reason}; {f'that of the next one gives {whose} {gain}' if gain else 'the next is better'}."
        if advice is None:
            return f"{self.reason}: {self._untried}."
        wide = self.alternatives[-1]
        if advice is wide:
            stays = f"let this layer stay in bfloat16, by to_float({wide.code})"
            return f"{self.reason}: {stays}, which gives {whose} {gain}."
        rest = "" if advice.mends(self) else f"; to_float({wide.code}) would give {self.gain(wide)}"
        return f"{self.reason}: take {advice.code}, which gives {whose} {gain}{rest}."

    @property
    def _untried(self) -> str:
        """What to take where nothing could be tried, as without the recipe of the layer."""
        if self.history is not None:
            return "take amp.CurrentScaling(), which has no history"
        if self.saturated and not self.has_one_scale:
            return 'take a rule that rounds them up, scale_rule="ceil"'
        if self.has_one_scale:
            return "give blocks their own, by amp.BlockScaling() or amp.MXFP8()"
        return "let this layer stay in bfloat16, by to_float(graphls.bfloat16)"

    def ratio_of(self, figures: Figures) -> str:
        """The ratio of some figures that is the worse one of this tensor, in words."""
        by_element = self.usual[1] - self.element_sqnr > self.usual[0] - self.sqnr
        ratio = figures.element_sqnr if by_element else figures.sqnr
        return decibels(ratio) if ratio == math.inf else f"{ratio:.1f} dB{' by element' if by_element else ''}"

    def gain(self, other: Alternative) -> str:
        """The ratio of an alternative that is the worse one of this tensor, and the shares that this tensor loses."""
        ratio = self.ratio_of(other.figures)
        if ratio == decibels(math.inf):
            return "its exact numbers"
        shares = {name: (getattr(self, name), getattr(other.figures, name)) for name in ("saturated", "flushed")}
        parts = [f"{share:.1%} {name}" for name, (before, share) in shares.items() if max(share, before) >= LEAST]
        return ", ".join([ratio, *parts])

    @property
    def row(self) -> tuple[str, ...]:
        """The row of the table behind its cell and its role."""
        line = shown(str(Location(self.file, self.line))) if self.file else ""
        shares = (f"{share:.1%}" for share in (self.saturated, self.flushed, self.subnormal))
        ratios = decibels(self.sqnr), decibels(self.element_sqnr)
        return (line, self.format.long_name, *ratios, *shares, number(self.amax), self.scale)

    @property
    def scale(self) -> str:
        """The scales as text."""
        low, high = map(power, self.scales)
        return low if low == high else f"{low} to {high}"


def decibels(ratio: float) -> str:
    """A ratio in dB; one without noise is exact."""
    return "exact" if ratio == math.inf else f"{ratio:.1f}"


def _histogram(magnitude: Array, window: Window) -> dict[int, int]:
    """The number of elements for each power of two, but for zeros."""
    powers = np.frexp(magnitude[(magnitude > 0) & np.isfinite(magnitude)])[1] - 1
    low, high = (math.floor(math.log2(limit)) for limit in (window.least, window.largest))
    present, counts = np.unique(np.clip(powers, low - AROUND, high + AROUND), return_counts=True)
    return {int(p): int(count) for p, count in zip(present, counts, strict=True)}
