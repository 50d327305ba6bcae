"""`python -m graphls doctor`: installed versions, a test of float16, and the requirements of a step on a GPU."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import graphls.primitives  # noqa: F401  registers what the text names
from graphls.base.errors import GraphlsError
from graphls.base.sharing.storage import Storage
from graphls.base.text.plain import shown
from graphls.ir.engines import candidates
from graphls.ir.parse import parse
from graphls.runtime.devices import PROVIDERS
from graphls.runtime.engine_choice import choices, remembered_choices
from graphls.runtime.onednn.library import library
from graphls.runtime.onnxruntime.cuda_libraries import (
    EXTRA,
    FOR_CUDA_12,
    OLDEST_CARDS,
    Driver,
    cuda_version,
    driver_command,
    find_driver,
    is_linked,
    libraries_of,
    library_command,
    missing_libraries,
    provider_fault,
)
from graphls.runtime.onnxruntime.runtime import (
    PACKAGES,
    check_device,
    check_provider,
    conflict,
    load_runtime,
    package_version,
)
from graphls.runtime.states import Copied

MOST_CHOICES = 20
"""The most choices of engines that the report lists, the latest ones."""

XLA_PACKAGES = ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin")

_PRODUCT = """
graph @product(%x: f16[1], %y: f16[1]) {
  %large = mul(%x, %x) : f16[1]
  %scaled = mul(%large, %y) : f16[1]
  return %scaled
}
"""


def examine(device: str = "") -> int:
    """Print a report on this installation; returns 0 if a step can run correctly, else 1.

    For the device "cuda" it lists what a step on a GPU needs, and which parts are missing.
    """
    print(f"{'python':26} {platform.python_version()} ({platform.machine()})")
    for package in ("graphls", "numpy", "onnx", "networkx", "ml_dtypes"):
        print(f"{package:26} {package_version(package) or 'not installed'}")
    for name in filter(package_version, PACKAGES):
        print(f"{name:26} {package_version(name)}")
    print(f"{'oneDNN':26} {_onednn()}")
    print(f"{'XLA':26} {_xla()}")
    for text in _auto():
        print(f"{'engine auto':26} {text}")
    if text := conflict():
        print(text)
    if device == "cuda":
        return int(not (examine_cuda() and not text))
    return int(not (_runtime_works() and not text))


def _onednn() -> str:
    """The version of oneDNN, its instruction set and its path."""
    try:
        loaded = library()
    except GraphlsError:
        return "not installed"
    return f"{loaded.title}, {loaded.path}"


def _xla() -> str:
    """The packages of JAX, which bring XLA and its plugins for devices; importing them would take a second."""
    versions = {name: package_version(name) for name in XLA_PACKAGES}
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version) or "not installed"


def _auto() -> Iterator[str]:
    """The engines that "auto" chooses from, and the latest of the choices that are written in its folder."""
    yield f"chooses from {', '.join(candidates())}"
    remembered = remembered_choices()
    if remembered and (cache := choices()):
        yield f"its choices are in {cache.folder}"
    for choice in sorted(remembered, key=lambda choice: (choice.date, choice.step))[-MOST_CHOICES:]:
        yield f"{shown(choice.step)}: {choice.engine}, {choice.explanation}"


def _runtime_works() -> bool:
    try:
        runtime = load_runtime()
    except GraphlsError as error:
        print(error)
        return False
    available = runtime.get_available_providers()
    print(f"{'providers':26} {', '.join(available)}")
    tests = [_self_test(runtime, device, name) for device, name in PROVIDERS.items() if name in available]
    return all(tests)


def _self_test(runtime: object, device: str, provider: str) -> bool:
    """300 * 300 is beyond float16, so that 300 * 300 * 0.01 must be an infinity, not 900."""
    try:
        fault = _fault(runtime, device, provider)
    except Exception as error:
        fault = str(error).strip().splitlines()[0]
    print(f"{'float16 on ' + device:26} {f'FAIL: {fault}' if fault else 'pass'}")
    return not fault


def _fault(runtime: Any, device: str, provider: str) -> str:
    from graphls.runtime.lowering import lower

    lowered = lower(parse(_PRODUCT), device=device)
    check_device(device)
    session = runtime.InferenceSession(lowered.model.SerializeToString(), providers=[provider])
    check_provider(session, device)
    arrays = (np.array([300.0], np.float16), np.array([0.01], np.float16))
    (result,) = session.run(None, dict(zip(lowered.inputs, arrays, strict=True)))
    return "" if np.isposinf(result[0]) else f"300 * 300 * 0.01 gives {result[0]} and must give inf"


NEWEST = 13 if sys.version_info >= (3, 11) else 12
"""The version of CUDA of the newest runtime for this Python, which is suggested where none is installed."""

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
    """Print which requirements of steps on a GPU are met and which are not; returns whether a small step runs."""
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
    """The requirements, met or missing, in the order of installation, each missing one with a command."""
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
    is_complete = runtime is not None and not driver.fault and not any(is_linked(name, cuda) for name in missing)
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
    """Compares driver and cards with the runtime's version of CUDA."""
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
    """Runs a small step on the GPU; returns whether its results are right."""
    start = time.perf_counter()
    try:
        fault = _fault_of_step()
    except Exception as error:
        fault = str(error).strip().splitlines()[0]
    seconds = time.perf_counter() - start
    print(f"{'a small step':26} {f'FAIL: {fault}' if fault else f'pass, in {seconds:.1f} s with its compilation'}")
    return not fault


def _fault_of_step() -> str:
    from graphls.runtime.onnxruntime.session import OrtSession

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
