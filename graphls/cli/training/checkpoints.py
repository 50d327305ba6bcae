"""Saves the checkpoints of a run and resumes from the last one."""

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
from graphls.cli.training.overflows import NotFinite
from graphls.train import CheckpointConfig, ModelCheckpoint, load_checkpoint, load_param_into_net

SETTINGS, STEP = "settings", "step_num"
FROM_OPTIONS = (
    "loss", "optimizer", "learning_rate", "weight_decay", "clip", "batch_size", "schedule", "warmup", "precision",
    "loss_scale", "trainable", "frozen", "prediction", "fixed", "bind", "label", "seed", "shuffle",
    "lora", "lora_match", "lora_alpha", "accumulate_steps", "clip_value", "ema_decay",
)  # fmt: skip
"""Options that must be the same in a resumed run."""


class Checkpoints(ModelCheckpoint):
    """Saves the state of a run, also after Ctrl-C; not if the loss, and so the state, is infinite or nan."""

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
    """The folder of the checkpoints of a run, by default beside the model that it writes."""
    output = Path(options.output)
    return Path(options.checkpoints) if options.checkpoints else output.with_name(f"{output.stem}.checkpoints")


def settings_of(options: argparse.Namespace, network: Network, steps: int) -> str:
    """The settings that a resumed run must share with the stopped one, as JSON."""
    model = hashlib.sha256(network.cell.original.data).hexdigest()
    settings: dict[str, Any] = {name: getattr(options, name) for name in FROM_OPTIONS}
    if options.schedule != "constant":
        settings["epochs"] = options.epochs
    return json.dumps({"model": model, "steps of an epoch": steps, **settings}, sort_keys=True)


def resume(step: nn.Cell, folder: Path, settings: str) -> int:
    """Load the last checkpoint in a folder into a training step; returns the number of steps done by then.

    Raises GraphValueError if there is no checkpoint, or if it is of a run with other settings.
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
        raise GraphValueError(f"{file} does not hold the settings of its run; train without --resume.") from None
    for name in new:
        if old.get(name) != new[name]:
            if name == "model":
                raise GraphValueError(f"{file} is of another model; train without --resume.")
            option = f"--{name.replace('_', '-')}" if name in (*FROM_OPTIONS, "epochs") else name
            option = {"shuffle": "a shuffle that is"}.get(name, option)
            text = f"{file} is of a run with {option} {old.get(name)}, not {new[name]}"
            raise GraphValueError(f"{text}; give what that run had, or train without --resume.")
