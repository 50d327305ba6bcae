"""Portable programs of steps, run by JAX alone."""

from __future__ import annotations

import json
import runpy
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Parameter, Tensor, nn, ops
from graphls.ir.errors import GraphFileError, GraphRuntimeError, GraphTypeError, GraphValueError

jax = pytest.importorskip("jax")

X = np.random.default_rng(0).normal(size=(32, 20)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 10, 32).astype(np.int32)


def trainer() -> Any:
    """A step in float16 whose scale overflows at first, with a random mask."""
    graphls.set_seed(1)
    net = nn.SequentialCell(nn.Dense(20, 64), nn.ReLU(), nn.Dropout(p=0.2), nn.Dense(64, 10)).set_train()
    net.to_float(graphls.float16)
    loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2.0**18, 2, 3))
    return graphls.compile(cell, X, LABELS, engine="xla")


def states_of(step: Any) -> dict[str, Any]:
    return {name: parameter.asnumpy() for name, parameter in step.parameters.items()}


def test_jax_alone_trains_as_the_step_does(tmp_path: Path) -> None:
    step = trainer()
    path = step.export_stablehlo(tmp_path / "step.stablehlo")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["step.stablehlo", "step.stablehlo.json"]
    program = jax.export.deserialize(bytearray(path.read_bytes()))
    said = json.loads((tmp_path / "step.stablehlo.json").read_text())
    assert program.platforms == tuple(said["platforms"]) == ("cpu", "cuda", "tpu")
    assert [port["name"] for port in said["inputs"][:2]] == ["data", "label"]
    assert [port["name"] for port in said["outputs"]] == ["loss", "overflow", "scale"]
    types = {port["name"]: f"{port['dtype']}{port['shape']}" for port in (*said["inputs"], *said["states"])}
    kinds = [f"{kind.dtype}{list(kind.shape)}" for kind in program.in_avals]
    assert [types[name] for name in said["arguments"]] == kinds
    loop = runpy.run_path(str(resources.files("graphls.step.export") / "loops" / "step.py"))
    (draw,) = said["random"]["draws"]
    states = states_of(step)
    results = []
    with jax.enable_x64(True):
        call = jax.jit(program.call).lower(*program.in_tree.unflatten(program.in_avals)[0]).compile(said["options"])
        for _ in range(4):
            mask = loop["drawn"](draw, draw["shape"], {name: np.asarray(state) for name, state in states.items()})
            outputs, states, in_range = call({"data": X, "label": LABELS, draw["name"]: mask}, states)
            assert in_range
            results.append(tuple(np.asarray(outputs[port["name"]]) for port in said["outputs"]))
    expected = [tuple(result.asnumpy() for result in step(X, LABELS)) for _ in range(4)]
    assert [r[1:] for r in results] == [e[1:] for e in expected]
    assert {bool(r[1]) for r in results} == {True, False}
    np.testing.assert_allclose([r[0] for r in results], [e[0] for e in expected], rtol=2e-3)
    for name, state in states_of(step).items():
        np.testing.assert_allclose(np.asarray(states[name]), state, rtol=2e-3, atol=1e-4, err_msg=name)


def test_an_index_out_of_range_leaves_the_states(tmp_path: Path) -> None:
    class Counted(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table = Parameter(np.arange(12, dtype=np.float32).reshape(4, 3), name="table")

        def construct(self, indices: Any) -> Any:
            self.table = self.table + 1
            return {"rows": ops.gather(self.table, indices, 0), "kind": 7}

    step = graphls.compile(Counted(), np.zeros(2, np.int32))
    path = step.export_stablehlo(str(tmp_path / "step"), platforms=["cpu"])
    program = jax.export.deserialize(bytearray(path.read_bytes()))
    assert program.platforms == ("cpu",)
    first = states_of(step)
    outputs, states, in_range = program.call({"indices": np.array([0, -1], np.int32)}, first)
    assert in_range
    np.testing.assert_array_equal(outputs["rows"], first["table"][[0, -1]] + 1)
    outputs, after, in_range = program.call({"indices": np.array([0, 4], np.int32)}, states)
    assert not in_range
    np.testing.assert_array_equal(after["table"], first["table"] + 1)
    structure = json.loads(path.with_name("step.json").read_text())["structure"]
    assert structure == {"items": {"rows": {"output": 0}, "kind": 7}}


def test_what_a_program_cannot_hold_is_an_error_with_the_line(tmp_path: Path) -> None:
    x = np.arange(3, dtype=np.float32)
    step = graphls.compile(lambda v: ops.pure_callback(np.sort, Tensor(x), v), x)
    with pytest.raises(GraphValueError, match=r"which calls Python; compile a step without it. \(.*test_stablehlo.py:"):
        step.export_stablehlo(tmp_path / "step")
    quiet = graphls.compile(lambda v: v * 2, x)
    with pytest.raises(GraphTypeError):
        quiet.export_stablehlo(3)  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="platform 'abacus'"):
        quiet.export_stablehlo(tmp_path / "step", platforms=["abacus"])
    (tmp_path / "file").write_text("")
    with pytest.raises(GraphTypeError, match="a list of names"):
        quiet.export_stablehlo(tmp_path / "step", platforms="cpu")
    with pytest.raises(GraphFileError):
        quiet.export_stablehlo(tmp_path / "file" / "step")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_without_jax_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    x = np.arange(3, dtype=np.float32)
    step = graphls.compile(lambda v: v * 2, x)
    with pytest.raises(GraphRuntimeError, match=r"A program of StableHLO needs JAX; install it with `pip install"):
        step.export_stablehlo(tmp_path / "step")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.gather_elements(x, 1, Tensor(np.zeros((300, 5), np.int32))).sum(),
        lambda x: ops.gather(x, Tensor(np.zeros(5, np.int32)), 0).sum(),
    ],
)
def test_large_arrays_of_zeros_are_computed_and_no_literals(function: Any, tmp_path: Path) -> None:
    step = graphls.compile(graphls.grad(function), np.ones((300, 300), np.float32), engine="xla")
    assert step.export_stablehlo(tmp_path / "step.stablehlo").stat().st_size < 20_000  # the gradient has 360,000 bytes
