"""Levels of mixed precision: the dtype that every layer sees, and what stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops
from graphls.ir.errors import GraphTypeError, GraphValueError

BACKENDS = ["numpy", "onnxruntime"]
HALVES = [graphls.float16, graphls.bfloat16]
LEVELS = ["O1", "O2", "O3", "auto"]
F32 = np.float32
IMAGES = np.random.default_rng(0).normal(size=(4, 2, 6, 6)).astype(F32)


class Net(nn.Cell):
    """Notes the dtype behind every layer while it is traced."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.conv_bias = nn.Conv2d(3, 3, 3, has_bias=True)
        self.bn = nn.BatchNorm2d(3)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.sequence = nn.SequentialCell(nn.BatchNorm1d(108), nn.Dense(108, 5, has_bias=False))
        self.dense = nn.Dense(5, 4)
        self.softmax = nn.Softmax()
        self.weight = graphls.Parameter(np.ones((4, 4), F32), name="weight")
        self.seen: dict[str, str] = {}

    def note(self, name: str, x: Any) -> Any:
        self.seen[name] = x.dtype.name
        return x

    def construct(self, x: Any) -> Any:
        x = self.note("conv", self.conv(x))
        x = self.note("conv_bias", self.conv_bias(x))
        x = self.note("bn", self.bn(x))
        x = self.note("relu", self.relu(x))
        x = self.note("sequence", self.sequence(self.flatten(x)))
        x = self.note("dense", self.dense(x))
        x = self.note("matmul", ops.matmul(x, self.weight))
        x = self.note("tanh", ops.tanh(x))
        self.note("square", ops.square(x))
        self.note("power", x**2)
        x = self.note("exp", ops.exp(x))
        x = self.note("softmax", self.softmax(x))
        return self.note("product", ops.matmul(x, ops.transpose(self.weight, (1, 0))))


def dtypes(low: str) -> dict[str, dict[str, str]]:
    names = ["conv", "conv_bias", "bn", "relu", "sequence", "dense", "matmul", "tanh", "square", "power", "exp"]
    names += ["softmax", "product"]
    halves = {"conv", "sequence", "matmul", "tanh", "square", "product"}
    halves |= {"conv_bias", "dense"} if low == "bf16" else set()  # one operation with the bias
    return {
        "O1": dict.fromkeys(names, "f32"),
        "O2": dict.fromkeys(names, low),
        "O3": dict.fromkeys(names, low),
        "auto": {name: low if name in halves else "f32" for name in names},
    }


@pytest.mark.parametrize("low", HALVES)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_dtypes_of_layers(backend: str, level: str, low: Any) -> None:
    plain = Net()
    names = [p.name for p in plain.get_parameters()]
    expected = plain(IMAGES).asnumpy()
    net = amp.auto_mixed_precision(plain, level, low)
    y = graphls.compile(net, IMAGES, backend=backend)(IMAGES)
    assert plain.seen == dtypes(low.name)[level]
    assert y.dtype is (low if level == "auto" else graphls.float32)
    assert [p.name for p in net.get_parameters()] == names
    assert {p.dtype for p in net.get_parameters()} == {graphls.float32}
    np.testing.assert_allclose(y.asnumpy().astype(F32), expected, atol=0.1, rtol=0.1)


def computed_in(graph: Any, primitive: str) -> set[str]:
    return {v.type.dtype.name for n in graph.nodes if n.primitive.name == primitive for v in n.inputs}


def test_what_each_level_computes_in() -> None:
    found = {}
    for level in LEVELS:
        graph = graphls.trace_graph(amp.auto_mixed_precision(Net(), level), IMAGES).graph
        names = ("convolution", "relu", "matmul", "rsqrt", "exp", "softmax", "tanh", "square")
        found[level] = [computed_in(graph, name) for name in names]
    low, wide = {"f16"}, {"f32"}
    assert found == {
        "O1": [low, low, low, wide, wide, wide, wide, wide],
        "O2": [low, low, low, wide, low, low, low, low],
        "O3": [low, low, low, wide, low, low, low, low],
        "auto": [low, wide, low, wide, wide, wide, low, low | wide],
    }


