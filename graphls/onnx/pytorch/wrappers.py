"""Modules of PyTorch that only wrap another one, and modules that cannot be exported whatever their `forward` does."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError


def unwrapped(module: Any) -> Any:
    """The module in the wrappers of `torch.compile`, `DataParallel` and `DistributedDataParallel`, else itself."""
    parallel = import_module("torch").nn.parallel
    while True:
        inner = getattr(module, "_orig_mod", None)
        if isinstance(module, (parallel.DataParallel, parallel.DistributedDataParallel)):
            inner = module.module
        if inner is None:
            return module
        module = inner


def require_exportable(module: Any) -> None:
    """Raise GraphlsError for a module of TorchScript, and for parameters without elements."""
    torch = import_module("torch")
    kind = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        text = f"from_torch takes a module of Python, and {kind} is one of TorchScript, which PyTorch cannot export"
        raise GraphTypeError(f"{text}; pass the module before torch.jit.script or torch.jit.trace.")
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if torch.nn.parameter.is_lazy(tensor):
            text = f"{name!r} of {kind} has no shape before the first call"
            raise GraphValueError(f"{text}; call the module with the example inputs once, then from_torch.")
        if tensor.is_meta:
            text = f"{name!r} of {kind} is on the device 'meta' and has no elements"
            raise GraphValueError(f"{text}; load the weights first, such as by module.to_empty(device='cpu').")
