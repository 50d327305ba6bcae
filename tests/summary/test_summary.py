"""`step.summary()`: numbers by hand, for cells that run once, in loops, in branches and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.inspect.summary import Summary
from graphls.ir.errors import GraphKeyError
from graphls.ir.flops import own_flops, runs

F32 = np.float32


def compiled(cell: Any, *inputs: Any) -> graphls.Compiled:
    return graphls.compile(cell, *inputs, backend="numpy")


def rows(summary: Summary, *names: str) -> dict[str, tuple[Any, ...]]:
    return {cell.path: tuple(getattr(cell, name) for name in names) for cell in summary}


def products(step: graphls.Compiled, phase: str) -> int:
    """The operations of matrix products in a phase."""
    chosen = (pair for pair in runs(step.graph.nodes) if pair[0].primitive.name == "matmul")
    return sum(times * own_flops(node) for node, times in chosen if node.phase == phase)


class Images(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, has_bias=True, pad_mode="valid")
        self.pool = nn.MaxPool2d(2, 2)
        self.relu = nn.ReLU()
        self.fc = nn.Dense(36, 5)

    def construct(self, x: Any) -> Any:
        x = self.pool(self.relu(self.conv(x)))
        return self.relu(self.fc(ops.reshape(x, (3, 36))))


class Loss(nn.Cell):
    """The mean square of what a network gives."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net = net

    def construct(self, *inputs: Any) -> Any:
        return ops.mean(ops.square(self.net(*inputs)))


def trained(net: nn.Cell, *inputs: Any) -> graphls.Compiled:
    loss = Loss(net)
    return compiled(nn.TrainOneStepCell(loss, nn.SGD(loss.trainable_params(), 0.1)), *inputs)


def test_a_network_by_hand() -> None:
    """Three images of 2 x 8 x 8: the convolution sees 6 x 6 windows of 2 x 3 x 3, and 3 x 3 elements are left of it."""
    found = compiled(Images(), np.ones((3, 2, 8, 8), F32)).summary()
    conv, pooled, dense = 3 * 4 * 6 * 6, 3 * 4 * 3 * 3, 3 * 5
    relu = conv + dense
    by_hand = {
        "conv": (1, 4 * 18 + 4, conv * (2 * 18 + 1), 4 * 2 * conv),
        "relu": (2, 0, relu, 4 * relu),
        "pool": (1, 0, 4 * pooled, (4 + 8) * pooled),
        "fc": (1, 36 * 5 + 5, dense * (2 * 36 + 1), 4 * 2 * dense),
    }
    measured = rows(found, "calls", "parameters", "flops", "made")
    whole = measured.pop("")
    assert measured == by_hand
    assert whole == (1, *(sum(column) for column in list(zip(*by_hand.values(), strict=True))[1:]))
    assert {path: str(types[0][0]) for path, types in rows(found, "outputs").items()} == {
        "": "f32[3,5]", "conv": "f32[3,4,6,6]", "relu": "f32[3,4,6,6]", "pool": "f32[3,4,3,3]", "fc": "f32[3,5]"
    }  # fmt: skip
    assert [(cell.kind, cell.depth, cell.varies) for cell in found] == [
        ("", 0, False), ("Conv2d", 1, False), ("ReLU", 1, True), ("MaxPool2d", 1, False), ("Dense", 1, False)
    ]  # fmt: skip
    assert found.flops == found[0].flops == sum(phase.flops for phase in found.phases)


def test_a_training_step_takes_twice_the_products_in_the_backward() -> None:
    """But for the input, of which nobody takes the gradient; what the backward reads is kept."""
    net = nn.SequentialCell(nn.Dense(4, 8), nn.Tanh(), nn.Dense(8, 2))
    step = trained(net, np.ones((3, 4), F32))
    first, second = 2 * 3 * 4 * 8, 2 * 3 * 8 * 2
    assert (products(step, "forward"), products(step, "backward")) == (first + second, first + 2 * second)
    found = step.summary()
    phases = {phase.phase: phase for phase in found.phases}
    bias_and_tanh, square_and_mean = 3 * 8 + 3 * 2 + 3 * 8, 2 * 3 * 2
    assert phases["forward"].flops == first + second + bias_and_tanh + square_and_mean
    assert found[0].flops == phases["forward"].flops and found[0].made == phases["forward"].made
    assert found["network.net.1"].kept == 4 * 3 * 8
    assert found["network.net.2"].kept == found["network.net"].kept - 4 * 3 * 8 == 4 * 3 * 2
    assert found.parameter_bytes == 4 * found[0].parameters == 4 * found[0].trainable == 4 * (40 + 18)
    weights = {state.name for state in step.graph.states if state.name.startswith("net.")}
    others = [state for state in step.graph.states if state.name not in weights]
    assert found.other_states == sum(state.type.size for state in others) > 0
    assert [(p.phase, p.nodes) for p in found.phases] == [
        (phase, sum(node.phase == phase for node, _ in runs(step.graph.nodes)))
        for phase in ("forward", "backward", "update")
    ]


