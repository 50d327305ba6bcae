"""Steps on XLA: the numbers of other engines, states in its arrays, and errors that leave states as they are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Parameter, Tensor, nn, ops
from graphls.ir.errors import GraphIndexError
from graphls.runtime.xla.part import XlaPart
from graphls.runtime.xla.program import Program

pytest.importorskip("jax")

X8 = np.ones((2, 8), np.float32)
X = np.random.default_rng(0).normal(size=(32, 20)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 10, 32).astype(np.int32)


class Counted(nn.Cell):
    """The rows of a table at some indices, and how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Parameter(np.arange(12, dtype=np.float32).reshape(4, 3), name="table")
        self.count = Parameter(np.zeros((), np.int64), name="count", requires_grad=False)

    def construct(self, indices: Any) -> Any:
        self.count = self.count + 1
        self.table = self.table + 1
        return ops.gather(self.table, indices, 0)


def trained(engine: str, precision: str, scale: float = 2.0**20) -> list[tuple[float, bool, float]]:
    """Losses, overflow flags and scales of eight steps."""
    graphls.set_seed(1)
    net = nn.SequentialCell(nn.Dense(20, 64), nn.ReLU(), nn.Dense(64, 10))
    if precision == "float16":
        net.to_float(graphls.float16)
    loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(scale, 2, 3))
    step = graphls.compile(cell, X, LABELS, engine=engine)
    assert {segment.engine for segment in step.plan.segments} == {engine}
    return [tuple(np.asarray(v.asnumpy()).item() for v in step(X, LABELS)) for _ in range(8)]  # type: ignore[misc]


@pytest.mark.filterwarnings("ignore:Gradients in float32")
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_losses_flags_and_scales_are_those_of_the_interpreter(precision: str) -> None:
    here, there = trained("xla", precision), trained("numpy", precision)
    assert [r[1:] for r in here] == [r[1:] for r in there]
    bound = 1e-6 if precision == "float32" else 2e-3
    np.testing.assert_allclose([r[0] for r in here], [r[0] for r in there], rtol=bound)
    assert any(r[1] for r in here) == (precision == "float16")


def test_states_are_written_at_each_step_and_shared_with_other_engines() -> None:
    cell = Counted()
    indices = np.array([0, -1], np.int32)
    here, there = (graphls.compile(cell, indices, engine=engine) for engine in ("xla", "onnxruntime"))
    for number, step in enumerate((here, here, there, here), 1):
        np.testing.assert_array_equal(step(indices).asnumpy(), np.array([[0, 1, 2], [9, 10, 11]], np.float32) + number)
        assert cell.count.asnumpy() == number
    before = cell.table.asnumpy()
    here(indices)
    assert before[0, 0] == 4  # what was read stays, though the step writes in place
    cell.table.set_data(Tensor(np.zeros((4, 3), np.float32)))
    np.testing.assert_array_equal(here(indices).asnumpy(), np.ones((2, 3), np.float32))


