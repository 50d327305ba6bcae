"""Functions outside of a trace: large ones that are made of many operations run as one session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Parameter, Tensor, nn, ops
from graphls.frontend.tensors import dispatch
from graphls.ir.registry import operations
from graphls.nn.transformer import _attended
from graphls.ops.network.layers import linear
from graphls.runtime.onnxruntime import operators as sessions
from graphls.step.calling import grouped

pytestmark = pytest.mark.usefixtures("eager")
F32 = np.float32


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What sessions have run, in order; none of other tests are there."""
    found: list[Any] = []
    run = sessions.OperationModel.run

    def counting(ready: Any, arrays: Any) -> Any:
        found.append(ready)
        return run(ready, arrays)

    monkeypatch.setattr(sessions.OperationModel, "run", counting)
    dispatch._plans.clear()
    sessions._operations.clear()
    yield found
    for kept in (dispatch._plans, sessions._sessions, sessions._operations):
        kept.clear()


@pytest.fixture
def without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is computed operation by operation."""
    monkeypatch.setattr(dispatch, "evaluate", failing)


def failing(*_: object) -> Any:
    raise AssertionError("This is computed step by step.")


def values(*shape: int, dtype: Any = F32) -> Tensor:
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype))


def positive(*shape: int) -> Tensor:
    return Tensor(np.abs(values(*shape).asnumpy()) + F32(0.5))


X, IMAGES = values(4, 32, 64), values(4, 8, 16, 16)
OF_64, OF_8 = (values(64), values(64)), (values(8), values(8))
SCORES, LABELS = values(64, 100), Tensor((np.arange(64) % 100).astype(np.int32))
CASES: dict[str, tuple[Any, ...]] = {
    "batch_norm": (ops.batch_norm, IMAGES, values(8), positive(8), *OF_8),
    "batch_norm of rows": (ops.batch_norm, values(128, 64), values(64), positive(64), *OF_64),
    "batch_norm without weights": (ops.batch_norm, IMAGES, values(8), positive(8)),
    "layer_norm": (ops.layer_norm, X, (64,), *OF_64),
    "layer_norm over two axes": (ops.layer_norm, X, (32, 64)),
    "group_norm": (ops.group_norm, IMAGES, 4, *OF_8),
    "rms_norm": (lambda *given: ops.rms_norm(*given)[0], X, OF_64[0]),
    "linear": (linear, X, values(96, 64), values(96)),
    "linear without a bias": (linear, values(64, 128), values(256, 128)),
    "gelu": (ops.gelu, X),
    "gelu by tanh": (ops.gelu, X, "tanh"),
    "silu": (ops.silu, values(64, 64, 64)),
    "elu": (ops.elu, X, 0.5),
    "selu": (ops.selu, X),
    "hardswish": (ops.hardswish, X),
    "attention": (ops.scaled_dot_product_attention, values(2, 4, 40, 16), values(2, 4, 40, 16), values(2, 4, 40, 16)),
    "causal attention": (
        lambda *given: ops.scaled_dot_product_attention(*given, is_causal=True), X, X, values(4, 32, 8),
    ),
    "cross_entropy": (ops.cross_entropy, SCORES, LABELS),
    "cross_entropy with weights": (ops.cross_entropy, SCORES, LABELS, positive(100), 3, "sum", 0.1),
    "cross_entropy of probabilities": (ops.cross_entropy, SCORES, ops.softmax(SCORES)),
    "nll_loss": (ops.nll_loss, SCORES, LABELS, None, -100, "none"),
    "binary_cross_entropy": (ops.binary_cross_entropy, ops.sigmoid(SCORES), ops.sigmoid(values(64, 100))),
    "binary_cross_entropy_with_logits": (ops.binary_cross_entropy_with_logits, SCORES, ops.sigmoid(SCORES)),
    "smooth_l1_loss": (ops.smooth_l1_loss, SCORES, positive(64, 100), 0.5, "mean"),
    "huber_loss": (ops.huber_loss, SCORES, positive(64, 100)),
    "kl_div": (ops.kl_div, SCORES, ops.softmax(SCORES), "sum"),
    "heads": (lambda *given: _attended(*given, None, 4, 0.0)[0], X, X, X),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_session_gives_the_numbers_of_single_operations(
    case: str, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    function, *given = CASES[case]
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "evaluate", failing)
        found = function(*given)
    assert len(runs) == 1
    monkeypatch.setattr(grouped, "LEAST", 1 << 30)
    for operation in operations():
        if operation.session_from is not None:
            monkeypatch.setattr(type(operation), "session_from", None)
    wanted = function(*given)
    assert len(runs) == 1
    assert found.type == wanted.type
    np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=5e-5, atol=2e-5)


def test_a_network_in_evaluation_runs_a_session_for_each_layer(runs: list[Any]) -> None:
    layers = nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.BatchNorm2d(32)
    net = nn.SequentialCell(*layers).set_train(False)
    net(values(4, 3, 32, 32))
    assert len(runs) == 4
    assert len(sessions._sessions) == 2  # sizes share them
    net(values(4, 3, 32, 32))
    net(values(2, 3, 32, 40))
    assert (len(runs), len(sessions._sessions)) == (12, 2)


def test_attention_with_masks_and_biases_runs_few_sessions(runs: list[Any]) -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, activation="gelu").set_train(False)
    layer(values(8, 16, 64))
    assert len(runs) == 8  # four products, the attention, an activation, two normalisations
    assert len(sessions._sessions) <= 5


def test_normalisation_in_training_is_one_session_that_moves_the_statistics(runs: list[Any]) -> None:
    net = nn.BatchNorm2d(8).set_train()
    x = IMAGES.asnumpy().astype(np.float64)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), ddof=1)
    wanted = (x - mean[:, None, None]) / np.sqrt(x.var((0, 2, 3)) + 1e-5)[:, None, None]
    for times in (1, 2):
        np.testing.assert_allclose(net(IMAGES).asnumpy(), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(net.moving_mean.asnumpy(), (1 - 0.9**times) * mean, rtol=1e-4, atol=1e-6)
        moved = 0.9**times + (1 - 0.9**times) * variance
        np.testing.assert_allclose(net.moving_variance.asnumpy(), moved, rtol=1e-4)
        assert len(runs) == times


def test_a_parameter_that_is_no_argument_is_read_step_by_step(runs: list[Any]) -> None:
    scale = Parameter(np.full(64, 2, F32), name="scale")

    def scaled(x: Tensor) -> Tensor:
        return ops.selu(x * scale)

    found = grouped.compute_together(scaled, (X,), {})
    assert sessions._operations[scaled, (Tensor, graphls.float32, X.shape)] is grouped.STEP_BY_STEP
    np.testing.assert_allclose(found.asnumpy(), ops.selu(X * 2).asnumpy(), rtol=1e-5)


def test_what_is_drawn_is_drawn_anew(runs: list[Any]) -> None:
    first, second = (ops.scaled_dot_product_attention(X, X, X, dropout_p=0.5).asnumpy() for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("given", ((values(2, 3),), (values(4, 32, 64, dtype=np.float64),), (X.asnumpy(),)))
def test_small_ones_doubles_and_arrays_are_computed_step_by_step(given: Any, runs: list[Any]) -> None:
    ops.gelu(*given)
    assert all(len(ready.inputs) == 1 for ready in runs)
    assert grouped.STEP_BY_STEP not in sessions._operations.values()


def test_a_cell_that_casts_computes_step_by_step() -> None:
    net = nn.LayerNorm((64,)).to_float(graphls.float16)
    assert net(X).dtype is graphls.float16
    assert not sessions._operations


def test_parameters_are_read_when_it_runs_and_results_are_not_in_their_memory(without_numpy: None) -> None:
    net = nn.LayerNorm((64,), beta_init="zeros")
    first = net(X)
    net.gamma.set_data(np.full(64, 2, F32))
    np.testing.assert_allclose(net(X).asnumpy(), 2 * first.asnumpy(), rtol=1e-5)


def test_one_parameter_given_twice_is_computed_step_by_step() -> None:
    both = Parameter(np.ones(64, F32), name="both")
    ops.layer_norm(X, (64,), both, both)
    key = next(iter(sessions._operations), None)
    assert key is None or key[0] is not ops.layer_norm.__wrapped__


def test_constants_are_told_apart_by_class_and_sign(runs: list[Any]) -> None:
    x = Tensor(np.full((64, 64), -1, F32))
    np.testing.assert_allclose(ops.elu(x, 1).asnumpy()[0, 0], np.expm1(-1), rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(ops.elu(x, 0.0).asnumpy()), True)
    np.testing.assert_array_equal(np.signbit(ops.elu(x, -0.0).asnumpy()), False)


def test_errors_are_those_of_the_function() -> None:
    with pytest.raises(graphls.GraphlsError, match="layer_norm over the shape") as caught:
        ops.layer_norm(X, (32,))
    assert "test_together.py" in str(caught.value)


def test_what_a_session_cannot_compute_is_computed_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions.OperationModel, "run", failing)
    np.testing.assert_allclose(ops.selu(Tensor(np.ones((64, 64), F32))).asnumpy(), 1.0507, rtol=1e-4)


def test_indices_out_of_range_are_told_by_the_function_itself(runs: list[Any]) -> None:
    def rows(x: Tensor, indices: Tensor) -> Tensor:
        return ops.selu(ops.gather(x, indices, 0))

    found = grouped.compute_together(rows, (X, Tensor([1, -1])), {})
    np.testing.assert_allclose(found.asnumpy(), ops.selu(X[[1, 3]]).asnumpy(), rtol=1e-6)
    with pytest.raises(graphls.GraphlsError, match="out of range"):
        grouped.compute_together(rows, (X, Tensor([1, 99])), {})


def test_labels_are_looked_at_before_a_loss_runs(runs: list[Any]) -> None:
    scores, labels = values(64, 64), np.arange(64, dtype=np.int32)
    ops.cross_entropy(scores, Tensor(labels))
    assert len(runs) == 1
    with pytest.raises(graphls.GraphlsError, match="label"):
        ops.cross_entropy(scores, Tensor(labels + 1))
    assert len(runs) == 1


def test_labels_that_a_function_makes_are_looked_at_step_by_step(runs: list[Any]) -> None:
    def loss(scores: Tensor, labels: Tensor) -> Tensor:
        return ops.cross_entropy(scores, labels + 1)

    with pytest.raises(graphls.GraphlsError, match="label"):
        grouped.compute_together(loss, (values(64, 64), Tensor(np.arange(64, dtype=np.int32))), {})
    assert sessions._operations[loss, (Tensor, graphls.float32, (64, 64)), (Tensor, graphls.int32, (64,))] is (
        grouped.STEP_BY_STEP
    )


def test_gradients_do_not_go_through_sessions_of_their_own(runs: list[Any]) -> None:
    gradient = graphls.grad(lambda x: ops.gelu(x).sum())(X)
    assert gradient.shape == X.shape
    assert not runs


def test_groups_keep_their_digits_where_the_mean_is_large() -> None:
    x = IMAGES.asnumpy() + F32(1000)
    parts = x.astype(np.float64).reshape(4, 2, -1)
    wanted = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    found = ops.group_norm(Tensor(x), 2, Tensor(np.ones(8, F32)), Tensor(np.zeros(8, F32))).asnumpy()
    np.testing.assert_allclose(found.reshape(4, 2, -1), wanted, atol=1e-3)


def test_sessions_share_their_memory() -> None:
    ops.selu(X)
    (session,) = sessions._sessions.values()
    options = session.get_session_options()
    assert options.get_session_config_entry("session.use_env_allocators") == "1"
    assert options.get_session_config_entry("session.force_spinning_stop") == "1"


def test_a_cell_that_gets_an_optimizer_is_a_graph_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphls.nn.cell_calls import needs_graph

    net = nn.SequentialCell(nn.Dense(2, 2))
    assert not needs_graph(net)
    net.optimizer = nn.SGD(net.trainable_params())
    assert needs_graph(net)
    del net.optimizer
    assert not needs_graph(net)
