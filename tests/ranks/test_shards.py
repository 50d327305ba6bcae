"""A sharded optimizer is the optimizer, with a part of its states on each rank."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from graphls.distributed.shards import BLOCK, shard_size
from graphls.ir import parse
from graphls.passes.distributed.shard import Shard
from graphls.train.serialization import load_checkpoint
from tests.ranks.running import Ran, needs_ranks, run_ranks

COMMON = """
    import warnings

    DTYPE = gl.float32

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Dense(7, 5, dtype=DTYPE), nn.Dense(5, 3, dtype=DTYPE)

        def construct(self, x, y):
            x = self.second(ops.tanh(self.first(ops.cast(x, DTYPE))))
            return ((ops.cast(x, gl.float32) - y) ** 2).mean()

    def made(make, is_sharded):
        set_auto_parallel_context(
            parallel_mode="data_parallel", gradients_mean=True, enable_parallel_optimizer=is_sharded,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        )
        random = np.random.default_rng(0)
        net = Net()
        for parameter in net.get_parameters():
            parameter.set_data(gl.Tensor(random.normal(size=parameter.shape).astype(np.float32) * 0.3, DTYPE))
        return make(net).set_train()

    def trained(step, steps=4, spoiled=2):
        random = np.random.default_rng(1)
        for i in range(steps):
            x, y = (random.normal(size=(4 * SIZE, width)).astype(np.float32) for width in (7, 3))
            if i == spoiled:
                x[i % SIZE * 4, 0] = np.inf
            step(gl.Tensor(x[4 * RANK : 4 * RANK + 4]), gl.Tensor(y[4 * RANK : 4 * RANK + 4]))
        return step

    def values(step):
        return {p.name: p.asnumpy().astype(np.float64) for p in step.get_parameters()}

    def parts(step):
        sharded = (p for p in step.get_parameters() if p.storage.local_array().size < p.size)
        return sorted({p.name.partition(".")[0] for p in sharded})

    def worst(one, other):
        return max(np.abs(one[n] - other[n]).max() / (np.abs(one[n]).max() + 1e-30) for n in one)

    def scaled(net):
        manager = nn.DynamicLossScaleUpdateCell(1024, 2, 5)
        return nn.TrainOneStepWithLossScaleCell(net, kind(net.trainable_params(), **settings), manager)
"""

EVERY = COMMON + """
    warnings.simplefilter("ignore", UserWarning)
    KINDS = {
        "SGD": dict(learning_rate=0.1, momentum=0.9, dampening=0.1),
        "Momentum": dict(learning_rate=0.1, momentum=0.9),
        "Adam": dict(use_amsgrad=True), "AdamWeightDecay": dict(weight_decay=0.1), "AdamW": {}, "AdaMax": {},
        "RMSProp": dict(centered=True), "Adagrad": {}, "Adadelta": {}, "FTRL": {}, "ProximalAdagrad": {}, "Rprop": {},
        "ASGD": {}, "LazyAdam": {}, "Lamb": dict(learning_rate=0.1), "AdaFactor": {},
    }
    HALF = [f"{name}:{dtype}" for name in ("Momentum", "Adam") for dtype in ("float16", "bfloat16")]
    for name in sys.argv[1:] or [*KINDS, *HALF]:
        plain, _, dtype = name.partition(":")
        kind, settings, DTYPE = getattr(nn, plain), KINDS[plain], getattr(gl, dtype or "float32")
        set_auto_parallel_context(gradient_fp32_sync=dtype != "bfloat16")
        one, other = (trained(made(scaled, is_sharded)) for is_sharded in (False, True))
        held = parts(other)
        one, other = values(one), values(other)
        same = all(one[n].tobytes() == other[n].tobytes() for n in one)
        print(name, same or worst(one, other) < 1e-6 and "near", *held)
