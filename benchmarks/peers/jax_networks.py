"""The networks as functions of JAX.

Each takes `weights`, a function from the name that graphls gives a parameter and its shape to the parameter, the inputs
and sizes, and returns scores.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax import Array, lax
from jax import numpy as jnp

Weights = Callable[[str, tuple[int, ...]], Array]


def dense(weights: Weights, name: str, x: Array, outputs: int, bias: bool = True) -> Array:
    """x @ weight.T + bias."""
    y = x @ weights(f"{name}.weight", (outputs, x.shape[-1])).T
    return y + weights(f"{name}.bias", (outputs,)) if bias else y


def normal(x: Array, axes: int | tuple[int, ...], gamma: Array, beta: Array) -> Array:
    """Normalisation over some axes, in the dtype of gamma; the result has that of x."""
    wide = x.astype(gamma.dtype)
    scaled = (wide - wide.mean(axes, keepdims=True)) * lax.rsqrt(wide.var(axes, keepdims=True) + 1e-5)
    return (scaled * gamma + beta).astype(x.dtype)


def layer_norm(weights: Weights, name: str, x: Array) -> Array:
    """Normalisation over the last axis."""
    gamma, beta = (weights(f"{name}.{part}", x.shape[-1:]) for part in ("gamma", "beta"))
    return normal(x, -1, gamma, beta)


def batch_norm(weights: Weights, name: str, x: Array) -> Array:
    """Normalisation over all axes but that of channels, by the batch; JAX keeps no moving averages here."""
    gamma, beta = (weights(f"{name}.{part}", (x.shape[1],))[:, None, None] for part in ("gamma", "beta"))
    return normal(x, (0, 2, 3), gamma, beta)


def conv(
    weights: Weights, name: str, x: Array, outputs: int, kernel: int, stride: int, padding: int, groups: int = 1
) -> Array:
    """A convolution of images (N, C, H, W) without bias."""
    weight = weights(f"{name}.weight", (outputs, x.shape[1] // groups, kernel, kernel))
    pads = [(padding, padding)] * 2
    return lax.conv_general_dilated(x, weight, (stride, stride), pads, feature_group_count=groups)


def transposed_conv(weights: Weights, name: str, x: Array, outputs: int, stride: int) -> Array:
    """A transposed convolution, whose windows are as large as its stride, with bias."""
    weight = weights(f"{name}.weight", (x.shape[1], outputs, stride, stride))
    numbers = "NCHW", "OIHW", "NCHW"
    y = lax.conv_transpose(x, weight, (stride, stride), "VALID", dimension_numbers=numbers, transpose_kernel=True)
    return y + weights(f"{name}.bias", (outputs,))[:, None, None]


def max_pool(x: Array, kernel: int, stride: int, padding: int = 0) -> Array:
    """The largest of each window."""
    pads = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, kernel, kernel), (1, 1, stride, stride), pads)


def mlp(weights: Weights, x: Array, inputs: int, hidden: int, classes: int) -> Array:
    """Three dense layers."""
    x = jax.nn.relu(dense(weights, "0", x, hidden))
    x = jax.nn.relu(dense(weights, "2", x, hidden))
    return dense(weights, "4", x, classes)


def lenet(weights: Weights, x: Array, classes: int) -> Array:
    """Two convolutions with pooling and three dense layers."""
    for name, outputs in (("0", 6), ("3", 16)):
        bias = weights(f"{name}.bias", (outputs,))[:, None, None]
        x = max_pool(jax.nn.relu(conv(weights, name, x, outputs, 5, 1, 0) + bias), 2, 2)
    x = x.reshape(x.shape[0], -1)
    x = jax.nn.relu(dense(weights, "7", x, 120))
    x = jax.nn.relu(dense(weights, "9", x, 84))
    return dense(weights, "11", x, classes)


def convolution(weights: Weights, name: str, x: Array, outputs: int, kernel: int, stride: int = 1) -> Array:
    """A convolution and the normalisation behind it."""
    return batch_norm(weights, f"{name}.1", conv(weights, f"{name}.0", x, outputs, kernel, stride, kernel // 2))


def block(weights: Weights, name: str, x: Array, layers: list[tuple[int, int, int]], stride: int) -> Array:
    """A residual block of convolutions, each of (outputs, kernel, stride): relu(body(x) + shortcut(x))."""
    y = x
    for index, layer in enumerate(layers):
        y = convolution(weights, f"{name}.body.{2 * index}", jax.nn.relu(y) if index else y, *layer)
    if stride != 1 or x.shape[1] != y.shape[1]:
        x = convolution(weights, f"{name}.shortcut", x, y.shape[1], 1, stride)
    return jax.nn.relu(y + x)


def resnet18(weights: Weights, x: Array, width: int, classes: int) -> Array:
    """18 layers with weights for small images."""
    x = jax.nn.relu(convolution(weights, "0", x, width, 3))
    for index in range(8):
        outputs, stride = width * 2 ** (index // 2), 2 if index and index % 2 == 0 else 1
        x = block(weights, str(index + 2), x, [(outputs, 3, stride), (outputs, 3, 1)], stride)
    return dense(weights, "12", x.mean((2, 3)), classes)


def resnet50(weights: Weights, x: Array, width: int, classes: int) -> Array:
    """50 layers with weights, for large images."""
    x = max_pool(jax.nn.relu(convolution(weights, "0", x, width, 7, 2)), 3, 2, 1)
    index = 3
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner = width * 2**stage
        for position in range(blocks):
            stride = 2 if stage and not position else 1
            x = block(weights, str(index), x, [(inner, 1, 1), (inner, 3, stride), (4 * inner, 1, 1)], stride)
            index += 1
    return dense(weights, str(index + 2), x.mean((2, 3)), classes)


def inverted(weights: Weights, name: str, x: Array, outputs: int, stride: int) -> Array:
    """A channel-wise convolution between two of 1 x 1, with four times as many channels."""
    wide = 4 * x.shape[1]
    y = jax.nn.relu6(convolution(weights, f"{name}.0", x, wide, 1))
    y = conv(weights, f"{name}.2", y, wide, 3, stride, 1, wide)
    y = convolution(weights, f"{name}.5", jax.nn.relu6(batch_norm(weights, f"{name}.3", y)), outputs, 1)
    return x + y if stride == 1 and outputs == x.shape[1] else y


def mobilenet(weights: Weights, x: Array, width: int, classes: int) -> Array:
    """A stem and six inverted blocks with ReLU6."""
    x = jax.nn.relu6(convolution(weights, "0.0", x, width, 3, 2))
    for index in range(6):
        outputs = width * ((index + 1) // 2 + 1)
        x = inverted(weights, f"0.{index + 2}.body", x, outputs, index % 2 + 1)
    return dense(weights, "1", x.mean((2, 3)), classes)


def double_convolution(weights: Weights, name: str, x: Array, outputs: int) -> Array:
    """Two convolutions of 3 x 3 with normalisations and ReLU."""
    for index in "02":
        x = jax.nn.relu(convolution(weights, f"{name}.{index}", x, outputs, 3))
    return x


def unet(weights: Weights, x: Array, inputs: int, width: int, classes: int) -> Array:
    """Scores of each pixel by three levels of convolutions, joined along channels."""
    large = double_convolution(weights, "first", x, width)
    middle = double_convolution(weights, "second", max_pool(large, 2, 2), 2 * width)
    y = double_convolution(weights, "third", max_pool(middle, 2, 2), 4 * width)
    y = jnp.concatenate((middle, transposed_conv(weights, "rise1", y, 2 * width, 2)), 1)
    y = double_convolution(weights, "fourth", y, 2 * width)
    y = jnp.concatenate((large, transposed_conv(weights, "rise2", y, width, 2)), 1)
    y = conv(weights, "head", double_convolution(weights, "fifth", y, width), classes, 1, 1, 0)
    return y.transpose(0, 2, 3, 1).reshape(-1, classes) + weights("head.bias", (classes,))


def attention(q: Array, k: Array, v: Array, hidden: Array | None = None) -> Array:
    """softmax(q @ k.T / sqrt(width)) @ v over the last two axes, except hidden positions."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    scores = scores if hidden is None else jnp.where(hidden, -jnp.inf, scores)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def heads_of(projected: Array, heads: int) -> Array:
    """(batch, length, 3 * width) to queries, keys and values of (batch, heads, length, width / heads)."""
    batch, length, width = projected.shape
    return projected.reshape(batch, length, 3, heads, width // 3 // heads).transpose(2, 0, 3, 1, 4)


def joined(y: Array) -> Array:
    """(batch, heads, length, part) to (batch, length, heads * part)."""
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def embedded(weights: Weights, words: Array, vocabulary: int, length: int, width: int) -> Array:
    """Words and their places."""
    table = weights("words.embedding_table", (vocabulary, width))
    return table[words] + weights("places.embedding_table", (length, width))


def encoder_layer(weights: Weights, name: str, x: Array, heads: int) -> Array:
    """The layer of Vaswani et al. (2017), with GELU."""
    width = x.shape[-1]
    projection = weights(f"{name}.self_attn.in_proj_weight", (3 * width, width))
    qkv = x @ projection.T + weights(f"{name}.self_attn.in_proj_bias", (3 * width,))
    y = joined(attention(*heads_of(qkv, heads)))
    x = layer_norm(weights, f"{name}.norm1", x + dense(weights, f"{name}.self_attn.out_proj", y, width))
    y = jax.nn.gelu(dense(weights, f"{name}.dense1", x, 4 * width), approximate=False)
    return layer_norm(weights, f"{name}.norm2", x + dense(weights, f"{name}.dense2", y, width))


def transformer(
    weights: Weights, words: Array, vocabulary: int, length: int, width: int, heads: int, layers: int
) -> Array:
    """A transformer encoder over words and places, and scores of every word."""
    x = embedded(weights, words, vocabulary, length, width)
    for layer in range(layers):
        x = encoder_layer(weights, f"encoder.layers.{layer}", x, heads)
    return dense(weights, "head", x, vocabulary).reshape(-1, vocabulary)


def gpt_block(weights: Weights, name: str, x: Array, heads: int) -> Array:
    """Attention to the words before and two dense layers, each behind a normalisation and added to what came in."""
    length, width = x.shape[1:]
    qkv = dense(weights, f"{name}.qkv", layer_norm(weights, f"{name}.norm1", x), 3 * width)
    y = attention(*heads_of(qkv, heads), ~jnp.tri(length, dtype=bool))
    x = x + dense(weights, f"{name}.out", joined(y), width)
    y = dense(weights, f"{name}.rise", layer_norm(weights, f"{name}.norm2", x), 4 * width)
    return x + dense(weights, f"{name}.fall", jax.nn.gelu(y, approximate=True), width)


def gpt(weights: Weights, words: Array, vocabulary: int, length: int, width: int, heads: int, layers: int) -> Array:
    """Scores of the next word, with a head of its own."""
    x = embedded(weights, words, vocabulary, length, width)
    for layer in range(layers):
        x = gpt_block(weights, f"blocks.{layer}", x, heads)
    return dense(weights, "head", layer_norm(weights, "norm", x), vocabulary, bias=False).reshape(-1, vocabulary)


def lstm_layer(weights: Weights, suffix: str, x: Array, width: int) -> Array:
    """One layer along (time, batch, inputs): the products of the inputs at once, the rest in a scan."""
    size = 4 * width
    inner = weights(f"lstm.weight_ih_{suffix}", (size, x.shape[-1])), weights(f"lstm.bias_ih_{suffix}", (size,))
    again = weights(f"lstm.weight_hh_{suffix}", (size, width)), weights(f"lstm.bias_hh_{suffix}", (size,))

    def step(state: tuple[Array, Array], gates: Array) -> tuple[tuple[Array, Array], Array]:
        h, c = state
        i, f, g, o = jnp.split(gates + h @ again[0].T + again[1], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[1], width), x.dtype)
    return lax.scan(step, (zeros, zeros), x @ inner[0].T + inner[1])[1]


