"""The Engine interface for running segments of a plan, and the registry of engines by name."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from graphls.base.errors import GraphKeyError, GraphTypeError, GraphValueError
from graphls.ir.graph import Graph, Node
from graphls.ir.plan import Segment
from graphls.ir.registry import nearest
from graphls.ir.sharding import Mesh

AUTO = "auto"
"""The name for the fastest engine of a step, which is chosen when that is compiled."""


class Engine(Protocol):
    """Runs segments: graphs whose inputs and results lie in buffers that the plan gives it."""

    name: str
    """Its name in plans and in `compile`."""

    runs_python: bool
    """Whether it runs Python, where a Ctrl-C or the user's exception may end a step; no state is written before."""

    writes_in_place: bool
    """Whether it can write a state in place, for graphs for which the order pass has proven that."""

    runs_whole: bool
    """Whether it runs graphs of any size as one segment, and conditions in it, so that the host skips nothing."""

    def takes(self, node: Node) -> bool:
        """Whether it runs a node with all nodes of its regions."""

    def check(self, device: Any) -> None:
        """Raise GraphRuntimeError where it is not installed, GraphValueError for a device that it does not support."""

    def open(self, segment: Segment, context: Any) -> Any:
        """The Part that runs a segment on the buffers of a PlanContext; see `graphls.runtime.engine`."""


@runtime_checkable
class Interprets(Protocol):
    """An engine that orders the calls of a segment itself, and lets Python compute some of its nodes.

    What overwrites a state runs behind all that reads the old value, and behind Python, which may check indices.
    """

    def interprets(self, node: Node) -> bool:
        """Whether Python computes a node."""


@runtime_checkable
class Prepares(Protocol):
    """An engine that rewrites the graph of a step before it is cut into segments."""

    def prepared(self, graph: Graph) -> Graph:
        """A graph that computes the same."""


@runtime_checkable
class OnMesh(Protocol):
    """An engine that runs a step on the devices of a mesh."""

    def check_mesh(self, mesh: Mesh, device: Any) -> None:
        """Raise GraphRuntimeError where there are fewer devices of that kind than the mesh has."""


@runtime_checkable
class Candidate(Protocol):
    """An engine that a step with the engine "auto" may get; see `graphls.runtime.engine_choice`."""

    def version(self) -> str:
        """The version that is installed, found without starting the engine; "" where there is none."""


_engines: dict[str, Engine] = {}


def register_engine(engine: Engine) -> None:
    """Register an engine by its name, in place of another of that name."""
    _engines[engine.name] = engine


def find_engine(name: str) -> Engine:
    """The engine of that name; raises GraphKeyError, which lists the registered ones."""
    if name not in _engines:
        known = sorted([*_engines, AUTO])
        raise GraphKeyError(f"There is no engine {name!r}{nearest(name, known)}; there are {', '.join(known)}.")
    return _engines[name]


def check_engine(name: str, device: object) -> None:
    """Raise GraphKeyError for a name that no engine has, and what the engine of that name raises for a device."""
    if name != AUTO:
        find_engine(name).check(device)


def require_mesh(mesh: object) -> Mesh:
    """The mesh; raises GraphTypeError for anything but a Mesh."""
    if not isinstance(mesh, Mesh):
        raise GraphTypeError(f"The mesh of a step is a Mesh, such as graphls.Mesh(data=4), not {mesh!r}.")
    return mesh


def check_mesh(name: str, mesh: Mesh, device: object) -> None:
    """Raise GraphlsError where the engine of that name cannot run a step on a mesh.

    It comes before `check_engine`, as a CPU is divided into devices once.
    """
    engine = None if name == AUTO else find_engine(name)
    if isinstance(engine, OnMesh):
        engine.check_mesh(mesh, device)
    elif mesh.size > 1:
        able = " or ".join(repr(each) for each, other in _engines.items() if isinstance(other, OnMesh))
        text = f"The engine {name!r} runs on one device, and {mesh} has {mesh.size}"
        one = Mesh(**dict.fromkeys(mesh.names, 1))
        raise GraphValueError(f"{text}; use engine={able}, or mesh={one!r} for one device.")


def runs_meshes(name: str) -> bool:
    """Whether the engine of that name runs a step on several devices."""
    return name != AUTO and isinstance(find_engine(name), OnMesh)


def candidates() -> dict[str, str]:
    """The versions of the installed engines of which "auto" chooses one, by their names in order of registration."""
    versions = {name: engine.version() for name, engine in _engines.items() if isinstance(engine, Candidate)}
    return {name: version for name, version in versions.items() if version}


def runs_python(segment: Segment) -> bool:
    """Whether Python runs in a segment."""
    engine = find_engine(segment.engine)
    interprets = isinstance(engine, Interprets) and any(map(engine.interprets, segment.graph.nodes))
    return engine.runs_python or interprets
