"""The record of a run, and its page of charts as one HTML file without dependencies."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.base.files.files import parse_json, read_bytes, write_text
from graphls.base.text.charts import Line, Point, chart, number
from graphls.base.text.colours import both, theme
from graphls.base.text.html import STYLE, escape
from graphls.train.flow import FlowCounts
from graphls.train.skips import SkippedSteps

COLUMNS = (
    "loss", "learning_rate", "scale", "overflow", "gradient_norm", "waiting", "step_time", "memory", "rows_per_second",
    "data_waiting",
)  # fmt: skip
"""Numbers of a step: seconds of `waiting` for data, of the step itself, and of data waiting for it; bytes of memory."""
FORMAT = "graphls run 1"


@dataclass
class RunRecord:
    """The numbers of a run: of each column the steps and values, of each evaluation result the same."""

    columns: dict[str, list[Point]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    evaluations: dict[str, list[Point]] = field(default_factory=dict)
    precision: dict[str, list[Point]] = field(default_factory=dict)
    """Of the worst tensors in low dtypes, the ratio of signal to noise in dB."""

    @property
    def last_step(self) -> int:
        """The last step with any number, or 0."""
        return int(max((points[-1][0] for points in self.columns.values() if points), default=0))

    def add(self, step: int, values: Mapping[str, float | None]) -> None:
        """Record numbers of a step."""
        for name, value in values.items():
            if value is not None:
                self.columns[name].append((step, float(value)))

    def forget_after(self, step: int) -> None:
        """Remove the numbers of later steps, for a run that resumes from a checkpoint."""
        for series in (self.columns, self.evaluations, self.precision):
            for name, points in series.items():
                series[name] = [point for point in points if point[0] <= step]

    def skipped(self) -> list[float]:
        """The steps that overflowed."""
        return [step for step, value in self.columns["overflow"] if value]

    def first_scale(self) -> str:
        """Which scale the next run should begin with, as a part of a sentence; empty unless most steps were skipped."""
        scales, counts = dict(self.columns["scale"]), SkippedSteps()
        for step, value in self.columns["overflow"]:
            counts.after(bool(value), scales.get(step))
        return counts.advice()

    def flow(self) -> str:
        """The rows per second of the recorded steps, and the share of what waits for what; "" where none are known."""
        waiting, step_time, idle = (dict(self.columns[name]) for name in ("waiting", "step_time", "data_waiting"))
        times = {step: seconds + step_time.get(step, 0.0) for step, seconds in waiting.items()}
        rows = sum(rate * times.get(step, 0.0) for step, rate in self.columns["rows_per_second"])
        counts = FlowCounts(round(rows), sum(waiting.values()), sum(idle.values()))
        return counts.text(sum(times.values())) if rows else ""

    def save(self, path: Path) -> None:
        """Write everything to a file, at once; numbers that are not finite as texts. Raises as `write_text`."""
        table = {"format": FORMAT, "columns": _plain(self.columns), "evaluations": _plain(self.evaluations)}
        table |= {"precision": _plain(self.precision)} if self.precision else {}
        write_text(path, json.dumps(table, separators=(",", ":")))


def load_record(path: Path) -> RunRecord:
    """The record in a file; raises GraphFileError where it cannot be read, GraphValueError where it is damaged."""
    try:
        table = parse_json(read_bytes(path))
        if table["format"] != FORMAT:
            raise GraphValueError(f"{path} is of the format {table['format']!r}, not {FORMAT!r}.")
        columns = {name: _points(table["columns"].get(name, [])) for name in COLUMNS}
        others = (table["evaluations"], table.get("precision", {}))
        return RunRecord(columns, *({name: _points(points) for name, points in series.items()} for series in others))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, GraphValueError):
            raise
        raise GraphValueError(f"{path} is damaged: it is not a record of a run.") from None


def _plain(series: Mapping[str, list[Point]]) -> dict[str, Any]:
    return {name: [[s, v if math.isfinite(v) else str(v)] for s, v in points] for name, points in series.items()}


def _points(pairs: Any) -> list[Point]:
    return [(int(step), float(value)) for step, value in pairs]


LOSS, RATE, SCALE, NORM = map(both, ("forward", "backward", "check", "update"))
CSS = theme() + (
    "body{margin:0;padding:16px;background:var(--ground);color:var(--ink);font:14px/1.5 system-ui,sans-serif}"
    "h1{font-size:18px;margin:0 0 4px}h2{font-size:14px;margin:0 0 6px}p{margin:0 0 12px;color:var(--soft)}"
    "main{display:flex;flex-wrap:wrap;gap:12px}"
    "section{background:var(--paper);border:1px solid var(--line);border-radius:6px;padding:10px 12px;overflow-x:auto;"
    "box-sizing:border-box;flex:1 1 440px;min-width:0;max-width:100%}"
    ".wide{flex-basis:100%}"
)
KEYS = (
    ".run-key{font-size:12px;opacity:.75}.run-key span{margin-right:14px;white-space:nowrap}"
    ".run-key i{display:inline-block;width:22px;border-top:3px solid;margin:0 5px 3px 0}"
    ".run-key i.other{border-top-style:dashed}"
    ".run-number{margin:0 0 8px;font-size:13px}"
    ".run-number b{font-size:28px;font-weight:600;margin-right:8px;color:var(--ink,inherit)}"
)
CARD = (
    ".graphls-run main{display:flex;flex-wrap:wrap;gap:12px}"
    ".graphls-run section{flex:1 1 340px;min-width:0;max-width:100%}.graphls-run .wide{flex-basis:100%}"
    ".graphls-run h2{font-size:14px;margin:0 0 6px}"
)
REFRESH = 5
"""Seconds after which the page of a running training reloads."""


@dataclass(frozen=True)
class Figure:
    """A chart: its title, the columns in it with their colours, the title of its axis, and how they are drawn."""

    title: str
    columns: dict[str, str]
    axis: str
    factor: float = 1.0
    includes: tuple[float, ...] = ()
    is_log: bool = False
    has_steps: bool = False


FIGURES = (
    Figure("Loss", {"loss": LOSS}, "loss"),
    Figure("Loss scale, skipped steps in red", {"scale": SCALE}, "loss scale", is_log=True, has_steps=True),
    Figure("Learning rate", {"learning_rate": RATE}, "learning rate", includes=(0,), has_steps=True),
    Figure("Norm of the gradients", {"gradient_norm": NORM}, "norm", is_log=True),
    Figure("Rows per second", {"rows_per_second": SCALE}, "rows/s", is_log=True),
    Figure(
        "Time of a step", {"step_time": LOSS, "waiting": RATE, "data_waiting": SCALE}, "milliseconds", factor=1e3,
        includes=(0,),
    ),
    Figure("Memory of the process", {"memory": NORM}, "MiB", factor=2**-20, includes=(0,)),
)
WIDE = ' class="wide"'
NAMES = {
    "step_time": "the step", "waiting": "the step waits for data", "data_waiting": "data wait for the step",
    "scale": "loss scale", "gradient_norm": "norm", "rows_per_second": "rows per second",
}  # fmt: skip
COLOURS = (NORM, RATE, SCALE, LOSS)
SHARE = re.compile(r"acc(uracy)?|auc|dice|f1|iou|jaccard|precision|recall|top_?\d+", re.IGNORECASE)
"""Evaluation results that are shares of 1, by words in their names."""


@dataclass
class RunPage:
    """A run with others beside it, and further sections: a headline and HTML each."""

    title: str
    record: RunRecord
    others: dict[str, RunRecord] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)

    def html(self, is_over: bool) -> str:
        """The page; it reloads itself until the run is over."""
        again = "" if is_over else f'<meta http-equiv="refresh" content="{REFRESH}">\n'
        further = [_section(title, content, WIDE) for title, content in self.sections.items()]
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{again}'
            f"<title>{escape(self.title)}</title>\n<style>{CSS}{KEYS}</style>\n</head>\n<body>\n"
            f"<h1>{escape(self.title)}</h1>\n<p>{escape(self.summary(is_over))}</p>\n"
            f"<main>\n{''.join([*self._figures(), *further])}</main>\n</body>\n</html>\n"
        )

    def card(self, is_over: bool) -> str:
        """The charts for a notebook, with styles that affect nothing else."""
        return (
            f'<div class="graphls-card graphls-run" role="region" aria-label="{escape(self.title)}">'
            f"<style>{CARD}{KEYS}</style>\n<p>{escape(self.title)}: {escape(self.summary(is_over))}</p>\n"
            f"<main>\n{''.join(self._figures())}</main>\n</div>{STYLE}"
        )

    def summary(self, is_over: bool) -> str:
        """A summary of the run in a sentence or two."""
        count, losses = self.record.last_step, self.record.columns["loss"]
        skipped = len(self.record.skipped())
        parts = [f"{count:,} step{'' if count == 1 else 's'}{'' if is_over else ' so far'}"]
        parts += [f"the last loss is {number(losses[-1][1])}"] if losses else []
        first = f" ({advice})" if (advice := self.record.first_scale()) else ""
        parts += [f"{skipped} skipped because of an overflow{first}"] if self.record.columns["overflow"] else []
        parts += [f"{name} {number(points[-1][1])}" for name, points in self.record.evaluations.items() if points]
        parts += [flow] if (flow := self.record.flow()) else []
        beside = f" Dashed: {', '.join(self.others)}." if self.others else ""
        return f"{', '.join(parts)}.{beside}"

    def _figures(self) -> list[str]:
        """What has points to show: the results of a single evaluation as numbers, then charts."""
        loss, *others = (self._figure(figure) for figure in FIGURES)
        numbers, *evaluations = self._evaluations()
        return [shown for shown in (numbers, loss, *evaluations, *others, self._precision()) if shown]

    def _precision(self) -> str:
        """The ratios of the tensors that are the worst at the end."""
        last = {name: points[-1] for name, points in self.record.precision.items() if points}
        worst = sorted(last, key=lambda name: (-last[name][0], last[name][1]))[: len(COLOURS)]
        lines = [Line(n, self.record.precision[n], COLOURS[i]) for i, n in enumerate(worst)]
        title = "Signal to quantization noise of the worst tensors"
        drawn = chart(title, lines, names=("step", "dB"), includes=(0,))
        return _section(title, drawn + _key(lines)) if drawn else ""

    def _figure(self, figure: Figure) -> str:
        lines = []
        for name, colour in figure.columns.items():
            for other, record in (("", self.record), *self.others.items()):
                points = [(step, value * figure.factor) for step, value in record.columns[name]]
                lines.append(Line(_named(NAMES.get(name, name), other), points, colour, bool(other), figure.has_steps))
        marks = self.record.skipped() if "scale" in figure.columns else ()
        names, is_log = ("step", figure.axis), figure.is_log and _spans(lines)
        drawn = chart(figure.title, lines, names=names, includes=figure.includes, is_log=is_log, marks=marks)
        return _section(figure.title, drawn + _key(lines)) if drawn else ""

    def _evaluations(self) -> list[str]:
        """The numbers of a single evaluation, a chart of those results that are shares of 1, and one for each other."""
        names = sorted(self.record.evaluations)
        lines = {name: self._evaluation(name, COLOURS[i % len(COLOURS)]) for i, name in enumerate(names)}
        single = [name for name in names if all(len(line.points) < 2 for line in lines[name])]
        shares = [name for name in names if name not in single and _are_shares(name, lines[name])]
        numbers = "".join(_numbers(line) for name in single for line in lines[name])
        others = [_evaluation_chart([name], lines[name]) for name in names if name not in single + shares]
        together = _evaluation_chart(shares, [line for name in shares for line in lines[name]], includes=(1,))
        return [_section("Evaluation", numbers, WIDE) if numbers else "", together, *others]

    def _evaluation(self, name: str, colour: str) -> list[Line]:
        runs = (("", self.record), *self.others.items())
        return [Line(_named(name, other), run.evaluations.get(name, []), colour, bool(other)) for other, run in runs]


def _evaluation_chart(names: Sequence[str], lines: Sequence[Line], includes: Sequence[float] = ()) -> str:
    title = f"Evaluation: {', '.join(names)}"
    drawn = chart(title, lines, names=("step", names[0] if len(names) == 1 else "share"), includes=includes)
    return _section(title, drawn + _key(lines)) if drawn else ""


def _numbers(line: Line) -> str:
    """The only points of a line as numbers."""
    texts = ((number(value), f"{line.name}, after step {step:,.0f}") for step, value in line.points)
    return "".join(f'<p class="run-number"><b>{value}</b>{escape(text)}</p>' for value, text in texts)


def _are_shares(name: str, lines: Sequence[Line]) -> bool:
    words = re.split(r"[^a-zA-Z0-9]+", name.replace("top_", "top"))
    return any(map(SHARE.fullmatch, words)) and all(0 <= value <= 1 for line in lines for _, value in line.points)


def _named(name: str, other: str) -> str:
    return f"{name} of {other}" if other else name


def _spans(lines: Sequence[Line]) -> bool:
    """Returns whether a logarithmic scale fits a chart: all its values are positive."""
    points: list[Point] = [point for line in lines for point in line.points]
    return bool(points) and all(value > 0 or value != value for _, value in points)


def _section(title: str, content: str, kind: str = "") -> str:
    return f"<section{kind}>\n<h2>{escape(title)}</h2>\n{content}\n</section>\n"


def _key(lines: Sequence[Line]) -> str:
    """The legend of a chart with several lines."""
    shown = [line for line in lines if line.points]
    if len(shown) < 2:
        return ""
    kind = {True: ' class="other"', False: ""}
    texts = (f'<span><i{kind[x.is_other]} style="color:{x.colour}"></i>{escape(x.name)}</span>' for x in shown)
    return f'<div class="run-key">{"".join(texts)}</div>'
