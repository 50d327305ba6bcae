"""Loads the module `onnxruntime`, and checks its version, its packages and that a device is available."""

from __future__ import annotations

import ctypes
import os
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from graphls.base.errors import GraphRuntimeError
from graphls.base.reporting import load_package, warn
from graphls.base.sharing.forks import call_after_fork
from graphls.runtime.devices import PROVIDERS, Cuda, kind_of
from graphls.runtime.onnxruntime.cuda_libraries import fault_of_installation

OLDEST = (1, 18)
"""The oldest supported version."""

INSTALL = 'pip install "graphls[cpu]" (or "graphls[cuda]" for an NVIDIA GPU)'
PACKAGES = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-training-cpu",
    "onnxruntime-training",
    "onnxruntime-openvino",
)
"""Packages that all install the module `onnxruntime`, so that only one of them may be installed."""


def load_runtime() -> Any:
    """The onnxruntime module; raises GraphRuntimeError that names the extra to install, or the version needed."""
    onnxruntime = load_package("onnxruntime", "ONNX Runtime", INSTALL)
    _warn_of_conflict()
    _let_children_end()
    version_text = getattr(onnxruntime, "__version__", None)
    if version_text is None:  # the remains of two packages of which one was uninstalled
        text = "The package of ONNX Runtime is damaged: a part of it is not installed"
        raise GraphRuntimeError(f"{text}; uninstall {_installed_text()}, then run {INSTALL}.")
    if tuple(int(n) for n in re.findall(r"\d+", version_text)[:2]) < OLDEST:
        reason = f"is too old: graphls needs {'.'.join(map(str, OLDEST))} or newer"
        raise GraphRuntimeError(f"ONNX Runtime {version_text} {reason}; run {INSTALL}.")
    return onnxruntime


def package_version(package: str) -> str | None:
    """The version of a package, or None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def installed_version() -> str | None:
    """The version of the installed ONNX Runtime, or None; imports nothing."""
    return next(filter(None, map(package_version, PACKAGES)), None)


def conflict() -> str:
    """A sentence on several installed packages of ONNX Runtime, with the remedy; empty where there is at most one."""
    installed = [name for name in PACKAGES if package_version(name)]
    if len(installed) < 2:
        return ""
    text = f"{' and '.join(installed)} are installed and overwrite each other"
    return f"{text}; run pip uninstall {' '.join(installed)}, then {INSTALL}."


def _installed_text() -> str:
    return " and ".join(filter(package_version, PACKAGES)) or "it"


@cache
def _warn_of_conflict() -> None:
    if text := conflict():
        warn(text)


@cache
def _let_children_end() -> None:
    """Let a forked process exit as soon as Python has ended there and the buffers of C are flushed.

    The exit handlers of ONNX Runtime 1.31 would wait for ever, for threads of the parent process.
    """
    library: Any = ctypes.CDLL(None) if hasattr(os, "register_at_fork") else None
    if not hasattr(library, "on_exit"):  # which is glibc's
        return

    @call_after_fork
    def end_early() -> None:
        # The last function that is registered is called first; `_exit` gets the exit code from `on_exit`.
        library.on_exit(library._exit, None)
        library["__cxa_atexit"](library.fflush, None, None)


def check_device(device: str | Cuda) -> None:
    """Raise GraphValueError for an unknown device, GraphRuntimeError for one that is missing or lacks a library."""
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
