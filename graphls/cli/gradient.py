"""`python -m graphls gradient`: writes a model that computes the outputs and gradients of an ONNX model."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from graphls.base.errors import GraphValueError
from graphls.cli.arguments import add_fixed, fixed_values


def add_gradient(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    text = "write a model that computes outputs and gradients of an ONNX model"
    parser = commands.add_parser("gradient", help=text, description=gradient.__doc__)
    parser.set_defaults(command=gradient)
    parser.add_argument("model", help="an ONNX model of any producer")
    parser.add_argument("-o", "--output", required=True, metavar="MODEL", help="the model to write")
    names = "inputs or parameters by name or pattern, such as 'head.*'; by default all inputs of floats"
    parser.add_argument("--wrt", action="append", metavar="PATTERN", help=f"{names}; can be repeated")
    add_fixed(parser)
    sizes = "a value for a dynamic size: batch=8, or state:1=8 for one axis of one input"
    parser.add_argument("--size", action="append", default=[], metavar="NAME=SIZE", help=sizes)


def gradient(options: argparse.Namespace) -> int:
    """Write a model that computes the outputs of an ONNX model, and products of vectors with its Jacobian.

    It takes the inputs of the model and, for each output y of floats, a vector y_grad of the same shape. It returns the
    outputs and, for each x of --wrt, the gradient x_grad.
    """
    from graphls.onnx.gradient import write_gradient

    sizes = dict(map(_size, options.size))
    model = write_gradient(options.model, Path(options.output), options.wrt, sizes, fixed_values(options.fixed))
    dynamic = f"; the sizes {', '.join(model.sizes)} stay open" if model.sizes else ""
    cotangents, gradients = ", ".join(model.cotangents), ", ".join(model.gradients)
    print(f"{options.output} takes {cotangents} as well and gives {gradients}{dynamic}.")
    return 0


def _size(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.+)=([1-9]\d*)", text)
    if match is None:
        raise GraphValueError(f"--size takes a name and a number above 0, such as batch=8, not {text!r}.")
    return match[1], int(match[2])
