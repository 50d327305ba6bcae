"""A sharded optimizer is the optimizer, with a part of its states on each rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ranks.running import ended_well, needs_ranks

COMMON = """
    import warnings

    from graphls.context.parallel import reset_auto_parallel_context

    warnings.simplefilter("ignore", UserWarning)

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Dense(7, 5), nn.Dense(5, 3)

        def construct(self, x, y):
            return ((self.second(ops.tanh(self.first(x))) - y) ** 2).mean()

    def trained(make, is_sharded, steps=5, spoiled=(2,)):
        set_auto_parallel_context(
            parallel_mode="data_parallel", gradients_mean=True, enable_parallel_optimizer=is_sharded,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        )
        random = np.random.default_rng(0)
        net = Net()
        for parameter in net.get_parameters():
            parameter.set_data(gl.Tensor(random.normal(size=parameter.shape).astype(np.float32) * 0.3))
        step = make(net)
        step.set_train()
        for i in range(steps):
            x, y = (random.normal(size=(4 * SIZE, width)).astype(np.float32) for width in (7, 3))
            if i in spoiled:
                x[i % SIZE * 4, 0] = np.inf
            step(gl.Tensor(x[4 * RANK : 4 * RANK + 4]), gl.Tensor(y[4 * RANK : 4 * RANK + 4]))
        held = {p.name: p.storage.held_here().size for p in step.get_parameters()}
        return {p.name: p.asnumpy() for p in step.get_parameters()}, held, {p.name: p.size for p in step.get_parameters()}

    def differences(one, other):
        return [name for name in one if one[name].tobytes() != other[name].tobytes()]
"""

EVERY = COMMON + """
    KINDS = {
        "SGD": dict(learning_rate=0.1, momentum=0.9), "Momentum": dict(learning_rate=0.1, momentum=0.9),
        "Adam": dict(use_amsgrad=True), "AdamWeightDecay": dict(weight_decay=0.1), "AdamW": {}, "AdaMax": {},
        "RMSProp": dict(centered=True), "Adagrad": {}, "Adadelta": {}, "FTRL": {}, "ProximalAdagrad": {}, "Rprop": {},
        "ASGD": {}, "LazyAdam": {}, "Lamb": dict(learning_rate=0.1), "AdaFactor": {},
    }
    for name, settings in KINDS.items():
        kind = getattr(nn, name)

        def plain(net):
            groups = [
                {"params": [p for p in net.trainable_params() if "weight" in p.name], "weight_decay": 0.01},
                {"params": [p for p in net.trainable_params() if "bias" in p.name]},
            ]
            return nn.TrainOneStepCell(net, kind(groups if name != "SGD" else net.trainable_params(), **settings))

        def scaled(net):
            manager = nn.DynamicLossScaleUpdateCell(1024, 2, 5)
            return nn.TrainOneStepWithLossScaleCell(net, kind(net.trainable_params(), **settings), manager)

        for make, spoiled in ((plain, ()), (scaled, (2,))):
            (one, *_), (other, held, whole) = (trained(make, flag, spoiled=spoiled) for flag in (False, True))
            worst = max(np.abs(one[n] - other[n]).max() / (np.abs(one[n]).max() + 1e-30) for n in one)
            parts = sum(held[n] < whole[n] for n in held)
            print(RANK, name, make.__name__, differences(one, other), worst, parts, sum(n > SIZE for n in whole.values()))
"""


@needs_ranks
def test_every_optimizer(tmp_path: Path) -> None:
    for line in ended_well(2, EVERY, tmp_path):
        print(line)
    assert 0
