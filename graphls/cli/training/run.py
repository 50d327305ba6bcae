"""A run of `python -m graphls train`: builds network, data and step, trains, and writes the model."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT, SIGTERM
from threading import current_thread, main_thread
from typing import Any

import numpy as np

import graphls.onnx
from graphls import nn
from graphls.base.errors import GraphFileError, GraphRuntimeError, GraphValueError
from graphls.base.reporting import checked
from graphls.cli.arguments import mesh_of
from graphls.cli.training.checkpoints import Checkpoints, folder_of, resume, settings_of
from graphls.cli.training.columns import join_of
from graphls.cli.training.data import Binding, dataset_of
from graphls.cli.training.losses import Evaluation, Loss, Mean, WithLoss, label_check, loss_of
from graphls.cli.training.model import Network, network_of
from graphls.cli.training.optimizers import optimizer_of
from graphls.cli.training.overflows import ADVICE, NotFinite, OverflowSummary
from graphls.dataset import Dataset
from graphls.frontend.tensors.random import set_seed
from graphls.interop.adapters import merge, save_adapters
from graphls.ir.sharding import Mesh
from graphls.ir.types import as_dtype
from graphls.nn.amp import DynamicLossScaleManager, build_train_network
from graphls.runtime.context import kept_context, set_context
from graphls.step.calling.cache import cache_of
from graphls.step.shards import stated_layout
from graphls.train import Model
from graphls.train.callbacks import Callback, OnRequestExit, Progress

BATCH_SIZE = 32


@dataclass
class Run:
    """The parts of a run: options, network, loss, data and training step."""

    options: argparse.Namespace
    network: Network
    loss: Loss
    data: Dataset
    validation: Dataset | None
    step: nn.TrainOneStepCell
    scale: float | None

    @property
    def mesh(self) -> Mesh | None:
        """The mesh of the devices of the steps; raises GraphValueError for a text that names none."""
        return None if self.options.mesh is None else mesh_of(self.options.mesh)

    @property
    def engine(self) -> str | None:
        """The engine of the steps; None for that of the context."""
        return self.options.engine or (None if self.options.mesh is None else "xla")

    def model(self) -> Model:
        """The Model that trains the step and evaluates the network."""
        evaluation = Evaluation(self.network.cell, self.loss)
        metrics = {"validation loss": Mean(0)} | ({"accuracy": Mean(1)} if self.loss.right else {})
        mesh, zero = self.mesh, self.options.zero
        return Model(self.step, eval_network=evaluation, metrics=metrics, engine=self.engine, mesh=mesh, zero=zero)

    def weights(self) -> AbstractContextManager[None]:
        """A context in which the network has the weights to write: their moving averages, if the step keeps some."""
        return nullcontext() if self.options.ema_decay is None else self.model().ema_weights()

    def explain(self, row: Sequence[object]) -> Any:
        """Explains the overflow of the step that has just run with a row."""
        layout = stated_layout(self.mesh, self.options.zero)
        return cache_of(self.step, self.engine, layout).find(*row).explain_overflow(*row)


def train(options: argparse.Namespace) -> int:
    """Train, and write the model; returns the exit status."""
    for path in filter(None, (options.output, options.adapters and Path(options.adapters) / "adapter_config.json")):
        _check_output(Path(path))
    with kept_context():
        if options.device:
            set_context(device_target={"cpu": "CPU", "cuda": "GPU"}[options.device])
        set_seed(options.seed)
        return _train(checked(_prepare, options))


def _check_output(path: Path) -> None:
    """Raise GraphFileError, before anything is trained, for an output that could not be written."""
    folder = next(parent for parent in path.absolute().parents if os.path.exists(parent))
    if os.path.isdir(path) or not folder.is_dir():
        what, kind = (path, "a") if os.path.isdir(path) else (folder, "no")
        raise GraphFileError(f"{path} cannot be written: {what} is {kind} directory.")


def _prepare(options: argparse.Namespace) -> Run:
    _check_numbers(options)
    loss = loss_of(options.loss)
    network = network_of(options, loss.activation)
    print(f"{options.model}: {network.sizes()}.")
    if network.activation:
        text = f"The model ends in {loss.activation} ({network.activation}), which {options.loss} computes itself"
        print(f"{text}: the loss takes the operand of it, and the model keeps it.")
    check = label_check(options.loss, network.prediction)
    joins = dict(map(join_of, options.bind))
    binding = Binding(network.inputs, loss.takes_label, options.label, check, joins)
    size = options.batch_size or network.batch_size or BATCH_SIZE
    is_any = network.batch_size is None
    data = dataset_of(options.data, binding, size, options.shuffle, is_any)
    validation = None if options.validate is None else dataset_of(options.validate, binding, size, False, is_any)
    return Run(options, network, loss, data, validation, *_step(options, network, loss, data))


def _check_numbers(options: argparse.Namespace) -> None:
    """Raise GraphValueError for options whose numbers are out of range, or that exclude each other."""
    least = {
        "lora": 1, "epochs": 1, "batch_size": 1, "warmup": 0, "checkpoint_steps": 1, "seed": 0, "loss_scale": 1,
        "accumulate_steps": 1,
    }  # fmt: skip
    for name, bound in least.items():
        value = getattr(options, name)
        if value is not None and not value >= bound:
            raise GraphValueError(f"--{name.replace('_', '-')} is a number of {bound} or more, not {value}.")
    if not options.lora and (options.lora_match or options.lora_alpha or options.adapters):
        raise GraphValueError("--lora-match, --lora-alpha and --adapters are of adapters; give their rank with --lora.")
    for name, what in (("clip", "norm"), ("clip_value", "number")):
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise GraphValueError(f"--{name.replace('_', '-')} is a {what} above 0, not {value}.")
    if options.clip is not None and options.clip_value is not None:
        raise GraphValueError("Gradients are clipped by --clip or by --clip-value, not both.")
    if options.zero and options.mesh is None:
        raise GraphValueError("--zero divides states among the devices of a mesh; name it, such as --mesh data=4.")
    if options.ema_decay is not None and not 0 < options.ema_decay < 1:
        raise GraphValueError(f"--ema-decay is a number between 0 and 1, not {options.ema_decay}.")


def _step(
    options: argparse.Namespace, network: Network, loss: Loss, data: Dataset
) -> tuple[nn.TrainOneStepCell, float | None]:
    """The training step, and its initial loss scale, if it has one."""
    cell = network.cell
    is_scaled = options.precision == "float16" or (options.precision is None and network.has_half)
    if options.precision is not None:
        cell.to_float(as_dtype(options.precision))
    accumulate = options.accumulate_steps or 1
    optimizer = optimizer_of(options, cell.trainable_params(), options.epochs * data.get_dataset_size() // accumulate)
    step = build_train_network(
        WithLoss(cell, loss), optimizer,
        loss_scale_manager=DynamicLossScaleManager(options.loss_scale) if is_scaled else None,
        accumulate_steps=accumulate, clip_norm=options.clip, clip_value=options.clip_value, ema_decay=options.ema_decay,
    )  # fmt: skip
    return step, options.loss_scale if is_scaled else None


def _train(run: Run) -> int:
    options, steps = run.options, run.data.get_dataset_size()
    settings = settings_of(options, run.network, steps)
    folder = folder_of(options)
    done = resume(run.step, folder, settings) if options.resume else 0
    overflows = OverflowSummary(_scale_now(run), run.explain)
    on_request = OnRequestExit(save_ckpt=False)
    callbacks: list[Callback] = [overflows, Progress(None if find_spec("rich") else _Lines())]
    callbacks += [on_request] if current_thread() is main_thread() else []
    if options.has_checkpoints:
        callbacks.append(Checkpoints(folder, options.checkpoint_steps or steps, settings))
    if done < options.epochs * steps:
        try:
            _fit(run, done, callbacks)
        except KeyboardInterrupt:
            return _interrupted(options, folder, SIGINT)
        if on_request.is_requested:
            return _interrupted(options, folder, SIGTERM)
    else:
        print(f"{done} steps are done, which are {done // steps} epochs; --epochs {done // steps + 1} would go on.")
    for line in overflows.lines():
        print(line)
    if overflows.trained_nothing:
        raise GraphRuntimeError(f"Every step was skipped, so {options.output} is not written.")
    with run.weights():
        _check_finite(run.network)
        if options.lora:
            _merge(run.network, options.adapters)
        graphls.onnx.save(run.network.cell, options.output)
    print(options.output)
    return 0


def _merge(network: Network, folder: str | None) -> None:
    """Merge the adapters into the weights, and save them first if a folder is named."""
    if folder:
        save_adapters(network.cell, folder)
        print(folder)
    merge(network.cell)


def _check_finite(network: Network) -> None:
    """Raise NotFinite if the last step has left an infinite or nan parameter."""
    for parameter in network.cell.trainable_params():
        if not np.isfinite(parameter.asnumpy()).all():
            text = f"The last step has made {parameter.name!r} infinite or nan, so nothing is written"
            raise NotFinite(f"{text}; {ADVICE}.")


def _scale_now(run: Run) -> float | None:
    """The loss scale of the next step."""
    if run.scale is None:
        return None
    return float(run.step.scale_sense.asnumpy().reshape(()))


def _fit(run: Run, done: int, callbacks: Sequence[Callback]) -> None:
    model = run.model()
    if done:
        run.data.set_init_step(done)
        print(f"Going on after step {done}.")
    if run.validation is None:
        model.train(run.options.epochs, run.data, callbacks)
    else:
        is_averaged = run.options.ema_decay is not None
        model.fit(run.options.epochs, run.data, run.validation, callbacks=callbacks, use_ema=is_averaged)


def _interrupted(options: argparse.Namespace, folder: Path, number: int) -> int:
    """Print how to resume; returns the usual exit status after a signal."""
    advice = f"; --resume goes on from {folder}" if options.has_checkpoints and any(folder.glob("*.ckpt")) else ""
    print(f"graphls: interrupted, {options.output} is as it was{advice}.", file=sys.stderr)
    return 128 + number


class _Lines:
    """The standard output posing as a file, for progress in lines instead of bars."""

    write: Callable[[str], int]

    def __init__(self) -> None:
        self.write, self.flush = sys.stdout.write, sys.stdout.flush

    def isatty(self) -> bool:
        """False: no bar can be drawn."""
        return False
