"""Layers that a mesh divides: what their devices exchange, beside what they would if XLA gathered the whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Mesh, nn, ops
from graphls.runtime.target import ExecutionTarget
from graphls.runtime.xla.collectives import Collective, collectives
from graphls.runtime.xla.instructions import Instructions
from graphls.runtime.xla.stage_analysis import analysed

pytest.importorskip("jax")

DOCS = Path(__file__).parents[2] / "docs" / "parallel.md"


def trained(
    cell: nn.Cell, inputs: tuple[Any, ...], mesh: Mesh | None, steps: int
) -> tuple[list[float], list[Collective], int]:
    """The losses of some steps with Adam, the collectives of one, and the bytes of its temporary values."""
    train = nn.TrainOneStepCell(cell, nn.Adam(cell.trainable_params(), 3e-3))
    step = graphls.compile(train, *inputs, engine="xla", mesh=mesh)
    (part,) = step._session.last
    program = part.program.compiled
    found = [] if mesh is None else list(collectives(Instructions(program.as_text(), step.graph), mesh))
    size = program.memory_analysis().temp_size_in_bytes
    return [step(*inputs).asnumpy().item() for _ in range(steps)], found, size


WORDS, WIDTH, ROWS = 1024, 32, 128
LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "sparse": lambda scores, labels: nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")(scores, labels),
    "dense": lambda scores, labels: ops.cross_entropy(scores, ops.one_hot(labels, WORDS, 1.0, 0.0)),
    "ignored and smooth": lambda scores, labels: ops.cross_entropy(scores, labels, None, 3, label_smoothing=0.1),
    "by index": lambda scores, labels: -ops.gather_elements(ops.log_softmax(scores), 1, labels.reshape(-1, 1)).mean(),
}


class Head(nn.Cell):
    """The loss of scores of words, by a weight that is divided by words, or by scores that are."""

    def __init__(self, loss: Callable[[Any, Any], Any], is_stated: bool) -> None:
        super().__init__()
        self.loss, self.is_stated = loss, is_stated
        self.dense = nn.Dense(WIDTH, WORDS, has_bias=False)
        if not is_stated:
            self.dense.weight.sharding = ("model", None)

    def construct(self, x: Any, labels: Any) -> Any:
        scores = self.dense(x)
        return self.loss(ops.shard(scores, "data", "model") if self.is_stated else scores, labels)


@pytest.mark.parametrize(("name", "is_stated"), [*((name, False) for name in LOSSES), ("sparse", True)])
def test_no_device_gathers_the_scores_of_words(name: str, is_stated: bool) -> None:
    random = np.random.default_rng(0)
    inputs = random.normal(size=(ROWS, WIDTH)).astype(np.float32), random.integers(0, WORDS, ROWS).astype(np.int32)
    runs = []
    for mesh in (None, Mesh(data=2, model=4)):
        graphls.set_seed(1)
        runs.append(trained(Head(LOSSES[name], is_stated), inputs, mesh, 5))
    (expected, _, size), (losses, exchanged, own_size) = runs
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert losses[-1] < losses[0]
    forward = [each for each in exchanged if each.node is not None and each.node.phase == "forward"]
    assert forward
    weight = 4 * WORDS * WIDTH // (1 if is_stated else 4)  # devices along data add its gradient
    scores = 4 * WORDS * ROWS // 2
    assert all(each.size <= ROWS * 4 for each in forward)
    assert max(each.size for each in exchanged) <= weight < scores
    assert own_size < size / (3 if is_stated else 6)


GROUPS, TOKENS, INNER, EXPERTS = 8, 32, 64, 8
SLOTS = 16


class Mixture(nn.Cell):
    """The mixture of experts of the docs, between two layers."""

    def __init__(self, kind: Callable[..., Any]) -> None:
        super().__init__()
        self.first, self.experts, self.last = nn.Dense(16, 16), kind(16, INNER, EXPERTS, SLOTS), nn.Dense(16, 16)

    def construct(self, x: Any, y: Any) -> Any:
        x = self.first(x)
        return ops.mean((self.last(x + self.experts(x)) - y) ** 2)


@pytest.fixture(scope="module")
def kind() -> Callable[..., Any]:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (block for block in blocks if "class Experts" in block)
    names: dict[str, Any] = {}
    exec(compile(block, DOCS.name, "exec"), names)
    experts: Callable[..., Any] = names["Experts"]
    return experts


def of_numpy(x: Any, router: Any, up: Any, down: Any) -> Any:
    """The mixture, token by token."""
    result = np.zeros_like(x)
    for group, tokens in enumerate(x):
        used = np.zeros(EXPERTS, int)
        scores = np.exp(tokens @ router.T)
        shares = scores / scores.sum(1, keepdims=True)
        order = np.argsort(-shares, 1)
        for choice in range(2):
            for token, expert in enumerate(order[:, choice]):
                if used[expert] < SLOTS:
                    inner = np.maximum(tokens[token] @ up[expert], 0)
                    result[group, token] += shares[token, expert] * (inner @ down[expert])
                used[expert] += 1
        assert max(used) > SLOTS
    return result


def test_experts_take_their_tokens_as_long_as_there_are_slots(kind: Callable[..., Any]) -> None:
    graphls.set_seed(2)
    experts = kind(16, INNER, EXPERTS, SLOTS)
    x = np.random.default_rng(0).normal(size=(GROUPS, TOKENS, 16)).astype(np.float32) + 2  # some experts are full
    weights = [p.asnumpy().astype(np.float64) for p in (experts.router.weight, experts.up, experts.down)]
    expected = of_numpy(x.astype(np.float64), *weights)
    np.testing.assert_allclose(experts(graphls.Tensor(x)).asnumpy(), expected, rtol=1e-4, atol=1e-5)


def test_tokens_travel_to_experts_and_back(kind: Callable[..., Any]) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(GROUPS, TOKENS, 16)).astype(np.float32)
    inputs = x, np.tanh(x[..., ::-1])
    runs = []
    for mesh in (None, Mesh(data=2, expert=4)):
        graphls.set_seed(2)
        runs.append(trained(Mixture(kind), inputs, mesh, 20))
    (expected, _, _), (losses, exchanged, _) = runs
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert losses[-1] < losses[0]
    travels = [each for each in exchanged if each.kind == "all-to-all"]
    assert [each.size for each in travels] == [4 * 16 * EXPERTS * GROUPS * SLOTS // 8] * 4
    assert not [each for each in exchanged if each.kind in ("all-gather", "collective-permute")]
    own_weight = 4 * EXPERTS * 16 * INNER // 4
    assert max(each.size for each in exchanged if each.kind != "all-to-all") <= own_weight  # gradients, along data


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((None, "a"), (("a", "b"), None)),
        ((None, ("a", "b")), ("a", None)),
        ((("a", "b"), None), ("c", ("a",))),
        (("a", None), ("a", ("b", "c"))),
    ],
)
def test_parts_that_move_and_change_at_once_are_gathered_nowhere(
    before: Any, after: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """XLA alone makes the first two whole on each device, with a warning on stderr."""
    mesh = Mesh(a=2, b=2, c=2)

    def moved(x: Any) -> Any:
        return ops.sum(ops.cos(ops.shard(2 * ops.exp(ops.shard(x, *before)), *after)))

    x = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    step = graphls.compile(moved, x, engine="xla", mesh=mesh, input_shardings=[before])
    assert step(x).asnumpy() == pytest.approx(np.sum(np.cos(2 * np.exp(x))), rel=1e-4)
    target = ExecutionTarget("onnxruntime", "cpu", "xla", mesh)
    exchanged = analysed(target.partitioned(step.graph)).collectives
    assert max(each.size for each in exchanged) < x.nbytes
    assert "rematerialization" not in capfd.readouterr().err
