"""Detection of the NVIDIA driver and of the CUDA and cuDNN libraries."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

EXTRA = 'pip install "graphls[cuda]"'
FOR_CUDA_12 = 'pip install "onnxruntime-gpu[cuda,cudnn]>=1.21,<1.27"'
DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""The oldest driver for Linux by the major version of CUDA, from NVIDIA's release notes."""

OLDEST_CARDS = {11: (3, 5), 12: (5, 0), 13: (7, 5)}
"""The oldest compute capability that a major version of CUDA knows."""

_CAPABILITY = 75, 76
"""The numbers of the two parts of the compute capability for `cuDeviceGetAttribute`."""


@dataclass(frozen=True)
class Card:
    """A GPU: its name, bytes of memory and compute capability."""

    name: str
    memory: int
    capability: tuple[int, int]


@dataclass(frozen=True)
class Driver:
    """The NVIDIA driver: the newest version of CUDA that it supports, its cards, and its `fault`, "" without one."""

    cuda: tuple[int, int] = (0, 0)
    cards: tuple[Card, ...] = ()
    fault: str = ""


def find_driver() -> Driver:
    """The driver of this machine, detected without the runtime."""
    library = _load("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    if isinstance(library, str):
        return Driver(fault="no NVIDIA driver is installed")
    status = library.cuInit(0)
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    cuda = version.value // 1000, version.value % 1000 // 10
    if status:
        text = "the driver finds no NVIDIA GPU" if status == 100 else f"the driver does not start (error {status})"
        return Driver(cuda, fault=text)
    count = ctypes.c_int()
    library.cuDeviceGetCount(ctypes.byref(count))
    return Driver(cuda, tuple(_card(library, number) for number in range(count.value)))


def _card(library: Any, number: int) -> Card:
    name, memory, parts = ctypes.create_string_buffer(256), ctypes.c_size_t(), [ctypes.c_int(), ctypes.c_int()]
    library.cuDeviceGetName(name, len(name), number)
    library.cuDeviceTotalMem_v2(ctypes.byref(memory), number)
    for part, attribute in zip(parts, _CAPABILITY, strict=True):
        library.cuDeviceGetAttribute(ctypes.byref(part), attribute, number)
    return Card(name.value.decode(errors="replace"), memory.value, (parts[0].value, parts[1].value))


def cuda_version(runtime: Any) -> tuple[int, ...]:
    """The version of CUDA that the runtime was built for; empty where it has none."""
    text = str(getattr(runtime, "cuda_version", "") or "")
    return tuple(int(part) for part in text.split(".") if part.isdigit()) or _linked_version(_provider(runtime))


@cache
def _linked_version(provider: Path) -> tuple[int, ...]:
    """The major version of the libraries that the provider is linked with; onnxruntime-training reports no other."""
    if not provider.is_file():
        return ()
    with open(provider, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        match = re.search(rb"libcublas\.so\.(\d+)", data)
        return (int(match[1]),) if match else ()


def _provider(runtime: Any) -> Path:
    return Path(runtime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"


def libraries_of(cuda: int) -> dict[str, str]:
    """The libraries for Linux that a runtime for a major version of CUDA loads, with the packages that have them."""
    suffix = "" if cuda >= 13 else f"-cu{cuda}"
    return {
        f"libcudart.so.{cuda if cuda >= 12 else '11.0'}": f"nvidia-cuda-runtime{suffix}",
        f"libcublasLt.so.{cuda}": f"nvidia-cublas{suffix}",
        f"libcublas.so.{cuda}": f"nvidia-cublas{suffix}",
        "libcurand.so.10": f"nvidia-curand{suffix}",
        f"libcufft.so.{cuda - 1}": f"nvidia-cufft{suffix}",
        f"libnvrtc.so.{cuda if cuda >= 12 else '11.2'}": f"nvidia-cuda-nvrtc{suffix}",
        f"libcudnn.so.{9 if cuda >= 12 else 8}": f"nvidia-cudnn-cu{cuda}",
    }


@cache
def missing_libraries(cuda: int) -> tuple[str, ...]:
    """The libraries that cannot be loaded; loads the others, those in packages of pip first."""
    return tuple(name for name in libraries_of(cuda) if not _loads(name))


def _loads(name: str) -> bool:
    return any(not isinstance(_load(path), str) for path in (*_installed(name), name))


def _installed(name: str) -> Iterator[str]:
    """The paths of a library in installed NVIDIA packages."""
    packages = find_spec("nvidia")
    for folder in (packages.submodule_search_locations or ()) if packages else ():
        yield from map(str, sorted(Path(folder).glob(f"*/lib/{name}")))


def _load(name: str) -> Any:
    """Loads a library, so that libraries loaded later find it by its name; returns it, or the text of the error."""
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        return str(error)


def provider_fault(runtime: Any) -> str:
    """The dynamic linker's error for the provider for CUDA; empty where it can be loaded, or is unknown.

    Must not be called without a driver: then the provider of 1.19 ends the process.
    """
    provider = _provider(runtime)
    if not provider.is_file():
        return ""
    _load(str(provider.with_name("libonnxruntime_providers_shared.so")))
    library = _load(str(provider))
    return library if isinstance(library, str) else ""


@cache
def current_driver() -> Driver:
    """The driver of this machine, detected once."""
    return find_driver()


def fault_of_installation(runtime: Any, number: int = 0) -> str:
    """The first thing that a step on a GPU lacks, as a sentence with the remedy; empty where nothing is missing."""
    if not sys.platform.startswith("linux"):
        return ""
    driver, version = current_driver(), cuda_version(runtime)
    if driver.fault:
        return f"A step on a GPU needs a driver and a card, but {driver.fault}; {driver_command(version)}."
    if driver.cuda < version[:1]:
        have = ".".join(map(str, driver.cuda))
        return f"The driver knows CUDA {have} and this runtime needs CUDA {version[0]}; {driver_command(version)}."
    if number >= len(driver.cards):
        return f"There is no GPU {number}; this machine has {len(driver.cards)}, numbered from 0 on."
    missing = [name for name in missing_libraries(version[0]) if is_linked(name, version[0])] if version else []
    if missing:
        return f"Libraries of CUDA are missing ({', '.join(missing)}); run {library_command(version[0], missing)}."
    fault = provider_fault(runtime)
    return f"The runtime's part for CUDA cannot be loaded ({fault}); see graphls doctor --device cuda." if fault else ""


def is_linked(library: str, cuda: int) -> bool:
    """Whether the provider is linked with a library; others are loaded for some operators, such as convolutions."""
    return "nvrtc" not in library and (cuda < 13 or not library.startswith(("libcudnn", "libcufft")))


def driver_command(version: tuple[int, ...]) -> str:
    """The command that installs a driver for a version of CUDA."""
    cuda = version[0] if version else max(DRIVERS)
    oldest = DRIVERS.get(cuda, DRIVERS[max(DRIVERS)])
    text = f"install NVIDIA's driver {oldest} or newer, on Ubuntu by sudo apt-get install nvidia-driver-580"
    return f"{text}, elsewhere from https://www.nvidia.com/drivers"


def library_command(cuda: int, missing: Iterable[str]) -> str:
    """The command that installs libraries."""
    names = libraries_of(cuda)
    return f"pip install {' '.join(dict.fromkeys(names[name] for name in missing))}"
