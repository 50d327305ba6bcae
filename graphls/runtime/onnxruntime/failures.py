"""Errors of a failed step, those of CUDA included, and the states that it may have half written."""

from __future__ import annotations

import re
from collections.abc import Mapping

from graphls.base.errors import GraphlsError, GraphMemoryError, GraphRuntimeError
from graphls.base.reporting import is_out_of_memory, out_of_memory
from graphls.ir.graph import Graph, Node, inside
from graphls.ir.reachability import dependents
from graphls.runtime.onnxruntime.guard import first_line


def dependent_states(graph: Graph, node: Node) -> set[str]:
    """The states whose new values depend on the results of a node, and so are written after it."""
    top = next((n for n in graph.nodes if any(inner is node for inner in (n, *inside(n)))), None)
    descendants = dependents(graph.nodes, () if top is None else top.outputs)
    return {write.state.name for write in graph.writes if write.value in descendants}


def failure(error: Exception, node: Node | None) -> GraphlsError:
    """The user's error for an error of the runtime, at the line of the operator that failed, where that is known."""
    text, reason = "ONNX Runtime could not run the step", first_line(error)
    if is_out_of_memory(error):
        return out_of_memory() if node is None else out_of_memory().at(node.loc)
    if node is None:
        return GraphRuntimeError(f"{text}: {reason}")
    cell = f" of {node.scope}" if node.scope else ""
    reason = reason.rpartition("Status Message: ")[2].strip().rstrip(".")
    return GraphRuntimeError(f"{text}: {node.primitive.name}{cell}: {reason}.").at(node.loc)


def failed_node(error: Exception, origins: Mapping[str, Node]) -> Node | None:
    """The node whose operator an error of the runtime names."""
    named = re.search(r"Name:'([^']*)'", str(error))
    return origins.get(named[1]) if named else None


_MEMORY = "out of memory|[Ff]ailed to allocate|ALLOC_FAILED|smaller than requested bytes|CUDA failure 2:"
_REQUESTED = re.compile(r"requested buffer of size (\d+)|requested bytes of (\d+)")
_SENTENCES = {
    "CUDA failure 35|driver version is insufficient": "The driver of the GPU is too old for this runtime",
    "CUDA failure 100|no CUDA-capable device": "The driver finds no NVIDIA GPU",
    "CUDA failure 101|invalid device ordinal": "There is no GPU of this number",
    "CUDA failure 209|no kernel image": "This runtime has no code for this GPU",
    "CUDA failure 46|devices are busy or unavailable": "Another process has the GPU for itself",
    r"libcu\w+\.so|CUDNN_STATUS_(SUBLIBRARY|NOT_INIT)": "A library of CUDA or cuDNN is missing or too old",
}
_DEAD = "CUDA failure (4|700|702|710|714|715|716|717|718|719|999)|illegal memory access|unspecified launch failure"


def cuda_failure(text: str, graph: bool = False) -> GraphlsError | None:
    """The user's error, with advice, for the text of an error of a GPU; None for any other text.

    With `graph`, the step was to be recorded as a CUDA graph.
    """
    reason = text.split("\n")[0]
    if re.search(_MEMORY, text):
        return GraphMemoryError(f"The memory of the GPU does not hold this step{_requested(text)}; {_LESS_MEMORY}.")
    if re.search(_DEAD, text):
        return GraphRuntimeError(
            f"A kernel has failed on the GPU, which this process cannot use any more ({reason}); start it again."
        )
    for pattern, sentence in _SENTENCES.items():
        if re.search(pattern, text):
            return GraphRuntimeError(f"{sentence} ({reason}); run graphls doctor --device cuda, which says what to do.")
    if graph and re.search("[Gg]raph capture|CUDA ?[Gg]raph|captur", text):
        return GraphRuntimeError(
            f"This step cannot be recorded as a CUDA graph ({reason}); compile it with graph=False."
        )
    return None


_LESS_MEMORY = "take a smaller batch, compute in float16, or give it a higher memory_limit"


def _requested(text: str) -> str:
    match = _REQUESTED.search(text)
    return f" (it asks for {int(match[1] or match[2]):,} bytes more)" if match else ""
