"""The `export` function for inference models."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.step.export.dynamic_axes import DynamicAxes
from graphls.step.export.inference import inference_model

FORMATS = ("AIR", "ONNX", "MINDIR")


def export(
    net: Callable[..., object], *inputs: object, file_name: str | os.PathLike[str] = "", file_format: str = "MINDIR",
    dynamic_axes: DynamicAxes | None = None, opset: int | None = None, precision: str = "float32",
    external_data: int | None = None, metadata: Mapping[str, str] | None = None, **kwargs: object,
) -> None:  # fmt: skip
    """Write a network in evaluation mode to an ONNX file, with its weights; whole or not at all.

    `inputs` are tensors of the shapes and dtypes that the model will take; numbers among them become constants. A size
    of None, as in `Tensor(shape=[None, 3, 32, 32])`, is any size; without inputs, those of `net.set_inputs` count. So
    does `dynamic_axes={"x": {0: "batch"}}`, which names sizes by the inputs and axes that have them. The model's inputs
    are called as the parameters of `construct`, or of a function, its outputs `output`, or `output_0`, `output_1` and
    so on.

    Dropout is off, batch normalisation uses its moving averages and becomes part of the weights before it; what ONNX
    has one operator for is one. The network is in the same mode after as before. `opset` is the version of operators,
    17 to 25, by default 20. With `precision="float16"` the model computes in 16 bits, but for what needs more, and
    takes and gives float32 as before; else 16-bit floats of the network are computed in float32 and rounded, which
    gives the numbers of graphls on every runtime. bfloat16 inputs and outputs are float32. Viewers such as Netron show
    the cell and the user's line of each operator; `metadata` are texts that the model keeps.

    Weights of `external_data` bytes and more lie beside the file, in one with `.data` behind the name, and so does what
    a file of 2 GiB does not hold. What `ops` draws in evaluation, and parameters that are written then, cannot be
    exported.

    Raises GraphTypeError and GraphValueError for arguments that do not fit, GraphValueError for the formats "MINDIR"
    and "AIR", which are not offered, and, with the user's line, for a network that is another one for other sizes,
    GraphFileError where the file cannot be written.

    Examples:
        >>> import numpy as np
        >>> import onnxruntime
        >>> from graphls import nn, train
        >>> net = nn.SequentialCell(nn.Dense(3, 2), nn.Softmax())
        >>> axes = {"x": {0: "batch"}}
        >>> train.export(net, np.zeros((1, 3), np.float32), file_name="net.onnx", file_format="ONNX", dynamic_axes=axes)
        >>> session = onnxruntime.InferenceSession("net.onnx")
        >>> [(value.name, value.shape) for value in session.get_inputs()]
        [('x', ['batch', 3])]
    """
    _check(net, file_name, file_format, kwargs)
    from graphls.runtime.lowering.weights import write_model

    exported = inference_model(
        net, *inputs, dynamic_axes=dynamic_axes, opset=opset, precision=precision, external_data=external_data,
        metadata=metadata,
    )  # fmt: skip
    text = os.fsdecode(file_name)
    write_model(Path(text if text.endswith(".onnx") else f"{text}.onnx"), exported.model, exported.outside)


def _check(net: object, file_name: object, file_format: object, options: Mapping[str, object]) -> None:
    if not callable(net):
        raise GraphTypeError(f"For 'export', 'net' must be a Cell or a function, but got {net!r}.")
    if file_name == "":
        text = "export writes a file and needs its name: export(net, x, file_name='net.onnx', file_format='ONNX')"
        raise GraphTypeError(f"{text}.")
    if not isinstance(file_name, (str, os.PathLike)):
        raise GraphTypeError(f"For 'export', 'file_name' must be a string, but got {file_name!r}.")
    for name in options:
        if name in ("enc_key", "enc_mode"):
            raise GraphTypeError(refusal("encryption", f"the {name!r} of 'export'"))
        raise GraphTypeError(f"export to ONNX has no argument {name!r}.")
    if file_format not in FORMATS:
        raise GraphValueError(f"For 'export', 'file_format' must be one of {list(FORMATS)}, but got {file_format!r}.")
    if file_format != "ONNX":
        raise GraphValueError(refusal("formats", f"file_format={file_format!r}"))