def test_pairs_of_casts_between_lowered_operations_go_away() -> None:
    class Chain(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Dense(4, 4), nn.Dense(4, 4)

        def construct(self, x: Any) -> Any:
            return self.second(ops.relu(self.first(x)))

    x = np.ones((2, 4), F32)
    step = graphls.compile(amp.auto_mixed_precision(Chain(), "O1"), x, backend="numpy")
    casts = [n for n in step.graph.nodes if n.primitive.name == "cast"]
    assert sum(n.output.type.dtype is graphls.float32 for n in casts) == 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_float32_and_moving_averages_move(backend: str, level: str) -> None:
    net = amp.auto_mixed_precision(Net(), level).set_train()
    before = net.bn.moving_mean.asnumpy().copy()

    def loss(x: Any) -> Any:
        return ops.mean(ops.square(ops.cast(net(x), graphls.float32)))

    gradients = graphls.grad(loss, None, net.trainable_params())
    step = graphls.compile(gradients, IMAGES, backend=backend)
    assert {g.dtype for g in step(IMAGES)} == {graphls.float32}
    assert np.abs(net.bn.moving_mean.asnumpy() - before).max() > 0


def test_gradients_agree_with_those_of_float32() -> None:
    x = np.random.default_rng(1).normal(size=(8, 6)).astype(F32)
    found = {}
    for level in ("O0", *LEVELS):
        graphls.set_seed(3)
        net = amp.auto_mixed_precision(nn.SequentialCell(nn.Dense(6, 8), nn.ReLU(), nn.Dense(8, 1)), level)
        found[level] = graphls.grad(lambda x, net=net: ops.sum(net(x)), None, net.trainable_params())(x)
    for level in LEVELS:
        for wide, mixed in zip(found["O0"], found[level], strict=True):
            np.testing.assert_allclose(mixed.asnumpy(), wide.asnumpy(), rtol=0.02, atol=0.02)
        assert any((w.asnumpy() != m.asnumpy()).any() for w, m in zip(found["O0"], found[level], strict=True))


def test_o0_changes_nothing() -> None:
    net = Net()
    assert amp.auto_mixed_precision(net) is net and amp.auto_mixed_precision(net, "O0") is net
    net(IMAGES)
    assert set(net.seen.values()) == {"f32"}


def test_a_compiled_network_follows_a_new_level() -> None:
    net = nn.Dense(4, 3, has_bias=False)
    x = np.full((2, 4), 1.0009765625 + 2.0**-14, F32)
    before = net(x)
    amp.auto_mixed_precision(net, "auto")
    after = net(x)
    assert (before.dtype, after.dtype) == (graphls.float32, graphls.float16)


def test_to_float_inside_is_followed() -> None:
    net = nn.SequentialCell(nn.Dense(4, 4), nn.Dense(4, 4))
    amp.auto_mixed_precision(net, "auto", graphls.bfloat16)
    net[1].to_float(graphls.float32)
    step = graphls.compile(net, np.ones((2, 4), F32), backend="numpy")
    kinds = [n.inputs[0].type.dtype.name for n in step.graph.nodes if n.primitive.is_product]
    assert kinds == ["bf16", "f32"]


def test_float64_and_integers_stay() -> None:
    class Sums(nn.Cell):
        def construct(self, x: Any, i: Any) -> Any:
            return ops.matmul(x, x), ops.exp(x), ops.prod(i)

    x, i = np.ones((2, 2)), np.ones((2, 2), np.int32)
    for level in ("O1", "auto"):
        results = amp.auto_mixed_precision(Sums(), level)(x, i)
        assert [r.dtype.name for r in results] == ["f64", "f64", "i32"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_branches_in_mixed_precision(backend: str) -> None:
    class Branching(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(3, 3, weight_init="ones", has_bias=False)

        def construct(self, x: Any) -> Any:
            if ops.sum(x) > 0:
                return self.dense(x)
            return ops.matmul(x, self.dense.weight)

    x = np.ones((2, 3), F32)
    for level, dtype in (("O1", "f32"), ("O2", "f32"), ("auto", "f16")):
        net = amp.auto_mixed_precision(Branching(), level)
        step = graphls.compile(net, x, backend=backend)
        assert step(x).dtype.name == dtype
        assert step(x).tolist() == [[3] * 3] * 2 and step(-x).tolist() == [[-3] * 3] * 2


def test_a_level_stays_with_a_warning() -> None:
    net = amp.auto_mixed_precision(nn.Dense(4, 3), "O3")
    with pytest.warns(UserWarning, match=r"has the level O3 .*it is not O1.*test_precision.py") as caught:
        assert amp.auto_mixed_precision(net, "O1") is net
    assert caught[0].filename == __file__
    assert net(np.ones((2, 4), F32)).dtype is graphls.float32


def test_a_float16_network_overflows_on_every_device_as_on_an_accelerator() -> None:
    net = amp.auto_mixed_precision(nn.Dense(300, 1, weight_init="ones", has_bias=False), "O1")
    x = np.full((1, 300), 300, F32)
    assert net(x).tolist() == [[np.inf]]
    same = amp.auto_mixed_precision(nn.Dense(300, 1, weight_init="ones", has_bias=False), "O1", graphls.bfloat16)
    assert same(x).tolist() == [[90112]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((lambda x: x, "O2"), GraphTypeError, "For amp_level 'O2', the network type should be Cell."),
        ((nn.ReLU(), "O4"), GraphValueError, "The amp level O4 is not supported"),
        ((nn.ReLU(), "O2", graphls.float32), GraphValueError, "is Float16 or Bfloat16, but got Float32"),
        ((nn.ReLU(), "O2", "fast"), GraphValueError, "is Float16 or Bfloat16, but got 'fast'"),
    ],
)
def test_wrong_arguments(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        amp.auto_mixed_precision(*arguments)
    assert caught.value.location is not None
