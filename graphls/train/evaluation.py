"""Evaluation of a network by metrics over a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.tensors.tensor import Tensor, is_tensor
from graphls.nn.called_function import as_cell
from graphls.nn.cell import Cell
from graphls.nn.train_step import WithEvalCell
from graphls.runtime.context.device_layout import DeviceLayout
from graphls.step.calling.cache import cache_of
from graphls.step.step import Compiled
from graphls.train.callbacks.callback import CallbackManager, RunContext, loss_of
from graphls.train.feeding import NO_DATA, Feed
from graphls.train.flow import Row
from graphls.train.metrics import Loss, get_metric_fn
from graphls.train.ranks import joint_shards, of_all_ranks
from graphls.train.runner import ModeSwitch

METRIC_METHODS = ("clear", "update", "eval")


@dataclass(eq=False, repr=False)
class Evaluation:
    """A network to evaluate, its backbone, and the metrics of its outputs.

    `indexes` are the positions of the loss, the prediction and the label among the outputs; None passes all outputs to
    metrics. `columns` is the number of columns of a row, None for any.
    """

    network: Cell
    backbone: Cell
    metrics: dict[str, Any]
    indexes: list[int] | None
    columns: int | None = None
    engine: str | None = None
    layout: DeviceLayout | None = None

    def __post_init__(self) -> None:
        self.mode = ModeSwitch(self.network, False, self.backbone)
        self.cache = cache_of(self.network, self.engine, self.layout)

    def find(self, row: Row) -> Compiled:
        """The step for a row, compiled on first use."""
        return self.mode.find(self.cache, row)

    def run(self, dataset: Any, callbacks: CallbackManager, context: RunContext) -> dict[str, Any]:
        """Evaluate on a dataset once, with the hooks around it; returns the metrics, and stores them in the state.

        Where the dataset is a shard of this rank, the metrics are those of the rows of all ranks.
        """
        state = context.original_args()
        for metric in self.metrics.values():
            metric.clear()
        callbacks.on_eval_begin(context)
        callbacks.on_eval_epoch_begin(context)
        with joint_shards(dataset) as is_joint:
            losses = self._losses(dataset, callbacks, context, is_joint)
        callbacks.on_eval_epoch_end(context)
        state.metrics = {name: map_leaves(_plain, metric.eval()) for name, metric in self.metrics.items()}
        eval_loss = {} if self.indexes is None else {"eval_loss": float(np.mean(losses))}
        state.eval_results = {**eval_loss, **state.metrics}
        callbacks.on_eval_end(context)
        return dict(state.metrics)

    def _losses(self, dataset: object, callbacks: CallbackManager, context: RunContext, is_joint: bool) -> list[Any]:
        """The loss of each step, None for a step without one."""
        losses: list[Any] = []
        with Feed(dataset, "valid_dataset", self.columns, num_epochs=1) as feed:
            rows = feed.epoch()
            while True:
                row = next(rows, None)
                outputs = None if row is None else self._step(row, callbacks, context)
                stops = context.get_stop_requested()
                steps = [outputs] if outputs is not None else []
                if is_joint:
                    steps, stops = _of_all_ranks(outputs, stops)
                losses += map(self._update_metrics, steps)
                if stops or not steps:
                    break
        if not losses:
            raise GraphValueError(NO_DATA)
        return losses

    def _step(self, row: Row, callbacks: CallbackManager, context: RunContext) -> tuple[Any, ...]:
        """Run one step and return its outputs."""
        state = context.original_args()
        state.cur_step_num += 1
        callbacks.on_eval_step_begin(context)
        outputs = state.net_outputs = self.find(row)(*row)
        callbacks.on_eval_step_end(context)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        self._check(outputs)
        return tuple(outputs)

    def _update_metrics(self, outputs: tuple[Any, ...]) -> float | None:
        """Update the metrics by the outputs of a step; returns the loss among them, if any."""
        for metric in self.metrics.values():
            try:
                metric.update(*self._inputs_of(metric, outputs))
            except GraphValueError as error:
                if self.indexes is not None or len(outputs) < 3:
                    raise
                positions = "give eval_indexes=[0, 1, 2] for an eval_network of loss, prediction and label"
                raise GraphValueError(f"{error.message.rstrip('.')}; {positions}.", error.location) from None
        return None if self.indexes is None else loss_of(outputs[self.indexes[0]])

    def _check(self, outputs: object) -> None:
        if not isinstance(outputs, tuple):
            text = f"An eval_network returns a tensor or a tuple, not {type(outputs).__name__}."
            raise GraphTypeError(text)
        if self.indexes is not None and len(outputs) < 3:
            text = f"The length of 'outputs' of the eval_network must be >= 3, but got {len(outputs)}."
            raise GraphValueError(text)

    def _inputs_of(self, metric: Any, outputs: Any) -> Any:
        """The outputs that update a metric; one with indexes of its own chooses among all."""
        if self.indexes is None or getattr(metric, "indexes", None):
            return outputs
        loss, prediction, label = (outputs[i] for i in self.indexes)
        return (loss,) if isinstance(metric, Loss) else (prediction, label)


def _plain(value: object) -> object:
    """A number of NumPy as one of Python, which prints without its type."""
    return value.item() if isinstance(value, np.generic) else value


def _of_all_ranks(outputs: tuple[Any, ...] | None, stops: bool) -> tuple[list[tuple[Any, ...]], bool]:
    """The outputs of a step on each rank that has one, and whether any rank stops."""
    arrays = None if outputs is None else map_leaves(lambda x: x.asnumpy() if isinstance(x, Tensor) else x, outputs)
    everyone, is_end = of_all_ranks(arrays, stops)
    return [map_leaves(lambda x: Tensor(x) if is_tensor(x) else x, tuple(each)) for each in everyone], is_end


def metrics_of(metrics: Any) -> dict[str, Any]:
    """Metrics by name: of a dict of objects, or of names in a set, list or tuple.

    Raises GraphTypeError for anything else and for an object that is not a metric, KeyError for an unknown name.
    """
    if metrics is None:
        return {}
    if isinstance(metrics, (set, frozenset, list, tuple)):
        for metric in metrics:
            if not isinstance(metric, str):
                text = f"A list of metrics has their names, not {metric!r}; give objects in a dict, {{'mine': metric}}."
                raise GraphTypeError(text)
        names = sorted(metrics) if isinstance(metrics, (set, frozenset)) else metrics
        return {name: get_metric_fn(name) for name in names}
    if not isinstance(metrics, dict):
        text = f"The argument 'metrics' is a dict of metrics or a set of names, but got {metrics!r}."
        raise GraphTypeError(text)
    for name, metric in metrics.items():
        if not all(callable(getattr(metric, method, None)) for method in METRIC_METHODS):
            text = f"The metric {name!r} has clear, update and eval, and {metric!r} has not"
            raise GraphTypeError(f"{text}; derive it from train.Metric.")
    return dict(metrics)


def evaluation_of(
    network: Cell, loss_fn: Cell | None, metrics: Any, eval_network: object, indexes: object, is_mixed: bool,
    engine: str | None = None, layout: DeviceLayout | None = None,
) -> Evaluation | None:  # fmt: skip
    """The evaluation of a model, None for one without metrics; raises as Model does."""
    by_name = metrics_of(metrics)
    if not by_name:
        return None
    if eval_network is None:
        if loss_fn is None:
            raise GraphValueError(
                "If 'metrics' is set, 'eval_network' or 'loss_fn' must not be None: they tell what to evaluate.",
            )
        return Evaluation(WithEvalCell(network, loss_fn, is_mixed), network, by_name, [0, 1, 2], 2, engine, layout)
    eval_network = as_cell(eval_network, "eval_network")
    if indexes is not None and not (isinstance(indexes, list) and len(indexes) == 3):
        raise GraphValueError(
            "The argument 'eval_indexes' must be a list or None. If 'eval_indexes' is a list, length of it must be "
            f"three. But got 'eval_indexes' {indexes}.",
        )
    return Evaluation(eval_network, network, by_name, indexes, engine=engine, layout=layout)
