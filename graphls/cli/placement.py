"""`python -m graphls placement`: which operators of any ONNX model have a kernel on a device."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from graphls.base.errors import GraphValueError
from graphls.runtime.onnxruntime.runtime import installed_version

if TYPE_CHECKING:
    from onnx import ModelProto


def add_placement(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    text = "list the operators of an ONNX model that do not run on a device"
    parser = commands.add_parser("placement", help=text, description=print_placement.__doc__)
    parser.set_defaults(command=print_placement)
    parser.add_argument("file", help="an ONNX model of any producer")
    parser.add_argument("--runtime", metavar="VERSION", help="a version of ONNX Runtime; by default the installed one")
    parser.add_argument("--provider", default="cuda", help="cuda (the default) or cpu")


def print_placement(options: argparse.Namespace) -> int:
    """Print which operators of a model have no kernel on a device, by the tables of a version of ONNX Runtime.

    Needs neither the device nor the runtime.
    """
    from graphls.onnx.importing.files import read
    from graphls.runtime.onnxruntime.placement import place

    runtime = options.runtime or installed_version()
    if runtime is None:
        raise GraphValueError("No ONNX Runtime is installed; name a version, such as --runtime 1.19.2.")
    print(place(_without_functions(read(options.file).model()), runtime, options.provider.lower(), infer=_typed))
    return 0


def _without_functions(model: ModelProto) -> ModelProto:
    """The model with its functions inlined, as the runtime sees it.

    Raises GraphValueError for functions of too many operators, and for those that onnx refuses.
    """
    from onnx.inliner import inline_local_functions

    from graphls.onnx.importing.functions import Functions

    Functions.of(model).require_few()
    try:
        return inline_local_functions(model) if model.functions else model
    except Exception as error:  # onnx documents no types of errors here
        reason = str(error).partition("\n")[0]
        raise GraphValueError(f"The functions of the model cannot be read: {reason}.") from None


def _typed(model: ModelProto) -> ModelProto:
    from graphls.onnx.importing.inference import with_inferred_types

    return with_inferred_types(model, with_functions=False)
