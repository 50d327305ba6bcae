"""Recurrent, attention and transformer cells against numbers that PyTorch 2 computed once, in float64.

`sequence_torch.json` holds, for each case, the outputs, the gradients by the inputs, and for each weight the sum of its
gradient times a wave. The loss is the sum of the outputs times waves; weights and inputs are waves, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.frontend.tensors.pytree import leaves

EXPECTED = json.loads((Path(__file__).parent / "sequence_torch.json").read_text())
BACKENDS = ["numpy", "onnxruntime"]
F32 = np.float32
T, N, SIZE, H = 4, 3, 2, 3
L, S, E, HEADS = 3, 4, 4, 2


def wave(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> Any:
    i = np.arange(int(np.prod(shape)))
    return (scale * np.sin(seed * 1.7 + i * 0.61 + 0.013 * i**2)).reshape(shape)


def torch_name(name: str) -> str:
    return name.replace("gamma", "weight").replace("beta", "bias").replace("dense", "linear")


def filled(cell: Any) -> Any:
    for name, parameter in cell.parameters_and_names():
        seed = 1 + sum(map(ord, torch_name(name))) % 50
        parameter.set_data(wave(parameter.shape, seed, 0.5).astype(F32))
    return cell


class Loss(nn.Cell):
    """The outputs of a cell and the sum of them times waves."""

    def __init__(self, cell: Any, options: dict[str, Any]) -> None:
        super().__init__(auto_prefix=False)
        self.cell, self.options = cell, options

    def construct(self, *inputs: Any) -> Any:
        outputs = [leaf for leaf in flat(self.cell(*inputs, **self.options)) if leaf is not None]
        waves = [wave(o.shape, 7 + i).astype(F32) for i, o in enumerate(outputs)]
        return sum((ops.sum(o * w) for o, w in zip(outputs, waves, strict=True)), ops.zeros(())), outputs


def flat(outputs: Any) -> list[Any]:
    return [leaf for o in outputs for leaf in flat(o)] if isinstance(outputs, (tuple, list)) else [outputs]


def check(case: str, backend: str, cell: Any, inputs: list[Any], **options: Any) -> None:
    expected = EXPECTED[case]
    cell = filled(cell)
    inputs = [i.astype(F32) if isinstance(i, np.ndarray) else i for i in inputs]
    weights = cell.trainable_params()
    given = [n for n, g in enumerate(expected["inputs"]) if g is not None]
    loss = Loss(cell, options)
    take = ops.value_and_grad(loss, tuple(given), weights, has_aux=True)
    step = graphls.compile(lambda *arrays: take(*arrays), *inputs, backend=backend)
    (_, outputs), (by_input, by_weight) = step(*inputs)
    for found, wanted in zip(outputs, expected["outputs"], strict=True):
        np.testing.assert_allclose(found.asnumpy().ravel(), wanted, rtol=2e-5, atol=2e-6)
    for n, gradient in zip(given, leaves(by_input), strict=True):
        np.testing.assert_allclose(gradient.asnumpy().ravel(), expected["inputs"][n], rtol=1e-4, atol=1e-5)
    names = {id(p): torch_name(name) for name, p in cell.parameters_and_names()}
    pairs = zip(weights, by_weight, strict=True)
    sums = {names[id(p)]: np.sum(g.asnumpy() * wave(p.shape, 3)) for p, g in pairs}
    assert sums.keys() == expected["weights"].keys()
    for name, wanted in expected["weights"].items():
        assert sums[name] == pytest.approx(wanted, rel=2e-4, abs=2e-5), name


X = wave((T, N, SIZE), 2)
H0, C0 = wave((4, N, H), 5), wave((4, N, H), 6)
LAYERS = {
    "RNN": (nn.RNN, {}),
    "RNN_relu": (nn.RNN, {"nonlinearity": "relu"}),
    "LSTM": (nn.LSTM, {}),
    "GRU": (nn.GRU, {}),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", LAYERS)
def test_recurrent_layers(kind: str, backend: str) -> None:
    make, options = LAYERS[kind]
    check(kind, backend, make(SIZE, H, **options), [X])
    check(f"{kind}_nobias", backend, make(SIZE, H, has_bias=False, **options), [X])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", LAYERS)
def test_deep_bidirectional_layers_with_a_state(kind: str, backend: str) -> None:
    make, options = LAYERS[kind]
    layer = filled(make(SIZE, H, 2, batch_first=True, bidirectional=True, **options))
    h, c = graphls.Tensor(H0.astype(F32)), graphls.Tensor(C0.astype(F32))
    state = (h, c) if kind == "LSTM" else h
    check(f"{kind}_deep", backend, layer, [X.transpose(1, 0, 2)], hx=state)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", LAYERS)
def test_sequences_of_different_lengths(kind: str, backend: str) -> None:
    make, options = LAYERS[kind]
    layer = make(SIZE, H, 2, bidirectional=True, **options)
    check(f"{kind}_lengths", backend, layer, [X], seq_length=graphls.Tensor(np.array([2, 4, 1], np.int32)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [nn.RNNCell, nn.LSTMCell, nn.GRUCell])
def test_recurrent_cells(make: Any, backend: str) -> None:
    kind = make.__name__
    h, c = (graphls.Tensor(wave((N, H), seed).astype(F32)) for seed in (5, 6))
    check(kind, backend, make(SIZE, H), [X[0]], hx=(h, c) if kind == "LSTMCell" else h)


Q, K, V = wave((L, 2, E), 1), wave((S, 2, E), 2), wave((S, 2, E), 3)
HIDDEN = np.array([[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]], bool)
PADDING = np.array([[0, 0, 1, 0], [0, 0, 0, 1]], bool)
ADDED = wave((2 * HEADS, L, S), 4).astype(F32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_attention(backend: str) -> None:
    check("mha", backend, nn.MultiheadAttention(E, HEADS), [Q, K, V])


@pytest.mark.parametrize("backend", BACKENDS)
def test_attention_with_masks(backend: str) -> None:
    masks = {"attn_mask": HIDDEN, "key_padding_mask": PADDING}
    check("mha_bool", backend, nn.MultiheadAttention(E, HEADS), [Q, K, V], **masks)
    options = {"attn_mask": ADDED, "average_attn_weights": False}
    check("mha_float", backend, nn.MultiheadAttention(E, HEADS), [Q, K, V], **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_attention_to_learned_keys_and_to_zeros(backend: str) -> None:
    cell = nn.MultiheadAttention(E, HEADS, add_bias_kv=True, add_zero_attn=True)
    check("mha_more", backend, cell, [Q, K, V], attn_mask=HIDDEN)


@pytest.mark.parametrize("backend", BACKENDS)
def test_attention_to_keys_and_values_of_other_sizes(backend: str) -> None:
    cell = nn.MultiheadAttention(E, HEADS, has_bias=False, kdim=3, vdim=5)
    check("mha_sizes", backend, cell, [Q, wave((S, 2, 3), 2), wave((S, 2, 5), 3)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_attention_without_a_batch(backend: str) -> None:
    masks = {"attn_mask": HIDDEN, "key_padding_mask": PADDING[0]}
    check("mha_unbatched", backend, nn.MultiheadAttention(E, HEADS), [Q[:, 0], K[:, 0], V[:, 0]], **masks)


class SelfAttention(nn.Cell):
    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.attention = nn.MultiheadAttention(E, HEADS, batch_first=True)

    def parameters_and_names(self, name_prefix: str = "", expand: bool = True) -> Any:
        return self.attention.parameters_and_names(name_prefix, expand)

    def construct(self, x: Any) -> Any:
        return self.attention(x, x, x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_self_attention(backend: str) -> None:
    check("mha_self", backend, SelfAttention(), [Q])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_layers(norm_first: bool, backend: str) -> None:
    encoder = nn.TransformerEncoderLayer(E, HEADS, 6, 0.0, norm_first=norm_first)
    masks = {"src_mask": HIDDEN[:, :3], "src_key_padding_mask": PADDING[:, :3]}
    check(f"encoder_layer_{norm_first}", backend, encoder, [Q], **masks)
    decoder = nn.TransformerDecoderLayer(E, HEADS, 6, 0.0, "gelu", batch_first=True, norm_first=norm_first)
    masks = {"tgt_mask": HIDDEN[:, :3], "memory_key_padding_mask": PADDING, "memory_mask": HIDDEN}
    check(f"decoder_layer_{norm_first}", backend, decoder, [wave((2, L, E), 1), wave((2, S, E), 2)], **masks)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_transformer(backend: str) -> None:
    ahead = np.triu(np.ones((L, L), bool), 1)
    masks = {"tgt_mask": ahead, "src_key_padding_mask": PADDING, "memory_key_padding_mask": PADDING}
    check("transformer", backend, nn.Transformer(E, HEADS, 2, 2, 6, 0.0), [K, Q], **masks)
