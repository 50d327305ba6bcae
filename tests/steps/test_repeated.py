"""Many steps in one call: the bits of single calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.frontend.tensors.random import random_state
from graphls.ir.build import Builder, Names
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.graph import Graph, Write
from graphls.ir.verify import verify

BACKENDS = ["numpy", "onnxruntime"]
GENERATOR = np.random.default_rng(0)
X, Y = (GENERATOR.normal(size=(12, 8, n)).astype(np.float32) for n in (4, 3))
IMAGES = GENERATOR.normal(size=(6, 4, 1, 8, 8)).astype(np.float32)
LABELS = GENERATOR.integers(0, 10, (6, 4)).astype(np.int32)


class Net(nn.Cell):
    """Moving averages, dropout, and a random branch."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 16, activation="tanh")
        self.norm = nn.BatchNorm1d(16)
        self.dropout = nn.Dropout(p=0.3)
        self.last = nn.Dense(16, 3)

    def construct(self, x: Any) -> Any:
        x = self.dropout(self.norm(self.first(x)))
        return self.last(x)


class Images(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc = nn.Dense(64, 10)

    def construct(self, x: Any) -> Any:
        return ops.cast(self.fc(ops.reshape(self.pool(ops.relu(self.conv(x))), (x.shape[0], -1))), graphls.float32)


def scaled(half: bool = True, optimizer: Any = nn.Adam) -> nn.Cell:
    """A step that skips its first calls, because the scale starts too high."""
    graphls.set_seed(1)
    net = Net().to_float(graphls.float16) if half else Net()
    loss = nn.WithLossCell(net, nn.MSELoss())
    cell = nn.DynamicLossScaleUpdateCell(2**22, 2, 3)
    return nn.TrainOneStepWithLossScaleCell(loss, optimizer(net.trainable_params(), 0.01), cell).set_train()


def images() -> nn.Cell:
    graphls.set_seed(1)
    net = Images().to_float(graphls.float16)
    loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    cell = nn.DynamicLossScaleUpdateCell(2**24, 2, 3)
    return nn.TrainOneStepWithLossScaleCell(loss, nn.Momentum(net.trainable_params(), 0.1, 0.9), cell).set_train()


def scheduled() -> nn.Cell:
    graphls.set_seed(1)
    net = Net()
    optimizer = nn.SGD(net.trainable_params(), nn.cosine_decay_lr(0.0, 0.1, 24, 12, 2), momentum=0.9)
    return nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer).set_train()


def run(cell: nn.Cell, inputs: tuple[Any, ...], times: int, backend: str, mode: str) -> tuple[Any, list[bytes]]:
    """What all steps give, and the bits of every state after them."""
    step = graphls.compile(cell, *(x[0] for x in inputs), backend=backend, overflow_mode=mode)
    results: list[Any] = []
    many = None if times == 1 else step.repeated(times)
    for i in range(0, len(inputs[0]), times):
        rows = [x[i : i + times] for x in inputs]
        outputs = step(*(row[0] for row in rows)) if many is None else many(*rows)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        results.append([np.asarray(o.asnumpy()).reshape(times, -1) for o in outputs])
    joined = [np.concatenate(column) for column in zip(*results, strict=True)]
    states = [p.asnumpy().tobytes() for p in (*cell.get_parameters(), random_state())]
    return joined, states


CASES = {
    "dropout, batch norm, skipped steps": (scaled, (X, Y)),
    "images": (images, (IMAGES, LABELS)),
    "a list of learning rates": (scheduled, (X, Y)),
    "float32": (lambda: scaled(half=False, optimizer=nn.Lamb), (X, Y)),
}


