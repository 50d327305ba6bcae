"""The networks of graphls that the recorded weights are for."""

from __future__ import annotations

import math
from typing import Any

from graphls import Tensor, nn, ops


class Around(nn.SequentialCell):
    """Products, with one of two inputs at the end."""

    def __init__(self) -> None:
        super().__init__(nn.Dense(6, 5), nn.PReLU(5), nn.Dense(5, 4, has_bias=False), nn.BiDense(4, 4, 3))

    def construct(self, x: Any) -> Any:
        hidden = self[2](self[1](self[0](x)))
        return self[3](hidden, hidden)


def convolutions() -> nn.Cell:
    """Grouped, depthwise and transposed convolutions."""
    return nn.SequentialCell(
        nn.Conv2d(4, 8, 3, pad_mode="pad", padding=1, group=2, has_bias=True),
        nn.Conv2d(8, 8, 3, pad_mode="pad", padding=1, group=8),
        nn.Conv2dTranspose(8, 4, 3, 2, "pad", 1, 1, group=2, has_bias=True),
    )


def sequences() -> nn.Cell:
    """Convolutions of one axis."""
    return nn.SequentialCell(
        nn.Conv1d(4, 6, 3, pad_mode="pad", padding=1, has_bias=True),
        nn.Conv1dTranspose(6, 3, 2, 2, "valid", has_bias=True),
    )


class Norms(nn.Cell):
    """Each kind of normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.batch, self.plain = nn.BatchNorm2d(4), nn.BatchNorm2d(4, affine=False)
        self.group, self.instance = nn.GroupNorm(2, 4), nn.InstanceNorm2d(4)
        self.layer, self.rms = nn.LayerNorm((5,), epsilon=1e-5), nn.RMSNorm((5,))

    def construct(self, x: Any) -> Any:
        for norm in (self.batch, self.plain, self.group, self.instance, self.layer):
            x = norm(x)
        return self.rms(x)


class Attention(nn.Cell):
    """Attention with projections of its own, called as in BERT."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Dense(size, size), nn.Dense(size, size), nn.Dense(size, size)
        self.heads = heads

    def construct(self, x: Any) -> Any:
        return attended(self.query(x), self.key(x), self.value(x), self.heads)


