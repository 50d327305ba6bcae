"""Modules of PyTorch as cells that train, by PyTorch's own exporter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphls.base.checks import boolean
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.sources import tensors_of
from graphls.onnx.pytorch.cell import TorchCell, cell_class, require_computable
from graphls.onnx.pytorch.exporting import Exported, array_of_torch, export
from graphls.onnx.pytorch.forward import arguments_of
from graphls.onnx.pytorch.shapes import is_tensor_of_torch, shapes_of, with_two_samples
from graphls.onnx.pytorch.structure import structure_of
from graphls.onnx.pytorch.wrappers import require_exportable, unwrapped

__all__ = ["from_torch"]


def from_torch(
    module: Any, *inputs: Any, train: bool = True, dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    **named_inputs: Any,
) -> TorchCell:  # fmt: skip
    """The network of a PyTorch module, as a cell that trains and whose weights can be written back.

    `inputs` and `named_inputs` are example arguments of the module's `forward`: tensors of PyTorch or arrays, also in
    tuples, lists and dicts, and values that stay constant, such as flags. The cell takes the arguments that are or hold
    tensors, by the same names, in other sizes of the first axis too; `dynamic_shapes`, as of `torch.export.export`,
    says which sizes vary instead. Its results are those of the module; the outputs of Hugging Face are dicts.

    Parameters have the names of `named_parameters()` and copies of their elements. Those with `requires_grad=False` and
    buffers are not trained; tensors that are one in the module are one parameter. `set_train` switches between the
    training and the evaluation mode of the module, with dropout, statistics of batches and whatever else `forward` does
    in each; the cell starts in the mode of the module. With `train=False` it computes in evaluation mode always.
    `TorchCell.to_torch(module)` writes trained parameters and statistics into the module.

    Of the wrappers of `torch.compile` and `DataParallel` the module inside is taken, also by `to_torch`.

    The module is exported by PyTorch (`torch.export` and `torch.onnx`, with the package onnxscript) and stays as it is.
    Raises GraphValueError with the reason where that fails or an operator is not computed by graphls, GraphTypeError
    for what is not a module and for other arguments than those of `forward`, GraphRuntimeError without onnxscript.

    Examples:
        >>> import graphls
        >>> import torch  # doctest: +SKIP
        >>> module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1))  # doctest: +SKIP
        >>> net = graphls.from_torch(module, torch.zeros(2, 4))  # doctest: +SKIP
        >>> [p.name for p in net.trainable_params()]  # doctest: +SKIP
        ['0.weight', '0.bias']
        >>> net.to_torch(module)  # doctest: +SKIP
    """
    boolean("from_torch", "train", train)
    methods = (getattr(module, name, None) for name in ("named_parameters", "forward"))
    if isinstance(module, type) or not all(map(callable, methods)):
        raise GraphTypeError(f"from_torch takes a module of PyTorch, an instance, not {module!r}.")
    module = unwrapped(module)
    require_exportable(module)
    arguments = arguments_of(module, inputs, named_inputs)
    shapes = shapes_of(arguments, dynamic_shapes)
    examples = with_two_samples(arguments) if dynamic_shapes is None else arguments
    try:
        exports = _exports(module, examples, shapes, train)
        is_repeated = examples is not arguments and not all(exported.is_open for exported in exports)
    except GraphValueError:
        is_repeated = examples is not arguments
        if not is_repeated:
            raise
    if is_repeated:
        exports = _exports(module, arguments, shapes, train)
    cell = _cell(module, arguments, exports)
    cell.set_train(bool(module.training))
    return cell


def _exports(module: Any, arguments: Mapping[str, Any], shapes: Mapping[str, Any], train: bool) -> list[Exported]:
    """The module in evaluation mode and, with `train`, in training mode."""
    return [export(module, arguments, shapes, training) for training in ([False, True] if train else [False])]


def _cell(module: Any, arguments: Mapping[str, Any], exports: Sequence[Exported]) -> TorchCell:
    """The cell of a module that is exported in evaluation mode and perhaps in training mode."""
    structured = [(name, structure_of(value, is_tensor_of_torch)) for name, value in arguments.items()]
    kind = cell_class(tuple((name, structure) for name, (structure, leaves) in structured if leaves))
    updated = {name for exported in exports for name in exported.updated}
    used = {name for exported in exports for name in exported.tensors}
    named = {name: group for name, group in tensors_of(module).items() if name in used | updated}
    tensors = {name: tensor for name, (tensor, _) in named.items() if tensor.is_floating_point() or name in updated}
    parameters = {name: _parameter(name, tensor) for name, tensor in tensors.items()}
    trained = {name for name, _ in module.named_parameters()}
    written = {name: names for name, (_, names) in named.items() if name in parameters.keys() & (trained | updated)}
    buffers = parameters.keys() - trained
    cell = kind([exported.source for exported in exports], parameters, written, buffers)
    require_computable(type(module).__name__, cell.modes)
    return cell


def _parameter(name: str, tensor: Any) -> Parameter:
    """The parameter of a tensor, which is trained if PyTorch trains it."""
    parameter = Parameter.holding(array_of_torch(tensor), name)
    parameter.requires_grad = bool(tensor.requires_grad)
    return parameter
