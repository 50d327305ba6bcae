"""What a step on a GPU needs, in the order in which it is missing, each with the command that brings it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import graphls.primitives  # noqa: F401  registers what the text names
from graphls.base.errors import GraphlsError
from graphls.base.sharing.storage import Storage
from graphls.ir.parse import parse
from graphls.runtime.devices import PROVIDERS
from graphls.runtime.onnxruntime.cuda_libraries import (
    EXTRA,
    FOR_CUDA_12,
    OLDEST_CARDS,
    Driver,
    cuda_version,
    driver_command,
    find_driver,
    is_needed,
    libraries_of,
    library_command,
    missing_libraries,
    provider_fault,
)
from graphls.runtime.onnxruntime.runtime import PACKAGES, load_runtime, package_version
from graphls.runtime.states import Copied

NEWEST = 13 if sys.version_info >= (3, 11) else 12
"""The version of CUDA of the newest runtime for this Python, which is asked for where none is installed."""

_STEP = """
graph @step(%x: f32[1,2,4,4], %h: f16[1]) {
  state @w: f32[2,2]
  %f = constant() {value=array(f32[2,2,1,1], [1.0, 2.0, 3.0, 4.0])} : f32[2,2,1,1]
  %c = convolution(%x, %f) {strides=[1, 1], pads=[0, 0, 0, 0], dilations=[1, 1], groups=1} : f32[1,2,4,4]
  %p = matmul(@w, @w) : f32[2,2]
  %q = mul(%h, %h) : f16[1]
  @w <- %p
  return %c, %q
}
"""
"""A convolution, a product, a state that is written, and 300 * 300 in float16, which is an infinity."""


def examine_cuda() -> bool:
    """Print what is there for steps on a GPU and what is not; whether a small step runs."""
    driver, runtime = find_driver(), _runtime()
    version = cuda_version(runtime) if runtime is not None else ()
    faults = 0
    for what, text, is_fault in _findings(driver, runtime, version or (NEWEST,)):
        print(f"{what:26} {'FAIL: ' if is_fault else ''}{text}")
        faults += is_fault
    if faults:
        print(f"{'a small step':26} not run")
        return False
    return _run_step()


def _runtime() -> Any:
    try:
        return load_runtime()
    except GraphlsError:
        return None


Finding = tuple[str, str, bool]


def _findings(driver: Driver, runtime: object, version: tuple[int, ...]) -> Iterator[Finding]:
    """What is there, and what is missing, in the order in which it is to be installed."""
    cuda = version[0]
    if driver.fault:
        yield "driver", f"{driver.fault}; {driver_command(version)}", True
    else:
        yield "driver", f"for CUDA {_text(driver.cuda)}", False
    for number, card in enumerate(driver.cards):
        yield f"GPU {number}", f"{card.name}, {card.memory / 2**30:.0f} GiB, capability {_text(card.capability)}", False
    yield _package(runtime, version)
    missing = missing_libraries(cuda)
    for name in libraries_of(cuda):
        text = f"missing; run {library_command(cuda, [name])}" if name in missing else "there"
        yield _role(name), f"{name} {text}", name in missing
    yield from _matches(driver, cuda)
    is_complete = runtime is not None and not driver.fault and not any(is_needed(name, cuda) for name in missing)
    if is_complete and (fault := provider_fault(runtime)):
        yield "provider", f"{fault}; run pip install --force-reinstall {EXTRA.removeprefix('pip install ')}", True


def _package(runtime: Any, version: tuple[int, ...]) -> Finding:
    """The runtime, and whether it has CUDA."""
    if runtime is None:
        return "runtime", f"ONNX Runtime is not installed; run {EXTRA}", True
    package = next(filter(package_version, PACKAGES), "onnxruntime")
    name = f"{package} {runtime.__version__}"
    if PROVIDERS["cuda"] not in runtime.get_available_providers():
        return "runtime", f"{name} has no CUDA; run pip uninstall --yes {package} && {EXTRA}", True
    return "runtime", f"{name} for CUDA {_text(version)}", False


def _role(library: str) -> str:
    return "cuDNN" if "cudnn" in library else "library of CUDA"


def _matches(driver: Driver, cuda: int) -> Iterator[Finding]:
    """Whether driver and cards are new enough for the runtime's version of CUDA."""
    other = "" if cuda < 13 else f", or run {FOR_CUDA_12}, which is for CUDA 12"
    if not driver.fault:
        text = f"the driver knows CUDA {_text(driver.cuda)}, the runtime needs {cuda}"
        too_old = driver.cuda < (cuda,)
        yield "versions", f"{text}; {driver_command((cuda,))}{other}" if too_old else text, too_old
    oldest = OLDEST_CARDS.get(cuda, (0, 0))
    for number, card in enumerate(driver.cards):
        if card.capability < oldest:
            text = f"{card.name} has capability {_text(card.capability)}, CUDA {cuda} needs {_text(oldest)}"
            yield f"GPU {number}", f"{text}; take another card{other}", True


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _run_step() -> bool:
    """Whether a small step gives on the GPU what it must."""
    start = time.perf_counter()
    try:
        fault = _fault_of_step()
    except Exception as error:
        fault = str(error).strip().splitlines()[0]
    seconds = time.perf_counter() - start
    print(f"{'a small step':26} {f'FAIL: {fault}' if fault else f'pass, in {seconds:.1f} s with its compilation'}")
    return not fault


def _fault_of_step() -> str:
    from graphls.runtime.onnxruntime.ort import OrtSession

    state = Copied(Storage(np.array([[1, 1], [0, 1]], np.float32)))
    session = OrtSession(parse(_STEP), {"w": state}, "cuda")
    x = np.ones((1, 2, 4, 4), np.float32)
    for _ in range(3):
        sums, product = (y.numpy() for y in session.run([x, np.array([300], np.float16)]))
    if sums.tolist() != [[[[3.0] * 4] * 4, [[7.0] * 4] * 4]]:
        return "a convolution gives wrong numbers"
    if state.storage.read().tolist() != [[1, 8], [0, 1]]:
        return "a product that a state keeps gives wrong numbers"
    return "" if np.isposinf(product[0]) else f"300 * 300 in float16 gives {product[0]} and must give inf"
