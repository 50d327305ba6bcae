"""A state is updated in its own buffer only where no kernel of the runtime can read what was written too early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir import parse, registry
from graphls.ir.types import Type
from graphls.ops.operands import apply
from graphls.passes import as_pipeline
from graphls.primitives.primitive import Primitive, f32, sample
from graphls.runtime.numpy.reference import ReferenceSession
from graphls.runtime.onnxruntime.session import OrtSession

F32 = np.float32
SIZE = 24


class Given(nn.Cell):
    """A cell whose state becomes what a function makes of it, the weight and the input, and which returns the other."""

    def __init__(self, shape: tuple[int, ...], made: Callable[[Any, Any, Any], tuple[Any, Any]]) -> None:
        super().__init__()
        random = np.random.default_rng(3)
        self.state = graphls.Parameter(random.uniform(0.1, 1, shape).astype(F32), name="state")
        self.weight = graphls.Parameter(random.uniform(-0.2, 0.2, (SIZE, SIZE)).astype(F32), name="weight")
        self.made = made

    def construct(self, x: Any) -> Any:
        self.state, result = self.made(self.state.value(), self.weight, x)
        return result


def both_agree(shape: tuple[int, ...], made: Callable[[Any, Any, Any], tuple[Any, Any]]) -> graphls.Graph:
    """Two steps on both backends give one result and one state; the graph that ran."""
    x, found = np.full(shape, 0.5, F32), []
    for backend in ("numpy", "onnxruntime"):
        cell = Given(shape, made)
        step = graphls.compile(cell, x, backend=backend)
        results = [step(x).asnumpy() for _ in range(2)]
        found.append((*results, cell.state.asnumpy()))
    for expected, result in zip(*found, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
    return step.graph


def grown(old: Any, x: Any) -> tuple[Any, Any]:
    """A new state, made of what was moved out of the old one, which is read once more behind it."""
    new = ops.exp(old * x)
    return new, old - new


MOVES: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "reshape": ((4,), lambda w: ops.reshape(ops.reshape(w, (2, 2)), (4,))),
    "transpose of one row": ((1, 4), lambda w: ops.reshape(ops.transpose(w, (1, 0)), (1, 4))),
    "transpose there and back": ((2, 2), lambda w: ops.transpose(ops.transpose(w, (1, 0)), (1, 0))),
    "split into one": ((4,), lambda w: ops.split(w, 4)[0]),
    "reverse of one": ((1, 4), lambda w: ops.flip(w, (0,))),
    "concat of one": ((4,), lambda w: ops.concat([w])),
    "gather of all": ((4,), lambda w: ops.gather(w, graphls.Tensor(np.arange(4)), 0)),
    "cast there and back": ((4,), lambda w: w.astype(graphls.float64).astype(graphls.float32)),
    "addition of zero": ((4,), lambda w: w + 0.0),
    "addition of zero between moves": ((4,), lambda w: ops.reshape(ops.reshape(w, (2, 2)) + 0.0, (4,))),
    "branch": ((4,), lambda w: ops.cond(ops.sum(w) > -9, lambda w: w, lambda w: w * 2, w)),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_was_moved_out_of_a_state_stays(name: str) -> None:
    shape, moved = MOVES[name]
    both_agree(shape, lambda state, weight, x: grown(moved(state), x))


PRODUCTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "activation of a product": lambda state, weight, x: ops.relu(state @ weight),
    "dense layer": lambda state, weight, x: ops.relu(ops.dense(state, weight, weight[0])),
    "product with a transposed state": lambda state, weight, x: weight @ ops.transpose(state, (1, 0)),
    "transposes of both": lambda state, weight, x: ops.transpose(state, (1, 0)) @ ops.transpose(weight, (1, 0)),
    "product of a multiple": lambda state, weight, x: (state * 2.0) @ weight,
    "product in a branch": lambda state, weight, x: ops.cond(
        ops.sum(x) > 0, lambda s: ops.relu(s @ weight), lambda s: s, state
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_not_written_over_its_operand(name: str) -> None:
    both_agree((SIZE, SIZE), lambda state, weight, x: (PRODUCTS[name](state, weight, x), ops.sum(x)))


def test_what_an_optimizer_does_stays_in_place() -> None:
    def made(state: Any, weight: Any, x: Any) -> tuple[Any, Any]:
        size = ops.sqrt(ops.sum(state * state))
        return state - 0.1 * size * ops.clip_by_value(x @ weight, -1, 1), ops.sum(x)

    assert [write.in_place for write in both_agree((SIZE, SIZE), made).writes] == [True]


def test_what_is_made_of_nothing_waits_for_no_reader() -> None:
    def made(state: Any, weight: Any, x: Any) -> tuple[Any, Any]:
        read = state * 1.5
        return ops.broadcast_to(ops.sum(read[:0]), (SIZE,)), read

    assert [write.in_place for write in both_agree((SIZE,), made).writes] == [False]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Primitives that a test defines are forgotten behind it."""
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))
    yield


