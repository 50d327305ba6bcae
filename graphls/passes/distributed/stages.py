"""The stages pass: says for every node of a forward which stage of a pipeline runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from graphls.base.errors import GraphValueError
from graphls.ir.graph import Graph, Node, Value, needs
from graphls.ir.sharding import STAGE
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import users


@register_pass
@dataclass(frozen=True)
class Stages:
    """Say for every node of a forward which stage of a pipeline runs it, on a mesh with an axis `stage`.

    Before:

        graph @step mesh(stage=2) (%x: f32[4,4]) {
          state @v: f32[4,4]
          state @w: f32[4,4]
          %h = matmul(%x, @v) : f32[4,4]  // forward first stage 0
          %a = relu(%h) : f32[4,4]  // forward
          %y = matmul(%a, @w) : f32[4,4]  // forward second stage 1
          %loss = sum(%y) {axis=none, keepdims=false} : f32[]  // forward
          return %loss
        }

    After:

        graph @step mesh(stage=2) (%x: f32[4,4]) {
          state @v: f32[4,4]
          state @w: f32[4,4]
          %h = matmul(%x, @v) : f32[4,4]  // forward first stage 0
          %a = relu(%h) : f32[4,4]  // forward stage 0
          %y = matmul(%a, @w) : f32[4,4]  // forward second stage 1
          %loss = sum(%y) {axis=none, keepdims=false} : f32[]  // forward stage 1
          return %loss
        }

    A node outside of all cells with a `pipeline_stage` runs in the last stage that it reads a result of, or in the
    first one that reads its result where it reads none. It comes before the gradient pass, which gives nodes of the
    backward the stage of their forward. A graph whose mesh has one stage stays as it is.

    Raises GraphValueError, with the line, for a stage that the mesh does not have, for a cell that reads results of a
    later stage, and for a training step in which no cell has a stage; other graphs without any run in the first one.
    """

    name = "stages"

    def run(self, graph: Graph) -> Graph:
        """The graph with the stages of its forward."""
        if graph.mesh is None or graph.mesh.stages == 1:
            return graph
        _check(graph, graph.mesh.stages)
        forward = [node for node in graph.nodes if node.phase == "forward" and not node.primitive.is_constant]
        stages = _of_operands(forward)
        _of_readers(forward, stages)
        return graph.replace(nodes=tuple(replace(n, stage=stages[n]) if n in stages else n for n in graph.nodes))


def _check(graph: Graph, count: int) -> None:
    stated = [node for node in graph.nodes if node.stage is not None]
    if not stated and any(node.phase == "backward" for node in graph.nodes):
        text = f"The mesh has {count} stages of a pipeline, and no cell says in which one it runs"
        raise GraphValueError(f"{text}; set its pipeline_stage, such as net.head.pipeline_stage = {count - 1}.")
    for node in stated:
        if node.stage is not None and node.stage >= count:
            text = f"The cell {node.scope!r} has pipeline_stage {node.stage}, and the mesh has {count} stages"
            raise GraphValueError(f"{text}, numbered from 0; use a mesh with {STAGE}={node.stage + 1}.", node.loc)


def _of_operands(nodes: Iterable[Node]) -> dict[Node, int]:
    """The stages of nodes that have one, or that read a result of one."""
    stages: dict[Node, int] = {}
    definer: dict[Value, Node] = {}
    for node in nodes:
        definer.update(dict.fromkeys(node.outputs, node))
        read = [stages[definer[v]] for v in needs(node) if v in definer and definer[v] in stages]
        latest = max(read, default=None)
        if node.stage is not None and latest is not None and latest > node.stage:
            text = f"The cell {node.scope!r} runs in stage {node.stage} and reads a result of stage {latest}"
            raise GraphValueError(f"{text}; what reads a result runs in its stage or in a later one.", node.loc)
        stage = latest if node.stage is None else node.stage
        if stage is not None:
            stages[node] = stage
    return stages


def _of_readers(nodes: list[Node], stages: dict[Node, int]) -> None:
    """Add the stages of nodes that only read inputs and states: the first one that reads a result of them."""
    readers: Mapping[Value, list[Node]] = users(nodes)
    for node in reversed(nodes):
        if node not in stages:
            later = [stages[reader] for v in node.outputs for reader in readers.get(v, ()) if reader in stages]
            if later:
                stages[node] = min(later)
