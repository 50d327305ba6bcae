"""Training on several ranks is training on the joined batch."""

from __future__ import annotations

from graphls import nn
from graphls.runtime.context.parallel import preserved_parallel_context, set_auto_parallel_context
from tests.ranks.running import Ran, needs_ranks
from tests.ranks.sweep import PROGRAM

TRAINED = """
    import hashlib

    from graphls.distributed import collectives as talking

    KIND, STEPS = sys.argv[1], int(sys.argv[2])
    together, talks = talking.all_reduce, []
    talking.all_reduce = lambda *given: talks.append(1) or together(*given)

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Dense(8, 16), nn.Dense(16, 4)

        def construct(self, x, y):
            return ((self.second(ops.tanh(self.first(x))) - y) ** 2).mean()

    def made(mode):
        fusion = {"allreduce": {"mode": "size", "config": 0}}
        set_auto_parallel_context(parallel_mode=mode, gradients_mean=True, comm_fusion=fusion)
        random = np.random.default_rng(0)
        net = Net()
        for parameter in net.get_parameters():  # other ranks begin elsewhere, and take those of rank 0
            spread = RANK if mode == "data_parallel" else 0
            parameter.set_data(gl.Tensor(random.normal(size=parameter.shape).astype(np.float32) * 0.3 + spread))
        weights = net.trainable_params()
        optimizer = nn.Adam(weights, 0.01) if KIND == "mf" else nn.Momentum(weights, 0.05, 0.9)
        manager = nn.DynamicLossScaleUpdateCell(1024, 2, 5)
        if KIND == "plain":
            step = nn.TrainOneStepCell(net, optimizer)
        elif KIND == "scaled":
            step = nn.TrainOneStepWithLossScaleCell(net, optimizer, manager)
        elif KIND == "updates":
            step = gl.amp.build_train_network(
                net, optimizer, loss_scale_manager=gl.amp.DynamicLossScaleManager(1024, 2, 5), accumulate_steps=2,
                clip_norm=0.5, ema_decay=0.9,
            )
        else:
            step = nn.MFTrainOneStepCell(
                net, optimizer, True, 0.5, manager, gradient_accumulation_steps=2, ema_decay=0.9
            )
        return net, step.set_train()

    def run(step, x, y):
        found = step(gl.Tensor(x), gl.Tensor(y))
        return (bool(found[1].asnumpy()), float(found[2].asnumpy())) if KIND != "plain" else (False, 0.0)

    (net, step), (alone, whole) = made("data_parallel"), made("stand_alone")
    random = np.random.default_rng(1)
    rows, skipped = 16 // SIZE, 0
    for i in range(STEPS):
        x, y = (random.normal(size=(16, width)).astype(np.float32) for width in (8, 4))
        if KIND != "plain" and i % 7 == 3:
            x[rows * (i // 7 % SIZE), 0] = np.inf  # of one rank, another one each time
        own = slice(RANK * rows, (RANK + 1) * rows)
        found = run(step, x[own], y[own])
        other = run(whole, x, y) if RANK == 0 else found
        if KIND != "updates" or i % 2:  # before the last call of an update, each rank knows of its own overflows
            assert found == other, (i, found)
            skipped += found[0]
    assert KIND != "updates" or len(talks) == STEPS, "gradients and flag once for each update of two calls"
    if RANK == 0:
        after, wanted = (np.concatenate([p.asnumpy().ravel() for p in n.get_parameters()]) for n in (net, alone))
        assert np.abs(after - wanted).max() < 1e-6 * np.abs(wanted).max()
    values = b"".join(p.asnumpy().tobytes() for p in (*step.get_parameters(), *step.optimizer.get_parameters()))
    print(skipped, hashlib.sha256(values).hexdigest()[:16])
"""
SKIPPED = {"plain": "0", "scaled": "7", "mf": "10", "updates": "7"}


@needs_ranks
def test_ranks_have_the_parameters_of_one_process_on_the_joined_batch(two_ranks: Ran) -> None:
    """Steps of each kind, a reducer at once, `Model`, and few optimizers, of which tests/ranks/sweep.py runs all."""
    found = two_ranks.found
    for kind, skipped in SKIPPED.items():
        assert len(found[kind]) == 2 and len(set(found[kind])) == 1, "to the bit the same on all ranks"
        assert found[kind][0].split()[0] == skipped
    assert found["reduced"] == [f"{r} {[_reduced(5.0, 2.0 + r), _reduced(1.25, 2.0 + r)]}" for r in range(2)]
    assert len(found["model"]) == 2 and len(set(found["model"])) == 1 and found["model"][0].endswith("data_parallel 2")
    assert len(found["sweep"]) == 4


REDUCED = """
    weights = [gl.Parameter(gl.Tensor(np.zeros(n, np.float32)), name=f"w{n}") for n in range(1, 5)]
    weights[1].layerwise_parallel = True
    grads = [gl.Tensor(np.full(n, 2.0 + RANK), kind) for n, kind in enumerate([gl.float16, *[gl.float32] * 3], 1)]
    kinds = nn.DistributedGradReducer(weights), nn.DistributedGradReducer(weights, True, 4, 0)
    print(RANK, [[(g.tolist()[0], str(g.dtype)) for g in reducer(tuple(grads))] for reducer in kinds])
    large = gl.Tensor(np.full(3, 40000.0), gl.float16)
    found = []
    for wide in (True, False):  # a mean in float32 is no overflow, where a sum in float16 is one
        set_auto_parallel_context(gradient_fp32_sync=wide)
        found += nn.DistributedGradReducer(weights[:1], True)((large,))
    assert [g.tolist()[0] for g in found] == [40000.0, float("inf")], found
"""


def _reduced(total: float, own: float) -> list[tuple[float, str]]:
    return [(total, "Float16"), (own, "Float32"), (total, "Float32"), (total, "Float32")]


def test_in_a_process_alone_a_step_reduces_nothing() -> None:
    with preserved_parallel_context():
        set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
        net = nn.Dense(2, 1)
        step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1))
        assert (step.reducer_flag, step.degree) == (False, 1)
    assert nn.DistributedGradReducer(net.trainable_params(), True)((1, 2)) == (1, 2)


MODEL = """
    set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    from graphls import train

    try:
        set_auto_parallel_context(device_num=3)
    except RuntimeError as error:
        assert "processes that were started, and 2 were, not" in str(error)
        net = nn.Dense(3, 1, weight_init="zeros", bias_init="zeros")
        rows = [(np.full((2, 3), 1.0 + RANK, np.float32), np.ones((2, 1), np.float32))] * 4
        data = gl.dataset.GeneratorDataset(rows, ["x", "y"], shuffle=False)
        told = []

        class Told(train.Callback):
            def on_train_begin(self, run_context):
                told.append(run_context.original_args())

        model = train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.01))
        model.train(1, data, callbacks=Told(), dataset_sink_mode={sink})
        print(net.weight.asnumpy().tolist(), told[0].parallel_mode, told[0].device_number)
"""

TWO_RANKS = {
    **{kind: (TRAINED, kind, "50") for kind in SKIPPED},
    "reduced": REDUCED, "model": MODEL.format(sink=True), "sweep": (PROGRAM, "Adam", "LARS", "bfloat16"),
}  # fmt: skip
