"""SyncBatchNorm on ranks against BatchNorm on the joined batch."""

from __future__ import annotations

import re

import pytest

from graphls import nn
from tests.ranks.running import Ran, needs_ranks

SAME = """
    random = np.random.default_rng(3)
    CASES = {{
        "all": (None, [[*range(SIZE)]], [3] * SIZE, gl.float32),
        "pairs": ([[0, 1], [2, 3]], [[0, 1], [2, 3]], [3] * 4, gl.float32),
        "some": ([[0, 2]], [[0, 2], [1], [3]], [3] * 4, gl.float32),
        "unequal": (None, [[*range(SIZE)]], [1, 4, 2, 3][:SIZE], gl.float32),
        "half": (None, [[*range(SIZE)]], [3] * SIZE, gl.float16),
    }}

    def layer(kind, *args, **settings):
        gamma, beta = gl.Tensor([1.0, -2.0, 0.5]), gl.Tensor([0.0, 1.0, -1.0])
        return kind(3, 1e-5, 0.8, gamma_init=gamma, beta_init=beta, **settings)

    def trained(net, weight, xs, wide):
        def value(x, weight):
            y = net(x)
            return (ops.cast(y, gl.float32) * weight).sum(), y

        parameters = net.trainable_params()
        grad = ops.value_and_grad(value, 0, parameters, has_aux=True)
        step = gl.compile(grad, xs[0], weight)
        for x in xs:
            (_, y), (dx, dp) = step(x, weight)
        states = [p.asnumpy() for p in net.get_parameters()]
        return [y.asnumpy(), dx.asnumpy()], [g.asnumpy() for g in dp], states

    for name in {cases}:
        groups, joined, rows, kind = CASES[name]
        shape = (sum(rows), 3, 4, 2)
        xs = [random.normal(2, 3, size=shape).astype(kind.numpy) for _ in range(3)]
        for x in xs:
            x[:, 2] = 1000.0  # a constant channel, whose variance is none
        weight = random.normal(size=shape).astype(np.float32)
        starts = np.cumsum([0, *rows])
        part = lambda x, r: x[starts[r]:starts[r + 1]]
        mine = next(members for members in joined if RANK in members)
        whole = lambda x: np.concatenate([part(x, r) for r in mine])
        found = trained(layer(nn.SyncBatchNorm, process_groups=groups).set_train(), part(weight, RANK),
                        [part(x, RANK) for x in xs], kind)
        wanted = trained(layer(nn.BatchNorm2d).set_train(), whole(weight), list(map(whole, xs)), kind)
        offset = sum(rows[r] for r in mine if r < RANK)
        tolerance = 2e-3 if kind is gl.float16 else 1e-5

        def near(a, b):
            assert a.dtype == b.dtype and a.shape == b.shape
            limit = tolerance * max(1.0, np.abs(b[np.isfinite(b)]).max())
            assert np.abs(a.astype(np.float64) - b.astype(np.float64)).max() <= limit, (name, a, b)

        for a, b in zip(found[0], wanted[0]):
            near(a, b[offset : offset + rows[RANK]])
        for a, b in zip(found[2], wanted[2]):
            near(a, b)
        group = mine if len(mine) > 1 else None
        totals = [g for g in found[1]]
        if group and len(group) == SIZE:
            totals = [collectives.AllReduce()(gl.Tensor(g)).asnumpy() for g in found[1]]
            for a, b in zip(totals, wanted[1]):
                near(a, b)
    print("same")
"""


TRAINED = """
    def start(kind, mode):
        set_auto_parallel_context(parallel_mode=mode, gradients_mean=True)
        gl.set_seed(5)
        first, last = nn.Dense(4, 6), nn.Dense(6, 1)
        net = nn.SequentialCell(first, kind(6), nn.ReLU(), last).to_float(gl.float16)
        net[1].to_float(gl.float32)
        random = np.random.default_rng(0)
        for p in net.get_parameters():
            if p.name.endswith("weight"):
                p.set_data(gl.Tensor(random.normal(size=p.shape).astype(np.float32)))
        optimizer = nn.Momentum(net.trainable_params(), 0.05, 0.9)
        manager = nn.DynamicLossScaleUpdateCell(64, 2, 5)
        step = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, manager)
        return net, step.set_train()

    (own, ranks), (alone, one) = start(nn.SyncBatchNorm, "data_parallel"), start(nn.BatchNorm1d, "stand_alone")
    random = np.random.default_rng(1)
    for i in range(9):
        x, y = random.normal(size=(8, 4)).astype(np.float32), random.normal(size=(8, 1)).astype(np.float32)
        if i % 5 == 3:
            x[i % 8] = np.inf
        rows = slice(RANK * 8 // SIZE, (RANK + 1) * 8 // SIZE)
        told = [[float(t.asnumpy()) for t in step(gl.Tensor(a), gl.Tensor(b))[1:]]
                for step, a, b in ((ranks, x[rows], y[rows]), (one, x, y))]
        assert told[0] == told[1], (i, told)
        for p, q in zip(own.get_parameters(), alone.get_parameters()):
            if i < 3 or "moving" not in p.name:
                assert np.allclose(p.asnumpy(), q.asnumpy(), rtol=2e-3, atol=2e-3), (i, p.name, p, q)
    import hashlib
    print(hashlib.sha256(b"".join(p.asnumpy().tobytes() for p in own.get_parameters())).hexdigest())
"""


TWO_RANKS = {"normalised": SAME.format(cases=["all", "unequal", "half"]), "normalised_steps": TRAINED}


@needs_ranks
def test_ranks_normalise_as_one_process_on_the_joined_batch(two_ranks: Ran) -> None:
    """And train in float16, with overflows on single ranks; tests/ranks/test_four_ranks.py has groups of some."""
    assert two_ranks.found["normalised"] == ["same"] * 2
    states = two_ranks.found["normalised_steps"]
    assert len(states) == 2 and len(set(states)) == 1, "to the bit the same on all ranks"


@pytest.mark.parametrize(
    ("groups", "error", "told"),
    [
        ([0], TypeError, "must be a list of lists, but got [0]"),
        ([[0, 1]], ValueError, "must have different ranks below 1, but got [[0, 1]]"),
        ([[0], [0]], ValueError, "must have different ranks below 1, but got [[0], [0]]"),
    ],
)
def test_wrong_groups(groups: object, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=re.escape(f"For 'SyncBatchNorm', the 'process_groups' {told}.")):
        nn.SyncBatchNorm(3, process_groups=groups)


def test_without_groups_each_rank_is_alone() -> None:
    assert [nn.SyncBatchNorm(3, process_groups=groups).group for groups in (0, [], [[0]], None)] == [None] * 4
