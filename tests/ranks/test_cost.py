"""The cost of collectives, by the formulas of their papers."""

from __future__ import annotations

import pytest

from graphls.distributed.cost import Network, fitted


@pytest.mark.parametrize(
    ("algorithm", "ranks", "messages", "times"),
    [
        ("ring", 2, 2, 1), ("ring", 4, 6, 1.5), ("ring", 512, 1022, 2 * 511 / 512), ("tree", 2, 1, 1),
        ("tree", 4, 2, 2), ("tree", 5, 3, 3), ("halving", 8, 6, 1.75), ("ring", 1, 0, 0),
    ],
)  # fmt: skip
def test_an_all_reduce(algorithm: str, ranks: int, messages: float, times: float) -> None:
    network = Network(3.0, 10.0, algorithm)
    assert network.all_reduce(ranks, 200) == pytest.approx(3 * messages + 20 * times)


@pytest.mark.parametrize(("algorithm", "messages"), [("ring", 3), ("tree", 2), ("halving", 2), ("best", 2)])
def test_a_reduce_scatter_and_an_all_gather_are_an_all_reduce(algorithm: str, messages: float) -> None:
    network = Network(3.0, 10.0, algorithm)
    assert network.reduce_scatter(4, 200) == network.all_gather(4, 200) == 3 * messages + 15


def test_the_best_is_a_tree_for_little_and_parts_for_much() -> None:
    best, tree, halving = (Network(1e-5, 1e9, name) for name in ("best", "tree", "halving"))
    assert best.all_reduce(64, 4) == tree.all_reduce(64, 4) < halving.all_reduce(64, 4)
    assert best.all_reduce(64, 10**8) == halving.all_reduce(64, 10**8) < tree.all_reduce(64, 10**8)


@pytest.mark.parametrize("ranks", [2, 4, 6])
def test_a_network_is_found_from_two_times(ranks: int) -> None:
    network = Network(2e-5, 3e9)
    seconds = (network.all_reduce(ranks, 4), Network(2e-5, 3e9, "halving").all_reduce(ranks, 10**8))
    found = fitted(ranks, *seconds, 10**8)
    assert (found.latency, found.bandwidth) == pytest.approx((2e-5, 3e9), rel=1e-3)
