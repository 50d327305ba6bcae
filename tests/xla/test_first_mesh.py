"""The first step of a process divides its CPU into the devices of a mesh, whoever names the mesh."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CONTEXT = "graphls.context.set_context(engine='xla', mesh=mesh, zero=1); print(net(x).shape)"
MODEL = "print(graphls.train.Model(net, engine='xla', mesh=mesh, zero=1).predict(x).shape)"
COMPILED = "print(graphls.compile(net, x, engine='xla', mesh=mesh)(x).shape)"
START = """
import numpy as np, graphls
from graphls import nn
net, x, mesh = nn.Dense(2, 3), graphls.Tensor(np.ones((8, 2), np.float32)), graphls.Mesh(data=4, model=2)
"""


@pytest.mark.parametrize("code", [COMPILED, CONTEXT, MODEL], ids=["compile", "set_context", "Model"])
def test_no_single_device_is_opened_before(code: str) -> None:
    pytest.importorskip("jax")
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-c", START + code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, "(8, 3)\n"), done.stderr
