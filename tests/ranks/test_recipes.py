"""Recipes on ranks have one maximum of a tensor for all, that of the joined batch."""

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

OF_THIS_STEP = """
    from dataclasses import dataclass

    random = np.random.default_rng(0)
    X = random.standard_normal((32, 24)).astype(np.float32) * np.linspace(1, 3, 32, dtype=np.float32)[:, None]
    LABELS = random.integers(0, 5, 32).astype(np.int32)
    rows = slice(RANK * 32 // SIZE, (RANK + 1) * 32 // SIZE)

    @dataclass(frozen=True)
    class Own(gl.amp.Form):
        def rounded(self, e, x, more):
            return e.minimum(x, e.cast(e.mul(more.absolute_maximum(x), 0.5), dtype=x.dtype))

    class Halves(gl.amp.Recipe):
        def form(self, role, product, kind, axes):
            return Own()

    def start(mode, recipe, x, labels):
        set_auto_parallel_context(parallel_mode=mode, gradients_mean=True)
        gl.set_seed(3)
        net = nn.SequentialCell(nn.Dense(24, 32), nn.ReLU(), nn.Dense(32, 5))
        gl.amp.auto_mixed_precision(net, recipe)
        loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
        return gl.compile(nn.TrainOneStepCell(loss, optimizer).set_train(), x, labels)

    def scales(step, x, labels):
        # a rank's loss is the mean of its rows, so that gradients of these are SIZE times as large
        factors = {"gradient": SIZE if len(x) < 32 else 1}
        tensors = step.explain_precision(x, labels).tensors
        return sorted((t.place, t.role, t.scales[0] * factors.get(t.role, 1)) for t in tensors)

    for recipe in (gl.amp.CurrentScaling(), gl.amp.NVFP4(False, False), Halves()):
        own, all_rows = (X[rows], LABELS[rows]), (X, LABELS)
        ranks, one = start("data_parallel", recipe, *own), start("stand_alone", recipe, *all_rows)
        if isinstance(recipe, gl.amp.CurrentScaling):
            assert scales(ranks, *own) == scales(one, *all_rows)
        totals = [float(collectives.AllReduce()(ranks(*own)).asnumpy()) / SIZE for _ in range(4)]
        assert np.allclose(totals, [float(one(*all_rows).asnumpy()) for _ in range(4)], rtol=1e-6), (recipe, totals)
        communications = [n for n in ranks.graph.nodes if n.primitive.is_collective and n.attrs.get("op") == "max"]
        print(RANK, len(communications), [len(n.inputs) for n in communications])
"""

REPORTED = """
    from graphls import dataset, train

    set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    random = np.random.default_rng(0)
    ROWS = [(x, x[:4].copy()) for x in random.normal(size=(32, 24)).astype(np.float32)]

    def trained(reports, sink=False):
        gl.set_seed(3)
        data = dataset.GeneratorDataset(ROWS, ["x", "y"], shuffle=False, num_shards=SIZE, shard_id=RANK).batch(4)
        net = gl.amp.auto_mixed_precision(nn.Dense(24, 4), gl.amp.CurrentScaling())
        model = train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
        for _ in range(2):
            model.train(2, data, callbacks=reports, dataset_sink_mode=sink)
        return net.weight.asnumpy().tobytes()

    plain = trained([])
    own = [train.RunReport(f"run_{RANK}", precision_every=3, refresh=1000)] if RANK == 0 else []
    assert trained(own) == plain
    others = [train.RunReport(f"other_{RANK}_{n}", precision_every=4 + RANK * n, refresh=1000) for n in range(2)]
    assert trained(others) == plain
    (sunk,) = [train.RunReport(f"sunk_{RANK}", precision_every=1, refresh=1000)]
    trained([sunk], sink=True)
    reports = [*own, *others, sunk]
    steps = [sorted({n for points in r.record.precision.values() for n, _ in points}) for r in reports]
    page = all("Precision at step" in Path(f"{r.directory}/index.html").read_text() for r in reports)
    print(RANK, page, steps)
"""

TWO_RANKS = {"recipes": PROGRAM, "recipes_of_this_step": OF_THIS_STEP, "reports_of_recipes": REPORTED}


@needs_ranks
def test_ranks_have_one_maximum(two_ranks: Ran) -> None:
    """Also with loss scaling, where one rank overflows alone: the flags are those of the joined batch."""
    lines = two_ranks.found["recipes"]
    assert len(lines) == 4
    assert len(set(lines)) == 2, "to the bit the same scales on all ranks"
    assert [line.split()[:2] for line in lines[::2]] == [["False", "False"], ["True", "True"]]


@needs_ranks
def test_maxima_of_this_step_are_those_of_all_ranks(two_ranks: Ran) -> None:
    """Losses and scales are those of one process, also by a form of one's own; a layer communicates twice in a step."""
    sizes = "[1, 1, 1, 1]", "[1, 1, 1, 1]", "[1, 1, 3, 3]"
    assert two_ranks.found["recipes_of_this_step"] == [f"{rank} 4 {size}" for rank in (0, 1) for size in sizes]


@needs_ranks
def test_reports_of_some_ranks_show_precision(two_ranks: Ran) -> None:
    """All ranks explain the steps that a report of any of them asks for, also where calls have many steps."""
    sunk = "[4, 8]"
    first, second = f"[[3, 6], [4, 8], [4, 8], {sunk}]", f"[[4, 8], [5], {sunk}]"
    assert two_ranks.found["reports_of_recipes"] == [f"0 True {first}", f"1 True {second}"]
