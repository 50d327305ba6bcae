"""Recurrent, attention and transformer cells: names, float16, dropout, copies, recomputing, loops and wrong uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops
from graphls.ir.errors import GraphlsError
from graphls.ir.graph import walk

BACKENDS = ["numpy", "onnxruntime"]
F32 = np.float32
GENERATOR = np.random.default_rng(2)
X = GENERATOR.normal(size=(6, 3, 4)).astype(F32)
STATE = np.zeros((1, 3, 5), F32)


def names(cell: Any) -> list[str]:
    return [p.name for p in cell.get_parameters()]


def test_parameters_have_mindspores_names() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(4, 5, 2, bidirectional=True)
            self.cell = nn.LSTMCell(4, 5, has_bias=False)

    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    expected = [f"gru.{k}_l{n}{end}" for k in kinds for n in (0, 1) for end in ("", "_reverse")]
    assert names(Net()) == [*expected, "cell.weight_ih", "cell.weight_hh"]
    shapes = {p.name: p.shape for p in Net().get_parameters()}
    assert shapes["gru.weight_ih_l0_reverse"] == (15, 4) and shapes["gru.weight_ih_l1"] == (15, 10)
    assert shapes["gru.bias_hh_l1"] == (15,) and shapes["cell.weight_hh"] == (20, 5)
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    encoder = nn.TransformerEncoder(layer, 2)
    first, second = (names(layer) for layer in encoder.layers)
    assert first[0] == "layers.0.self_attn.in_proj_weight" and second[-1] == "layers.1.norm2.beta"
    assert len(set(names(encoder))) == len(names(encoder)) == 24
    own = ["q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias", "bias_k", "bias_v"]
    attention = nn.MultiheadAttention(4, 2, kdim=3, add_bias_kv=True)
    assert names(attention) == [*own, "out_proj.weight", "out_proj.bias"]


def test_weights_begin_within_their_bound() -> None:
    lstm = nn.LSTM(4, 25)
    arrays = [p.asnumpy() for p in lstm.get_parameters()]
    assert all(0.15 < np.abs(a).max() <= 0.2 for a in arrays)
    assert not nn.MultiheadAttention(8, 2).in_proj_bias.asnumpy().any()


def test_layers_of_a_stack_begin_alike_and_learn_apart() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2)
    first, second = (layer.dense1.weight for layer in encoder.layers)
    np.testing.assert_array_equal(first.asnumpy(), second.asnumpy())
    step = nn.TrainOneStepCell(nn.WithLossCell(encoder, nn.MSELoss()), nn.SGD(encoder.trainable_params(), 0.5))
    step(X, X * 2)
    assert np.abs(first.asnumpy() - second.asnumpy()).max() > 1e-4


CELLS: dict[str, Any] = {
    "RNN": lambda: nn.RNN(4, 5, 2, bidirectional=True),
    "LSTM": lambda: nn.LSTM(4, 5, 2, bidirectional=True),
    "GRU": lambda: nn.GRU(4, 5, 2, batch_first=True),
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2, nn.LayerNorm((4,))),
    "LayerNorm": lambda: nn.LayerNorm((3, 4), 1, 1),
}


def first(outputs: Any) -> Any:
    return outputs[0] if isinstance(outputs, tuple) else outputs


@pytest.mark.parametrize("name", CELLS)
def test_float16(name: str) -> None:
    """Both backends round alike, and the numbers are those of float32 as far as float16 goes."""
    cell = CELLS[name]()
    wanted = first(graphls.compile(cell, X)(X)).asnumpy()
    cell.to_float(graphls.float16)
    found = []
    for backend in BACKENDS:
        result = first(graphls.compile(cell, X, backend=backend)(X))
        assert result.dtype is graphls.float16
        found.append(result.asnumpy().astype(F32))
    np.testing.assert_allclose(found[0], wanted, rtol=2e-2, atol=5e-3)
    np.testing.assert_allclose(*found, rtol=4e-3, atol=2e-3)


@pytest.mark.parametrize("level", ["O1", "O2", "O3", "auto"])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
def test_levels_of_mixed_precision(make: Any, has_bias: bool, level: str) -> None:
    cell = make(4, 5, 2, has_bias=has_bias)
    wanted = graphls.compile(cell, X, backend="numpy")(X)[0].asnumpy()
    cell = amp.auto_mixed_precision(cell, level)
    step = graphls.compile(cell, X, backend="numpy")
    assert any(v.type.dtype is graphls.float16 for n in walk(step.graph) for v in n.outputs)
    np.testing.assert_allclose(step(X)[0].asnumpy().astype(F32), wanted, rtol=2e-2, atol=5e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_in_16_bits_is_rounded_once(backend: str) -> None:
    """What a cell makes of its two products, which are rounded, it computes in float32."""

    def low(x: Any) -> Any:
        return x.astype(np.float16).astype(F32)

    graphls.set_seed(4)
    cell = nn.LSTMCell(4, 5, has_bias=False).to_float(graphls.float16)
    x, h, c = low(X[0]), *low(GENERATOR.normal(size=(2, 3, 5)))
    total = low(x @ low(cell.weight_ih.asnumpy()).T) + low(h @ low(cell.weight_hh.asnumpy()).T)
    i, f, g, o = np.split(total, 4, axis=1)
    i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
    after = f * c + i * np.tanh(g)
    found = graphls.compile(lambda x, h, c: cell(x, (h, c)), x, h, c, backend=backend)(x, h, c)
    for result, wanted in zip(found, (o * np.tanh(after), after), strict=True):
        np.testing.assert_array_equal(result.asnumpy(), wanted.astype(np.float16))


def test_sequences_of_any_length_make_graphs_of_one_size() -> None:
    def size(length: int) -> int:
        lstm = nn.LSTM(4, 5)
        x = np.zeros((length, 2, 4), F32)
        gradient = ops.value_and_grad(lambda x: ops.sum(lstm(x)[0]), 0, lstm.trainable_params())
        return len(list(walk(graphls.compile(lambda x: gradient(x), x, backend="numpy").graph)))

    assert size(3) == size(50) < 80


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_acts_between_layers_in_training_only(backend: str) -> None:
    graphls.set_seed(1)
    lstm = nn.LSTM(4, 40, 2, dropout=0.5)
    plain = graphls.compile(lstm, X, backend=backend)(X)[0].asnumpy()
    lstm.set_train()
    step = graphls.compile(lstm, X, backend=backend)
    first, second = (step(X)[0].asnumpy() for _ in range(2))
    assert np.abs(first - plain).max() > 1e-3 and np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(graphls.compile(lstm.set_train(False), X, backend=backend)(X)[0].asnumpy(), plain)
    with pytest.warns(UserWarning, match="The dropout of GRU acts between layers, and there is one layer only"):
        nn.GRU(4, 5, dropout=0.5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_recomputed_layer_has_the_same_gradients(backend: str) -> None:
    graphls.set_seed(1)
    lstm = nn.LSTM(4, 5, 2)
    found = []
    for again in (False, True):
        lstm.recompute(again)
        gradient = ops.value_and_grad(lambda x: ops.sum(lstm(x)[0] * lstm(x)[0]), 0, lstm.trainable_params())
        value, (by_input, by_weight) = graphls.compile(lambda x, g=gradient: g(x), X, backend=backend)(X)
        found.append([value, by_input, *by_weight])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cells_in_a_loop_are_a_layer(backend: str) -> None:
    layer, cell = nn.LSTM(4, 5), nn.LSTMCell(4, 5)
    for mine, theirs in zip(cell.get_parameters(), layer.get_parameters(), strict=True):
        mine.set_data(theirs.data)

    def looped(x: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            state = cell(row, state)
            return state, state[0]

        return ops.scan(step, (ops.zeros((3, 5)), ops.zeros((3, 5))), x)[1]

    found = graphls.compile(looped, X, backend=backend)(X)
    np.testing.assert_allclose(found.asnumpy(), layer(X)[0].asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_layer_norm_is_the_formula(backend: str) -> None:
    for shape, axis, params in (((4,), -1, -1), ((3, 4), 1, 1), ((4,), 1, -1), ((6, 3, 4), 0, 0)):
        norm = nn.LayerNorm(shape, axis, params, epsilon=1e-3)
        gamma, beta = (GENERATOR.normal(size=shape).astype(F32) for _ in range(2))
        norm.gamma.set_data(gamma)
        norm.beta.set_data(beta)
        axes = tuple(range(axis % 3, 3))
        x = X.astype(np.float64)
        centred = x - x.mean(axes, keepdims=True)
        wanted = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-3) * gamma + beta
        np.testing.assert_allclose(graphls.compile(norm, X, backend=backend)(X).asnumpy(), wanted, rtol=1e-4, atol=1e-5)


def test_layer_norm_computes_wide() -> None:
    """Squares beyond float16, and differences that float16 would lose, count."""
    x = (np.arange(8, dtype=np.float16) * 64 + np.float16(2048))[None]
    found = nn.LayerNorm((8,))(x)
    wide = x.astype(np.float64) - x.astype(np.float64).mean()
    assert found.dtype is graphls.float16
    np.testing.assert_allclose(found.asnumpy(), wide / wide.std(), rtol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("use_one_hot", [False, True])
def test_embedding_picks_rows_and_trains_them(backend: str, use_one_hot: bool) -> None:
    cell = nn.Embedding(7, 3, use_one_hot, "ones", padding_idx=2)
    table = np.ones((7, 3), F32)
    table[2] = 0
    np.testing.assert_array_equal(cell.embedding_table.asnumpy(), table)
    assert names(cell) == ["embedding_table"]
    ids = np.array([[1, 2, 1], [6, 0, 1]], np.int32)
    weights = GENERATOR.normal(size=(2, 3, 3)).astype(F32)
    take = ops.value_and_grad(lambda i, w: ops.sum(cell(i) * w), None, cell.trainable_params())
    value, (gradient,) = graphls.compile(lambda i, w: take(i, w), ids, weights, backend=backend)(ids, weights)
    np.testing.assert_allclose(value.asnumpy(), (table[ids] * weights).sum(), rtol=1e-5)
    expected = np.zeros((7, 3), F32)
    np.add.at(expected, ids, weights)
    np.testing.assert_allclose(gradient.asnumpy(), expected, rtol=1e-5, atol=1e-6)


WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: nn.LSTM(0, 5), ValueError, "For 'LSTM', the 'input_size' must be int and must > 0"),
    (lambda: nn.GRU(4, 5, dropout=1.0), ValueError, r"For 'GRU', the 'dropout' must be in \[0, 1\)"),
    (lambda: nn.RNN(4, 5, bidirectional=1), TypeError, "For 'RNN', the 'bidirectional' must be bool"),
    (lambda: nn.RNN(4, 5, nonlinearity="gelu"), ValueError, "'nonlinearity' must be 'tanh' or 'relu', but got 'gelu'"),
    (lambda: nn.RNNCell(4, 5, nonlinearity=None), ValueError, "For 'RNNCell', the 'nonlinearity' must be"),
    (lambda: nn.LSTM(4, 5)(X[0]), ValueError, r"LSTM takes an input of rank 3 with 4 features, not f32\[3,4\]\."),
    (lambda: nn.LSTM(4, 5)(X.astype(np.int32)), TypeError, r"LSTM takes floats, not i32"),
    (lambda: nn.LSTM(4, 5)(X, STATE), TypeError, "The state of LSTM is a tuple of two tensors"),
    (lambda: nn.GRU(4, 5)(X, (STATE, STATE)), TypeError, "The state of GRU is one tensor, not tuple"),
    (lambda: nn.GRU(4, 5, 2)(X, STATE), ValueError, r"A state of GRU has shape \(2, 3, 5\) here, not \(1, 3, 5\)"),
    (lambda: nn.GRU(4, 5)(X, seq_length=np.ones(3, F32)), TypeError, "The seq_length of GRU holds integers, not f32"),
    (lambda: nn.GRU(4, 5)(X, seq_length=np.ones(2, np.int32)), ValueError, "has a length for each of 3 sequences, not"),
    (lambda: nn.GRUCell(4, 5)(X, X), ValueError, "GRUCell takes an input of rank 2 with 4 features"),
    (lambda: nn.MultiheadAttention(5, 2), ValueError, "the 'embed_dim' 5 must be divisible by the 'num_heads' 2"),
    (lambda: nn.MultiheadAttention(4, 2)(X, X, X[:5]), ValueError, "takes a value for each key, and one batch for all"),
    (lambda: nn.MultiheadAttention(4, 2)(X, X[0], X[0]), ValueError, "The key of MultiheadAttention has rank 2 or 3"),
    (lambda: nn.MultiheadAttention(4, 2)(X > 0, X, X), TypeError, "The query of MultiheadAttention holds floats, not"),
    (
        lambda: nn.MultiheadAttention(4, 2)(X, X, X, attn_mask=np.ones((6, 5), bool)),
        ValueError,
        r"The attn_mask has shape \(6, 6\) or \(6, 6, 6\) here, not \(6, 5\)\.",
    ),
    (
        lambda: nn.MultiheadAttention(4, 2)(X, X, X, key_padding_mask=np.ones((3, 6), np.int32)),
        TypeError,
        "The key_padding_mask holds bools, or floats that are added, not i32",
    ),
    (lambda: nn.TransformerEncoderLayer(4, 2, activation="rely"), KeyError, "There is no activation 'rely'; did you"),
    (lambda: nn.TransformerEncoderLayer(4, 2, activation=None), TypeError, "The activation of a transformer layer is"),
    (lambda: nn.TransformerEncoder("layer", 2), TypeError, "The encoder_layer is a cell, not 'layer'"),
    (lambda: nn.TransformerDecoder(nn.Dense(2, 2), 0), ValueError, "the 'num_layers' must be int and must > 0"),
    (lambda: nn.Transformer(4, 2, 1, 1, 8)(X, X[:, :2]), ValueError, "takes src and tgt of one rank and one batch"),
    (lambda: nn.Embedding(4, 2)(X), TypeError, "Embedding takes integers, not f32"),
    (lambda: nn.Embedding(4, 2, padding_idx=4), ValueError, r"the 'padding_idx' must be in \[0, 4\), but got 4"),
    (lambda: nn.Embedding(4, 2, padding_idx=1.0), TypeError, "the 'padding_idx' must be int, but got 1.0"),
    (lambda: nn.LayerNorm(4), TypeError, "the 'normalized_shape' must be tuple or list, but got 4"),
    (lambda: nn.LayerNorm(()), ValueError, "the 'normalized_shape' must have an axis"),
    (lambda: nn.LayerNorm((3,))(X), ValueError, r"LayerNorm of shape \(3,\) from axis -1 on does not fit f32\[6,3,4\]"),
]


@pytest.mark.parametrize(("use", "kind", "text"), WRONG, ids=range(len(WRONG)))
def test_wrong_uses(use: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        use()
    assert isinstance(caught.value, GraphlsError)
    assert "tests/nn/test_sequence_cells.py:" in str(caught.value)