@pytest.mark.parametrize("layers", [1, 3])
def test_a_transformer_by_formula(layers: int) -> None:
    """Products of a layer: 3 projections and one back, scores and their use, two dense layers."""
    length, batch, width, heads, inner = 5, 2, 16, 4, 24
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, inner, dropout=0.0), layers)
    step = trained(net, np.ones((length, batch, width), F32))
    tokens = length * batch
    layer = 2 * tokens * (4 * width * width + 2 * width * inner) + 2 * 2 * tokens * length * width
    assert products(step, "forward") == layers * layer
    found = step.summary()
    softmax, norms = 5 * batch * heads * length * length, 2 * tokens * width
    for number in range(layers):
        cell = found[f"network.net.layers.{number}"]
        assert cell.kind == "TransformerEncoderLayer" and cell.depth == 3
        assert cell.parameters == 4 * width * (width + 1) + 2 * width * inner + inner + width + 4 * width
        assert layer + softmax + norms < cell.flops < 1.5 * layer
    attention = found["network.net.layers.0.self_attn"]
    assert attention.flops > 2 * tokens * 4 * width * width and attention.parameters == 4 * width * (width + 1)
    assert str(attention.outputs[0]) == "f32[5,2,16]"


def test_a_recurrent_layer_by_formula() -> None:
    length, batch, width, hidden = 7, 3, 4, 6
    step = compiled(nn.LSTM(width, hidden), np.ones((length, batch, width), F32))
    assert products(step, "forward") == 2 * length * batch * 4 * hidden * (width + hidden)
    found = step.summary()
    assert found[0].parameters == 4 * hidden * (width + hidden + 2)
    assert products(step, "forward") < found[0].flops < 2 * products(step, "forward")


