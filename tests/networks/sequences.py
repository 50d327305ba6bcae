"""Networks of sequences: transformers, an LSTM, an LSTM with attention, a GPT, a BERT and a mixture of experts."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphls
from graphls import nn, ops

WORDS, LENGTH, WIDTH, HEADS = 11, 6, 8, 2


class Classifier(nn.Cell):
    """Classes of sequences by a transformer encoder, with dropout, over rows of numbers."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, dropout=0.1, batch_first=True)
        self.rise = nn.Dense(5, WIDTH)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm((WIDTH,)))
        self.head = nn.Dense(WIDTH, 5)

    def construct(self, x: Any) -> Any:
        return self.head(self.encoder(self.rise(x)).mean(1))


class Recurrent(nn.Cell):
    """Classes of sequences by the last state of an LSTM of two layers in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 6, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Dense(12, 5)

    def construct(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][:, -1])


class Translator(nn.Cell):
    """An LSTM reads, another one writes, which attends to what was read (Luong's global attention)."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.reader = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.writer = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.score = nn.Dense(WIDTH, WIDTH, has_bias=False)
        self.join = nn.Dense(2 * WIDTH, WIDTH)
        self.head = nn.Dense(WIDTH, WORDS)

    def construct(self, words: Any, written: Any) -> Any:
        read, state = self.reader(self.source(words))
        asked, _ = self.writer(self.target(written), state)
        weights = ops.softmax(ops.matmul(self.score(asked), ops.swapaxes(read, 1, 2)), -1)
        found = ops.matmul(weights, read)
        y = ops.tanh(self.join(ops.concat((found, asked), -1)))
        return ops.reshape(self.head(y), (-1, WORDS))


class GPTBlock(nn.Cell):
    """Masked attention and two dense layers, each behind a normalisation and added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((WIDTH,)), nn.LayerNorm((WIDTH,))
        self.qkv, self.out = nn.Dense(WIDTH, 3 * WIDTH), nn.Dense(WIDTH, WIDTH)
        self.rise, self.fall = nn.Dense(WIDTH, 4 * WIDTH), nn.Dense(4 * WIDTH, WIDTH)
        self.gelu, self.dropout = nn.GELU(), nn.Dropout(p=0.1)
        self.hidden = np.triu(np.ones((LENGTH, LENGTH), bool), 1)

    def construct(self, x: Any) -> Any:
        x = x + self.dropout(self.attend(self.norm1(x)))
        return x + self.dropout(self.fall(self.gelu(self.rise(self.norm2(x)))))

    def attend(self, x: Any) -> Any:
        batch = x.shape[0]
        parts = ops.reshape(self.qkv(x), (batch, LENGTH, 3, HEADS, WIDTH // HEADS))
        q, k, v = ops.transpose(parts, (2, 0, 3, 1, 4))
        scores = ops.matmul(q, ops.swapaxes(k, -1, -2)) / (WIDTH // HEADS) ** 0.5
        scores = ops.masked_fill(scores, graphls.Tensor(self.hidden), float("-inf"))
        y = ops.transpose(ops.matmul(ops.softmax(scores, -1), v), (0, 2, 1, 3))
        return self.out(ops.reshape(y, (batch, LENGTH, WIDTH)))


class GPT(nn.Cell):
    """Scores of the next word, with the weights of the words' embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.SequentialCell(GPTBlock(), GPTBlock())
        self.norm = nn.LayerNorm((WIDTH,))

    def construct(self, words: Any) -> Any:
        places = graphls.Tensor(np.arange(LENGTH, dtype=np.int32))
        x = self.norm(self.blocks(self.words(words) + self.places(places)))
        table = ops.cast(self.words.embedding_table, x.dtype)
        return ops.matmul(ops.reshape(x, (-1, WIDTH)), ops.transpose(table, (1, 0)))


class BERT(nn.Cell):
    """Scores of the masked words, and of whether the second sentence follows the first."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, dropout=0.1, activation="gelu", batch_first=True)
        self.words, self.places, self.parts = (nn.Embedding(n, WIDTH) for n in (WORDS, LENGTH, 2))
        self.norm, self.dropout = nn.LayerNorm((WIDTH,)), nn.Dropout(p=0.1)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.dense, self.dense_norm = nn.Dense(WIDTH, WIDTH, activation="gelu"), nn.LayerNorm((WIDTH,))
        self.pooler, self.follows = nn.Dense(WIDTH, WIDTH, activation="tanh"), nn.Dense(WIDTH, 2)
        self.head = nn.Dense(WIDTH, WORDS)

    def construct(self, words: Any, parts: Any, is_padding: Any, masked: Any) -> Any:
        places = self.places(graphls.Tensor(np.arange(LENGTH, dtype=np.int32)))
        x = self.dropout(self.norm(self.words(words) + self.parts(parts) + places))
        x = self.encoder(x, None, is_padding)
        index = ops.broadcast_to(ops.expand_dims(masked, -1), (*masked.shape, WIDTH))
        chosen = self.dense_norm(self.dense(ops.gather_elements(x, 1, index)))
        return ops.reshape(self.head(chosen), (-1, WORDS)), self.follows(self.pooler(x[:, 0]))


class Experts(nn.Cell):
    """Two of four experts for each word, as many words for each as it has room for (GShard)."""

    EXPERTS, CHOSEN, ROOM = 4, 2, 5

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(5)
        self.gate = nn.Dense(WIDTH, self.EXPERTS, has_bias=False)
        shapes = ((self.EXPERTS, WIDTH, 12), (self.EXPERTS, 12, WIDTH))
        rise, fall = (rng.normal(size=shape).astype(np.float32) / 3 for shape in shapes)
        self.rise, self.fall = graphls.Parameter(rise, name="rise"), graphls.Parameter(fall, name="fall")

    def construct(self, x: Any) -> Any:
        """The sum of what the experts of each row give, and how unevenly they are used."""
        shares = ops.softmax(ops.cast(self.gate(x), graphls.float32), -1)
        best, names = ops.topk(shares, self.CHOSEN)
        chosen = ops.one_hot(names, self.EXPERTS, graphls.Tensor(1.0), graphls.Tensor(0.0))
        weights = best / ops.sum(best, -1, keepdim=True)
        order = ops.cumsum(ops.reshape(chosen, (-1, self.EXPERTS)), 0)
        place = ops.sum((order - 1.0) * ops.reshape(chosen, (-1, self.EXPERTS)), -1)
        room = ops.one_hot(ops.cast(place, graphls.int32), self.ROOM, graphls.Tensor(1.0), graphls.Tensor(0.0))
        room = ops.reshape(room, (x.shape[0], self.CHOSEN, 1, self.ROOM))
        seats = ops.expand_dims(chosen, -1) * room
        send = ops.sum(seats, 1)
        back = ops.sum(seats * ops.reshape(weights, (x.shape[0], self.CHOSEN, 1, 1)), 1)
        uneven = self.EXPERTS * ops.sum(ops.mean(chosen[:, 0], 0) * ops.mean(shares, 0))
        return self.compute(x, ops.cast(send, x.dtype), ops.cast(back, x.dtype)), uneven

    def compute(self, x: Any, send: Any, back: Any) -> Any:
        seats = (x.shape[0], self.EXPERTS * self.ROOM)
        given = ops.matmul(ops.transpose(ops.reshape(send, seats), (1, 0)), x)
        given = ops.reshape(given, (self.EXPERTS, self.ROOM, WIDTH))
        y = ops.bmm(ops.relu(ops.bmm(given, ops.cast(self.rise, x.dtype))), ops.cast(self.fall, x.dtype))
        return ops.matmul(ops.reshape(back, seats), ops.reshape(y, (-1, WIDTH)))


class Mixture(nn.Cell):
    """Scores of the next word by attention and a mixture of experts."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm((WIDTH,))
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.experts, self.head = Experts(), nn.Dense(WIDTH, WORDS)

    def construct(self, words: Any) -> Any:
        x = self.words(words)
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        rows = ops.reshape(x, (-1, WIDTH))
        y, uneven = self.experts(rows)
        return self.head(rows + y), uneven
