"""Hooks that are functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.base.errors import GraphTypeError
from graphls.train.callbacks.callback import Callback

Hook = Callable[[Any], Any]


class LambdaCallback(Callback):
    """A callback of functions that each take a RunContext; hooks without one do nothing.

    Raises GraphTypeError for what is neither a function nor None.

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
        self,
        on_train_epoch_begin: Hook | None = None,
        on_train_epoch_end: Hook | None = None,
        on_train_step_begin: Hook | None = None,
        on_train_step_end: Hook | None = None,
        on_train_begin: Hook | None = None,
        on_train_end: Hook | None = None,
        on_eval_epoch_begin: Hook | None = None,
        on_eval_epoch_end: Hook | None = None,
        on_eval_step_begin: Hook | None = None,
        on_eval_step_end: Hook | None = None,
        on_eval_begin: Hook | None = None,
        on_eval_end: Hook | None = None,
    ) -> None:
        given = {name: hook for name, hook in locals().items() if name.startswith("on_") and hook is not None}
        for name, hook in given.items():
            if not callable(hook):
                raise GraphTypeError(f"The {name!r} of LambdaCallback is a function, not {hook!r}.")
        self.__dict__.update(given)
