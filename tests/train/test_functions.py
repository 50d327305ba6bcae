"""A Model and its parts take functions of tensors as network, loss and evaluation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Model, amp, load_checkpoint, nn, ops, save_checkpoint
from graphls.train import ModelCheckpoint

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
Y = X @ np.ones((3, 2), np.float32)
ROWS = [(X, Y)] * 3


def network() -> nn.Dense:
    return nn.Dense(3, 2, weight_init="zeros", bias_init="zeros")


def mean_square(logits: Any, labels: Any) -> Any:
    return ops.mean((logits - labels) ** 2)


def trained(loss: Any, **settings: Any) -> np.ndarray[Any, Any]:
    net = network()
    Model(net, loss, nn.SGD(net.trainable_params(), 0.1), **settings).train(2, ROWS)
    return np.asarray(net.weight.asnumpy())


@pytest.mark.parametrize(
    "loss", [mean_square, lambda a, b: mean_square(a, b), ops.mse_loss, partial(ops.mse_loss, reduction="mean")]
)
@pytest.mark.parametrize("settings", [{}, {"amp_level": "O3"}, {"clip_norm": 1.0}])
def test_a_function_trains_as_the_cell_of_the_same_loss(loss: Any, settings: dict[str, Any]) -> None:
    np.testing.assert_allclose(trained(loss, **settings), trained(nn.MSELoss(), **settings), rtol=1e-5, atol=1e-7)
    assert trained(loss).any()


def test_a_function_is_the_loss_of_an_evaluation_too() -> None:
    found = [
        Model(network(), loss, metrics={"loss", "mse"}).eval([(X, Y)]) for loss in (mean_square, nn.MSELoss())
    ]  # fmt: skip
    assert found[0] == found[1]


def test_conditions_on_tensors_in_a_function_become_parts_of_the_graph() -> None:
    def loss(logits: Any, labels: Any) -> Any:
        value = mean_square(logits, labels)
        if value > 1:
            value = value * 0.5
        return value

    assert not np.allclose(trained(loss), trained(mean_square))
    step = amp.build_train_network(net := network(), nn.SGD(net.trainable_params(), 0.1), loss)
    assert float(step(graphls.Tensor(X), graphls.Tensor(Y))) == pytest.approx(0.5 * float((Y**2).mean()), rel=1e-5)


class Scaled(nn.Cell):
    """A loss whose method is passed on."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(p=0.5)
        self.scale = graphls.Parameter(np.float32(2), name="scale")

    def of(self, logits: Any, labels: Any) -> Any:
        return self.scale * mean_square(self.dropout(logits), labels)


def test_cells_that_a_function_reads_are_parts_of_the_network(tmp_path: Path) -> None:
    net, loss = network(), Scaled()
    model = Model(net, loss.of, nn.SGD([*net.trainable_params(), loss.scale], 0.1))
    assert loss.dropout.training
    model.train(1, ROWS, callbacks=[ModelCheckpoint("a", tmp_path)])
    assert float(loss.scale) != 2
    assert {"scale", "weight", "bias"} <= set(load_checkpoint(tmp_path / "a-1_3.ckpt"))


def test_a_network_may_be_a_function_with_its_own_loss(tmp_path: Path) -> None:
    net = nn.SequentialCell(nn.Dense(3, 4), nn.Dropout(p=0.5), nn.Dense(4, 2))

    def forward(x: Any, y: Any) -> Any:
        return mean_square(net(x), y)

    names = [p.name for p in net.get_parameters()]
    model = Model(forward, optimizer=nn.SGD(net.trainable_params(), 0.1))
    assert net[1].training
    before = net[0].weight.asnumpy()
    model.train(1, ROWS)
    assert (net[0].weight.asnumpy() != before).any()
    assert [p.name for p in net.get_parameters()] == names
    save_checkpoint(model.train_network, tmp_path / "a")
    assert set(names) <= set(load_checkpoint(tmp_path / "a.ckpt"))


def test_a_network_as_a_function_predicts_and_is_evaluated() -> None:
    net = network()
    model = Model(lambda x: net(x), mean_square, nn.SGD(net.trainable_params(), 0.1), metrics={"mse"})
    model.train(5, ROWS)
    np.testing.assert_allclose(model.predict(graphls.Tensor(X)).asnumpy(), net(graphls.Tensor(X)).asnumpy())
    assert model.eval([(X, Y)])["mse"] < 1
    evaluated = lambda x, y: (mean_square(net(x), y), net(x), y)  # noqa: E731
    other = Model(net, metrics={"mse"}, eval_network=evaluated, eval_indexes=[0, 1, 2])
    assert other.eval([(X, Y)]) == pytest.approx(model.eval([(X, Y)]))


def one(logits: Any) -> Any:
    return logits


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Model(network(), nn.MSELoss), "'loss_fn' must be a Cell or a function, but got .*; call the class"),
        (lambda: Model(network(), "mse"), "'loss_fn' must be a Cell or a function, but got 'mse'"),
        (lambda: Model(network(), 3), "'loss_fn' must be a Cell or a function, but got 3"),
        (lambda: Model([network()], mean_square), "'network' must be a Cell or a function"),
        (lambda: Model(network(), int), "'loss_fn' must be a Cell or a function"),
        (lambda: trained(one), r"The function one\(logits.* is called with 2 inputs: too many positional arguments"),
    ],
)
def test_what_is_no_function_and_functions_of_other_inputs_are_errors(make: Any, text: str) -> None:
    with pytest.raises(TypeError, match=rf"{text}.*test_functions.py:\d+"):
        make()
