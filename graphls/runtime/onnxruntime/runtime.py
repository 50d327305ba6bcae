"""Loads the module `onnxruntime` and checks its version and its packages."""

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

OLDEST = (1, 18)
"""The oldest version that is taken."""

INSTALL = 'pip install "graphls[cpu]" (or "graphls[cuda]" for an NVIDIA GPU)'
PACKAGES = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-training-cpu",
    "onnxruntime-training",
    "onnxruntime-openvino",
)
"""They all install a module of one name, so that only one of them can be there."""


def load_runtime() -> Any:
    """The onnxruntime module; raises GraphRuntimeError that names the extra to install, or the version needed."""
    onnxruntime = load_package("onnxruntime", "ONNX Runtime", INSTALL)
    _warn_of_several()
    _let_children_end()
    found = getattr(onnxruntime, "__version__", None)
    if found is None:  # what is left of two packages when one of them was uninstalled
        text = "The package of ONNX Runtime is damaged: a part of it is not installed"
        raise GraphRuntimeError(f"{text}; uninstall {_installed_text()}, then run {INSTALL}.")
    if tuple(int(n) for n in re.findall(r"\d+", found)[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise GraphRuntimeError(f"ONNX Runtime {found} is too old: graphls needs {oldest} or newer; run {INSTALL}.")
    return onnxruntime


def package_version(package: str) -> str | None:
    """The version of a package, or None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def installed_version() -> str | None:
    """The version of the ONNX Runtime that is installed, or None; nothing is imported for that."""
    return next(filter(None, map(package_version, PACKAGES)), None)


def conflict() -> str:
    """The conflict of several installed packages of ONNX Runtime, with what to do; else an empty text."""
    found = [name for name in PACKAGES if package_version(name)]
    if len(found) < 2:
        return ""
    text = f"{' and '.join(found)} are installed and overwrite each other"
    return f"{text}; run pip uninstall {' '.join(found)}, then {INSTALL}."


def _installed_text() -> str:
    return " and ".join(filter(package_version, PACKAGES)) or "it"


@cache
def _warn_of_several() -> None:
    if text := conflict():
        warn(text)


@cache
def _let_children_end() -> None:
    """Let a forked process end as soon as Python has ended there, and what C has buffered is written.

    What ONNX Runtime 1.31 registers for the end of a process would wait for threads of the first process for ever.
    """
    library: Any = ctypes.CDLL(None) if hasattr(os, "register_at_fork") else None
    if not hasattr(library, "on_exit"):  # which is glibc's
        return

    @call_after_fork
    def end_early() -> None:
        # The last function that is registered is called first; `_exit` gets the exit code from `on_exit`.
        library.on_exit(library._exit, None)
        library["__cxa_atexit"](library.fflush, None, None)
