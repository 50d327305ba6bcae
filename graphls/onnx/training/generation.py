"""Generates the files of a training: a training, an evaluation and an optimizer model, and a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

from onnx import ModelProto

from graphls.base.errors import GraphRuntimeError, GraphTypeError
from graphls.base.files.files import as_path
from graphls.onnx.importing.files import read
from graphls.onnx.training.gradient_model import name_output_sizes
from graphls.onnx.training.onnxblock.accessor import base, empty_base
from graphls.onnx.training.onnxblock.blocks import Block, PassThrough
from graphls.onnx.training.onnxblock.building import set_outputs
from graphls.onnx.training.onnxblock.loss import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss
from graphls.onnx.training.onnxblock.optim import SGD, AdamW
from graphls.onnx.training.parameters import save_checkpoint
from graphls.onnx.training.sizes import set_sizes
from graphls.onnx.training.training_models import training_models
from graphls.runtime.lowering.weights import write_model
from graphls.runtime.onnxruntime.runtime import load_runtime


class LossType(Enum):
    """Losses that `artifacts` adds to a model.

    Examples:
        >>> from graphls.onnx import artifacts
        >>> [loss.name for loss in artifacts.LossType]
        ['MSELoss', 'CrossEntropyLoss', 'BCEWithLogitsLoss', 'L1Loss']
    """

    MSELoss = 1
    CrossEntropyLoss = 2
    BCEWithLogitsLoss = 3
    L1Loss = 4


class OptimType(Enum):
    """Optimizers that `artifacts` writes a model of.

    Examples:
        >>> from graphls.onnx import artifacts
        >>> [optimizer.name for optimizer in artifacts.OptimType]
        ['AdamW', 'SGD']
    """

    AdamW = 1
    SGD = 2


LOSSES: dict[LossType, type[Block]] = {
    LossType.MSELoss: MSELoss,
    LossType.CrossEntropyLoss: CrossEntropyLoss,
    LossType.BCEWithLogitsLoss: BCEWithLogitsLoss,
    LossType.L1Loss: L1Loss,
}
OPTIMIZERS: dict[OptimType, type[AdamW] | type[SGD]] = {OptimType.AdamW: AdamW, OptimType.SGD: SGD}


def generate_artifacts(
    model: ModelProto | str | os.PathLike[str] | bytes, requires_grad: Sequence[str] | None = None,
    frozen_params: Sequence[str] | None = None, loss: LossType | Block | None = None,
    optimizer: OptimType | AdamW | SGD | None = None, artifact_directory: str | os.PathLike[str] | None = None,
    prefix: str = "", ort_format: bool = False, custom_op_library: str | os.PathLike[str] | None = None,
    additional_output_names: Sequence[str] | None = None, nominal_checkpoint: bool = False,
    loss_input_names: Sequence[str] | None = None, sizes: Mapping[str, int] | None = None,
) -> None:  # fmt: skip
    """Write the files that train an ONNX model with a plain ONNX Runtime, by `graphls.onnx.training`, into a folder.

    These are `training_model.onnx`, which gives the loss, the outputs and the gradients, `eval_model.onnx`, the same
    without gradients and not in training mode, `optimizer_model.onnx` and `checkpoint`, a file of safetensors; their
    names begin with `prefix`. Arguments are those of `onnxruntime.training.artifacts.generate_artifacts`.

    `requires_grad` names the parameters that are trained, `frozen_params` others that the checkpoint has; what is in
    neither is a constant of the models. With neither, all are trained that `graphls.onnx.load` would train. `loss` is
    added behind the outputs of the model, or behind `loss_input_names`; None takes the first output as the loss.
    `additional_output_names` are tensors that are given beside it. `ort_format` writes each model also as `.ort`,
    `nominal_checkpoint` also a checkpoint without values. Sizes that the inputs leave open stay open; `sizes` gives
    some of them a value, for networks whose operators depend on them.

    Raises GraphlsError for arguments that do not fit, for operators that are missing, and where a size cannot stay
    open, GraphFileError where a file cannot be written.

    Examples:
        >>> import os
        >>> import numpy as np
        >>> from graphls import nn, train
        >>> from graphls.onnx import artifacts
        >>> train.export(nn.Dense(4, 3), np.ones((1, 4), np.float32), file_name="net.onnx", file_format="ONNX")
        >>> artifacts.generate_artifacts(
        ...     "net.onnx",
        ...     requires_grad=["weight", "bias"],
        ...     loss=artifacts.LossType.MSELoss,
        ...     optimizer=artifacts.OptimType.AdamW,
        ...     artifact_directory="artifacts",
        ... )
        >>> sorted(os.listdir("artifacts"))
        ['checkpoint', 'eval_model.onnx', 'optimizer_model.onnx', 'training_model.onnx']
    """
    block = _loss(loss)
    optimizer_block = _optimizer(optimizer)
    if custom_op_library is not None and not os.path.exists(as_path(custom_op_library)):
        raise GraphRuntimeError(f"Custom op library path {custom_op_library} does not exist.")
    if additional_output_names is not None and not isinstance(additional_output_names, (list, tuple)):
        raise GraphRuntimeError(f"additional_output_names is a list of names, not {additional_output_names!r}.")
    original = read(model)
    proto = original.model()
    set_sizes(proto, sizes or {})
    name_output_sizes(original, proto)
    with base(proto, original.path) as accessor:
        results = block(*(loss_input_names or [info.name for info in proto.graph.output]))
        names = [results] if isinstance(results, str) else [*results]
        set_outputs(block, [*names, *(additional_output_names or ())])
        built = training_models(accessor.model, original.path, list(requires_grad or ()), list(frozen_params or ()))
    folder = Path.cwd() if artifact_directory is None else as_path(artifact_directory)
    models = {"training_model": built.training, "eval_model": built.evaluation}
    if optimizer_block is not None:
        with empty_base():
            optimizer_block((built.trained, built.frozen))
            models["optimizer_model"] = optimizer_block.to_model_proto()
    for name, content in models.items():
        write_model(folder / f"{prefix}{name}.onnx", content, {})
        if ort_format:
            _write_ort_format(folder / f"{prefix}{name}.onnx", custom_op_library)
    save_checkpoint((built.trained, built.frozen), folder / f"{prefix}checkpoint")
    if nominal_checkpoint:
        save_checkpoint((built.trained, built.frozen), folder / f"{prefix}nominal_checkpoint", True)


def _loss(loss: object) -> Block:
    if loss is None:
        return PassThrough()
    if isinstance(loss, LossType):
        return LOSSES[loss]()
    if isinstance(loss, Block):
        return loss
    raise GraphRuntimeError(f"Unknown loss {loss!r}; give a LossType or a Block of graphls.onnx.training.onnxblock.")


def _optimizer(optimizer: object) -> AdamW | SGD | None:
    if optimizer is None or isinstance(optimizer, (AdamW, SGD)):
        return optimizer
    if isinstance(optimizer, OptimType):
        return OPTIMIZERS[optimizer]()
    text = "give an OptimType, or AdamW or SGD of graphls.onnx.training.onnxblock.optim"
    raise GraphTypeError(f"Unknown optimizer {optimizer!r}; {text}.")


def _write_ort_format(path: Path, custom_op_library: str | os.PathLike[str] | None) -> None:
    """Write a saved model in the format of ONNX Runtime beside it."""
    runtime = load_runtime()
    options = runtime.SessionOptions()
    options.add_session_config_entry("session.save_model_format", "ORT")
    options.optimized_model_filepath = str(path.with_suffix(".ort"))
    if custom_op_library is not None:
        options.register_custom_ops_library(os.fspath(custom_op_library))
    runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
