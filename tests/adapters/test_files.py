"""Files of adapters: those of PEFT and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from graphls import Tensor, adapters
from graphls.ir.errors import GraphFileError, GraphValueError
from tests.adapters.test_lora import LOGITS, LOSSES, Net, Numbers, changed, network, train

SHAPES = {
    "base_model.model.conv.lora_A.weight": (2, 3, 3), "base_model.model.conv.lora_B.weight": (6, 2, 1),
    "base_model.model.q_proj.lora_A.weight": (2, 6), "base_model.model.q_proj.lora_B.weight": (5, 2),
    "base_model.model.head.lora_A.weight": (2, 5), "base_model.model.head.lora_B.weight": (4, 2),
}  # fmt: skip
"""What PEFT 0.21.2 saves for the network of these tests."""


def written(folder: Path, **settings: object) -> Path:
    """The adapters of the tests in files as PEFT writes them."""
    arrays = {
        f"base_model.model.{module}.lora_{which}.weight": array
        for module, pair in Numbers().adapters.items()
        for which, array in zip("AB", pair, strict=True)
    }
    assert {name: array.shape for name, array in arrays.items()} == SHAPES
    save_file(arrays, folder / "adapter_model.safetensors")
    known = {"peft_type": "LORA", "r": 2, "lora_alpha": 6, "target_modules": ["conv"], "rank_pattern": {}}
    (folder / "adapter_config.json").write_text(json.dumps({**known, **settings}), encoding="utf-8")
    return folder


def test_adapters_of_peft_are_trained_on(tmp_path: Path) -> None:
    numbers, net = Numbers(), network()
    assert adapters.load_adapters(net, written(tmp_path)) == ["conv", "q_proj", "head"]
    assert len(net.trainable_params()) == 6
    np.testing.assert_allclose(train(net, numbers), LOSSES, rtol=1e-5)
    adapters.save_adapters(net, tmp_path / "tuned")
    held = load_file(tmp_path / "tuned/adapter_model.safetensors")
    assert {name: array.shape for name, array in held.items()} == SHAPES
    settings = json.loads((tmp_path / "tuned/adapter_config.json").read_text(encoding="utf-8"))
    assert (settings["r"], settings["lora_alpha"], settings["peft_type"]) == (2, 6, "LORA")
    assert settings["target_modules"] == ["conv", "q_proj", "head"] and settings["modules_to_save"] is None
    other = network()
    adapters.load_adapters(other, tmp_path / "tuned")
    np.testing.assert_allclose(other(Tensor(numbers.inputs[0])).asnumpy()[0], LOGITS, atol=1e-5)


def test_a_network_with_adapters_takes_the_numbers(tmp_path: Path) -> None:
    net = network()
    parameters = net.parameters_and_names
    adapters.lora(net, rank=2, match="head")
    before = [id(parameter) for _, parameter in parameters()]
    changed(net)
    expected = {path: parameter.asnumpy() for path, parameter in parameters() if "lora" in path}
    adapters.save_adapters(net, tmp_path / "head.safetensors")
    for path, parameter in parameters():
        if "lora" in path:
            parameter.set_data(np.zeros(parameter.shape, np.float32))
    adapters.load_adapters(net, tmp_path / "head.safetensors")
    found = {path: parameter.asnumpy() for path, parameter in parameters() if "lora" in path}
    assert all(np.array_equal(found[path], array) for path, array in expected.items())
    assert [id(parameter) for _, parameter in parameters()] == before


def test_what_else_is_trained_is_saved(tmp_path: Path) -> None:
    net = network()
    adapters.lora(net, rank=2, match="q_proj", trainable="head.*")
    dict(net.parameters_and_names())["head.bias"].set_data(np.ones(4, np.float32))
    adapters.save_adapters(net, tmp_path)
    held = load_file(tmp_path / "adapter_model.safetensors")
    assert held.keys() >= {"base_model.model.head.weight", "base_model.model.head.bias"}
    assert json.loads((tmp_path / "adapter_config.json").read_text(encoding="utf-8"))["modules_to_save"] == ["head"]
    other = network()
    adapters.load_adapters(other, tmp_path)
    assert np.array_equal(dict(other.parameters_and_names())["head.bias"].asnumpy(), np.ones(4, np.float32))
    assert {p.name for p in other.trainable_params()} == {p.name for p in net.trainable_params()}


def test_modules_are_found_by_the_ends_of_their_names(tmp_path: Path) -> None:
    array = np.ones((1, 16), np.float32), np.ones((3, 1), np.float32)
    names = ("base_model.model.whole.net.fc.lora_A.weight", "base_model.model.whole.net.fc.lora_B.weight")
    save_file(dict(zip(names, array, strict=True)), tmp_path / "one.safetensors")
    net, x = Net(), Tensor(np.ones((1, 2, 4, 4), np.float32))
    adapters.load_adapters(net, tmp_path / "one.safetensors", x)
    assert np.array_equal(dict(net.parameters_and_names())["fc.lora_A.weight"].asnumpy(), array[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"use_dora": True}, "has use_dora, which graphls does not compute"),
        ({"rank_pattern": {"conv": 4}}, "has rank_pattern"),
        ({"r": 4}, "have the ranks \\[2\\]"),
        ({"r": [2]}, "are numbers, not \\[2\\] and 6"),
        ({"lora_alpha": "much"}, "are numbers, not 2 and 'much'"),
    ],
)
def test_settings_that_mean_something_else(tmp_path: Path, settings: Any, message: str) -> None:
    with pytest.raises(GraphValueError, match=message):
        adapters.load_adapters(network(), written(tmp_path, **settings))


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(GraphFileError, match="cannot be read"):
        adapters.load_adapters(network(), tmp_path / "none")
    file = tmp_path / "a.safetensors"
    file.write_bytes(b"nothing")
    with pytest.raises(GraphValueError, match="holds no adapters: it is not a file of safetensors"):
        adapters.load_adapters(network(), file)
    for arrays, message in (
        ({"q_proj.lora_A.weight": (2, 6)}, "of 'q_proj' it has one tensor of two"),
        ({"q_proj.lora_embedding_A": (2, 6)}, "lora_embedding_A"),
        ({"q_proj.lora_A.weight": (), "q_proj.lora_B.weight": (5, 2)}, "'q_proj' of shape \\(\\)"),
        ({"k.lora_A.weight": (2, 6), "k.lora_B.weight": (5, 2)}, "nothing that is called 'k'"),
        ({"q_proj.lora_A.weight": (2, 7), "q_proj.lora_B.weight": (5, 2)}, "has \\(2, 7\\) for 'onnx::MatMul_9.lora_A"),
    ):
        save_file({name: np.zeros(shape, np.float32) for name, shape in arrays.items()}, file)
        net = network()
        with pytest.raises(GraphValueError, match=message):
            adapters.load_adapters(net, file)
        assert [p.name for p in net.trainable_params()] == [p.name for p in network().trainable_params()]
    written(tmp_path)
    for text in ("{", "[" * 100_000):
        (tmp_path / "adapter_config.json").write_text(text, encoding="utf-8")
        with pytest.raises(GraphFileError, match="The settings of adapters cannot be read"):
            adapters.load_adapters(network(), tmp_path)
