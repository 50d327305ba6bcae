"""Latency on ONNX Runtime of networks exported by graphls and of the same networks exported by PyTorch.

`python -m benchmarks.export_latency`, or `make bench-export`, which brings PyTorch. The files of graphls and of both
exporters of PyTorch hold the same weights and take any number of rows; results that differ end the run. The sessions
take turns, and the least time of each counts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.export_rows import ROWS, inputs
from benchmarks.peers import graphls_networks
from benchmarks.peers.rows import Row, first_value
from graphls import Tensor, float32, int32
from graphls.base.text.tables import Table
from graphls.train import export

EXPORTERS = ("graphls", "dynamo", "script")


def arguments(texts: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.export_latency", description=__doc__)
    parser.add_argument("--rows", default=",".join(ROWS), help="some of %(default)s")
    parser.add_argument("--threads", default="1,2", help="of a session (%(default)s)")
    parser.add_argument("--batches", default="1,16", help="rows at a time (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each line of the table (%(default)s)")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has PyTorch and onnxscript")
    parser.add_argument("--folder", type=Path, help="keep the files there; PyTorch's are written once")
    return parser.parse_args(texts)


def write(row: Row, folder: Path) -> None:
    """Export a network with graphls."""
    network = getattr(graphls_networks, row.name)(**row.sizes)
    for parameter in network.trainable_params():
        parameter.set_data(Tensor(first_value(parameter.name, parameter.shape)))
    network.set_train(False)
    x = Tensor(shape=[None, *row.shape], dtype=int32 if row.words else float32)
    export(network, x, file_name=folder / f"{row.name}.graphls", file_format="ONNX")


def sessions(row: Row, folder: Path, threads: int) -> dict[str, Any]:
    """Inference sessions of the files of a network, by exporter."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    paths = {name: folder / f"{row.name}.{name}.onnx" for name in EXPORTERS}
    return {
        name: onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for name, path in paths.items()
        if path.exists()
    }


def least_times(sessions: dict[str, Any], x: Any, seconds: float) -> dict[str, float]:
    """The least time of each session, in microseconds; the sessions take turns."""
    feeds = {name: {session.get_inputs()[0].name: x} for name, session in sessions.items()}
    expected = sessions["graphls"].run(None, feeds["graphls"])[0]
    for name, session in sessions.items():
        np.testing.assert_allclose(session.run(None, feeds[name])[0], expected, rtol=1e-3, atol=1e-4)
    least = dict.fromkeys(sessions, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, session in sessions.items():
            for _ in range(3):
                start = time.perf_counter()
                session.run(None, feeds[name])
                least[name] = min(least[name], 1e6 * (time.perf_counter() - start))
    return least


def main(texts: list[str]) -> None:
    """Export, compare and print the table."""
    options = arguments(texts)
    rows = [ROWS[name] for name in options.rows.split(",")]
    folder = options.folder or Path(tempfile.mkdtemp(prefix="graphls_export_"))
    folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        write(row, folder)
    missing = [row.name for row in rows if not (folder / f"{row.name}.script.onnx").exists()]
    if missing:
        subprocess.run([options.peer_python, "-m", "benchmarks.peers.torch_export", str(folder), *missing], check=True)
    lines = []
    for threads in map(int, options.threads.split(",")):
        for row in rows:
            opened = sessions(row, folder, threads)
            for batch in map(int, options.batches.split(",")):
                least = least_times(opened, inputs(row, batch), options.seconds)
                ratio = least["graphls"] / min(time for name, time in least.items() if name != "graphls")
                times = [f"{least[name]:.0f}" if name in least else "-" for name in EXPORTERS]
                lines.append((row.name, str(threads), str(batch), *times, f"{ratio:.2f}"))
    header = ("network", "threads", "rows", *(f"{name}, us" for name in EXPORTERS), "graphls / best of PyTorch")
    print("\n".join(Table(header, lines).lines()))


if __name__ == "__main__":
    main(sys.argv[1:])
