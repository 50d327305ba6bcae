"""Recurrent layers and other loops on oneDNN: one segment, with the numbers of ONNX Runtime and of the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphls
import graphls.onnx
from graphls import nn, ops
from graphls.ir import interpret
from graphls.runtime.onednn.kernels.loops import MOST_CALLS
from graphls.runtime.onednn.part import OnednnPart
from tests.onnx.test_recurrent import GATES, losses, modes

RNG = np.random.default_rng(0)
SEQUENCES = RNG.normal(size=(4, 6, 5)).astype(np.float32)
LENGTHS = np.array([6, 1, 4, 5], np.int32)
LABELS = np.array([1, 0, 2, 1], np.int32)
STEPS = 20


class Classes(nn.Cell):
    """Classes of sequences by the last output of a recurrent layer and by its last states."""

    def __init__(self, layer: nn.Cell, width: int, lengths: bool) -> None:
        super().__init__()
        self.layer, self.head, self.lengths = layer, nn.Dense(width, 3), lengths

    def construct(self, x: Any) -> Any:
        outputs, state = self.layer(x, None, graphls.Tensor(LENGTHS)) if self.lengths else self.layer(x)
        last = state[0] if isinstance(state, tuple) else state
        return self.head(outputs[:, -1]) + ops.sum(ops.square(last))


class Ends(nn.Cell):
    """The last cell state of an LSTM, whose outputs nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(5, 8, batch_first=True), nn.Dense(8, 3)

    def construct(self, x: Any) -> Any:
        return self.head(self.layer(x)[1][1][0])


def training(network: nn.Cell, x: Any, engine: str, is_scaled: bool = False) -> graphls.Compiled:
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    update = nn.Momentum(loss.trainable_params(), 0.05, 0.9)
    cell: nn.Cell = nn.TrainOneStepCell(loss, update)
    if is_scaled:
        cell = nn.TrainOneStepWithLossScaleCell(loss, update, nn.DynamicLossScaleUpdateCell(2.0**126, 2, 3))
    return graphls.compile(cell.set_train(), x, LABELS[: len(x)], engine=engine)


def history(step: graphls.Compiled, x: Any) -> np.ndarray[Any, Any]:
    results = [step(x, LABELS[: len(x)]) for _ in range(STEPS)]
    rows = [result if isinstance(result, tuple) else (result,) for result in results]
    return np.array([[float(r.asnumpy()) for r in row] for row in rows])


def kinds(step: graphls.Compiled) -> Counter[str]:
    """How often each kind of call stands in the one program of a step."""
    (part,) = (*step._session.first, *step._session.last)
    assert isinstance(part, OnednnPart)
    return Counter(call.kind for call in part.program.calls)


def layer_of(name: str, settings: dict[str, Any]) -> nn.Cell:
    settings = dict(settings)
    lengths = settings.pop("lengths", False)
    width = 16 if settings.get("bidirectional") else 8
    graphls.set_seed(3)
    return Classes(getattr(nn, name)(5, 8, batch_first=True, **settings), width, lengths)


LAYERS = {
    "plain": {}, "two": {"num_layers": 2}, "both directions": {"num_layers": 2, "bidirectional": True},
    "without biases": {"has_bias": False}, "lengths": {"lengths": True},
}  # fmt: skip


