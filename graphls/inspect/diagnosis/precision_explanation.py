"""The result of `step.explain_precision`: what rounding to low dtypes loses, tensor by tensor, the worst first."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphls.base.errors import GraphKeyError
from graphls.base.text.histogram_plot import Histogram, histogram_plot
from graphls.base.text.html import Page
from graphls.base.text.plain import columns, shown
from graphls.base.text.tables import Table
from graphls.inspect.diagnosis.ranges import number
from graphls.inspect.diagnosis.rounded import LEAST, RoundedTensor
from graphls.ir.registry import nearest

HEADER = (
    "cell", "role", "line", "format", "SQNR dB", "by element", "saturated", "flushed", "subnormal", "largest", "scale",
)  # fmt: skip
LEFT_OUT = "subnormal", "largest", "scale", "format", "line"
"""The columns that a narrow terminal does not show, the first ones first."""

LEAST_NAME = 12
"""The letters of the name of a cell that a narrow terminal shows at least, the last ones."""

MOST_ROWS = 40
"""The most tensors that are listed."""

MOST_DRAWN = 12
"""The most tensors that are drawn."""

MOST_NAMES = 4
"""The most tensors that a sentence on what would mend them names, and the most maxima of a history."""


@dataclass(frozen=True, repr=False)
class PrecisionExplanation(Sequence[RoundedTensor]):
    """What a step loses where it rounds tensors to low dtypes, the worst tensor first: a table when printed.

    The worst tensor is the one whose ratio of signal to noise is the furthest below what its format gives. A tensor
    that is rounded once for each of two directions of blocks is there twice; one in a loop, or of parts of a batch, has
    the figures of its worst run. `missed` says where tensors are rounded that were not measured, and how many: in
    branches that did not run, and in loops whose length only a run knows.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import amp, nn
        >>> net = amp.auto_mixed_precision(nn.Dense(4, 2, "ones"), amp.CurrentScaling())
        >>> x = np.float32([[1e-4, 2e-4, -1e-4, 1000]])
        >>> explanation = graphls.compile(net, x).explain_precision(x)
        >>> worst = explanation[0]
        >>> worst.role, worst.flushed, worst.remedy[:34]
        ('input', 0.75, 'One scale does not fit all numbers')
    """

    tensors: tuple[RoundedTensor, ...]
    missed: tuple[tuple[str, int], ...] = ()

    def __getitem__(self, index: int | slice | str) -> Any:
        """A tensor by its position, or the worst one of a name, cell or role; raises GraphKeyError for others."""
        if not isinstance(index, str):
            return self.tensors[index]
        matches = [t for t in self.tensors if index in (t.name, t.cell, t.role, t.cell.rpartition(".")[2])]
        if not matches:
            near = nearest(index, (t.cell for t in self.tensors))
            raise GraphKeyError(f"No tensor of {index!r} is rounded{near}.")
        return matches[0]

    def __len__(self) -> int:
        return len(self.tensors)

    @property
    def summary(self) -> str:
        """The explanation in two sentences."""
        if not self.tensors:
            return "No tensor was measured in this run."
        worst, poor = self.tensors[0], sum(t.is_poor for t in self.tensors)
        count = f"{len(self.tensors)} tensors are rounded, {poor or 'none'} of them poorly."
        return f"{count} The worst is the {worst.role} of {worst.place}: {_losses(worst)}."

    @property
    def notes(self) -> tuple[str, ...]:
        """What would mend the poor ones, the worst first, and what was not measured."""
        missed = (f"Not measured: {_count(count)} of {place}." for place, count in self.missed)
        return (*_notes(self.tensors), *missed)

    def text(self, width: int | None = None) -> str:
        """The explanation, with a table of so many columns of a terminal at most: figures are left out, texts cut."""
        table, left_out = self._table(), list[str]()
        while width is not None and _width(table) > width and len(left_out) < len(LEFT_OUT):
            left_out.append(LEFT_OUT[len(left_out)])
            table = self._table(left_out)
        if width is not None and (beyond := _width(table) - width) > 0:
            longest = max(LEAST_NAME, max(columns(row[0]) for row in table.rows) - beyond)
            rows = [(_ending(row[0], longest), *row[1:]) for row in table.rows]
            table = Table(table.header, rows, table.texts)
        notes = [f"A wider terminal shows {', '.join(left_out)}, too."] if left_out else []
        notes += self.notes
        return "\n".join([self.summary, "", *table.lines(width), *(["", *notes] if notes else [])])

    def __str__(self) -> str:
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        return self.text(shutil.get_terminal_size().columns if is_terminal else None)

    __repr__ = __str__

    def plot(self) -> str:
        """A picture of the worst tensors, times their scales, on the range of their formats, as the text of an SVG."""
        return histogram_plot([_drawn(tensor) for tensor in self.tensors[:MOST_DRAWN]])

    def _repr_html_(self) -> str:
        page = Page("Precision", self.summary)
        page.notes(self.notes)
        if self.tensors:
            page.parts.append(self.plot())
            self._table().add_to(page)
        return page.text()

    def _table(self, left_out: Sequence[str] = ()) -> Table:
        often = Counter((tensor.cell, tensor.role) for tensor in self.tensors)
        roles = [t.purpose if often[t.cell, t.role] > 1 else t.role for t in self.tensors[:MOST_ROWS]]
        rows = [(shown(t.cell), role, *t.row) for t, role in zip(self.tensors, roles, strict=False)]
        if len(self.tensors) > MOST_ROWS:
            rows.append((f"({len(self.tensors) - MOST_ROWS} more)", *[""] * (len(HEADER) - 1)))
        chosen = [at for at, name in enumerate(HEADER) if name not in left_out]
        header, *table = ([row[at] for at in chosen] for row in (HEADER, *rows))
        return Table(header, table, texts=4 - ("format" in left_out) - ("line" in left_out))


def _width(table: Table) -> int:
    return max(map(columns, table.lines()))


def _ending(name: str, longest: int) -> str:
    """The last letters of a name, which tell cells apart."""
    return name if len(name) <= longest else f"\N{HORIZONTAL ELLIPSIS}{name[1 - longest :]}"


def _count(number: int) -> str:
    return f"{number} tensor{'s' if number > 1 else ''}"


def _losses(tensor: RoundedTensor) -> str:
    """What a tensor loses, in a few words."""
    shares = {"saturated": tensor.saturated, "flushed to zero": tensor.flushed, "not finite": tensor.not_finite}
    parts = [f"{share:.1%} {name}" for name, share in shares.items() if share >= LEAST]
    return ", ".join([*parts, tensor.ratio_of(tensor)])


def _notes(tensors: Sequence[RoundedTensor]) -> Iterator[str]:
    alike: dict[object, list[RoundedTensor]] = {}
    for tensor in tensors:
        if tensor.reason:
            advice = tensor.advice
            alike.setdefault((tensor.reason, None if advice is None else advice.code), []).append(tensor)
    for tensors in alike.values():
        names = list(dict.fromkeys(f"{tensor.role} of {tensor.place}" for tensor in tensors))
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        remedy = tensors[0].remedy_of("it" if len(tensors) == 1 else "the first one")
        yield f"The {', the '.join(names[:MOST_NAMES])}{more}: {remedy}{_past(tensors)}"


def _past(tensors: Sequence[RoundedTensor]) -> str:
    """The last maxima of the history of the worst tensor; its first number is the place of the next one."""
    worst = tensors[0]
    last = [number(maximum) for maximum in (worst.history or ())[1:] if maximum][-MOST_NAMES:]
    owner = "Its" if len(tensors) == 1 else "The first one's"
    return f" {owner} last maxima were {', '.join(last)}, and it is {number(worst.amax)} now." if last else ""


def _drawn(tensor: RoundedTensor) -> Histogram:
    window = tensor.window
    name = f"{tensor.role} of {shown(tensor.cell) or tensor.name}, {tensor.format.long_name}"
    return Histogram(name, tensor.histogram, window.least, window.normal, window.largest, _losses(tensor))
