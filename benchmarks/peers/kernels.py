"""Times of the kernels of a step of graphls or PyTorch: `python -m benchmarks.peers.kernels resnet18 onednn`."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.peers.contenders import CONTENDERS, Contender
from benchmarks.peers.rows import QUICK_ROWS, ROWS, Row
from benchmarks.peers.table import markdown

NAMES = [contender.name for contender in CONTENDERS if contender.framework in ("graphls", "torch")]
LONGEST = 20


class Profiled(NamedTuple):
    """The quickest of some profiled steps: its seconds, and the kind and the seconds of each kernel."""

    seconds: float
    kernels: Sequence[tuple[str, float]]


def main(texts: Sequence[str] | None = None) -> None:
    """Profile some steps of a row and print the kinds of kernels, the longest first."""
    parser = argparse.ArgumentParser("python -m benchmarks.peers.kernels", description=__doc__)
    parser.add_argument("row", choices=list(ROWS))
    parser.add_argument("contender", choices=NAMES)
    parser.add_argument("--steps", type=int, default=5, help="steps that are profiled (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args(texts)
    contender = next(c for c in CONTENDERS if c.name == options.contender)
    row = (QUICK_ROWS if options.quick else ROWS)[options.row]
    profiled = _of_graphls if contender.framework == "graphls" else _of_torch
    print(table(profiled(row, contender, options.steps)))


def _of_graphls(row: Row, contender: Contender, steps: int) -> Profiled:
    from benchmarks.peers.graphls_training import Training

    training = Training(row, contender)
    training.set_values()
    training.step()
    run = min(training.compiled.profile(*training.batch, steps=steps).runs, key=lambda run: run.seconds)
    return Profiled(run.seconds, [(_kind(kernel), kernel.own_seconds) for kernel in run.kernels])


def _kind(kernel: Any) -> str:
    """The operator; of a product also the primitive."""
    is_product = kernel.node is not None and kernel.node.primitive.is_product
    return f"{kernel.operator} of {kernel.node.primitive.name}" if is_product else kernel.operator


def _of_torch(row: Row, contender: Contender, steps: int) -> Profiled:
    from torch.profiler import ProfilerActivity, profile

    from benchmarks.peers.torch_training import Training, load

    load(contender)
    training = Training(row, contender)
    training.set_values()
    training.step()
    runs = []
    for _ in range(steps):
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            training.step()
        events = [event for event in profiler.events() if event.self_cpu_time_total > 0]
        first, last = min(e.time_range.start for e in events), max(e.time_range.end for e in events)
        runs.append(Profiled((last - first) / 1e6, [(e.name, e.self_cpu_time_total / 1e6) for e in events]))
    return min(runs)


def table(step: Profiled) -> str:
    """A line for each kind of kernel: its time in the step, and how many there are."""
    seconds: dict[str, float] = defaultdict(float)
    counts = Counter(kind for kind, _ in step.kernels)
    for kind, duration in step.kernels:
        seconds[kind] += duration
    kinds = sorted(seconds, key=lambda kind: -seconds[kind])
    lines = [_line(kind, seconds[kind], counts[kind]) for kind in kinds[:LONGEST]]
    rest = kinds[LONGEST:]
    lines.append(_line("others", sum(seconds[kind] for kind in rest), sum(counts[kind] for kind in rest)))
    lines.append([*_line("between kernels", step.seconds - sum(seconds.values()), 0)[:2], ""])
    lines.append(_line("step, profiled", step.seconds, sum(counts.values())))
    return markdown(["kernel", "ms", "number"], lines)


def _line(kind: str, seconds: float, count: int) -> list[str]:
    return [kind, f"{1e3 * seconds:.2f}", str(count)]


if __name__ == "__main__":
    main()
