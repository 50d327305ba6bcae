"""Every optimizer on several ranks against one process on the joined batch, with overflows on any rank at any step.

`python -m tests.ranks.sweep [ranks ...]` runs all of them on 1, 2 and 4 ranks, and says how far each is off.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.ranks.running import ended_well

PROGRAM = """
    import hashlib
    import warnings

    from graphls.distributed.collectives import all_objects
    from graphls.distributed.world import world

    warnings.simplefilter("ignore")
    WANTED = sys.argv[1:]
    STEPS, ROWS = 50, 16
    TOGETHER = {"parallel_mode": "data_parallel", "gradients_mean": True}
    SPECIAL = {
        "Momentum": lambda p: nn.Momentum(p, 0.05, 0.9),
        "SGD": lambda p: nn.SGD(p, 0.05, momentum=0.9, nesterov=True),
        "LARS": lambda p: nn.LARS(nn.Momentum(p, 0.05, 0.9)),
        "AdaFactor": lambda p: nn.AdaFactor(p, 0.01, scale_parameter=False, relative_step=False),
    }
    KINDS = {n: k for n, k in vars(nn).items() if isinstance(k, type) and issubclass(k, nn.Optimizer) and n[0] != "_"}
    KINDS.pop("Optimizer")

    class Net(nn.Cell):
        def __init__(self, dtype):
            super().__init__()
            self.last, self.first = nn.Dense(16, 4, dtype=dtype), nn.Dense(8, 16, dtype=dtype)
            self.middle = nn.Dense(16, 16, dtype=dtype)

        def construct(self, x, y):
            x = ops.tanh(self.middle(ops.tanh(self.first(ops.cast(x, self.first.weight.dtype)))))
            return ((ops.cast(self.last(x), gl.float32) - y) ** 2).mean()

    def made(name, dtype, own):
        random = np.random.default_rng(0)
        net = Net(dtype)
        for parameter in net.get_parameters():  # other ranks begin elsewhere, and take those of rank 0
            values = random.normal(size=parameter.shape).astype(np.float32) * 0.3 + own
            parameter.set_data(gl.Tensor(values, dtype))
        make = SPECIAL.get(name, lambda p: KINDS[name](p, learning_rate=0.01))
        optimizer = make(net.trainable_params())
        manager = nn.DynamicLossScaleUpdateCell(1024, 2, 5)
        return nn.TrainOneStepWithLossScaleCell(net, optimizer, manager).set_train()

    def values(step):
        return [p.asnumpy() for p in step.get_parameters()]

    def case(name, dtype, number):
        set_auto_parallel_context(**TOGETHER)
        step = made(name, dtype, RANK)
        set_auto_parallel_context(parallel_mode="stand_alone")
        alone = made(name, dtype, 0)
        random = np.random.default_rng(number)
        skipped, rows = 0, ROWS // SIZE
        for i in range(STEPS):
            x, y = (random.normal(size=(ROWS, width)).astype(np.float32) for width in (8, 4))
            if random.random() < 0.2:
                x[random.integers(ROWS), 0] = np.inf
            own = slice(RANK * rows, (RANK + 1) * rows)
            _, flag, scale = step(gl.Tensor(x[own]), gl.Tensor(y[own]))
            after = hashlib.sha256(b"".join(v.tobytes() for v in values(step))).hexdigest()
            told = bool(flag.asnumpy()), float(scale.asnumpy()), after
            everyone = all_objects(world(), told)
            assert len(set(everyone)) == 1, (name, i, everyone)
            if RANK == number % SIZE:
                _, flag, scale = alone(gl.Tensor(x), gl.Tensor(y))
            if RANK == number % SIZE and dtype is gl.float32:  # sums of 16 bits overflow where their means do not
                assert told[:2] == (bool(flag.asnumpy()), float(scale.asnumpy())), (name, i, told)
            skipped += told[0]
        assert skipped
        if RANK == number % SIZE:
            pairs = list(zip(step.network.get_parameters(), alone.network.get_parameters()))
            largest = max(np.abs(b.asnumpy()).max() for _, b in pairs)
            off = max(np.abs(a.asnumpy() - b.asnumpy()).max() for a, b in pairs) / largest
            assert off < (1e-6 if dtype is gl.float32 else 0.05), (name, off)
            # One rank alone has nothing that reduces.
            in_float32 = getattr(step.grad_reducer, "in_float32", None)
            travels = {None: "", True: ", in float32", False: ", as they are"}[in_float32]
            print(f"{name} {dtype}{travels} skipped {skipped} off {off:.2e}")

    for number, name in enumerate(sorted(set(WANTED or KINDS) & set(KINDS))):
        case(name, gl.float32, number)
    for wide in (True, False):
        for kind in ("float16", "bfloat16"):
            if not WANTED or kind in WANTED:
                set_auto_parallel_context(gradient_fp32_sync=wide)
                case("Momentum", getattr(gl, kind), len(KINDS))
"""


def errors(ranks: int, folder: Path, *names: str, timeout: float = 1200) -> dict[str, float]:
    """How far the parameters of each optimizer are off, relative to the largest one; flags and bits are compared."""
    lines = ended_well(ranks, PROGRAM, folder, *names, timeout=timeout)
    return {line.partition(" skipped")[0]: float(line.split()[-1]) for line in lines}


def divided(folder: Path) -> list[str]:
    """Every optimizer whose states are divided among two ranks, beside itself, and what ranks have parts of."""
    from tests.ranks.test_shards import EVERY, HELD, held_by

    lines = ended_well(2, EVERY, folder)
    assert lines == held_by(HELD), lines
    return lines[::2]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print("Divided:", *divided(Path(name)), sep="\n  ")
    for count in map(int, sys.argv[1:] or (1, 2, 4)):
        with tempfile.TemporaryDirectory() as name:
            found = errors(count, Path(name))
        print(f"{count} ranks, {len(found)} optimizers:")
        print("\n".join(f"  {name:36} {error:.2e}" for name, error in sorted(found.items(), key=lambda f: -f[1])))