@pytest.mark.parametrize("is_computed", [False, True])
def test_an_index_out_of_range_is_an_error_that_changes_nothing(is_computed: bool) -> None:
    cell = Counted()

    class Computed(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = cell

        def construct(self, indices: Any) -> Any:
            return self.inner(indices + 1 if is_computed else indices.reshape(2))

    step = graphls.compile(Computed(), np.zeros(2, np.int64), engine="xla")
    step(np.array([0, 1], np.int64))
    before = cell.table.asnumpy(), cell.count.asnumpy()
    for wrong in (4, -6):
        with pytest.raises(GraphIndexError, match=r"gather could not run: an index is out of range.*test_steps.py:\d+"):
            step(np.array([0, wrong], np.int64))
        np.testing.assert_array_equal(cell.table.asnumpy(), before[0])
        assert cell.count.asnumpy() == before[1]
    step(np.array([2, -5 if is_computed else -4], np.int64))
    assert cell.count.asnumpy() == before[1] + 1


def test_random_numbers_are_those_of_other_engines() -> None:
    x = np.ones((4, 50), np.float32)
    results = []
    for engine in ("xla", "onnxruntime"):
        graphls.set_seed(7)
        step = graphls.compile(nn.Dropout(p=0.3).set_train(), x, engine=engine)
        results.append([step(x).asnumpy() for _ in range(3)])
    for here, there in zip(*results, strict=True):
        np.testing.assert_array_equal(here, there)
    assert not np.array_equal(results[0][0], results[0][1])


def test_host_calls_run_between_programs() -> None:
    seen: list[float] = []

    def doubled(x: np.ndarray) -> np.ndarray:
        seen.append(float(x.sum()))
        return x * 2

    x = np.arange(3, dtype=np.float32)
    step = graphls.compile(lambda v: ops.exp(ops.pure_callback(doubled, Tensor(x), v + 1)), x, engine="xla")
    np.testing.assert_allclose(step(x).asnumpy(), np.exp(2 * (x + 1)), rtol=1e-6)
    assert seen == [6.0]


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "float16", "bfloat16", "bool", "int8"])
def test_inputs_and_results_keep_their_dtypes(dtype: str) -> None:
    x = np.array([[1, 0, 3], [0, 5, 100]]).astype(getattr(graphls, dtype if dtype != "bool" else "bool_").numpy)
    step = graphls.compile(lambda x: (x, ops.transpose(x, (1, 0))), x, engine="xla")
    same, turned = (result.asnumpy() for result in step(x))
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(turned, x.T)
    assert same.dtype == x.dtype


def program_of(step: Any) -> Program:
    (part,) = step._session.last or step._session.first
    assert isinstance(part, XlaPart)
    return part.program


def test_each_state_gets_the_memory_of_its_old_value() -> None:
    """JAX gives away memory by types alone, in their order, and XLA copies states that it gives to others."""
    net = nn.SequentialCell(*(nn.Dense(8, 8, has_bias=False) for _ in range(3)))
    optimizer = nn.Adam(net.trainable_params(), 1e-2)
    step = graphls.compile(nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer), X8, X8, engine="xla")
    program = program_of(step)
    header = program.compiled.as_text().partition("\n")[0]
    aliases = {int(to): int(of) for to, of in re.findall(r"\{(\d+)\}: \((\d+),", header)}
    states = [*program.graph.inputs, *program.graph.states]
    assert len(aliases) >= 9
    assert {to: states[of] for to, of in aliases.items()} == {to: program.writes[to].state for to in aliases}