class Loop(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Dense(4, 4)
        self.same = nn.Identity()

    def construct(self, x: Any, xs: Any) -> Any:
        return ops.scan(lambda carry, e: (self.same(self.cell(carry)) + e, carry), x, xs)


def test_a_cell_in_a_scan_counts_each_time() -> None:
    found = compiled(Loop(), np.ones((2, 4), F32), np.ones((7, 2, 4), F32)).summary()
    assert rows(found, "calls", "parameters", "flops", "made")["cell"] == (7, 20, 7 * 8 * (2 * 4 + 1), 7 * 2 * 32)
    assert found["same"].calls == 7
    assert found[0].flops == 7 * 8 * (2 * 4 + 2)


class Normed(nn.Cell):
    """A parameter that the function of a scan writes: it is traced twice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def construct(self, x: Any, xs: Any) -> Any:
        return ops.scan(lambda carry, e: (self.norm(carry + e), carry), x, xs)[0]


def test_a_trace_that_was_thrown_away_does_not_count() -> None:
    found = compiled(Normed().set_train(), np.ones((2, 4), F32), np.ones((3, 2, 4), F32)).summary()
    assert found["norm"].calls == 3
    assert (found["norm"].parameters, found["norm"].trainable) == (16, 8)


class Branch(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Tanh()
        self.small = nn.Dense(4, 4)
        self.large = nn.SequentialCell(nn.Dense(4, 64), nn.Dense(64, 4))
        self.after = nn.ReLU()

    def construct(self, x: Any) -> Any:
        x = self.before(x)
        x = self.small(x) if ops.sum(x) > 0 else self.large(x)
        return self.after(x)


def test_of_a_branch_the_dearer_answer_counts() -> None:
    found = compiled(Branch(), np.ones((2, 4), F32)).summary()
    large = 2 * 64 * 9 + 2 * 4 * 129
    assert rows(found, "calls", "flops") == {
        "": (1, 8 + 8 + 1 + large + 8), "before": (1, 8), "small": (1, 0), "after": (1, 8), "large": (1, large),
        "large.0": (1, 2 * 64 * 9), "large.1": (1, 2 * 4 * 129),
    }  # fmt: skip
    assert found[0].parameters == found["small"].parameters + found["large"].parameters == 20 + 320 + 260


def test_a_cell_that_is_recomputed_keeps_less_and_takes_more() -> None:
    def summary(recomputed: bool) -> Summary:
        inner = nn.SequentialCell(nn.Dense(4, 64), nn.Tanh(), nn.Dense(64, 64), nn.Tanh())
        inner.recompute(recomputed)
        loss = Loss(nn.SequentialCell(inner, nn.Dense(64, 1)))
        optimizer, scale = nn.SGD(loss.trainable_params(), 0.1), nn.FixedLossScaleUpdateCell(8.0)
        return compiled(nn.TrainOneStepWithLossScaleCell(loss, optimizer, scale), np.ones((2, 4), F32)).summary()

    kept, again = summary(False), summary(True)
    assert rows(kept, "calls", "flops", "parameters") == rows(again, "calls", "flops", "parameters")
    backward = [next(p.flops for p in s.phases if p.phase == "backward") for s in (kept, again)]
    assert backward[1] - backward[0] >= again["network.net.0"].flops
    assert again["network.net.0"].kept == 2 * 64 * 4 < kept["network.net.0"].kept


class Shared(nn.Cell):
    """One weight in two cells, a cell that runs twice, and one without a name."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 4)
        self.second = nn.Dense(4, 4)
        self.second.weight = self.first.weight
        self.unnamed = [nn.Dense(4, 4, has_bias=False)]

    def construct(self, x: Any) -> Any:
        x = self.second(self.first(self.first(x)))
        return self.unnamed[0](x)


@pytest.mark.parametrize("half", [False, True])
def test_a_shared_parameter_counts_once(half: bool) -> None:
    cell = Shared()
    found = compiled(cell.to_float(graphls.float16) if half else cell, np.ones((2, 4), F32)).summary()
    assert rows(found, "calls", "parameters") == {"": (1, 16 + 4 + 4 + 16), "first": (2, 20), "second": (1, 20)}
    assert str(found["first"].outputs[0].dtype.name) == ("f16" if half else "f32")


def test_a_function_has_cells_too() -> None:
    dense = nn.Dense(4, 2)
    wrapped = nn.SequentialCell(dense)

    def forward(x: graphls.Tensor) -> Any:
        return wrapped(x) + 1

    found = compiled(forward, np.ones((3, 4), F32)).summary()
    assert [cell.path for cell in found] == ["", "0"]
    assert (found.name, found[0].flops, found["0"].flops) == ("forward", 3 * 2 * (8 + 2), 3 * 2 * 9)


def test_a_cell_is_found_by_its_path() -> None:
    found = compiled(Branch(), np.ones((2, 4), F32)).summary()
    assert found["large.1"] in found.cells and found.cells[-1].path == "after"
    assert len(found) == 7 and list(found) == list(found.cells)
    with pytest.raises(GraphKeyError, match=r"No cell 'largest' has run; did you mean 'large'"):
        found["largest"]


def test_what_the_passes_took_away_is_not_there() -> None:
    """A branch on a constant and a dead cell take nothing, but have run in the trace."""

    class Dead(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.dead = nn.Dense(4, 4), nn.Dense(4, 4)

        def construct(self, x: Any) -> Any:
            self.dead(x)
            return self.used(x)

    found = compiled(Dead(), np.ones((2, 4), F32)).summary()
    assert rows(found, "calls", "parameters", "flops", "made")["dead"] == (1, 0, 0, 0)
    assert found[0].parameters == 20


def test_views_share_memory() -> None:
    class Moved(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.flatten, self.fc = nn.Flatten(), nn.Dense(6, 2)

        def construct(self, x: Any) -> Any:
            return self.fc(self.flatten(ops.exp(x)))

    found = trained(Moved(), np.ones((3, 2, 3), F32)).summary()
    assert found["network.net.flatten"].made == found["network.net.flatten"].kept == 0
    assert found["network.net"].kept - found["network.net.fc"].kept == 4 * prod((3, 2, 3))


CELLS: Sequence[tuple[Callable[[], Any], tuple[int, ...]]] = ((Branch, (2, 4)), (Shared, (2, 4)))


@pytest.mark.parametrize(("make", "shape"), CELLS)
def test_the_same_cell_gives_the_same_text(make: Callable[[], Any], shape: tuple[int, ...]) -> None:
    texts = {compiled(make(), np.ones(shape, F32)).summary().text() for _ in range(2)}
    assert len(texts) == 1


def test_both_backends_have_one_summary() -> None:
    x = np.ones((3, 2, 8, 8), F32)
    one, other = (graphls.compile(Images(), x, backend=backend) for backend in ("numpy", "onnxruntime"))
    assert rows(one.summary(), "flops", "kept") == rows(other.summary(), "flops", "kept")
