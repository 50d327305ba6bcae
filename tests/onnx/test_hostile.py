"""Models that were made to take all time or memory are errors, soon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphls
import graphls.onnx
from graphls.cli.main import main
from tests.onnx.models import INT, model, node, tensor

X = np.ones((2, 2), np.float32)
HUGE = 1 << 40


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([node("Range", "zero huge one", "r")], {"zero": 0, "one": 1, "huge": HUGE}),
        ([node("ConstantOfShape", "shape", "r")], {"shape": [HUGE, HUGE]}),
        ([node("Expand", "one shape", "r")], {"one": [1], "shape": [HUGE, HUGE]}),
        ([node("Tile", "one huge", "r")], {"one": [1], "huge": [HUGE]}),
        ([node("OneHot", "one huge two", "r")], {"one": [1], "huge": [HUGE], "two": [0, 1]}),
    ],
    ids=["Range", "ConstantOfShape", "Expand", "Tile", "OneHot"],
)
def test_enormous_constants(nodes: list[Any], constants: dict[str, Any]) -> None:
    proto = model(
        [*nodes, node("ReduceSum", "r", "s", keepdims=0), node("Cast", "s", "f", to=1), node("Add", "x f", "y")],
        [tensor("x", [2, 2])], ["y"], {name: np.asarray(value, np.int64) for name, value in constants.items()},
    )  # fmt: skip
    with pytest.raises(graphls.GraphlsError):
        graphls.compile(graphls.onnx.load(proto), X)


def nested(depth: int) -> onnx.NodeProto:
    """Loops of eight iterations, each in another one."""
    names = [f"i{depth}", f"c{depth}", f"v{depth}"]
    inner = nested(depth - 1) if depth else node("Add", "v0 one", "after0")
    if depth:
        inner.input[:] = ["eight", "", f"v{depth}"]
        inner.output[:] = [f"after{depth}"]
    nodes = [inner, node("Identity", f"c{depth}", f"go{depth}")]
    inputs = [tensor(names[0], [], INT), tensor(names[1], [], TensorProto.BOOL), tensor(names[2], None)]
    outputs = [tensor(f"go{depth}", [], TensorProto.BOOL), tensor(f"after{depth}", None)]
    return helper.make_node("Loop", ["eight", "", "x"], ["y"], body=helper.make_graph(nodes, "body", inputs, outputs))


def test_loops_inside_of_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphls.onnx.interpreter, "MOST_NODES", 1000)
    constants = {"eight": np.int64(8), "one": np.float32(1)}
    net = graphls.onnx.load(model([nested(9)], [tensor("x", [2, 2])], ["y"], constants))
    with pytest.raises(ValueError, match="unrolled loops make more than 1000 operators"):
        graphls.compile(net, X)


def test_functions_that_call_each_other() -> None:
    functions = [
        helper.make_function(
            "mine", f"F{i}", ["a"], ["b"],
            [helper.make_node(f"F{(i + 1) % 3}", ["a"], ["b"], domain="mine")], [helper.make_opsetid("mine", 1)],
        )
        for i in range(3)
    ]  # fmt: skip
    proto = model([helper.make_node("F0", ["x"], ["y"], domain="mine")], [tensor("x", [2])], ["y"])
    proto.functions.extend(functions)
    with pytest.raises(ValueError, match="call each other without end"):
        graphls.onnx.load(proto)


FLOATS = np.ones((1, 1, 1, 1), np.float32)
TOO_MUCH: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "OneHot of data": ([node("Cast", "x", "i", to=INT), node("OneHot", "i huge two", "y")],
                       {"huge": np.int64(HUGE), "two": np.zeros(2, np.float32)}),
    "parts": ([node("ConstantOfShape", "shape", "z"), node("SplitToSequence", "z", "q"),
               node("ConcatFromSequence", "q", "c", axis=0), node("Add", "x c", "y")], {"shape": np.array([1 << 28])}),
    "results of Split": ([node("Split", "x", "y z", num_outputs=HUGE)], {}),
    "Resize": ([node("Unsqueeze", "x axes", "i"), node("Resize", "i _ _ sizes", "y", mode="cubic")],
               {"axes": np.array([0, 1]), "sizes": np.array([1, 1, 1 << 30, 1 << 30])}),
    "Pad": ([node("Pad", "x pads", "y")], {"pads": np.array([0, 0, HUGE, HUGE])}),
    "DFT": ([node("Unsqueeze", "x axes", "s"), node("DFT", "s huge", "y", axis=1)],
            {"axes": np.array([2]), "huge": np.int64(HUGE)}),
    "prime DFT": ([node("Unsqueeze", "x axes", "s"), node("DFT", "s huge", "y", axis=1)],
                  {"axes": np.array([2]), "huge": np.int64((1 << 27) - 39)}),
    "mel bins": ([node("MelWeightMatrix", "huge huge rate zero rate", "w"), node("MatMul", "x w", "y")],
                 {"huge": np.int64(1 << 30), "rate": np.int64(16000), "zero": np.float32(0)}),
    "ConvTranspose": ([node("Unsqueeze", "x axes", "i"), node("ConvTranspose", "i w", "y", strides=[HUGE, HUGE])],
                      {"axes": np.array([0, 1]), "w": FLOATS}),
    "concatenated": ([node("Concat", f"{c} {c}", f"c{i + 1}", axis=0)
                      for i, c in enumerate(("x", *(f"c{i}" for i in range(1, 45))))]
                     + [node("Identity", "c45", "y")], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", TOO_MUCH)
def test_results_that_no_memory_holds(name: str) -> None:
    nodes, constants = TOO_MUCH[name]
    with pytest.raises(graphls.GraphlsError):
        graphls.compile(graphls.onnx.load(model(nodes, [tensor("x", [2, 2])], ["y"], constants, 18)), X)


def test_a_window_wider_than_all_channels() -> None:
    nodes = [node("Unsqueeze", "x axes", "i"), node("LRN", "i", "y", size=HUGE)]
    net = graphls.onnx.load(model(nodes, [tensor("x", [2, 2])], ["y"], {"axes": np.array([0, 1])}))
    assert net(X).shape == (1, 1, 2, 2)


def test_a_loop_without_an_end() -> None:
    inputs = [tensor("i", [], INT), tensor("c", [], TensorProto.BOOL), tensor("v", None)]
    outputs = [tensor("go", [], TensorProto.BOOL), tensor("w", None)]
    body = helper.make_graph([node("Identity", "c", "go"), node("Neg", "v", "w")], "body", inputs, outputs)
    nodes = [helper.make_node("Loop", ["huge", "", "x"], ["y"], body=body)]
    net = graphls.onnx.load(model(nodes, [tensor("x", [2, 2])], ["y"], {"huge": np.int64(1 << 62)}))
    with pytest.raises(ValueError, match=r"Loop 'y': it has \d+ iterations, which would never end"):
        graphls.compile(net, X)


def length_first(field: int, data: bytes) -> bytes:
    """A field of bytes in the wire format of protobuf."""
    size, found = len(data), bytes([field << 3 | 2])
    while size > 127:
        found, size = found + bytes([size & 127 | 128]), size >> 7
    return found + bytes([size]) + data


@pytest.mark.parametrize("depth", [20, 500])
def test_branches_inside_of_branches(depth: int) -> None:
    leaf = helper.make_graph([node("Identity", "x", "o")], "g", [], [tensor("o", None)]).SerializeToString()
    graph, kind = leaf, b"\xa0\x01\x05"
    for _ in range(depth):
        branches = [(b"then_branch", graph), (b"else_branch", leaf)]
        attributes = [length_first(5, length_first(1, name) + length_first(6, g) + kind) for name, g in branches]
        inner = length_first(1, b"on") + length_first(2, b"o") + length_first(4, b"If") + b"".join(attributes)
        graph = length_first(1, inner) + length_first(2, b"g") + length_first(12, tensor("o", None).SerializeToString())
    proto = model([], [tensor("x", [2, 2]), tensor("on", [], TensorProto.BOOL)], ["o"])
    inputs = b"".join(length_first(11, info.SerializeToString()) for info in proto.graph.input)
    proto.ClearField("graph")
    data = proto.SerializeToString() + length_first(7, graph + inputs)
    if depth == 20:
        assert graphls.onnx.load(data)(X, np.array(True)).shape == (2, 2)
        return
    with pytest.raises(ValueError, match="is not an ONNX model"):
        graphls.onnx.load(data)


TWICE: dict[str, Any] = {
    "results": model([node("Relu", "x", "y"), node("Neg", "x", "y")], [tensor("x", [2, 2])], ["y"]),
    "inputs": model([node("Relu", "x", "y")], [tensor("x", [2, 2])] * 2, ["y"]),
    "a result and a constant": model([node("Relu", "x", "w")], [tensor("x", [2, 2])], ["w"], {"w": FLOATS}),
}


@pytest.mark.parametrize("name", TWICE)
def test_names_that_stand_for_two_tensors(name: str) -> None:
    with pytest.raises(ValueError, match=r"The model defines the tensor '\w' twice"):
        graphls.onnx.load(TWICE[name])


def test_operators_that_wait_for_each_other() -> None:
    proto = model([node("Add", "x b", "a"), node("Add", "a x", "b")], [tensor("x", [2, 2])], ["b"])
    with pytest.raises(ValueError, match="waits for its own result, in a cycle"):
        graphls.onnx.load(proto)


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (node("Unsqueeze", "x axes", "y"), "name one twice"),
        (node("Unsqueeze", "x five", "y"), "There is no axis"),
        (node("Unsqueeze", "x below", "y"), "There is no axis"),
        (node("Squeeze", "x five", "y"), "There is no axis"),
        (node("Slice", "x axes axes axes", "y"), "name one twice"),
        (node("Slice", "x axes axes fives", "y"), "There is no axis"),
        (node("CumSum", "x five", "y"), "There is no axis"),
        (node("LayerNormalization", "x row", "y", axis=5), "There is no axis"),
        (node("Flatten", "x", "y", axis=5), "There is no axis"),
        (node("Softmax", "x", "y", axis=5), "There is no axis"),
        (node("Concat", "x x", "y", axis=-5), "There is no axis"),
        (node("Gather", "x axes", "y", axis=5), "There is no axis"),
    ],
)  # fmt: skip
def test_axes_that_no_tensor_has_are_told_and_do_not_wrap_around(proto: Any, text: str) -> None:
    numbers = {"axes": [0, 0], "five": [5], "below": [-4], "fives": [0, 5]}
    constants = {name: np.array(value, np.int64) for name, value in numbers.items()} | {"row": np.ones(2, np.float32)}
    with pytest.raises(ValueError, match=text):
        graphls.compile(graphls.onnx.load(model([proto], [tensor("x", [2, 2])], ["y"], constants)), X)


@pytest.mark.parametrize("opset", [2**40, 2**31, onnx.defs.onnx_opset_version() + 1])
def test_a_version_that_is_not_there_yet_is_refused(opset: int) -> None:
    proto = model([node("Relu", "x", "y")], [tensor("x", [2])], ["y"], opset=opset)
    with pytest.raises(ValueError, match=f"needs version {opset} of the operators of ONNX, and the installed onnx"):
        graphls.onnx.load(proto)


def calling(count: int, last: str) -> onnx.ModelProto:
    """Functions of which each calls the next one twice, and the last one an operator."""
    opsets = [helper.make_opsetid("mine", 1), helper.make_opsetid("", 17)]
    functions = []
    for i in range(count):
        kind, domain = (f"F{i + 1}", "mine") if i + 1 < count else (last, "mine" if last.startswith("F") else "")
        nodes = [helper.make_node(kind, [x], [y], domain=domain) for x, y in ("ac", "cb")]
        functions.append(helper.make_function("mine", f"F{i}", ["a"], ["b"], nodes, opsets))
    proto = model([helper.make_node("F0", ["x"], ["y"], domain="mine")], [tensor("x", [2])], ["y"])
    proto.opset_import.append(opsets[0])
    proto.functions.extend(functions)
    return proto


@pytest.mark.parametrize("last", ["Relu", "F0"])
def test_placement_of_functions_that_call_each_other_too_often(last: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "a.onnx").write_bytes(calling(40, last).SerializeToString())
    assert main(["placement", str(tmp_path / "a.onnx"), "--runtime", "1.19.2"]) == 1
    assert "call each other without end, or are too many operators" in capsys.readouterr().err
    (tmp_path / "a.onnx").write_bytes(calling(4, "Relu").SerializeToString())
    assert main(["placement", str(tmp_path / "a.onnx"), "--runtime", "1.19.2"]) == 0
    assert "16" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [[1, 1, 0.1, 1], [1, 1, 0.2, 0.2]])
def test_the_gradient_of_a_result_without_elements(mode: str, scales: list[float]) -> None:
    constants = {"s": np.array(scales, np.float32)}
    proto = model([node("Resize", "x _ s", "y", mode=mode)], [tensor("x", [1, 1, 4, 4])], ["y"], constants)
    net = graphls.onnx.load(proto)
    gradient = graphls.grad(lambda x: graphls.ops.sum(net(x)))(graphls.Tensor(np.ones((1, 1, 4, 4), np.float32)))
    assert gradient.shape == (1, 1, 4, 4) and not gradient.asnumpy().any()


@pytest.mark.parametrize(
    ("kind", "domain", "remedy"),
    [
        ("GreedySearch", "com.microsoft", "; the search for a text has no gradient: load the model of the decoder"),
        ("PackedAttention", "com.microsoft", "; tokens without padding are for GPUs: optimize the model without"),
        ("ZipMap", "ai.onnx.ml", r"; ZipMap gives dictionaries: convert the model with options={'zipmap': False}\."),
        ("SparseAttention", "com.microsoft", r"; give the outputs that do not need them \(outputs=\[...\]\)\."),
    ],
)
def test_operators_that_are_not_computed_come_with_what_to_do(kind: str, domain: str, remedy: str) -> None:
    proto = model([helper.make_node(kind, ["x"], ["y"], "n", domain=domain)], [tensor("x", [2])], ["y"])
    with pytest.raises(ValueError, match=rf"graphls does not compute: {domain}.{kind} 'n' \(version 1\){remedy}"):
        graphls.onnx.load(proto)