@pytest.mark.parametrize("wrong", [None, 1, 2])
def test_indices_that_are_parts_of_inputs_are_tested_before_the_program(wrong: int | None) -> None:
    cell = Counted()

    class Parts(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = cell

        def construct(self, first: Any, second: Any) -> Any:
            return self.inner(ops.concat([first[:, 1:3].astype(graphls.int64), second.reshape(1, -1)], 1))

    first, second = np.array([[9, 1, 2, 9]], np.int32), np.array([3, -4], np.int64)  # the 9 are no indices
    step = graphls.compile(Parts(), first, second, engine="xla")
    assert not program_of(step).keeps_states
    if wrong is None:
        assert step(first, second).shape == (1, 4, 3)
        return
    (first[0] if wrong == 1 else second)[1] = 4
    with pytest.raises(GraphIndexError, match="an index is out of range"):
        step(first, second)
    assert cell.count.asnumpy() == 0


class Wide(nn.Cell):
    """A residual block, most of whose memory is inside."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(8, 256), nn.Dense(256, 8)

    def construct(self, x: Any) -> Any:
        return x + self.second(ops.tanh(ops.sin(self.first(x))))


def test_recomputed_cells_take_less_memory() -> None:
    x, memory, losses = np.ones((64, 8), np.float32), [], []
    for is_recomputed in (False, True):
        graphls.set_seed(0)
        blocks = [Wide() for _ in range(4)]
        for block in blocks if is_recomputed else ():
            block.recompute()
        net = nn.SequentialCell(*blocks)
        cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 1e-3))
        step = graphls.compile(cell, x, x, engine="xla")
        memory.append(program_of(step).compiled.memory_analysis().temp_size_in_bytes)
        losses.append(float(step(x, x).asnumpy()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert memory[1] < 0.6 * memory[0]


def test_a_small_number_that_is_added_behind_a_difference_is_not_lost() -> None:
    p, y = np.array([0, 1, 0.5], np.float32), np.array([1, 0, 0.5], np.float32)

    def loss(p: Any) -> Any:
        return ops.binary_cross_entropy(p, Tensor(y), reduction="sum")

    step = graphls.compile(lambda p: (loss(p), ops.grad(loss)(p)), p, engine="xla")
    value, slopes = (result.asnumpy() for result in step(p))
    np.testing.assert_allclose(value, 2 * -np.log(1e-12) - np.log(0.5), rtol=1e-6)
    np.testing.assert_allclose(slopes, [-1e12, 1e12, 0], rtol=1e-6)


def test_a_state_that_takes_another_dtype_is_converted() -> None:
    net = nn.Dense(20, 2, has_bias=False)
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
    y = np.zeros((32, 2), np.float32)
    step = graphls.compile(cell, X, y, engine="xla")
    step(X, y)
    net.weight.set_dtype(graphls.float16)
    graphls.compile(net, X, engine="xla")(X)
    assert float(step(X, y)) > float(step(X, y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_constants_overflow_where_the_step_says_so(dtype: str) -> None:
    """XLA's simplifier would multiply the constants first, or divide once."""
    large = 1e30 if dtype == "float32" else 1e300

    def chains(x: Any, y: Any) -> Any:
        return x * large * (1 / large), x / large / large, x / y / y, y / (y / x), (x * large) / large

    x = np.array([large, -large, 1.0], dtype)
    y = np.full(3, large, dtype)
    here, there = (graphls.compile(chains, x, y, engine=engine)(x, y) for engine in ("xla", "numpy"))
    for result, expected in zip(here, there, strict=True):
        np.testing.assert_allclose(result.asnumpy(), expected.asnumpy(), rtol=1e-6)
    assert np.isinf(here[0].asnumpy()[0])


def test_labels_that_are_ignored_are_tested_before_the_program() -> None:
    x, labels = np.ones((4, 3), np.float32), np.array([0, -100, 2, 1], np.int32)
    step = graphls.compile(ops.cross_entropy, x, labels, engine="xla")
    assert not program_of(step).keeps_states
    assert step(x, labels).asnumpy() == pytest.approx(np.log(3))


@pytest.mark.parametrize(
    ("row", "is_wrong"),
    [([2, 0, 3], False), ([2, -1, -4], False), ([9, 3, 1], False), ([0, 4, 1], True), ([0, 1, -5], True),
     ([0, 2**32 + 1, 1], False)],
)  # fmt: skip
def test_the_elements_of_an_input_that_nodes_take_are_tested(row: list[int], is_wrong: bool) -> None:
    """All are in range, or counted from the end, or out of range where none is taken, or in another dtype."""
    table, short = np.arange(12, dtype=np.float32).reshape(4, 3), np.arange(4, dtype=np.float32)

    def taken(x: Any) -> Any:
        last = x[:, 1:].astype(graphls.int32)
        return ops.gather(Tensor(table), last[:, :1].reshape(-1), 0), ops.gather(Tensor(short), last[:, 1], 0)

    indices = np.array([row])
    step = graphls.compile(taken, indices, engine="xla")
    part = step._session.parts[0]
    assert part.indices.are_bounded and list(part.indices.bounds.values()) == [4]
    if is_wrong:
        with pytest.raises(GraphIndexError, match="an index is out of range"):
            step(indices)
        return
    last = indices[0, 1:].astype(np.int32)
    for result, expected in zip(step(indices), (table[last[:1]], short[last[1:]]), strict=True):
        np.testing.assert_array_equal(result.asnumpy(), expected)


def test_indices_of_an_empty_input_are_in_range() -> None:
    table, none = np.ones((4, 3), np.float32), np.zeros((0,), np.int32)
    step = graphls.compile(lambda x, i: ops.gather(x, i, 0), table, none, engine="xla")
    assert step(table, none).shape == (0, 3)


@pytest.mark.filterwarnings("ignore:Gradients in float32")
def test_a_product_that_loss_scaling_checks_is_computed_once() -> None:
    """The factor pass scales an operand of a product for the update, and leaves the product for the check alone."""
    x, y = np.ones((8, 256), np.float32), np.ones((8, 256), np.float32)

    def products(cell_of: Any) -> int:
        loss = nn.WithLossCell(nn.Dense(256, 256), nn.MSELoss())
        cell = cell_of(loss, nn.Momentum(loss.trainable_params(), 0.1, 0.9))
        step = graphls.compile(cell, x, y, engine="xla")
        return program_of(step).compiled.as_text().count(" dot(")

    def scaled(loss: Any, optimizer: Any) -> Any:
        return nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2.0**10, 2, 3))

    assert products(scaled) == products(nn.TrainOneStepCell)


