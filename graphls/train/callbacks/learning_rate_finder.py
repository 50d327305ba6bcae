"""Finding a learning rate: it rises from step to step, and the losses tell which ones train."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from graphls.base.checks import between, boolean, positive, positive_int
from graphls.base.errors import GraphValueError
from graphls.base.files.files import as_path, write_text
from graphls.base.reporting import warn
from graphls.base.text.charts import Line, chart, number
from graphls.base.text.colours import both
from graphls.base.text.html import STYLE, escape
from graphls.frontend.tensors.tensor import Tensor
from graphls.train.callbacks.callback import Callback, RunContext, loss_of, was_skipped
from graphls.train.callbacks.learning_rates import rate_parameter

RAW, SMOOTH = both("wire"), both("accent")


class LearningRateFinder(Callback):
    """Trains for `steps` steps with rates from `lowest` to `highest`, a constant factor apart, and gives all back.

    Every state of the train network, the learning rate too, is afterwards as it was before. The run is stopped behind
    the last step, or where the loss is no number or `limit` times the least one; give it as many epochs as that takes.
    `rates` and `losses` are what was tried, `smoothed` the losses averaged with a weight of `smoothing` on the past,
    and `suggestion` is the rate at which these fall fastest, None where they never do. A notebook shows the finder as a
    chart, and `write` makes a page of it. From Smith, "Cyclical Learning Rates" (2017). Raises GraphTypeError and
    GraphValueError for arguments that do not fit and, in training, GraphValueError in sink mode and where the learning
    rate is a list, a schedule or one for each group of parameters.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import LearningRateFinder, Model
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(64, 4)).astype(np.float32)
        >>> rows = ds.NumpySlicesDataset((x, x.sum(1, keepdims=True)), ["x", "y"]).batch(8)
        >>> net = nn.Dense(4, 1)
        >>> finder = LearningRateFinder(steps=20, verbose=False)
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(3, rows, callbacks=[finder])
        >>> len(finder.rates) > 10, 1e-7 < finder.suggestion < 1
        (True, True)
    """

    def __init__(
        self,
        lowest: float = 1e-7,
        highest: float = 1.0,
        steps: int = 100,
        smoothing: float = 0.9,
        limit: float = 4.0,
        verbose: bool = True,
    ) -> None:
        name = type(self).__name__
        self.lowest, self.highest = positive(name, "lowest", lowest), positive(name, "highest", highest)
        if lowest >= highest:
            raise GraphValueError(f"For {name!r}, 'lowest' must be below 'highest', but they are {lowest}, {highest}.")
        self.steps = positive_int(name, "steps", steps)
        self.smoothing = between(0.0, 0.99)(name, "smoothing", smoothing)
        self.limit = between(1.0)(name, "limit", limit)
        self.verbose = boolean(name, "verbose", verbose)
        self._begin()

    def _begin(self) -> None:
        self.rates: list[float] = []
        self.losses: list[float] = []
        self.smoothed: list[float] = []
        self._tried = 0
        self._mean = 0.0
        self._kept: dict[Any, np.ndarray[Any, Any]] = {}

    def on_train_begin(self, run_context: RunContext) -> None:
        """Keep every state, and begin with the lowest rate."""
        told = run_context.original_args()
        if told.dataset_sink_mode:
            raise GraphValueError("LearningRateFinder changes the rate after each step: give dataset_sink_mode=False.")
        rate = rate_parameter(type(self).__name__, told)
        self._begin()
        self._kept = {p: p.asnumpy() for p in (*told.train_network.get_parameters(), rate)}
        rate.set_data(Tensor(self.lowest, rate.dtype))

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Take the loss down, and go on with the next rate."""
        told = run_context.original_args()
        loss = loss_of(told.net_outputs)
        self._tried += 1
        if loss is not None and not was_skipped(told.net_outputs):
            self._add(self._rate(self._tried - 1), loss)
        if self._tried >= self.steps or self._is_lost():
            run_context.request_stop()
            return
        rate = rate_parameter(type(self).__name__, told)
        rate.set_data(Tensor(self._rate(self._tried), rate.dtype))

    def _rate(self, step: int) -> float:
        return float(self.lowest * (self.highest / self.lowest) ** (step / max(self.steps - 1, 1)))

    def _add(self, rate: float, loss: float) -> None:
        self.rates.append(rate)
        self.losses.append(loss)
        self._mean = self.smoothing * self._mean + (1 - self.smoothing) * loss
        self.smoothed.append(self._mean / (1 - self.smoothing ** len(self.losses)))

    def _is_lost(self) -> bool:
        """Whether the last loss says that higher rates are of no use."""
        if not self.losses:
            return False
        last, least = self.smoothed[-1], min(self.smoothed)
        return not math.isfinite(last) or (least > 0 and last > self.limit * least)

    def on_train_end(self, run_context: RunContext) -> None:
        """Print what was found."""
        if self._tried < self.steps and not self._is_lost():
            text = f"LearningRateFinder tried {self._tried} of {self.steps} rates; give the run more epochs."
            warn(text)
        if self.verbose:
            print(self.summary(), flush=True)

    def __exit__(self, *error: object) -> None:
        for parameter, array in self._kept.items():
            parameter.set_data(array)
        self._kept = {}

    @property
    def suggestion(self) -> float | None:
        """The rate at which the smoothed losses fall fastest, over the logarithm of the rate; None if they never do."""
        finite = [(r, loss) for r, loss in zip(self.rates, self.smoothed, strict=True) if math.isfinite(loss)]
        finite = finite[len(finite) // 10 :]  # the first averages are of few losses, and leap
        if len(finite) < 3:
            return None
        rates, losses = np.transpose(finite)
        slopes = np.gradient(losses, np.log(rates))
        steepest = int(np.argmin(slopes))
        return float(rates[steepest]) if slopes[steepest] < 0 else None

    def summary(self) -> str:
        """What was found, in a sentence."""
        found = self.suggestion
        if found is None:
            return f"Of {len(self.rates)} learning rates none lets the loss fall."
        return f"Of {len(self.rates)} learning rates, the loss falls fastest at {found:.3g}."

    def _repr_html_(self) -> str:
        raw = Line("loss", [*zip(self.rates, self.losses, strict=True)], RAW)
        smooth = Line("smoothed", [*zip(self.rates, self.smoothed, strict=True)], SMOOTH)
        marks = [] if self.suggestion is None else [self.suggestion]
        drawn = chart("Loss over the learning rate", [raw, smooth], marks=marks, has_log_steps=True)
        return f'{STYLE}<figure class="graphls-card">{drawn}<figcaption>{escape(self.summary())}</figcaption></figure>'

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a page with the chart; raises GraphFileError where it cannot be written."""
        head = '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>Learning rates</title>'
        style = "<style>:root{color-scheme:light dark}body{font:14px system-ui,sans-serif;margin:2em}</style></head>"
        rows = "".join(
            f"<tr><td>{rate:.3g}</td><td>{number(loss)}</td></tr>"
            for rate, loss in zip(self.rates, self.losses, strict=True)
        )
        table = f"<details><summary>Numbers</summary><table><tr><th>rate<th>loss</tr>{rows}</table></details>"
        write_text(as_path(path), f"{head}{style}\n<body>\n{self._repr_html_()}\n{table}\n</body>\n</html>\n")
