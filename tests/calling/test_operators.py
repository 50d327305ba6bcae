"""Operations outside of a trace: large ones run in sessions that sizes share, and give NumPy's numbers."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import Parameter, Tensor, nn, ops
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.dispatch import apply
from graphls.inspect.testing.samples import assert_close, draw, in_dtype
from graphls.ir.registry import lookup, operations
from graphls.ir.types import float16, float32
from graphls.runtime.onnxruntime import operators as sessions
from graphls.step.calling import operators

F32 = np.float32
NAMES = [operation.name for operation in operations() if operation.session_from is not None]
"""The primitives that have sessions."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No sessions of other tests."""
    dispatch._plans.clear()
    yield
    for kept in (dispatch._plans, sessions._sessions, sessions._operations):
        kept.clear()


@pytest.fixture
def at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions for the smallest operations, too."""
    for name in NAMES:
        monkeypatch.setattr(type(lookup(name)), "session_from", 0)


@pytest.fixture
def without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's rules fail for the primitives that have sessions."""
    for name in NAMES:
        monkeypatch.setattr(type(lookup(name)), "evaluate", failing)


def failing(*_: object) -> Any:
    raise AssertionError("NumPy computes this.")


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, F32)


@pytest.mark.parametrize("dtype", (float32, float16))
@pytest.mark.parametrize("name", NAMES)
def test_sessions_give_the_numbers_of_numpy(name: str, dtype: Any, at_any_size: None) -> None:
    primitive = lookup(name)
    for sample in primitive.samples:
        types = in_dtype(sample, dtype)
        if any(t.dtype is not dtype or not t.size for t in types):
            continue
        arrays = tuple(draw(sample, types))
        results = primitive.result_types(types, sample.attrs)
        given = operators.computed_by(primitive, types, sample.attrs, results)(arrays)
        with np.errstate(all="ignore"):
            wanted = primitive.evaluate(arrays, sample.attrs, results)
        for found, expected, kind in zip(given, wanted, results, strict=True):
            found = found() if callable(found) else found
            assert found.dtype == expected.dtype
            assert_close(np.asarray(found, kind.dtype.numpy), np.asarray(expected, kind.dtype.numpy), kind.dtype)


def test_16_bit_floats_are_computed_in_float32_by_all_that_have_sessions() -> None:
    assert {lookup(name).half for name in NAMES} <= {"rounded", "exact"}


@pytest.mark.usefixtures("without_numpy")
def test_sizes_share_a_session_and_small_operations_have_none() -> None:
    images = [normal(2, 16, size, size) for size in (20, 24, 20)]
    weight = normal(16, 16, 3, 3)
    for image in images:
        ops.conv2d(Tensor(image), Tensor(weight), padding=1, pad_mode="pad")
    assert len(sessions._sessions) == 1
    assert len(sessions._operations) == 2
    with pytest.raises(AssertionError, match="NumPy computes this"):
        ops.conv2d(Tensor(images[0][:1, :, :4, :4]), Tensor(weight))


def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch, at_any_size: None) -> None:
    monkeypatch.setattr(sessions, "MOST_OPERATIONS", 3)
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 2)
    for size in range(1, 6):
        ops.softmax(Tensor(normal(*[size] * size)), -1)
    assert len(sessions._operations) <= 3
    assert len(sessions._sessions) == 2
    for size in (1, 5):  # one that is gone is opened again
        np.testing.assert_allclose(ops.softmax(Tensor(normal(*[size] * size)), -1).asnumpy().sum(-1), 1, rtol=1e-5)
    assert len(sessions._sessions) == 2


def test_float64_is_computed_by_numpy(at_any_size: None) -> None:
    x = np.array([0.1, 0.2])
    assert ops.add(Tensor(x), Tensor(x)).asnumpy().tolist() == (x + x).tolist()
    assert not sessions._operations


def test_without_a_runtime_numpy_computes(monkeypatch: pytest.MonkeyPatch, at_any_size: None) -> None:
    monkeypatch.setattr(operators, "has_runtime", lambda: False)
    assert ops.erf(Tensor([0.0])).asnumpy().tolist() == [0.0]
    assert not sessions._operations


def test_what_a_session_cannot_compute_numpy_does(monkeypatch: pytest.MonkeyPatch, at_any_size: None) -> None:
    monkeypatch.setattr(sessions.OperationModel, "run", failing)
    assert ops.erf(Tensor([0.0])).asnumpy().tolist() == [0.0]


