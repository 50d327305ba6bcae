"""Model: training, evaluation and prediction of a network with few lines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from graphls.base.checks import boolean
from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.base.reporting import warn
from graphls.ir.engines import check_engine, check_mesh
from graphls.ir.sharding import Mesh
from graphls.nn.amp import Recipe
from graphls.nn.called_function import CellOrFunction, as_cell
from graphls.nn.cell import Cell
from graphls.nn.train_step_updates import Averaging
from graphls.runtime.context.parallel import get_auto_parallel_context
from graphls.step.calling.cache import cache_of
from graphls.step.shards import stated_layout
from graphls.train.callbacks.callback import CallbackManager, InternalCallbackParam, RunContext, callback_list
from graphls.train.evaluation import Evaluation, evaluation_of
from graphls.train.explanations import agree_on_explanations
from graphls.train.feeding import Feed, first_row, steps_of_epoch
from graphls.train.ranks import agree_on_writers
from graphls.train.runner import ModeSwitch, Training, TrainRunner
from graphls.train.settings import (
    check_settings,
    check_sink_size,
    epochs_to_train,
    train_network_of,
    updated_manager,
    valid_frequency_of,
)


class Model:
    """Trains, evaluates and runs a network.

    With an `optimizer`, the train network is built by `amp.build_train_network` from `network`, `loss_fn` and
    `amp_level`, with `loss_scale_manager` and `keep_batchnorm_fp32` if passed; with only a `loss_fn`, it is the
    network with the loss; with neither, `network` itself, which then does its own steps. `network`, `loss_fn` and
    `eval_network` may be functions of tensors, such as `ops.mse_loss`; cells that these read are parts of the network.

    `metrics` is a dict of metrics or a set of their names. They are updated with prediction and label, one of the
    class Loss with the loss. These are the outputs of `eval_network` at the positions `eval_indexes`, [loss,
    prediction, label]; without `eval_indexes`, every metric gets all outputs; without `eval_network`, the network and
    the loss are evaluated.

    With `accumulate_steps`, that many rows of the dataset make one update. Its gradients are clipped to a common norm
    of `clip_norm`, or each element to `clip_value`, and `ema_decay` keeps averages of the weights, with which `eval`,
    `fit` and `predict` compute with `use_ema=True`. All of this is part of the compiled step, as in
    `amp.build_train_network`, and of its checkpoints.

    Every network is compiled once for each signature of its inputs, in any mode of the context, and run by
    `engine`, by default that of the context ("auto" is the fastest one; see docs/engines.md), on the devices of a
    `mesh`, with the level `zero` of ZeRO, as `graphls.compile` says. `boost_level`, `acc_level` and
    `boost_config_dict` allow no boost, as there is none. Raises GraphTypeError and GraphValueError for arguments that
    do not fit, KeyError for an unknown metric or engine.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import Model
        >>> x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(16, 1)
        >>> rows = ds.NumpySlicesDataset((x, 3 * x), column_names=["x", "y"], shuffle=False).batch(4)
        >>> net = nn.Dense(1, 1, weight_init="zeros")
        >>> model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.5), metrics={"mse"})
        >>> before = model.eval(rows)["mse"]
        >>> model.train(3, rows)
        >>> model.eval(rows)["mse"] < before / 10
        True
    """

    def __init__(
        self, network: CellOrFunction, loss_fn: CellOrFunction | None = None, optimizer: Any = None,
        metrics: Any = None, eval_network: CellOrFunction | None = None, eval_indexes: list[int] | None = None,
        amp_level: str | Recipe = "O0", boost_level: str = "O0", engine: str | None = None, *,
        accumulate_steps: int = 1, clip_norm: float | None = None, clip_value: float | None = None,
        ema_decay: float | None = None, mesh: Mesh | None = None, zero: int | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        network = as_cell(network, "network")
        loss_fn = None if loss_fn is None else as_cell(loss_fn, "loss_fn")
        updates = {
            "accumulate_steps": accumulate_steps, "clip_norm": clip_norm, "clip_value": clip_value,
            "ema_decay": ema_decay,
        }  # fmt: skip
        check_settings(optimizer, amp_level, boost_level, updates, kwargs)
        layout = stated_layout(mesh, zero)
        if engine is not None and mesh is not None:
            check_mesh(engine, mesh, "cpu")
        if engine is not None:
            check_engine(engine, "cpu")
        self._network = network
        self._loss_fn = loss_fn
        self._optimizer = optimizer
        self._loss_scale_manager = kwargs.get("loss_scale_manager") or None
        self._train_network = train_network_of(network, loss_fn, optimizer, amp_level, updates, kwargs)
        self._updated_manager = updated_manager(self._loss_scale_manager, self._train_network)
        self._runner = TrainRunner(self._train_network, network, engine, layout)
        self._evaluation = evaluation_of(
            network, loss_fn, metrics, eval_network, eval_indexes, amp_level in ("O2", "O3", "auto"), engine,
            layout,
        )
        self._predictions = cache_of(network, engine, layout)
        self._predicting = ModeSwitch(network, False, network)

    def __repr__(self) -> str:
        """The classes of the network, the loss and the optimizer."""
        parts = (self._network, self._loss_fn, self._optimizer)
        return f"Model({', '.join(type(part).__name__ for part in parts if part is not None)})"

    # -- networks ----------------------------------------------------------------------------------------------

    @property
    def train_network(self) -> Cell:
        """The network that a step of training runs."""
        return self._train_network

    @property
    def predict_network(self) -> Cell:
        """The network that `predict` runs."""
        return self._network

    @property
    def eval_network(self) -> Cell | None:
        """The network that `eval` runs; None without metrics."""
        return None if self._evaluation is None else self._evaluation.network

    # -- training ---------------------------------------------------------------------------------------------

    def train(
        self, epoch: int, train_dataset: object, callbacks: object = None, dataset_sink_mode: bool = False,
        sink_size: int = -1, initial_epoch: int = 0,
    ) -> None:  # fmt: skip
        """Train from epoch `initial_epoch` + 1 to `epoch`.

        Each row of `train_dataset` is one step; with `loss_fn` it has two columns. `callbacks` is a Callback or a list
        of them. Each step: `on_train_step_begin`, the step, the update of a loss-scale manager, `on_train_step_end`.

        `train_dataset` is a dataset, or the batches of an epoch: a list of them, a loader with a length such as
        PyTorch's, or a generator function. A function is called once for each epoch, and once more to count them.

        With `dataset_sink_mode`, many steps of an epoch run in one call of the runtime, with the same results, and the
        hooks of a step are called once for all of them. A `sink_size` above 0 is then the number of steps of an epoch,
        and rows continue where the previous epoch ended; `batch_num` is that number. The loss-scale manager is not
        updated. Without `dataset_sink_mode`, `sink_size` changes nothing.

        To resume a run that was stopped after `step` steps, load its checkpoint and pass `step` to
        `train_dataset.set_init_step`: the dataset continues with its epoch `step` // steps of an epoch, training with
        the epoch after as many, which `initial_epoch` may repeat, and `cur_step_num` from `step`. `initial_epoch` alone
        sets the numbers of epochs and steps, and leaves the dataset at its start.

        Raises GraphTypeError and GraphValueError for arguments and rows that do not fit and for a dataset without data,
        GraphRuntimeError at the 1001st step in a row that overflowed, and what callbacks and datasets raise.
        """
        state = self._run_state("Model.train", train_dataset, callbacks, dataset_sink_mode, sink_size)
        epochs = epochs_to_train("Model.train", epoch, initial_epoch, state)
        self._train(epochs, state, sink_size, callbacks)

    def fit(
        self, epoch: int, train_dataset: object, valid_dataset: object = None, valid_frequency: int | list[int] = 1,
        callbacks: object = None, dataset_sink_mode: bool = False, valid_dataset_sink_mode: bool = False,
        sink_size: int = -1, initial_epoch: int = 0, *, use_ema: bool = False,
    ) -> None:  # fmt: skip
        """Train as `train` does, and evaluate on `valid_dataset` before the hooks of an epoch's end.

        `valid_frequency` is the number of epochs from one evaluation to the next, or a list of the epochs (from 1) that
        are followed by one; `use_ema` selects the weights, as in `eval`. Callbacks have its results in `metrics`, and
        with "eval_loss" in `eval_results`. Raises as `train` and `eval` do, and GraphRuntimeError for a `valid_dataset`
        where the model has no metrics.
        """
        state = self._run_state("Model.fit", train_dataset, callbacks, dataset_sink_mode, sink_size)
        epochs = epochs_to_train("Model.fit", epoch, initial_epoch, state)
        boolean("Model.fit", "valid_dataset_sink_mode", valid_dataset_sink_mode)
        weights = self._weights("Model.fit", use_ema)
        follows = valid_frequency_of(valid_frequency)
        if valid_dataset is None:
            self._train(epochs, state, sink_size, callbacks)
            return
        if self._evaluation is None:
            text = "If 'valid_dataset' is given, the argument 'metrics' of Model can not be None or empty."
            raise GraphRuntimeError(text)
        state.update(eval_network=self.eval_network, valid_dataset=valid_dataset)
        evaluate = self._evaluator_in_fit(self._evaluation, state, valid_dataset_sink_mode)

        def after_epoch(run: Training) -> None:
            if follows(run):
                with weights():
                    evaluate(run)

        self._train(epochs, state, sink_size, callbacks, after_epoch)

    def build(
        self, train_dataset: object = None, valid_dataset: object = None, sink_size: int = -1, epoch: int = 1,
        sink_mode: bool = True,
    ) -> None:  # fmt: skip
        """Compile the steps of `train` for the first row of a dataset, and those of `eval` for that of another.

        `sink_size`, `epoch` and `sink_mode` change nothing: steps that run in one call are compiled when their number
        is known. Raises as `train` and `eval` do, and GraphValueError without any dataset.
        """
        if train_dataset is None and valid_dataset is None:
            raise GraphValueError("Model.build takes a 'train_dataset', a 'valid_dataset' or both.")
        if train_dataset is not None:
            self._runner.find(first_row("Model.build", train_dataset, "train_dataset", self._columns, self._network))
        if valid_dataset is not None:
            evaluation = self._required_evaluation("Model.build")
            evaluation.find(first_row("Model.build", valid_dataset, "valid_dataset", evaluation.columns))

    # -- evaluation and prediction ----------------------------------------------------------------------------

    def eval(
        self, valid_dataset: object, callbacks: object = None, dataset_sink_mode: bool = False, *,
        use_ema: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Evaluate the metrics on all rows of a dataset, and return their values by name.

        With `use_ema` the network has the averages of its weights that a model with an `ema_decay` keeps, else the
        weights as they were trained. Hooks are called for each step, with `dataset_sink_mode` or without. Raises
        GraphTypeError and GraphValueError for arguments and rows that do not fit, for a dataset without data, for a
        model without metrics, and for `use_ema` where there are no averages.
        """
        evaluation = self._required_evaluation("Model.eval")
        weights = self._weights("Model.eval", use_ema)
        boolean("Model.eval", "dataset_sink_mode", dataset_sink_mode)
        state = InternalCallbackParam(
            eval_network=self.eval_network, valid_dataset=valid_dataset,
            batch_num=steps_of_epoch("Model.eval", valid_dataset), mode="eval", cur_step_num=0,
            list_callback=callback_list(callbacks), network=self._network, dataset_sink_mode=dataset_sink_mode,
            net_outputs=None,
        )  # fmt: skip
        with weights(), CallbackManager(callbacks) as manager:
            return evaluation.run(valid_dataset, manager, RunContext(state))

    def ema_weights(self) -> AbstractContextManager[None]:
        """Replace the weights of the network by their averages in a block: `with model.ema_weights(): ...`.

        There `eval`, `predict`, `graphls.export` and `save_checkpoint(network, ...)` use them; do not train. Before the
        first update they are the weights. Raises GraphValueError for a model without averages.
        """
        if not isinstance(self._train_network, Averaging) or self._train_network.ema is None:
            raise GraphValueError("The model keeps no averages of its weights; make it with ema_decay=0.999.")
        return self._train_network.ema_weights()

    def predict(
        self, *predict_data: object, backend: str | None = None, config: object = None, use_ema: bool = False
    ) -> Any:
        """Run the network on these inputs in evaluation mode; raises as a call of the network does.

        `use_ema` is as in `eval`. `backend` is None, and `config` changes nothing: there is no other runtime such as
        MindSpore Lite. Raises GraphValueError for another backend.
        """
        if backend is not None:
            raise GraphValueError(refusal("other runtimes", f"backend={backend!r}"))
        with self._weights("Model.predict", use_ema)():
            return self._predicting.find(self._predictions, predict_data)(*predict_data)

    # -- helpers -----------------------------------------------------------------------------------------------

    @property
    def _columns(self) -> int | None:
        return None if self._loss_fn is None else 2

    def _weights(self, owner: str, use_ema: bool) -> Callable[[], AbstractContextManager[None]]:
        """The context manager of the weights for evaluation; raises where that is not a bool, and as ema_weights."""
        if not boolean(owner, "use_ema", use_ema):
            return nullcontext
        self.ema_weights()
        return self.ema_weights

    def _run_state(
        self, owner: str, dataset: object, callbacks: object, sink_mode: bool, sink_size: int
    ) -> InternalCallbackParam:
        """The state of a training run that callbacks see; raises for arguments that do not fit."""
        boolean(owner, "dataset_sink_mode", sink_mode)
        check_sink_size(owner, sink_size)
        if self._optimizer is None and self._loss_fn is not None:
            warn(f"{owner} changes no weights, as the Model has a loss_fn and no optimizer; give it one.")
        steps = steps_of_epoch(owner, dataset)
        return InternalCallbackParam(
            train_network=self._train_network, batch_num=sink_size if sink_mode and sink_size > 0 else steps,
            mode="train", loss_fn=self._loss_fn, optimizer=self._optimizer,
            parallel_mode=get_auto_parallel_context("parallel_mode"),
            device_number=get_auto_parallel_context("device_num"), train_dataset=dataset,
            list_callback=callback_list(callbacks), train_dataset_element=None, network=self._network,
            dataset_sink_mode=sink_mode, net_outputs=None, last_save_ckpt_step=None, latest_ckpt_file=None,
            loss_scale_mananger=self._loss_scale_manager,
        )  # fmt: skip

    def _train(
        self, epochs: range, state: InternalCallbackParam, sink_size: int, callbacks: object,
        after_epoch: Callable[[Training], None] = lambda run: None,
    ) -> None:  # fmt: skip
        sink_size = sink_size if state.dataset_sink_mode else 0
        count = -1 if sink_size > 0 else len(epochs)
        manager = None if state.dataset_sink_mode else self._updated_manager
        agree_on_writers(state.list_callback)
        explanations = agree_on_explanations(state.list_callback)
        with (
            CallbackManager(callbacks) as hooks,
            Feed(state.train_dataset, "train_dataset", self._columns, count, self._network) as feed,
        ):
            Training(self._runner, hooks, state, manager, after_epoch, explanations).run(epochs, feed, sink_size)

    def _evaluator_in_fit(
        self, evaluation: Evaluation, state: InternalCallbackParam, sink_mode: bool
    ) -> Callable[[Training], None]:
        """The function that evaluates after an epoch; callbacks see the state of the evaluation meanwhile."""
        dataset = state.valid_dataset
        for_eval = {
            "mode": "eval", "batch_num": steps_of_epoch("Model.fit", dataset), "dataset_sink_mode": sink_mode
        }  # fmt: skip

        def evaluate(run: Training) -> None:
            before = {name: state[name] for name in (*for_eval, "cur_step_num", "net_outputs")}
            state.update(for_eval, cur_step_num=0)
            context = RunContext(state)
            evaluation.run(dataset, run.callbacks, context)
            state.update(before)
            if context.get_stop_requested():
                run.context.request_stop()

        return evaluate

    def _required_evaluation(self, owner: str) -> Evaluation:
        if self._evaluation is None:
            text = f"For {owner}, the argument 'metrics' of Model can not be None or empty."
            raise GraphValueError(text)
        return self._evaluation