@pytest.mark.filterwarnings("ignore:Gradients in float32")
@pytest.mark.parametrize("mode", ["outputs", "window"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_many_steps_have_the_bits_of_single_ones(name: str, backend: str, mode: str) -> None:
    make, inputs = CASES[name]
    expected, states = run(make(), inputs, 1, backend, mode)
    found, found_states = run(make(), inputs, 3, backend, mode)
    for a, b in zip(expected, found, strict=True):
        assert a.tobytes() == b.tobytes()
    assert states == found_states


def test_steps_are_skipped_in_the_cases() -> None:
    skipped = run(scaled(), (X, Y), 3, "onnxruntime", "outputs")[0][1]
    assert 0 < skipped.sum() < len(X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_single_calls_and_calls_of_many_mix(backend: str) -> None:
    expected, states = run(scaled(), (X, Y), 1, backend, "outputs")
    cell = scaled()
    step = graphls.compile(cell, X[0], Y[0], backend=backend)
    many = step.repeated(5)
    losses = [step(X[0], Y[0])[0].asnumpy(), *many(X[1:6], Y[1:6])[0].asnumpy(), step(X[6], Y[6])[0].asnumpy()]
    losses += [*many(X[7:], Y[7:])[0].asnumpy()]
    assert np.array(losses).tobytes() == expected[0].tobytes()
    assert [p.asnumpy().tobytes() for p in (*cell.get_parameters(), random_state())] == states


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_seed_that_is_set_in_between_counts(backend: str) -> None:
    step = graphls.compile(scaled(half=False), X[0], Y[0], backend=backend)
    many = step.repeated(2)
    many(X[:2], Y[:2])
    graphls.set_seed(7)
    many(X[:2], Y[:2])
    assert random_state().asnumpy().tolist() == [7, 2]


def test_random_numbers_in_branches_and_second_outputs_that_are_constants() -> None:
    class Branching(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.total = graphls.Parameter(np.float32(0), name="total")

        def construct(self, x: Any) -> Any:
            noise = ops.cond(ops.sum(x) > 0, lambda: ops.uniform((), 0.0, 1.0), lambda: ops.zeros(()))
            ops.assign_add(self.total, noise)
            return {"noise": noise, "label": "constant", "count": 3}

    def made() -> Any:
        graphls.set_seed(3)
        return graphls.compile(Branching(), X[0, 0])

    step = made()
    expected = [step(x[0])["noise"].asnumpy() for x in X]
    results = made().repeated(12)(X[:, 0])
    assert results["noise"].asnumpy().tobytes() == np.array(expected).tobytes()
    assert results["label"] == "constant" and results["count"] == 3
    assert 0 in expected and max(expected) > 0


def test_the_graph_keeps_the_rules_of_the_ir_and_says_what_it_takes() -> None:
    many = graphls.compile(scaled(), X[0], Y[0]).repeated(4)
    verify(many.graph)
    assert [str(v.type) for v in many.graph.inputs[:2]] == ["f32[4,8,4]", "f32[4,8,3]"]
    assert str(many.output_types) == "(f32[4], bool[4], f32[4])"


def test_wrong_inputs_change_nothing() -> None:
    cell = scaled()
    many = graphls.compile(cell, X[0], Y[0]).repeated(4)
    before = [p.asnumpy().tobytes() for p in cell.get_parameters()]
    with pytest.raises(GraphValueError, match=r"f32\[4,8,4\], not f32\[3,8,4\]"):
        many(X[:3], Y[:3])
    with pytest.raises(GraphTypeError, match="2 tensors"):
        many(X[:4])
    assert [p.asnumpy().tobytes() for p in cell.get_parameters()] == before


def test_labels_of_all_steps_are_checked_before_the_first() -> None:
    cell = images()
    many = graphls.compile(cell, IMAGES[0], LABELS[0]).repeated(6)
    before = [p.asnumpy().tobytes() for p in cell.get_parameters()]
    wrong = LABELS.copy()
    wrong[5, 3] = 10
    with pytest.raises(GraphValueError, match="The label 10 is not in range"):
        many(IMAGES, wrong)
    assert [p.asnumpy().tobytes() for p in cell.get_parameters()] == before


def test_a_count_below_one_is_refused_with_the_line() -> None:
    step = graphls.compile(scheduled(), X[0], Y[0])
    with pytest.raises(GraphValueError, match=r"scan runs once or more, not 0 times.*test_repeated\.py"):
        step.repeated(0)


def test_a_step_whose_pass_sets_the_random_state_cannot_be_repeated() -> None:
    class Keep:
        """Writes the random state itself, not its successor."""

        name = "keep"

        def run(self, graph: Graph) -> Graph:
            (write,) = (w for w in graph.writes if w.state.name == "random_state")
            builder = Builder(Names.of(graph))
            same = builder.mul(write.state, 1)
            return graph.replace(nodes=(*graph.nodes, *builder.nodes), writes=(Write(write.state, same),))

    def draw(x: Any) -> Any:
        return x * ops.uniform(x.shape, 0.0, 1.0)

    step = graphls.compile(draw, X[0], passes=[Keep()])
    assert step(X[0]).asnumpy().tobytes() == step(X[0]).asnumpy().tobytes()
    with pytest.raises(GraphValueError, match="cannot run in one call, because the step sets the random state"):
        step.repeated(2)
