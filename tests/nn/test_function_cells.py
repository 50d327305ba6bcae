"""Cells that records of operations declare: their arguments, their faults, and subclasses of them."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc

import numpy as np
import pytest

from graphls import Parameter, Tensor, nn, ops
from graphls.ops.record import CELLS

X = Tensor(np.linspace(-2, 2, 6).reshape(2, 3).astype(np.float32))


def test_help_shows_the_settings() -> None:
    assert [*inspect.signature(nn.Hardtanh).parameters] == ["min_val", "max_val"]
    assert inspect.signature(nn.GaussianNLLLoss).parameters["eps"].kind is inspect.Parameter.KEYWORD_ONLY
    assert [*inspect.signature(nn.CosineEmbeddingLoss().construct).parameters] == ["logits_x1", "logits_x2", "labels"]


def test_an_argument_that_there_is_not_is_an_error_with_the_users_line() -> None:
    with pytest.raises(TypeError, match=r"Hardtanh.__init__\(\) got an unexpected .*'nonsense'\. \(.*test_function_ce"):
        nn.Hardtanh(nonsense=1)


def test_a_subclass_of_a_user_has_its_own_init_and_construct() -> None:
    class Scaled(nn.HuberLoss):
        factor: float = 3.0

        def __init__(self, delta: float) -> None:
            super().__init__(delta=delta)

        def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
            return super().construct(logits, labels=labels) * self.factor

    expected = ops.huber_loss(X, ops.zeros_like(X), delta=0.5) * 3.0
    np.testing.assert_array_equal(Scaled(0.5)(X, ops.zeros_like(X)).asnumpy(), expected.asnumpy())


def test_a_cell_is_copied_with_its_settings() -> None:
    assert copy.deepcopy(nn.Hardtanh(-0.5, 0.25)).max_val == 0.25


def test_a_cell_is_pickled_and_shown() -> None:
    cell = pickle.loads(pickle.dumps(nn.PixelShuffle(2)))
    assert type(cell) is nn.PixelShuffle and repr(cell) == "PixelShuffle(upscale_factor=2)"


def test_help_has_the_sentence_of_the_function() -> None:
    text = pydoc.plain(pydoc.render_doc(nn.Hardtanh)).replace("'", "")  # which annotations have until Python 3.13
    assert "Hardtanh(min_val: float = -1.0, max_val: float = 1.0)" in text
    assert "with gradient 0 at both" in text
    assert "construct(self, x: TensorLike)" in text


def test_every_declared_cell_is_one_of_the_package() -> None:
    assert CELLS.keys() <= {*nn.__all__}
    for name, record in CELLS.items():
        assert getattr(nn, name).function is record.function


def weight() -> Parameter:
    return Parameter(np.array([[0.5, -1.0], [2.0, 0.125]], np.float32), name="w")


def state(value: float = 0.0) -> Parameter:
    return Parameter(np.full((2, 2), value, np.float32), name="state")


G = Tensor(np.array([[0.3, -0.7], [0.0, 1.5]], np.float32))
SAME = {
    "momentum": (
        lambda w: nn.Momentum([w], 0.1, 0.9, use_nesterov=True),
        lambda w: ops.ApplyMomentum(use_nesterov=True)(w, state(), 0.1, G, 0.9),
    ),
    "adam": (
        lambda w: nn.Adam([w], 0.1),
        lambda w: ops.Adam()(w, state(), state(), Tensor(0.9), Tensor(0.999), 0.1, 0.9, 0.999, 1e-8, G),
    ),
    "adamax": (
        lambda w: nn.AdaMax([w], 0.1),
        lambda w: ops.ApplyAdaMax()(w, state(), state(), Tensor(np.float32(0.9)), 0.1, 0.9, 0.999, 1e-8, G),
    ),
    "adam with decay": (
        lambda w: nn.AdamWeightDecay([w], 0.1, weight_decay=0.25),
        lambda w: ops.AdamWeightDecay()(w, state(), state(), 0.1, 0.9, 0.999, 1e-6, 0.25, G),
    ),
    "rmsprop": (
        lambda w: nn.RMSProp([w], 0.1, momentum=0.5, centered=True),
        lambda w: ops.ApplyCenteredRMSProp()(w, state(), state(1), state(), G, Tensor([0.1]), 0.9, 0.5, 1e-10),
    ),
    "adagrad": (lambda w: nn.Adagrad([w], 0.1, 0.1), lambda w: ops.ApplyAdagrad()(w, state(0.1), 0.1, G)),
    "adadelta": (
        lambda w: nn.Adadelta([w], 0.1),
        lambda w: ops.ApplyAdadelta()(w, state(), state(), 0.1, 0.9, 1e-6, G),
    ),
    "ftrl": (
        lambda w: nn.FTRL([w], learning_rate=0.1, l1=0.25, l2=0.125),
        lambda w: ops.ApplyFtrl()(w, state(0.1), state(), G, Tensor(np.float32(0.1)), 0.25, 0.125, -0.5),
    ),
}


@pytest.mark.parametrize("rule", SAME)
def test_an_optimizer_and_its_operator_class_give_the_same_numbers(rule: str) -> None:
    optimizer, operator = SAME[rule]
    first, second = weight(), weight()
    optimizer(first)((G,))
    operator(second)
    np.testing.assert_allclose(first.asnumpy(), second.asnumpy(), rtol=3e-7)
    assert not np.array_equal(first.asnumpy(), weight().asnumpy())
