"""Updates run block by block: the bits of whole arrays, states in their own buffers, the graph that everybody sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn
from graphls.ir.graph import Graph, Node, walk
from graphls.ir.interpret import interpret
from graphls.passes.rewriter import Rewritten
from graphls.passes.schedule.partition import Partition
from graphls.runtime.onnxruntime import session as ort
from graphls.runtime.onnxruntime.blocks import count_of_blocks, in_blocks, in_place_after_readers
from graphls.runtime.onnxruntime.part import OrtPart
from graphls.runtime.plan import PlanSession
from tests.nn.test_optimizers_in_steps import KINDS

F32 = np.float32
PLAIN, SMALL = 1 << 40, 8
X, Y = (np.random.default_rng(n).normal(size=(3, width)).astype(F32) for n, width in ((0, 5), (1, 7)))


class Net(nn.Cell):
    """Weights of 60, 84 and 77 elements, which are 10, 12 and 11 blocks, and biases that are too small for blocks."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(3)
        self.rise, self.fall = nn.Dense(5, 12), nn.Dense(12, 7)
        self.scale = graphls.Parameter(np.ones((11, 7), F32), name="scale")
        for p in self.trainable_params():
            p.set_data(rng.normal(0, 0.5, p.shape).astype(F32))

    def construct(self, x: Any) -> Any:
        return self.fall(graphls.ops.tanh(self.rise(x))) * graphls.ops.mean(self.scale, 0)


def trained(monkeypatch: pytest.MonkeyPatch, kind: str, block: int, *, scaled: bool = False, level: str = "O0") -> Any:
    """The step after three steps of training."""
    monkeypatch.setattr(ort, "block_size", lambda: block)
    net = Net()
    if level != "O0":
        net = amp.auto_mixed_precision(net, level, graphls.float16 if level == "O3" else graphls.bfloat16)
    loss = nn.WithLossCell(net, nn.MSELoss())
    optimizer = KINDS[kind][0](loss.trainable_params(), 0.05)
    cell: nn.Cell = nn.TrainOneStepCell(loss, optimizer)
    if scaled:
        monkeypatch.setattr("graphls.runtime.target.Partition", lambda *arguments, **settings: Partition(least=0))
        cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.FixedLossScaleUpdateCell(16))
    step = graphls.compile(cell.set_train(), X, Y)
    for number in range(3):
        step(X + F32(number), Y)
    return step


def states(step: Any) -> dict[str, bytes]:
    return {name: p.asnumpy().tobytes() for name, p in step.parameters.items()}


def scans(session: Any) -> list[Node]:
    parts = [session]
    if isinstance(session, PlanSession):
        parts = [p for p in (*session.first, *session.branches[1], *session.last) if isinstance(p, OrtPart)]
    return [n for part in parts for n in part.model.graph.nodes if n.primitive.is_loop]


