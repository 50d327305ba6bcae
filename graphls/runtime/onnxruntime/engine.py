"""The ONNX Runtime engine: takes every node but calls of Python functions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphls.ir.graph import Node
from graphls.ir.plan import Segment

if TYPE_CHECKING:
    from graphls.runtime.engine import Part, PlanContext, ProfiledPart


class OnnxRuntime:
    """Runs segments in sessions of ONNX Runtime, on a CPU or a GPU."""

    name = "onnxruntime"
    runs_python = False
    writes_in_place = True

    def takes(self, node: Node) -> bool:
        """Takes all nodes but calls of Python functions."""
        return not node.primitive.calls_python

    def check(self, device: Any) -> None:
        """Raise GraphRuntimeError where the runtime, the device or one of its libraries is missing."""
        from graphls.runtime.onnxruntime.runtime import check_device

        check_device(device)

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
