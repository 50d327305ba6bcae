"""CheckpointConfig: the schedule of checkpoints during training, their content, and the number of files to keep."""

from __future__ import annotations

from typing import Any

from graphls.base.checks import boolean, not_negative_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.frontend.tensors.tensor import Tensor
from graphls.nn.cell import Cell
from graphls.train.serialization import FORMATS, SHARDS

COUNTS = ("epoch_num", "step_num")
RANDOM_STATE = "random_state"
POLICY = ("save_checkpoint_steps", "save_checkpoint_seconds", "keep_checkpoint_max", "keep_checkpoint_per_n_minutes")


class CheckpointConfig:
    """The schedule of a ModelCheckpoint, the content of its files, and which files it keeps.

    - `save_checkpoint_steps`: the steps between saves; `save_checkpoint_seconds` counts only where it is 0 or None.
    - `keep_checkpoint_max`: the number of newest files to keep. Only where it is 0 or None, one file is kept for every
      `keep_checkpoint_per_n_minutes`; where that is 0 or None as well, one file.
    - `saved_network`: the network that is saved instead of the training step.
    - `append_info`: a list of "epoch_num" and "step_num", which become entries with the numbers of the epoch and of the
      step, and one dict of further entries: numbers, strings and tensors. ("random_state" is always saved with the
      training step; with a `saved_network` only where it is listed.)
    - `exception_save`: a training that ends by an exception saves the state after the last completed step.
    - `integrated_save`, `async_save`, `crc_check`, `format`, `enc_key` and `enc_mode`: see `save_checkpoint`.

    Raises GraphTypeError and GraphValueError for arguments that do not fit.

    Examples:
        >>> from graphls.train import CheckpointConfig, ModelCheckpoint
        >>> config = CheckpointConfig(save_checkpoint_steps=100, keep_checkpoint_max=3)
        >>> callback = ModelCheckpoint("net", "checkpoints", config)
        >>> config.save_checkpoint_steps, config.keep_checkpoint_max
        (100, 3)
    """

    def __init__(
        self, save_checkpoint_steps: int | None = 1, save_checkpoint_seconds: int | None = 0,
        keep_checkpoint_max: int | None = 5, keep_checkpoint_per_n_minutes: int | None = 0,
        integrated_save: bool = True, async_save: bool = False, saved_network: Cell | None = None,
        append_info: list[object] | None = None, enc_key: bytes | None = None, enc_mode: str = "AES-GCM",
        exception_save: bool = False, crc_check: bool = False, remove_redundancy: bool = False, format: str = "ckpt",
        map_param_inc: bool = False,
    ) -> None:  # fmt: skip
        self.save_checkpoint_steps = _count("save_checkpoint_steps", save_checkpoint_steps)
        self.save_checkpoint_seconds = _count("save_checkpoint_seconds", save_checkpoint_seconds)
        self.keep_checkpoint_max = _count("keep_checkpoint_max", keep_checkpoint_max)
        self.keep_checkpoint_per_n_minutes = _count("keep_checkpoint_per_n_minutes", keep_checkpoint_per_n_minutes)
        if not any(getattr(self, name) for name in POLICY):
            names = ", ".join(map(repr, POLICY))
            raise _wrong(GraphValueError, f"the input arguments {names} can't be all None or 0")
        self._apply_precedence()
        if saved_network is not None and not isinstance(saved_network, Cell):
            raise _wrong(GraphTypeError, f"the 'saved_network' must be None or Cell, but got {saved_network!r}")
        self.saved_network = saved_network
        self.append_dict = _appendix(append_info)
        self.integrated_save = _flag("integrated_save", integrated_save)
        self.async_save = _flag("async_save", async_save)
        self.exception_save = _flag("exception_save", exception_save)
        self.crc_check = _flag("crc_check", crc_check)
        self.remove_redundancy = _flag("remove_redundancy", remove_redundancy)
        self.map_param_inc = _flag("map_param_inc", map_param_inc)  # of MapParameters, of which there are none
        if enc_key is not None:
            raise GraphValueError(refusal("encryption", "the 'enc_key' of 'CheckpointConfig'"))
        self.enc_key, self.enc_mode = enc_key, enc_mode
        if format not in FORMATS:
            raise _wrong(GraphValueError, f"the 'format' must be one of {list(FORMATS)}, but got {format!r}")
        if format != "ckpt" and crc_check:
            raise _wrong(GraphValueError, "only a file of the format 'ckpt' has a 'crc_check'")
        if format == SHARDS and async_save:
            raise _wrong(GraphValueError, "the format 'shards' has no 'async_save', as processes save it together")
        self.format = format

    def _apply_precedence(self) -> None:
        """Of two rules for one setting, the first counts."""
        if self.save_checkpoint_steps:
            self.save_checkpoint_seconds = None
        if self.keep_checkpoint_max:
            self.keep_checkpoint_per_n_minutes = None
        elif not self.keep_checkpoint_per_n_minutes:
            self.keep_checkpoint_max = 1

    def get_checkpoint_policy(self) -> dict[str, Any]:
        """The rules by name, and the saved network."""
        return {name: getattr(self, name) for name in (*POLICY, "saved_network")}


def _wrong(kind: type[Exception], text: str) -> Exception:
    return kind(f"For 'CheckpointConfig', {text}.")


def _flag(name: str, value: object) -> bool:
    return boolean("CheckpointConfig", name, value)


def _count(name: str, value: object) -> int | None:
    return None if value is None else not_negative_int("CheckpointConfig", name, value)


def _appendix(append_info: object) -> dict[str, Any]:
    """The entries of `append_info`; epoch, step and random state are 0 for now."""
    if append_info is None:
        return {}
    if not isinstance(append_info, list):
        raise _wrong(GraphTypeError, f"the type of 'append_info' must be list, but got {type(append_info)}")
    known = (*COUNTS, RANDOM_STATE)
    for element in append_info:
        if not isinstance(element, (str, dict)):
            raise _wrong(GraphTypeError, f"an element of 'append_info' must be str or dict, but got {type(element)}")
        if isinstance(element, str) and element not in known:
            raise _wrong(GraphValueError, f"a string in 'append_info' must be in {list(known)}, but got {element!r}")
    dicts = [element for element in append_info if isinstance(element, dict)]
    if len(dicts) > 1:
        raise _wrong(GraphTypeError, f"the 'append_info' must have only one dict, but got {len(dicts)}")
    for name, value in (item for entries in dicts for item in entries.items()):
        if not isinstance(name, str) or not isinstance(value, (bool, int, float, str, Tensor)):
            raise _wrong(
                GraphTypeError,
                "the keys of the dict in 'append_info' must be string and its values int, float, bool, str or Tensor, "
                f"but got {type(name)} and {type(value)}",
            )
    listed = {name: 0 for name in append_info if isinstance(name, str)}
    return listed | (dicts[0] if dicts else {})
