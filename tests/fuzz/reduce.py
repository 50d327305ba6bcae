"""The graph of a program that ended in a fault, cut to what the fault needs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from graphls.api import CPU_PASSES, trace_graph
from graphls.base.sharing.storage import Storage
from graphls.ir.graph import Graph
from graphls.ir.interpret import interpret
from graphls.ir.plan import DEFAULT, is_plan
from graphls.passes import Pipeline, as_pipeline
from graphls.passes.schedule.partition import Partition
from graphls.runtime.onnxruntime.session import OrtSession
from graphls.runtime.plan import PlanSession
from graphls.runtime.session import Session
from graphls.testing import Ending, random_inputs, reduce_graph, run_apart
from tests.fuzz.judge import compared, unguarded
from tests.fuzz.programs import Program


class State:
    """A state outside of a cell, for a session."""

    def __init__(self, array: Any) -> None:
        self.storage = Storage(array)


def reduce_program(made: Program, outcome: str, engine: str = DEFAULT) -> tuple[Graph, Pipeline]:
    """The smallest graph behind the gradient pass, and the passes after it, that end in the same outcome."""
    graph, passes = gradients(made)
    function = partial(wrong_numbers if outcome == "wrong" else run_graph, passes, engine)
    return reduce_graph(graph, lambda g: _is_like(run_apart(function, g), outcome), attempts=600), passes


def _is_like(ending: Ending, outcome: str) -> bool:
    if outcome == "refused":
        return ending.kind == "raised" and "ONNX Runtime" in ending.text
    if outcome == "error":
        return ending.kind == "raised" and not ending.text.startswith("Graph")
    return ending == Ending("returned", "True") if outcome == "wrong" else ending.kind == outcome


def gradients(made: Program) -> tuple[Graph, Pipeline]:
    """The graph of a program behind the gradient pass, which is the first, and the passes that follow."""
    pipeline = as_pipeline(CPU_PASSES.format(mode="outputs") if made.passes is None else made.passes)
    first, rest = Pipeline(pipeline.passes[:1]), Pipeline(pipeline.passes[1:])
    return first.run(trace_graph(made.cell, *made.inputs).graph, keep=False).graph, rest


def run_graph(passes: Pipeline, engine: str, graph: Graph) -> list[Any]:
    """One run of a graph on an engine, on random numbers: the results, and what states are written."""
    graph = passes.run(graph, keep=False).graph
    inputs, states = random_inputs(graph)
    parameters = {name: State(array) for name, array in states.items()}
    with unguarded():
        plan = Partition(engine).run(graph)
        session: Session = PlanSession(plan, parameters) if is_plan(plan) else OrtSession(graph, parameters)
    found = [np.asarray(x) for x in session.run(inputs)]
    return found + [parameters[w.state.name].storage.read() for w in graph.writes]


def wrong_numbers(passes: Pipeline, engine: str, graph: Graph) -> bool:
    """Whether an engine gives other numbers for a graph than NumPy, beyond what rounding explains."""
    final = passes.run(graph, keep=False).graph
    inputs, states = random_inputs(final)
    outputs, after = interpret(final, inputs, states)
    expected = [*outputs, *(after[w.state.name] for w in final.writes)]
    return bool(compared(graph, inputs, states, run_graph(passes, engine, graph), expected))
