"""Exporting a network for inference."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from graphls.api import DEFAULT_PASSES, trace_graph
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.reporting import checked
from graphls.nn.cell import Cell
from graphls.passes import as_pipeline
from graphls.passes.host_calls import without_effects
from graphls.sharing.locks import COMPILING
from graphls.tensors.configuration import Configuration

FORMATS = ("AIR", "ONNX", "MINDIR")


def export(
    net: Callable[..., object],
    *inputs: object,
    file_name: str | os.PathLike[str],
    file_format: str = "MINDIR",
    **kwargs: object,
) -> None:
    """Write a network in evaluation mode to an ONNX file, with its weights; whole or not at all.

    `inputs` are tensors of the shapes and dtypes that the model will take; numbers among them become constants. The
    model's inputs are called as the parameters of `construct`, its outputs `output`, or `output_0`, `output_1` and so
    on. The name gets the ending `.onnx` unless it has it. Dropout is off, batch normalisation uses its moving averages;
    the network is in the same mode after as before. 16-bit floats are computed in float32 and rounded, which gives the
    numbers of graphls on every runtime; bfloat16 inputs and outputs are float32. Viewers such as Netron show the cell
    and the user's line of each operator. Weights that a file of 2 GiB does not hold lie beside it, in one with `.data`
    behind the name. What `ops` draws in evaluation, and parameters that are written then, cannot be exported.

    Raises GraphTypeError and GraphValueError for arguments that do not fit, GraphValueError for the formats "MINDIR"
    and "AIR", which are not offered, GraphFileError where the file cannot be written.
    """
    _check(net, file_name, file_format, kwargs)
    from graphls.backends.inference import inference_model
    from graphls.backends.onnx.weights import write_model

    with COMPILING.lock, _evaluating(net):
        traced = trace_graph(net, *inputs)
    graph = as_pipeline(DEFAULT_PASSES).run(without_effects(traced.graph), source="trace").graph
    states = {state.name: traced.parameters[state.name].asnumpy() for state in graph.states}
    model, outside = checked(inference_model, graph, states)
    text = os.fsdecode(file_name)
    write_model(Path(text if text.endswith(".onnx") else f"{text}.onnx"), model, outside)


def _check(net: object, file_name: object, file_format: object, options: Mapping[str, object]) -> None:
    if not callable(net):
        raise GraphTypeError(f"For 'export', 'net' must be a Cell or a function, but got {net!r}.")
    if not isinstance(file_name, (str, os.PathLike)):
        raise GraphTypeError(f"For 'export', 'file_name' must be a string, but got {file_name!r}.")
    for name in options:
        advice = "; an ONNX file is not encrypted, leave it out" if name in ("enc_key", "enc_mode") else ""
        raise GraphTypeError(f"export to ONNX has no argument {name!r}{advice}.")
    if file_format not in FORMATS:
        raise GraphValueError(f"For 'export', 'file_format' must be one of {list(FORMATS)}, but got {file_format!r}.")
    if file_format != "ONNX":
        raise GraphValueError(
            f"The format {file_format} is MindSpore's own and not offered; use file_format=\"ONNX\", which MindSpore "
            "Lite converts, or save_checkpoint for the weights alone.",
        )


@contextmanager
def _evaluating(net: object) -> Iterator[None]:
    """Every cell of a network in evaluation mode, and afterwards each as it was."""
    cells = [cell for _, cell in net.cells_and_names()] if isinstance(net, Cell) else []
    flags = [cell.training for cell in cells]
    _set_training(cells, [False] * len(cells))
    try:
        yield
    finally:
        _set_training(cells, flags)


def _set_training(cells: list[Cell], flags: list[bool]) -> None:
    for cell, flag in zip(cells, flags, strict=True):
        cell.__dict__["training"] = flag
    Configuration.note_change()
