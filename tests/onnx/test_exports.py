"""Networks that other frameworks exported: outputs, gradients and training are those of the framework.

One file of each network; `python -m tests.onnx.exports` compares all of them, and tests/onnx/exports/make makes them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.onnx.exports.agreement import FILES, Export, gradients_difference, losses_difference, outputs_difference

NAMES = sorted(path.stem for path in FILES.glob("*.npz"))


def export_of(name: str) -> Export:
    """The file of one exporter, of each in turn."""
    files = sorted(path.stem for path in FILES.glob(f"{name}.*onnx"))
    return Export(files[NAMES.index(name) % len(files)])


@pytest.mark.parametrize("name", NAMES)
def test_outputs_gradients_and_training_are_those_of_the_framework(name: str, tmp_path: Path) -> None:
    export = export_of(name)
    assert outputs_difference(export) < 1e-5
    assert gradients_difference(export) < 1e-4
    losses, saved = losses_difference(export, tmp_path)
    assert losses < 1e-3
    assert saved < 1e-5
