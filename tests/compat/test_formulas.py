"""Names of MindSpore that are more than other names: optimizers by PyTorch's formulas, boxes, dicts of parameters."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError, Parameter, Tensor, nn

pytestmark = pytest.mark.usefixtures("mindspore")

GRADIENTS = np.array(
    [[0.5, -1.0, 0.1], [0.4, 0.2, -0.3], [-0.6, 0.8, 0.05], [1.0, -0.1, 0.2], [0.3, 0.3, 0.3], [-0.2, 0.5, -0.7]],
    np.float32,
)
TRAINED: list[tuple[str, dict[str, Any], list[float]]] = [
    ("RMSprop", {"lr": 0.1, "alpha": 0.9, "momentum": 0.5, "centered": True, "weight_decay": 0.01},
     [-0.191318, -2.036018, 2.319455]),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.2}, [0.869138, -2.005617, 3.010111]),
    ("NAdam", {"lr": 0.1}, [0.774365, -2.050777, 2.946984]),
    ("RAdam", {"lr": 0.1}, [0.832232, -1.880233, 2.995618]),
    ("Adamax", {"lr": 0.1}, [0.712902, -1.896914, 2.928036]),
    ("Adadelta", {"lr": 1.0}, [0.992181, -2.003711, 2.9989]),
    ("ASGD", {"lr": 0.1}, [0.859946, -2.069878, 3.034818]),
    ("Rprop", {"lr": 0.1}, [0.648, -2.005, 2.718]),
]  # fmt: skip
"""What PyTorch 2.13 makes of [1, -2, 3] by these gradients."""


@pytest.mark.parametrize(("name", "settings", "weights"), TRAINED)
def test_an_experimental_optimizer_trains_as_that_of_torch(
    name: str, settings: dict[str, Any], weights: list[float]
) -> None:
    module: Any = importlib.import_module("mindspore.experimental.optim")
    weight = Parameter(np.array([1.0, -2.0, 3.0], np.float32), name="weight")
    optimizer = getattr(module, name)(iter([weight]), **settings)
    for row in GRADIENTS:
        optimizer((Tensor(row),))
    np.testing.assert_allclose(weight.asnumpy(), weights, 1e-4)


def test_boxes_that_overlap_better_ones_are_left_out() -> None:
    module: Any = importlib.import_module("mindspore.ops.operations")
    boxes = np.array(
        [[0, 0, 10, 10, 0.7], [1, 1, 10, 10, 0.9], [20, 20, 30, 30, 0.8], [0, 0, 9, 9, 0.6], [5, 5, 15, 15, 0.95]]
    ).astype(np.float32)
    found = module.NMSWithMask(0.5)(Tensor(boxes))  # as MindSpore 2.10 on a CPU
    np.testing.assert_array_equal(found[0].asnumpy(), boxes[[4, 1, 2, 0, 3]])
    assert found[1].tolist() == [0, 1, 2, 3, 4] and found[2].tolist() == [True, True, True, False, False]
    with pytest.raises(GraphlsError, match=r"boxes of the shape \(N, 5\), not \(5, 4\)"):
        module.NMSWithMask()(Tensor(boxes[:, :4]))


def test_edits_of_sequences() -> None:
    """The numbers are MindSpore's 2.10 on a CPU."""
    module: Any = importlib.import_module("mindspore.ops")
    made = [[0, 0, 0], [0, 0, 1], [0, 0, 2], [1, 0, 0]], np.float32([1, 2, 3, 4]), [2, 2, 3]
    true = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]], np.float32([1, 3, 5, 5]), [2, 2, 2]
    inputs = [Tensor(np.array(x)) for x in (*made, *true)]
    assert module.EditDistance()(*inputs).tolist() == [[0.5, 1.0], [np.inf, 0.0]]
    distances = module.EditDistance(normalize=False)
    assert distances(*inputs).tolist() == [[1.0, 2.0], [1.0, 0.0]]
    spelled = [Tensor(np.array([[0, i] for i in range(n)])) for n in (6, 7)]
    words = [Tensor(np.array([*map(ord, word)])) for word in ("kitten", "sitting")]
    shapes = [Tensor(np.array([1, n])) for n in (6, 7)]
    step = graphls.compile(lambda a, b: distances(spelled[0], a, shapes[0], spelled[1], b, shapes[1]), *words)
    assert step(*words).tolist() == [3.0]
    with pytest.raises(GraphlsError, match=r"takes indices \(N, R\)"):
        distances(*inputs[:2], inputs[5][:2], *inputs[3:])
    with pytest.raises(GraphlsError, match="'normalize' must be bool"):
        module.EditDistance(1)


def test_products_with_jacobians() -> None:
    module: Any = importlib.import_module("mindspore.nn")
    x, y, v = (Tensor(np.float32(values)) for values in ([1, 2], [3, 4], [1, -1]))
    outputs, changes = module.Jvp(lambda x, y: x * x * y)(x, y, (v, v))
    assert outputs.tolist() == [3, 16] and changes.tolist() == [7, -20]
    outputs, gradient = module.Vjp(nn.ReLU())(x, v)
    assert outputs.tolist() == [1, 2] and gradient.tolist() == [1, -1]
    outputs, gradients = module.Vjp(lambda x, y: (x * x * y, x + y))(x, y, (v, v))
    assert [t.tolist() for t in outputs] == [[3, 16], [4, 6]]
    assert [t.tolist() for t in gradients] == [[7, -17], [2, -5]]


def test_parameters_go_out_of_a_cell_and_into_another() -> None:
    net, other = (nn.SequentialCell(nn.Dense(3, 2), nn.BatchNorm1d(2)) for _ in range(2))
    weights = net.state_dict(prefix="net.")
    assert list(weights)[:3] == ["net.0.weight", "net.0.bias", "net.1.moving_mean"]
    given = {name.removeprefix("net."): value.asnumpy() + 1 for name, value in weights.items()}
    assert other.load_state_dict(given) == ([], [])
    np.testing.assert_array_equal(other[0].weight.asnumpy(), net[0].weight.asnumpy() + 1)
    given.pop("0.bias")
    assert net.load_state_dict({**given, "more": 1.0}, strict=False) == (["0.bias"], ["more"])
    before = net[0].weight.asnumpy()
    for wrong, text in (
        (given, "the dict lacks '0.bias'; strict=False"),
        ({**given, "0.bias": np.zeros(2), "more": 1.0}, "the cell lacks 'more'"),
        ({**given, "0.bias": np.zeros(3)}, r"'0.bias' has the shape \(2,\) and is given \(3,\); strict"),
        ([1], "is a dict of tensors, not"),
    ):
        with pytest.raises(GraphlsError, match=text):
            net.load_state_dict(wrong)  # type: ignore[arg-type]
    np.testing.assert_array_equal(net[0].weight.asnumpy(), before)
