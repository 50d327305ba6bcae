"""Finds and loads the shared library of oneDNN: a path that is set, the one of the package, or that of the system."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import local

from graphls.base.errors import GraphRuntimeError
from graphls.base.sharing.forks import call_after_fork

VARIABLE = "GRAPHLS_ONEDNN_LIBRARY"
"""The environment variable with the path of a library, which is then the only one that is tried."""

PACKAGE = "onednn-cpu-gomp"
NAME = "libdnnl.so.3"
INSTALL = 'pip install "graphls[onednn]"'
OLDEST = 3, 2
"""The first version whose interface is all there; it is stable within version 3."""

CPU = 1
OPENMP = "libgomp.so.1"


class _Version(ctypes.Structure):
    """`dnnl_version_t`."""

    _fields_ = (
        ("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int), ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint), ("gpu_runtime", ctypes.c_uint),
    )  # fmt: skip


class _Threads(local):
    """The threads that kernels of this thread compute on: their limit, 0 for none, and their number without one."""

    limit = 0
    unlimited = 0


class Library:
    """oneDNN in this process: its functions `c`, and one engine and one stream of the CPU."""

    def __init__(self, path: str, c: ctypes.CDLL) -> None:
        self.path, self.c = path, c
        self.is_forked, self.threads = False, _Threads()
        c.dnnl_version.restype = ctypes.POINTER(_Version)
        c.dnnl_status2str.restype = c.dnnl_cpu_isa2str.restype = ctypes.c_char_p
        self.version = self._version()
        self.engine, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("start on this processor", c.dnnl_engine_create, ctypes.byref(self.engine), CPU, ctypes.c_size_t(0))
        self.call("make a stream", c.dnnl_stream_create, ctypes.byref(self.stream), self.engine, 1)

    def _version(self) -> tuple[int, int, int]:
        version = self.c.dnnl_version()[0]
        return version.major, version.minor, version.patch

    @property
    def instruction_set(self) -> str:
        """The instructions that kernels are made of, such as "avx512_core_bf16"."""
        text: bytes = self.c.dnnl_cpu_isa2str(self.c.dnnl_get_effective_cpu_isa())
        return text.decode().removeprefix("cpu_isa_")

    @property
    def has_bfloat16(self) -> bool:
        """Whether there are instructions for products of bfloat16, without which kernels for it are slow."""
        return "bf16" in self.instruction_set or "amx" in self.instruction_set

    @property
    def title(self) -> str:
        """The version and the instruction set, such as "3.2.0 (avx512_core_bf16)"."""
        return f"{'.'.join(map(str, self.version))} ({self.instruction_set})"

    def call(self, task: str, function: object, *arguments: object) -> None:
        """Call a function of the library; raises GraphRuntimeError, which names the task, where it fails."""
        status = function(*arguments)  # type: ignore[operator]
        if status:
            raise GraphRuntimeError(f"oneDNN could not {task}: {self.status(status)}.")

    def limit_threads(self, limit: int) -> None:
        """Let kernels compute on no more threads than a limit, 0 for none, and on this one alone in a forked process.

        OpenMP counts threads for each thread of the process, so every one that computes asks.
        """
        limit, own = 1 if self.is_forked else limit, self.threads
        if limit != own.limit:
            openmp = ctypes.CDLL(OPENMP)
            own.unlimited = own.unlimited or openmp.omp_get_max_threads()
            openmp.omp_set_num_threads(min(limit or own.unlimited, own.unlimited))
            own.limit = limit

    def status(self, status: int) -> str:
        """A status in words."""
        text: bytes = self.c.dnnl_status2str(status)
        return text.decode().replace("_", " ")


@call_after_fork
def _limit_threads() -> None:
    """In a forked process GNU's OpenMP would wait for threads that are not there, so kernels get one thread each."""
    if library.cache_info().currsize:
        library().is_forked = True
        library().limit_threads(1)


@cache
def library() -> Library:
    """The library of this process.

    Raises GraphRuntimeError, which says what to install, where there is none, where it is older than 3.2 or of another
    major version, and where it does not run on this processor.
    """
    if sys.platform != "linux":
        raise GraphRuntimeError("The engine 'onednn' runs on Linux; take another engine on this system.")
    for path in _paths():
        try:
            c = ctypes.CDLL(path)
            c.dnnl_primitive_execute, c.dnnl_engine_create  # noqa: B018  which another library would not have
        except (OSError, AttributeError) as error:
            if path == os.environ.get(VARIABLE):
                raise GraphRuntimeError(f"{VARIABLE} names {path!r}, which is not oneDNN: {error}.") from None
            continue
        return _checked(Library(path, c))
    raise GraphRuntimeError(f"oneDNN is not installed; run {INSTALL}, or set {VARIABLE} to a {NAME}.")


def _checked(loaded: Library) -> Library:
    if loaded.version[0] != OLDEST[0] or loaded.version[:2] < OLDEST:
        version = ".".join(map(str, loaded.version))
        text = f"{loaded.path} is oneDNN {version}, and graphls needs one of version 3, from 3.2 on"
        raise GraphRuntimeError(f"{text}; run {INSTALL}, or set {VARIABLE} to a newer {NAME}.")
    return loaded


def _paths() -> Iterator[str]:
    named = os.environ.get(VARIABLE)
    if named:
        yield named
        return
    from importlib import metadata  # which takes long to load

    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == NAME:
            yield str(Path(str(file.locate())).resolve())
    yield NAME
