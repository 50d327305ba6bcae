"""Where the runtime ran the operators of a model, by its profile, and where that is not as predicted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime

from graphls.inspect.profile.measure import PlainCopy
from graphls.ir.graph import Graph
from graphls.runtime.devices import PROVIDERS
from graphls.runtime.lowering import lower
from graphls.runtime.onnxruntime.placement import place
from graphls.runtime.onnxruntime.trial import DTYPES

ENDING = "_kernel_time"


def seen(model: bytes, device: str, folder: Path) -> Mapping[str, str]:
    """The providers of the operators that one run on zeros ran, by their names; nothing is fused before."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "placed")
    session = onnxruntime.InferenceSession(model, options, providers=[PROVIDERS[device]])
    session.run(None, {i.name: np.zeros(i.shape, _dtype(i.type)) for i in session.get_inputs()})
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    ran = [event for event in events if event["name"].endswith(ENDING)]
    return {event["name"].removesuffix(ENDING): event["args"]["provider"] for event in ran}


def _dtype(kind: str) -> str:
    name = kind.removeprefix("tensor(").removesuffix(")")
    return DTYPES.get(name, name)


def compared(graph: Graph, device: str, folder: Path) -> tuple[int, list[str]]:
    """How many operators of a graph ran, and those that did not run where they were predicted to.

    Names are numbers, because the runtime writes them into its profile as they are.
    """
    lowered = lower(PlainCopy(graph).graph, device=device, runtime=onnxruntime.__version__)
    found = seen(lowered.model.SerializeToString(), device, folder)
    predicted = place(lowered.model, onnxruntime.__version__, device).nodes
    ran = [node for node in predicted if node.name in found]
    wrong = [f"{node} ran on {found[node.name]}" for node in ran if found[node.name] != PROVIDERS.get(node.device)]
    return len(ran), wrong
