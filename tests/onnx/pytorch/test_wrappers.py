"""Modules around modules, and modules that have no elements or no Python code; needs torch."""

from __future__ import annotations

from typing import Any

import pytest

import graphls
from graphls import GraphlsError

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from tests.onnx.pytorch.test_from_torch import X  # noqa: E402


@pytest.mark.parametrize("wrap", [torch.compile, torch.nn.DataParallel])
def test_the_module_in_a_wrapper_is_taken(wrap: Any) -> None:
    module = torch.nn.Linear(4, 3)
    net = graphls.from_torch(wrap(module), X)
    assert [p.name for p in net.trainable_params()] == ["weight", "bias"]
    net.parameters_dict()["bias"].set_data(graphls.Tensor([1.0, 2.0, 3.0]))
    net.to_torch(wrap(module))
    assert module.bias.tolist() == [1, 2, 3]


def test_modules_without_elements_or_code_are_refused_with_the_remedy() -> None:
    linear = torch.nn.Linear(4, 3)
    cases = [
        (torch.nn.Linear(4, 3, device="meta"), "'weight' of Linear is on the device 'meta'.*load the weights first"),
        (torch.nn.LazyLinear(3), "'weight' of LazyLinear has no shape before the first call; call the module"),
        (torch.jit.trace(linear, torch.from_numpy(X)), "one of TorchScript.*pass the module before torch.jit.script"),
    ]
    for module, text in cases:
        with pytest.raises(GraphlsError, match=text):
            graphls.from_torch(module, X)
