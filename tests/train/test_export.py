"""Exported networks: checked, run elsewhere, and with the numbers that graphls gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.errors import GraphFileError, GraphTypeError, GraphValueError, TraceError
from graphls.onnx.importing.reader import read_onnx
from graphls.runtime.lowering import weights
from graphls.runtime.lowering.protos import graphs
from graphls.train.serialization import export
from tests.train.test_whole_files import file_size_limit

F32 = np.float32


class Branch(nn.Cell):
    """Two outputs, two inputs in a nest, a condition and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.linspace(-1, 1, 12).reshape(3, 4).astype(F32), name="weight")

    def construct(self, pair: Any, factor: float) -> Any:
        first, second = pair
        y = ops.matmul(first, self.weight) * factor
        if ops.reduce_sum(second) > 0:
            y = y + self.weight[0]
        return {"y": y, "first": first}


class Counting(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.count = graphls.Parameter(np.float32(0), name="count")

    def construct(self, x: Any) -> Any:
        self.count = self.count + 1
        return x * self.count


class Noisy(nn.Cell):
    def construct(self, x: Any) -> Any:
        return ops.dropout(x, p=0.5, training=True)


def convolutional() -> nn.Cell:
    return nn.SequentialCell(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Dropout(p=0.5), nn.Flatten(),
        nn.Dense(64, 10), nn.Softmax(),
    )  # fmt: skip


def in_half() -> nn.Cell:
    return nn.SequentialCell(nn.Dense(6, 8, activation="relu"), nn.LayerNorm((8,)), nn.Dense(8, 3)).to_float(
        graphls.float16
    )


class Bfloat(nn.Cell):
    """A weight and an output in a dtype that no runtime takes arrays of."""

    def __init__(self) -> None:
        super().__init__()
        weight = graphls.Tensor(np.linspace(-1, 1, 18).reshape(6, 3), graphls.bfloat16)
        self.weight = graphls.Parameter(weight, name="weight")

    def construct(self, x: Any) -> Any:
        return ops.matmul(x.astype(graphls.bfloat16), self.weight)


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(F32)


NETWORKS: dict[str, tuple[Callable[[], nn.Cell], tuple[Any, ...]]] = {
    "convolutional": (convolutional, (normal(2, 1, 8, 8),)),
    "float16": (in_half, (normal(4, 6),)),
    "bfloat16": (Bfloat, (normal(4, 6),)),
    "branches": (Branch, ((normal(2, 3), normal(5)), 2.0)),
    "recurrent": (lambda: nn.LSTM(4, 5, batch_first=True), (normal(2, 3, 4),)),
    "embedding": (lambda: nn.Embedding(7, 3), (np.array([[1, 2], [6, 0]], np.int32),)),
}


def trained(make: Callable[[], nn.Cell], inputs: tuple[Any, ...]) -> nn.Cell:
    """The network after a call in training, so that moving averages are not what they began with."""
    network = make()
    network.set_train()
    graphls.compile(network, *inputs, backend="numpy")(*inputs)
    return network


def feeds(model: Any, inputs: tuple[Any, ...]) -> dict[str, Any]:
    arrays = [leaf for leaf in graphls.frontend.tensors.pytree.leaves(inputs) if isinstance(leaf, np.ndarray)]
    return {info.name: array for info, array in zip(model.graph.input, arrays, strict=True)}


def exported(name: str, folder: Path) -> tuple[Any, tuple[Any, ...], Any]:
    """A trained network, its inputs, and the model that it is exported as, which is valid, in `folder`/net.onnx."""
    make, inputs = NETWORKS[name]
    network = trained(make, inputs)
    export(network, *inputs, file_name=str(folder / "net"), file_format="ONNX")
    model = onnx.load(folder / "net.onnx")
    onnx.checker.check_model(model, full_check=True)
    return network, inputs, model


@pytest.mark.parametrize("name", NETWORKS)
def test_an_exported_network_gives_the_numbers_of_graphls(tmp_path: Path, name: str) -> None:
    network, inputs, model = exported(name, tmp_path)
    fed = feeds(model, inputs)
    network.set_train(False)
    run = graphls.compile(network, *inputs, backend="onnxruntime")(*inputs)
    expected = [tensor.asnumpy().astype(F32) for tensor in graphls.frontend.tensors.pytree.leaves(run)]
    found = onnx.reference.ReferenceEvaluator(model).run(None, fed)
    session = pytest.importorskip("onnxruntime").InferenceSession(str(tmp_path / "net.onnx"))
    for mine, theirs, reference in zip(expected, session.run(None, fed), found, strict=True):
        # A session composes what the runtime at hand does not compute to the last bit; a file is for any runtime.
        np.testing.assert_allclose(theirs, mine, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(reference, mine, rtol=1e-2 if "float" in name else 1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_an_exported_network_tells_where_it_comes_from(tmp_path: Path, name: str) -> None:
    """As a saved step does: phase, cell and line of every operator, roles, types, and the names of the weights."""
    network, _, model = exported(name, tmp_path)
    assert model.producer_version == graphls.__version__
    given = {info.name for info in model.graph.input}
    copies = [node.name for node in model.graph.node if node.op_type == "Identity" and given.issuperset(node.input)]
    operators = [node for graph in graphs(model.graph) for node in graph.node if node.name not in copies]
    told = [{entry.key: entry.value for entry in node.metadata_props} for node in operators]
    assert {entries["graphls.phase"] for entries in told} == {"forward"} and all(node.doc_string for node in operators)
    scopes = {entries["graphls.scope"] for entries in told}
    assert "0" in scopes if isinstance(network, nn.SequentialCell) else scopes == {""}
    made = {node.output[0] for graph in graphs(model.graph) for node in graph.node}
    assert made <= {info.name for graph in graphs(model.graph) for info in (*graph.value_info, *graph.output)}
    graph = read_onnx(model)
    used = {parameter.name for parameter in network.get_parameters()}
    states = {state.name for state in graph.states}
    assert states and {name for name in states if ".folded" not in name} <= used and not graph.writes
    assert len(graph.inputs) == len(model.graph.input) and len(graph.outputs) == len(model.graph.output)
    for info in (*model.graph.input, *model.graph.output):
        assert {entry.key for entry in info.metadata_props} == {"graphls.role"}


def test_weights_are_constants_and_names_those_of_construct(tmp_path: Path) -> None:
    network = Branch()
    export(network, (normal(2, 3), normal(5)), 2.0, file_name=tmp_path / "net.onnx", file_format="ONNX")
    graph = onnx.load(tmp_path / "net.onnx").graph
    assert [info.name for info in graph.input] == ["pair", "pair_1"]
    assert [info.name for info in graph.output] == ["output_0", "output_1"]
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    np.testing.assert_array_equal(weights["weight.folded"], 2 * network.weight.asnumpy())  # times the factor
    export(convolutional(), normal(2, 1, 8, 8), file_name=tmp_path / "net.onnx", file_format="ONNX")
    graph = onnx.load(tmp_path / "net.onnx").graph
    assert [info.name for info in graph.output] == ["output"]
    assert not any("Random" in node.op_type or "Dropout" in node.op_type for node in graph.node)


def test_a_function_and_a_tensor_called_as_an_output(tmp_path: Path) -> None:
    def output(output: Any) -> Any:
        return ops.exp(output), output

    export(output, normal(3), file_name=tmp_path / "f", file_format="ONNX")
    graph = onnx.load(tmp_path / "f.onnx").graph
    assert len(graph.input) == 1 and [info.name for info in graph.output] == ["output_0", "output_1"]


def test_weights_that_do_not_fit_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "INSIDE", 300)
    monkeypatch.setattr(weights, "SMALLEST", 64)
    network, x = convolutional(), normal(2, 1, 8, 8)
    network.set_train(False)
    export(network, x, file_name=tmp_path / "net", file_format="ONNX")
    assert {path.name for path in tmp_path.iterdir()} == {"net.onnx", "net.onnx.data"}
    onnx.checker.check_model(str(tmp_path / "net.onnx"))
    session = pytest.importorskip("onnxruntime").InferenceSession(str(tmp_path / "net.onnx"))
    (found,) = session.run(None, {session.get_inputs()[0].name: x.asnumpy() if hasattr(x, "asnumpy") else x})
    np.testing.assert_allclose(found, graphls.compile(network, x)(x).asnumpy(), rtol=1e-5)


def test_the_network_is_in_the_same_mode_afterwards(tmp_path: Path) -> None:
    network = convolutional()
    network.set_train()
    network[4].set_train(False)
    flags = [cell.training for _, cell in network.cells_and_names()]
    x = normal(2, 1, 8, 8)
    step = graphls.compile(network, x, backend="numpy")
    export(network, x, file_name=tmp_path / "net", file_format="ONNX")
    assert [cell.training for _, cell in network.cells_and_names()] == flags and step.up_to_date()
    with pytest.raises(GraphValueError):
        export(network, normal(2, 3, 8, 8), file_name=tmp_path / "net", file_format="ONNX")
    assert [cell.training for _, cell in network.cells_and_names()] == flags


def test_what_an_inference_model_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(GraphValueError, match="keeps no state, and the network writes 'count'"):
        export(Counting(), normal(2), file_name=tmp_path / "a", file_format="ONNX")
    with pytest.raises(GraphValueError, match="draws no random numbers"):
        export(Noisy(), normal(2), file_name=tmp_path / "a", file_format="ONNX")
    with pytest.raises(TraceError):
        export(lambda x: float(x), normal(), file_name=tmp_path / "a", file_format="ONNX")
    assert not list(tmp_path.iterdir())


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"file_format": "MINDIR"}, GraphValueError, "only MindSpore runs them; give file_format=\"ONNX\""),
    ({}, GraphValueError, "file_format='MINDIR'"),
    ({"file_format": "AIR"}, GraphValueError, "file_format='AIR'"),
    ({"file_format": "onnx"}, GraphValueError, r"must be one of \['AIR', 'ONNX', 'MINDIR'\]"),
    ({"file_name": 3}, GraphTypeError, "'file_name' must be a string"),
    ({"file_name": ""}, GraphTypeError, "needs its name: export.net, x, file_name='net.onnx'"),
    ({"net": 3}, GraphTypeError, "'net' must be a Cell"),
    ({"enc_key": b"", "file_format": "ONNX"}, GraphTypeError, "the 'enc_key' of 'export'"),
]