@pytest.mark.parametrize(
    "kind", ["SGD with dampening", "Momentum", "Adam", "AdaMax", "Lamb", "centered RMSProp", "FTRL", "Rprop"]
)
def test_optimizers_give_the_bits_of_whole_arrays(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, blocked = (trained(monkeypatch, kind, block) for block in (PLAIN, SMALL))
    assert states(blocked) == states(plain)
    assert not scans(plain._session)
    assert len(scans(blocked._session)) >= 2, "one for each weight whose decay is large"


@pytest.mark.parametrize(
    ("kind", "level"),
    [("Momentum", "O0"), ("Lamb", "O0"), ("AdamWeightDecay with decay", "O2"), ("Momentum", "O3"), ("Adam", "O3")],
)
def test_scaled_steps_and_half_precision_give_the_bits_of_whole_arrays(
    kind: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, blocked = (trained(monkeypatch, kind, block, scaled=True, level=level) for block in (PLAIN, SMALL))
    assert isinstance(blocked._session, PlanSession) and scans(blocked._session) and not scans(plain._session)
    assert states(blocked) == states(plain)


def test_weights_are_written_in_place_behind_their_last_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of the input of a layer reads its weight, and only a control edge puts that before the update."""
    plain, blocked = (trained(monkeypatch, "Adam", block) for block in (PLAIN, SMALL))
    assert "rise.weight" not in plain._session.swapped and "fall.weight" in plain._session.swapped
    assert not {"rise.weight", "fall.weight", "scale"} & set(blocked._session.swapped)
    in_place = {w.state.name for w in blocked.plan.graph.writes if w.in_place}
    assert "fall.weight" in in_place
    assert sum(row.swapped for row in blocked.plan.segments) < sum(row.swapped for row in plain.plan.segments)


def test_a_state_that_the_step_gives_or_reads_later_keeps_two_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Step(nn.Cell):
        def __init__(self, given: bool) -> None:
            super().__init__()
            self.w = graphls.Parameter(np.arange(64, dtype=F32).reshape(8, 8), name="w")
            self.given = given

        def construct(self, x: Any) -> Any:
            old = graphls.ops.transpose(self.w, (1, 0))
            graphls.ops.assign(self.w, (self.w * 2 + x) * 3 - x)
            return old if self.given else graphls.ops.sum(old * self.w)

    for given in (True, False):
        ends = []
        for block in (PLAIN, SMALL):
            monkeypatch.setattr(ort, "block_size", lambda block=block: block)
            step = graphls.compile(Step(given), np.ones((8, 8), F32))
            ends.append([step(np.ones((8, 8), F32)).asnumpy().tobytes() for _ in range(3)])
        assert ends[0] == ends[1]


def test_the_step_that_is_saved_has_no_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    step = trained(monkeypatch, "Adam", SMALL)
    assert not {"Scan", "Loop"} & {op.op_type for op in step.onnx.graph.node}
    assert not any(n.primitive.is_loop for n in walk(step.graph))


@pytest.mark.parametrize("scaled", [False, True])
def test_a_profile_has_the_nodes_of_the_graph(scaled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    step = trained(monkeypatch, "Adam", SMALL, scaled=scaled)
    profile = step.profile(X, Y, steps=2)
    nodes = set(walk(profile.graph))
    update = [k for run in profile.runs for k in run.kernels if k.node is not None and k.node.phase == "update"]
    assert update and {k.node for k in update} <= nodes
    roots = [k for k in update if k.operator == "Sqrt" and k.node is not None and k.node.output.type.size == 84]
    assert len(roots) >= 10 * len(profile.runs), "one for each block"


GRAPH = """
graph @main(%g: f32[6,8], %r: f32[]) {
  state @w: f32[6,8]
  state @m: f32[6,8]
  %a = mul(@m, %r) : f32[6,8]  // update
  %b = add(%a, %g) : f32[6,8]  // update
  %c = sub(@w, %b) : f32[6,8]  // update
  %n = sum(%c) {axis=[0, 1], keepdims=false} : f32[]  // update
  %d = mul(%c, %n) : f32[6,8]  // update
  %e = add(%d, %b) : f32[6,8]  // update
  %f = add(%e, %e) : f32[6,8]  // update
  @w <- %f
  @m <- %b
  return %n, %c
}
"""


def blocked(text: str, size: int) -> tuple[Graph, Rewritten]:
    graph = graphls.ir.parse(text)
    return graph, in_blocks(graph, size)


def test_groups_end_where_a_sum_is_between() -> None:
    graph, made = blocked(GRAPH, 12)
    first, second = (n for n in made.graph.nodes if n.primitive.name == "scan")
    assert [n.primitive.name for n in first.regions[0].nodes] == ["mul", "add", "sub"]
    assert [n.primitive.name for n in second.regions[0].nodes] == ["mul", "add", "add"]
    assert {made.origins[n] for scan in (first, second) for n in scan.regions[0].nodes} < set(graph.nodes)
    rng = np.random.default_rng(0)
    g, w, m = (rng.normal(size=(6, 8)).astype(F32) for _ in range(3))
    expected, found = (interpret(x, [g, F32(0.5)], {"w": w, "m": m}) for x in (graph, made.graph))
    assert [np.asarray(v).tobytes() for v in expected[0]] == [np.asarray(v).tobytes() for v in found[0]]
    assert all(expected[1][name].tobytes() == found[1][name].tobytes() for name in "wm")


def test_what_only_prepares_a_gradient_for_its_update_is_in_the_block() -> None:
    graph = """
    graph @main(%g: f32[6,8], %h: f32[6,8], %r: f32[]) {
      state @w: f32[6,8]
      state @v: f32[6,8]
      %mean = mul(%g, %r) : f32[6,8]  // backward
      %shown = mul(%h, %r) : f32[6,8]  // backward
      %a = mul(%mean, %mean) : f32[6,8]  // update
      %b = sub(@w, %a) : f32[6,8]  // update
      %c = mul(%shown, %shown) : f32[6,8]  // update
      %d = add(%c, %c) : f32[6,8]  // update
      %e = sub(@v, %d) : f32[6,8]  // update
      @w <- %b
      @v <- %e
      return %shown
    }
    """
    _, made = blocked(graph, 12)
    regions = [[n.output.name for n in node.regions[0].nodes] for node in made.graph.nodes if node.regions]
    assert regions == [["mean_1", "a_1", "b_1"], ["c_1", "d_1", "e_1"]], "a step that gives a gradient makes it whole"


def test_small_arrays_and_those_that_no_number_divides_stay_whole() -> None:
    assert blocked(GRAPH, 16)[1].graph is blocked(GRAPH, 16)[0] or not blocked(GRAPH, 16)[1].origins
    assert not blocked(GRAPH.replace("6,8", "1,61"), 10)[1].origins
    assert count_of_blocks(61, 10) is None and count_of_blocks(60, 8) == 10 and count_of_blocks(64, 16) == 4


def test_a_step_that_fails_leaves_the_states_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index out of range is found before anything is written, also where weights are written in place."""
    monkeypatch.setattr(ort, "block_size", lambda: 256)

    class Words(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.fall = nn.Embedding(40, 32), nn.Dense(32, 40)

        def construct(self, words: Any) -> Any:
            return self.fall(self.table(words))

    y = np.ones((3, 40), F32)
    words, wrong = np.array([1, 39, 3], np.int32), np.array([1, 40, 3], np.int32)
    loss = nn.WithLossCell(Words(), nn.MSELoss())
    step = graphls.compile(nn.TrainOneStepCell(loss, nn.Adam(loss.trainable_params())), words, y)
    step(words, y)
    large = {p.name for p in loss.trainable_params() if len(p.shape) > 1}
    assert scans(step._session) and not large & set(step._session.swapped)
    before = states(step)
    with pytest.raises(graphls.GraphlsError, match="could not run the step"):
        step(wrong, y)
    assert states(step) == before
    step(words, y)
    assert states(step) != before


@pytest.mark.parametrize(("factor", "is_in_place"), [("%r", True), ("%one", False)])
def test_only_what_may_be_the_old_value_itself_keeps_it(factor: str, is_in_place: bool) -> None:
    graph = f"""
    graph @main(%g: f32[6,8], %r: f32[]) {{
      state @w: f32[6,8]
      %one = constant() {{value=array(f32[], [1.0])}} : f32[]  // forward
      %given = mul(@w, {factor}) : f32[6,8]  // forward
      %a = mul(%given, %g) : f32[6,8]  // update
      %c = add(%a, %a) : f32[6,8]  // update
      %b = sub(@w, %c) : f32[6,8]  // update
      @w <- %b
      return %given
    }}
    """
    _, made = blocked(graph, 12)
    (write,) = in_place_after_readers(made.graph, [n for n in made.graph.nodes if n.primitive.name == "scan"]).writes
    assert write.in_place is is_in_place, "a product with one is dropped, and what it gives is the state"
