"""Sizes of example inputs that vary: by default those of the first axes, which count samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.onnx.pytorch.structure import filled, structure_of


def is_tensor_of_torch(value: object) -> bool:
    """Whether a value is a tensor of PyTorch."""
    return isinstance(value, import_module("torch").Tensor)


def shapes_of(arguments: Mapping[str, Any], dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Any]:
    """The dynamic shapes of all arguments by name, as `torch.export.export` takes them."""
    if dynamic_shapes is None:
        first = {0: import_module("torch").export.Dim.AUTO}
        return {name: _each(value, first) for name, value in arguments.items()}
    if isinstance(dynamic_shapes, Mapping):
        others = [name for name in dynamic_shapes if name not in arguments]
        if others:
            listed = ", ".join(map(repr, arguments))
            raise GraphValueError(f"dynamic_shapes names {others[0]!r}, and the arguments are {listed}.")
        by_name = dict(dynamic_shapes)
    elif isinstance(dynamic_shapes, (tuple, list)) and len(dynamic_shapes) <= len(arguments):
        by_name = dict(zip(arguments, dynamic_shapes, strict=False))
    else:
        count = len(arguments)
        text = f"dynamic_shapes is a dict by argument or a sequence of at most {count}, as of torch.export.export"
        raise GraphTypeError(f"{text}, not {dynamic_shapes!r}.")
    return {name: by_name.get(name, _each(value, None)) for name, value in arguments.items()}


def _each(value: Any, spec: object) -> Any:
    """The structure of an argument, with a specification in the place of each tensor that has axes."""
    structure, leaves = structure_of(value, is_tensor_of_torch)
    return _without_values(filled(structure, [spec if leaf.ndim else None for leaf in leaves]), spec)


def _without_values(value: Any, spec: object) -> Any:
    """None in the place of everything that is neither a specification nor a container."""
    if value is spec:
        return value
    if isinstance(value, Mapping):
        return {key: _without_values(each, spec) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_without_values(each, spec) for each in value)
    return None


def with_two_samples(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with two equal samples, if they are one sample each: PyTorch exports a size of 1 as a constant."""
    structure, leaves = structure_of(arguments, is_tensor_of_torch)
    batches = [leaf for leaf in leaves if leaf.ndim]
    if not batches or any(len(leaf) != 1 for leaf in batches):
        return arguments
    torch = import_module("torch")
    doubled: dict[str, Any] = filled(structure, [torch.cat([leaf, leaf]) if leaf.ndim else leaf for leaf in leaves])
    return doubled