def test_positions_of_a_maximum_are_computed_when_they_are_read(at_any_size: None) -> None:
    x = np.arange(16, dtype=F32).reshape(1, 1, 4, 4)
    y, positions = apply("max_pool", Tensor(x), kernel=(2, 2), strides=(2, 2))
    assert [index for _, _, index, *_ in sessions._operations] == [0]
    again = pickle.loads(pickle.dumps(positions))
    assert positions.shape == (1, 1, 2, 2)
    assert positions.asnumpy().tolist() == again.asnumpy().tolist() == [[[[5, 7], [13, 15]]]]
    assert 1 in [index for _, _, index, *_ in sessions._operations]
    later = apply("max_pool", Tensor(x), kernel=(2, 2), strides=(2, 2))[1]
    assert graphls.compile(lambda n: n + 1, later)(later).asnumpy().tolist() == [[[[6, 8], [14, 16]]]]
    assert y.asnumpy().tolist() == [[[[5, 7], [13, 15]]]]


def test_no_result_lies_in_the_memory_of_a_parameter() -> None:
    weight = Parameter(np.zeros((2, 3), F32), name="weight")
    results = [ops.matmul(weight, np.eye(3, dtype=F32)), weight.reshape(3, 2), ops.gather(weight, [0, 1])]
    results += [apply("reshape", weight, shape=(6,)), weight.value(), weight.T, weight[0]]
    weight.set_data(np.ones((2, 3), F32))
    weight.storage.current[:] = 2
    assert all(not result.asnumpy().any() for result in results)


def test_a_parameter_is_not_copied_for_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    conv, dense, rows = nn.Conv2d(3, 4, 3), nn.Dense(3, 4, has_bias=False), nn.Embedding(5, 4)
    monkeypatch.setattr(Parameter, "value", failing)
    monkeypatch.setattr(Parameter, "asnumpy", failing)
    graphls.set_context(mode=graphls.PYNATIVE_MODE)
    try:
        assert conv(Tensor(normal(1, 3, 5, 5))).shape == (1, 4, 5, 5)
        assert dense(Tensor(normal(2, 3))).shape == (2, 4)
        assert rows(Tensor([1, 2])).shape == (2, 4)
    finally:
        graphls.set_context(mode=graphls.GRAPH_MODE)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="This system does not fork.")
def test_a_forked_process_makes_sessions_of_its_own(at_any_size: None) -> None:
    x = Tensor(normal(1, 3, 40, 40))
    weight = Tensor(normal(8, 3, 3, 3))
    before = ops.conv2d(x, weight).asnumpy()
    child = os.fork()
    if not child:
        same = np.array_equal(ops.conv2d(x, weight).asnumpy(), before)
        os._exit(0 if same and len(sessions._sessions) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("cell", (nn.LSTM, nn.GRU, nn.RNN))
def test_a_long_sequence_is_one_graph_in_eager_mode(cell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    net = cell(3, 4, bidirectional=True)
    x, lengths = normal(14, 2, 3), Tensor([14, 9])
    graphls.set_context(mode=graphls.PYNATIVE_MODE)
    try:
        whole, after = net(Tensor(x), None, lengths)
        monkeypatch.setattr("graphls.nn.recurrent.LONG", 20)
        by_steps, later = net(Tensor(x), None, lengths)
    finally:
        graphls.set_context(mode=graphls.GRAPH_MODE)
    np.testing.assert_allclose(whole.asnumpy(), by_steps.asnumpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(after[0]), np.asarray(later[0]), rtol=1e-5, atol=1e-6)


def test_the_same_operation_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    primitive = type(lookup("add"))
    infer = primitive.infer
    monkeypatch.setattr(primitive, "infer", lambda self, *types: (found.append(types), infer(self, *types))[1])
    for shape in ((2, 3), (2, 3), (3, 3)):
        assert ops.add(Tensor(normal(*shape)), Tensor(normal(*shape))).shape == shape
    assert len(found) == 2
    with pytest.raises(graphls.GraphlsError):
        ops.add(Tensor(normal(2, 3)), Tensor(normal(4, 3)))


def test_how_many_operations_are_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "MOST_PLANS", 3)
    for size in range(1, 8):
        ops.neg(Tensor(normal(size)))
        assert len(dispatch._plans) <= 3


def test_a_maximum_over_windows_runs_the_operator_of_the_runtime(at_any_size: None) -> None:
    apply("max_pool", Tensor(normal(1, 1, 4, 4)), kernel=(2, 2), strides=(2, 2))
    (model,) = sessions._sessions
    operators_of_it = [node.op_type for node in onnx.ModelProto.FromString(model).graph.node]
    assert operators_of_it == ["MaxPool"]
