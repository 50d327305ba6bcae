"""What is no parameter is not trained, and the network says what is frozen and why."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

import graphls
import graphls.onnx
from graphls import nn
from graphls.onnx import loaded
from graphls.onnx.importing.signature import FOLDED, KIND, SIGNATURE
from graphls.onnx.selection import Selection
from tests.onnx.exports.agreement import FILES
from tests.onnx.models import FLOAT, model, node, tensor

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def exported() -> ModelProto:
    """x * weight * scale + frequencies + literal + folded + unfolded, as PyTorch's exporter writes it."""
    names = ("weight", "frequencies", "literal", "from_buffer", "from_weight")
    constants: dict[str, Any] = {name: np.full(3, 1 + i, np.float32) for i, name in enumerate(names)}
    constants["scale"] = np.float32(2)
    nodes = [node("Mul", "x weight", "a"), node("Mul", "a scale", "b")]
    for i, name in enumerate(names[1:]):
        nodes.append(node("Add", f"{'bcde'[i]} {name}", "cdef"[i]))
    held = numpy_helper.from_array(np.ones(3, np.float32))
    nodes += [node("Constant", "", "ones", value=held), node("Add", "f ones", "y")]
    proto = model(nodes, [tensor("x", ["n", 3])], ["y"], constants, producer_name="pytorch")
    kinds = {"weight": "PARAMETER", "scale": "PARAMETER", "frequencies": "BUFFER", "literal": "CONSTANT_TENSOR"}
    metadata = {name: (KIND, kind) for name, kind in kinds.items()}
    metadata |= {"from_buffer": (FOLDED, "['table', 'val_0']"), "from_weight": (FOLDED, "['table', 'val_1', 'weight']")}
    for name, (key, value) in metadata.items():
        info = helper.make_tensor_value_info(name, FLOAT, constants[name].shape)
        info.metadata_props.add(key=key, value=value)
        proto.graph.value_info.append(info)
    text = "\n# inputs\np_weight: PARAMETER target='weight'\np_tied: PARAMETER target='tied'\n"
    text += "p_folded: PARAMETER target='val_1'\nb_table: BUFFER target='table' persistent=True\n"
    proto.graph.metadata_props.add(key=SIGNATURE, value=text)
    return proto


def trained(proto: Any, **choice: Any) -> set[str]:
    return {p.name for p in graphls.onnx.load(proto, **choice).trainable_params()}


def test_buffers_and_constants_of_a_program_are_frozen_and_its_numbers_trained() -> None:
    assert trained(exported()) == {"weight", "scale", "from_weight"}


def test_the_signature_of_the_graph_is_enough() -> None:
    proto = exported()
    del proto.graph.value_info[:]
    text = "p_weight: PARAMETER target='weight'\nb: BUFFER target='frequencies' persistent=False"
    proto.graph.metadata_props[0].value = text
    assert trained(proto) == {"weight", "literal", "from_buffer", "from_weight"}


@pytest.mark.parametrize("text", ["[", "7", "[7]", "b'\\xff'", "[" * 2000])
def test_damaged_metadata_leaves_a_tensor_a_constant(text: str) -> None:
    proto = exported()
    for info in proto.graph.value_info:
        if info.name == "from_weight":
            info.metadata_props[0].value = text
    assert trained(proto) == {"weight", "scale"}


def test_trainable_overrides_by_a_pattern_names_or_a_function() -> None:
    assert trained(exported(), trainable="freq*") == {"frequencies"}
    assert trained(exported(), trainable=["weight", "lit*"]) == {"weight", "literal"}
    assert trained(exported(), trainable=lambda name: "fr" in name) == {"frequencies", "from_buffer", "from_weight"}
    assert trained(exported(), frozen="*weight") == {"scale"}
    everything = {"weight", "frequencies", "literal", "from_buffer", "from_weight", "scale", "ones"}
    assert trained(exported(), trainable="*") == everything


def test_nodes_of_torch_hold_no_parameters_and_those_of_others_do() -> None:
    held = numpy_helper.from_array(np.ones(3, np.float32))
    nodes = [node("Constant", "", "w", value=held), node("Mul", "x w", "y")]
    for producer, expected in {"pytorch": set(), "": {"w"}, "tf2onnx": {"w"}}.items():
        assert trained(model(nodes, [tensor("x", ["n", 3])], ["y"], producer_name=producer)) == expected


@pytest.mark.parametrize(
    ("name", "rotary"),
    [
        ("llama.dynamo", "network.model.rotary_emb.inv_freq"),
        ("llama.torchscript", "/network/model/rotary_emb/Constant_1_output_0"),
    ],
)
def test_rotary_frequencies_of_a_real_export_are_frozen(name: str, rotary: str) -> None:
    net = graphls.onnx.load(FILES / f"{name}.onnx")
    assert [p.name for p in net.untrainable_params()] == [rotary]
    assert len(net.trainable_params()) == 12


