"""Repeated steps: many steps in one call, as a scan over stacked inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.base.sharing.forks import renew_after_fork
from graphls.base.sharing.locks import holding
from graphls.base.sharing.storage import Storage, Version
from graphls.base.sharing.threads import Task
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.tensors.tensor import Tensor
from graphls.frontend.trace.inputs import InputCheck
from graphls.frontend.trace.trace import fill_outputs
from graphls.ir.build import Builder, Names, substitute
from graphls.ir.graph import Graph, Node, Value, Write, filtered, walk
from graphls.ir.sharding import Sharding
from graphls.ir.types import Type
from graphls.passes.schedule.host_calls import calls_for_results
from graphls.runtime.host_random import AHEAD, HostValues, known
from graphls.runtime.step import Step
from graphls.step.extra_outputs import ExtraOutputs
from graphls.step.host_effects import HostEffects
from graphls.step.trained_parameters import TrainedParameters

Array = np.ndarray[Any, Any]


class RepeatedStep:
    """`count` steps in one call of the runtime.

    It takes the tensors that the step takes, in order, stacked along a new first axis of length `count`, and gives
    what the steps give, stacked likewise. States, random numbers and results have the bits that single calls give them.
    """

    def __init__(self, step: Step, effects: HostEffects, trained: TrainedParameters, count: int) -> None:
        self.count = count
        self.trained = trained
        self._step = step.without_session()
        self._effects = effects
        self._extra = ExtraOutputs(step.outputs, step.graph)
        types = fill_outputs(step.outputs, [value.type for value in step.graph.outputs])
        self.output_types = map_leaves(lambda t: _stacked(t, count) if isinstance(t, Type) else t, types)
        graph = _without_host_calls(step.session_graph)
        drawn = host_random_nodes(graph)
        self.graph = repeated(graph, count)
        self.types = [value.type for value in self.graph.outputs[: len(step.graph.outputs)]]
        self.draws = _Draws(graph, drawn, count, step.parameters) if drawn else None
        own = len(step.graph.inputs)
        self._inputs = InputCheck(
            self.graph.replace(inputs=self.graph.inputs[:own]),
            tuple(Tensor(shape=v.type.shape, dtype=v.type.dtype) for v in self.graph.inputs[:own]),
        )
        self._session = step.open_session(self.graph, step.parameters)

    def __reduce__(self) -> Any:
        """A copy has a session of its own, on copies of the states."""
        return RepeatedStep, (self._step, self._effects, self.trained, self.count)

    def __call__(self, *inputs: object) -> Any:
        """Run the steps; raises as a call of the step does, before the first of them has run."""
        self.trained.check()
        arrays = self._inputs(inputs)
        results = self._session.run(arrays) if self.draws is None else self._run_on_drawn(self.draws, arrays)
        results = self._effects.each(results, self.count)
        tensors = (
            Tensor.on_host(r, t) if isinstance(r, np.ndarray) else Tensor.on_device(r, t)
            for r, t in zip(results, self.types, strict=True)
        )
        own = iter(self._extra.split(list(tensors)))
        return map_leaves(lambda leaf: next(own) if isinstance(leaf, Type) else leaf, self.output_types)

    @property
    def extra_outputs(self) -> dict[str, Array]:
        """The outputs that passes have added to the step, stacked as they are; see `Compiled.extra_outputs`."""
        return self._extra.arrays()

    @property
    def version(self) -> Version:
        """The counter of completed calls."""
        version: Version = self._session.version
        return version

    def _run_on_drawn(self, draws: _Draws, arrays: Sequence[object]) -> list[Any]:
        """The results for inputs, with the random arrays that follow; no other thread draws these meanwhile."""
        results: list[Any] = []
        with holding(draws.storage):
            drawn = draws.take()
            draws.values.count(draws.storage, lambda: results.extend(self._session.run([*arrays, *drawn])), self.count)
        return results


def _without_host_calls(graph: Graph) -> Graph:
    """The graph; raises GraphValueError, with the line, where it calls Python for a result, as no loop can."""
    for node in calls_for_results(graph):
        name = node.attrs.get("function", node.primitive.name)
        text = f"A step that calls Python ({name}) cannot run many times in one call"
        raise GraphValueError(f"{text}; call the step itself.", node.loc)
    return graph


def host_random_nodes(graph: Graph) -> list[Node]:
    """The nodes of a graph, those in regions included, whose values the host draws for each step."""
    return [node for node in walk(graph) if node.primitive.on_host]


def repeated(graph: Graph, count: int) -> Graph:
    """A graph that runs another one `count` times, over its inputs and then its random arrays, stacked.

    States that are written are carried from each iteration to the next.
    """
    names = Names.of(graph)
    drawn = [node.output for node in host_random_nodes(graph)]
    carried = [Value(names.fresh(w.state.name), w.state.type) for w in graph.writes]
    elements = [Value(names.fresh(v.name), v.type) for v in graph.inputs]
    own = dict(zip((*(w.state for w in graph.writes), *graph.inputs), (*carried, *elements), strict=True))
    nodes = tuple(substitute(node, own) for node in filtered(graph.nodes, lambda node: not node.primitive.on_host))
    yields = tuple(own.get(v, v) for v in (*(w.value for w in graph.writes), *graph.outputs))
    region = Graph("region", (*carried, *elements, *drawn), (), nodes, (), yields)
    stacks = [Value(v.name, _stacked(v.type, count), sharding=_stacked_sharding(v)) for v in graph.inputs]
    stacks += [Value(names.fresh(v.name), _stacked(v.type, count)) for v in drawn]
    builder = Builder(names)
    attrs = {"carries": len(carried), "length": count}
    operands = (*(w.state for w in graph.writes), *stacks)
    results = builder.emit("scan", operands, attrs, regions=(region,))
    writes = tuple(Write(w.state, value) for w, value in zip(graph.writes, results, strict=False))
    outputs = results[len(carried) :]
    return graph.replace(inputs=tuple(stacks), nodes=tuple(builder.nodes), writes=writes, outputs=outputs)


def _stacked_sharding(value: Value) -> Sharding | None:
    return None if value.sharding is None else Sharding(((), *value.sharding.axes))


def _stacked(type: Type, count: int) -> Type:
    return type.with_shape((count, *type.shape))


class _Draws:
    """The random arrays of many steps, stacked; those of the next steps are drawn while these run."""

    def __init__(self, graph: Graph, nodes: Sequence[Node], count: int, parameters: Mapping[str, Parameter]) -> None:
        self.values = HostValues(graph, nodes)
        if self.values.growth is None:
            raise GraphValueError(
                "These steps cannot run in one call, because the step sets the random state to something of its own.",
            )
        self.count = count
        self.storage: Storage = parameters[nodes[0].inputs[0].name].storage
        self.ahead: tuple[tuple[int, ...], Task[list[Array]]] | None = None
        renew_after_fork(self)

    def renew(self) -> None:
        """In a forked process, wait for nothing that was begun in the background of the first."""
        self.ahead = None

    def take(self) -> list[Array]:
        """The arrays for the coming steps."""
        state = known(self.storage)
        begun, arrays = self.ahead or (None, None)
        drawn = arrays.result() if arrays is not None and begun == state else self.compute(state)
        following = self.state_after(state, self.count)
        self.ahead = following, AHEAD.do(self.compute, following)
        return drawn

    def state_after(self, state: Sequence[int], steps: int) -> tuple[int, ...]:
        """The random state some steps later."""
        return self.values.after(state, steps) or ()

    def compute(self, state: Sequence[int]) -> list[Array]:
        """The arrays of each random node for `count` steps from a random state on."""
        rows = [self.values.compute(*self.state_after(state, i)) for i in range(self.count)]
        return [np.stack(column) for column in zip(*rows, strict=True)]
