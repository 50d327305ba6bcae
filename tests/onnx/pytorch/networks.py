"""Small modules of PyTorch for tests of `graphls.from_torch`; needs torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


class Tied(nn.Module):
    """Tied weights, a buffer that is trained in none, one that is not persistent, statistics and a frozen bias."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 4, padding_idx=0)
        self.norm = nn.BatchNorm1d(4, momentum=0.3)
        self.hidden = nn.Linear(4, 4)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(4, 12, bias=False)
        self.output.weight = self.embedding.weight
        self.hidden.bias.requires_grad_(False)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 4))
        self.register_buffer("shift", torch.linspace(-1.0, 1.0, 4), persistent=False)

    def forward(self, words: Any, mask: Any = None) -> Any:
        """Logits and the hidden states, as a dict."""
        x = self.hidden(self.embedding(words)) * self.scale + self.shift
        x = self.dropout(torch.relu(self.norm(x.transpose(1, 2)).transpose(1, 2)))
        x = x if mask is None else x * mask[..., None]
        return {"logits": self.output(x), "states": (x, None)}


class Updates(nn.Module):
    """Buffers that the forward pass writes, a layer that is called twice, and gradients that are cut in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
        self.norm = nn.BatchNorm1d(4)
        self.batch_norm = nn.BatchNorm1d(4, track_running_stats=False)
        self.gate = nn.Linear(4, 4)
        self.register_buffer("average", torch.ones(4))

    def forward(self, x: Any) -> Any:
        """The result alone."""
        if self.training:
            self.average.mul_(0.9).add_(0.1 * x.mean(0))
        with torch.no_grad():
            gate = torch.sigmoid(self.gate(x))
        h = self.layer(x)
        h = self.norm(self.norm(h) * 1.3 + h.detach() * gate)
        return self.batch_norm(h) * self.average + self.gate(x)


class Images(nn.Module):
    """Convolutions with statistics, of which one layer may stay in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, groups=2)
        self.fixed_norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 3)

    def forward(self, images: Any) -> Any:
        """The logits in a tuple."""
        x = torch.nn.functional.gelu(self.norm(self.first(images)))
        x = self.fixed_norm(self.second(x)).relu()
        return (self.head(x.mean((2, 3))),)


def tied() -> tuple[Any, dict[str, Any], Any]:
    """A module, its inputs by name, and the labels."""
    words = torch.tensor([[1, 5, 0, 7, 3], [2, 0, 0, 11, 4], [9, 8, 7, 6, 1]])
    mask = torch.tensor([[1, 1, 0, 1, 1], [1, 0, 0, 1, 1], [1, 1, 1, 1, 1]], dtype=torch.float32)
    return Tied(), {"words": words, "mask": mask}, torch.arange(15) % 12


def updates() -> tuple[Any, dict[str, Any], Any]:
    """A module, its inputs by name, and the labels."""
    return Updates(), {"x": X}, torch.arange(6) % 4


def images() -> tuple[Any, dict[str, Any], Any]:
    """A module, its inputs by name, and the labels."""
    module = Images()
    module.fixed_norm.eval()
    x = torch.randn(3, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    return module, {"images": x}, torch.arange(3)


NETWORKS = {"tied": tied, "updates": updates, "images": images}


def network(name: str) -> tuple[Any, dict[str, Any], Any]:
    """The module of a name with the same random weights each time, in training mode."""
    torch.manual_seed(0)
    module, inputs, labels = NETWORKS[name]()
    return module, inputs, labels


def logits_of(results: Any) -> Any:
    """The tensor among the results that the loss takes."""
    if isinstance(results, dict):
        return results["logits"]
    return results[0] if isinstance(results, tuple) else results


def trained(module: Any, inputs: dict[str, Any], labels: Any, steps: int, rate: float) -> list[float]:
    """The losses of steps of SGD with momentum in PyTorch, each before its update."""
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], rate, 0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        logits = logits_of(module(**inputs))
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
