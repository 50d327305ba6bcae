"""Gradients of the first step in PyTorch: `python -m benchmarks.peers.torch_gradients transformer full 8`."""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from benchmarks.peers import torch_networks
from benchmarks.peers.gradients import distance
from benchmarks.peers.rows import QUICK_ROWS, ROWS, Row, first_value


def gradients(row: Row, draw: int, is_low: bool) -> dict[str, np.ndarray]:
    """The gradients of a draw of weights and batch, in float32 or by autocast, by names of weights in graphls."""
    module = getattr(torch_networks, row.name)(**row.sizes).train()
    weights = torch_networks.named_parameters(module)
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(torch.from_numpy(first_value(name, tuple(weight.shape), draw)))
    x, labels = map(torch.from_numpy, row.batch(draw))
    with torch.autocast("cpu", torch.bfloat16, enabled=is_low):
        loss = cross_entropy(module(x.long() if row.words else x), labels.long())
    loss.backward()
    return {name: weight.grad.numpy() for name, weight in weights.items()}


if __name__ == "__main__":
    _, NAME, SIZE, DRAWS = sys.argv
    torch.set_num_threads(1 if SIZE == "quick" else torch.get_num_threads())
    ROW = (QUICK_ROWS if SIZE == "quick" else ROWS)[NAME]
    print(json.dumps([distance(gradients(ROW, d, True), gradients(ROW, d, False)) for d in range(int(DRAWS))]))
