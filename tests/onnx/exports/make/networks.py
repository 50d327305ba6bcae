"""Small networks with random weights, as PyTorch and transformers write them; each with inputs, labels and a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import nn

Loss = Callable[[Any, Any], Any]


@dataclass
class Example:
    """A network with what it is trained on: `inputs` by name, and how far one step goes."""

    network: Any
    inputs: dict[str, Any]
    labels: Any
    loss: str = "cross_entropy"
    optimizer: str = "momentum"
    learning_rate: float = 0.01
    batch: set[str] = field(default_factory=set)


class Logits(nn.Module):
    """A network of transformers that takes tensors by position and gives its logits alone."""

    def __init__(self, network: Any, names: tuple[str, ...]) -> None:
        super().__init__()
        self.network = network
        self.names = names

    def forward(self, *inputs: Any) -> Any:
        return self.network(**dict(zip(self.names, inputs, strict=True))).logits


def mlp() -> Example:
    network = nn.Sequential(
        nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.Tanh(), nn.Dropout(0.0), nn.Linear(16, 3)
    )
    return Example(network, {"x": torch.randn(8, 6)}, torch.randint(0, 3, (8,)), learning_rate=0.1)


def resnet() -> Example:
    config = transformers.ResNetConfig(
        num_channels=3, embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic", num_labels=4
    )
    network = Logits(transformers.ResNetForImageClassification(config), ("pixel_values",))
    return Example(network, {"images": torch.randn(4, 3, 32, 32)}, torch.randint(0, 4, (4,)))


class Squeeze(nn.Module):
    """The gate of channels of MobileNet v3."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, 4, 1), nn.ReLU(), nn.Conv2d(4, channels, 1), nn.Hardsigmoid()
        )

    def forward(self, x: Any) -> Any:
        return x * self.gate(x)


class Inverted(nn.Module):
    """The block of MobileNet v3: wide, depthwise, gated, narrow."""

    def __init__(self, channels: int, wide: int, out: int, kernel: int, stride: int, act: type[nn.Module]) -> None:
        super().__init__()
        self.is_residual = channels == out and stride == 1
        self.layers = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), act(),
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False), nn.BatchNorm2d(wide), act(),
            Squeeze(wide), nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return x + self.layers(x) if self.is_residual else self.layers(x)


def mobilenet_v3() -> Example:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
        Inverted(8, 16, 8, 3, 1, nn.ReLU), Inverted(8, 24, 12, 5, 2, nn.Hardswish),
        Inverted(12, 24, 12, 5, 1, nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(12, 24), nn.Hardswish(), nn.Dropout(0.0), nn.Linear(24, 4),
    )  # fmt: skip
    return Example(network, {"images": torch.randn(4, 3, 24, 24)}, torch.randint(0, 4, (4,)))


def convnext() -> Example:
    config = transformers.ConvNextConfig(
        num_channels=3, patch_size=4, num_stages=2, hidden_sizes=[8, 16], depths=[1, 1], num_labels=4,
        layer_scale_init_value=0.5,
    )  # fmt: skip
    network = Logits(transformers.ConvNextForImageClassification(config), ("pixel_values",))
    return Example(network, {"images": torch.randn(3, 3, 24, 24)}, torch.randint(0, 4, (3,)), "cross_entropy", "adamw")


TRANSFORMER = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip


def vit() -> Example:
    config = transformers.ViTConfig(**TRANSFORMER, image_size=16, patch_size=4, num_channels=3, num_labels=4)
    network = Logits(transformers.ViTForImageClassification(config), ("pixel_values",))
    return Example(network, {"images": torch.randn(3, 3, 16, 16)}, torch.randint(0, 4, (3,)), "cross_entropy", "adamw")


