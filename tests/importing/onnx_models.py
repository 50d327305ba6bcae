"""ONNX models made by hand: what exporters of others write, and what nobody should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def info(name: str, shape: Sequence[int | str | None] | None = (2,), kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Any] = ("x",),
    outputs: Sequence[Any] = ("y",),
    initializers: Sequence[onnx.TensorProto] = (),
    **options: Any,
) -> onnx.ModelProto:
    """A model; names among inputs and outputs are float32 tensors of two elements."""
    sparse = options.pop("sparse", ())
    ends = [[info(end) if isinstance(end, str) else end for end in these] for these in (inputs, outputs)]
    graph = helper.make_graph(nodes, options.pop("name", "made"), *ends, initializers, sparse_initializer=sparse)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **options)


def tensor(array: Any, name: str = "") -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def sparse(name: str = "s") -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(tensor(np.float32([5, 6]), name), tensor(np.int64([1, 7]), f"{name}_at"), [3, 4])


def every_attribute() -> onnx.ModelProto:
    """An operator of a foreign domain with an attribute of each kind, long ones and empty ones among them."""
    types = [helper.make_tensor_type_proto(FLOAT, ["batch", 3]), helper.make_tensor_type_proto(INT64, None)]
    attributes = {
        "number": 0.1,
        "count": -3,
        "word": "h\u00e9\n\u202e",
        "bytes": b"\xff\xfe",
        "small": tensor(np.float32([1, 2])),
        "large": tensor(np.arange(1000, dtype=np.int64)),
        "words": tensor(np.array(["a", "b\n"], object)),
        "complex": tensor(np.complex64([1j])),
        "thin": sparse(),
        "type": types[0],
        "numbers": [0.1, 2.5],
        "counts": list(range(40)),
        "names": ["a", "b"],
        "tensors": [tensor(np.int8([1])), tensor(np.float64(2))],
        "thins": [sparse()],
        "types": types,
    }
    node = helper.make_node("Odd", ["x"], ["y"], domain="own", **attributes)
    empty = node.attribute.add(name="empty", type=onnx.AttributeProto.INTS)
    assert not empty.ints
    zero = node.attribute.add(name="zero", type=onnx.AttributeProto.INT)
    assert not zero.HasField("i")
    return model([node])


def branch() -> onnx.ModelProto:
    """An If whose branches take a tensor from around them and use the same names inside."""
    def side(name: str, operator: str) -> onnx.GraphProto:
        inner = [helper.make_node(operator, ["x", "one"], ["r"], name=f"/{name}/op")]
        return helper.make_graph(inner, name, [], [info("r")], [tensor(np.float32([1, 1]), "one")])

    node = helper.make_node(
        "If", ["c"], ["y"], else_branch=side("minus", "Sub"), then_branch=side("plus", "Add"), name="/head/If"
    )
    return model([node], ["x", info("c", (), BOOL)])


def loops() -> onnx.ModelProto:
    """A Scan within a Loop, with an input that is left out."""
    inner = helper.make_graph(
        [helper.make_node("Add", ["a", "e"], ["b"]), helper.make_node("Identity", ["b"], ["f"])],
        "rows", [info("a", ()), info("e", ())], [info("b", ()), info("f", ())],
    )  # fmt: skip
    scan = helper.make_node("Scan", ["zero", "v"], ["", "w"], body=inner, num_scan_inputs=1)
    outer = helper.make_graph(
        [scan, helper.make_node("Identity", ["k"], ["k2"])],
        "rounds", [info("i", (), INT64), info("k", (), BOOL), info("v")], [info("k2", (), BOOL), info("w")],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["", "go", "x"], ["y"], body=outer)
    return model([loop], ["x", info("go", (), BOOL)], initializers=[tensor(np.float32(0), "zero")])


def kinds_of_types() -> onnx.ModelProto:
    """Values that are no tensors, and tensors without a static type."""
    floats = helper.make_tensor_type_proto(FLOAT, ["n", None, 3])
    maybe = helper.make_optional_type_proto(helper.make_sequence_type_proto(floats))
    table = onnx.TypeProto()
    table.map_type.key_type = TensorProto.STRING
    table.map_type.value_type.CopyFrom(floats)
    thin = helper.make_sparse_tensor_type_proto(FLOAT, [3, 4])
    inputs = [helper.make_value_info(n, t) for n, t in (("maybe", maybe), ("table", table), ("thin", thin))]
    inputs += [
        info("rank", None), info("text", ["n"], TensorProto.STRING), info("hostile", ['a"]\n', -1]),
        info("small", [2], TensorProto.FLOAT8E4M3FN), info("deep", [1] * 40), onnx.ValueInfoProto(name="nothing"),
    ]  # fmt: skip
    node = helper.make_node("Take", [i.name for i in inputs], ["y"], domain="own")
    return model([node], inputs, [info("y", None)])


def functions() -> onnx.ModelProto:
    """Functions that call each other, one with an attribute."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    scale = helper.make_node("LeakyRelu", ["a"], ["b"])
    scale.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    inner = helper.make_function("own", "Ramp", ["a"], ["b"], [scale], opsets, attributes=["slope"])
    calls = [helper.make_node("Ramp", [p], [q], domain="own", slope=0.5) for p, q in (("a", "t"), ("t", "b"))]
    outer = helper.make_function("own", "Twice", ["a"], ["b"], calls, opsets)
    return model([helper.make_node("Twice", ["x"], ["y"], domain="own")], functions=[inner, outer])


def functions_without_end(count: int = 40, is_cycle: bool = False) -> onnx.ModelProto:
    """Functions that double at every level, or the last of which calls the first."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    made = []
    for level in range(count):
        called = f"F{level + 1}" if level + 1 < count else "F0" if is_cycle else "End"
        nodes = [helper.make_node(called, [p], [q], domain="own") for p, q in (("a", "t"), ("t", "b"))]
        made.append(helper.make_function("own", f"F{level}", ["a"], ["b"], nodes, opsets))
    return model([helper.make_node("F0", ["x"], ["y"], domain="own")], functions=made)


def constants() -> onnx.ModelProto:
    """Initializers: one that is an input too, a sparse one, one in another file that is not there, a huge one."""
    outside = TensorProto(name="outside", data_type=FLOAT, dims=[1000, 1000])
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="../../etc/passwd")
    huge = TensorProto(name="huge", data_type=FLOAT, dims=[2**40, 2**40])
    listed = tensor(np.float32([1, 2]), "listed")
    node = helper.make_node("Take", ["x", "listed", "outside", "huge", "s"], ["y"], domain="own")
    return model([node], ["x", "listed"], ["y"], [listed, outside, huge], sparse=[sparse()])


def chain(names: Sequence[str]) -> onnx.ModelProto:
    """Operators with these names, one after the other."""
    tensors = ["x", *(f"t{n}" for n in range(1, len(names))), "y"]
    ends = zip(names, tensors[:-1], tensors[1:], strict=True)
    return model([helper.make_node("Relu", [a], [b], name=name) for name, a, b in ends])


MADE = (every_attribute, branch, loops, kinds_of_types, functions, constants)
