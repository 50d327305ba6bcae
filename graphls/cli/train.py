"""`python -m graphls train`: the options of training an ONNX model on data."""

from __future__ import annotations

import argparse

from graphls.cli.arguments import add_fixed, add_mesh


def add_train(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    text = "train an ONNX model on data"
    parser = commands.add_parser("train", help=text, description=train.__doc__)
    parser.set_defaults(command=train)
    parser.add_argument("model", help="an ONNX model of any producer")
    parser.add_argument("-o", "--output", required=True, metavar="MODEL", help="the trained model, written at the end")
    _add_data(parser.add_argument_group("data"))
    _add_network(parser.add_argument_group("network and loss"))
    _add_steps(parser.add_argument_group("steps"))
    _add_run(parser.add_argument_group("the run"))


def _add_data(group: argparse._ArgumentGroup) -> None:
    files = ".npz, .safetensors, .csv, .parquet, .arrow, .feather"
    kinds = f"a file ({files}), or module:function, which returns arrays, batches or samples"
    group.add_argument("--data", required=True, metavar="SOURCE", help=kinds)
    group.add_argument("--validate", metavar="SOURCE", help="data to evaluate the model on after every epoch")
    columns = "the column for an input, or several columns that form it, such as 'x=pixel_*'"
    group.add_argument("--bind", action="append", default=[], metavar="NAME=COLUMN,...", help=columns)
    label = "the label in the data; by default the one array that is not an input of the model"
    group.add_argument("--label", metavar="NAME", help=label)
    group.add_argument("--batch-size", type=int, metavar="ROWS", help="by default that of the model, or 32")
    group.add_argument("--no-shuffle", dest="shuffle", action="store_false", help="keep the order of the rows")


def _add_network(group: argparse._ArgumentGroup) -> None:
    patterns = "tensors by name or pattern, such as 'head.*'; can be repeated"
    group.add_argument("--trainable", action="append", metavar="PATTERN", help=f"train these {patterns}")
    group.add_argument("--frozen", action="append", metavar="PATTERN", help=f"do not train these {patterns}")
    group.add_argument("--lora", type=int, metavar="RANK", help="train adapters of this rank, and --trainable")
    group.add_argument("--lora-match", action="append", metavar="PATTERN", help="weights with adapters; by default all")
    group.add_argument("--lora-alpha", type=float, metavar="NUMBER", help="scale adapters by alpha / RANK, not by 1")
    group.add_argument("--adapters", metavar="FOLDER", help="a folder for the adapters in PEFT's format")
    group.add_argument("--prediction", metavar="NAME", help="the output that the loss takes, if there are several")
    add_fixed(group)
    losses = "cross_entropy, binary_cross_entropy (of logits), mse, l1, huber, none (the output is the loss)"
    group.add_argument("--loss", required=True, help=f"{losses}, or module:function of prediction and label")
    group.add_argument("--precision", choices=["float32", "bfloat16", "float16"], help="the dtype of the computation")
    group.add_argument("--loss-scale", type=float, default=2.0**16, help="the initial loss scale for float16")


def _add_steps(group: argparse._ArgumentGroup) -> None:
    names = "adam, adamw, sgd, momentum, lamb ..., with settings such as 'sgd{momentum=0.9}'"
    group.add_argument("--optimizer", default="adamw", help=names)
    group.add_argument("--learning-rate", type=float, metavar="RATE", help="by default that of the optimizer")
    kinds = ["constant", "linear", "cosine"]
    group.add_argument("--schedule", choices=kinds, default="constant", help="the decay of the rate to 0 at the end")
    group.add_argument("--warmup", type=int, default=0, metavar="STEPS", help="the steps over which the rate rises")
    group.add_argument("--weight-decay", type=float, metavar="FACTOR")
    batches = "the number of batches for one update, by the mean of their gradients; by default 1"
    group.add_argument("--accumulate-steps", type=int, metavar="BATCHES", help=batches)
    norm = "clip the gradients to this global norm"
    group.add_argument("--clip", "--clip-norm", dest="clip", type=float, metavar="NORM", help=norm)
    group.add_argument("--clip-value", type=float, metavar="NUMBER", help="or clip each element of the gradients")
    averages = "write, and validate with, exponential moving averages of the tensors, such as 0.999"
    group.add_argument("--ema-decay", type=float, metavar="DECAY", help=averages)
    group.add_argument("--epochs", type=int, default=1)


def _add_run(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--resume", action="store_true", help="go on from the last checkpoint, bit for bit")
    group.add_argument("--checkpoints", metavar="FOLDER", help="by default beside the output, as tuned.checkpoints")
    every = "save a checkpoint every so many steps; by default every epoch"
    group.add_argument("--checkpoint-steps", type=int, metavar="STEPS", help=every)
    off = {"dest": "has_checkpoints", "action": "store_false"}
    group.add_argument("--no-checkpoints", help="save no checkpoints", **off)  # type: ignore[arg-type]
    group.add_argument("--seed", type=int, default=0, help="the seed of the order of rows and of dropout")
    engines = "the engine of the steps, such as onednn, xla or auto; by default onnxruntime, on a mesh xla"
    group.add_argument("--engine", help=f"{engines}; see docs/engines.md")
    add_mesh(group, "divide each step among devices in a grid, such as data=4,model=2", "0 (default) to 3")
    group.add_argument("--device", choices=["cpu", "cuda"], help="the device of the steps")


def train(options: argparse.Namespace) -> int:
    """Train an ONNX model on data, and write the same model with the trained tensors.

    Arrays of the data are bound to inputs of the model by name; the one left over is the label. The output is written
    at the end, completely or not at all; Ctrl-C leaves a checkpoint, from which --resume goes on.
    """
    from graphls.cli.training import run

    return run.train(options)
