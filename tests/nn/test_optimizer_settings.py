"""Settings that an optimizer cannot work with."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn

A, B = (graphls.Parameter(np.ones(2, np.float32), name=n) for n in "ab")
TWIN = graphls.Parameter(np.ones(2, np.float32), name="a")
ONES = np.ones(2, np.float32)

WRONG: list[Any] = [
    (lambda: nn.SGD(None), ValueError, "can not be None"),
    (lambda: nn.SGD([]), ValueError, "must not be empty"),
    (lambda: nn.SGD(A), TypeError, "list of Parameters"),
    (lambda: nn.SGD(3), TypeError, "list of Parameters"),
    (lambda: nn.SGD([A, 3]), TypeError, "must be .Parameter. or .dict."),
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
    (lambda: nn.Adam([A], use_locking=1), TypeError, "'use_locking'"),
    (lambda: nn.Adam([A], use_lazy=1), TypeError, "'use_lazy'"),
    (lambda: nn.Adam([A], use_offload=None), TypeError, "'use_offload'"),
    (lambda: nn.AdaMax([A], beta1=0.0), ValueError, "For 'AdaMax', the 'beta1'"),
    (lambda: nn.AdaMax([A], eps=-1.0), ValueError, "'eps'"),
    (lambda: nn.AdamWeightDecay([A], beta2=1.0), ValueError, "For 'AdamWeightDecay', the 'beta2'"),
    (lambda: nn.AdamWeightDecay([A], eps="a"), TypeError, "'eps'"),
    (lambda: nn.AdamWeightDecay([A], weight_decay=-0.1), ValueError, "'weight_decay'"),
    (lambda: nn.AdamW([A], betas=0.9), TypeError, "'betas' must be a tuple or list"),
    (lambda: nn.AdamW([A], betas=(0.9,)), ValueError, "'betas' must be two numbers"),
    (lambda: nn.AdamW([A], betas=(0.9, 1.5)), ValueError, "For 'AdamW', the 'beta2'"),
    (lambda: nn.AdamW([A], amsgrad=1), TypeError, "'amsgrad'"),
    (lambda: nn.Lamb([A], -0.1), ValueError, "For 'Lamb', the 'learning rate'"),
    (lambda: nn.Lamb([A], 0.1, beta1=True), TypeError, "For 'Lamb', the type of 'beta1'"),
    (lambda: nn.RMSProp([A], decay=1.5), ValueError, r"'decay' must be in \[0, 1\]"),
    (lambda: nn.RMSProp([A], decay=-0.5), ValueError, "'decay'"),
    (lambda: nn.RMSProp([A], momentum=-1.0), ValueError, "'momentum'"),
    (lambda: nn.RMSProp([A], epsilon=0.0), ValueError, "'epsilon'"),
    (lambda: nn.RMSProp([A], use_locking=1), TypeError, "'use_locking'"),
    (lambda: nn.RMSProp([A], centered=1), TypeError, "'centered'"),
    (lambda: nn.Adagrad([A], accum=-0.1), ValueError, "'accum'"),
    (lambda: nn.Adagrad([A], accum="a"), TypeError, "'accum'"),
    (lambda: nn.Adagrad([A], update_slots=1), TypeError, "'update_slots'"),
    (lambda: nn.Adagrad([A], accum=0.0, update_slots=False), ValueError, "'accum' must be above 0"),
    (lambda: nn.Adadelta([A], rho=1.1), ValueError, r"'rho' must be in \[0, 1\]"),
    (lambda: nn.Adadelta([A], epsilon=0), ValueError, "'epsilon'"),
    (lambda: nn.LARS([A]), TypeError, "takes an Optimizer"),
    (lambda: nn.LARS(nn.SGD([A]), epsilon=0.0), ValueError, "'epsilon'"),
    (lambda: nn.LARS(nn.SGD([A]), coefficient="a"), TypeError, "'coefficient'"),
    (lambda: nn.LARS(nn.SGD([A]), use_clip=1), TypeError, "'use_clip'"),
    (lambda: nn.LARS(nn.SGD([A]), lars_filter=True), TypeError, "'lars_filter' of LARS is a function"),
    (lambda: nn.LARS(nn.SGD([A]))((ONES, ONES)), ValueError, "gradients of 1 parameters"),
    (lambda: nn.AdamW([A])(ONES), TypeError, "in a tuple"),
    (lambda: nn.SGD([{"params": [A], "rate": 1}]), KeyError, "but got ..rate"),
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
    assert nn.Adam([A], use_locking=True, use_lazy=True, use_offload=False).beta1 == 0.9
    assert nn.Adagrad([A], 1, 1).learning_rate.asnumpy() == 1
    beta = graphls.Parameter(np.ones(2, np.float32), name="alphabetaw")
    optimizer = nn.SGD([beta], 1.0, weight_decay=0.5)
    optimizer((0 * ONES,))
    assert beta.asnumpy().tolist() == [1, 1], "the name holds 'beta'"


FREEZING: Any = [
    lambda parameters: nn.Momentum(parameters, 0.1, 0.9, weight_decay=0.1),
    lambda parameters: nn.AdamWeightDecay(parameters, 0.1),
    lambda parameters: nn.LARS(nn.Momentum(parameters, 0.1, 0.9)),
]


@pytest.mark.parametrize("mode", ["graph", "eager"])
@pytest.mark.parametrize("number", range(len(FREEZING)))
def test_a_weight_that_is_frozen_after_its_optimizer_was_made_stays(
    number: int, mode: str, request: pytest.FixtureRequest
) -> None:
    """From the next step on, with the moments that are kept for it, until it is trained again."""
    if mode == "eager":
        request.getfixturevalue("eager")
    net = nn.SequentialCell(nn.Dense(2, 2, weight_init="ones"), nn.Dense(2, 1, weight_init="ones"))
    optimizer = FREEZING[number](net.trainable_params())
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)
    x, y = graphls.Tensor(np.ones((2, 2), np.float32)), graphls.Tensor(np.zeros((2, 1), np.float32))
    values = []
    for is_trained in (True, False, False, True):
        net[0].weight.requires_grad = is_trained
        step(x, y)
        values.append({p.name: p.asnumpy().tolist() for p in step.get_parameters() if p.size > 1})
    names = {name for name in values[0] if name.endswith("0.weight")}
    assert len(names) >= 2
    for name in values[0]:
        moved = [before[name] != after[name] for before, after in pairwise(values)]
        assert moved == ([False, False, True] if name in names else [True, True, True])
