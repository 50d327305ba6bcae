"""Models with gradients beside what PyTorch gave of the network that it exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

import graphls.onnx
from graphls.onnx.gradient import write_gradient
from tests.onnx.exports.agreement import Export, differences_of


def test_gradients_are_those_of_pytorch(tmp_path: Path) -> None:
    """The cotangent is the gradient of the mean cross entropy by the scores, softmax minus one-hot."""
    export = Export("mlp.torchscript")
    made = write_gradient(export.path, tmp_path / "g.onnx", ["*"])
    session = onnxruntime.InferenceSession(str(tmp_path / "g.onnx"), providers=["CPUExecutionProvider"])
    scores, labels = export.arrays["outputs"], export.arrays["labels"]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    cotangent = (powers / powers.sum(axis=1, keepdims=True) - np.eye(scores.shape[1])[labels]) / len(labels)
    feeds = {**export.feeds, made.cotangents[0]: cotangent.astype(np.float32)}
    outputs, *gradients = session.run(None, feeds)
    assert np.allclose(outputs, scores, atol=1e-5)
    values = [p.asnumpy() for p in graphls.onnx.load(export.path).get_parameters()]
    assert max(differences_of(values, gradients[len(export.feeds) :], export.arrays["gradients"])) < 1e-4