def test_printing_says_what_is_frozen_and_why() -> None:
    assert repr(graphls.onnx.load(exported())).splitlines() == [
        "OnnxCell(",
        "  7 operators",
        "  trained: 3 tensors of 7 elements (weight, from_weight, scale)",
        "  frozen: buffers (2: frequencies, from_buffer), constants (2: literal, ones)",
        "  absent: 1 (tied), which the exporter tied, merged or fused",
        ")",
    ]
    net = graphls.onnx.load(exported(), trainable=["weight", "scale"], frozen="scale")
    assert "named by frozen= (1: scale)" in repr(net)
    assert "not named by trainable= (5: frequencies, literal, from_buffer, ...)" in repr(net)
    net.parameters_dict()["weight"].requires_grad = False
    net.parameters_dict()["literal"].requires_grad = True
    assert "requires_grad=False (1: weight)" in repr(net)
    assert "trained: 1 tensor of 3 elements (literal)" in repr(net)
    assert repr(copy.deepcopy(net)) == repr(net)
    assert "frozen: " in repr(nn.SequentialCell(net))
    html = net._repr_html_()
    assert ">frozen</th>" in html and "not named by trainable= (4: frequencies, from_buffer, from_weight, ...)" in html


def test_integers_statistics_scales_and_shapes_are_said_too() -> None:
    constants = {
        "scale": np.full(2, 0.5, np.float32), "zero": np.zeros(2, np.int8), "w": np.ones((2, 2), np.int8),
        "g": np.ones(2, np.float32), "b": np.zeros(2, np.float32), "m": np.zeros(2, np.float32),
        "v": np.ones(2, np.float32), "sizes": np.array([-1, 2], np.int64), "two": np.float32(2),
        "scales": np.array([1, 2], np.float32),
    }  # fmt: skip
    nodes = [
        node("DequantizeLinear", "w scale zero", "weight", axis=0), node("MatMul", "x weight", "h"),
        node("BatchNormalization", "h g b m v", "n"), node("Reshape", "n sizes", "r"), node("Mul", "r two", "t"),
        node("Resize", "t _ scales", "y", mode="nearest"),
    ]  # fmt: skip
    proto = model(nodes, [tensor("x", ["n", 2])], ["y"], constants)
    text = repr(graphls.onnx.load(proto))
    assert "trained: 2 tensors of 4 elements (g, b)" in text
    assert "scales of quantized tensors (1: scale), running statistics (2: m, v)" in text
    assert "constants: integers (3), single numbers (1), values that set shapes (1)" in text
    with pytest.raises(ValueError, match="trainable names 'w', whose elements are not floats"):
        graphls.onnx.load(proto, trainable="w")
    with pytest.raises(ValueError, match="trainable names 'scales', on which shapes depend"):
        graphls.onnx.load(proto, trainable=["g", "scales"])


def test_names_that_are_no_parameters_for_other_reasons() -> None:
    proto = model([node("Mul", "x w", "h"), node("Add", "h b", "y")], [tensor("x", ["n", 3])], ["y"], {
        "w": np.ones(3, np.float32), "b": np.ones(3, np.float32),
    })  # fmt: skip
    net = loaded(proto, Selection(untrained={"b": "requires_grad=False in PyTorch", "unknown": "buffers"}))
    assert [p.name for p in net.trainable_params()] == ["w"]
    assert "frozen: requires_grad=False in PyTorch (1: b)" in repr(net)
    overridden = loaded(proto, Selection(trainable="*", untrained={"b": "buffers"}))
    assert [p.name for p in overridden.trainable_params()] == ["w", "b"]


def test_training_leaves_frozen_tensors_and_the_file_keeps_them(tmp_path: Any) -> None:
    net = graphls.onnx.load(exported())
    before = {p.name: p.asnumpy() for p in net.get_parameters()}
    optimizer = nn.SGD(net.trainable_params(), 0.01, weight_decay=0.1)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)
    step(graphls.Tensor(X), graphls.Tensor(np.zeros_like(X)))
    graphls.onnx.save(net, tmp_path / "tuned.onnx")
    stored = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "tuned.onnx").graph.initializer}
    for name in ("frequencies", "literal", "from_buffer"):
        np.testing.assert_array_equal(stored[name], before[name])
    for name in ("weight", "scale", "from_weight"):
        assert np.abs(stored[name] - before[name]).min() > 0
    assert {p.name for p in graphls.onnx.load(tmp_path / "tuned.onnx").trainable_params()} == {
        "weight", "scale", "from_weight",
    }  # fmt: skip
