"""The networks as cells of graphls."""

from __future__ import annotations

import numpy as np

from graphls import Tensor, nn, ops


def mlp(inputs: int, hidden: int, classes: int) -> nn.Cell:
    """Three dense layers."""
    return nn.SequentialCell(
        nn.Dense(inputs, hidden), nn.ReLU(), nn.Dense(hidden, hidden), nn.ReLU(), nn.Dense(hidden, classes)
    )


def lenet(classes: int) -> nn.Cell:
    """Two convolutions with pooling and three dense layers, for images of 1 x 32 x 32 (LeCun et al., 1998)."""
    return nn.SequentialCell(
        nn.Conv2d(1, 6, 5, pad_mode="valid", has_bias=True), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Conv2d(6, 16, 5, pad_mode="valid", has_bias=True), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Flatten(), nn.Dense(400, 120), nn.ReLU(), nn.Dense(120, 84), nn.ReLU(), nn.Dense(84, classes),
    )  # fmt: skip


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Cell:
    """A convolution without bias and the normalisation behind it, which keep the size where the stride is 1."""
    padding = kernel // 2
    return nn.SequentialCell(
        nn.Conv2d(inputs, outputs, kernel, stride, pad_mode="pad", padding=padding), nn.BatchNorm2d(outputs)
    )


