"""Times of the kernels of a step of graphls: `python -m benchmarks.peers.kernels resnet18 onednn`."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence

from benchmarks.peers.contenders import CONTENDERS
from benchmarks.peers.graphls_training import Training
from benchmarks.peers.rows import QUICK_ROWS, ROWS
from benchmarks.peers.table import markdown
from graphls.inspect.profile.profile import Profile

NAMES = [contender.name for contender in CONTENDERS if contender.framework == "graphls"]


def main(texts: Sequence[str] | None = None) -> None:
    """Profile some steps of a row and print the kinds of kernels, the longest first."""
    parser = argparse.ArgumentParser("python -m benchmarks.peers.kernels", description=__doc__)
    parser.add_argument("row", choices=list(ROWS))
    parser.add_argument("contender", choices=NAMES)
    parser.add_argument("--steps", type=int, default=5, help="steps that are profiled (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args(texts)
    contender = next(c for c in CONTENDERS if c.name == options.contender)
    training = Training((QUICK_ROWS if options.quick else ROWS)[options.row], contender)
    training.set_values()
    training.step()
    print(table(training.compiled.profile(*training.batch, steps=options.steps)))


def table(profile: Profile) -> str:
    """A line for each kind of kernel: its time in the quickest step, how many there are, and what products reach."""
    run = min(profile.runs, key=lambda run: run.seconds)
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for kernel in run.kernels:
        primitive = kernel.node.primitive.name if kernel.node is not None and kernel.node.primitive.is_product else ""
        kind = f"{kernel.operator} of {primitive}" if primitive else kernel.operator
        seconds[kind] += kernel.own_seconds
        counts[kind] += 1
    longest = sorted(seconds, key=lambda kind: -seconds[kind])
    lines = [[kind, f"{1e3 * seconds[kind]:.2f}", str(counts[kind])] for kind in longest[:20]]
    rest = longest[20:]
    lines.append(["others", f"{1e3 * sum(seconds[k] for k in rest):.2f}", str(sum(counts[k] for k in rest))])
    lines.append(["between kernels", f"{1e3 * (run.seconds - sum(seconds.values())):.2f}", ""])
    lines.append(["step, profiled", f"{1e3 * run.seconds:.2f}", str(sum(counts.values()))])
    return markdown(["kernel", "ms", "number"], lines)


if __name__ == "__main__":
    main()