@pytest.mark.parametrize(("options", "error", "text"), WRONG)
def test_wrong_exports(tmp_path: Path, options: dict[str, Any], error: type[Exception], text: str) -> None:
    given = {"net": nn.Dense(2, 2), "file_name": str(tmp_path / "a"), **options}
    with pytest.raises(error, match=text):
        export(given.pop("net"), normal(1, 2), **given)
    with pytest.raises(GraphTypeError, match="export writes a file and needs its name"):
        export(nn.Dense(2, 2), normal(1, 2), "net.onnx", file_format="ONNX")


def test_a_full_disk_leaves_the_model_that_was_there(tmp_path: Path) -> None:
    export(nn.Dense(2, 2), normal(1, 2), file_name=tmp_path / "a", file_format="ONNX")
    before = (tmp_path / "a.onnx").read_bytes()
    with file_size_limit(4096), pytest.raises(GraphFileError, match="File too large"):
        export(nn.Dense(100, 100), normal(1, 100), file_name=tmp_path / "a", file_format="ONNX")
    assert (tmp_path / "a.onnx").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_what_a_network_prints_is_left_out_and_python_is_refused(tmp_path: Path) -> None:
    class Printing(nn.Cell):
        def construct(self, x: Any) -> Any:
            ops.print_("sum", x.sum() * 3)
            return x + 1

    class Calling(nn.Cell):
        def construct(self, x: Any) -> Any:
            return ops.py_func(np.sin, x, x)

    export(Printing(), np.ones(3, F32), file_name=str(tmp_path / "net"), file_format="ONNX")
    model = onnx.load(tmp_path / "net.onnx")
    assert [node.op_type for node in model.graph.node] == ["Add"] and len(model.graph.output) == 1
    with pytest.raises(GraphValueError, match=r"A model cannot hold 'sin', which is Python.*test_export\.py"):
        export(Calling(), np.ones(3, F32), file_name=str(tmp_path / "other"), file_format="ONNX")
    assert not (tmp_path / "other.onnx").exists()
