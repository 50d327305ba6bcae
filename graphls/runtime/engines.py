"""The built-in engines: the nodes that each takes, and how it opens a segment; importing this module registers them.

The parts that run segments are loaded when they are opened, since they load the runtimes.
"""

from __future__ import annotations

from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.ir.engines import register_engine
from graphls.ir.graph import Node
from graphls.ir.plan import Segment
from graphls.runtime.onednn.engine import Onednn
from graphls.runtime.xla.engine import Xla

if TYPE_CHECKING:
    from graphls.runtime.engine import Part, PlanContext, ProfiledPart


class OnnxRuntime:
    """Runs segments in sessions of ONNX Runtime, on a CPU or a GPU."""

    name = "onnxruntime"
    runs_python = False
    writes_in_place = True
    runs_whole = False

    def takes(self, node: Node) -> bool:
        """Takes all nodes but calls of Python functions."""
        return not node.primitive.calls_python

    def check(self, device: Any) -> None:
        """Raise GraphRuntimeError where the runtime, the device or one of its libraries is missing."""
        from graphls.runtime.onnxruntime.runtime import check_device

        check_device(device)

    def version(self) -> str:
        """The version of the runtime; "" where there is none that works."""
        from graphls.runtime.onnxruntime.runtime import load_runtime

        try:
            return str(load_runtime().__version__)
        except GraphRuntimeError:
            return ""

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """A session of a segment."""
        from graphls.runtime.onnxruntime.part import OrtPart

        return OrtPart(segment, context)

    def profiled(self, segment: Segment, context: PlanContext, folder: Path) -> ProfiledPart:
        """A session of a segment under the profiler of the runtime."""
        from graphls.runtime.onnxruntime.profiled import ProfiledOrtPart

        return ProfiledOrtPart(segment, context, folder)

    def title(self, device: str) -> str:
        """The runtime with its version, and the device."""
        from graphls.runtime.onnxruntime.runtime import load_runtime

        return f"ONNX Runtime {load_runtime().__version__} on {device}"


class Numpy:
    """Runs segments node by node with NumPy, which needs no runtime and is slow."""

    name = "numpy"
    runs_python = True
    writes_in_place = False
    runs_whole = False

    def takes(self, node: Node) -> bool:
        """Takes all nodes but calls of Python functions."""
        return not node.primitive.calls_python

    def check(self, device: object) -> None:
        """Raises nothing, as NumPy is always available."""

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """A segment in the interpreter."""
        from graphls.runtime.numpy.part import InterpretedPart

        return InterpretedPart(segment, context)

    def profiled(self, segment: Segment, context: PlanContext, folder: Path) -> ProfiledPart:
        """A segment in the interpreter whose nodes are timed one by one."""
        from graphls.runtime.numpy.part import TimedPart

        return TimedPart(segment, context)

    def title(self, device: str) -> str:
        """NumPy with its version."""
        return f"NumPy {np.__version__}"


class Host:
    """Runs the nodes that call Python, such as `ops.Print`."""

    name = "host"
    runs_python = True
    writes_in_place = False
    runs_whole = False

    def takes(self, node: Node) -> bool:
        """Takes calls of Python functions alone."""
        return node.primitive.calls_python

    def check(self, device: object) -> None:
        """Raises nothing, as Python is always available."""

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """A segment that calls its functions with arrays."""
        from graphls.runtime.host import HostPart

        return HostPart(segment, context)

    def profiled(self, segment: Segment, context: PlanContext, folder: Path) -> ProfiledPart:
        """A segment whose calls are timed one by one."""
        from graphls.runtime.host import TimedHostPart

        return TimedHostPart(segment, context)

    def title(self, device: str) -> str:
        """Python with its version."""
        return f"Python {python_version()}"


class Ranks:
    """Gathers shards into the buffers of the states, without Python code, so that the step stays atomic.

    The other collectives, whose results the step computes with, run on the host.
    """

    name = "ranks"
    runs_python = False
    writes_in_place = True
    runs_whole = False

    def takes(self, node: Node) -> bool:
        """Takes `gather_shards` alone."""
        return node.primitive.name == "gather_shards"

    def check(self, device: object) -> None:
        """Raises nothing, as only steps of several ranks have such nodes."""

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """A segment that gathers shards."""
        from graphls.runtime.ranks import RanksPart

        return RanksPart(segment, context)


for engine in (OnnxRuntime(), Onednn(), Xla(), Numpy(), Host(), Ranks()):
    register_engine(engine)
