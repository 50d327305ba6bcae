"""What is installed, and whether float16 on it is float16."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np

import graphls.primitives  # noqa: F401  registers what the text names
from graphls.base.errors import GraphlsError
from graphls.cli.doctor_cuda import examine_cuda
from graphls.ir.parse import parse
from graphls.runtime.devices import PROVIDERS
from graphls.runtime.onnxruntime.runtime import (
    PACKAGES,
    check_device,
    check_provider,
    conflict,
    load_runtime,
    package_version,
)

_PRODUCT = """
graph @product(%x: f16[1], %y: f16[1]) {
  %large = mul(%x, %x) : f16[1]
  %scaled = mul(%large, %y) : f16[1]
  return %scaled
}
"""


def examine(device: str = "") -> int:
    """Print a report on this installation; returns 0 where a step can run as it must, else 1.

    For the device "cuda" it lists what a step on a GPU needs, and what of it is missing.
    """
    print(f"{'python':26} {platform.python_version()} ({platform.machine()})")
    for package in ("graphls", "numpy", "onnx", "networkx", "ml_dtypes"):
        print(f"{package:26} {package_version(package) or 'not installed'}")
    for name in filter(package_version, PACKAGES):
        print(f"{name:26} {package_version(name)}")
    if text := conflict():
        print(text)
    if device == "cuda":
        return int(not (examine_cuda() and not text))
    return int(not (_runtime_works() and not text))


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
