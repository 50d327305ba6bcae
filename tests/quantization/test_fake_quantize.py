"""Networks trained for 8-bit integers: ONNX's numbers, ranges, gradients, and what ONNX Runtime makes of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import graphls
import graphls.onnx
import graphls.train
from graphls import Tensor, nn, quantization
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.registry import lookup

Array = np.ndarray[Any, Any]


Sizes = list[Any]


def made(nodes: list[Any], weights: dict[str, Array], x: Sizes, y: Sizes, version: int = 19) -> onnx.ModelProto:
    """A model of `x` to `y`, which have these shapes."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, x)],
        [helper.make_tensor_value_info("y", 1, y)],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9)


def digits() -> onnx.ModelProto:
    """A classifier of images of digits."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Array:
        return rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))

    weights = {
        "c1.weight": draw(8, 1, 3, 3), "c1.bias": np.zeros(8), "c2.weight": draw(16, 8, 3, 3), "c2.bias": np.zeros(16),
        "hidden": draw(32, 256).T, "bias": np.zeros(32),
        "fc.weight": draw(10, 32), "fc.bias": np.zeros(10),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "c1.weight", "c1.bias"], ["a"], "c1", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "c2.weight", "c2.bias"], ["c"], "c2", pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("MatMul", ["e", "hidden"], ["f"], "hidden"),
        helper.make_node("Add", ["f", "bias"], ["s"]),
        helper.make_node("Relu", ["s"], ["g"]),
        helper.make_node("Gemm", ["g", "fc.weight", "fc.bias"], ["y"], "fc", transB=1),
    ]
    return made(nodes, weights, ["n", 1, 8, 8], ["n", 10])


def random(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("low", "high"), [(-1.25, 2.0), (0.0, 3.0), (-2.0, 0.0), (0.0, 0.0)])
def test_the_primitive_gives_what_onnx_gives(low: float, high: float) -> None:
    from graphls.onnx.quantized_saving import grid

    x = random(4, 50) * 2
    ends = np.float32(low), np.float32(high)
    scale, zero = grid(np.asarray(ends[0]), np.asarray(ends[1]), 255)
    kinds = ("QuantizeLinear", "xsz", "q"), ("DequantizeLinear", "qsz", "y")
    nodes = [helper.make_node(kind, [*inputs], [output]) for kind, inputs, output in kinds]
    model = made(nodes, {"s": scale}, [4, 50], [4, 50])
    model.graph.initializer.append(numpy_helper.from_array(zero.astype(np.uint8), "z"))
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    (found,) = lookup("fake_quantize").evaluate((x, *ends), {}, ())
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def trained(net: Any, inputs: Array, labels: Array, epochs: int, rate: float) -> None:
    loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    step = nn.TrainOneStepCell(loss, nn.Adam(net.trainable_params(), learning_rate=rate))
    step.set_train()
    rng = np.random.default_rng(0)
    for _ in range(epochs):
        order = rng.permutation(len(inputs))
        for start in range(0, len(order), 100):
            some = order[start : start + 100]
            step(Tensor(inputs[some]), Tensor(labels[some]))
    net.set_train(False)


def test_a_classifier_of_digits_computes_with_integers(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.images))
    images = (data.images[order, None] / 16).astype(np.float32)
    labels = data.target[order].astype(np.int32)
    seen, new = images[:1400], images[1400:]
    net = graphls.onnx.load(digits())
    trained(net, seen, labels[:1400], 5, 5e-3)

    def right(logits: Array) -> float:
        return float((logits.argmax(1) == labels[1400:]).mean())

    before = right(net(Tensor(new)).asnumpy())
    names = quantization.fake_quantize(net, Tensor(seen[:100]))
    assert names == ["c1.weight", "c2.weight", "hidden", "fc.weight"]
    trained(net, seen, labels[:1400], 1, 1e-3)
    logits = net(Tensor(new)).asnumpy()
    graphls.onnx.save_quantized(net, tmp_path / "int8.onnx")
    model = onnx.load(tmp_path / "int8.onnx")
    onnx.checker.check_model(model, full_check=True)
    step = np.ptp(logits) / 255
    (reference,) = ReferenceEvaluator(model).run(None, {"x": new})
    assert np.abs(reference - logits).max() < step
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(tmp_path / "int8.onnx", options, ["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": new})
    assert np.abs(found - logits).max() < 1.5 * step
    kinds = {node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node}
    assert {"QLinearConv", "QGemm"} <= kinds and not {"Conv", "FusedConv", "MatMul", "Gemm"} & kinds
    assert right(found) >= before - 0.01 and before > 0.9
    assert (tmp_path / "int8.onnx").stat().st_size < 0.5 * len(digits().SerializeToString())


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.out = nn.Dense(4, 4), nn.Dense(4, 4, has_bias=False), nn.Dense(4, 2)

    def construct(self, x: Any) -> Any:
        return self.out(self.q(x) * self.k(x))


def values(net: nn.Cell) -> dict[str, Array]:
    return {path: p.asnumpy() for path, p in net.parameters_and_names() if "input_range" in path}


def test_observed_ranges_follow_a_training() -> None:
    net, x = Net(), random(8, 4)
    quantization.fake_quantize(net, Tensor(x), momentum=0.25)
    first = values(net)
    assert first.keys() == {"q.input_range", "out.input_range"}  # the first two products read the same
    np.testing.assert_allclose(first["q.input_range"], [x.min(), x.max()], rtol=1e-6)
    net(Tensor(4 * x))
    assert np.array_equal(values(net)["q.input_range"], first["q.input_range"])
    net.set_train()
    net(Tensor(4 * x))
    np.testing.assert_allclose(values(net)["q.input_range"], 1.75 * first["q.input_range"], rtol=1e-5)
    net(Tensor(np.full((8, 4), np.inf, np.float32)))
    assert np.isfinite(values(net)["q.input_range"]).all()
    assert not any(p.requires_grad for path, p in net.parameters_and_names() if "input_range" in path)


def test_learned_ranges_have_gradients() -> None:
    net, x = Net(), random(8, 4)
    quantization.fake_quantize(net, Tensor(x), ranges="learned", match=["q*"])
    ends = dict(net.parameters_and_names())["q.input_range"]
    assert ends in net.trainable_params()
    np.testing.assert_allclose(ends.asnumpy(), [x.min(), x.max()], rtol=1e-6)
    ends.set_data(np.array([-1, 0.5], np.float32))
    by_x, by_ends = graphls.grad(lambda given: net(given).sum(), 0, [ends])(Tensor(x))
    by_x, (by_ends,) = by_x.asnumpy(), by_ends
    outside = (x < -1.01) | (x > 0.51)
    assert outside.any() and np.isfinite(by_x).all()
    assert by_ends.shape == (2,) and np.abs(by_ends.asnumpy()).min() > 0


def test_gradients_pass_straight_through_inside_of_a_range() -> None:
    net, x = nn.Dense(3, 2, has_bias=False), random(4, 3)
    quantization.fake_quantize(net, Tensor(x))
    dict(net.parameters_and_names())["weight.input_range"].set_data(np.array([-1, 1], np.float32))
    gradient = graphls.grad(lambda given: net(given).sum())(Tensor(x)).asnumpy()
    weight = net.weight.asnumpy()
    most = np.abs(weight).max(1, keepdims=True) / 127
    rounded = np.rint(weight / most) * most
    inside = (x >= -128 / 127.5) & (x <= 127 / 127.5)
    np.testing.assert_allclose(gradient, np.where(inside, rounded.sum(0), 0), rtol=1e-5)


def linear(*, version: int = 19) -> onnx.ModelProto:
    """Products of every kind: a weight that is transposed first, one of two products, kernels in groups, no bias."""
    nodes = [
        helper.make_node("Conv", ["x", "deep"], ["a"], "deep", group=4, kernel_shape=[3]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 1]),
        helper.make_node("Transpose", ["w"], ["v"], perm=[1, 0]),
        helper.make_node("MatMul", ["b", "v"], ["c"], "first"),
        helper.make_node("Tanh", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "v"], ["e"], "second"),
        helper.make_node("Add", ["e", "d"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["g"], "third"),
        helper.make_node("ReduceMax", ["w"], ["m"], keepdims=0),
        helper.make_node("Mul", ["g", "m"], ["y"]),
    ]
    return made(nodes, {"deep": random(4, 1, 3), "w": random(4, 4, seed=2) * 0.5}, [2, 4, 9], [2, 7, 4], version)


@pytest.mark.parametrize("per_channel", [True, False])
def test_weights_however_they_are_read(tmp_path: Path, per_channel: bool) -> None:
    net, x = graphls.onnx.load(linear()), random(2, 4, 9, seed=4)
    quantization.fake_quantize(net, Tensor(x), per_channel=per_channel)
    assert values(net).keys() == {"deep.input_range", "w.input_range", "w.input_range_1", "w.input_range_2"}
    found = net(Tensor(x)).asnumpy()
    graphls.onnx.save_quantized(net, tmp_path / "int8.onnx")
    model = onnx.load(tmp_path / "int8.onnx")
    assert "w" in {tensor.name for tensor in model.graph.initializer}  # which ReduceMax reads
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    graphls.onnx.save(net, tmp_path / "float.onnx")
    assert onnx.load(tmp_path / "float.onnx") == linear()


def test_networks_in_16_bits_are_rounded_in_float32() -> None:
    net, x = Net(), random(8, 4)
    quantization.fake_quantize(net, Tensor(x))
    expected = net(Tensor(x)).asnumpy()
    net.to_float(graphls.float16)
    np.testing.assert_allclose(net(Tensor(x)).asnumpy(), expected, atol=2e-2)


def test_errors(tmp_path: Path) -> None:
    net, x = graphls.onnx.load(linear(version=12)), Tensor(random(2, 4, 9))
    with pytest.raises(GraphValueError, match="computes no rounded products"):
        graphls.onnx.save_quantized(net, tmp_path / "int8.onnx")
    with pytest.raises(GraphValueError, match="no product with a weight that matches 'conv\\*'"):
        quantization.fake_quantize(net, x, match="conv*")
    with pytest.raises(GraphValueError, match="takes ranges among"):
        quantization.fake_quantize(net, x, ranges="guessed")
    with pytest.raises(GraphTypeError, match="takes inputs like those of the network"):
        quantization.fake_quantize(net)
    with pytest.raises(GraphTypeError, match="takes a Cell, not int"):
        quantization.fake_quantize(3, x)  # type: ignore[arg-type]
    quantization.fake_quantize(net, x)
    with pytest.raises(GraphValueError, match="rounded already"):
        quantization.fake_quantize(net, x)


def refused(model: onnx.ModelProto | Path, match: str, x: Any = None, holder: Any = None) -> None:
    """Assert that `fake_quantize` refuses a model, whose network then is as it was."""
    net = graphls.onnx.load(model)
    names = list(values(net))
    with pytest.raises(GraphValueError, match=match):
        quantization.fake_quantize(net if holder is None else holder(net), Tensor(random(2, 4, 9) if x is None else x))
    assert list(values(net)) == names and not net._passes


def test_what_could_not_be_saved_is_refused_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
        raise RuntimeError("no adapter.")

    class Holder(nn.Cell):
        def __init__(self, net: nn.Cell) -> None:
            super().__init__()
            self.net = net

        def construct(self, x: Any) -> Any:
            return self.net(x)

    refused(linear(), "rounded by itself, as save_quantized writes it: call fake_quantize on it", holder=Holder)
    with monkeypatch.context() as patch:
        patch.setattr(onnx.version_converter, "convert_version", refuse)
        text = "of version 12, and 13 is needed, to which onnx.version_converter cannot convert it: no adapter; export"
        refused(linear(version=12), text)
    model = linear(version=12)
    onnx.save(model, tmp_path / "x.onnx", save_as_external_data=True, location="x.bin", size_threshold=0)
    refused(tmp_path / "x.onnx", "cannot convert it, because its data is in files of its own: export it again")
    product = helper.make_function("own", "Twice", ["a", "b"], ["c"], [helper.make_node("MatMul", ["a", "b"], ["c"])],
                                   [helper.make_opsetid("", 19)])  # fmt: skip
    call = helper.make_node("Twice", ["x", "w"], ["y"], domain="own")
    model = made([call], {"w": random(9, 3)}, [2, 4, 9], [2, 4, 3])
    model.functions.append(product)
    model.opset_import.append(helper.make_opsetid("own", 1))
    refused(model, "No MatMul, Gemm or Conv of the graph of the model itself reads 'w'")
    half = made([helper.make_node("MatMul", ["x", "w"], ["y"])], {}, [2, 4, 9], [2, 4, 3])
    half.graph.initializer.append(numpy_helper.from_array(random(9, 3).astype(np.float16), "w"))
    for info in (half.graph.input[0], half.graph.output[0]):
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    refused(half, "takes weights in float32, and 'w' is in float16", random(2, 4, 9).astype(np.float16))


@pytest.mark.parametrize("version", [7, 9, 12])
@pytest.mark.parametrize("per_channel", [True, False])
def test_older_operators_are_converted(tmp_path: Path, version: int, per_channel: bool) -> None:
    model, x = digits(), random(3, 1, 8, 8)
    model.opset_import[0].version, model.ir_version = version, 3 if version < 9 else 4
    listed = {} if version > 8 else {t.name: t for t in model.graph.initializer}
    model.graph.input.extend(helper.make_tensor_value_info(n, 1, list(t.dims)) for n, t in listed.items())
    net = graphls.onnx.load(model)
    quantization.fake_quantize(net, Tensor(x), per_channel=per_channel)
    graphls.onnx.save_quantized(net, tmp_path / "int8.onnx")
    saved = onnx.load(tmp_path / "int8.onnx")
    assert saved.opset_import[0].version == (13 if per_channel else max(version, 10))
    onnx.checker.check_model(saved, full_check=True)
    session = onnxruntime.InferenceSession(tmp_path / "int8.onnx", providers=["CPUExecutionProvider"])
    found = net(Tensor(x)).asnumpy()
    (integers,) = session.run(None, {"x": x})
    assert np.abs(integers - found).max() < np.ptp(found) / 100
    plain = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.abs(integers - plain.run(None, {"x": x})[0]).max() < np.ptp(found) / 20
    graphls.onnx.save(net, tmp_path / "float.onnx")
    assert onnx.load(tmp_path / "float.onnx") == model


def test_a_conversion_that_changes_results_is_refused() -> None:
    model = linear(version=12)
    model.graph.node[4].op_type = "Hardmax"  # of all axes from 1 on until version 12, and of the last one from 13 on
    refused(model, "changes what the model computes from version 12 to 13; export it again")


def test_a_network_of_cells_is_exported_and_loaded_for_integers(tmp_path: Path) -> None:
    layers = nn.Conv2d(2, 4, 3, pad_mode="pad", padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dense(64, 3)
    net, x = nn.SequentialCell(*layers), Tensor(random(3, 2, 4, 4))
    graphls.train.export(net, x, file_name=tmp_path / "net.onnx", file_format="ONNX")
    loaded = graphls.onnx.load(tmp_path / "net.onnx")
    assert len(quantization.fake_quantize(loaded, x)) == 2
    graphls.onnx.save_quantized(loaded, tmp_path / "int8.onnx")
    found = loaded(x).asnumpy()
    np.testing.assert_allclose(found, net.set_train(False)(x).asnumpy(), atol=np.ptp(found) / 20)
    session = onnxruntime.InferenceSession(tmp_path / "int8.onnx", providers=["CPUExecutionProvider"])
    (integers,) = session.run(None, {session.get_inputs()[0].name: x.asnumpy()})
    assert np.abs(integers - found).max() < np.ptp(found) / 255


def test_a_rounded_network_of_cells_is_exported_with_its_numbers(tmp_path: Path) -> None:
    net, x = Net(), Tensor(random(8, 4))
    quantization.fake_quantize(net, x)
    graphls.train.export(net, x, file_name=tmp_path / "net.onnx", file_format="ONNX")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.asnumpy()})
    np.testing.assert_allclose(found, net(x).asnumpy(), atol=1e-5)