def test_rounding_to_bfloat16_and_back_stores_no_array() -> None:
    """A cast of a rounded result reads the result of 32 bits, whose rounding XLA fuses into every reader."""
    ties = np.array([1.00390625, 1.01171875, 3.3895e38, 3.396e38, np.inf, -np.inf, np.nan, -0.0], np.float32)
    random = np.random.default_rng(0).integers(0, 2**32, 4088, np.uint32).view(np.float32)
    x = np.concatenate([ties, np.where(np.abs(random) >= 1e-30, random, 1)])
    halves = [x.astype(graphls.bfloat16.numpy), np.full_like(x, 1.0078125).astype(graphls.bfloat16.numpy)]

    def rounded(x: Any, y: Any) -> Any:
        wide = (x * y).astype(graphls.float32)
        return wide + 1, wide * 2

    step = graphls.compile(rounded, *halves, engine="xla")
    expected = graphls.compile(rounded, *halves, engine="numpy")(*halves)
    for here, there in zip(step(*halves), expected, strict=True):
        np.testing.assert_array_equal(here.asnumpy(), there.asnumpy())
    results = [line for line in program_of(step).compiled.as_text().splitlines() if " fusion(" in line]
    assert results and not any(" = bf16[" in line for line in results)


class Best(nn.Cell):
    """A state to which the row of a table is added that has the position of the largest element of the input."""

    def __init__(self, table_rows: int) -> None:
        super().__init__()
        self.total = Parameter(np.zeros(3, np.float32), name="total")
        self.table = Parameter(np.arange(table_rows * 3, dtype=np.float32).reshape(table_rows, 3), name="table")

    def construct(self, x: Any) -> Any:
        _, positions = ops.topk(x * 2, 1)
        self.total = self.total + ops.gather(self.table, positions.astype(graphls.int32)[0], 0)
        return x.sum()


@pytest.mark.parametrize(("rows", "is_tested"), [(5, False), (6, False), (4, True)])
def test_positions_in_an_axis_are_indices_of_one_that_is_as_long(rows: int, is_tested: bool) -> None:
    """States keep no second memory for a test that cannot fail."""
    cell, x = Best(rows), np.float32([1, 5, 2, 3, 4])
    step = graphls.compile(cell, x, engine="xla")
    (part,) = step._session.parts
    assert part.program.keeps_states == is_tested
    step(x)
    np.testing.assert_array_equal(cell.total.asnumpy(), [3, 4, 5])
    if is_tested:
        with pytest.raises(IndexError, match="out of range"):
            step(x[[0, 2, 3, 4, 1]])
        np.testing.assert_array_equal(cell.total.asnumpy(), [3, 4, 5])


def test_the_gradient_of_max_pooling_tests_no_positions() -> None:
    net = nn.SequentialCell(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2, 2), nn.Flatten(), nn.Dense(32, 2))
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    step = graphls.compile(cell, np.ones((2, 1, 8, 8), np.float32), np.ones((2, 2), np.float32), engine="xla")
    (part,) = step._session.parts
    assert not part.program.keeps_states
