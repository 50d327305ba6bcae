"""The contenders: a framework, a precision, and the way in which the framework is used."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Protocol, SupportsFloat, cast

from benchmarks.peers.rows import Row


@dataclass(frozen=True)
class Contender:
    """A way to train a network.

    `framework` is "graphls", "torch" or "jax"; `precision` is "float32", "scaled", float32 with dynamic loss scaling,
    or "bfloat16", in which normalisations and the loss stay float32; for graphls also the name of a recipe, such as
    "mxfp8". `engine` is graphls's. The rest is for PyTorch.
    """

    name: str
    framework: str
    precision: str = "float32"
    engine: str = ""
    channels_last: bool = False
    compiled: bool = False
    fused: bool = False

    def takes(self, row: Row) -> bool:
        """Returns whether it takes part in a row: the order of channels matters for images alone."""
        return row.images or not self.channels_last


class Training(Protocol):
    """A network in training on one batch."""

    def set_values(self) -> None:
        """Give every parameter its first value."""

    def step(self) -> SupportsFloat:
        """One step, which is complete when it returns; returns the loss. The first one compiles."""


class Framework(Protocol):
    """The module of a framework."""

    def load(self, contender: Contender) -> None:
        """Import modules that are otherwise imported late, so that they are not part of the first step."""

    def Training(self, row: Row, contender: Contender) -> Training:
        """Build the network and its optimizer."""


CONTENDERS = (
    Contender("graphls", "graphls"),
    Contender("graphls-scaled", "graphls", "scaled"),
    Contender("onednn", "graphls", engine="onednn"),
    Contender("onednn-scaled", "graphls", "scaled", engine="onednn"),
    Contender("xla", "graphls", engine="xla"),
    Contender("xla-scaled", "graphls", "scaled", engine="xla"),
    Contender("torch-eager", "torch"),
    Contender("torch-fused", "torch", fused=True),
    Contender("torch-channels-last", "torch", channels_last=True, fused=True),
    Contender("torch-compile", "torch", compiled=True, fused=True),
    Contender("jax", "jax"),
    Contender("jax-scaled", "jax", "scaled"),
    Contender("graphls-bfloat16", "graphls", "bfloat16"),
    Contender("onednn-bfloat16", "graphls", "bfloat16", engine="onednn"),
    Contender("xla-bfloat16", "graphls", "bfloat16", engine="xla"),
    Contender("jax-bfloat16", "jax", "bfloat16"),
    Contender("torch-autocast", "torch", "bfloat16", fused=True),
    Contender("torch-autocast-channels-last", "torch", "bfloat16", channels_last=True, fused=True),
)
"""In the order in which they are started, so that those that are compared run at the same time."""


def chosen(patterns: str) -> list[Contender]:
    """The contenders whose names fit one of the patterns, between commas; raises SystemExit for one that fits none."""
    requested = patterns.split(",")
    for pattern in requested:
        if not any(fnmatchcase(contender.name, pattern) for contender in CONTENDERS):
            raise SystemExit(f"There is no contender {pattern!r}; there are {', '.join(c.name for c in CONTENDERS)}.")
    return [contender for contender in CONTENDERS if any(fnmatchcase(contender.name, p) for p in requested)]


def framework_of(contender: Contender) -> Framework:
    """Import the framework; raises ImportError where it is not installed."""
    module: Any = import_module(f"benchmarks.peers.{contender.framework}_training")
    module.load(contender)
    return cast(Framework, module)