"""
HELD = {
    "SGD": "accum stat", "Momentum": "moments", "Adam": "moment1 moment2 vhat", "AdamWeightDecay": "adam_m adam_v",
    "AdamW": "adam_m adam_v", "AdaMax": "moment1 moment2", "RMSProp": "mean_grad mean_square moment",
    "Adagrad": "accum", "Adadelta": "accum accum_update", "FTRL": "linear moments", "ProximalAdagrad": "accum",
    "Rprop": "prev step_size", "ASGD": "ax_", "LazyAdam": "moment1 moment2", "Lamb": "lamb_m lamb_v",
    "AdaFactor": "exp_avg", "Momentum:float16": "moments", "Momentum:bfloat16": "moments",
    "Adam:float16": "moment1 moment2 vhat", "Adam:bfloat16": "moment1 moment2 vhat",
}  # fmt: skip


FEW = ("Lamb", "AdaFactor", "Momentum:bfloat16")


def held_by(names: Iterable[str]) -> list[str]:
    """What two ranks tell of optimizers."""
    return sorted(2 * [f"{name} {'near' if name == 'Lamb' else 'True'} {HELD[name]}".strip() for name in names])


KINDS = ("plain", "clipped", "accumulated")
STEPS = COMMON + """
    def groups(net):
        weights = [p for p in net.trainable_params() if "weight" in p.name]
        return [{"params": weights, "weight_decay": 0.01}, {"params": [net.first.bias, net.second.bias], "lr": 0.2}]

    def plain(net):
        return nn.TrainOneStepCell(net, nn.Adam(groups(net), 0.1), return_grad=True)

    def clipped(net):
        optimizer, manager = nn.AdamWeightDecay(groups(net), 0.1), nn.DynamicLossScaleUpdateCell(1024, 2, 5)
        return nn.MFTrainOneStepCell(net, optimizer, True, 0.5, manager, ema_decay=0.9)

    def accumulated(net):
        optimizer, manager = nn.AdamWeightDecay(groups(net), 0.1), nn.DynamicLossScaleUpdateCell(1024, 2, 5)
        return nn.MFTrainOneStepCell(
            net, optimizer, False, 0.5, manager, gradient_accumulation_steps=2, ema_decay=0.9, local_norm=True
        )

    warnings.simplefilter("ignore", UserWarning)
    for make in [globals()[name] for name in sys.argv[1:]]:
        one, other = (trained(made(make, flag), spoiled=None if make is plain else 2) for flag in (False, True))
        held = parts(other)
        (compiled,) = [step for c in other._compiled.values() for step in [c.last[2]]]
        swapped = [w.state.name for w in compiled._step.plan.graph.writes if not w.in_place and w.state.type.size > 1]
        result = worst(values(one), values(other))
        print(make.__name__, result < 1e-6, result == 0, swapped, *held)
"""


KEPT = COMMON + """
    from graphls import train
    from graphls.distributed import sharded_states

    kind, settings = nn.Adam, {}
    warnings.simplefilter("ignore", UserWarning)
    one = trained(made(scaled, True))
    if RANK == 0:  # what is divided can be read by one rank, whatever the others do: here, they wait in the next step
        train.save_checkpoint(one, "alone.ckpt")
    trained(one, 1)
    train.save_checkpoint(one, f"kept_{RANK}.ckpt")
    # A rank that is slow gets what others have replaced, or freed, since they read it.
    moment = one.optimizer.moment1[0]
    other = trained(made(scaled, True))
    collectives.barrier()
    if RANK == 1:
        time.sleep(0.2)
    read = moment.asnumpy(), other.optimizer.moment1[0].asnumpy()
    moment.set_data(gl.Tensor(np.zeros(moment.shape, np.float32)))
    del other
    import gc
    gc.collect()
    total = sum(abs(a).sum() for a in read)
    most, least = (collectives.AllReduce(op)(gl.Tensor(total)).asnumpy() for op in ("max", "min"))
    assert 0 < least == most
    train.load_param_into_net(one, train.load_checkpoint(f"kept_{RANK}.ckpt"))
    # The same step goes on in NumPy, on states that were read whole in between, and once more where it was.
    other = made(scaled, True)
    train.load_param_into_net(other, train.load_checkpoint(f"kept_{RANK}.ckpt"))
    x, y = np.ones((4, 7), np.float32), np.ones((4, 3), np.float32)
    gl.compile(other, gl.Tensor(x), gl.Tensor(y), backend="numpy")(gl.Tensor(x), gl.Tensor(y))
    one(gl.Tensor(x), gl.Tensor(y))
    assert worst(values(one), values(other)) < 1e-5
    assert parts(one) == parts(other) == ["moment1", "moment2"]
    set_auto_parallel_context(enable_parallel_optimizer=False)
    gl.compile(one, gl.Tensor(x), gl.Tensor(y))(gl.Tensor(x), gl.Tensor(y))  # takes them whole
    assert parts(one) == []
    trained(one, 1)
    assert parts(one) == ["moment1", "moment2"]
    sharded_states.PATIENCE = 0.2
    if RANK == 0:
        step = gl.compile(lambda x: ops.assign(one.optimizer.moment1[0], one.optimizer.moment1[0] + x), gl.Tensor(1.0))
        try:
            step(gl.Tensor(1.0))
        except RuntimeError as error:
            print(error)
