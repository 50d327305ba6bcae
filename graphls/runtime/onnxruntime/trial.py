"""A trial process that opens a model and runs it on zeros, and may crash; it imports nothing of graphls.

Its arguments are the folder of the packages and the level of optimizations; it reads the model from its input.
"""

from __future__ import annotations

import sys
from typing import Any

DTYPES = {"float": "float32", "double": "float64"}


def main(packages: str, level: str) -> None:
    """Open and run the model; an exception is not a crash, and the session that is opened later raises it."""
    sys.path.append(packages)
    import numpy as np
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    try:
        session = runtime.InferenceSession(sys.stdin.buffer.read(), options, providers=["CPUExecutionProvider"])
        session.run(None, {i.name: np.zeros(i.shape, _dtype(i)) for i in session.get_inputs()})
    except Exception as error:
        print(error, file=sys.stderr)


def _dtype(info: Any) -> str:
    name: str = info.type.removeprefix("tensor(").removesuffix(")")
    return DTYPES.get(name, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
