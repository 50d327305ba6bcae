"""Errors for failures of CUDA, with what to do."""

from __future__ import annotations

import re

from graphls.base.errors import GraphlsError, GraphMemoryError, GraphRuntimeError

_MEMORY = "out of memory|[Ff]ailed to allocate|ALLOC_FAILED|smaller than requested bytes|CUDA failure 2:"
_ASKED = re.compile(r"requested buffer of size (\d+)|requested bytes of (\d+)")
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
    """The error for what the runtime says of a GPU; None where it says nothing of one.

    `graph` tells that the step was to be recorded as a CUDA graph.
    """
    reason = text.split("\n")[0]
    if re.search(_MEMORY, text):
        return GraphMemoryError(f"The memory of the GPU does not hold this step{_asked(text)}; {_LESS_MEMORY}.")
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


def _asked(text: str) -> str:
    found = _ASKED.search(text)
    return f" (it asks for {int(found[1] or found[2]):,} bytes more)" if found else ""
