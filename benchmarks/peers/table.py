"""The table: a line for each row, the worst first, and below it every contender."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers.results import Result

Results = Sequence[Result]
MISSING = "-"


@dataclass(frozen=True)
class Comparison:
    """The results and ratios of a row; None where a contender is missing.

    Ratios are peer / graphls, so that more than 1 is good, each of the best contender of its kind; `scaling` is graphls
    with loss scaling / without it on the engine where that is least.
    """

    row: str
    graphls: Result | None
    peer: Result | None
    low: Result | None
    autocast: Result | None
    scaling: float | None
    memory: float | None
    first_step: float | None

    @property
    def speed(self) -> float | None:
        """The best float32 peer / graphls."""
        return ratio(self.peer, self.graphls)

    @property
    def low_speed(self) -> float | None:
        """PyTorch's autocast / graphls in bfloat16."""
        return ratio(self.autocast, self.low)


def ratio(
    above: Result | None, below: Result | None, of: Callable[[Result], float] = lambda result: result.relative
) -> float | None:
    """A number of one result by that of another; None where one of them is missing."""
    return of(above) / of(below) if above and below else None


def fastest(results: Results, accepted: Callable[[Result], bool]) -> Result | None:
    """The one with the least relative time among those that work and are accepted."""
    return min((r for r in results if r.works and accepted(r)), key=lambda result: result.relative, default=None)


def compare(row: str, results: Results) -> Comparison:
    """The comparison of the results of a row."""
    own = fastest(results, lambda r: r.framework == "graphls" and r.precision == "float32")
    named = {result.contender: result for result in results if result.works}
    eager, compiled = named.get("torch-eager"), named.get("torch-compile")
    return Comparison(
        row,
        own,
        fastest(results, lambda r: r.framework != "graphls" and r.precision == "float32"),
        fastest(results, lambda r: r.framework == "graphls" and r.precision == "bfloat16"),
        fastest(results, lambda r: r.framework == "torch" and r.precision == "bfloat16"),
        ratio(named.get(f"{own.contender}-scaled"), own) if own else None,
        ratio(eager, own, lambda result: result.peak_mb),
        ratio(compiled, own, lambda result: result.first_step_s),
    )


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of Markdown with columns of even width."""
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    written = [header, ["-" * width for width in widths], *lines]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in written)
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def summary(rows: Mapping[str, Results]) -> str:
    """One line for each row, the one with the worst ratio first and those without one last."""
    compared = [compare(row, results) for row, results in rows.items()]
    compared.sort(key=lambda c: (c.speed is None, c.speed))
    header = [
        "row", "graphls ms", "best float32 peer ms", "peer / graphls", "bfloat16 ms", "autocast ms",
        "autocast / graphls", "loss scaling", "memory: PyTorch / graphls", "first step: torch.compile / graphls",
    ]  # fmt: skip
    return markdown(header, [_line(comparison) for comparison in compared])


def _line(compared: Comparison) -> list[str]:
    return [
        compared.row,
        _named(compared.graphls),
        _named(compared.peer),
        _number(compared.speed),
        _named(compared.low),
        _named(compared.autocast),
        _number(compared.low_speed),
        _number(compared.scaling, ".3f"),
        _number(compared.memory),
        _number(compared.first_step, ".1f"),
    ]


def _named(result: Result | None) -> str:
    return f"{result.ms:.4g} ({result.contender})" if result else MISSING


def _number(number: float | None, form: str = ".2f") -> str:
    return MISSING if number is None else format(number, form)


def details(row: str, results: Results) -> str:
    """Every contender of a row."""
    header = [row, "median ms", "least ms", "relative", "first step s", "peak MB", "of these imported"]
    return markdown(header, [_details(result) for result in results])


def _details(result: Result) -> list[str]:
    if not result.works:
        return [result.contender, result.error or "not measured", *[""] * 5]
    times = [f"{result.ms:.4g}", f"{result.least:.4g}", f"{result.relative:.3f}", f"{result.first_step_s:.2f}"]
    return [result.contender, *times, f"{result.peak_mb:.0f}", f"{result.imported_mb:.0f}"]
