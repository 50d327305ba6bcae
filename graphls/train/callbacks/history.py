"""History, which records epochs and results, and LambdaCallback, a callback of plain functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.base.errors import GraphTypeError
from graphls.train.callbacks.callback import Callback, RunContext, first_output, loss_of


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


Hook = Callable[[Any], Any]


class LambdaCallback(Callback):
    """A callback of functions that each take a RunContext; hooks without one do nothing.

    Raises GraphTypeError for anything but functions and None.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import LambdaCallback, Model
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1)
        >>> tell = LambdaCallback(on_train_epoch_end=lambda run: print("epoch", run.original_args().cur_epoch_num))
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(2, rows, callbacks=[tell])
        epoch 1
        epoch 2
    """

    def __init__(
        self, on_train_epoch_begin: Hook | None = None, on_train_epoch_end: Hook | None = None,
        on_train_step_begin: Hook | None = None, on_train_step_end: Hook | None = None,
        on_train_begin: Hook | None = None, on_train_end: Hook | None = None, on_eval_epoch_begin: Hook | None = None,
        on_eval_epoch_end: Hook | None = None, on_eval_step_begin: Hook | None = None,
        on_eval_step_end: Hook | None = None, on_eval_begin: Hook | None = None, on_eval_end: Hook | None = None,
    ) -> None:  # fmt: skip
        hooks = {name: hook for name, hook in locals().items() if name.startswith("on_") and hook is not None}
        for name, hook in hooks.items():
            if not callable(hook):
                raise GraphTypeError(f"The {name!r} of LambdaCallback is a function, not {hook!r}.")
        self.__dict__.update(hooks)
