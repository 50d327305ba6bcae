"""Names of `mindspore.train.callback` that are not public: what callbacks are told, and files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from graphls.frontend.tensors.tensor import is_tensor
from graphls.nn.cell import Cell
from graphls.train.callbacks.callback import Callback, CallbackManager, InternalCallbackParam
from graphls.train.callbacks.checkpoint import remove_file, unused_prefix

_CallbackManager, _InternalCallbackParam = CallbackManager, InternalCallbackParam

__all__ = [
    "CallbackManager", "CheckpointManager", "InternalCallbackParam", "_CallbackManager", "_CheckpointManager",
    "_InternalCallbackParam", "_StepSync", "_chg_ckpt_file_name_if_same_exist", "_handle_loss", "_set_cur_net",
    "set_cur_net",
]  # fmt: skip


class _CheckpointManager:
    """The checkpoint files of one prefix in a folder, oldest first."""

    def __init__(self, format: str = "ckpt") -> None:
        self._format = format
        self._files: list[str] = []

    @property
    def ckpoint_filelist(self) -> list[str]:
        """The paths of the files."""
        return self._files

    @property
    def ckpoint_num(self) -> int:
        """How many files there are."""
        return len(self._files)

    def update_ckpoint_filelist(self, directory: str, prefix: str) -> None:
        """Look which files of a prefix are in a folder: `<prefix>-<epoch>_<step>`, without other prefixes."""
        pattern = re.compile(rf"{re.escape(prefix)}-\d+_\d+\.{re.escape(self._format)}")
        found = [os.path.join(directory, name) for name in os.listdir(directory) if pattern.fullmatch(name)]
        self._files = sorted(found, key=os.path.getmtime)

    def remove_ckpoint_file(self, file_name: str) -> None:
        """Remove a file, with a warning where that cannot be done."""
        remove_file(Path(file_name))
        self._files = [name for name in self._files if name != file_name]

    def remove_oldest_ckpoint_file(self) -> None:
        """Remove the oldest file."""
        self.remove_ckpoint_file(min(self._files, key=os.path.getmtime))

    def keep_one_ckpoint_per_minutes(self, minutes: float, cur_time: float) -> None:
        """Remove the files of the last `minutes` but the oldest of them."""
        recent = [name for name in self._files if cur_time - os.path.getmtime(name) <= 60 * minutes]
        for name in sorted(recent, key=os.path.getmtime)[1:]:
            self.remove_ckpoint_file(name)


CheckpointManager = _CheckpointManager


def _chg_ckpt_file_name_if_same_exist(directory: str, prefix: str, exception: bool = False) -> Any:
    """The prefix, or with a number behind it where checkpoints in the folder have it."""
    return prefix if callable(prefix) or callable(directory) else unused_prefix(Path(directory), prefix)


def set_cur_net(net: Cell | None) -> None:
    """Nothing: MindSpore keeps the network for operators that save on their own, and there are none."""


_set_cur_net = set_cur_net


class _StepSync(Callback):
    """Does nothing: what a step computes is there when it ends."""


def _handle_loss(loss: Any) -> Any:
    """The first of several results; of one tensor the mean of its elements as a number."""
    if isinstance(loss, (tuple, list)):
        return loss[0] if is_tensor(loss[0]) else loss
    return float(np.mean(loss.asnumpy())) if is_tensor(loss) else loss
