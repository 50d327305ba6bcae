"""Training steps on XLA beside the same ones of the interpreter: `python -m tests.xla.networks` compares all."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import graphls
from benchmarks.peers import graphls_networks as peers
from graphls import nn
from tests.networks.steps import BATCH, NETWORKS, Network, adam, classes, integers, labelled, momentum, training_step

STEPS = 20
FORMS = ("float32", "bfloat16", "float16")
SCALES = {"float32": 2.0**126, "bfloat16": 2.0**126, "float16": 2.0**22}
"""Loss scales at the beginning: so high that the first steps overflow."""

BOUNDS = {"float32": 2e-6, "bfloat16": 2.0**-5, "float16": 2.0**-6}
"""How far losses may differ, relatively: Adam turns gradients that are rounding errors into whole steps.

That of bfloat16 is four units in the last place; ResNet-18 is four off in one of twenty steps, MobileNet two.
"""

CHAOTIC = ("resnet18", "mobilenet")
"""Networks whose norms over few numbers make a difference of rounding a hundred times as large in each step.

Each step on XLA begins with the states of the interpreter. On ONNX Runtime their losses part from these as soon.
"""


def _bags(rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], ...]:
    return integers(rng, 9, BATCH, 3, 4), integers(rng, 5, BATCH)


KINDS = NETWORKS | {
    "mobilenet": Network(lambda: peers.mobilenet(4, 5), classes, momentum, 0.05, labelled(3, 16, 16)),
    "embeddings": Network(lambda: peers.embeddings(3, 9, 4, 8, 5), classes, adam, 0.01, _bags),
}

States = dict[str, np.ndarray[Any, Any]]


def trained(
    kind: Network, form: str, engine: str, states: Sequence[States] = ()
) -> tuple[np.ndarray[Any, Any], list[States]]:
    """A row of loss, flag and scale of each step, and the states before each; `states` are what steps begin with."""
    rng = np.random.default_rng(3)
    cell = training_step(kind, form, nn.DynamicLossScaleUpdateCell(SCALES[form], 4, 4))
    step = graphls.compile(cell, *kind.draw(rng), engine=engine)
    assert {segment.engine for segment in step.plan.segments} == {engine}
    rows, before = [], []
    for number in range(STEPS):
        for name, array in states[number].items() if states else ():
            step.parameters[name].set_data(graphls.Tensor(array))
        before.append({v.name: step.parameters[v.name].asnumpy() for v in step.graph.states})
        rows.append([float(np.asarray(v.asnumpy())) for v in step(*kind.draw(rng))[:3]])
    return np.array(rows), before


def difference(name: str, form: str) -> tuple[str, float]:
    """What of flags and scales differs between XLA and the interpreter, "" for nothing, and how far losses differ."""
    kind = KINDS[name]
    expected, states = trained(kind, form, "numpy")
    rows, _ = trained(kind, form, "xla", states if name in CHAOTIC else ())
    skipped = int(expected[:, 1].sum())
    assert 0 < skipped < STEPS, f"{skipped} steps of {name} in {form} overflow"
    words = [word for word, column in (("flags", 1), ("scales", 2)) if (rows[:, column] != expected[:, column]).any()]
    return " and ".join(words), float(np.max(np.abs(rows[:, 0] - expected[:, 0]) / np.abs(expected[:, 0])))


def main() -> int:
    """Print what differs for every network in every form, or for those in the arguments."""
    wrong = 0
    for name in sys.argv[1:] or KINDS:
        for form in FORMS:
            start = time.process_time()
            words, far = difference(name, form)
            wrong += bool(words) or not far <= BOUNDS[form]
            seconds = time.process_time() - start
            print(f"{name:12} {form:9} {words or 'equal'}; losses differ by {far:.1e}; {seconds:.1f} s", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="Gradients in (float32|bfloat16) need no loss scaling")
    sys.exit(main())
