"""`python -m graphls gradient` on all exports: `python -m tests.onnx.exports.gradients [name ...]`.

For each file the written model, on ONNX Runtime alone, beside what graphls gives of the network: the outputs, and the
gradients of all inputs and parameters for random cotangents, at the sizes of the stored inputs and with twice the rows.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import graphls
import graphls.onnx
from graphls.frontend.trace.gradients import gradient
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.errors import GraphlsError
from graphls.onnx.gradient import write_gradient
from tests.onnx.exports.agreement import FILES, Export


def main(names: list[str]) -> None:
    """Print a row of a table for each file."""
    print("| file | sizes that stay open | outputs | gradients | twice the rows | written in |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or sorted(path.stem for path in FILES.glob("*.onnx")):
            try:
                print(f"| {name} | {' | '.join(row(name, Path(folder) / 'g.onnx'))} |", flush=True)
            except GraphlsError as error:
                print(f"| {name} | {str(error).splitlines()[0]} | | | | |", flush=True)


def row(name: str, path: Path) -> list[str]:
    """What is found of one file."""
    export, start = Export(name), time.perf_counter()
    made = write_gradient(export.path, path, ["*"])
    seconds = time.perf_counter() - start
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    outputs, gradients = differences(export, session, export.feeds)
    twice = ""
    if made.sizes:
        feeds = {key: np.concatenate([array, array[::-1]]) for key, array in export.feeds.items()}
        twice = f"{max(differences(export, session, feeds)):.0e}"
    return [", ".join(made.sizes), f"{outputs:.0e}", f"{gradients:.0e}", twice, f"{seconds:.1f} s"]


def differences(export: Export, session: Any, feeds: dict[str, Any]) -> tuple[float, float]:
    """The largest differences of outputs and of gradients, each by its largest element."""
    draw = np.random.default_rng(0)
    net = graphls.onnx.load(export.path)
    net.set_train(False)
    inputs = [graphls.Tensor(array) for array in feeds.values()]
    floats = [i for i, array in enumerate(feeds.values()) if array.dtype.kind == "f"]
    found = net(*inputs)
    found = found if isinstance(found, tuple) else (found,)
    vectors = [draw.normal(size=y.shape).astype(y.asnumpy().dtype) for y in found]
    parameters = list(net.get_parameters())

    def whole(*arguments: Any) -> Any:
        count = len(inputs)
        value, by_input, by_weight = gradient(
            current_tracer(), lambda *x: net(*x), arguments[:count], floats, parameters, arguments[count:]
        )
        return *(value if isinstance(value, tuple) else (value,)), *by_input, *by_weight

    wanted = [y.asnumpy() for y in graphls.compile(whole, *inputs, *vectors)(*inputs, *vectors)]
    cotangents = [info.name for info in session.get_inputs()][len(feeds) :]
    got = session.run(None, {**feeds, **dict(zip(cotangents, vectors, strict=True))})
    rows = [float(np.abs(g - w).max() / max(np.abs(w).max(), 1e-3)) for g, w in zip(got, wanted, strict=True)]
    return max(rows[: len(found)]), max(rows[len(found) :])


if __name__ == "__main__":
    main(sys.argv[1:])
