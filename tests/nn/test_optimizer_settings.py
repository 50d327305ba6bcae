"""Settings that an optimizer cannot work with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn

A, B = (graphls.Parameter(np.ones(2, np.float32), name=n) for n in "ab")
TWIN = graphls.Parameter(np.ones(2, np.float32), name="a")
ONES = np.ones(2, np.float32)

WRONG: list[Any] = [
    (lambda: nn.SGD(None), ValueError, "must not be None"),
    (lambda: nn.SGD([]), ValueError, "must not be empty"),
    (lambda: nn.SGD(A), TypeError, "list of Parameters"),
    (lambda: nn.SGD(3), TypeError, "list of Parameters"),
    (lambda: nn.SGD([A, 3]), TypeError, "updates Parameters"),
    (lambda: nn.SGD([A, A]), ValueError, "already exists"),
    (lambda: nn.SGD([A, TWIN]), ValueError, "name 'a' already exists"),
    (lambda: nn.SGD([A], -0.1), ValueError,
     "For 'SGD', the 'learning rate' must be float and must >= 0, but got '-0.1' with type 'float'"),
    (lambda: nn.SGD([A], "0.1"), TypeError, "'learning rate'"),
    (lambda: nn.SGD([A], None), TypeError, "'learning rate'"),
    (lambda: nn.SGD([A], float("nan")), ValueError, "'learning rate'"),
    (lambda: nn.SGD([A], []), ValueError, "empty"),
    (lambda: nn.SGD([A], [0.1, -1]), ValueError, "'learning rate'"),
    (lambda: nn.SGD([A], [[0.1]]), TypeError, "'learning rate'"),
    (lambda: nn.SGD([A], weight_decay=-1), ValueError, "'weight_decay'"),
    (lambda: nn.SGD([A], weight_decay="a"), TypeError, "'weight_decay'"),
    (lambda: nn.SGD([A], weight_decay=nn.ReLU()), TypeError, "'weight_decay' must be a number"),
    (lambda: nn.SGD([A], loss_scale=0), ValueError, "'loss_scale'"),
    (lambda: nn.SGD([A], loss_scale="a"), TypeError, "'loss_scale'"),
    (lambda: nn.SGD([A], momentum=-1), ValueError, "'momentum'"),
    (lambda: nn.SGD([A], nesterov=True), ValueError, "needs a momentum"),
    (lambda: nn.SGD([A], momentum=0.9, dampening=0.1, nesterov=True), ValueError, "zero dampening"),
    (lambda: nn.SGD([A], nesterov=1), TypeError, "'nesterov'"),
    (lambda: nn.Momentum([A], 0.1, 1), TypeError, "'momentum' must be float"),
    (lambda: nn.Momentum([A], 0.1, -0.5), ValueError, "'momentum'"),
    (lambda: nn.Adam([A], beta1=1.0), ValueError, r"'beta1' must be in \(0, 1\)"),
    (lambda: nn.Adam([A], beta2="a"), TypeError, "'beta2'"),
    (lambda: nn.Adam([A], eps=0), ValueError, "'eps'"),
    (lambda: nn.SGD([{"params": [A], "rate": 1}]), KeyError, "no 'rate'"),
    (lambda: nn.SGD([{"lr": 1}]), KeyError, "needs 'params'"),
    (lambda: nn.SGD([{"params": []}]), ValueError, "must not be empty"),
    (lambda: nn.SGD([{"params": [A]}, B]), TypeError, "groups only or parameters only"),
    (lambda: nn.SGD([{"params": [A, B]}, {"params": [A]}]), RuntimeError, "does not support repeated setting"),
    (lambda: nn.SGD([{"params": [A]}, {"order_params": [A], "lr": 1}]), ValueError, "alone"),
    (lambda: nn.SGD([{"params": [A, B]}, {"order_params": [A]}]), ValueError, "each of the 2"),
    (lambda: nn.SGD([{"params": [A], "grad_centralization": 1}]), TypeError, "'grad_centralization'"),
    (lambda: nn.SGD([A])((ONES, ONES)), ValueError, "gradients of 1 parameters"),
    (lambda: nn.SGD([A])((np.ones(3, np.float32),)), ValueError, r"shapes \[\(3,\)\]"),
    (lambda: nn.SGD([A])(ONES), TypeError, "in a tuple"),
    (lambda: nn.SGD([A]).get_lr_parameter(B), ValueError, "does not update 'b'"),
    (lambda: nn.SGD([A]).get_lr_parameter("a"), TypeError, "takes a Parameter"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_settings(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_optimizer_settings.py")


def test_settings_that_are_unusual_but_right() -> None:
    assert nn.SGD([A], 1).learning_rate.asnumpy() == 1
    assert nn.SGD([A], graphls.Tensor(0.5)).learning_rate.asnumpy() == 0.5
    assert nn.SGD([A], graphls.Tensor([0.5, 0.1])).dynamic_lr
    assert nn.SGD([A], loss_scale=1e-40).loss_scale == 1e-40
    assert nn.SGD(p for p in (A, B)).get_lr_parameter([A, B])[1].name == "learning_rate"
    assert nn.SGD([{"params": [A]}]).get_weight_decay() == (0.0,)
    beta = graphls.Parameter(np.ones(2, np.float32), name="alphabetaw")
    optimizer = nn.SGD([beta], 1.0, weight_decay=0.5)
    optimizer((0 * ONES,))
    assert beta.asnumpy().tolist() == [1, 1], "the name holds 'beta'"
