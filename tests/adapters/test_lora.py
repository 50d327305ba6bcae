"""Adapters of low rank: the numbers of PEFT, what is trained, what is merged, and the errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import graphls
import graphls.onnx
from graphls import Tensor, adapters, context, nn, quantization
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.graph import walk
from tests.onnx.exports.agreement import Export

Array = np.ndarray[Any, Any]


class Numbers:
    """What the script that asked PEFT has drawn, in the same order."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)

        def draw(*shape: int) -> Array:
            return (rng.standard_normal(shape) * 0.3).astype(np.float32)

        self.weights = {
            "conv.weight": draw(6, 3, 3), "conv.bias": draw(6), "onnx::MatMul_9": draw(5, 6),
            "head.weight": draw(4, 5), "head.bias": draw(4),
        }  # fmt: skip
        self.adapters = {
            "conv": (draw(2, 3, 3), draw(6, 2, 1)), "q_proj": (draw(2, 6), draw(5, 2)), "head": (draw(2, 5), draw(4, 2))
        }  # fmt: skip
        self.inputs = draw(5, 8, 3, 7)
        self.labels = rng.integers(0, 4, (5, 8)).astype(np.int32)


# PEFT 0.21.2 on torch 2.13: LoraConfig(r=2, lora_alpha=6) on Conv1d(3, 6, 3, padding=1, stride=2), Linear(6, 5), relu,
# the mean over windows and Linear(5, 4), five steps of Adam(lr=1e-2) with cross_entropy; then the first row of the
# result for inputs[0].
LOSSES = [1.4254749, 1.4703453, 1.389187, 1.5139152, 1.3901793]
LOGITS = [-0.24747584760189056, -0.33187440037727356, -0.12375647574663162, -0.09283237904310226]


def model(weights: dict[str, Array], dtype: int = onnx.TensorProto.FLOAT) -> onnx.ModelProto:
    """The network as PyTorch's exporter writes it: a weight that it has transposed has a name of its own."""
    held = {**weights, "onnx::MatMul_9": weights["onnx::MatMul_9"].T}
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], "/conv/Conv", pads=[1, 1], strides=[2]),
        helper.make_node("Transpose", ["c"], ["t"], "/Transpose", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "onnx::MatMul_9"], ["q"], "/q_proj/MatMul"),
        helper.make_node("Relu", ["q"], ["r"], "/Relu"),
        helper.make_node("ReduceMean", ["r"], ["m"], "/ReduceMean", axes=[1], keepdims=0),
        helper.make_node("Gemm", ["m", "head.weight", "head.bias"], ["logits"], "/head/Gemm", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", dtype, ["batch", 3, "length"])],
        [helper.make_tensor_value_info("logits", dtype, ["batch", 4])],
        [numpy_helper.from_array(np.ascontiguousarray(array).astype(kind), name) for name, array in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def network(dtype: int = onnx.TensorProto.FLOAT) -> Any:
    return graphls.onnx.load(model(Numbers().weights, dtype))


def with_numbers(net: Any, numbers: Numbers) -> Any:
    """The network with the adapters that PEFT had."""
    adapters.lora(net, rank=2, alpha=6)
    parameters = dict(net.parameters_and_names())
    for module, pair in numbers.adapters.items():
        weight = "onnx::MatMul_9" if module == "q_proj" else module
        for which, array in zip("AB", pair, strict=True):
            parameters[f"{weight}.lora_{which}.weight"].set_data(array)
    return net


def loss_of(net: Any) -> Any:
    return nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))


def train(net: Any, numbers: Numbers) -> list[float]:
    step = nn.TrainOneStepCell(loss_of(net), nn.Adam(net.trainable_params(), learning_rate=1e-2))
    step.set_train()
    pairs = zip(numbers.inputs, numbers.labels, strict=True)
    return [float(step(Tensor(x), Tensor(y))) for x, y in pairs]


def test_the_numbers_of_peft() -> None:
    numbers = Numbers()
    net = with_numbers(network(), numbers)
    np.testing.assert_allclose(train(net, numbers), LOSSES, rtol=1e-5)
    x = Tensor(numbers.inputs[0])
    np.testing.assert_allclose(net(x).asnumpy()[0], LOGITS, atol=1e-5)
    frozen = dict(net.parameters_and_names())
    assert np.array_equal(frozen["head.bias"].asnumpy(), numbers.weights["head.bias"])
    adapters.merge(net)
    np.testing.assert_allclose(net(x).asnumpy()[0], LOGITS, atol=1e-5)