class Same:
    """What primitives of a user have in common that give their operand."""

    samples = (sample(f32(2)),)

    def infer(self, x: Type) -> Type:
        return x

    def numpy(self, x: Any) -> Any:
        return x


def named() -> type[Primitive]:
    class UserView(Same, Primitive):
        half = "native"
        onnx = "Identity"

    return UserView


def by_rule() -> type[Primitive]:
    class UserRule(Same, Primitive):
        def onnx(self, e: Any, x: str) -> Any:
            return x

    return UserRule


def reshaped() -> type[Primitive]:
    class UserShape(Same, Primitive):
        half = "exact"

        def onnx(self, e: Any, x: str) -> Any:
            return e.Reshape(x, e.ints([-1]))

    return UserShape


@pytest.mark.parametrize("define", [named, by_rule, reshaped])
def test_a_primitive_of_a_user_that_gives_its_operand(define: Callable[[], type[Primitive]], known: None) -> None:
    name = define().name
    both_agree((4,), lambda state, weight, x: grown(apply(name, state), x))


def second_of_two() -> type[Primitive]:
    class UserSecond(Primitive):
        samples = (sample(f32(2), f32(2)),)

        def infer(self, x: Type, y: Type) -> Type:
            return x

        def numpy(self, x: Any, y: Any) -> Any:
            return y

        def onnx(self, e: Any, x: str, y: str) -> Any:
            return y

    return UserSecond


def test_a_primitive_of_a_user_that_gives_any_operand(known: None) -> None:
    name = second_of_two().name
    both_agree((4,), lambda state, weight, x: grown(apply(name, ops.sin(x), state), x))


MOVED: dict[str, str] = {
    "product of nothing": "%moved = scatter_mul(@state, %nowhere, %none) {axis=0} : f32[4]",
    "largest of nothing": "%moved = scatter_max(@state, %nowhere, %none) {axis=0} : f32[4]",
    "branch that is always taken": """
          %moved = cond(%yes) : f32[4] region {
            yield @state
          } region {
            %other = tanh(@state) : f32[4]
            yield %other
          }""",
    "computed zero": """
          %wide = reshape(@state) {shape=[2, 2]} : f32[2,2]
          %sum = add(%wide, %zero) : f32[2,2]
          %moved = reshape(%sum) {shape=[4]} : f32[4]""",
    "one": """
          %wide = reshape(@state) {shape=[2, 2]} : f32[2,2]
          %quotient = div(%wide, %one) : f32[2,2]
          %moved = reshape(%quotient) {shape=[4]} : f32[4]""",
}


@pytest.mark.parametrize("moved", MOVED)
def test_what_a_runtime_drops_of_a_graph_that_is_not_folded_stays(moved: str) -> None:
    """Each of these is the state itself when the model runs, and is read behind the new value of the state."""
    text = f"""
        graph @reads_afterwards() {{
          state @state: f32[4]
          %none = constant() {{value=array(f32[0], [])}} : f32[0]
          %nowhere = constant() {{value=array(i64[0], [])}} : i64[0]
          %yes = constant() {{value=array(bool[], [true])}} : bool[]
          %one = constant() {{value=array(f32[], [1.0])}} : f32[]
          %zero = sub(%one, %one) : f32[]
          {MOVED[moved]}
          %new = exp(%moved) : f32[4]
          %result = sub(%moved, %new) : f32[4]
          @state <- %new
          return %result
        }}"""
    graph, found = as_pipeline("dce, order").run(parse(text)).graph, []
    for session in (OrtSession, ReferenceSession):
        state = graphls.Parameter(np.arange(4, dtype=F32), name="state")
        found.append(session(graph, {"state": state}).run(())[0])
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_a_sum_over_no_axes_may_be_its_operand() -> None:
    """A runtime drops the sum of a scalar state, which the other reader then would find overwritten."""
    text = """
        graph @halves() {
          state @state: f32[]
          %sum_1 = sum(@state) {axis=none} : f32[]
          %wide = reshape(%sum_1) {shape=[1, 1]} : f32[1,1]
          %tanh_1 = tanh(%wide) : f32[1,1]
          %result = reshape(%tanh_1) {shape=[]} : f32[]
          %sum_2 = sum(@state) {axis=none} : f32[]
          %tanh_2 = tanh(%sum_2) : f32[]
          @state <- %tanh_2
          return %result
        }"""
    (write,) = as_pipeline("cse, dce, order").run(parse(text)).graph.writes
    assert not write.in_place
