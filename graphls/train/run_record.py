"""What is taken down of a run, step by step, and the file that keeps it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.base.files.files import parse_json, read_bytes, write_text

COLUMNS = ("loss", "learning_rate", "scale", "overflow", "gradient_norm", "waiting", "step_time", "memory")
"""Numbers of a step: seconds of `waiting` for data and of the step itself, bytes of memory of the process."""
FORMAT = "graphls run 1"
Point = tuple[float, float]


@dataclass
class RunRecord:
    """The numbers of a run: of each column the steps and values, of each evaluation result the same."""

    columns: dict[str, list[Point]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    evaluations: dict[str, list[Point]] = field(default_factory=dict)

    @property
    def last_step(self) -> int:
        """The last step that anything is known of, or 0."""
        return int(max((points[-1][0] for points in self.columns.values() if points), default=0))

    def add(self, step: int, values: Mapping[str, float | None]) -> None:
        """Take down numbers of a step."""
        for name, value in values.items():
            if value is not None:
                self.columns[name].append((step, float(value)))

    def forget_after(self, step: int) -> None:
        """Leave out what is of later steps, as where a run goes on from a checkpoint."""
        for series in (self.columns, self.evaluations):
            for name, points in series.items():
                series[name] = [point for point in points if point[0] <= step]

    def skipped(self) -> list[float]:
        """The steps that overflowed."""
        return [step for step, value in self.columns["overflow"] if value]

    def save(self, path: Path) -> None:
        """Write everything to a file, at once; numbers that are not finite as texts. Raises as `write_text`."""
        table = {"format": FORMAT, "columns": _plain(self.columns), "evaluations": _plain(self.evaluations)}
        write_text(path, json.dumps(table, separators=(",", ":")))


def load_record(path: Path) -> RunRecord:
    """The record in a file; raises GraphFileError where it cannot be read, GraphValueError where it is damaged."""
    try:
        table = parse_json(read_bytes(path))
        if table["format"] != FORMAT:
            raise GraphValueError(f"{path} is of the format {table['format']!r}, not {FORMAT!r}.")
        columns = {name: _points(table["columns"].get(name, [])) for name in COLUMNS}
        return RunRecord(columns, {name: _points(found) for name, found in table["evaluations"].items()})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, GraphValueError):
            raise
        raise GraphValueError(f"{path} is damaged: it is no record of a run.") from None


def _plain(series: Mapping[str, list[Point]]) -> dict[str, Any]:
    return {name: [[s, v if math.isfinite(v) else str(v)] for s, v in points] for name, points in series.items()}


def _points(found: Any) -> list[Point]:
    return [(int(step), float(value)) for step, value in found]
