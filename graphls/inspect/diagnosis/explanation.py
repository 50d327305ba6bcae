"""The result of `step.explain_overflow`, as an object, as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphls.base.location import Location
from graphls.base.text.html import Page
from graphls.base.text.plain import shown
from graphls.inspect.diagnosis.ranges import Range, number, power


@dataclass(frozen=True)
class Operand:
    """An operand of a node; `range` is None for a tensor that is not a float or has no elements.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import ops
        >>> step = graphls.compile(lambda x: ops.log(x) + 1, np.ones(2, np.float32))
        >>> (operand,) = step.explain_overflow(np.float32([1, 0])).first.operands
        >>> operand.name, operand.range.least, operand.range.greatest
        ('%x0', 0.0, 1.0)
    """

    name: str
    type: str
    range: Range | None

    def __str__(self) -> str:
        return f"{self.name} : {self.type}" + (f"  {self.range}" if self.range is not None else "")


@dataclass(frozen=True)
class Source:
    """An input or a state that is not finite before the step begins.

    `kind` is "input", "parameter" (a state that takes gradients) or "state". `reaches` says whether the overflow comes
    from it; a moving average may hold infinities that only an earlier overflow has left there.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> step = graphls.compile(lambda x: x + 1, np.ones(2, np.float32))
        >>> (source,) = step.explain_overflow(np.float32([1, np.nan])).sources
        >>> source.kind, source.name, source.reaches
        ('input', 'x0', True)
    """

    kind: str
    name: str
    range: Range
    reaches: bool

    def __str__(self) -> str:
        return f"The {self.kind} {self.name!r} holds {self.range.count()} elements before the step begins"


@dataclass(frozen=True)
class NonFinite:
    """The value that stopped being finite, and the node that computed it.

    `cell` is the path of the cell, `file` and `line` the user's line and `code` its text, each empty where it is
    not known. `phase` is "forward", "backward", "check" or "update".

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import ops
        >>> step = graphls.compile(lambda x: ops.log(x) + 1, np.ones(2, np.float32))
        >>> first = step.explain_overflow(np.float32([1, 0])).first
        >>> first.primitive, first.type, [operand.name for operand in first.operands]
        ('log', 'f32[2]', ['%x0'])
    """

    name: str
    type: str
    range: Range
    primitive: str
    phase: str
    cell: str
    file: str
    line: int
    code: str
    operands: tuple[Operand, ...]

    @property
    def place(self) -> str:
        """The primitive, cell and line in a few words."""
        cell = f" in {shown(self.cell)}" if self.cell else ""
        return f"{self.primitive}{cell}{f' ({shown(str(Location(self.file, self.line)))})' if self.file else ''}"


@dataclass(frozen=True)
class OverflowExplanation:
    """Why a step is not finite.

    `overflowed` says whether a value that is checked, returned or written is not finite, `skipped` whether the check
    of the step sees it. `first` is the first value in the order of execution that is not finite and causes that.
    `scale` is the loss scale of the run that is explained, `present_scale` the one that the step has now; None
    for a step that has none. `depends_on_scale` says whether `first` is computed from the scale. If it is,
    `fitting_factor` is the largest factor that makes the scale a power of two with which the step ran and did not
    overflow, and `fitting_scale` that scale; None where even 2^-60 did not help. `sources` are the inputs
    and states that were not finite before. `values` of `all_values` values, and `elements` of `all_elements` elements
    in them, are not finite because of `first`; `others` values stopped being finite independently of it. Where
    nothing overflowed, `unseen` is the first value that stopped being finite though the results from it are finite,
    such as a divisor; no check sees it, and a quotient by it is 0.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn, ops
        >>> step = graphls.compile(lambda x: ops.exp(x) * 0, np.ones(2, np.float32))
        >>> explanation = step.explain_overflow(np.float32([1, 100]))
        >>> explanation.overflowed, explanation.first.primitive, explanation.first.range.infinite
        (True, 'exp', 1)
    """

    overflowed: bool
    skipped: bool
    first: NonFinite | None = None
    sources: tuple[Source, ...] = ()
    scale: float | None = None
    present_scale: float | None = None
    depends_on_scale: bool = False
    fitting_factor: float | None = None
    values: int = 0
    all_values: int = 0
    elements: int = 0
    all_elements: int = 0
    others: int = 0
    unseen: NonFinite | None = None

    @property
    def phase(self) -> str | None:
        """The phase of `first`; None where there is none."""
        return self.first.phase if self.first is not None else None

    @property
    def fitting_scale(self) -> float | None:
        """The largest power of two that fits as a scale, if one does and the scale is known."""
        if self.fitting_factor is None or self.scale is None:
            return None
        return self.fitting_factor * self.scale

    @property
    def summary(self) -> str:
        """The explanation in one line."""
        if self.sources and self.sources[0].reaches:
            return f"{self.sources[0]}."
        if self.first is None:
            at = f" at the scale {power(self.scale)}" if self.scale is not None else ""
            but = f"; {self.unseen.name} is, from {self.unseen.place}, and goes no further" if self.unseen else ""
            return f"Nothing that the step checks, returns or writes is infinite or nan{at}{but}."
        return f"{_PHASES[self.first.phase]} overflows first, in {self.first.place}; {self.remedy}"

    @property
    def remedy(self) -> str:
        """A sentence on whether another scale helps, and which one."""
        if self.sources and self.sources[0].reaches:
            return f"no scale can help while {self.sources[0].name!r} is not finite."
        if self.first is not None and self.first.primitive == "constant":
            return f"it is a constant that is not finite in {self.first.type}: make it smaller, or its dtype wider."
        if not self.depends_on_scale:
            return f"no scale can help, because {self.first.name if self.first else 'it'} does not depend on it."
        if self.fitting_factor is None:
            return "no scale can help: the step was not finite at any power of two down to 2^-60."
        if self.fitting_scale is None:
            return f"it fits when the scale is multiplied by {power(self.fitting_factor)}, which was tried."
        below = "; update cells stop at 1" if self.fitting_scale < 1 else ""
        return f"the largest power of two that fits is the scale {power(self.fitting_scale)}, which was tried{below}."

    @property
    def notes(self) -> tuple[str, ...]:
        """Further observations, one sentence each."""
        return tuple(_notes(self))

    def __str__(self) -> str:
        lines = [self.summary]
        if self.first is not None:
            lines += [f"  {label:10} {text}" for label, text in _facts(self, self.first)]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = Page("Overflow", self.summary)
        if self.first is not None:
            page.facts(_facts(self, self.first))
        page.notes(self.notes)
        return page.text()


_PHASES = {"forward": "The forward", "backward": "The backward", "check": "The check", "update": "The update"}


def _facts(of: OverflowExplanation, first: NonFinite) -> list[tuple[str, str]]:
    """The facts about the first value, each with its label."""
    line = f"{shown(str(Location(first.file, first.line)))}  {first.code}".rstrip() if first.file else "not known"
    facts = [
        ("phase", first.phase),
        ("primitive", first.primitive),
        ("cell", shown(first.cell) or "-"),
        ("line", line),
        ("value", f"{first.name} : {first.type}  {first.range}"),
        *(("operand", str(operand)) for operand in first.operands),
    ]
    if of.scale is not None:
        facts.append(("scale", f"{number_of(of.scale)}"))
    share = f"{of.values} of {of.all_values} values, {of.elements} of {of.all_elements} elements"
    return [*facts, ("affected", f"{share} are not finite because of it")]


def number_of(scale: float) -> str:
    """A scale as a number and, where it is one, as a power of two."""
    short, long = power(scale), number(scale) if scale % 1 else f"{scale:.0f}"
    return f"{long} ({short})" if short.startswith("2^") else long


def _notes(of: OverflowExplanation) -> Iterator[str]:
    if of.first is not None and of.sources and of.sources[0].reaches:
        yield f"{of.remedy[0].upper()}{of.remedy[1:]}"
    for source in of.sources[1:] if of.sources and of.sources[0].reaches else of.sources:
        yield f"{source}{'.' if source.reaches else ', but the overflow does not come from it.'}"
    if of.overflowed and of.scale != of.present_scale:
        yield (
            f"The present scale {power(of.present_scale)} does not overflow; this explains the overflow at "
            f"{power(of.scale)}, which the rule of the step lowers to it."
        )
    if of.others:
        yield f"Not finite independently of it: {of.others} other {'value' if of.others == 1 else 'values'}."
    if of.overflowed and not of.skipped:
        yield "The overflow check of the step, if it has one, does not see it: the step is not skipped."
