"""Recorders of the numbers of a run: History in memory, and loggers for Weights & Biases and MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphls.base.checks import positive_int
from graphls.base.reporting import load_package
from graphls.train.callbacks.callback import Callback, RunContext, first_output, loss_of, scalars_of


class History(Callback):
    """Records the number of each epoch, its last step's output, and the results of evaluations in `Model.fit`.

    `epoch` is {"epoch": the numbers}; `history` has a list for "net_output", the loss as a float, and one for each
    result of an evaluation, such as "eval_loss". Both are reset when training begins.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import History, Model
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1, weight_init="zeros", bias_init="zeros")
        >>> history = History()
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.125)).train(2, rows, callbacks=[history])
        >>> history.epoch, [round(float(loss), 4) for loss in history.history["net_output"]]
        ({'epoch': [1, 2]}, [0.25, 0.0156])
    """

    def __init__(self) -> None:
        self.epoch: dict[str, list[int]] = {"epoch": []}
        self.history: dict[str, list[Any]] = {}

    def on_train_begin(self, run_context: RunContext) -> None:
        """Reset the record."""
        self.epoch = {"epoch": []}
        self.history = {}

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Record the epoch."""
        state = run_context.original_args()
        self.epoch["epoch"].append(state.get("cur_epoch_num", 1))
        loss = loss_of(state.net_outputs)
        row = {"net_output": first_output(state.net_outputs) if loss is None else loss}
        for name, value in {**row, **(state.get("eval_results") or {})}.items():
            self.history.setdefault(name, []).append(value)


class RunLogger(Callback):
    """The base of loggers: the numbers of every `every`-th step, and of each evaluation, go to `write`.

    Those are the loss, the learning rate where it is a number, and the loss scale; reading them waits for the step.
    """

    package = ""

    def __init__(self, every: int = 1) -> None:
        self.every = positive_int(type(self).__name__, "every", every)
        self._step_count = 0

    def start(self, package: Any) -> None:
        """Begin a run."""
        raise NotImplementedError(f"{type(self).__name__} does not define start.")

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Send numbers of a step."""
        raise NotImplementedError(f"{type(self).__name__} does not define write.")

    def finish(self, is_failed: bool) -> None:
        """End the run that `start` has begun."""
        raise NotImplementedError(f"{type(self).__name__} does not define finish.")

    def __enter__(self) -> RunLogger:
        self._step_count = 0
        subject = f"{type(self).__name__} needs the package {self.package}, which"
        self.start(load_package(self.package, subject, f"pip install {self.package}"))
        return self

    def __exit__(self, *error: object) -> None:
        self.finish(error[:1] not in ((), (None,)))

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Send the numbers that are due."""
        state = run_context.original_args()
        if self._step_count % self.every == 0:
            self._send({f"train/{name}": value for name, value in scalars_of(state).items()}, state.cur_step_num)
        self._step_count += 1

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Send the results of an evaluation in this epoch."""
        state = run_context.original_args()
        results = {f"eval/{name}": value for name, value in (state.get("eval_results") or {}).items()}
        self._send({"epoch": state.get("cur_epoch_num", 1), **results}, state.cur_step_num)

    def _send(self, values: Mapping[str, object], step: int) -> None:
        arrays = {name: np.asarray(value) for name, value in values.items()}
        self.write({name: float(a.reshape(())) for name, a in arrays.items() if a.size == 1}, step)


class WandbLogger(RunLogger):
    """Sends losses, rates, loss scales and evaluations to Weights & Biases, by the package wandb.

    `settings` are arguments of `wandb.init`, such as `project`, `name` and `config`; it is called when the run begins,
    and the run is finished when it ends, unless one was active before, which is used and stays open. Raises
    GraphRuntimeError, when the run begins, where wandb is not installed, and GraphTypeError and GraphValueError for
    an `every` that does not fit.

    Examples:
        >>> from graphls.train import WandbLogger
        >>> callback = WandbLogger(every=10, project="digits", mode="offline")
    """

    package = "wandb"

    def __init__(self, every: int = 1, **settings: Any) -> None:
        super().__init__(every)
        self.settings = settings
        self.run: Any = None
        self._is_own = False

    def start(self, package: Any) -> None:
        """Use the active run, or begin one."""
        self._is_own = package.run is None
        self.run = package.init(**self.settings) if self._is_own else package.run

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Send numbers of a step."""
        self.run.log(dict(values), step=step)

    def finish(self, is_failed: bool) -> None:
        """End the run, unless it was active before."""
        if self._is_own:
            self.run.finish(exit_code=int(is_failed))
        self.run = None


class MLflowLogger(RunLogger):
    """Sends losses, rates, loss scales and evaluations to MLflow, by the package mlflow.

    `tracking_uri` and `experiment` are set if they are passed; `settings` are arguments of `mlflow.start_run`, such as
    `run_name` and `tags`, and `parameters` are logged once. A run that was active before is used and stays open.
    Raises GraphRuntimeError, when the run begins, where mlflow is not installed, and GraphTypeError and
    GraphValueError for an `every` that does not fit.

    Examples:
        >>> from graphls.train import MLflowLogger
        >>> callback = MLflowLogger(every=10, experiment="digits")
    """

    package = "mlflow"

    def __init__(
        self, every: int = 1, *, experiment: str | None = None, tracking_uri: str | None = None,
        parameters: Mapping[str, object] | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(every)
        self.experiment, self.tracking_uri, self.parameters = experiment, tracking_uri, dict(parameters or {})
        self.settings = settings
        self._mlflow: Any = None
        self._is_own = False

    def start(self, package: Any) -> None:
        """Use the active run, or begin one."""
        self._mlflow, self._is_own = package, package.active_run() is None
        if self._is_own:
            if self.tracking_uri is not None:
                package.set_tracking_uri(self.tracking_uri)
            if self.experiment is not None:
                package.set_experiment(self.experiment)
            package.start_run(**self.settings)
        if self.parameters:
            package.log_params(self.parameters)

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Send numbers of a step."""
        self._mlflow.log_metrics(dict(values), step=step)

    def finish(self, is_failed: bool) -> None:
        """End the run, unless it was active before."""
        if self._is_own:
            self._mlflow.end_run("FAILED" if is_failed else "FINISHED")
        self._mlflow = None
