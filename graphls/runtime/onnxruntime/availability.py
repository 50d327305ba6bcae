"""Checks that a device and the libraries of its provider are available."""

from __future__ import annotations

from typing import Any

from graphls.base.errors import GraphRuntimeError
from graphls.runtime.devices import PROVIDERS, Cuda, kind_of
from graphls.runtime.onnxruntime.cuda_libraries import fault_of_installation
from graphls.runtime.onnxruntime.runtime import load_runtime


def check_device(device: str | Cuda) -> None:
    """Raise GraphValueError for an unknown device, GraphRuntimeError for one that is not there or lacks something."""
    provider = PROVIDERS[kind_of(device)]
    runtime = load_runtime()
    available = runtime.get_available_providers()
    if provider not in available:
        raise GraphRuntimeError(
            f"This ONNX Runtime has no {provider} (it has {', '.join(available)}); "
            'uninstall it and run pip install "graphls[cuda]", with an NVIDIA driver.'
        )
    if device != "cpu":
        fault = fault_of_installation(runtime, device.id if isinstance(device, Cuda) else 0)
        if fault:
            raise GraphRuntimeError(fault)


def check_provider(session: Any, device: str) -> None:
    """Raise GraphRuntimeError where a session runs on the CPU because its own provider could not be loaded."""
    if PROVIDERS[device] not in session.get_providers():
        raise GraphRuntimeError(
            f"{PROVIDERS[device]} could not be loaded: an NVIDIA driver or the CUDA libraries are missing, "
            "which graphls doctor tells more about."
        )