def bert() -> Example:
    config = transformers.BertConfig(**TRANSFORMER, vocab_size=40, max_position_embeddings=12, num_labels=3)
    names = ("input_ids", "attention_mask", "token_type_ids")
    mask = torch.ones(3, 7, dtype=torch.int64)
    mask[1, 5:] = mask[2, 3:] = 0
    inputs = dict(zip(names, (torch.randint(1, 40, (3, 7)), mask, torch.randint(0, 2, (3, 7))), strict=True))
    network = Logits(transformers.BertForSequenceClassification(config), names)
    return Example(network, inputs, torch.randint(0, 3, (3,)), "cross_entropy", "adamw")


def gpt2() -> Example:
    config = transformers.GPT2Config(
        vocab_size=32, n_positions=10, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        tie_word_embeddings=False, use_cache=False,
    )  # fmt: skip
    network = Logits(transformers.GPT2LMHeadModel(config), ("input_ids", "attention_mask"))
    inputs = {"input_ids": torch.randint(0, 32, (3, 8)), "attention_mask": torch.ones(3, 8, dtype=torch.int64)}
    return Example(network, inputs, torch.randint(0, 32, (3, 8)), "cross_entropy", "adamw")


def llama() -> Example:
    """Its rotary frequencies are a buffer, which no state dict has."""
    config = transformers.LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=16, tie_word_embeddings=False, use_cache=False,
    )  # fmt: skip
    network = Logits(transformers.LlamaForCausalLM(config), ("input_ids", "attention_mask"))
    inputs = {"input_ids": torch.randint(0, 32, (3, 8)), "attention_mask": torch.ones(3, 8, dtype=torch.int64)}
    return Example(network, inputs, torch.randint(0, 32, (3, 8)), "cross_entropy", "adamw")


def t5() -> Example:
    config = transformers.T5Config(
        vocab_size=32, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_decoder_layers=1, num_heads=2, dropout_rate=0.0,
        tie_word_embeddings=False, use_cache=False, relative_attention_num_buckets=8, decoder_start_token_id=0,
        attn_implementation="eager",
    )  # fmt: skip
    names = ("input_ids", "attention_mask", "decoder_input_ids")
    mask = torch.ones(2, 6, dtype=torch.int64)
    mask[1, 4:] = 0
    inputs = dict(zip(names, (torch.randint(1, 32, (2, 6)), mask, torch.randint(0, 32, (2, 5))), strict=True))
    network = Logits(transformers.T5ForConditionalGeneration(config), names)
    return Example(network, inputs, torch.randint(0, 32, (2, 5)), "cross_entropy", "adamw")


class Tagger(nn.Module):
    """Words to tags by an LSTM of two layers in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 6)
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(10, 4)

    def forward(self, words: Any) -> Any:
        return self.out(self.lstm(self.embedding(words))[0])


def lstm_tagger() -> Example:
    inputs = {"words": torch.randint(0, 30, (3, 7))}
    return Example(Tagger(), inputs, torch.randint(0, 4, (3, 7)), learning_rate=0.5)


def _double(inner: int, outer: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inner, outer, 3, padding=1), nn.GroupNorm(2, outer), nn.ReLU())


class UNet(nn.Module):
    """Two levels down and up again, one by a transposed convolution and one by interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = _double(3, 6), _double(6, 8), _double(8, 12)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(12, 8, 2, stride=2)
        self.wide = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.fourth, self.fifth, self.out = _double(16, 8), _double(14, 6), nn.Conv2d(6, 1, 1)

    def forward(self, images: Any) -> Any:
        a = self.first(images)
        b = self.second(self.pool(a))
        c = self.fourth(torch.cat([self.up(self.third(self.pool(b))), b], 1))
        return self.out(self.fifth(torch.cat([self.wide(c), a], 1)))


def unet() -> Example:
    return Example(UNet(), {"images": torch.randn(2, 3, 16, 16)}, torch.randn(2, 1, 16, 16), "mse", learning_rate=0.03)


NETWORKS = {
    f.__name__: f for f in (mlp, resnet, mobilenet_v3, convnext, vit, bert, gpt2, llama, t5, lstm_tagger, unet)
}  # fmt: skip
