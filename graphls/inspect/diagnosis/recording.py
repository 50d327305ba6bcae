"""What `step.record` answers: statistics of every float value of one run, as an object, as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphls.base.errors import GraphKeyError
from graphls.base.text.html import Page
from graphls.base.text.plain import shown
from graphls.base.text.tables import Table
from graphls.inspect.diagnosis.statistics import Statistics
from graphls.ir.graph import Graph, Value, definers, walk
from graphls.ir.registry import nearest
from graphls.ir.text import reference

HEADER = ("value", "phase", "cell", "elements", "type", "minimum", "maximum", "mean", "zeros", "not finite")
MOST_ROWS = 40
"""The most values that are listed."""


@dataclass(frozen=True, repr=False)
class Recording(Mapping[Value, Statistics]):
    """The statistics of the float values of one run: inputs, states as they were before, and what the step made.

    What a branch would have made that did not run is not there, and neither is what is made inside of loops. `graph`
    is the graph that ran: the plan, where the step has several segments. A value is found by its name, too.
    """

    graph: Graph
    found: Mapping[Value, Statistics]

    def __getitem__(self, key: Value | str) -> Statistics:
        """The statistics of a value; raises GraphKeyError for one that was not recorded."""
        if isinstance(key, Value) and key in self.found:
            return self.found[key]
        name = key if isinstance(key, str) else reference(key)
        named = [v for v in self.found if name in (v.name, reference(v))]
        if not named or isinstance(key, Value):
            near = nearest(name, (reference(v) for v in self.found))
            raise GraphKeyError(f"No value {name!r} was recorded{near}.")
        return self.found[named[-1]]

    def __iter__(self) -> Iterator[Value]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def not_finite(self) -> tuple[Value, ...]:
        """The values with infinities or nans, in the order in which they were made."""
        return tuple(v for v, s in self._made() if s.not_finite)

    @property
    def summary(self) -> str:
        """The recording in two sentences."""
        bad, made = self.not_finite, dict(self._made())
        text = f"@{shown(self.graph.name)}: {len(made)} float values in one run."
        if not bad:
            return f"{text} All of them are finite."
        return f"{text} {len(bad)} of them are not finite everywhere, at first {shown(reference(bad[0]))}."

    def __str__(self) -> str:
        return "\n".join([self.summary, "", *self._table().lines()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = Page("Recording", self.summary)
        self._table().add_to(page)
        return page.text()

    def _made(self) -> list[tuple[Value, Statistics]]:
        """The values in the order of the graph, each once: inputs, states, and what nodes make."""
        values = [*self.graph.inputs, *self.graph.states]
        values += [v for n in walk(self.graph) if not n.primitive.is_segment for v in n.outputs]
        return [(v, self.found[v]) for v in dict.fromkeys(values) if v in self.found]

    def _table(self) -> Table:
        """Those that are not finite first, then the largest."""
        made = self._made()
        order = sorted(made, key=lambda pair: (not pair[1].not_finite, -pair[1].largest))
        definer = definers(walk(self.graph))
        rows = []
        for value, of in order[:MOST_ROWS]:
            node = definer.get(value)
            place = (node.phase, shown(node.scope)) if node else ("", "")
            rows.append((shown(reference(value)), *place, of.bars, *of.row))
        if len(made) > MOST_ROWS:
            rows.append((f"({len(made) - MOST_ROWS} more)", *[""] * (len(HEADER) - 1)))
        return Table(HEADER, rows, texts=5)
