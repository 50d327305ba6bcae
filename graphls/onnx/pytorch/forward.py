"""The `forward` of a module as the exporter takes it: inputs are named tensors, results a list of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import Parameter as Argument
from inspect import Signature, signature
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.onnx.pytorch.functions import exact_functions
from graphls.onnx.pytorch.shapes import is_tensor_of_torch
from graphls.onnx.pytorch.structure import Items, Structure, filled, structure_of


def arguments_of(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `forward` by name, with tensors of PyTorch in the place of arrays of any library."""
    function = signature(module.forward)
    try:
        bound = function.bind(*args, **kwargs)
    except TypeError as error:
        kind = type(module).__name__
        raise GraphTypeError(f"The example inputs are not those of {kind}.forward{function}: {error}.") from None
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if function.parameters[name].kind in (Argument.VAR_POSITIONAL, Argument.POSITIONAL_ONLY):
            text = f"{type(module).__name__}.forward takes {name!r} by position only"
            raise GraphTypeError(f"{text}; wrap it in a module whose forward names its inputs.")
        arguments.update(value if function.parameters[name].kind is Argument.VAR_KEYWORD else {name: value})
    torch = import_module("torch")
    structure, leaves = structure_of(arguments, _is_array)
    tensors = [x if isinstance(x, torch.Tensor) else torch.from_numpy(np.array(x)) for x in leaves]
    if not tensors:
        raise GraphValueError(f"from_torch needs an example input for {type(module).__name__}.forward{function}.")
    converted: dict[str, Any] = filled(structure, tensors)
    return converted


def _is_array(value: object) -> bool:
    return hasattr(type(value), "__array__") or hasattr(type(value), "__dlpack__")


class Forward:
    """A `forward` that takes the arguments with tensors, and returns the tensors among the results as a list.

    Copies of the buffers that it writes follow, since the exporter drops what no result needs; `written` has their
    names, without the statistics of batch normalisations, which the operator itself updates. The values of the other
    arguments are constants. `torch.export` cannot combine dynamic shapes with arguments in `**kwargs`, and
    `torch.onnx.export` takes no results but tensors.
    """

    def __init__(self, torch: Any, module: Any, arguments: Mapping[str, Any]) -> None:
        self.torch, self.module, self.function = torch, module, module.forward
        self.inputs = {name: value for name, value in arguments.items() if structure_of(value, is_tensor_of_torch)[1]}
        self.constants = {name: value for name, value in arguments.items() if name not in self.inputs}
        self.results: Structure = Items(())
        self.written: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        before = {name: (buffer, buffer._version) for name, buffer in self._buffers()}
        with exact_functions(self.torch):
            results = self.function(**dict(zip(self.inputs, args, strict=False)), **kwargs, **self.constants)
        self.results, leaves = structure_of(self._plain(results), is_tensor_of_torch)
        buffers = dict(self._buffers())
        self.written = [name for name, x in buffers.items() if before.get(name, ())[1:] != (x._version,)]
        return [*leaves, *(buffers[name].clone() for name in self.written)]

    def _buffers(self) -> Iterator[tuple[str, Any]]:
        """The buffers of the module that are no statistics of a batch normalisation."""
        kind = self.torch.nn.modules.batchnorm._BatchNorm
        paths = [path for path, layer in self.module.named_modules() if isinstance(layer, kind)]
        statistics = {".".join(filter(None, (path, f"running_{part}"))) for path in paths for part in ("mean", "var")}
        return ((name, buffer) for name, buffer in self.module.named_buffers() if name not in statistics)

    def _plain(self, value: Any) -> Any:
        """The result of tuples, lists and dicts; raises GraphTypeError for what is neither these nor a tensor."""
        if value is None or isinstance(value, (bool, int, float, str, self.torch.Tensor)):
            return value
        if isinstance(value, Mapping):
            return {key: self._plain(each) for key, each in value.items()}
        if isinstance(value, (tuple, list)):
            parts = map(self._plain, value)
            return list(parts) if isinstance(value, list) else tuple(parts)
        if is_dataclass(value):
            return {each.name: self._plain(getattr(value, each.name)) for each in fields(value)}
        leaves = self.torch.utils._pytree.tree_leaves(value)
        if len(leaves) == 1 and leaves[0] is value:
            kind = type(value).__name__
            advice = "; use_cache=False leaves it out" if kind.endswith("Cache") else ""
            raise GraphTypeError(f"{type(self.module).__name__} returns a {kind}, which is not a tensor{advice}.")
        return tuple(map(self._plain, leaves))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Makes this the `forward` of the module meanwhile."""

        def forward(*args: Any, **kwargs: Any) -> Any:
            return self(*args, **kwargs)

        parameters = [Argument(name, Argument.POSITIONAL_OR_KEYWORD) for name in self.inputs]
        forward.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        own = vars(self.module).get("forward")
        self.module.forward = forward
        try:
            yield
        finally:
            del self.module.forward
            if own is not None:
                self.module.forward = own
