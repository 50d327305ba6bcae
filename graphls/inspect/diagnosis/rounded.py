"""One tensor that a step rounds to a low dtype: how much of it is lost, and what would mend that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from graphls.base.location import Location
from graphls.base.text.plain import shown
from graphls.inspect.diagnosis.ranges import number, power
from graphls.ir.types import DType, Type

Array = np.ndarray[Any, Any]

SHORT = 6.0
"""The decibels by which a signal to noise ratio may stay below what the format gives."""

SPREAD = 4096
"""The numbers, evenly spread up to the largest one of a format, by which that is measured."""

MOST_MARGIN = 3
"""The largest margin that is advised; beyond it a scale had better follow the tensor."""

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

    @classmethod
    def of(cls, format: DType, x: Array, scaled: Array, rounded: Array, scale: Array) -> Figures:
        """The figures of x, of x times the scale, and of x after rounding, in one shape; `scale` has all scales."""
        window, size, finite = Window.of(format), max(1, x.size), np.isfinite(x)
        before, after = (array[finite].astype(np.float64) for array in (x, rounded))
        magnitude = np.abs(scaled[finite].astype(np.float64))
        flushed = (before != 0) & (after == 0)
        small = (magnitude < window.normal) & (after != 0)
        noise = np.square(before - after)
        nonzero = before != 0
        by_element = np.fmin(noise[nonzero] / np.square(before[nonzero]), 1)  # a number, or nan, is lost only once
        return Figures(
            format=format,
            saturated=float(np.count_nonzero(magnitude > window.saturates) / size),
            flushed=float(np.count_nonzero(flushed) / size),
            subnormal=float(np.count_nonzero(small) / size),
            not_finite=(x.size - before.size) / size,
            sqnr=_ratio(float(np.square(before).sum()), float(noise.sum())),
            element_sqnr=_ratio(1.0, float(by_element.mean()) if by_element.size else 0.0),
            amax=float(np.abs(before).max(initial=0.0)),
            scales=(float(scale.min(initial=np.inf)), float(scale.max(initial=-np.inf))),
            histogram=_histogram(magnitude, window),
        )

    @property
    def window(self) -> Window:
        """The numbers of the format."""
        return Window.of(self.format)

    @property
    def shortfall(self) -> float:
        """The decibels by which a ratio, the worse one, is below that of numbers spread evenly over the format."""
        if self.not_finite:
            return math.inf
        usual = usual_ratios(self.format)
        return max(usual[0] - self.sqnr, usual[1] - self.element_sqnr)

    @property
    def is_poor(self) -> bool:
        """Whether it loses a good deal more than the format takes of any tensor: a shortfall of more than 6 dB."""
        return self.shortfall > SHORT


@dataclass(frozen=True, kw_only=True)
class RoundedTensor(Figures):
    """A tensor that is rounded to the low dtype `format`, in one run, with its figures.

    `role` is "input", "weight" or "gradient", `products` those of the layer that read it, `cell` the path of the cell,
    `file` and `line` the user's line and `code` its text, each empty where it is not known. `history` has the maxima of
    the steps before, where these give the scale. A tensor in a loop has the figures of the worst `iteration`.
    The figures are: `saturated`, the share of elements that round beyond the largest number of the format, `flushed`,
    that of those which become zero and were not, `subnormal`, that of other elements below the least normal number, and
    `not_finite`, that of infinities and nans, which the other figures leave out; `sqnr`, the signal to quantization
    noise ratio in dB, 10 log10(sum x^2 / sum (x - rounded)^2), and `element_sqnr`, the mean by element, -10 log10(mean
    min(1, ((x - rounded) / x)^2)), which a few large numbers cannot hide, both inf where nothing is lost; `amax`, the
    absolute maximum; `scales`, the least and the largest multiplier of blocks that are not 0; and `histogram`, which
    counts elements by the power of two of their magnitude times the scale.

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

    @property
    def has_one_scale(self) -> bool:
        """Whether one scale is that of all elements."""
        return not any(self.block)

    @property
    def place(self) -> str:
        """The cell and the user's line."""
        line = f" ({shown(str(Location(self.file, self.line)))})" if self.file else ""
        at = f", iteration {', '.join(map(str, self.iteration))}" if self.iteration else ""
        return f"{shown(self.cell) or 'the step'}{line}{at}"

    @property
    def purpose(self) -> str:
        """The role and the products that read it: `input for forward, weight_gradient`."""
        return f"{self.role} for {', '.join(self.products)}" if self.products else self.role

    @property
    def remedy(self) -> str:
        """A sentence on what would mend it; empty where nothing is to be mended."""
        if self.not_finite:
            return "It is not finite before it is rounded; step.explain_overflow says why."
        if not self.is_poor:
            return ""
        if self.history is not None and self.saturated:
            return self._behind
        if self.history is not None and self.amax * self.scales[1] < self.window.largest / 4:
            return self._ahead
        if self.saturated and not self.has_one_scale:
            return 'Its scales let the largest numbers saturate: take a rule that rounds them up, scale_rule="ceil".'
        if self.has_one_scale:
            return "One scale does not fit all numbers: give blocks their own, by amp.BlockScaling() or amp.MXFP8()."
        return "Its blocks do not help: let this layer stay in bfloat16, by to_float(graphls.bfloat16)."

    @property
    def _behind(self) -> str:
        """The sentence on a scale that lets numbers saturate, as maxima have grown since."""
        if not any(self.history or ()):
            return FIRST
        above = math.ceil(math.log2(self.amax * self.scales[1] / self.window.saturates))
        margin = f"take a larger margin, by {above}, or " if above <= MOST_MARGIN else "take "
        return f"It has grown since the steps of its history: {margin}amp.CurrentScaling(), which has no history."

    @property
    def _ahead(self) -> str:
        """The sentence on a scale that is too small, as maxima have been larger."""
        if not any(self.history or ()):
            return FIRST
        return "It was larger in its history: take a smaller amax_history_len, or amp.CurrentScaling(), which has none."

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


FIRST = "Its history is empty, so that this step rounds with the first scale; the next step has a better one."


def decibels(ratio: float) -> str:
    """A ratio in dB; one without noise is exact."""
    return "exact" if ratio == math.inf else f"{ratio:.1f}"


@cache
def usual_ratios(dtype: DType) -> tuple[float, float]:
    """The two ratios of numbers that are spread evenly from 0 to the largest one of a low dtype."""
    window = Window.of(dtype)
    x = np.arange(1, SPREAD + 1) / SPREAD * window.largest
    figures = Figures.of(dtype, x, x, x.astype(np.float32).astype(dtype.numpy), np.ones(1))
    return figures.sqnr, figures.element_sqnr


def _ratio(signal: float, noise: float) -> float:
    """A ratio in dB; inf without noise, -inf where numbers became infinite or nan, as by a scale that is."""
    if not noise:
        return math.inf
    if not math.isfinite(noise):
        return -math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def _histogram(magnitude: Array, window: Window) -> dict[int, int]:
    """The number of elements for each power of two, but for zeros."""
    powers = np.frexp(magnitude[(magnitude > 0) & np.isfinite(magnitude)])[1] - 1
    low, high = (math.floor(math.log2(limit)) for limit in (window.least, window.largest))
    present, counts = np.unique(np.clip(powers, low - AROUND, high + AROUND), return_counts=True)
    return {int(p): int(count) for p, count in zip(present, counts, strict=True)}
