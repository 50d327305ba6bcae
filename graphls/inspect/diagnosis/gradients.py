"""The result of `step.gradient_ranges`: the ranges of the gradients in the dtypes that they are computed in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphls.base.errors import GraphKeyError
from graphls.base.text.html import Page
from graphls.base.text.plain import shown
from graphls.base.text.range_plot import Range, range_plot
from graphls.base.text.tables import Table
from graphls.inspect.diagnosis.ranges import number, power
from graphls.inspect.diagnosis.rounded import Window
from graphls.ir.registry import nearest
from graphls.ir.types import DType, float8_e4m3fn, float8_e5m2, float16

Array = np.ndarray[Any, Any]
NARROW = (float16, float8_e5m2, float8_e4m3fn)
"""The dtypes for which is said what they would lose."""

HEADER = ("parameter", "dtype", "least", "largest", "in float32", "flushed", "subnormal", "not finite", "head room")


@dataclass(frozen=True)
class GradientRange:
    """The gradient of one parameter, times the loss scale, in the dtype that the backward computes it in.

    `least` and `largest` are magnitudes of its finite elements, `least` of those that are not zero; None where
    there is none. `wide_largest` is the largest magnitude with the backward in float32 in place of 16-bit floats, on
    the values of the same forward. `flushed` is the share of elements that are zero but not zero there (None for
    wider dtypes), `subnormal` the share of those below the smallest normal number, `not_finite` that of infinities and
    nans. `head_room` is log2(largest number of the dtype / `wide_largest`): the powers of two that the scale can grow
    by before this gradient overflows; negative where it does. `lost` has for float16, float8_e5m2 and float8_e4m3fn the
    share of the elements that are not zero in float32 and would be zero or beyond the range there: in float16 at the
    present scale, in 8 bits with a scale of its own, which takes the largest magnitude to the largest number.

    Examples:
        >>> import graphls
        >>> from graphls import nn, tensor
        >>> net = nn.Dense(2, 1, weight_init="zeros", bias_init="zeros")
        >>> loss_cell, sgd = nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1)
        >>> train = nn.TrainOneStepWithLossScaleCell(loss_cell, sgd, nn.FixedLossScaleUpdateCell(64.0))
        >>> x, y = tensor([[1.0, 2.0]]), tensor([[1.0]])
        >>> first, *_ = graphls.compile(train, x, y).gradient_ranges(x, y).ranges
        >>> first.name, first.largest, first.not_finite
        ('weight', 256.0, 0.0)
    """

    name: str
    dtype: DType
    size: int
    least: float | None
    largest: float | None
    wide_largest: float | None
    flushed: float | None
    subnormal: float
    not_finite: float
    head_room: float | None
    lost: Mapping[DType, float] = field(default_factory=dict)

    @property
    def row(self) -> tuple[str, ...]:
        """The row of the table."""
        flushed = "-" if self.flushed is None else f"{self.flushed:.1%}"
        room = "-" if self.head_room is None else f"{self.head_room:.1f}"
        shares = f"{self.subnormal:.1%}", f"{self.not_finite:.1%}"
        numbers = map(number, (self.least, self.largest, self.wide_largest))
        return (shown(self.name), self.dtype.long_name, *numbers, flushed, *shares, room)

    @property
    def shown(self) -> Range:
        """The range as the picture shows it."""
        note = f"{self.dtype.long_name}, {number(self.least)} to {number(self.largest)}"
        note += f", {self.flushed:.1%} flushed to zero" if self.flushed else ""
        note += f", {self.not_finite:.1%} not finite" if self.not_finite else ""
        ends = self.least, self.largest, self.wide_largest
        return Range(shown(self.name), *ends, bool(self.flushed), self.not_finite > 0, note)


@dataclass(frozen=True)
class GradientRanges(Sequence[GradientRange]):
    """The gradients of all parameters of a step on one batch, at its present scale.

    `largest_scale` is the largest power of two with which the step ran and its check saw no overflow, None where
    none from 2^-60 to 2^120 fits, all do, or the scale is not known. `suggested_scale` is a quarter of it, which leaves
    room for batches with gradients four times as large, and 1 where the step computes no float16.

    Examples:
        >>> import graphls
        >>> from graphls import nn, tensor
        >>> net = nn.Dense(2, 1, weight_init="zeros", bias_init="zeros")
        >>> loss_cell, sgd = nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1)
        >>> train = nn.TrainOneStepWithLossScaleCell(loss_cell, sgd, nn.FixedLossScaleUpdateCell(64.0))
        >>> x, y = tensor([[1.0, 2.0]]), tensor([[1.0]])
        >>> ranges = graphls.compile(train, x, y).gradient_ranges(x, y)
        >>> ranges.scale, [each.name for each in ranges.ranges]
        (64.0, ['weight', 'bias'])
    """

    ranges: tuple[GradientRange, ...]
    scale: float | None
    largest_scale: float | None
    suggested_scale: float | None

    def __getitem__(self, index: int | slice | str) -> Any:
        """A range by its position, or by the name of its parameter; raises GraphKeyError for another name."""
        if not isinstance(index, str):
            return self.ranges[index]
        matches = [r for r in self.ranges if r.name == index]
        if not matches:
            near = nearest(index, (r.name for r in self.ranges))
            raise GraphKeyError(f"There is no gradient of {index!r}{near}.")
        return matches[0]

    def __len__(self) -> int:
        return len(self.ranges)

    @property
    def summary(self) -> str:
        """The scales in one line."""
        return " ".join(_sentences(self))

    def __str__(self) -> str:
        return "\n".join([*self._table().lines(), self.summary])

    __repr__ = __str__

    def lost(self) -> str:
        """A table of the shares that are lost in narrower dtypes, as `GradientRange.lost` has them.

        It tells whether gradients fit into 8 bits with one scale for each tensor, or take blocks, as those of
        amp.MXFP8().
        """
        header = ("parameter", *(dtype.long_name for dtype in NARROW))
        rows = [(shown(r.name), *(f"{r.lost[dtype]:.1%}" for dtype in NARROW)) for r in self.ranges]
        return "\n".join(Table(header, rows).lines())

    def plot(self) -> str:
        """A picture of the ranges against the windows of float16 and bfloat16, as the text of an SVG element."""
        return range_plot([r.shown for r in self.ranges])

    def _repr_html_(self) -> str:
        page = Page("Gradient ranges", self.summary)
        page.parts.append(self.plot())
        self._table().add_to(page)
        return page.text()

    def _table(self) -> Table:
        return Table(HEADER, [r.row for r in self.ranges])


def _sentences(of: GradientRanges) -> Iterator[str]:
    if of.scale is not None:
        yield f"The scale is {power(of.scale)}."
    if of.largest_scale is not None:
        yield f"The largest power of two that fits this batch is {power(of.largest_scale)}."
    if of.suggested_scale is not None:
        yield f"Suggested: {power(of.suggested_scale)}."


def gradient_range(name: str, dtype: DType, parts: Sequence[Array], wide: Sequence[Array]) -> GradientRange:
    """The range of a gradient from the parts that it sums, in their dtype and in float32 (`wide`)."""
    narrow = np.concatenate([np.abs(a.astype(np.float64)).reshape(-1) for a in parts])
    true = np.concatenate([np.abs(a.astype(np.float64)).reshape(-1) for a in wide])
    limits = finfo(dtype)
    finite = narrow[np.isfinite(narrow)]
    nonzero = finite[finite > 0]
    size = max(1, narrow.size)
    widest = float(true.max(initial=0.0))
    return GradientRange(
        name=name, dtype=dtype, size=narrow.size, least=float(nonzero.min()) if nonzero.size else None,
        largest=float(finite.max()) if finite.size else None, wide_largest=widest if math.isfinite(widest) else None,
        flushed=float(np.sum((narrow == 0) & (true > 0)) / size) if dtype.is_half else None,
        subnormal=float(np.sum(nonzero < float(limits.smallest_normal)) / size),
        not_finite=(narrow.size - finite.size) / size,
        head_room=math.log2(float(limits.max) / widest) if widest > 0 and math.isfinite(widest) else None,
        lost={dtype: _lost(true, dtype) for dtype in NARROW},
    )  # fmt: skip


def _lost(magnitudes: Array, dtype: DType) -> float:
    """The share of magnitudes that become zero in a dtype or end beyond its range; of a low one with its own scale."""
    window, finite = Window.of(dtype), magnitudes[np.isfinite(magnitudes)]
    largest = float(finite.max(initial=0.0))
    scaled = finite * (window.largest / largest) if dtype.is_low and largest else finite
    lost = ((scaled > 0) & (scaled <= window.least / 2)) | (scaled > window.saturates)
    return float(np.count_nonzero(lost) / max(1, magnitudes.size))


def finfo(dtype: DType) -> Any:
    """The limits of a float dtype."""
    if dtype.long_name == "bfloat16":
        import ml_dtypes  # only where bfloat16 is in use, as in ir/types.py

        return ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    return np.finfo(dtype.numpy)