def lstm(weights: Weights, x: Array, inputs: int, width: int, layers: int, classes: int) -> Array:
    """Classes of sequences by the last output of an LSTM."""
    x = x.transpose(1, 0, 2)
    for layer in range(layers):
        x = lstm_layer(weights, f"l{layer}", x, width)
    return dense(weights, "head", x[-1], classes)


def embeddings(
    weights: Weights, words: Array, tables: int, vocabulary: int, width: int, hidden: int, classes: int
) -> Array:
    """Classes by bags of words, each with a table of its own, of which the means go through two dense layers."""
    drawn = [weights(f"tables.{i}.embedding_table", (vocabulary, width))[words[:, i]] for i in range(tables)]
    x = jnp.concatenate([vectors.mean(1) for vectors in drawn], 1)
    return dense(weights, "head", jax.nn.relu(dense(weights, "hidden", x, hidden)), classes)


def gru_layer(weights: Weights, suffix: str, x: Array, width: int) -> Array:
    """One layer along (time, batch, inputs): the products of the inputs at once, the rest in a scan."""
    size = 3 * width
    inner = weights(f"gru.weight_ih_{suffix}", (size, x.shape[-1])), weights(f"gru.bias_ih_{suffix}", (size,))
    again = weights(f"gru.weight_hh_{suffix}", (size, width)), weights(f"gru.bias_hh_{suffix}", (size,))

    def step(h: Array, gates: Array) -> tuple[Array, Array]:
        own = jnp.split(gates, 3, -1)
        rest = jnp.split(h @ again[0].T + again[1], 3, -1)
        r, z = (jax.nn.sigmoid(a + b) for a, b in zip(own[:2], rest[:2], strict=True))
        n = jnp.tanh(own[2] + r * rest[2])
        h = (1 - z) * n + z * h
        return h, h

    return lax.scan(step, jnp.zeros((x.shape[1], width), x.dtype), x @ inner[0].T + inner[1])[1]


def gru_attention(weights: Weights, x: Array, inputs: int, width: int, classes: int) -> Array:
    """Classes of sequences by a GRU, whose outputs attend to each other."""
    y = gru_layer(weights, "l0", x.transpose(1, 0, 2), width).transpose(1, 0, 2)
    context = attention(*(y[:, None],) * 3)[:, 0]
    y = jnp.tanh(dense(weights, "join", jnp.concatenate((context, y), -1), width))
    return dense(weights, "head", y.mean(1), classes)
