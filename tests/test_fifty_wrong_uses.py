"""Wrong uses of all kinds: one sentence with the user's line, as the builtin that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError, Parameter, Tensor, nn, ops

X = np.arange(6, dtype=np.float32).reshape(2, 3)
IMAGE = np.ones((1, 3, 4, 4), np.float32)
LABELS = np.array([2, 0], np.int32)
T = Tensor(X)
W = Parameter(np.ones((2, 3), np.float32), name="w")


class Module:
    """What a module of PyTorch is known by."""

    named_buffers = state_dict = lambda self: iter(())

    def forward(self, x: Any) -> Any:
        return x

    __call__ = forward


def net() -> nn.Cell:
    return nn.Dense(3, 3)


def trainer(**options: Any) -> nn.Cell:
    cell = nn.WithLossCell(net(), nn.SoftmaxCrossEntropyWithLogits(True, "mean"))
    optimizer = nn.Momentum(cell.trainable_params(), 0.1, 0.9)
    return nn.TrainOneStepWithLossScaleCell(cell, optimizer, **options)


def traced(function: Callable[..., Any], *inputs: Any) -> Any:
    return graphls.compile(function, *inputs)(*inputs)


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    # shapes
    (lambda: T + np.ones(4, np.float32), ValueError, "broadcast"),
    (lambda: ops.matmul(T, T), ValueError, "inner sizes 3 and 2 differ"),
    (lambda: T.reshape(4, -1), ValueError, "6 elements"),
    (lambda: T.reshape(-1, -1), ValueError, "-1"),
    (lambda: ops.zeros((2, -3)), ValueError, "sizes of a tensor are 0 or more"),
    (lambda: ops.ones(-1), ValueError, "sizes of a tensor are 0 or more"),
    (lambda: ops.repeat_interleave(T, []), ValueError, "cannot repeat"),
    (lambda: ops.mirror_pad(T, None), TypeError, "a pair for each axis"),
    (lambda: ops.broadcast_to(T, (2, 2)), ValueError, "do not broadcast"),
    (lambda: ops.concat((T, T[:, :2])), ValueError, "join"),
    (lambda: ops.stack((T, T[:1])), ValueError, "join"),
    (lambda: ops.split(T, [1, 3], 1), ValueError, "cannot cut 3 elements"),
    (lambda: net()(np.ones((2, 4), np.float32)), ValueError, "inner sizes 4 and 3 differ"),
    (lambda: nn.Conv2d(2, 4, 3)(IMAGE), ValueError, "cannot apply kernels"),
    (lambda: nn.BatchNorm2d(3)(T), ValueError, "rank 4"),
    (lambda: W.set_data(np.ones(4)), ValueError, "shape"),
    (lambda: Tensor([[1, 2], [3]]), ValueError, "same length"),
    (lambda: ops.arange(0, float("inf")), ValueError, "has no end"),
    # axes and indices
    (lambda: ops.sum(T, 2), ValueError, "no axis 2 in an array of rank 2"),
    (lambda: ops.mean(T, (0, 0)), ValueError, "twice"),
    (lambda: ops.softmax(T, 1.0), TypeError, "axis is an integer"),
    (lambda: ops.squeeze(T, 1), ValueError, "size 1"),
    (lambda: ops.transpose(T, (0, 0)), ValueError, "order"),
    (lambda: T[2], IndexError, "index 2 is out of range"),
    (lambda: T[0, 0, 0], IndexError, "takes no 3 indices"),
    (lambda: ops.gather(T, Tensor([3]), 1), IndexError, "index 3 is out of range"),
    (lambda: ops.one_hot(Tensor([1]), -2), ValueError, "depth of 0 or more"),
    (lambda: traced(lambda x: x[int(x.sum())], X), TypeError, "made a Python number"),
    # settings
    (lambda: ops.bincount(Tensor([1]), minlength="a"), TypeError, "'minlength' must be int"),
    (lambda: ops.chunk(T, []), TypeError, "'chunks' must be int"),
    (lambda: ops.round(T, decimals="a"), TypeError, "'decimals' must be int"),
    (lambda: ops.rot90(T, "a"), TypeError, "'k' must be int"),
    (lambda: ops.tril(T, 0.5), TypeError, "'diagonal' must be int"),
    (lambda: ops.triu(T, "a"), TypeError, "'diagonal' must be int"),
    (lambda: ops.triu_indices(2, 2, "a"), TypeError, "'offset' must be int"),
    (lambda: ops.diagonal(T, "a"), TypeError, "'offset' must be int"),
    (lambda: ops.narrow(T, 0, [], 1), TypeError, "'start' must be int"),
    (lambda: ops.diag_embed(T, "a"), TypeError, "'offset' must be int"),
    (lambda: ops.randperm([]), TypeError, "'n' must be int"),
    (lambda: ops.uniform((2,), None, 3, dtype="int32"), TypeError, "'minval' must be int"),
    (lambda: ops.logspace(0, 1, 2, "a"), TypeError, "the type of 'base' should be 'float'"),
    (lambda: ops.div(T, T, rounding_mode=[]), ValueError, "rounding mode"),
    (lambda: ops.tensor_scatter_elements(T, T, T, reduction=[]), ValueError, "A reduction is one of"),
    # dtypes
    (lambda: ops.cast(T, "float33"), TypeError, "'float33' is not a dtype"),
    (lambda: ops.gather(T, T, 0), TypeError, "int32 or int64 indices"),
    (lambda: ops.max(T > 0), TypeError, "max takes numbers"),
    (lambda: ops.bitwise_and(T, T), TypeError, "bitwise_and takes integers"),
    (lambda: ops.add(T, "1"), TypeError, "neither a tensor nor a number"),
    (lambda: Tensor(np.ones(2, np.uint8)) + -1, ValueError, "-1 does not fit uint8"),
    (lambda: ops.var(T, ddof=0.5), TypeError, "ddof of a variance is an integer"),
    (lambda: graphls.compile(net(), X)(X.astype(np.float64)), TypeError, "is f32"),
    # reductions, losses and labels
    (lambda: nn.MSELoss("average"), ValueError, "'reduction' must be in"),
    (lambda: ops.kl_div(T, T, "batch"), ValueError, "'reduction' must be in"),
    (lambda: ops.cross_entropy(X, LABELS + 1), ValueError, r"3 is not in range\(3\)"),
    (lambda: traced(nn.CrossEntropyLoss(), X, LABELS - 1), ValueError, r"-1 is not in range\(3\)"),
    (lambda: nn.SoftmaxCrossEntropyWithLogits(True)(X, LABELS[:, None]), ValueError, "reshape them"),
    (lambda: ops.nll_loss(X, LABELS.astype(np.float32)), TypeError, "int32 or int64 labels"),
    (lambda: nn.L1Loss()(X, X * np.nan), ValueError, "6 labels are nan or infinite"),
    (lambda: ops.max(ops.zeros((0, 2)), 0), ValueError, "no elements"),
    (lambda: ops.cross_entropy(X, LABELS.astype(np.float32)), TypeError, r"labels.astype\('int32'\)"),
    (lambda: nn.SmoothL1Loss()(X[:, :1], X[:, 0]), ValueError, r"labels.expand_dims\(-1\) has it"),
    # cells, optimizers and training steps
    (lambda: nn.Conv2d(3, 8, 3, padding=1), ValueError, "give pad_mode='pad'"),
    (lambda: nn.SGD(nn.SequentialCell(net()), 0.1), TypeError, r"give network.trainable_params\(\), which has 2"),  # type: ignore[arg-type]
    (lambda: net()([[1.0] * 3] * 200), TypeError, r"\[\[1.0, 1.0, 1.0\], .*\.\.\.\] is neither .*: Tensor\(values\)"),
    (lambda: nn.Dense(0, 3), ValueError, "'in_channels' must be int and must > 0"),
    (lambda: nn.Dense(3, 3, activation="rulu"), KeyError, "did you mean 'relu'"),
    (lambda: nn.Dropout(p=1.5), ValueError, "'p' must be at least 0 and at most 1"),
    (lambda: nn.SequentialCell(nn.ReLU(), "relu"), TypeError, "relu"),
    (lambda: net()(X, X), TypeError, "requires 1 positional"),
    (lambda: nn.SGD([], 0.1), ValueError, "must not be empty"),
    (lambda: nn.SGD([{"params": []}], 0.1), ValueError, "empty"),
    (lambda: nn.SGD([{"params": [W], "rate": 0.1}], 0.1), KeyError, "rate"),
    (lambda: nn.Momentum([W, W], 0.1, 0.9), ValueError, "already exists"),
    (lambda: nn.Adam([W], -0.1), ValueError, "'learning rate' must be float and must >= 0"),
    (lambda: trainer(scale_sense=1024.0), TypeError, "must be Cell or Tensor"),
    (lambda: trainer(scale_sense=Tensor([1.0, 2.0])), ValueError, r"must be \(1,\) or \(\)"),
    (lambda: nn.TrainOneStepCell(net(), "sgd"), TypeError, "takes cells, not 'sgd'"),
    (lambda: ops.assign(1.0, X), TypeError, "Parameter to write to"),
    # compiling and differentiating
    (lambda: graphls.compile("relu", X), TypeError, "takes a cell or a function, not str"),
    (lambda: graphls.compile(Module(), X), TypeError, "Module is a module of PyTorch; write it as a nn.Cell"),
    (
        lambda: graphls.save_checkpoint(graphls.compile(nn.ReLU(), X), "step.ckpt"),  # type: ignore[arg-type]
        TypeError,
        "give the cell that was compiled",
    ),
    (lambda: graphls.compile(nn.ReLU(), X)(X[:1]), ValueError, "shapes are static"),
    (lambda: graphls.compile(nn.ReLU(), X)(), TypeError, "got 0 arguments"),
    (lambda: graphls.grad(nn.ReLU(), 1)(X), TypeError, "grad_position 1 needs more"),
    (lambda: traced(lambda x: ops.relu(x) if x > 0 else x, X), ValueError, "Only a tensor of shape"),
    (lambda: ops.relu7, AttributeError, "did you mean 'relu"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_wrong_use_is_one_sentence_with_a_line(number: int) -> None:
    use, builtin, text = WRONG[number]
    with pytest.raises(GraphlsError, match=text) as caught:
        use()
    message = str(caught.value)
    assert isinstance(caught.value, builtin)
    assert "test_fifty_wrong_uses.py" in message and "\n" not in message


def test_there_are_fifty() -> None:
    assert len(WRONG) >= 50
