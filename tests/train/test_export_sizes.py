"""Exported models for any number of rows, and other sizes that vary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.train import export
from tests.train.exported import F32, NETWORKS, assert_gives, declared, made, rows, session, written


def shapes(infos: Any) -> list[list[Any]]:
    return [[dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in infos]


@pytest.mark.parametrize("name", NETWORKS)
def test_any_number_of_rows(tmp_path: Path, name: str) -> None:
    """The numbers of the cell for 1, 2, 3, 7 and 64 rows, none of which the network was traced with."""
    _, shape, dtype = NETWORKS[name]
    network = made(name)
    model = written(tmp_path, network, declared(shape, dtype))
    assert shapes(model.graph.input) == [["batch", *shape]]
    assert not {"Concat", "Mul"} & {node.op_type for node in model.graph.node if node.name.startswith("size.")}
    assert all("batch" in sizes for sizes in shapes(model.graph.output))
    found = session(tmp_path)
    for batch in (1, 2, 3, 7, 64):
        assert_gives(found, network, rows(shape, dtype, batch))


def test_the_forms_in_which_sizes_are_given(tmp_path: Path) -> None:
    """Torch's dynamic_axes, with and without names, MindSpore's None, in arguments and in set_inputs: one model."""
    network, x = nn.Dense(3, 4), rows((3,), F32, 2)
    torch = [{"x": {0: "batch"}}, {"x": {0: "batch"}, "output": {0: "batch"}}, {"x": [0]}, {"x": {-2: "batch"}}]
    models = [written(tmp_path, network, x, dynamic_axes=axes) for axes in torch]
    models.append(written(tmp_path, network, declared((3,), F32)))
    network.set_inputs(declared((3,), F32))
    models.append(written(tmp_path, network))
    network.set_inputs(x=declared((3,), F32))
    models.append(written(tmp_path, network))
    assert len({model.graph.SerializeToString() for model in models}) == 1
    assert shapes(models[0].graph.input) == [["batch", 3]] and shapes(models[0].graph.output) == [["batch", 4]]


class Several(nn.Cell):
    """Sizes that meet in products, sums, constants, slices and repetitions."""

    def construct(self, x: Any, y: Any) -> Any:
        n, m = x.shape
        flat = x.reshape(n * m)
        ones = ops.ones((n, m), graphls.float32) * 2
        wide = ops.broadcast_to(x.reshape(1, n, m), (3, n, m))
        framed = ops.concat((ops.zeros((n, 1), graphls.float32), x, y), 1)
        return flat, ones + x, wide, framed, framed[1:, : m // 1], ops.reshape(wide, (3 * n, 1, m))


def test_several_sizes(tmp_path: Path) -> None:
    axes = {"x": {0: "rows", 1: "length"}, "y": {0: "rows"}}
    x, y = np.ones((2, 4), F32), np.ones((2, 2), F32)
    model = written(tmp_path, Several(), x, y, dynamic_axes=axes)
    assert shapes(model.graph.input) == [["rows", "length"], ["rows", 2]]
    flat, *_, framed, part, tripled = shapes(model.graph.output)
    assert flat == [0] and framed == ["rows", 0] and tripled == [0, 1, "length"] and part == [0, "length"]
    found = session(tmp_path)
    for n, m in ((2, 4), (5, 3), (7, 11), (3, 1)):
        given = rows((m,), F32, n), rows((2,), F32, n)
        expected = graphls.compile(Several(), *given)(*given)
        for mine, theirs in zip(expected, found.run(None, dict(zip("xy", given, strict=True))), strict=True):
            np.testing.assert_array_equal(theirs, mine.asnumpy())


def test_images_of_any_size(tmp_path: Path) -> None:
    network = nn.SequentialCell(
        nn.Conv2d(3, 4, 3, stride=2, pad_mode="pad", padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dense(4, 2),
    )  # fmt: skip
    network.set_train(False)
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    written(tmp_path, network, rows((3, 32, 32), F32, 2), dynamic_axes=axes)
    found = session(tmp_path)
    for batch, height, width in ((1, 32, 32), (3, 17, 40)):
        assert_gives(found, network, rows((3, height, width), F32, batch))


def test_weights_that_meet_the_size_are_not_folded(tmp_path: Path) -> None:
    class Shared(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = graphls.Parameter(np.arange(3, dtype=F32), name="weight")
            self.table = nn.Embedding(40, 3)

        def construct(self, x: Any) -> Any:
            rows = self.table(graphls.Tensor(np.arange(x.shape[0], dtype=np.int32)))
            return x + ops.broadcast_to(self.weight * 2, x.shape) + rows

    network = Shared()
    model = written(tmp_path, network, declared((3,), F32))
    assert {tensor.name for tensor in model.graph.initializer} >= {"table.embedding_table", "weight.folded"}
    for batch in (1, 7, 40):
        assert_gives(session(tmp_path), network, rows((3,), F32, batch))

    class Divided(Shared):
        def construct(self, x: Any) -> Any:
            return x * (self.weight / x.shape[0])

    divided = Divided()
    written(tmp_path, divided, declared((3,), F32))
    assert_gives(session(tmp_path), divided, rows((3,), F32, 7))


class Causal(nn.Cell):
    """Attention to the words before, with positions, for sequences of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8), nn.Embedding(99, 8)
        self.qkv = nn.Dense(8, 24)

    def construct(self, words: Any) -> Any:
        length = words.shape[1]
        x = self.words(words) + self.places(graphls.Tensor(np.arange(length, dtype=np.int32)))
        query, key, value = ops.split(self.qkv(x), 8, -1)
        hidden = graphls.Tensor(np.triu(np.ones((length, length), bool), 1))
        scores = ops.masked_fill(ops.matmul(query, key.swapaxes(1, 2)) / 8**0.5, hidden, float("-inf"))
        return ops.matmul(ops.softmax(scores, -1), value), x + ops.arange(length).reshape(1, -1, 1)


