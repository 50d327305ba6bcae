"""Loops whose conditions follow from known values, and reductions between computed bounds, against ONNX Runtime."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import parser

import graphls
import graphls.onnx
from graphls import nn, ops

X = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3])
WEIGHTS = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
ROWS = ", ".join(map(str, WEIGHTS.ravel()))
BAG = f"""
<ir_version: 8, opset_import: ["": 18]>
bag (int64[10] x, int64[3] offsets) => (float[N, 2] y)
<float[10, 2] weight = {{{ROWS}}}, int64[1] size = {{10}}, int64 zero = {{0}}, int64 one = {{1}}, int64 three = {{3}},
 int64[1] flat = {{-1}}, int64[1] first = {{0}}, bool go = {{1}}>
{{
  rows = Gather (weight, x)
  ends = Concat <axis = 0> (offsets, size)
  none = SequenceEmpty ()
  bags, last = Loop ("", go, none, zero) <body = body (int64 number, bool ongoing, bags_in, i)
    => (more, bags_out, after) {{
      at = Reshape (i, flat)
      after = Add (i, one)
      behind = Reshape (after, flat)
      start = Gather (ends, at)
      end = Gather (ends, behind)
      is_empty = Equal (start, end)
      bag = If (is_empty) <
        then_branch = zeros () => (float[1, 2] nothing) <float[1, 2] nothing = {{0, 0}}> {{ }},
        else_branch = reduced () => (one_row) {{
          part = Slice (rows, start, end)
          one_row = REDUCTION (part, first)
        }}>
      bags_out = SequenceInsert (bags_in, bag)
      more = Less (after, three)
    }}>
  y = ConcatFromSequence <axis = 0> (bags)
}}
"""
"""What PyTorch's exporter writes of an EmbeddingBag."""
REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")


def bag(reduction: str) -> Any:
    return parser.parse_model(BAG.replace("REDUCTION", f"Reduce{reduction}"))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_reductions_between_computed_bounds(reduction: str) -> None:
    proto = bag(reduction)
    session, net = onnxruntime.InferenceSession(proto.SerializeToString()), graphls.onnx.load(proto)
    all_offsets = [np.array(offsets) for offsets in ([0, 3, 7], [0, 0, 9], [2, 10, 10], [-10, -4, 8])]
    step = graphls.compile(net, X, all_offsets[0])
    for offsets in all_offsets:
        expected = session.run(None, {"x": X, "offsets": offsets})[0]
        np.testing.assert_allclose(step(X, offsets).asnumpy(), expected, rtol=1e-5, err_msg=str(offsets))


@pytest.mark.parametrize("reduction", ["Sum", "Mean", "Max"])
def test_gradients_between_computed_bounds(reduction: str) -> None:
    """Against differences in float64, computed with NumPy."""
    net, offsets = graphls.onnx.load(bag(reduction), trainable="weight"), np.array([1, 3, 3])
    reduced = {"Sum": np.sum, "Mean": np.mean, "Max": np.max}[reduction]
    bounds = [*offsets, 10]

    def total(weight: Any) -> Any:
        parts = [weight[X[a:b]] for a, b in pairwise(bounds)]
        return sum(np.square(reduced(part, axis=0)).sum() for part in parts if len(part))  # type: ignore[operator]

    gradients = ops.grad(lambda x, o: ops.sum(ops.square(net(x, o))), None, net.trainable_params())(X, offsets)
    weight, expected = WEIGHTS.astype(np.float64), np.zeros(WEIGHTS.shape)
    for index in np.ndindex(weight.shape):
        step = np.zeros(weight.shape)
        step[index] = 1e-5
        expected[index] = (total(weight + step) - total(weight - step)) / 2e-5
    np.testing.assert_allclose(gradients[0].asnumpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_network_with_bags_trains_its_weights_alone() -> None:
    """Constants inside of branches and loops are no parameters where PyTorch wrote the model."""
    proto, offsets = bag("Mean"), np.array([0, 3, 7])
    proto.producer_name = "pytorch"
    net = graphls.onnx.load(proto)
    assert [parameter.name for parameter in net.trainable_params()] == ["weight"]
    loss = nn.WithLossCell(_Offsets(net, offsets), nn.MSELoss())
    step = graphls.compile(nn.TrainOneStepCell(loss, nn.SGD(net.trainable_params(), 1.0)), X, np.ones((3, 2), "f4"))
    losses = [float(step(X, np.ones((3, 2), np.float32))) for _ in range(5)]
    assert losses[-1] < 0.5 * losses[0]


class _Offsets(nn.Cell):
    def __init__(self, net: nn.Cell, offsets: Any) -> None:
        super().__init__()
        self.net, self.offsets = net, graphls.Tensor(offsets)

    def construct(self, x: Any) -> Any:
        return self.net(x, self.offsets)


COUNTING = """
<ir_version: 8, opset_import: ["": 18]>
counting (float[2] x) => (float[2] last, float[N, 2] rows)
<int64 zero = {0}, int64 step = {3}, int64 end = {END}, float half = {0.5}, bool go = {1}, int64 most = {MOST}>
{
  last, i, rows = Loop (most, go, x, zero) <body = body (int64 number, bool ongoing, float[2] v, int64 n)
    => (bool more, float[2] w, int64 m, float[2] row) {
      w = Mul (v, half)
      row = Sin (w)
      m = Add (n, step)
      more = Less (m, end)
    }>
}
"""


@pytest.mark.parametrize(("end", "most", "count"), [(14, 100, 5), (60, 100, 20), (60, 4, 4), (-1, 9, 1), (9, 0, 0)])
def test_what_a_loop_collects_has_the_length_that_its_conditions_give(end: int, most: int, count: int) -> None:
    proto = parser.parse_model(COUNTING.replace("END", str(end)).replace("MOST", str(most)))
    x = np.array([1.0, -3.0], np.float32)
    results = graphls.compile(graphls.onnx.load(proto), x)(x)
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    assert len(expected[1]) == count
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.asnumpy().reshape(wanted.shape), wanted, rtol=1e-6)


def test_parts_between_computed_bounds_that_nothing_reduces_are_refused() -> None:
    proto = parser.parse_model(BAG.replace("REDUCTION (part, first)", "Abs (part)"))
    with pytest.raises(ValueError, match=r"Slice .*: its input 'start' must be known: it is known only when the graph"):
        graphls.compile(graphls.onnx.load(proto), X, np.array([0, 3, 7]))