def test_a_network_gives_what_it_gave_until_its_adapters_are_trained() -> None:
    x = Tensor(Numbers().inputs[0])
    net = network()
    before = net(x).asnumpy()
    assert adapters.lora(net, rank=3, match=["*_proj", "head"]) == ["q_proj", "head"]
    assert np.array_equal(net(x).asnumpy(), before)
    shapes = {path: p.shape for path, p in net.parameters_and_names() if p.requires_grad}
    assert shapes == {
        "onnx::MatMul_9.lora_A.weight": (3, 6), "onnx::MatMul_9.lora_B.weight": (5, 3),
        "head.lora_A.weight": (3, 5), "head.lora_B.weight": (4, 3),
    }  # fmt: skip


def test_frozen_weights_have_no_gradient_and_no_moments() -> None:
    numbers, net = Numbers(), network()
    adapters.lora(net, rank=2, match="q_proj")
    step = nn.TrainOneStepCell(loss_of(net), nn.Adam(net.trainable_params(), learning_rate=1e-2))
    step.set_train()
    graph = graphls.compile(step, Tensor(numbers.inputs[0]), Tensor(numbers.labels[0])).graph
    assert not [state.name for state in graph.states if "moment" in state.name and "lora" not in state.name]
    backward = [node for node in walk(graph) if node.phase == "backward"]
    sizes = {value.type.shape for node in backward for value in node.outputs}
    assert sizes.isdisjoint({(6, 5), (5, 6), (6, 3, 3)})
    assert not [node for node in backward if node.primitive.is_convolution]


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, has_bias=True, pad_mode="pad", padding=1)
        self.fc = nn.Dense(16, 3)
        self.free = graphls.Parameter(np.full((3, 3), 0.5, np.float32), "free")

    def construct(self, x: Any) -> Any:
        y = graphls.ops.relu(self.conv(x)).mean((3,)).reshape((x.shape[0], -1))
        return graphls.ops.matmul(self.fc(y), self.free.T)


@pytest.fixture
def images() -> Any:
    return Tensor(np.random.default_rng(3).standard_normal((5, 2, 4, 4)).astype(np.float32))


def changed(net: Any) -> None:
    """Give every B numbers, so that the adapters do something."""
    rng = np.random.default_rng(1)
    for path, parameter in net.parameters_and_names():
        if path.endswith("lora_B.weight"):
            parameter.set_data(rng.standard_normal(parameter.shape).astype(np.float32))


def test_any_network_on_example_inputs(images: Any) -> None:
    net = Net()
    before = net(images).asnumpy()
    assert adapters.lora(net, images, rank=2, alpha=3) == ["conv", "fc", "free"]
    changed(net)
    after = net(images).asnumpy()
    assert np.abs(after - before).max() > 0.1
    adapters.merge(net)
    np.testing.assert_allclose(net(images).asnumpy(), after, rtol=1e-5, atol=1e-5)
    assert len(net.trainable_params()) == 5 and "fc.lora_A.weight" not in dict(net.parameters_and_names())


def gradients(net: Any, x: Any) -> list[Array]:
    found = graphls.grad(lambda given: (net(given) ** 2).mean(), None, net.trainable_params())(x)
    return [gradient.asnumpy() for gradient in found]


def test_recomputed_and_eager_networks_have_their_adapters(images: Any) -> None:
    net = Net()
    adapters.lora(net, images, rank=2)
    changed(net)
    expected, values = gradients(net, images), net(images).asnumpy()
    assert len(expected) == 6 and all(np.abs(gradient).max() > 0 for gradient in expected)
    net.recompute()
    assert all(map(np.allclose, gradients(net, images), expected))
    context.set_context(mode=context.PYNATIVE_MODE)
    try:
        assert np.array_equal(net(images).asnumpy(), values)
    finally:
        context.reset_context()


@pytest.mark.parametrize("level", ["O3", "float16"])
def test_networks_in_16_bits(images: Any, level: str) -> None:
    net = Net()
    adapters.lora(net, images, rank=2)
    changed(net)
    expected = gradients(net, images)
    if level == "float16":
        net.to_float(graphls.float16)
    else:
        graphls.amp.auto_mixed_precision(net, level)
    for found, wanted in zip(gradients(net, images), expected, strict=True):
        np.testing.assert_allclose(found.astype(np.float32), wanted, atol=2e-2 * np.abs(wanted).max())


def test_weights_in_float16_stay_so_beside_adapters_in_float32() -> None:
    numbers, net = Numbers(), network(onnx.TensorProto.FLOAT16)
    with_numbers(net, numbers)
    assert {p.dtype for p in net.trainable_params()} == {graphls.float32}
    manager = nn.DynamicLossScaleUpdateCell(2.0**8, 2, 100)
    step = nn.TrainOneStepWithLossScaleCell(
        loss_of(net), nn.Adam(net.trainable_params(), learning_rate=1e-2), manager
    )
    step.set_train()
    losses = []
    for x, y in zip(numbers.inputs, numbers.labels, strict=True):
        loss, overflow, _ = step(Tensor(x.astype(np.float16)), Tensor(y))
        losses.append(float(loss))
        assert not bool(overflow)
    np.testing.assert_allclose(losses, LOSSES, rtol=2e-3)
    adapters.merge(net)
    assert dict(net.parameters_and_names())["head.weight"].dtype is graphls.float16