"""
IN_CODES = COMMON + """
    from graphls import dataset, train

    warnings.simplefilter("ignore", UserWarning)
    random = np.random.default_rng(0)
    ROWS = [(row[:20], row[20:]) for row in random.normal(size=(16, 25)).astype(np.float32)]

    def fitted(is_sharded):
        set_auto_parallel_context(
            parallel_mode="data_parallel", gradients_mean=True, enable_parallel_optimizer=is_sharded,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        )
        gl.set_seed(1)
        net = nn.SequentialCell(nn.Dense(20, 830), nn.ReLU(), nn.Dense(830, 5))
        model = train.Model(net, nn.MSELoss(), nn.Adam(net.trainable_params(), 0.01, state_bits=8))
        data = dataset.GeneratorDataset(ROWS, ["x", "y"], shuffle=False, num_shards=SIZE, shard_id=RANK).batch(2)
        model.train(2, data, dataset_sink_mode=False)
        return model.train_network

    one, other = fitted(False), fitted(True)
    held = {p.name: p.storage.local_array().size for p in other.optimizer.get_parameters()}
    one, other = values(one), values(other)
    same = all(one[n].tobytes() == other[n].tobytes() for n in one)
    print(same, *(held[f"{name}.weight"] for name in ("moment1.0", "moment2.0", "moment1_maxima.0", "moment1.2")))
