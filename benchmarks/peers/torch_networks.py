"""The networks as modules of PyTorch, and the names of their parameters in graphls."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SUFFIXES = {
    nn.BatchNorm2d: {"weight": "gamma", "bias": "beta"},
    nn.LayerNorm: {"weight": "gamma", "bias": "beta"},
    nn.Embedding: {"weight": "embedding_table"},
    nn.EmbeddingBag: {"weight": "embedding_table"},
}
PARTS = {"linear1": "dense1", "linear2": "dense2"}


def named_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters by their names in graphls."""
    parameters = {}
    for path, part in module.named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            parts = [PARTS.get(piece, piece) for piece in path.split(".") if piece]
            parameters[".".join([*parts, SUFFIXES.get(type(part), {}).get(name, name)])] = parameter
    return parameters


def mlp(inputs: int, hidden: int, classes: int) -> nn.Module:
    """Three dense layers."""
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)
    )


def lenet(classes: int) -> nn.Module:
    """Two convolutions with pooling and three dense layers."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes),
    )  # fmt: skip


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Module:
    """A convolution without bias and the normalisation behind it."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs)
    )


class Block(nn.Module):
    """A residual block: relu(body(x) + shortcut(x))."""

    def __init__(self, body: nn.Module, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def basic_block(inputs: int, width: int, stride: int) -> nn.Module:
    """Two convolutions of 3 x 3."""
    body = nn.Sequential(convolution(inputs, width, 3, stride), nn.ReLU(), convolution(width, width, 3))
    return Block(body, inputs, width, stride)


def bottleneck(inputs: int, width: int, stride: int) -> nn.Module:
    """A convolution of 3 x 3 between two of 1 x 1, with four times as many channels behind it."""
    body = nn.Sequential(
        convolution(inputs, width, 1), nn.ReLU(), convolution(width, width, 3, stride), nn.ReLU(),
        convolution(width, 4 * width, 1),
    )  # fmt: skip
    return Block(body, inputs, 4 * width, stride)


def resnet18(width: int, classes: int) -> nn.Module:
    """18 layers with weights for small images."""
    modules = [convolution(3, width, 3), nn.ReLU()]
    inputs = width
    for stage in range(4):
        outputs = width * 2**stage
        modules += [basic_block(inputs, outputs, 2 if stage else 1), basic_block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def resnet50(width: int, classes: int) -> nn.Module:
    """50 layers with weights, for large images."""
    modules = [convolution(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)]
    inputs = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            modules.append(bottleneck(inputs, width * 2**stage, 2 if stage and not block else 1))
            inputs = 4 * width * 2**stage
    return nn.Sequential(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class Inverted(nn.Module):
    """A channel-wise convolution between two of 1 x 1, with four times as many channels."""

    def __init__(self, inputs: int, outputs: int, stride: int, activation: type[nn.Module]) -> None:
        super().__init__()
        wide = 4 * inputs
        between = nn.Conv2d(wide, wide, 3, stride, padding=1, groups=wide, bias=False)
        self.body = nn.Sequential(
            convolution(inputs, wide, 1), activation(), between, nn.BatchNorm2d(wide), activation(),
            convolution(wide, outputs, 1),
        )  # fmt: skip
        self.same = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.same else self.body(x)


def inverted_blocks(width: int, activation: type[nn.Module]) -> nn.Module:
    """A stem and six inverted blocks for small images, and the mean of each channel."""
    parts: list[nn.Module] = [convolution(3, width, 3, 2), activation()]
    for stage in range(3):
        inputs = width * (stage + 1)
        parts += [Inverted(inputs, inputs, 1, activation), Inverted(inputs, inputs + width, 2, activation)]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def mobilenet(width: int, classes: int) -> nn.Module:
    """Inverted blocks with ReLU6."""
    return nn.Sequential(inverted_blocks(width, nn.ReLU6), nn.Linear(4 * width, classes))


def mobilenet_v3(width: int, classes: int) -> nn.Module:
    """Inverted blocks with hard swish."""
    return nn.Sequential(inverted_blocks(width, nn.Hardswish), nn.Dropout(0.2), nn.Linear(4 * width, classes))


def double_convolution(inputs: int, outputs: int) -> nn.Module:
    """Two convolutions of 3 x 3 with normalisations and ReLU."""
    return nn.Sequential(convolution(inputs, outputs, 3), nn.ReLU(), convolution(outputs, outputs, 3), nn.ReLU())


class UNet(nn.Module):
    """Scores of each pixel by three levels of convolutions, joined along channels."""

    def __init__(self, inputs: int, width: int, classes: int) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.first, self.second = double_convolution(inputs, width), double_convolution(width, 2 * width)
        self.third = double_convolution(2 * width, 4 * width)
        self.rise1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.fourth = double_convolution(4 * width, 2 * width)
        self.rise2 = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.fifth = double_convolution(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        large = self.first(x)
        middle = self.second(self.pool(large))
        y = self.rise1(self.third(self.pool(middle)))
        y = self.rise2(self.fourth(torch.cat((middle, y), 1)))
        y = self.head(self.fifth(torch.cat((large, y), 1)))
        return y.permute(0, 2, 3, 1).flatten(0, 2)


unet = UNet


class Transformer(nn.Module):
    """A transformer encoder over words and places, and scores of every word."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("index", torch.arange(length))

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words) + self.places(self.index)
        return self.head(self.encoder(x)).flatten(0, 1)


transformer = Transformer


class GPTBlock(nn.Module):
    """Attention to the words before and two dense layers, each behind a normalisation and added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.rise, self.fall = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.fall(F.gelu(self.rise(self.norm2(x)), approximate="tanh"))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class GPT(nn.Module):
    """Scores of the next word, with a head of its own."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(GPTBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("index", torch.arange(length))

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words) + self.places(self.index)
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


gpt = GPT


class LSTM(nn.Module):
    """Classes of sequences by the last output of an LSTM."""

    def __init__(self, inputs: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, layers, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


lstm = LSTM


class Embeddings(nn.Module):
    """Classes by bags of words, each with a table of its own, of which the means go through two dense layers."""

    def __init__(self, tables: int, vocabulary: int, width: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(vocabulary, width, mode="mean") for _ in range(tables))
        self.hidden, self.head = nn.Linear(tables * width, hidden), nn.Linear(hidden, classes)

    def forward(self, words: Tensor) -> Tensor:
        means = [table(words[:, index]) for index, table in enumerate(self.tables)]
        return self.head(F.relu(self.hidden(torch.cat(means, 1))))


embeddings = Embeddings


class GRUAttention(nn.Module):
    """Classes of sequences by a GRU, whose outputs attend to each other."""

    def __init__(self, inputs: int, width: int, classes: int) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs, width, batch_first=True)
        self.join, self.head = nn.Linear(2 * width, width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.gru(x)[0]
        y = torch.tanh(self.join(torch.cat((F.scaled_dot_product_attention(y, y, y), y), -1)))
        return self.head(y.mean(1))


gru_attention = GRUAttention
