"""The module `openvino`, its one Core, and the properties that models are compiled with."""

from __future__ import annotations

from functools import cache
from typing import Any

from graphls.ir.errors import GraphRuntimeError
from graphls.sharing.forks import call_after_fork, keep_for_ever

INSTALL = 'pip install "graphls[openvino]"'
EXACT = {
    "INFERENCE_PRECISION_HINT": "f32",  # the precision of each node is what the model says; the default lowers it
    "EXECUTION_MODE_HINT": "ACCURACY",
    "PERFORMANCE_HINT": "LATENCY",  # one step at a time, on all threads
    "ENABLE_CPU_PINNING": False,  # other processes and engines need the cores as well
    "CPU_DENORMALS_OPTIMIZATION": False,
}
"""What every model is compiled with."""


def load_openvino() -> Any:
    """The openvino module; raises GraphRuntimeError that names the extra to install."""
    try:
        import openvino
    except ImportError as error:
        raise GraphRuntimeError(f"OpenVINO is not installed ({error}); run {INSTALL}.") from None
    return openvino


@cache
def core() -> Any:
    """The Core of this process; raises GraphRuntimeError where it cannot be made."""
    try:
        found = load_openvino().Core()
    except RuntimeError as error:
        raise GraphRuntimeError(f"OpenVINO could not be started: {first_line(error)}") from None
    keep_for_ever(found)  # in a forked process, to end it would be to wait for threads that are not there
    return found


call_after_fork(core.cache_clear)


@cache
def has_bfloat16() -> bool:
    """Whether the processor computes products of bfloat16."""
    return "BF16" in core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def first_line(error: Exception) -> str:
    """The line of an error's text that says what is wrong; OpenVINO puts the place in its sources before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("Exception from ", "Check '"))]
    return (told or lines or [type(error).__name__])[0]
