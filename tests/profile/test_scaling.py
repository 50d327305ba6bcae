"""Predictions of steps on many ranks: what travels, what is hidden, and what is divided."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.distributed.cost import Network
from graphls.inspect.profile.scaling import Bucket, Machines, Simulation, Workload, one_rank, workload
from graphls.ir import Graph, parse
from graphls.ir.graph import Node

WIDTHS = (8, 32, 16, 4)
SIZES = [4 * (m * n + n) for m, n in pairwise(WIDTHS)]
MIB = 1 << 20


def graph_of(kind: str, dtype: Any = graphls.float32) -> Graph:
    net = nn.SequentialCell(*(nn.Dense(m, n) for m, n in pairwise(WIDTHS))).to_float(dtype)
    loss = nn.WithLossCell(net, nn.MSELoss())
    weights = net.trainable_params()
    if kind == "adam":
        step: nn.Cell = nn.TrainOneStepCell(loss, nn.Adam(weights, 0.01))
    else:
        manager = nn.DynamicLossScaleUpdateCell(64, 2, 5)
        step = nn.TrainOneStepWithLossScaleCell(loss, nn.Momentum(weights, 0.1, 0.9), manager)
    step.set_train()
    inputs = [np.zeros((5, width), np.float32) for width in (WIDTHS[0], WIDTHS[-1])]
    return one_rank(parse(str(graphls.compile(step, *inputs).graph)))


def seconds_of(graph: Graph) -> dict[Node, float]:
    return dict.fromkeys(graph.nodes, 1.0)


@pytest.mark.parametrize(("kind", "dtype"), [("adam", graphls.float32), ("scaled", graphls.float16)])
def test_what_travels_are_the_gradients_of_all_parameters(kind: str, dtype: Any) -> None:
    graph = graph_of(kind, dtype)
    work = workload(graph, seconds_of(graph), 25 * MIB)
    assert (work.gradients, work.parameters, len(work.buckets)) == (sum(SIZES), sum(SIZES), 1)
    assert work.moments == sum(SIZES) * (2 if kind == "adam" else 1)
    assert work.seconds == pytest.approx(len(graph.nodes)), "each node is in one part"
    assert work.update > 0 and work.memory > work.parameters + work.moments


def test_buckets_are_in_the_order_of_the_backward() -> None:
    graph = graph_of("adam")
    work = workload(graph, seconds_of(graph), 1)
    found = [bucket.bytes for bucket in work.buckets]
    layers = [[4 * n, 4 * m * n] for m, n in pairwise(WIDTHS)]
    assert [set(found[i : i + 2]) for i in (0, 2, 4)] == [set(layer) for layer in reversed(layers)]
    assert work.buckets[0].seconds > work.buckets[1].seconds, "the forward is before the first"


WORK = Workload((Bucket(100, 30.0), Bucket(300, 10.0)), 1.0, 8.0, 400, 800, 5000)


def test_what_is_hidden_and_what_waits() -> None:
    network = Network(0.0, 10.0, "ring", inf)  # on two ranks, 10 and 30 seconds
    apart, overlapping = Simulation(WORK, network, overlaps=False).on(2), Simulation(WORK, network).on(2)
    assert (apart.seconds, apart.waiting, apart.hidden) == (49 + 40, 40, 0)
    assert (overlapping.seconds, overlapping.waiting, overlapping.hidden) == (40 + 30 + 8, 29, 1 - 29 / 40)
    assert Simulation(WORK, network).on(1).seconds == WORK.seconds == 49
    assert apart.memory == 5000


def test_ranks_of_a_machine_share_its_cores_and_hide_nothing_where_all_compute() -> None:
    network = Network(0.0, 10.0, "ring", inf)  # on two ranks, 10 and 30 seconds; on four, 15 and 45
    machine = Simulation(WORK, network, machines=Machines(4, 2))
    two, four, eight = (machine.on(ranks) for ranks in (2, 4, 8))
    assert (two.seconds, two.hidden) == (49 + 40, 0)
    assert (four.seconds, four.hidden) == (2 * 49 + 60, 0)
    assert eight.hidden > 0 and eight.seconds > 2 * 49, "what goes to other machines is beside what computes"
    assert Simulation(WORK, network, machines=Machines(2, 4)).on(2) == Simulation(WORK, network).on(2)
    assert machine.on(1).seconds == 49


def test_a_sharded_optimizer_divides_moments_and_updates() -> None:
    network = Network(0.0, 10.0, "ring", inf)
    sharded = Simulation(WORK, network).on(2, is_sharded=True)  # 5 and 15 seconds, and 20 for parameters
    assert sharded.seconds == 40 + 15 + 4 + 20
    assert sharded.memory == 5000 + 400 - 400


def test_ranks_scale_and_copy_in_their_own_memory() -> None:
    network = Network(0.0, inf, "ring", 8.0)  # 400 bytes are read and written in 100 seconds
    assert Simulation(WORK, network).on(2).seconds == 49 + 100, "a mean of what has come"
    sharded = Simulation(WORK, network).on(2, is_sharded=True)
    assert sharded.seconds == (30 + 25 + 75) + (4 + 150) + 100, "both buckets, three passes over shards, parameters"
    assert Simulation(WORK, network).on(1, is_sharded=True).seconds == WORK.seconds


def test_where_it_stops_paying() -> None:
    slow, fast = Simulation(WORK, Network(1.0, 1e9, "ring")), Simulation(WORK, Network(1e-9, 1e12))
    assert slow.pays_up_to() == 8, "on 16 ranks, 30 messages for each bucket"
    assert fast.pays_up_to() is None
    assert slow.best_for_one_batch().ranks == 4
    assert fast.best_for_one_batch().seconds == pytest.approx(WORK.update, rel=1e-3)


COLLECTIVE = """graph @f(%x: f32[4]) {
  %t, %y = all_reduce(%x) {group="world", op="sum", ranks=2} : token, f32[4]
  return %y
}
"""


def test_what_cannot_be_simulated() -> None:
    with pytest.raises(ValueError, match="@f is a step of several ranks, with all_reduce; give that of one"):
        one_rank(parse(COLLECTIVE))
    graph = parse("graph @f(%x: f32[4]) {\n  %y = exp(%x) : f32[4]\n  return %y\n}\n")
    with pytest.raises(ValueError, match="@f updates no state by a gradient; give the graph of a training step"):
        workload(graph, seconds_of(graph), 1)