"""
ENDED = COMMON + """
    from graphls import dataset, train

    class Ends(train.Callback):
        def on_train_step_end(self, run_context):
            if run_context.original_args().cur_step_num == 3:
                collectives.barrier()  # the first rank has saved
                if RANK == SIZE - 1:
                    raise ValueError("ended on purpose")

    set_auto_parallel_context(
        parallel_mode="data_parallel", gradients_mean=True, enable_parallel_optimizer=True,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    net = nn.Dense(4, 2, weight_init="ones", bias_init="zeros")
    rows = [(np.full(4, i, np.float32), np.ones(2, np.float32)) for i in range(20)]
    data = dataset.GeneratorDataset(rows, ["x", "y"], shuffle=False, num_shards=SIZE, shard_id=RANK).batch(2)
    model = train.Model(net, nn.MSELoss(), nn.Adam(net.trainable_params(), 0.01))
    config = train.CheckpointConfig(save_checkpoint_steps=3, exception_save=True)
    saving = train.ModelCheckpoint("saved", ".", config=config)
    model.train(1, data, callbacks=[saving, Ends()], dataset_sink_mode=False)
"""


TWO_RANKS = {"every": (EVERY, *FEW), "steps": (STEPS, *KINDS), "in_codes": IN_CODES, "kept": KEPT}
"""The last one leaves a communication of gathers that one rank alone has begun."""


@needs_ranks
def test_what_is_divided_is_saved_whole_and_read_by_any_rank(two_ranks: Ran) -> None:
    """And optimizers, clipping, accumulation, averages and groups have the bits of those that are not divided."""
    found, folder = two_ranks.found, two_ranks.folder
    assert found["every"] == held_by(FEW)
    assert found["steps"] == sorted(2 * [
        "accumulated True True [] accu_grads adam_m adam_v ema",
        "clipped True False [] adam_m adam_v ema",  # by a norm, which is added up in another order
        "plain True True [] moment1 moment2",
    ])  # fmt: skip
    told = "Only this rank runs a step that gathers states that are divided among the ranks; let all ranks run it."
    assert len(found["kept"]) == 1 and found["kept"][0].startswith(told)
    assert (folder / "kept_0.ckpt").read_bytes() == (folder / "kept_1.ckpt").read_bytes()
    assert load_checkpoint(folder / "alone.ckpt")["moment1.first.weight"].shape == (5, 7)


@needs_ranks
def test_moments_in_8_bits_are_divided_between_blocks(two_ranks: Ran) -> None:
    """16600 codes in 65 blocks: a rank has 33 of these, and one that is too small for 16 on each rank stays whole."""
    assert two_ranks.found["in_codes"] == ["True 8448 8448 33 4150"] * 2


@pytest.mark.parametrize("ranks", [1, 3, 8, 64])
def test_shards_of_blocks_have_the_maxima_of_these(ranks: int) -> None:
    for size in (4096 * ranks, 5000 * ranks + 7, 1_200_000 * ranks + 1, 10**9):
        shard = shard_size(size, ranks)
        assert shard % BLOCK == 0
        assert shard_size(-(-size // BLOCK), ranks) * BLOCK == shard
        assert size <= shard * ranks < size * 1.07 + BLOCK * ranks


@needs_ranks
def test_a_rank_that_fails_saves_what_is_divided_whole(tmp_path: Path) -> None:
    ended = run_ranks(2, ENDED, tmp_path)
    assert ended.code != 0 and "ValueError: ended on purpose" in ended.err
    one, other = (load_checkpoint(tmp_path / f"saved-1_3{ending}.ckpt") for ending in ("", "_breakpoint"))
    assert all(one[name].asnumpy().tobytes() == other[name].asnumpy().tobytes() for name in {**one, **other})


def test_what_is_needed_whole_stays_whole() -> None:
    graph = parse("""
    graph @step(%x: f32[4,2]) {
      state @v: f32[4,2]
      state @mean_of_rank: f32[4,2]
      %t, %g = all_reduce(%x) {group="world", op="sum", ranks=2} : token, f32[4,2]
      %mean = mean(@v) {axis=[0], keepdims=true} : f32[1,2]
      %centred = sub(%g, %mean) : f32[4,2]
      %new = add(@v, %centred) : f32[4,2]
      %own = add(@mean_of_rank, %x) : f32[4,2]
      @v <- %new
      @mean_of_rank <- %own
      return
    }
    """)
    told = "1 states of the optimizer are not divided among the ranks, so that each stores all of them, as mean needs"
    with pytest.warns(UserWarning, match=told):
        assert Shard(0, 2, 0).run(graph) is graph
    assert Shard(0, 1, 0).run(graph) is graph
    assert Shard(0, 2, 1000).run(graph) is graph


def test_a_state_of_shards_takes_its_part_of_a_gradient_that_is_needed_whole() -> None:
    graph = parse("""
    graph @step(%x: f32[4,2]) {
      state @v: f32[4,2]
      state @w: f32[4,2]
      %t, %g = all_reduce(%x) {group="world", op="sum", ranks=2} : token, f32[4,2]
      %mean = mean(%g) {axis=[0], keepdims=true} : f32[1,2]
      %centred = sub(%g, %mean) : f32[4,2]
      %new = add(@v, %centred) : f32[4,2]
      %down = sub(@w, %new) : f32[4,2]
      @v <- %new
      @w <- %down
      return
    }
    """)
    divided = Shard(0, 2, 0, ("w",)).run(graph)
    assert {state.name: state.type.shape for state in divided.states} == {"v": (4,), "w": (4, 2)}
    assert [n.primitive.name for n in divided.nodes if n.primitive.is_collective] == ["all_reduce", "gather_shards"]
