"""Writes files/optimizers.safetensors and files/training.pt: optimizers of PyTorch 2.13, and how they go on.

Run by hand where PyTorch is installed: `python -m tests.interop.record_optimizers`. Of each case the first has the
weights as `<case>.w.<name>` and the states as `<case>.s.<number>.<key>` after some updates, and the losses of those
that follow as `<case>.losses`; its metadata has the groups of each case as JSON. The second holds one case as a
training saves it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILES = Path(__file__).parent / "files"
BEFORE, AFTER = 5, 5

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    "sgd_plain": ("SGD", {"lr": 0.1}),
    "sgd_nesterov": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {"lr": 0.01}),
    "adam_decay": ("Adam", {"lr": 0.01, "weight_decay": 0.1}),
    "adamw": ("AdamW", {"lr": 0.01, "amsgrad": True, "weight_decay": 0.05}),
    "adamw_groups": ("AdamW", {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1}),
    "attention": ("AdamW", {"lr": 0.01}),
    "adagrad": ("Adagrad", {"lr": 0.05}),
    "adagrad_slowed": ("Adagrad", {"lr": 0.05, "lr_decay": 0.1}),
    "rmsprop": ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True}),
    "adadelta": ("Adadelta", {"lr": 1.0, "weight_decay": 0.01}),
    "adamax": ("Adamax", {"lr": 0.02}),
    "rprop": ("Rprop", {"lr": 0.01}),
    "asgd": ("ASGD", {"lr": 0.1, "lambd": 0.01, "t0": 3.0}),
    "nadam": ("NAdam", {"lr": 0.01}),
    "radam": ("RAdam", {"lr": 0.01}),
}


def plain(torch: Any) -> Any:
    """Two products, and a normalisation between them."""
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.LayerNorm(5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


def joined(torch: Any) -> Any:
    """Projections that are joined and stored transposed, as those of GPT-2."""

    class Conv1D(torch.nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(inputs, outputs) * 0.3)
            self.bias = torch.nn.Parameter(torch.zeros(outputs))

        def forward(self, x: Any) -> Any:
            return x @ self.weight + self.bias

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c_attn, self.c_proj = Conv1D(6, 18), Conv1D(6, 3)

        def forward(self, x: Any) -> Any:
            q, k, v = self.c_attn(x).split(6, -1)
            return self.c_proj(torch.tanh(q * k) + v)

    return Attention()


def grouped(module: Any) -> list[dict[str, Any]]:
    """Weights that decay, and others, in an order that is not the module's."""
    named = [*module.named_parameters()]
    decaying = [p for name, p in named if p.ndim > 1]
    return [{"params": [p for name, p in named if p.ndim == 1], "weight_decay": 0.0, "lr": 0.05}, {"params": decaying}]


def record() -> None:
    """Write all files."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(3)
    x, y = torch.randn(8, 6), torch.randn(8, 3)
    tensors: dict[str, Any] = {"x": x, "y": y}
    groups: dict[str, str] = {}
    for case, (kind, settings) in CASES.items():
        module = joined(torch) if case == "attention" else plain(torch)
        given = grouped(module) if case == "adamw_groups" else module.parameters()
        optimizer = getattr(torch.optim, kind)(given, **settings)

        def update(module: Any = module, optimizer: Any = optimizer) -> float:
            optimizer.zero_grad()
            loss = ((module(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        for _ in range(BEFORE):
            update()
        saved = optimizer.state_dict()
        if case == "adamw":
            schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [30, 40]).state_dict()
            content = {"epoch": 1, "model": module.state_dict(), "optimizer": saved, "schedule": schedule}
            torch.save(content, FILES / "training.pt")
        tensors.update({f"{case}.w.{name}": weight.clone() for name, weight in module.state_dict().items()})
        for number, state in saved["state"].items():
            known = {key: torch.as_tensor(value) for key, value in state.items() if value is not None}
            tensors.update({f"{case}.s.{number}.{key}": value.clone() for key, value in known.items()})
        groups[case] = json.dumps(saved["param_groups"])
        tensors[f"{case}.losses"] = torch.tensor([update() for _ in range(AFTER)])
    save_file(tensors, FILES / "optimizers.safetensors", groups)


if __name__ == "__main__":
    record()
