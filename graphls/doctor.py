"""What is installed, and whether float16 on it is float16."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from graphls.ir.errors import GraphlsError
from graphls.ir.parse import parse

RUNTIMES = (
    "onnxruntime-training-cpu",
    "onnxruntime-training",
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-openvino",
)

_PRODUCT = """
graph @product(%x: f16[1], %y: f16[1]) {
  %large = mul(%x, %x) : f16[1]
  %scaled = mul(%large, %y) : f16[1]
  return %scaled
}
"""


def examine() -> int:
    """Print a report on this installation; returns 0 where a step can run as it must, else 1."""
    print(f"{'python':26} {platform.python_version()} ({platform.machine()})")
    for package in ("graphls", "numpy", "onnx", "networkx", "ml_dtypes"):
        print(f"{package:26} {_version(package) or 'not installed'}")
    found = [name for name in RUNTIMES if _version(name)]
    for name in found:
        print(f"{name:26} {_version(name)}")
    if len(found) > 1:
        print(f"These packages overwrite each other: {', '.join(found)}; uninstall them all, then install one.")
    return int(not (_runtime_works() and len(found) < 2))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _runtime_works() -> bool:
    from graphls.backends.ort import PROVIDERS, load_runtime

    try:
        runtime = load_runtime()
    except GraphlsError as error:
        print(error)
        return False
    available = runtime.get_available_providers()
    print(f"{'providers':26} {', '.join(available)}")
    tests = [_self_test(runtime, device, name) for device, name in PROVIDERS.items() if name in available]
    return all(tests)


def _self_test(runtime: Any, device: str, provider: str) -> bool:
    """300 * 300 is beyond float16, so that 300 * 300 * 0.01 must be an infinity, not 900."""
    try:
        fault = _fault(runtime, device, provider)
    except Exception as error:
        fault = str(error).strip().splitlines()[0]
    print(f"{'float16 on ' + device:26} {f'FAIL: {fault}' if fault else 'pass'}")
    return not fault


def _fault(runtime: Any, device: str, provider: str) -> str:
    import graphls.primitives  # noqa: F401  registers what the text names
    from graphls.backends.onnx import lower

    lowered = lower(parse(_PRODUCT), native_half=device == "cuda")
    session = runtime.InferenceSession(lowered.model.SerializeToString(), providers=[provider])
    if provider not in session.get_providers():
        return f"{provider} did not load; its libraries or its driver are missing"
    arrays = (np.array([300.0], np.float16), np.array([0.01], np.float16))
    (result,) = session.run(None, dict(zip(lowered.inputs, arrays, strict=True)))
    return "" if np.isposinf(result[0]) else f"300 * 300 * 0.01 gives {result[0]} and must give inf"
