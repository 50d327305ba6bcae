"""Checkpoints of a run, and going on from the last one."""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

from graphls import nn
from graphls.base.errors import GraphValueError
from graphls.base.files.files import parse_json
from graphls.cli.training.model import Network
from graphls.cli.training.verdict import NotFinite
from graphls.train import CheckpointConfig, ModelCheckpoint, load_checkpoint, load_param_into_net

SETTINGS, STEP = "settings", "step_num"
FROM_OPTIONS = (
    "loss", "optimizer", "learning_rate", "weight_decay", "clip", "batch_size", "schedule", "warmup", "precision",
    "loss_scale", "trainable", "frozen", "prediction", "fixed", "bind", "label", "seed", "shuffle",
    "lora", "lora_match", "lora_alpha", "accumulate_steps", "clip_value", "ema_decay",
)  # fmt: skip
"""Options that must be the same where a run goes on."""


class Checkpoints(ModelCheckpoint):
    """Saves the state of a run, also at its end by Ctrl-C; not where the loss, and so the state, is no number."""

    def __init__(self, folder: Path, steps: int, settings: str) -> None:
        config = CheckpointConfig(
            save_checkpoint_steps=steps, keep_checkpoint_max=2, exception_save=True,
            append_info=["epoch_num", STEP, {SETTINGS: settings}],
        )  # fmt: skip
        super().__init__("train", folder, config)

    def __exit__(self, *error: object) -> None:
        if len(error) < 2 or not isinstance(error[1], NotFinite):
            super().__exit__(*error)


def folder_of(options: argparse.Namespace) -> Path:
    """Where the checkpoints of a run are, by default beside the model that it writes."""
    output = Path(options.output)
    return Path(options.checkpoints) if options.checkpoints else output.with_name(f"{output.stem}.checkpoints")


def settings_of(options: argparse.Namespace, network: Network, steps: int) -> str:
    """What a run that goes on must have in common with the one that was stopped, as text."""
    model = hashlib.sha256(network.cell.original.data).hexdigest()
    found: dict[str, Any] = {name: getattr(options, name) for name in FROM_OPTIONS}
    if options.schedule != "constant":
        found["epochs"] = options.epochs
    return json.dumps({"model": model, "steps of an epoch": steps, **found}, sort_keys=True)


def resume(step: nn.Cell, folder: Path, settings: str) -> int:
    """Give a training step the state of the last checkpoint in a folder; returns how many steps were done by then.

    Raises GraphValueError where there is none, and where it is of a run with other settings.
    """
    files = sorted(folder.glob("*.ckpt"), key=lambda file: file.stat().st_mtime_ns)
    if not files:
        raise GraphValueError(f"There is no checkpoint in {folder} to go on from; train without --resume.")
    entries = load_checkpoint(files[-1])
    _check(files[-1], str(entries.pop(SETTINGS, "{}")), settings)
    missing, _ = load_param_into_net(step, entries)
    if missing or STEP not in entries:
        lacking = [*missing, STEP][0]
        raise GraphValueError(f"{files[-1]} has no {lacking!r}; it is of another model or version of graphls.")
    return int(entries[STEP].asnumpy().item())


def _check(file: Path, before: str, now: str) -> None:
    """Raise GraphValueError for a checkpoint of a run with other settings."""
    try:
        old, new = dict(parse_json(before)), json.loads(now)
    except (TypeError, ValueError):
        raise GraphValueError(f"{file} says by no settings how it was trained; train without --resume.") from None
    for name in new:
        if old.get(name) != new[name]:
            if name == "model":
                raise GraphValueError(f"{file} is of another model; train without --resume.")
            option = f"--{name.replace('_', '-')}" if name in (*FROM_OPTIONS, "epochs") else name
            option = {"shuffle": "a shuffle that is"}.get(name, option)
            text = f"{file} is of a run with {option} {old.get(name)}, not {new[name]}"
            raise GraphValueError(f"{text}; give what that run had, or train without --resume.")
