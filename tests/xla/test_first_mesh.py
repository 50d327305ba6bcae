"""A mesh of a CPU needs no first place in its process: JAX divides the CPU, or a further client has the devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

DIVIDING = ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")
"""Variables by which a CPU may have several devices from the start."""

CONTEXT = "graphls.context.set_context(engine='xla', mesh=mesh, zero=1); print(net(x).shape)"
MODEL = "print(graphls.train.Model(net, engine='xla', mesh=mesh, zero=1).predict(x).shape)"
START = """
import numpy as np, graphls
from graphls import nn
net, x, mesh = nn.Dense(2, 3), graphls.Tensor(np.ones((8, 2), np.float32)), graphls.Mesh(data=4, model=2)
"""
TRAINED = """
import json, sys
import jax, jax.numpy as jnp, numpy as np, graphls
from graphls import nn
users = jnp.arange(6.0).reshape(2, 3) + 1

def step_of(mesh, zero=0):
    step = graphls.compile(cell, x, y, engine="xla", mesh=mesh, zero=zero)
    steps.append(step)
    return step

def trained(step, count):
    return [[v.asnumpy().item() for v in step(x, y)] for _ in range(count)]

random = np.random.default_rng(0)
x, y = random.normal(size=(16, 8)).astype(np.float32), 90 * random.normal(size=(16, 4)).astype(np.float32)
graphls.set_seed(1)
net = nn.SequentialCell(nn.Dense(8, 16), nn.ReLU(), nn.Dense(16, 4))
net[0].weight.sharding, net[2].weight.sharding = ("model", None), (None, "model")
loss = nn.WithLossCell(net, nn.MSELoss())
manager = nn.DynamicLossScaleUpdateCell(2.0**126, 2, 99)
cell = nn.TrainOneStepWithLossScaleCell(loss, nn.Adam(net.trainable_params(), 0.02), manager)
steps = []
meshes = [None, graphls.Mesh(data=2, model=2), graphls.Mesh(data=4, model=2), graphls.Mesh(data=2, model=2), None]
if sys.argv[1] == "one":
    meshes = [None] * 5
rows = [row for mesh in meshes for row in trained(step_of(mesh, zero=int(mesh is not None)), 4)]
rows += [row for step in steps for row in trained(step, 1)]  # steps of all clients in turns, on the same states
moment = next(p for n, p in cell.parameters_and_names() if n.endswith("moment1.0.weight"))
losses, flags, scales = zip(*rows)
print(json.dumps([losses, flags, scales, moment.asnumpy().tolist()]), np.asarray(users + 1).sum(), len(jax.devices()))
"""


def run(code: str, *arguments: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in DIVIDING} | variables
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


ONE_DEVICE = "graphls.compile(net, x, engine='xla')(x)\n"


@pytest.mark.parametrize("code", [CONTEXT, ONE_DEVICE + MODEL], ids=["set_context", "Model after one device"])
def test_a_mesh_may_come_first_or_after_a_step_on_one_device(code: str) -> None:
    pytest.importorskip("jax")
    assert run(START + code) == "(8, 3)\n"


def test_steps_on_one_device_and_on_growing_meshes_train_the_same_states(tmp_path: Path) -> None:
    """With arrays of the user's own on the first device, overflows, ZeRO, and the compile cache."""
    pytest.importorskip("jax")
    one, *runs = (run(TRAINED, meshes, GRAPHLS_CACHE=str(tmp_path)) for meshes in ("one", "all", "all"))
    losses, flags, scales, moment = json.loads(one.removesuffix(" 27.0 1\n"))
    assert flags[0] and not flags[-1] and losses[-1] < losses[0]
    for text in runs:
        own = json.loads(text.removesuffix(" 27.0 1\n"))
        assert own[1:3] == [flags, scales]
        np.testing.assert_allclose(own[0], losses, rtol=1e-5)
        np.testing.assert_allclose(own[3], moment, rtol=1e-4, atol=1e-5)
