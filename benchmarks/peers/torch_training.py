"""A training step in PyTorch."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

import torch
from torch.nn.functional import cross_entropy

from benchmarks.peers import torch_networks
from benchmarks.peers.contenders import Contender
from benchmarks.peers.rows import Row, first_value


def load(contender: Contender) -> None:
    """Import what PyTorch imports when it first needs it, and set the number of threads."""
    import_module("torch._dynamo")  # optimizers do
    if contender.compiled:
        import_module("torch._inductor.compile_fx")
    torch.set_num_threads(len(os.sched_getaffinity(0)))


class Training:
    """A module and its optimizer."""

    def __init__(self, row: Row, contender: Contender) -> None:
        self.row, self.contender = row, contender
        self.layout = torch.channels_last if contender.channels_last else torch.contiguous_format
        x, labels = map(torch.from_numpy, row.batch())
        self.x = x.to(memory_format=self.layout) if row.images else x.long() if row.words else x
        self.labels = labels.long()
        module = getattr(torch_networks, row.name)(**row.sizes).train()
        self.module = module.to(memory_format=self.layout) if row.images else module
        self.optimizer = self._optimizer()
        self.loss = torch.compile(self._loss) if contender.compiled else self._loss

    def _optimizer(self) -> torch.optim.Optimizer:
        fused = True if self.contender.fused else None
        if self.row.optimizer == "adam":
            return torch.optim.Adam(self.module.parameters(), self.row.rate, fused=fused)
        return torch.optim.SGD(self.module.parameters(), self.row.rate, momentum=0.9, fused=fused)

    def _loss(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(self.module(x), labels)

    def _precision(self) -> AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16) if self.contender.precision == "bfloat16" else nullcontext()

    def set_values(self) -> None:
        """Give every parameter its first value."""
        with torch.no_grad():
            for name, parameter in torch_networks.named_parameters(self.module).items():
                parameter.copy_(torch.from_numpy(first_value(name, tuple(parameter.shape))))

    def step(self) -> torch.Tensor:
        """One step."""
        self.optimizer.zero_grad()
        with self._precision():
            loss = self.loss(self.x, self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()
