"""The graph of a program that ended in a fault, cut to what the fault needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.api import CPU_PASSES, trace_graph
from graphls.backends.ort import OrtSession
from graphls.ir.graph import Graph
from graphls.ir.interpret import interpret
from graphls.passes import as_pipeline
from graphls.storage import Storage
from graphls.testing import Ending, random_inputs, reduce_graph, run_apart
from tests.fuzz.judge import compared
from tests.fuzz.programs import program


class State:
    """A state outside of a cell, for a session."""

    def __init__(self, array: Any) -> None:
        self.storage = Storage(array)


def reduce_program(seed: int, outcome: str) -> Graph:
    """The smallest graph, behind the passes of the program, that ends in the same outcome."""
    graph = final_graph(seed)
    function = wrong_numbers if outcome == "wrong" else run_graph
    return reduce_graph(graph, lambda g: _is_like(run_apart(function, g), outcome), attempts=600)


def _is_like(ending: Ending, outcome: str) -> bool:
    if outcome == "refused":
        return ending.kind == "raised" and "ONNX Runtime" in ending.text
    return ending == Ending("returned", "True") if outcome == "wrong" else ending.kind == outcome


def final_graph(seed: int) -> Graph:
    """The graph of a program as it is lowered."""
    made = program(seed)
    passes = CPU_PASSES.format(mode="outputs") if made.passes is None else made.passes
    return as_pipeline(passes).run(trace_graph(made.cell, *made.inputs).graph, keep=False).graph


def run_graph(graph: Graph) -> Any:
    """One run of a graph on ONNX Runtime, on random numbers: the results, and what states are written."""
    inputs, states = random_inputs(graph)
    parameters = {name: State(array) for name, array in states.items()}
    found = [np.asarray(x) for x in OrtSession(graph, parameters).run(inputs)]
    return found + [parameters[w.state.name].storage.read() for w in graph.writes]


def wrong_numbers(graph: Graph) -> bool:
    """Whether ONNX Runtime gives other numbers for a graph than NumPy, beyond what rounding explains."""
    inputs, states = random_inputs(graph)
    outputs, after = interpret(graph, inputs, states)
    expected = [*outputs, *(after[w.state.name] for w in graph.writes)]
    return bool(compared(graph, inputs, states, run_graph(graph), expected))
