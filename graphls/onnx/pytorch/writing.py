"""Writes the parameters of a cell into a module of PyTorch, all of them or none."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Array
from graphls.onnx.pytorch.wrappers import unwrapped


def write_back(parameters: Iterable[tuple[Parameter, Iterable[str]]], module: Any) -> None:
    """Write each parameter under its names; raises GraphlsError before anything is written."""
    if not callable(getattr(module, "named_parameters", None)) or not callable(getattr(module, "named_buffers", None)):
        raise GraphTypeError(f"to_torch writes into a module of PyTorch, not {type(module).__name__}.")
    torch, module = import_module("torch"), unwrapped(module)
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    targets = dict(named)
    pairs = [(name, p) for p, names in parameters for name in names]
    faults = [fault for name, p in pairs if (fault := _fault(name, p, targets.get(name)))]
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        text = f"The parameters do not fit the module {type(module).__name__}: {'; '.join(faults[:5])}{more}"
        raise GraphValueError(f"{text}; nothing is written.")
    with torch.no_grad():
        for name, parameter in pairs:
            targets[name].copy_(_tensor(torch, parameter.asnumpy()))


def _fault(name: str, parameter: Parameter, target: Any) -> str:
    """The reason why a parameter cannot be written into a tensor; "" if it can."""
    if target is None:
        return f"it has no {name!r}"
    shape, dtype = tuple(target.shape), str(target.dtype).removeprefix("torch.")
    if shape != parameter.shape:
        return f"{name!r} has the shape {shape} there and {parameter.shape} here"
    if dtype != parameter.dtype.long_name:
        return f"{name!r} is {dtype} there and {parameter.dtype.long_name} here"
    return ""


def _tensor(torch: Any, array: Array) -> Any:
    """A tensor of PyTorch with the elements of an array."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
