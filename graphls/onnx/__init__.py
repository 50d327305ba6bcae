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
_SEARCH = "the search for a text has no gradient: load the model of the decoder that it was exported from"
_PACKED = "tokens without padding are for GPUs: optimize the model without packing"
_REMEDIES = {
    "com.microsoft.nchwc.": "those of com.microsoft.nchwc are for one kind of processor: optimize it up to the level "
    "ORT_ENABLE_EXTENDED only",
    **{f"com.microsoft.{kind} ": _SEARCH for kind in ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch")},
    **{f"com.microsoft.{kind}": _PACKED for kind in ("Packed", "RemovePadding ", "RestorePadding ")},
    "ai.onnx.ml.ZipMap ": "ZipMap gives dictionaries: convert the model with options={'zipmap': False}",
}
"""What to do about operators that are not computed, by the start of their names; of those on images in blocks of
channels, which ONNX Runtime's last optimizations write, a domain."""


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
    do not depend on are left out. `fixed` sets values of inputs on which shapes depend, which then are not arguments of
    the cell.

    Raises GraphFileError for a file that cannot be read, GraphValueError for what is not a model, for unknown names,
    and for operators that graphls does not compute, with a list of them.

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
    """`load` with a selection of what is trained, which can name tensors that are not parameters for other reasons."""
    original = read(source)
    program = program_of(original.model(), original.folder, outputs)
    if program.faults:
        shown = program.faults[:MOST_LISTED]
        more = f" and {len(program.faults) - len(shown)} more" if len(program.faults) > len(shown) else ""
        text = f"{original.name} has operators that graphls does not compute: {', '.join(shown)}{more}"
        remedies = [text for start, text in _REMEDIES.items() if any(f.startswith(start) for f in program.faults)]
        other = "give the outputs that do not need them (outputs=[...])"
        raise GraphValueError(f"{text}; {', or '.join([*dict.fromkeys(remedies), *([] if remedies else [other])])}.")
    return cell_of(original, program, selection, fixed)
