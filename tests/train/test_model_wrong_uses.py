"""What a Model refuses, with the user's line."""

from __future__ import annotations

from typing import Any

import pytest

import graphls
from graphls import nn, train
from graphls.ir.errors import GraphlsError, GraphValueError
from tests.train.standins import Mean, Rows, line, linear

NET = nn.Dense(3, 2)
LOSS = nn.MSELoss()


def optimizer() -> Any:
    return nn.SGD(NET.trainable_params(), 0.1)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: train.Model("net"), TypeError, "The argument 'network' must be a Cell or a function, but got 'net'"),
        (lambda: train.Model(NET, "loss", optimizer()), TypeError, "'loss_fn' must be a Cell"),
        (lambda: train.Model(NET, "loss"), TypeError, "'loss_fn' must be a Cell or a function, but got 'loss'"),
        (lambda: train.Model(NET, LOSS, "sgd"), TypeError, "'optimizer' must be an Optimizer"),
        (lambda: train.Model(NET, LOSS, foo=1), ValueError, "'keep_batchnorm_fp32'.* but got 'foo'"),
        (
            lambda: train.Model(NET, LOSS, loss_scale_manager=graphls.FixedLossScaleManager()),
            ValueError,
            "The argument 'optimizer' can not be None when set 'loss_scale_manager'",
        ),
        (
            lambda: train.Model(NET, LOSS, amp_level="O2"),
            ValueError,
            "The argument 'optimizer' can not be None when set 'amp_level'",
        ),
        (lambda: train.Model(NET, LOSS, optimizer(), amp_level="O7"), ValueError, "The 'level' should be in"),
        (lambda: train.Model(NET, LOSS, optimizer(), boost_level="O1"), ValueError, "offer the levels of boost"),
        (lambda: train.Model(NET, LOSS, optimizer(), acc_level="O1"), ValueError, "offer the levels of boost"),
        (lambda: train.Model(NET, LOSS, boost_config_dict={"a": 1}), ValueError, "offer the levels of boost"),
        (lambda: train.Model(NET, metrics={"mean": Mean()}), ValueError, "'eval_network' or 'loss_fn' must not be"),
        (lambda: train.Model(NET, LOSS, metrics={"mean": 3}), TypeError, "has clear, update and eval, and 3 has not"),
        (lambda: train.Model(NET, LOSS, metrics="acc"), TypeError, "a dict of metrics or a set of names"),
        (lambda: train.Model(NET, LOSS, metrics=[Mean()]), TypeError, "A list of metrics has their names, not .* dict"),
        (
            lambda: train.Model(NET, metrics={"mean": Mean()}, eval_network="net"),
            TypeError,
            "'eval_network' must be a Cell",
        ),
        (
            lambda: train.Model(NET, metrics={"mean": Mean()}, eval_network=NET, eval_indexes=[0, 1]),
            ValueError,
            r"length of it must be three. But got 'eval_indexes' \[0, 1\]",
        ),
        (lambda: train.Model(NET, LOSS).eval(Rows(*line())), ValueError, "'metrics' of Model can not be None or empty"),
        (
            lambda: train.Model(NET, LOSS).fit(1, Rows(*line()), Rows(*line())),
            RuntimeError,
            "'metrics' of Model can not be None or empty",
        ),
        (lambda: train.Model(NET, LOSS).build(), ValueError, "a 'train_dataset', a 'valid_dataset' or both"),
        (lambda: linear()[0].train(0, Rows(*line())), ValueError, "'epoch' must be int and must > 0, but got '0'"),
        (lambda: linear()[0].train(-1, Rows(*line())), ValueError, "'epoch' must be int and must > 0"),
        (lambda: linear()[0].train(1.0, Rows(*line())), TypeError, "'epoch' must be int"),
        (
            lambda: linear()[0].train(2, Rows(*line()), initial_epoch=2),
            ValueError,
            "the parameter 'epoch' must bigger than parameter 'initial_epoch', but got the parameter 'epoch' is 2, "
            "'initial_epoch' is 2",
        ),
        (lambda: linear()[0].train(2, Rows(*line()), initial_epoch=-1), ValueError, "'initial_epoch' must be int"),
        (
            lambda: linear()[0].train(1, Rows(*line(0))),
            ValueError,
            "There is no valid data in dataset, please check dataset file firstly",
        ),
        (lambda: linear(metrics={"m": Mean()})[0].eval(Rows(*line(0))), ValueError, "There is no valid data"),
        (lambda: linear()[0].train(1, 12), TypeError, r"takes a dataset, and int has no get_dataset_size\(\)"),
        (lambda: linear()[0].train(1, [1, 2]), TypeError, "A batch is an array, or .*, not int"),
        (
            lambda: linear()[0].train(1, Rows(*line(), line()[0])),
            ValueError,
            r"When 'loss_fn' is not None, 'train_dataset' should return two elements, but got 3, please .*; for a "
            r"network of several inputs, pass a cell or function that takes all columns and returns the loss",
        ),
        (
            lambda: linear(metrics={"m": Mean()})[0].eval(Rows(line()[0])),
            ValueError,
            "'valid_dataset' should return two elements, but got 1",
        ),
        (
            lambda: train.Model(NET, metrics={"mse"}, eval_network=lambda x, y: (x, x, y)).eval(Rows(*line())),
            ValueError,
            r"needs 2 inputs .*; give eval_indexes=\[0, 1, 2\] for an eval_network of loss, prediction and label",
        ),
        (lambda: linear()[0].train(1, Rows(*line()), "callback"), TypeError, "'callback' is not a Callback"),
        (lambda: linear()[0].train(1, Rows(*line()), dataset_sink_mode=1), TypeError, "must be bool"),
        (lambda: linear()[0].train(1, Rows(*line()), sink_size=0), ValueError, "must be -1 or positive, but got 0"),
        (lambda: linear()[0].train(1, Rows(*line()), sink_size=2.0), TypeError, "'sink_size' must be int"),
        (
            lambda: linear(metrics={"m": Mean()})[0].fit(1, Rows(*line()), Rows(*line()), 0),
            ValueError,
            "'valid_frequency' must be int and must > 0",
        ),
        (
            lambda: linear(metrics={"m": Mean()})[0].fit(1, Rows(*line()), Rows(*line()), "1"),
            TypeError,
            "'valid_frequency' must be int",
        ),
    ],
)
def test_wrong_uses(make: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        make()
    assert isinstance(caught.value, GraphlsError)
    assert "test_model_wrong_uses.py" in str(caught.value)


def test_columns_that_are_no_batch_and_a_forgotten_optimizer_are_told() -> None:
    with pytest.raises(GraphValueError, match=r"but got 1, .*; each array of \(x, y\) is a batch, and \[\(x, y\)\]"):
        linear()[0].train(1, line())
    with pytest.warns(UserWarning, match="Model.train changes no weights, as the Model has a loss_fn and no"):
        model = train.Model(NET, LOSS)
        model.train(1, Rows(*line()))
    assert repr(model) == f"Model({type(NET).__name__}, {type(LOSS).__name__})"


def test_a_forgotten_loss_is_told() -> None:
    optimizer = train.Model(NET, None, nn.SGD(NET.trainable_params(), 0.1))
    said = "has 2 columns, of which Dense.construct takes 1, and no loss_fn was given"
    for model in (train.Model(NET), optimizer):
        for run in (lambda m: m.train(1, Rows(*line())), lambda m: m.build(Rows(*line()), sink_mode=False)):
            with pytest.raises(TypeError, match=said) as caught:
                run(model)
            assert isinstance(caught.value, GraphlsError) and "\n" not in str(caught.value)


def test_a_dataset_whose_epochs_are_empty_is_refused() -> None:
    class Empty(Rows):
        def get_dataset_size(self) -> int:
            return 3

    empty = Empty(*(column[:0] for column in line()), batch=4)
    empty.create_tuple_iterator = lambda **options: []  # type: ignore[method-assign,assignment,return-value]
    for sink_mode, sink_size in ((False, -1), (True, -1), (True, 2)):
        with pytest.raises(GraphValueError, match="There is no valid data"):
            linear()[0].train(1, empty, dataset_sink_mode=sink_mode, sink_size=sink_size)
    with pytest.raises(GraphValueError, match="There is no valid data"):
        linear()[0].build(empty)


def test_an_eval_network_that_gives_too_little_is_refused() -> None:
    class Two(nn.Cell):
        def construct(self, x: Any, y: Any) -> Any:
            return x, y

    class One(nn.Cell):
        def construct(self, x: Any, y: Any) -> Any:
            return {"x": x}

    rows = Rows(*line())
    with pytest.raises(ValueError, match="must be >= 3, but got 2"):
        train.Model(NET, metrics={"m": Mean()}, eval_network=Two(), eval_indexes=[0, 1, 2]).eval(rows)
    with pytest.raises(TypeError, match="a tensor or a tuple, not dict"):
        train.Model(NET, metrics={"m": Mean()}, eval_network=One()).eval(rows)
