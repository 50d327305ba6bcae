"""Which state a node works for alone, compared with the definition, and found quickly where networks are deep."""

from __future__ import annotations

import random
from functools import reduce
from typing import Any

from graphls.inspect.viz.states import served


def by_definition(reached: dict[Any, int]) -> dict[Any, int]:
    """The last write of each node that is reached by whatever reaches any write of the node."""
    found = {}
    for node, mask in reached.items():
        touching = [other for other in reached.values() if other & mask]
        common = reduce(int.__and__, touching, mask)
        if common:
            found[node] = common.bit_length() - 1
    return found


def test_random_writes() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        writes = rng.choice([1, 2, 3, 9, 40])
        families = [sum(1 << bit for bit in rng.sample(range(writes), min(writes, rng.randint(1, 12)))) for _ in "abc"]
        masks = [reduce(int.__or__, rng.sample(families, rng.randint(0, 3)), 0) for _ in range(rng.randint(0, 12))]
        reached: Any = dict(enumerate(masks))
        assert served(reached, reached) == by_definition(reached)


def test_a_deep_chain_takes_few_steps() -> None:
    depth = 4000
    forward: Any = {i: (1 << depth) - (1 << i) for i in range(depth)}
    assert served(forward, forward) == dict.fromkeys(range(depth), depth - 1)
    backward: Any = {i: (1 << (i + 1)) - 1 for i in range(depth)} | {-i: 1 << i for i in range(1, depth)}
    assert served(backward, backward) == {0: 0} | {-i: i for i in range(1, depth)}
