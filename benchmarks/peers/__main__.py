"""Step times, memory and first steps of graphls, PyTorch and JAX on the same work: `make bench-peers`.

Every contender lives in a process of its own and uses all cores; they take short turns, one at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.peers.bandwidth import SIZE, bandwidth
from benchmarks.peers.contenders import CONTENDERS, chosen
from benchmarks.peers.results import Result
from benchmarks.peers.rows import QUICK_ROWS, ROWS
from benchmarks.peers.runner import Settings, measure
from benchmarks.peers.table import details, summary


def arguments(texts: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    default = Settings()
    parser = argparse.ArgumentParser("python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rows", default=",".join(ROWS), help="some of %(default)s")
    parser.add_argument(
        "--contenders", default="*", help=f"patterns; there are {', '.join(c.name for c in CONTENDERS)}"
    )
    parser.add_argument("--rounds", type=int, default=default.rounds, help="turns of each (%(default)s)")
    parser.add_argument("--seconds", type=float, default=default.seconds, help="of a turn (%(default)s)")
    parser.add_argument(
        "--patience", type=float, default=default.patience, help="seconds for a first step (%(default)s)"
    )
    parser.add_argument("--peer-python", default=default.peer_python, help="a Python that has PyTorch and JAX")
    parser.add_argument("--quick", action="store_true", help="small sizes and short turns: whether all of it works")
    parser.add_argument("--json", type=Path, help="write all figures to this file, too")
    return parser.parse_args(texts)


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings of the command line."""
    settings = Settings(options.peer_python, options.rounds, options.seconds, options.patience, options.quick)
    return replace(settings, rounds=min(settings.rounds, 2), seconds=0.02) if options.quick else settings


def write(path: Path, settings: Settings, speed: float, results: dict[str, list[Result]]) -> None:
    """All figures as JSON."""
    cores = os.cpu_count()
    machine = {"platform": platform.platform(), "processor": processor(), "cores": cores, "bandwidth": speed}
    rows = {row: [result.as_json() for result in row_results] for row, row_results in results.items()}
    path.write_text(json.dumps({"machine": machine, "settings": vars(settings), "rows": rows}, indent=1))


def processor() -> str:
    """The name of the processor, if the system has it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def main(texts: list[str]) -> dict[str, list[Result]]:
    """Measure, and print each row when it is complete and the summary after the last one."""
    options = arguments(texts)
    settings, table = settings_of(options), QUICK_ROWS if options.quick else ROWS
    if unknown := set(options.rows.split(",")) - table.keys():
        raise SystemExit(f"There is no row {', '.join(sorted(unknown))}; there are {', '.join(table)}.")
    rows = [table[name] for name in options.rows.split(",")]
    results: dict[str, list[Result]] = {}
    speed = bandwidth(SIZE >> 10 if options.quick else SIZE)
    print(f"Copies in memory by all cores read and write {speed / 1e9:.1f} GB/s.", flush=True)
    for row, row_results in measure(rows, chosen(options.contenders), settings):
        results[row.name] = row_results
        print(f"\n{details(row.name, row_results)}", flush=True)
        if options.json:
            write(options.json, settings, speed, results)
    print(f"\n{summary(results)}")
    return results


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that workers end and their folders go, as with Ctrl-C
    main(sys.argv[1:])
