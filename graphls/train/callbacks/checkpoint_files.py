"""Files of checkpoints in a folder: names that are taken, and files that are kept."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from graphls.base.errors import GraphFileError, GraphTypeError
from graphls.base.files.files import remove_leftovers
from graphls.base.reporting import warn
from graphls.train.callbacks.checkpoint_config import CheckpointConfig


class Saved(NamedTuple):
    """A file that was saved, and when."""

    path: Path
    time: float


def unused_prefix(folder: Path, prefix: str) -> str:
    """The prefix itself, or with the number after the highest that checkpoints in this folder have.

    What trainings of this prefix that were killed have left unfinished is removed.
    """
    remove_leftovers(folder, prefix, ending="[-_]*")
    pattern = re.compile(re.escape(prefix) + r"(?:_(\d+))?-.*\.(?:ckpt|safetensors)")
    matches = filter(None, (pattern.fullmatch(name) for name in os.listdir(folder)))
    numbers = [int(match[1] or 0) for match in matches]
    return f"{prefix}_{max(numbers) + 1}" if numbers else prefix


def kept_files(saved: list[Saved], config: CheckpointConfig) -> list[Saved]:
    """Those of the files, oldest first, that a config keeps; the newest is always one of them."""
    if config.keep_checkpoint_max:
        return saved[-config.keep_checkpoint_max :]
    span = 60 * (config.keep_checkpoint_per_n_minutes or 0)
    kept: list[Saved] = []
    for file in saved:
        if not kept or file.time - kept[-1].time >= span:
            kept.append(file)
    return kept if not saved or kept[-1] is saved[-1] else [*kept, saved[-1]]


def made_folder(directory: object) -> Path:
    """A directory, made where it is missing."""
    if directory is not None and (not isinstance(directory, (str, os.PathLike)) or not os.fsdecode(directory)):
        raise GraphTypeError(f"For 'ModelCheckpoint', the 'directory' must be a string, but got {directory!r}.")
    path = Path(".") if directory is None else Path(os.fsdecode(directory))
    try:
        path = Path(os.path.abspath(path))
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise GraphFileError(f"The directory {path} cannot be made: {reason}.") from None
    return path


def remove_file(path: Path) -> None:
    """Remove a file; warn where that cannot be done."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        warn(f"The old checkpoint {path} cannot be removed: {error.strerror}.")
