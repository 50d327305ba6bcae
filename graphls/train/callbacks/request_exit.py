"""Ending training and evaluation in good order where the process is asked to end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphls.base.checks import boolean
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.files.files import parse_json, read_bytes
from graphls.frontend.tensors.random import random_state
from graphls.train.callbacks.callback import Callback, RunContext
from graphls.train.serialization import save_checkpoint


class OnRequestExit(Callback):
    """Stops training after the step in which the process got a signal, and saves a checkpoint.

    `sig` is SIGTERM or SIGINT. A request is also a `config_file`, JSON, that holds {"GracefulExit": 1}; it is looked at
    after each step. With `save_ckpt`, every state of the train network is saved as `<file_name>_train.ckpt` in
    `directory`, with the numbers of epoch and step and the random state, from which training can go on exactly; in
    evaluation, those of the evaluation network as `<file_name>_eval.ckpt`. `save_mindir` writes no file, as there is
    no MindIR here; `graphls.train.export` writes ONNX. What the signal did before is restored at the end of the
    run. Raises GraphTypeError and GraphValueError for arguments that do not fit, GraphRuntimeError where the run is not
    in the main thread, which alone gets signals.

    Examples:
        >>> from graphls.train import OnRequestExit
        >>> callback = OnRequestExit(save_mindir=False, file_name="digits", directory="checkpoints")
    """

    def __init__(
        self,
        save_ckpt: bool = True,
        save_mindir: bool = True,
        file_name: str = "Net",
        directory: str | os.PathLike[str] = "./",
        config_file: str | os.PathLike[str] | None = None,
        sig: Any = signal.SIGTERM,
    ) -> None:
        name = type(self).__name__
        self.save_ckpt = boolean(name, "save_ckpt", save_ckpt)
        self.save_mindir = boolean(name, "save_mindir", save_mindir)
        if not isinstance(file_name, str) or not file_name:
            raise GraphTypeError(f"The 'file_name' of {name} is a string, not {file_name!r}.")
        if sig not in (signal.SIGTERM, signal.SIGINT):
            raise GraphValueError(f"The 'sig' of {name} is SIGTERM or SIGINT, not {sig!r}.")
        self.file_name = file_name
        self.directory = Path(directory)
        self.config_file = None if config_file is None else Path(config_file)
        self.sig = sig
        self.is_requested = False
        self._before: Any = None

    def __enter__(self) -> OnRequestExit:
        if threading.current_thread() is not threading.main_thread():
            text = "Only the main thread gets signals, so OnRequestExit works only there."
            raise GraphRuntimeError(text)
        self.is_requested = False
        self._before = signal.signal(self.sig, self._request)
        return self

    def __exit__(self, *error: object) -> None:
        signal.signal(self.sig, self._before)

    def _request(self, number: int, frame: object) -> None:
        self.is_requested = True

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Stop where it is asked for."""
        if self.is_requested or self._is_configured():
            self.is_requested = True
            run_context.request_stop()

    def on_train_end(self, run_context: RunContext) -> None:
        """Save the train network after a request."""
        told = run_context.original_args()
        if self.is_requested and self.save_ckpt:
            steps = {"epoch_num": told.cur_epoch_num, "step_num": told.cur_step_num}
            self._save(told.train_network, "train", {**steps, "random_state": random_state()})

    def on_eval_end(self, run_context: RunContext) -> None:
        """Save the evaluation network after a request."""
        if self.is_requested and self.save_ckpt and run_context.original_args().get("train_network") is None:
            self._save(run_context.original_args().eval_network, "eval", {})

    on_eval_step_end = on_train_step_end

    def _save(self, network: object, mode: str, entries: Mapping[str, object]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        save_checkpoint(network, str(self.directory / f"{self.file_name}_{mode}.ckpt"), append_dict=entries)

    def _is_configured(self) -> bool:
        """Whether the file asks to end; one that is being written, and so is no JSON yet, does not."""
        if self.config_file is None:
            return False
        try:
            content = parse_json(read_bytes(self.config_file))
        except (OSError, ValueError):
            return False
        return isinstance(content, dict) and content.get("GracefulExit") == 1