@pytest.mark.parametrize("settings", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_a_training_is_one_segment_with_the_losses_of_onnx_runtime(name: str, settings: dict[str, Any]) -> None:
    step = training(layer_of(name, settings), SEQUENCES, "onednn")
    assert [segment.engine for segment in step.plan.segments] == ["onednn"]
    expected = history(training(layer_of(name, settings), SEQUENCES, "onnxruntime"), SEQUENCES)
    np.testing.assert_allclose(history(step, SEQUENCES), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_overflows_are_those_of_onnx_runtime(name: str) -> None:
    steps = [training(layer_of(name, {}), SEQUENCES, engine, True) for engine in ("onednn", "onnxruntime")]
    losses, expected = (history(step, SEQUENCES) for step in steps)
    assert (losses[:, 1:] == expected[:, 1:]).all() and losses[:, 1].any() and not losses[:, 1].all()
    np.testing.assert_allclose(losses[:, 0], expected[:, 0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "count"), [({}, 1), ({"num_layers": 2, "bidirectional": True}, 4), ({"has_bias": False}, 1)], ids=str
)
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_a_layer_is_one_kernel_in_each_direction(name: str, settings: dict[str, Any], count: int) -> None:
    calls = kinds(training(layer_of(name, settings), SEQUENCES, "onednn"))
    assert calls[name] == calls[f"{name}, gradients"] == count and not calls["matrix product"] - 3


def test_an_evaluation_is_one_kernel() -> None:
    network = layer_of("GRU", {}).set_train(False)
    step = graphls.compile(network, SEQUENCES, engine="onednn")
    assert kinds(step)["GRU"] == 1
    expected = graphls.compile(network, SEQUENCES, engine="onnxruntime")(SEQUENCES)
    np.testing.assert_allclose(step(SEQUENCES).asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(nn.GRU(64, 64), (2, 3, 64)), (nn.RNN(64, 64), (8, 64, 64)), (nn.RNN(4, 4, nonlinearity="relu"), (6, 2, 4))],
    ids=["large weights", "large batch", "ReLU, whose kernel loses nan"],
)
def test_a_layer_is_a_loop_where_its_kernel_is_slower_or_wrong(layer: nn.Cell, shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape).astype(np.float32)
    step = graphls.compile(lambda x: layer(x)[0], x, engine="onednn")
    calls = kinds(step)
    assert calls["matrix product"] and not {"GRU", "RNN"} & {*calls}
    expected, _ = interpret(step.graph, [x], {p.name: p.asnumpy() for p in layer.trainable_params()})
    np.testing.assert_allclose(step(x).asnumpy(), expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["GRU", "RNN"])
def test_a_layer_of_which_the_last_state_alone_is_read_has_the_gradients_of_the_reference(name: str) -> None:
    graphls.set_seed(2)
    layer = getattr(nn, name)(5, 8)
    weights = layer.trainable_params()
    function = graphls.grad(lambda x: ops.sum(ops.sin(layer(x)[1])), 0, weights=graphls.ParameterTuple(weights))
    step = graphls.compile(function, SEQUENCES, engine="onednn")
    assert kinds(step)[f"{name}, gradients"] == 1
    gradient, others = step(SEQUENCES)
    expected, _ = interpret(step.graph, [SEQUENCES], {p.name: p.asnumpy() for p in weights})
    for a, b in zip([gradient, *others], expected, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b, rtol=2e-5, atol=1e-6)


def test_an_lstm_of_which_the_last_cell_state_is_read_has_the_losses_of_onnx_runtime() -> None:
    losses = []
    for engine in ("onednn", "onnxruntime"):
        graphls.set_seed(3)
        losses.append(history(training(Ends(), SEQUENCES, engine), SEQUENCES))
    np.testing.assert_allclose(*losses, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 1, 7, 5), (5, 3, 4, 33), (2, 2, 20, 17)], ids=str)
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_gradients_are_those_of_the_reference(name: str, shape: tuple[int, ...]) -> None:
    length, batch, inputs, hidden = shape
    graphls.set_seed(2)
    layer = getattr(nn, name)(inputs, hidden)
    x = RNG.normal(size=(length, batch, inputs)).astype(np.float32)
    h = RNG.normal(size=(1, batch, hidden)).astype(np.float32)

    def loss(x: Any, h: Any) -> Any:
        outputs, state = layer(x, (h, h * 0.5) if name == "LSTM" else h)
        last = state[1] if name == "LSTM" else state
        return ops.sum(ops.sin(outputs)) + ops.sum(last * h)

    weights = layer.trainable_params()
    function = graphls.grad(loss, (0, 1), weights=graphls.ParameterTuple(weights))
    step = graphls.compile(function, x, h, engine="onednn")
    assert [segment.engine for segment in step.plan.segments] == ["onednn"]
    results = step(x, h)
    states = {p.name: p.asnumpy() for p in weights}
    expected, _ = interpret(step.graph, [x, h], states)
    found = [*results[0], *results[1]]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", ["input", "weight", "recurrent weight", "bias"])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_and_infinities_spread_as_in_onnx_runtime(name: str, place: str, number: float) -> None:
    x = SEQUENCES.copy()
    results = []
    for engine in ("onednn", "onnxruntime"):
        graphls.set_seed(2)
        layer = getattr(nn, name)(5, 8, batch_first=True)
        lists = {"weight": layer.w_ih_list, "recurrent weight": layer.w_hh_list, "bias": layer.b_hh_list}
        if place == "input":
            x[1, 2, 3] = number
        else:
            parameter = lists[place][0]
            array = parameter.asnumpy().copy()
            array.flat[7] = number
            parameter.set_data(graphls.Tensor(array))
        weights = graphls.ParameterTuple(layer.trainable_params())
        function = graphls.value_and_grad(lambda x, layer=layer: ops.sum(layer(x)[0]), 0, weights=weights)
        value, (gradient, others) = graphls.compile(function, x, engine=engine)(x)
        results.append([value.asnumpy(), gradient.asnumpy(), *(g.asnumpy() for g in others)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_long", [False, True], ids=["of one length", "of several lengths"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("operator", "gates", "options"),
    [("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1}), ("GRU", 3, {"linear_before_reset": 0}), ("RNN", 1, {})],
    ids=["LSTM", "GRU", "GRU, reset first", "RNN"],
)
def test_a_recurrent_operator_of_onnx_is_one_segment(
    operator: str, gates: int, options: dict[str, Any], direction: str, is_long: bool, tmp_path: Path
) -> None:
    directions, hidden = 2 if direction == "bidirectional" else 1, 8
    shapes = {"w": (gates * hidden, 5), "r": (gates * hidden, hidden), "b": (2 * gates * hidden,)}
    weights = {name: RNG.normal(0, 0.4, (directions, *shape)).astype(np.float32) for name, shape in shapes.items()}
    if is_long:
        weights["lengths"] = LENGTHS
    x = SEQUENCES.transpose(1, 0, 2).copy()
    node = helper.make_node(operator, ["x", *weights], ["y"], hidden_size=hidden, direction=direction, **options)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", x.shape), ("y", (len(x), directions, x.shape[1], hidden)))
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph([node], "layer", ends[:1], ends[1:], constants)
    file = tmp_path / "layer.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    results = []
    for engine in ("onednn", "onnxruntime"):
        cell = graphls.onnx.load(file)
        learned = graphls.ParameterTuple(cell.trainable_params())
        function = graphls.value_and_grad(lambda x, cell=cell: ops.sum(ops.sin(cell(x))), 0, weights=learned)
        step = graphls.compile(function, x, engine=engine)
        assert {segment.engine for segment in step.plan.segments} == {engine}
        if engine == "onednn" and not is_long and options.get("linear_before_reset", 1):
            assert kinds(step)[operator] == kinds(step)[f"{operator}, gradients"] == directions
        value, (gradient, others) = step(x)
        results.append([value.asnumpy(), gradient.asnumpy(), *(g.asnumpy() for g in others)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


MATRIX = RNG.normal(size=(3, 3)).astype(np.float32) * 0.5
ROWS = RNG.normal(size=(5, 3, 3)).astype(np.float32)


def swapped(x: Any, rows: Any) -> Any:
    return ops.scan(lambda c, a: ((c[1], ops.tanh(c[0]) + a), c[0]), (x, x * 2.0), rows)


def unchanged(x: Any, rows: Any) -> Any:
    return ops.scan(lambda c, a: ((c[0], c[1] + c[0]), (a, x, c[1], a * c[0])), (x, x), rows)


def twice(x: Any, rows: Any) -> Any:
    def step(c: Any, a: Any) -> Any:
        y = ops.matmul(c[0], x) + a - c[1]
        return (y, y), (y, y, c[0], ops.sum(y))

    return ops.scan(step, (x, x * 2.0), rows)


def backwards(x: Any, rows: Any) -> Any:
    return ops.scan(lambda c, a: (ops.matmul(x, c) + a, (c, c + a)), x, rows, reverse=True)


def nested(x: Any, rows: Any) -> Any:
    def outer(c: Any, a: Any) -> Any:
        return ops.scan(lambda d, b: (ops.tanh(d) * b + c, d), a, ops.matmul(a, x))

    return ops.scan(outer, x, rows)


def counted(x: Any, rows: Any) -> Any:
    def step(c: Any, a: Any) -> Any:
        number, y = c
        later = ops.where(number > 2, ops.matmul(y, x), a)
        return (number + 1, later), (number, number * 2, later > 0)

    return ops.scan(step, (graphls.Tensor(np.zeros((2,), np.int32))[0], x), rows)


def shaped(x: Any, rows: Any) -> Any:
    def step(c: Any, a: Any) -> Any:
        y = ops.reshape(ops.transpose(c, (1, 0)), (9,)) + ops.reshape(a, (9,))
        return ops.reshape(y, (3, 3)), (ops.transpose(a, (1, 0)), y[2:5])

    return ops.scan(step, x, rows)


LOOPS: tuple[Callable[..., Any], ...] = (swapped, unchanged, twice, backwards, nested, counted, shaped)


@pytest.mark.parametrize("network", LOOPS)
def test_a_loop_gives_what_the_reference_gives(network: Callable[..., Any]) -> None:
    step = graphls.compile(network, MATRIX, ROWS, engine="onednn")
    assert [segment.engine for segment in step.plan.segments] == ["onednn"]
    results = [r.asnumpy() for r in flat(step(MATRIX, ROWS))]
    expected, _ = interpret(step.graph, [MATRIX, ROWS])
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("network", [n for n in LOOPS if n is not counted])
def test_the_gradient_of_a_loop_is_that_of_the_reference(network: Callable[..., Any]) -> None:
    def loss(x: Any, rows: Any) -> Any:
        return sum(ops.sum(ops.sin(r)) for r in flat(network(x, rows)))

    step = graphls.compile(graphls.grad(loss, (0, 1)), MATRIX, ROWS, engine="onednn")
    assert [segment.engine for segment in step.plan.segments] == ["onednn"]
    expected, _ = interpret(step.graph, [MATRIX, ROWS])
    for a, b in zip(step(MATRIX, ROWS), expected, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b, rtol=1e-4, atol=1e-5)


def flat(results: Any) -> list[Any]:
    return [leaf for each in results for leaf in flat(each)] if isinstance(results, tuple) else [results]


def test_a_loop_with_more_calls_than_are_prepared_is_for_another_engine() -> None:
    def sums(x: Any) -> Any:
        return ops.scan(lambda c, a: (c * x + a, None), x, ops.ones((MOST_CALLS, 3), graphls.float32))[0]

    x = np.zeros(3, np.float32)
    assert "onednn" not in {segment.engine for segment in graphls.compile(sums, x, engine="onednn").plan.segments[1:]}


def test_what_is_the_same_in_all_iterations_is_brought_into_a_layout_once() -> None:
    def products(x: Any, w: Any, rows: Any) -> Any:
        return ops.scan(lambda c, a: (ops.tanh(ops.matmul(c, ops.transpose(w, (1, 0)))) + a, None), x, rows)[0]

    w = RNG.normal(size=(64, 64)).astype(np.float32) * 0.1
    x, rows = w[:8], RNG.normal(size=(10, 8, 64)).astype(np.float32)
    step = graphls.compile(products, x, w, rows, engine="onednn")
    calls = kinds(step)
    assert calls["matrix product"] == 10 and calls["reorder"] <= 4
    expected, _ = interpret(step.graph, [x, w, rows])
    np.testing.assert_allclose(step(x, w, rows).asnumpy(), expected[0], rtol=1e-4, atol=1e-5)


def test_a_choice_by_a_flag_of_a_loop_has_a_gradient() -> None:
    def loss(x: Any, rows: Any) -> Any:
        (c, flag), _ = ops.scan(lambda c, a: ((c[0] * a, c[0] > a), c[0]), (x, x > 0.0), rows)
        return ops.sum(ops.where(flag, ops.tanh(x), 0.0) + c)

    step = graphls.compile(graphls.grad(loss), MATRIX, ROWS, engine="onednn")
    expected = graphls.compile(graphls.grad(loss), MATRIX, ROWS, engine="onnxruntime")(MATRIX, ROWS)
    np.testing.assert_allclose(step(MATRIX, ROWS).asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", GATES)
def test_layers_of_onnx_models_train_as_on_the_runtime_in_any_mode(kind: str) -> None:
    for case in modes(kind, 3, 8):
        found, expected = losses(case, "onednn"), losses(case, "onnxruntime")
        assert expected[-1] < expected[0], case.attributes
        np.testing.assert_allclose(found, expected, rtol=1e-4, err_msg=str(case.attributes))
