"""Compares networks in eager mode with the same networks compiled: `python -m benchmarks.eager`, or `make bench-eager`.

Both run forward and take turns of a few calls in one process; the least time of each counts, and that of the first
call, in which sessions are made. The first call of a turn finds a core taken for some milliseconds: threads of the
compiled form look for more work there.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from benchmarks.peers import graphls_networks
from graphls import Tensor, nn
from graphls.base.text.tables import Table
from graphls.context import GRAPH_MODE, PYNATIVE_MODE, set_context

ROWS: dict[str, tuple[str, dict[str, int], tuple[int, ...]]] = {
    "resnet18, 16 x 32 x 32": ("resnet18", {"width": 64, "classes": 10}, (16, 3, 32, 32)),
    "resnet18, 4 x 160 x 160": ("resnet18", {"width": 16, "classes": 10}, (4, 3, 160, 160)),
    "resnet50, 8 x 32 x 32": ("resnet50", {"width": 64, "classes": 10}, (8, 3, 32, 32)),
    "resnet50, 4 x 160 x 160": ("resnet50", {"width": 64, "classes": 1000}, (4, 3, 160, 160)),
    "transformer, 8 x 64 words": (
        "transformer", {"vocabulary": 1000, "length": 64, "width": 256, "heads": 4, "layers": 2}, (8, 64),
    ),
    "lstm, 16 x 32": ("lstm", {"inputs": 64, "width": 128, "layers": 1, "classes": 10}, (16, 32, 64)),
}  # fmt: skip


CALLS = 3
"""In each turn."""


def network_of(row: str) -> tuple[nn.Cell, Tensor]:
    """A network in evaluation, and an input for it."""
    name, sizes, shape = ROWS[row]
    network: nn.Cell = getattr(graphls_networks, name)(**sizes)
    generator = np.random.default_rng(0)
    words = sizes.get("vocabulary")
    x = generator.integers(0, words, shape).astype(np.int32) if words else generator.standard_normal(shape, np.float32)
    return network.set_train(False), Tensor(x)


def seconds(network: nn.Cell, x: Tensor, mode: int) -> float:
    """The seconds of one call until its result is available."""
    set_context(mode=mode)
    start = time.perf_counter()
    network(x).asnumpy()
    return time.perf_counter() - start


def line(row: str, rounds: int) -> list[str]:
    """A row of the table."""
    network, x = network_of(row)
    first = seconds(network, x, PYNATIVE_MODE)
    times: dict[int, list[float]] = {GRAPH_MODE: [], PYNATIVE_MODE: []}
    seconds(network, x, GRAPH_MODE)
    for _ in range(rounds):
        for mode, durations in times.items():
            durations += [seconds(network, x, mode) for _ in range(CALLS)]
    compiled, eager = min(times[GRAPH_MODE]), min(times[PYNATIVE_MODE])
    return [row, *(f"{1000 * t:.1f}" for t in (compiled, eager, first)), f"{eager / compiled:.2f}"]


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.eager", description=__doc__)
    parser.add_argument("--rows", default="", help="only those whose name has this word")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each (%(default)s)")
    options = parser.parse_args(arguments)
    lines = [line(row, options.rounds) for row in ROWS if options.rows in row]
    header = ("network", "compiled, ms", "eager, ms", "first eager, ms", "eager / compiled")
    print("\n".join(Table(header, lines).lines()))


if __name__ == "__main__":
    main(sys.argv[1:])
