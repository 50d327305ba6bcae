"""What callbacks share that watch one number of each epoch."""

from __future__ import annotations

import math

from graphls.base.checks import not_negative
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import warn
from graphls.train.callbacks.callback import InternalCallbackParam
from graphls.train.callbacks.outputs import loss_of
from graphls.train.together import mean_over_ranks

MODES = ("auto", "min", "max")


class Monitored:
    """A number that is to fall or to rise from epoch to epoch.

    `monitor` is "loss", the loss of the epoch's last step, or a name among the results of evaluations in `Model.fit`:
    "eval_loss" or that of a metric. In the mode "auto" it is to rise where "acc" is in its name, else to fall; a
    change counts from `min_delta` on. Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    def __init__(self, owner: str, monitor: str, mode: str, min_delta: float) -> None:
        if not isinstance(monitor, str):
            text = f"For {owner!r}, the 'monitor' must be a string, but got {monitor!r}."
            raise GraphTypeError(text)
        if not isinstance(mode, str):
            text = f"The type of 'mode' should be 'str', but got type {type(mode).__name__!r}."
            raise GraphTypeError(text)
        if mode not in MODES:
            known = ", ".join(map(repr, MODES))
            text = f"For {owner!r}, the 'mode' must be one of {known}, but got {mode!r}."
            raise GraphValueError(text)
        self.owner = owner
        self.monitor = monitor
        self.min_delta = not_negative(owner, "min_delta", min_delta)
        self.rises = mode == "max" or (mode == "auto" and "acc" in monitor)
        self.worst = -math.inf if self.rises else math.inf

    def is_better(self, value: float, than: float) -> bool:
        """Whether one number is better than another by more than `min_delta`."""
        return value - self.min_delta > than if self.rises else value + self.min_delta < than

    def value(self, told: InternalCallbackParam) -> float | None:
        """The number of the epoch that has ended, its mean over all ranks; None, and a warning, where there is none.

        None without a warning after an epoch that no evaluation followed.
        """
        return mean_over_ranks(self._own_value(told))

    def _own_value(self, told: InternalCallbackParam) -> float | None:
        results = told.get("eval_results") or {}
        if self.monitor == "loss":
            return loss_of(told.get("net_outputs"))
        if self.monitor in results:
            return float(results[self.monitor])
        if results or told.get("eval_network") is None:
            known = ", ".join(map(repr, ["loss", *results]))
            warn(f"For {self.owner!r}, there is no {self.monitor!r} to monitor; those known are {known}.")
        return None
