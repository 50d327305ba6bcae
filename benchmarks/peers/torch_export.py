"""Writes the networks with PyTorch's two exporters: `python -m benchmarks.peers.torch_export FOLDER NETWORK...`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch

from benchmarks.export_rows import ROWS, inputs
from benchmarks.peers import torch_networks
from benchmarks.peers.rows import Row, first_value


def module_of(row: Row) -> torch.nn.Module:
    """A network with the first values that graphls' has, in evaluation mode."""
    module: torch.nn.Module = getattr(torch_networks, row.name)(**row.sizes)
    with torch.no_grad():
        for name, parameter in torch_networks.named_parameters(module).items():
            parameter.copy_(torch.from_numpy(first_value(name, tuple(parameter.shape))))
    return module.eval()


def write(row: Row, folder: Path) -> None:
    """Export a network with both exporters, for any number of rows."""
    module, x = module_of(row), torch.from_numpy(inputs(row, 2))
    batch = torch.export.Dim("batch")
    torch.onnx.export(
        module, (x,), folder / f"{row.name}.dynamo.onnx", dynamo=True, input_names=["x"], dynamic_shapes=({0: batch},),
        external_data=False, verbose=False,
    )  # fmt: skip
    torch.onnx.export(
        module, (x,), folder / f"{row.name}.script.onnx", dynamo=False, input_names=["x"],
        dynamic_axes={"x": {0: "batch"}},
    )  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in sys.argv[2:]:
        write(ROWS[each], Path(sys.argv[1]))