def attended(q: Tensor, k: Tensor, v: Tensor, heads: int, mask: Any = None) -> Tensor:
    """Attention of several heads behind their projections."""
    batch, length, size = q.shape

    def split(x: Tensor) -> Tensor:
        return ops.transpose(ops.reshape(x, (batch, length, heads, size // heads)), (0, 2, 1, 3))

    scores = ops.matmul(split(q), ops.swapaxes(split(k), -1, -2)) / math.sqrt(size // heads)
    scores = scores if mask is None else ops.where(mask, scores, -1e9)
    return ops.reshape(ops.transpose(ops.matmul(ops.softmax(scores), split(v)), (0, 2, 1, 3)), (batch, length, size))


class AddedNorm(nn.Cell):
    """A product, a sum and a normalisation."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.dense, self.LayerNorm = nn.Dense(inputs, size), nn.LayerNorm((size,), epsilon=1e-12)

    def construct(self, x: Any, around: Any) -> Any:
        return self.LayerNorm(self.dense(x) + around)


def holding(**cells: nn.Cell) -> nn.Cell:
    """A cell that holds others by name, also by names that Python has."""
    made = nn.Cell()
    for name, cell in cells.items():
        setattr(made, name, cell)
    return made


class BertLayer(nn.Cell):
    """A layer with the names of Hugging Face."""

    def __init__(self, size: int, heads: int, inner: int) -> None:
        super().__init__()
        self.attention = holding(self=Attention(size, heads), output=AddedNorm(size, size))
        self.intermediate, self.output = holding(dense=nn.Dense(size, inner)), AddedNorm(inner, size)

    def construct(self, x: Any) -> Any:
        x = self.attention.output(self.attention.self(x), x)
        return self.output(ops.gelu(self.intermediate.dense(x)), x)


class Bert(nn.Cell):
    """An encoder with the names of Hugging Face."""

    def __init__(self, size: int = 8, inner: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.embeddings = holding(
            word_embeddings=nn.Embedding(20, size),
            position_embeddings=nn.Embedding(8, size),
            token_type_embeddings=nn.Embedding(2, size),
            LayerNorm=nn.LayerNorm((size,), epsilon=1e-12),
        )
        self.encoder = holding(layer=nn.CellList([BertLayer(size, 2, inner) for _ in range(layers)]))
        self.pooler = holding(dense=nn.Dense(size, size))

    def construct(self, ids: Any) -> Any:
        e = self.embeddings
        positions = ops.arange(ids.shape[1])
        x = e.word_embeddings(ids) + e.position_embeddings(positions) + e.token_type_embeddings(ops.zeros_like(ids))
        x = e.LayerNorm(x)
        for layer in self.encoder.layer:
            x = layer(x)
        return x


class BertOfOurs(Bert):
    """The same with the layers of graphls, whose names are others."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            8, 2, 16, activation="gelu", layer_norm_eps=1e-12, batch_first=True, dropout=0.0
        )
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.pooler = nn.Dense(8, 8)

    def construct(self, ids: Any) -> Any:
        e = self.embeddings
        x = e.word_embeddings(ids) + e.position_embeddings(ops.arange(ids.shape[1]))
        return self.encoder(e.LayerNorm(x + e.token_type_embeddings(ops.zeros_like(ids))))


class GptAttention(nn.Cell):
    """Causal attention; its projections are joined, or apart."""

    def __init__(self, size: int, heads: int, is_joined: bool) -> None:
        super().__init__()
        self.heads, self.is_joined = heads, is_joined
        if is_joined:
            self.c_attn = nn.Dense(size, 3 * size)
        else:
            self.q_proj, self.k_proj, self.v_proj = nn.Dense(size, size), nn.Dense(size, size), nn.Dense(size, size)
        self.c_proj = nn.Dense(size, size)

    def construct(self, x: Any) -> Any:
        if self.is_joined:
            q, k, v = ops.split(self.c_attn(x), x.shape[-1], axis=-1)
        else:
            q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        length = x.shape[1]
        mask = ops.arange(length).reshape((1, -1)) <= ops.arange(length).reshape((-1, 1))
        return self.c_proj(attended(q, k, v, self.heads, mask))


class GptMlp(nn.Cell):
    """Two products."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.c_fc, self.c_proj = nn.Dense(size, 4 * size), nn.Dense(4 * size, size)

    def construct(self, x: Any) -> Any:
        return self.c_proj(ops.gelu(self.c_fc(x), "tanh"))


class GptBlock(nn.Cell):
    """A block with the names of Hugging Face."""

    def __init__(self, size: int, heads: int, is_joined: bool) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm((size,), epsilon=1e-5), GptAttention(size, heads, is_joined)
        self.ln_2, self.mlp = nn.LayerNorm((size,), epsilon=1e-5), GptMlp(size)

    def construct(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Cell):
    """A decoder with the names of Hugging Face, whose head has the weights of the embedding where `is_tied`."""

    def __init__(self, is_joined: bool = True, is_tied: bool = True) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(20, 8), nn.Embedding(8, 8)
        self.h = nn.CellList([GptBlock(8, 2, is_joined) for _ in range(2)])
        self.ln_f = nn.LayerNorm((8,), epsilon=1e-5)
        self.lm_head = nn.Dense(8, 20, has_bias=False)
        if is_tied:
            self.lm_head.weight = self.wte.embedding_table

    def construct(self, ids: Any) -> Any:
        x = self.wte(ids) + self.wpe(ops.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class First(nn.Cell):
    """The first result of a cell that gives several."""

    def __init__(self, cell: nn.Cell) -> None:
        super().__init__()
        self.cell = cell

    def construct(self, *inputs: Any) -> Any:
        return self.cell(*inputs)[0]


NETWORKS: dict[str, Any] = {
    "dense": Around,
    "convolutions": convolutions,
    "sequences": sequences,
    "norms": Norms,
    "embedding": lambda: nn.Embedding(7, 5),
    "attention": lambda: First(nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True)),
    "attention_apart": lambda: First(nn.MultiheadAttention(8, 2, kdim=5, vdim=6, batch_first=True)),
    "transformer": lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
    "lstm": lambda: First(nn.LSTM(4, 3, 2, bidirectional=True)),
    "gru": lambda: First(nn.GRU(4, 3, 2, batch_first=True)),
    "rnn": lambda: First(nn.RNN(4, 3, nonlinearity="relu", has_bias=False)),
    "bert": Bert,
    "gpt2": Gpt,
}