class Block(nn.Cell):
    """A residual block: relu(body(x) + shortcut(x)) (He et al., 2016)."""

    def __init__(self, body: nn.Cell, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = body
        self.same = stride == 1 and inputs == outputs
        if not self.same:
            self.shortcut = convolution(inputs, outputs, 1, stride)

    def construct(self, x: Tensor) -> Tensor:
        return ops.relu(self.body(x) + (x if self.same else self.shortcut(x)))


def basic_block(inputs: int, width: int, stride: int) -> nn.Cell:
    """Two convolutions of 3 x 3."""
    body = nn.SequentialCell(convolution(inputs, width, 3, stride), nn.ReLU(), convolution(width, width, 3))
    return Block(body, inputs, width, stride)


def bottleneck(inputs: int, width: int, stride: int) -> nn.Cell:
    """A convolution of 3 x 3 between two of 1 x 1, with four times as many channels behind it."""
    body = nn.SequentialCell(
        convolution(inputs, width, 1), nn.ReLU(), convolution(width, width, 3, stride), nn.ReLU(),
        convolution(width, 4 * width, 1),
    )  # fmt: skip
    return Block(body, inputs, 4 * width, stride)


def resnet18(width: int, classes: int) -> nn.Cell:
    """18 layers with weights for small images: a stem of 3 x 3 without pooling."""
    cells = [convolution(3, width, 3), nn.ReLU()]
    inputs = width
    for stage in range(4):
        outputs = width * 2**stage
        cells += [basic_block(inputs, outputs, 2 if stage else 1), basic_block(outputs, outputs, 1)]
        inputs = outputs
    return nn.SequentialCell(*cells, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dense(inputs, classes))


def resnet50(width: int, classes: int) -> nn.Cell:
    """50 layers with weights, for large images: a stem of 7 x 7 with pooling."""
    cells = [convolution(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, pad_mode="pad", padding=1)]
    inputs = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            cells.append(bottleneck(inputs, width * 2**stage, 2 if stage and not block else 1))
            inputs = 4 * width * 2**stage
    return nn.SequentialCell(*cells, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dense(inputs, classes))


class Inverted(nn.Cell):
    """A channel-wise convolution between two of 1 x 1, with four times as many channels (Howard et al., 2019)."""

    def __init__(self, inputs: int, outputs: int, stride: int, activation: type[nn.Cell]) -> None:
        super().__init__()
        wide = 4 * inputs
        between = nn.Conv2d(wide, wide, 3, stride, pad_mode="pad", padding=1, group=wide)
        self.body = nn.SequentialCell(
            convolution(inputs, wide, 1), activation(), between, nn.BatchNorm2d(wide), activation(),
            convolution(wide, outputs, 1),
        )  # fmt: skip
        self.same = stride == 1 and inputs == outputs

    def construct(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.same else self.body(x)


def inverted_blocks(width: int, activation: type[nn.Cell]) -> nn.Cell:
    """A stem and six inverted blocks for small images, and the mean of each channel."""
    cells = [convolution(3, width, 3, 2), activation()]
    for stage in range(3):
        inputs = width * (stage + 1)
        cells += [Inverted(inputs, inputs, 1, activation), Inverted(inputs, inputs + width, 2, activation)]
    return nn.SequentialCell(*cells, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def mobilenet(width: int, classes: int) -> nn.Cell:
    """Inverted blocks with ReLU6, in the manner of MobileNet v2 (Sandler et al., 2018)."""
    return nn.SequentialCell(inverted_blocks(width, nn.ReLU6), nn.Dense(4 * width, classes))


def mobilenet_v3(width: int, classes: int) -> nn.Cell:
    """Inverted blocks with hard swish, in the manner of MobileNet v3."""
    return nn.SequentialCell(inverted_blocks(width, nn.HSwish), nn.Dropout(p=0.2), nn.Dense(4 * width, classes))


def double_convolution(inputs: int, outputs: int) -> nn.Cell:
    """Two convolutions of 3 x 3 with normalisations and ReLU."""
    return nn.SequentialCell(
        convolution(inputs, outputs, 3), nn.ReLU(), convolution(outputs, outputs, 3), nn.ReLU()
    )  # fmt: skip


class UNet(nn.Cell):
    """Scores of each pixel by three levels of convolutions, joined along channels (Ronneberger et al., 2015)."""

    def __init__(self, inputs: int, width: int, classes: int) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2, 2)
        self.first, self.second = double_convolution(inputs, width), double_convolution(width, 2 * width)
        self.third = double_convolution(2 * width, 4 * width)
        self.rise1 = nn.Conv2dTranspose(4 * width, 2 * width, 2, 2, pad_mode="valid", has_bias=True)
        self.fourth = double_convolution(4 * width, 2 * width)
        self.rise2 = nn.Conv2dTranspose(2 * width, width, 2, 2, pad_mode="valid", has_bias=True)
        self.fifth = double_convolution(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1, has_bias=True)
        self.classes = classes

    def construct(self, x: Tensor) -> Tensor:
        large = self.first(x)
        middle = self.second(self.pool(large))
        y = self.rise1(self.third(self.pool(middle)))
        y = self.rise2(self.fourth(ops.concat((middle, y), 1)))
        y = self.head(self.fifth(ops.concat((large, y), 1)))
        return ops.reshape(ops.transpose(y, (0, 2, 3, 1)), (-1, self.classes))


unet = UNet


class Transformer(nn.Cell):
    """A transformer encoder over words and places, and scores of every word."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Dense(width, vocabulary)
        self.length, self.vocabulary = length, vocabulary

    def construct(self, words: Tensor) -> Tensor:
        x = self.words(words) + self.places(Tensor(np.arange(self.length, dtype=np.int32)))
        return ops.reshape(self.head(self.encoder(x)), (-1, self.vocabulary))


transformer = Transformer


class GPTBlock(nn.Cell):
    """Attention to the words before and two dense layers, each behind a normalisation and added to what came in."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.norm1, self.norm2 = nn.LayerNorm((width,), epsilon=1e-5), nn.LayerNorm((width,), epsilon=1e-5)
        self.qkv, self.out = nn.Dense(width, 3 * width), nn.Dense(width, width)
        self.rise, self.fall = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)
        self.hidden = np.triu(np.ones((length, length), bool), 1)

    def construct(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.fall(ops.gelu(self.rise(self.norm2(x)), approximate="tanh"))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = ops.reshape(self.qkv(x), (batch, length, 3, self.heads, self.head_width))
        q, k, v = ops.transpose(parts, (2, 0, 3, 1, 4))
        scores = ops.matmul(q, ops.swapaxes(k, -1, -2)) / self.head_width**0.5
        scores = ops.masked_fill(scores, Tensor(self.hidden), float("-inf"))
        y = ops.transpose(ops.matmul(ops.softmax(scores, -1), v), (0, 2, 1, 3))
        return self.out(ops.reshape(y, (batch, length, width)))


class GPT(nn.Cell):
    """Scores of the next word (Radford et al., 2019), with a head of its own."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.SequentialCell([GPTBlock(width, heads, length) for _ in range(layers)])
        self.norm = nn.LayerNorm((width,), epsilon=1e-5)
        self.head = nn.Dense(width, vocabulary, has_bias=False)
        self.length, self.vocabulary = length, vocabulary

    def construct(self, words: Tensor) -> Tensor:
        x = self.words(words) + self.places(Tensor(np.arange(self.length, dtype=np.int32)))
        return ops.reshape(self.head(self.norm(self.blocks(x))), (-1, self.vocabulary))


gpt = GPT


class LSTM(nn.Cell):
    """Classes of sequences by the last output of an LSTM."""

    def __init__(self, inputs: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, layers, batch_first=True)
        self.head = nn.Dense(width, classes)

    def construct(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


lstm = LSTM


class Embeddings(nn.Cell):
    """Classes by bags of words, each with a table of its own, of which the means go through two dense layers."""

    def __init__(self, tables: int, vocabulary: int, width: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.tables = nn.CellList([nn.Embedding(vocabulary, width) for _ in range(tables)])
        self.hidden, self.head = nn.Dense(tables * width, hidden), nn.Dense(hidden, classes)

    def construct(self, words: Tensor) -> Tensor:
        means = [ops.mean(table(words[:, index]), 1) for index, table in enumerate(self.tables)]
        return self.head(ops.relu(self.hidden(ops.concat(means, 1))))


embeddings = Embeddings


class GRUAttention(nn.Cell):
    """Classes of sequences by a GRU, whose outputs attend to each other (Luong et al., 2015)."""

    def __init__(self, inputs: int, width: int, classes: int) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs, width, batch_first=True)
        self.join, self.head = nn.Dense(2 * width, width), nn.Dense(width, classes)
        self.scale = width**-0.5

    def construct(self, x: Tensor) -> Tensor:
        y = self.gru(x)[0]
        shares = ops.softmax(ops.matmul(y, ops.swapaxes(y, -1, -2)) * self.scale, -1)
        y = ops.tanh(self.join(ops.concat((ops.matmul(shares, y), y), -1)))
        return self.head(ops.mean(y, 1))


gru_attention = GRUAttention
