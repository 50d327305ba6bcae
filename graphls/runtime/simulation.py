"""Simulated scripts: their parameters are abstract, and their first training step is compiled for a mesh, not run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from graphls.base.sharing.arrays import without_values
from graphls.base.sharing.settings import Settings
from graphls.ir.graph import Graph
from graphls.ir.sharding import Mesh
from graphls.runtime.target import ExecutionTarget


class TrainingStep(BaseException):
    """Ends a simulated script where it has compiled a step that writes states; `graph` is that in segments.

    It is no Exception, so that a script which goes on after errors ends, too.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__("A simulated script ends with its first training step.")
        self.graph = graph


@dataclass(frozen=True)
class _Simulation:
    """The mesh and the level of ZeRO of the steps of a script; None for those that it says itself."""

    mesh: Mesh | None
    zero: int | None


_settings = Settings({"simulation": None})


@contextmanager
def simulated(mesh: Mesh | None, zero: int | None) -> Iterator[None]:
    """Simulate what scripts compile in the block, for the engine "xla" and virtual devices of the CPU."""
    with _settings.preserved(), without_values():
        _settings.update({"simulation": _Simulation(mesh, zero)})
        yield


def as_simulated(target: ExecutionTarget, zero: int) -> tuple[ExecutionTarget, int]:
    """The target and the level of ZeRO of a step: what it asks for, or in a simulated script those of that."""
    simulation: _Simulation | None = _settings["simulation"]
    if simulation is None:
        return target, zero
    mesh = target.mesh if simulation.mesh is None else simulation.mesh
    own = ExecutionTarget("onnxruntime", "cpu", "xla", mesh)
    return own, zero if simulation.zero is None else simulation.zero


def end_if_simulated(graph: Graph) -> None:
    """Raise TrainingStep in a simulated script, where a step in segments writes states."""
    if _settings["simulation"] is not None and graph.writes:
        raise TrainingStep(graph)
