"""Networks that other frameworks exported: outputs, gradients and training are those of the framework.

One file of each network; `python -m tests.onnx.exports` compares all of them, and tests/onnx/exports/make makes them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphls
from tests.onnx.exports.agreement import (
    FILES,
    Export,
    gradients_difference,
    losses_difference,
    outputs_difference,
    trained,
)

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


@pytest.mark.parametrize("name", ["bert.dynamo", "mobilenet_v3.dynamo", "lstm_tagger.torchscript"])
def test_half_precision_with_loss_scaling_trains_as_well(name: str) -> None:
    export = Export(name)
    _, losses = trained(export, "O2")
    np.testing.assert_allclose(losses, export.arrays["losses"], rtol=2e-2)


@pytest.mark.parametrize("name", ["gpt2.dynamo", "t5.torchscript"])
def test_an_open_batch_takes_another_size(name: str) -> None:
    export = Export(name)
    feeds = {key: np.concatenate([array, array[:1]]) for key, array in export.feeds.items()}
    (wanted,) = onnxruntime.InferenceSession(export.path).run(None, feeds)
    found = export.load()(*map(graphls.Tensor, feeds.values())).asnumpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
