"""What OpenVINO's own passes would get wrong has the numbers of NumPy, and what it refuses runs on ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.context import reset_context
from graphls.ir.errors import GraphMemoryError
from graphls.runtime import cache
from graphls.runtime.openvino import model
from graphls.runtime.openvino.part import OpenvinoPart

pytest.importorskip("openvino")
F32 = np.float32
RANDOM = np.random.default_rng(0)


def on_openvino(function: Any, *arrays: Any) -> Any:
    """What a step gives of which OpenVINO runs all."""
    step = graphls.compile(function, *arrays, engine="openvino")
    session: Any = step._session
    assert all(isinstance(part, OpenvinoPart) for part in (*session.first, *session.last))
    return step(*arrays).asnumpy()


def test_what_is_joined_stays_for_others_beside_its_absolute_values() -> None:
    a, b = np.array([-1, 2], F32), np.array([3, -4], F32)
    joined = np.concatenate([a, b])
    found = on_openvino(lambda a, b: ops.softplus(ops.concat([a, b])), a, b)
    np.testing.assert_allclose(found, np.log1p(np.exp(joined)), rtol=1e-6)


def test_absolute_values_of_special_numbers_are_theirs() -> None:
    x = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan], F32)
    found = on_openvino(ops.abs, x)
    np.testing.assert_array_equal(found, np.abs(x))
    assert not np.signbit(found[:4]).any()


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize(("shape", "axis"), [((1, 3, 3), 1), ((1, 3, 3), 2), ((3, 3, 1), 0), ((1, 2, 3, 3), (1, 2))])
def test_a_column_that_a_reduction_leaves_becomes_a_row(name: str, shape: tuple[int, ...], axis: Any) -> None:
    x = RANDOM.normal(size=shape).astype(F32)
    reduce = {"max": ops.amax, "min": ops.amin}.get(name) or getattr(ops, name)
    found = on_openvino(lambda x: ops.transpose(reduce(x, axis)), x)
    np.testing.assert_allclose(found, getattr(x, name)(axis).T, rtol=1e-5)


ATTENTION = (
    ((4, 3), (3, 4), (4, 4), (4, 4)),
    ((2, 4, 3), (2, 3, 4), (2, 4, 1), (2, 4, 4)),
    ((4, 3), (3, 4), (4, 4), (5, 4, 4)),
    ((1, 4, 3), (1, 3, 4), (1, 4, 4), (5, 4, 4)),
)


@pytest.mark.parametrize("shapes", ATTENTION)
def test_what_reads_attention_twice_leaves_the_process_alive(shapes: tuple[tuple[int, ...], ...]) -> None:
    """OpenVINO 2026.4.1 ends it by a segmentation fault while it compiles the operators as one."""
    q, k, v, other = (RANDOM.normal(size=shape).astype(F32) for shape in shapes)

    def step(q: Any, k: Any, v: Any, other: Any) -> Any:
        y = ops.softmax(q @ k, -1) @ v - other
        return ops.relu(y) * y

    scores = np.exp(q.astype(float) @ k)
    y = scores / scores.sum(-1, keepdims=True) @ v - other
    np.testing.assert_allclose(on_openvino(step, q, k, v, other), np.maximum(y, 0) * y, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_an_outer_product_of_a_column_is_right() -> None:
    y = RANDOM.normal(size=(3, 1)).astype(F32)
    found = on_openvino(ops.grad(lambda y: ops.sum(ops.sin(ops.einsum("ij,kj->ikj", y, y)))), y)
    np.testing.assert_allclose(found, 2 * np.cos(y @ y.T) @ y, rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "more", "axes", "keeps"),
    [
        ((3, 3, 2, 1), (3, 3, 2, 1, 1), (0, 3), True),
        ((1, 1, 3), (1, 1, 3, 1), (0,), True),
        ((3, 2), (1, 3, 2, 1), (1,), True),
        ((3, 2, 1), (1, 3, 1, 2), (1,), False),
        ((2, 2, 1), (1, 1, 2, 1, 2), (2, 4), False),
        ((2, 1), (1, 2, 1), (0, 2), True),
    ],
)
def test_what_has_more_axes_of_size_one_is_reduced(shape: Any, more: Any, axes: Any, keeps: bool) -> None:
    x = RANDOM.normal(size=shape).astype(F32)
    found = on_openvino(lambda x: ops.mean(ops.sin(ops.reshape(x, more)), axes, keeps), x)
    np.testing.assert_allclose(found, np.sin(x).reshape(more).mean(axes, keepdims=keeps), rtol=1e-5)


def refuse(*given: Any) -> None:
    raise RuntimeError("Exception from src/core.cpp:117:\nCheck 'x' failed at y:\nWhile validating node 'Broadcast':\n")


def test_what_openvino_refuses_runs_on_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = graphls.Parameter(np.ones(3, F32), name="weight")

    def step(x: Any) -> Any:
        return ops.depend(ops.sum(weight * x), ops.assign_add(weight, x))

    x = np.array([1, 2, 3], F32)
    monkeypatch.setattr(model, "compiled", refuse)
    with pytest.warns(UserWarning, match="the step: While validating node 'Broadcast'; ONNX Runtime runs "):
        compiled = graphls.compile(step, x, engine="openvino")
    assert [float(compiled(x)) for _ in range(2)] == [6.0, 20.0]
    assert weight.asnumpy().tolist() == [3.0, 5.0, 7.0]
    with pytest.warns(UserWarning, match="refused"):
        assert len(compiled.profile(x, steps=2).runs) == 2


def test_a_model_with_results_of_other_shapes_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "apply_workarounds", lambda model: None)
    x = RANDOM.normal(size=(1, 3, 3)).astype(F32)
    with pytest.warns(UserWarning, match="OpenVINO changed the shapes of results of the step; ONNX Runtime"):
        step = graphls.compile(lambda x: ops.transpose(ops.sum(x, 1)), x, engine="openvino")
    np.testing.assert_allclose(step(x).asnumpy(), x.sum(1).T, rtol=1e-6)


def test_want_of_memory_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*given: Any) -> None:
        raise RuntimeError("bad_alloc")

    monkeypatch.setattr(model, "compiled", too_large)
    with pytest.raises(GraphMemoryError):
        graphls.compile(lambda x: x * 2, np.ones(3, F32), engine="openvino")


def test_where_the_model_that_looks_is_refused_onnx_runtime_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    graphls.set_seed(1)
    x, y = np.ones((4, 3), F32), np.ones((4, 2), F32)
    network = nn.Dense(3, 2).set_train()
    manager = nn.DynamicLossScaleUpdateCell(2.0, 2, 1000)
    optimizer = nn.Momentum(network.trainable_params(), 0.0, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(network, nn.MSELoss()), optimizer, manager)
    step = graphls.compile(cell, x, y, engine="openvino")
    monkeypatch.setattr(model, "compiled", refuse)
    with pytest.warns(UserWarning, match="ONNX Runtime runs this part"):
        _, overflow, scale = step(x * np.float32("nan"), y)
    assert overflow and float(scale) == 1.0
    for _ in range(10):
        assert step(x * np.float32("nan"), y)[1]
    assert not step(x, y)[1]


@pytest.mark.parametrize("part", ["model", "table"])
def test_a_kept_model_of_another_step_is_not_run(tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "FEWEST", 1)
    graphls.set_cache_dir(tmp_path)
    try:
        x = RANDOM.normal(size=(1, 3, 3)).astype(F32)
        found = on_openvino(lambda x: ops.transpose(ops.sin(x)), x)
        (other,) = tmp_path.iterdir()
        on_openvino(lambda x: (ops.sin(x[0, 0]), ops.cos(x[0]), x)[1], x)
        (entry,) = set(tmp_path.iterdir()) - {other}
        folder = cache.Cache(tmp_path)
        kept, wrong = ({n: bytes(p) for n, p in (folder.load(e.stem) or {}).items()} for e in (other, entry))
        for data in (wrong[part], b"{}", b"\xff[", b"[1"):
            folder.keep(other.stem, kept | {part: data})
            np.testing.assert_array_equal(on_openvino(lambda x: ops.transpose(ops.sin(x)), x), found)
    finally:
        reset_context()
