"""Pretrained models that packages ship, where they are installed (`make test-models` installs them in a folder).

Outputs are those of ONNX Runtime, gradients those of differences in float64, ten steps lower the loss, and the saved
file gives on ONNX Runtime what the network gives.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import graphls
import graphls.onnx
from graphls import nn, ops
from tests.onnx.doubling import doubled, gradients_difference

FOLDER = Path(os.environ.get("GRAPHLS_MODELS", ".models"))
FILES = {
    **{name: f"silero_vad/data/{name}.onnx" for name in (
        "silero_vad", "silero_vad_16k_op15", "silero_vad_16k_sequence", "silero_vad_half", "silero_vad_op18_ifless",
        "silero_vad_openvino_16k",
    )},
    "magika": "magika/models/standard_v3_3/model.onnx",
    "rapidocr": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
}  # fmt: skip
SIZES: dict[str, tuple[int, ...]] = {
    "state": (2, 1, 128), "h": (1, 1, 128), "c": (1, 1, 128), "x": (2, 3, 48, 192)
}  # fmt: skip
DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


DETECTOR = "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"


def path_of(name: str) -> Path:
    path = FOLDER / FILES.get(name, name)
    if not path.exists():
        pytest.skip(f"{path} is not there; run `make test-models`")
    return path


def inputs_of(name: str, session: Any) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    found = {}
    for info in session.get_inputs():
        shape = SIZES.get(info.name) or tuple(n if isinstance(n, int) else 2 for n in info.shape)
        if name.startswith("silero") and info.name == "input":
            shape = (1, 5, 576) if len(info.shape) == 3 else (1, 576)
        if info.name == "sr":
            found[info.name] = np.array(16000)
        elif "int" in info.type:
            found[info.name] = draw.integers(0, 200, shape).astype(DTYPES[info.type])
        else:
            found[info.name] = draw.normal(size=shape).astype(DTYPES[info.type])
    return found


def loaded(name: str) -> tuple[Any, list[Any], Any, dict[str, Any]]:
    """The network, its arguments, the session of ONNX Runtime and its inputs."""
    path = path_of(name)
    session = onnxruntime.InferenceSession(path)
    feeds = inputs_of(name, session)
    net = graphls.onnx.load(path, fixed={"sr": feeds["sr"]} if "sr" in feeds else None)
    return net, [graphls.Tensor(feeds[n]) for n in net.open_inputs], session, feeds


def results(given: Any) -> list[Any]:
    return [y.asnumpy() for y in (given if isinstance(given, tuple) else (given,))]


class Loss(nn.Cell):
    """The mean square of what the outputs lack of 0.3."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def construct(self, *inputs: Any) -> Any:
        given = self.net(*inputs)
        outputs = given if isinstance(given, tuple) else (given,)
        wide = (ops.cast(y, graphls.float32) if y.dtype.is_half else y for y in outputs)
        return sum(ops.mean(ops.square(y - 0.3)) for y in wide)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_outputs_training_and_the_file(name: str, tmp_path: Path) -> None:
    net, arguments, session, feeds = loaded(name)
    tolerance = 2e-3 if "half" in name else 1e-5
    for y, wanted in zip(results(net(*arguments)), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=tolerance * max(1, np.abs(wanted).max()))
    graphls.onnx.save(net, tmp_path / "same.onnx")
    assert (tmp_path / "same.onnx").read_bytes() == path_of(name).read_bytes()
    step = nn.TrainOneStepCell(Loss(net), nn.Adam(net.trainable_params(), 1e-4))
    step.set_train()
    losses = [float(step(*arguments).asnumpy()) for _ in range(10)]
    assert losses[-1] < losses[0]
    net.set_train(False)
    graphls.onnx.save(net, tmp_path / "tuned.onnx")
    again = onnxruntime.InferenceSession(tmp_path / "tuned.onnx").run(None, feeds)
    for y, wanted in zip(results(net(*arguments)), again, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=tolerance * max(1, np.abs(wanted).max()))


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_gradients_are_those_of_differences_in_float64(name: str) -> None:
    """The model in float64: inputs, tensors, and what nodes cast to floats; each parameter along one direction."""
    model = onnx.load(path_of(name))
    feeds = inputs_of(name, onnxruntime.InferenceSession(path_of(name)))
    net = graphls.onnx.load(doubled(model), fixed={"sr": feeds["sr"]} if "sr" in feeds else None)
    feeds |= {"x": feeds["x"][:1, :, :, :96]} if name == "rapidocr" else {}  # whose 143 tensors take their time
    arrays = [feeds[n].astype(np.float64) if feeds[n].dtype == np.float32 else feeds[n] for n in net.open_inputs]
    arguments = [graphls.Tensor(array) for array in arrays]
    assert all(y.dtype == np.float64 for y in results(net(*arguments)))
    loss, parameters = Loss(net), list(net.trainable_params())
    loss.set_train(False)
    assert all(p.dtype is graphls.float64 for p in parameters)
    assert gradients_difference(loss, parameters, arguments) < 1e-5


@pytest.mark.slow
def test_the_detector_of_text_differs_by_the_sigmoid_of_onnx_runtime() -> None:
    """Of noise it gives probabilities of 1e-6, of which ONNX Runtime's Sigmoid has two digits: its error is 1e-7."""
    path, x = path_of(DETECTOR), np.random.default_rng(0).normal(size=(1, 3, 64, 64)).astype(np.float32)
    model = onnx.load(path)
    last = next(node for node in model.graph.node if node.op_type == "Sigmoid")
    wanted = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
    del model.graph.output[:]
    model.graph.output.add(name=last.input[0])
    (logits,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    found = graphls.onnx.load(model)(x).asnumpy()
    np.testing.assert_allclose(found, logits, rtol=1e-5, atol=1e-5 * np.abs(logits).max())
    y = graphls.onnx.load(path)(x).asnumpy()
    np.testing.assert_allclose(y, wanted, rtol=0, atol=3e-7)
    exact = graphls.onnx.load(doubled(onnx.load(path)))(x.astype(np.float64)).asnumpy()
    assert np.abs(y - exact).max() < 1e-4 * exact.max() < np.abs(wanted - exact).max()
