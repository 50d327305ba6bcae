"""Modules that PyTorch has exported and trained, from files: no test here needs torch."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphls
from graphls import GraphlsError
from graphls.onnx.pytorch.structure import filled, leaves_of, structure_of
from tests.onnx.pytorch.agreement import FILES, logits_of, read, trained

NAMES = sorted(path.stem for path in FILES.glob("*.npz"))


def inputs_of(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("input."): a for name, a in arrays.items() if name.startswith("input.")}


@pytest.mark.parametrize("name", NAMES)
def test_training_is_that_of_pytorch(name: str) -> None:
    net, arrays = read(name)
    inputs = inputs_of(arrays)
    losses = trained(net, inputs, arrays["labels"], len(arrays["losses"]))
    np.testing.assert_allclose(losses, arrays["losses"], rtol=2e-5, atol=1e-6)
    for key, parameter in net.parameters_dict().items():
        key = key.removeprefix("net.")
        if f"trained.{key}" in arrays:
            np.testing.assert_allclose(parameter.asnumpy(), arrays[f"trained.{key}"], rtol=0, atol=5e-5, err_msg=key)
    net.set_train(False)
    y = logits_of(net(**inputs)).asnumpy()
    np.testing.assert_allclose(y, arrays["outputs"], rtol=0, atol=5e-5 * np.abs(arrays["outputs"]).max())


def test_evaluation_writes_no_statistics_and_training_does() -> None:
    net, arrays = read("images")
    before = {key: p.asnumpy() for key, p in net.parameters_dict().items()}
    net.set_train(False)
    net(**inputs_of(arrays))
    assert all((p.asnumpy() == before[key]).all() for key, p in net.parameters_dict().items())
    net.set_train()
    net(**inputs_of(arrays))
    changed = {key for key, p in net.parameters_dict().items() if (p.asnumpy() != before[key]).any()}
    assert changed == {"norm.running_mean", "norm.running_var"}  # not those of the layer in evaluation mode


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_a_copy_trains_apart(copied: Any) -> None:
    net, arrays = read("tied")
    other = copied(net)
    losses = trained(other, inputs_of(arrays), arrays["labels"], 3)
    np.testing.assert_allclose(losses, arrays["losses"][:3], rtol=1e-5)
    losses = trained(net, inputs_of(arrays), arrays["labels"], 3)
    np.testing.assert_allclose(losses, arrays["losses"][:3], rtol=1e-5)


@pytest.mark.parametrize("name", ["tied", "llama"])  # the large tensors of llama are not in the exported model
def test_the_saved_model_is_that_of_evaluation_with_the_weights(name: str, tmp_path: Path) -> None:
    net, arrays = read(name)
    assert all(stored.has_data for stored in net.stored) == (name == "tied")
    trained(net, inputs_of(arrays), arrays["labels"], 3)
    net.set_train(False)
    expected = net(**inputs_of(arrays))["logits"].asnumpy()
    graphls.onnx.save(net, tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    y = session.run(None, inputs_of(arrays))[0]
    np.testing.assert_allclose(y, expected, atol=1e-5 * np.abs(expected).max())


def test_arguments_and_results_have_the_structure_of_the_module() -> None:
    net, arrays = read("tied")
    results = net(arrays["input.words"], mask=arrays["input.mask"])
    assert list(results) == ["logits", "states"]
    assert results["states"][1] is None
    assert net(arrays["input.words"][:2], arrays["input.mask"][:2])["logits"].shape == (2, 5, 12)
    with pytest.raises(GraphlsError):
        net(arrays["input.words"])


def test_structures_are_flattened_and_filled_in_one_order() -> None:
    value = {"a": (1, [2, None]), "b": {"c": 3, "d": "text"}}
    structure, leaves = structure_of(value, lambda part: isinstance(part, int))
    assert leaves == [1, 2, 3]
    assert filled(structure, [10, 20, 30]) == {"a": (10, [20, None]), "b": {"c": 30, "d": "text"}}
    assert list(leaves_of(structure, value, "x")) == leaves
    with pytest.raises(GraphlsError, match=r"The input \"x\['a'\]\" is a sequence of 2|x\['a'\]"):
        list(leaves_of(structure, {"a": (1,), "b": value["b"]}, "x"))
    with pytest.raises(GraphlsError, match="dict with the keys 'a', 'b'"):
        list(leaves_of(structure, (1, 2), "x"))


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(GraphlsError, match="from_torch takes a module of PyTorch, an instance"):
        graphls.from_torch(graphls.nn.Dense, np.ones((1, 2), np.float32))
    with pytest.raises(GraphlsError, match="to_torch writes into a module of PyTorch"):
        read("tied")[0].to_torch({})
