"""Delayed scaling on ranks has one maximum for all, that of the joined batch."""

from __future__ import annotations

from tests.ranks.running import Ran, needs_ranks

PROGRAM = """
    random = np.random.default_rng(0)
    X = random.standard_normal((32, 24)).astype(np.float32) * np.linspace(1, 3, 32, dtype=np.float32)[:, None]
    LABELS = random.integers(0, 5, 32).astype(np.int32)

    def start(mode, scaled):
        set_auto_parallel_context(parallel_mode=mode, gradients_mean=True)
        gl.set_seed(3)
        net = nn.SequentialCell(nn.Dense(24, 32), nn.ReLU(), nn.Dense(32, 5))
        if scaled:
            gl.amp.auto_mixed_precision(net, "O3")
        gl.amp.auto_mixed_precision(net, gl.amp.DelayedScaling(amax_history_len=3))
        loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
        if not scaled:
            return net, nn.TrainOneStepCell(loss, optimizer).set_train()
        update = nn.DynamicLossScaleUpdateCell(2**10, 2, 100)
        return net, nn.TrainOneStepWithLossScaleCell(loss, optimizer, update).set_train()

    rows = slice(RANK * 32 // SIZE, (RANK + 1) * 32 // SIZE)
    for scaled in (False, True):
        (own, ranks), (alone, one) = start("data_parallel", scaled), start("stand_alone", scaled)
        skipped = 0
        for i in range(12 if scaled else 6):
            x = X.copy()
            if i == 9:
                x[3] = np.inf  # of the first rank alone
            told = ranks(gl.Tensor(x[rows]), gl.Tensor(LABELS[rows])), one(gl.Tensor(x), gl.Tensor(LABELS))
            if scaled:
                flags = [(bool(t[1].asnumpy()), float(t[2].asnumpy())) for t in told]
                assert flags[0] == flags[1], (i, flags)
                skipped += flags[0][0]
        for p, q in zip(own.get_parameters(), alone.get_parameters()):
            if "input" in p.name or "weight_" in p.name:
                assert np.allclose(p.asnumpy(), q.asnumpy(), rtol=1e-2 if scaled else 1e-5), (p.name, p, q)
        scales = [p.asnumpy() for p in own.get_parameters() if p.name.endswith("_scale") or "history" in p.name]
        print(scaled, skipped > 0, [s.tobytes().hex() for s in scales])
"""

TWO_RANKS = {"recipes": PROGRAM}


@needs_ranks
def test_ranks_have_one_maximum(two_ranks: Ran) -> None:
    """Also with loss scaling, where one rank overflows alone: the flags are those of the joined batch."""
    lines = two_ranks.found["recipes"]
    assert len(lines) == 4
    assert len(set(lines)) == 2, "to the bit the same scales on all ranks"
    assert [line.split()[:2] for line in lines[::2]] == [["False", "False"], ["True", "True"]]
