"""The artifacts of all exported networks: `python -m tests.onnx.artifacts_of_exports` trains each for some steps."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, TensorProto, helper

from graphls.ir.errors import GraphlsError
from graphls.onnx import artifacts
from graphls.onnx.training import CheckpointState, Module, Optimizer

FILES = Path(__file__).parent / "exports" / "files"
STEPS = 5


def losses(path: Path, folder: Path) -> str:
    """Whether a network trains: with two batches in turn, a loss that falls."""
    model = onnx.load(path)
    output = model.graph.output[0].name
    kept = ("running", "moving")
    floats = [t for t in model.graph.initializer if t.data_type == TensorProto.FLOAT and len(t.dims)]
    names = [t.name for t in floats if not any(word in t.name for word in kept)]
    loss, optimizer = artifacts.LossType.MSELoss, artifacts.OptimType.AdamW
    artifacts.generate_artifacts(model, names, [], loss, optimizer, folder, loss_input_names=[output])
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state, folder / "eval_model.onnx")
    step, batches = Optimizer(folder / "optimizer_model.onnx", module), [examples(model, rows) for rows in (4, 3)]
    found = []
    for number in range(2 * STEPS):
        given = batches[number % 2]
        found.append(float(module(*(given.get(name, given[output]) for name in module.input_names()))))
        step.step()
        module.lazy_reset_grad()
    return "trains" if found[-2] < found[0] and found[-1] < found[1] else f"does not learn: {found}"


def examples(model: ModelProto, rows: int) -> dict[str, Any]:
    """Inputs of a model, and as a target what is near to its output for these."""
    draw, found = np.random.default_rng(0), {}
    for info in model.graph.input:
        kind = info.type.tensor_type
        shape = [dim.dim_value or (rows if dim.dim_param == "batch" else 8) for dim in kind.shape.dim]
        whole = kind.elem_type != TensorProto.FLOAT
        array: Any = draw.integers(0, 2, shape) if whole else draw.normal(size=shape)
        found[info.name] = array.astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    output = model.graph.output[0].name
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found[output] = session.run([output], found)[0] / 2
    return found


def main() -> None:
    """Say of each file whether it trains."""
    for path in sorted(FILES.glob("*.onnx")):
        with tempfile.TemporaryDirectory() as folder:
            try:
                verdict = losses(path, Path(folder))
            except (GraphlsError, RuntimeError) as error:
                verdict = f"fails: {error}"
        print(f"{path.name:28} {verdict}", flush=True)


if __name__ == "__main__":
    main()
