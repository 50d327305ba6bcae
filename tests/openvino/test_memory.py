"""What OpenVINO takes for the weights of a model is given back when a step has run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("openvino")

SCRIPT = """
import numpy as np
from graphls import compile, nn

def held():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) >> 10

np.ones(5 << 20, np.float64)  # 40 MB, behind which the C library keeps what is smaller in its heap
network = nn.SequentialCell(*(nn.Dense(1024, 1024) for _ in range(16))).set_train(False)
x = np.ones((1, 1024), np.float32)
compile(nn.Dense(2, 2), x[:, :2], engine="openvino")(x[:, :2])
before = held()
step = compile(network, x, engine="openvino")
step(x)
print(held() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of a process")
def test_weights_lie_in_memory_once() -> None:
    from subprocess import run

    folder = Path(__file__).parent.parent.parent
    done = run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, cwd=folder, timeout=600)
    assert int(done.stdout) < 40, "64 MB of weights would lie in the heap again"