def test_sequences_of_any_length(tmp_path: Path) -> None:
    network = Causal()
    model = written(tmp_path, network, graphls.Tensor(shape=[None, None], dtype=graphls.int32))
    assert shapes(model.graph.input) == [["batch", "axis_1"]]
    assert shapes(model.graph.output) == [["batch", "axis_1", 8]] * 2
    found = session(tmp_path)
    for batch, length in ((1, 5), (3, 1), (2, 50)):
        assert_gives(found, network, rows((length,), np.int32, batch))


def test_a_condition_and_a_loop_inside(tmp_path: Path) -> None:
    class Conditional(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.RNN(3, 4, batch_first=True)

        def construct(self, x: Any, lengths: Any) -> Any:
            y, _ = self.rnn(x, None, lengths)
            if y.sum() > 0:
                y = y.reshape(x.shape[0] * 5, 4)[: x.shape[0]]
            else:
                y = ops.zeros((x.shape[0], 4), graphls.float32)
            return y

    network = Conditional()
    lengths = graphls.Tensor(shape=[None], dtype=graphls.int32)
    written(tmp_path, network, declared((5, 3), F32), lengths)
    found = session(tmp_path)
    for batch in (1, 2, 9):
        assert_gives(found, network, rows((5, 3), F32, batch), np.arange(batch, dtype=np.int32) % 5 + 1)


def test_float16_for_any_number_of_rows(tmp_path: Path) -> None:
    network = made("convolutional")
    written(tmp_path, network, declared((3, 10, 10), F32), precision="float16")
    for batch in (1, 5):
        assert_gives(session(tmp_path), network, rows((3, 10, 10), F32, batch), tolerance=4e-3)


def by_structure(x: Any) -> Any:
    for _ in range(x.shape[0]):
        x = ops.exp(x)
    return x


def by_array(x: Any) -> Any:
    return x * graphls.Tensor(np.random.default_rng(0).normal(size=x.shape).astype(F32))


@pytest.mark.parametrize("network", [by_structure, by_array], ids=lambda f: f.__name__)
def test_what_does_not_allow_any_size_names_the_line(tmp_path: Path, network: Any) -> None:
    line = network.__code__.co_firstlineno + (2 if network is by_structure else 1)
    with pytest.raises(GraphValueError, match=rf"The sizes batch cannot stay open: .*test_export_sizes\.py:{line}"):
        export(network, declared((3,), F32), file_name=tmp_path / "net", file_format="ONNX")
    assert not list(tmp_path.iterdir())


WRONG: list[tuple[Any, type[Exception], str]] = [
    ({"z": {0: "batch"}}, GraphValueError, "names 'z', and the inputs are x"),
    ({"x": {2: "batch"}}, GraphValueError, "the axis 2 of 'x', which has 2 axes"),
    ({"x": {0: "the batch"}}, GraphTypeError, "a name such as 'batch', not 'the batch'"),
    ({"x": 0}, GraphTypeError, "give a list of axes"),
    ([0], GraphTypeError, "maps names of inputs to axes"),
]


@pytest.mark.parametrize(("axes", "error", "text"), WRONG)
def test_wrong_axes(tmp_path: Path, axes: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        export(nn.Dense(3, 2), rows((3,), F32, 2), file_name=tmp_path / "net", file_format="ONNX", dynamic_axes=axes)


def test_too_many_sizes(tmp_path: Path) -> None:
    x = graphls.Tensor(shape=[None] * 4, dtype=graphls.float32)
    with pytest.raises(GraphValueError, match="known numbers of axes"):
        export(ops.exp, graphls.Tensor(shape=None, dtype=graphls.float32), file_name="net", file_format="ONNX")
    with pytest.raises(GraphValueError, match="up to 3 sizes that vary, not batch, axis_1, axis_2, axis_3"):
        export(ops.exp, x, file_name=tmp_path / "net", file_format="ONNX")


def test_the_rest_of_the_file_says_what_it_is(tmp_path: Path) -> None:
    model = written(tmp_path, made("encoder"), declared((6,), np.int32))
    told = [{entry.key for entry in node.metadata_props} for node in model.graph.node]
    assert all("graphls.location" in keys for keys in told)
    assert onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
