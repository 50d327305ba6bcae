"""The executors of `mindspore.common.api`, and attributes of training steps that scripts read."""

from __future__ import annotations

import numpy as np
import pytest

from graphls import Tensor, nn
from graphls.compat.executors import _cell_graph_executor
from graphls.ir.errors import GraphValueError


def test_a_compiled_graph_is_given_as_text_and_as_onnx() -> None:
    net = nn.ReLU()
    name, _ = _cell_graph_executor.compile(net, Tensor(np.float32([1, -2])))
    assert "relu" in _cell_graph_executor._get_func_graph_proto(net, name, "anf_ir", True).lower()
    assert b"Relu" in _cell_graph_executor._get_func_graph_proto(net, name)
    for wrong in (("no.99999999", "anf_ir"), (name, "mind_ir")):
        with pytest.raises(GraphValueError, match="There is no graph"):
            _cell_graph_executor._get_func_graph_proto(net, *wrong)


def test_a_training_step_says_that_it_does_not_look_for_requests_to_exit() -> None:
    net = nn.WithLossCell(nn.Dense(2, 1), nn.MSELoss())
    assert nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1)).use_graceful_exit is False
