"""Distance of gradients in bfloat16 from float32: `python -m benchmarks.peers.gradients --peer-python PYTHON mlp:8`.

The norm of the difference of all gradients of the first step over the norm of those in float32, a mean over draws of
weights and batches, which both frameworks share.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.peers.rows import QUICK_ROWS, ROWS, Row
from benchmarks.peers.runner import ROOT
from benchmarks.peers.table import markdown

WAYS = ("to_float", "O2", "auto")


def distance(low: Mapping[str, np.ndarray], exact: Mapping[str, np.ndarray]) -> float:
    """The norm of the difference over that of the second."""
    pairs = [(low[name].astype(np.float64), exact[name].astype(np.float64)) for name in exact]
    return float((sum(np.square(a - b).sum() for a, b in pairs) / sum(np.square(b).sum() for _, b in pairs)) ** 0.5)


def distances(row: Row, draws: int, ways: Sequence[str] = WAYS, engine: str = "onnxruntime") -> dict[str, list[float]]:
    """The distances of graphls for each draw, by the way in which the network is set to bfloat16."""
    from benchmarks.peers.graphls_gradients import Gradients

    exact = Gradients(row)
    expected = [exact.of(draw) for draw in range(draws)]
    by_way = {way: Gradients(row, way, engine) for way in ways}
    return {way: [distance(by_way[way].of(draw), expected[draw]) for draw in range(draws)] for way in ways}


def of_autocast(row: Row, draws: int, size: str, python: str) -> list[float]:
    """The distances of PyTorch's autocast."""
    command = [python, "-m", "benchmarks.peers.torch_gradients", row.name, size, str(draws)]
    distances: list[float] = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    return distances


def main(texts: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.peers.gradients", description=__doc__)
    parser.add_argument("rows", nargs="+", help="rows with the number of draws, as mlp:32")
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that has PyTorch (%(default)s)")
    parser.add_argument("--engine", default="onnxruntime")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args(texts)
    header, lines = ["row", "draws", *WAYS, "autocast", *(f"{way} - autocast" for way in WAYS)], []
    for name, draws in (text.split(":") for text in options.rows):
        row = (QUICK_ROWS if options.quick else ROWS)[name]
        ours = distances(row, int(draws), engine=options.engine)
        theirs = np.array(of_autocast(row, int(draws), "quick" if options.quick else "full", options.peer_python))
        more = [_shown(np.array(ours[way]) - theirs) for way in WAYS]
        lines.append([name, draws, *(f"{np.mean(ours[way]):.5f}" for way in WAYS), f"{theirs.mean():.5f}", *more])
    print(markdown(header, lines))


def _shown(differences: np.ndarray) -> str:
    """A mean and its standard error."""
    error = differences.std(ddof=1) / len(differences) ** 0.5 if len(differences) > 1 else 0.0
    return f"{differences.mean():+.5f} +- {error:.5f}"


if __name__ == "__main__":
    main()