def test_a_part_of_a_network(images: Any) -> None:
    class Outer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.head = Net(), nn.Dense(3, 2)

        def construct(self, x: Any) -> Any:
            return self.head(self.backbone(x) + self.backbone(x * 2))

    outer = Outer()
    adapters.lora(outer.backbone, images, rank=1, match="fc")
    assert [p.name for p in outer.backbone.trainable_params()] == [
        "backbone.fc.lora_A.weight", "backbone.fc.lora_B.weight"
    ]  # fmt: skip
    changed(outer)
    values = outer(images).asnumpy()
    graph = graphls.compile(outer, images).graph
    assert {state.name for state in graph.states} >= {"backbone.fc.lora_A.weight", "backbone.fc.lora_B.weight"}
    adapters.merge(outer)
    np.testing.assert_allclose(outer(images).asnumpy(), values, rtol=1e-5, atol=1e-6)


def test_parameters_that_stay_trained() -> None:
    net = network()
    adapters.lora(net, rank=2, match="q_proj", trainable="head.*")
    assert {p.name for p in net.trainable_params()} == {
        "head.weight", "head.bias", "onnx::MatMul_9.lora_A.weight", "onnx::MatMul_9.lora_B.weight"
    }  # fmt: skip


def test_saving_the_model_waits_for_the_merge(tmp_path: Any) -> None:
    net = network()
    adapters.lora(net, rank=2)
    with pytest.raises(GraphValueError, match="no place for adapters; merge them"):
        graphls.onnx.save(net, tmp_path / "tuned.onnx")
    adapters.merge(net)
    graphls.onnx.save(net, tmp_path / "tuned.onnx")
    assert onnx.load(tmp_path / "tuned.onnx").graph == model(Numbers().weights).graph


def test_errors(images: Any) -> None:
    net = network()
    with pytest.raises(GraphValueError, match="No weight of a product matches '\\*k_proj'; there are 'q_proj'"):
        adapters.lora(net, match="*k_proj")
    with pytest.raises(GraphValueError, match="'rank' must be int and must > 0"):
        adapters.lora(net, rank=0)
    with pytest.raises(GraphValueError, match="has no adapters"):
        adapters.merge(net)
    with pytest.raises(GraphValueError, match="No parameter of the network matches 'none'"):
        adapters.lora(net, trainable="none")
    adapters.lora(net)
    with pytest.raises(GraphValueError, match="has adapters or rounded products already; merge"):
        adapters.lora(net)
    with pytest.raises(GraphValueError, match="rounded already, or have adapters; merge these first"):
        quantization.fake_quantize(net, Tensor(Numbers().inputs[0]))
    with pytest.raises(GraphValueError, match="give inputs like those it takes"):
        adapters.lora(Net())
    with pytest.raises(GraphTypeError, match="takes a Cell, not str"):
        adapters.lora("model.onnx")  # type: ignore[arg-type]


def test_weights_that_are_used_otherwise_have_no_adapter() -> None:
    class Tied(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.fc = graphls.Parameter(np.ones((5, 4), np.float32), "table"), nn.Dense(4, 4)

        def construct(self, words: Any) -> Any:
            return graphls.ops.matmul(self.fc(graphls.ops.gather(self.table, words, 0)), self.table.T)

    words = Tensor(np.array([0, 3], np.int32))
    assert adapters.lora(Tied(), words) == ["fc"]
    nodes = [
        helper.make_node("Gather", ["table", "words"], ["a"]),
        helper.make_node("MatMul", ["a", "fc.weight"], ["b"]),
        helper.make_node("Transpose", ["table"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["b", "t"], ["y"]),
    ]
    weights = {"table": np.ones((5, 4), np.float32), "fc.weight": np.ones((4, 4), np.float32)}
    graph = helper.make_graph(
        nodes,
        "tied",
        [helper.make_tensor_value_info("words", onnx.TensorProto.INT32, [2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 5])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opset = helper.make_opsetid("", 17)
    assert adapters.lora(graphls.onnx.load(helper.make_model(graph, opset_imports=[opset]))) == ["fc"]


@pytest.mark.parametrize("name", ["bert.dynamo", "bert.torchscript", "gpt2.dynamo"])
def test_modules_are_called_as_in_pytorch(name: str) -> None:
    net = Export(name).load()
    modules = adapters.lora(net, rank=2)
    if name.startswith("gpt2"):
        layer = "network.transformer.h.0"
        assert modules[:4] == [f"{layer}.{part}" for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")]
    else:
        layer = "network.bert.encoder.layer.0"
        parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
        parts += ["attention.output.dense", "intermediate.dense", "output.dense"]
        assert modules[:6] == [f"{layer}.{part}" for part in parts]
