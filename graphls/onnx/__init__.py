"""Loads ONNX models of any producer as cells that train, and saves them with trained tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import graphls.onnx.operators  # noqa: F401  (fills the table)
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import TensorLike
from graphls.onnx import artifacts, training
from graphls.onnx.cell import OnnxCell, cell_of
from graphls.onnx.importing.files import Source, read
from graphls.onnx.program import program_of
from graphls.onnx.quantized_saving import save_quantized
from graphls.onnx.saving import save
from graphls.onnx.selection import Choice, Selection

__all__ = ["OnnxCell", "artifacts", "load", "save", "save_quantized", "training"]

MOST_LISTED = 30
BLOCKED = "com.microsoft.nchwc."
"""The domain of the operators on images in blocks of channels that ONNX Runtime's last optimizations write."""


def load(
    source: Source, trainable: Choice = None, frozen: Choice = None, outputs: Sequence[str] | None = None,
    fixed: Mapping[str, TensorLike] | None = None,
) -> OnnxCell:  # fmt: skip
    """The network of an ONNX model: a path, the bytes of a model, or a ModelProto.

    Every float constant of the model is a Parameter under its name there, except scalars and the sources of shapes.
    Trained are those that `trainable` names, or else all but running statistics, scales of quantized tensors, and what
    PyTorch's exporter recorded as a buffer or a constant; `frozen` names others that are not trained. Names are
    patterns as of files (`"head.*"`), several of them, or a predicate. `print(net)` says what is frozen, and why.
    `outputs` names tensors of the model that the cell returns in place of the model's own outputs; operators that they
    do not depend on are left out. `fixed` sets values of inputs on which shapes depend, which then are no arguments of
    the cell.

    Raises GraphFileError for a file that cannot be read, GraphValueError for what is no model, for unknown names, and
    for operators that graphls does not compute, with a list of them.

    Examples:
        >>> import os, tempfile
        >>> import numpy as np
        >>> import graphls.onnx
        >>> from graphls import nn, train
        >>> x = np.ones((1, 2), np.float32)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "net.onnx")
        ...     train.export(nn.Dense(2, 1, "ones", "zeros"), x, file_name=path, file_format="ONNX")
        ...     net = graphls.onnx.load(path)
        ...     graphls.onnx.save(net, os.path.join(folder, "tuned.onnx"))
        >>> net(x).asnumpy().tolist()
        [[2.0]]
    """
    return loaded(source, Selection(trainable, frozen), outputs, fixed)


def loaded(
    source: Source, selection: Selection, outputs: Sequence[str] | None = None,
    fixed: Mapping[str, TensorLike] | None = None,
) -> OnnxCell:  # fmt: skip
    """`load` with a selection of what is trained, which can name tensors that are no parameters for other reasons."""
    original = read(source)
    program = program_of(original.model(), original.folder, outputs)
    if program.faults:
        shown = program.faults[:MOST_LISTED]
        more = f" and {len(program.faults) - len(shown)} more" if len(program.faults) > len(shown) else ""
        text = f"{original.name} has operators that graphls does not compute: {', '.join(shown)}{more}"
        if any(fault.startswith(BLOCKED) for fault in program.faults):
            text += "; those of com.microsoft.nchwc are for one kind of processor: optimize it up to the level"
            raise GraphValueError(f"{text} ORT_ENABLE_EXTENDED only.")
        raise GraphValueError(f"{text}; give the outputs that do not need them (outputs=[...]).")
    return cell_of(original, program, selection, fixed)
