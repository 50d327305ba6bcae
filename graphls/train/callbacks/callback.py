"""Callbacks: their base class, callbacks of plain functions, the state that they read, and their manager."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from weakref import WeakSet

import numpy as np

from graphls.base.errors import GraphAttributeError, GraphTypeError
from graphls.base.reporting import warn
from graphls.base.sharing.forks import Guard
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.registry import nearest

OLD_HOOKS = ("begin", "epoch_begin", "epoch_end", "step_begin", "step_end", "end")
NEW_HOOKS = tuple(f"on_{mode}_{hook}" for mode in ("train", "eval") for hook in OLD_HOOKS)


class Callback:
    """The base of all callbacks: a hook for each stage of a run, which does nothing unless it is overridden.

    `on_train_begin`, `on_train_epoch_begin`, `on_train_step_begin`, `on_train_step_end`, `on_train_epoch_end` and
    `on_train_end` are called in training, those with `eval` in evaluation, each with a RunContext. `begin`,
    `epoch_begin`, `epoch_end`, `step_begin`, `step_end` and `end` are their older names, which are called in training
    and in evaluation where the newer one is not overridden. A callback is a context manager that is entered before
    the run and left after it, also when the run raises.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import Callback, Model
        >>> class Steps(Callback):
        ...     def on_train_step_end(self, run_context):
        ...         print("step", run_context.original_args().cur_step_num)
        >>> ones = np.ones((4, 1), np.float32)
        >>> rows = ds.NumpySlicesDataset((ones, ones), column_names=["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1)
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(1, rows, callbacks=[Steps()])
        step 1
        step 2
    """

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> Any:
        return None

    def begin(self, run_context: RunContext) -> None:
        """Older name of on_train_begin and on_eval_begin."""

    def epoch_begin(self, run_context: RunContext) -> None:
        """Older name of on_train_epoch_begin and on_eval_epoch_begin."""

    def epoch_end(self, run_context: RunContext) -> None:
        """Older name of on_train_epoch_end and on_eval_epoch_end."""

    def step_begin(self, run_context: RunContext) -> None:
        """Older name of on_train_step_begin and on_eval_step_begin."""

    def step_end(self, run_context: RunContext) -> None:
        """Older name of on_train_step_end and on_eval_step_end."""

    def end(self, run_context: RunContext) -> None:
        """Older name of on_train_end and on_eval_end."""

    def on_train_begin(self, run_context: RunContext) -> None:
        """Called once before training."""
        self.begin(run_context)

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Called before each epoch of training."""
        self.epoch_begin(run_context)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Called after each epoch of training, and after the evaluation that follows it in `Model.fit`."""
        self.epoch_end(run_context)

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Called before each step of training; in sink mode, before the steps that run in one call."""
        self.step_begin(run_context)

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Called after each step of training; in sink mode, after the steps that ran in one call."""
        self.step_end(run_context)

    def on_train_end(self, run_context: RunContext) -> None:
        """Called once after training, also where a callback has stopped it."""
        self.end(run_context)

    def on_eval_begin(self, run_context: RunContext) -> None:
        """Called once before an evaluation."""
        self.begin(run_context)

    def on_eval_epoch_begin(self, run_context: RunContext) -> None:
        """Called before an evaluation iterates over its dataset."""
        self.epoch_begin(run_context)

    def on_eval_epoch_end(self, run_context: RunContext) -> None:
        """Called after an evaluation has iterated over its dataset."""
        self.epoch_end(run_context)

    def on_eval_step_begin(self, run_context: RunContext) -> None:
        """Called before each step of an evaluation."""
        self.step_begin(run_context)

    def on_eval_step_end(self, run_context: RunContext) -> None:
        """Called after each step of an evaluation."""
        self.step_end(run_context)

    def on_eval_end(self, run_context: RunContext) -> None:
        """Called once after an evaluation."""
        self.end(run_context)


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


class InternalCallbackParam(dict[str, Any]):
    """The state of a run that callbacks see, by key or by attribute.

    Always there: `network`, `mode` ("train" or "eval"), `cur_step_num` (from 1), `batch_num` (steps of an epoch),
    `dataset_sink_mode`, `list_callback`, `net_outputs`. In training: `train_network`, `loss_fn`, `optimizer`,
    `parallel_mode`, `device_number`, `train_dataset`, `train_dataset_element`, `epoch_num`, `cur_epoch_num` (from 1),
    `completed_steps` (a function that counts, also while a step runs, those that are complete), `data_flow` (a function
    that returns the rows that steps took, and the seconds in which they waited for data, and data for them),
    `explain_precision` (a function that explains the last step as `step.explain_precision` does, or returns None where
    it rounds no tensor to a low dtype or communicates with other ranks), `last_save_ckpt_step`, `latest_ckpt_file`,
    `loss_scale_mananger` (spelt so) and, in `Model.fit`, `eval_results`. In evaluation: `eval_network`, `valid_dataset`
    and, at its end, `metrics`. A missing attribute raises GraphAttributeError.
    """

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise GraphAttributeError(f"Callbacks have no {name!r} here{nearest(name, self)}.")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        self.pop(name)


class RunContext:
    """The argument of a hook: the state of the run, and requests to stop it.

    Raises GraphTypeError for `original_args` that are not a dict.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import Callback, Model
        >>> class StopAt(Callback):
        ...     def __init__(self, steps):
        ...         self.steps = steps
        ...     def on_train_step_end(self, run_context):
        ...         if run_context.original_args().cur_step_num >= self.steps:
        ...             print("enough after step", run_context.original_args().cur_step_num)
        ...             run_context.request_stop()
        >>> rows = ds.NumpySlicesDataset((np.ones((8, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1)
        >>> model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
        >>> model.train(5, rows, callbacks=[StopAt(3)])
        enough after step 3
    """

    def __init__(self, original_args: object) -> None:
        if not isinstance(original_args, dict):
            raise GraphTypeError(
                f"The argument 'original_args' of RunContext should be dict type, but got {type(original_args)}.",
            )
        self._original_args = original_args
        self._stop_requested = False

    def original_args(self) -> Any:
        """The state of the run, an InternalCallbackParam; changes are seen by other callbacks."""
        return self._original_args

    def request_stop(self) -> None:
        """End training after the hooks of this step, or of this epoch."""
        self._stop_requested = True

    def get_stop_requested(self) -> bool:
        """Returns whether a callback has requested the end of training."""
        return self._stop_requested


class CallbackManager(Callback):
    """Several callbacks as one, called in their order.

    `callbacks` is one, a list or tuple of them, or None. Raises GraphTypeError for anything else; warns once of each
    class that overrides hooks by their older names, or has methods that look like hooks and are none.
    """

    def __init__(self, callbacks: Any = None) -> None:
        self._callbacks = callback_list(callbacks)
        self._stack = ExitStack()
        for kind in dict.fromkeys(map(type, self._callbacks)):
            _warn_of_hooks(kind)

    def __enter__(self) -> CallbackManager:
        with ExitStack() as stack:
            self._callbacks = [stack.enter_context(callback) for callback in self._callbacks]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._stack.__exit__(*error)

    @property
    def report_overflows(self) -> bool:
        """Whether one of them reports the skipped steps of a run."""
        return any(getattr(callback, "_reports_overflows", False) for callback in self._callbacks)


def _for_each(hook: str) -> Callable[[CallbackManager, RunContext], None]:
    def call(self: CallbackManager, run_context: RunContext) -> None:
        for callback in self._callbacks:
            getattr(callback, hook)(run_context)

    call.__name__ = hook
    call.__doc__ = f"Call `{hook}` of each callback."
    return call


for _hook in (*OLD_HOOKS, *NEW_HOOKS):
    setattr(CallbackManager, _hook, _for_each(_hook))


def callback_list(callbacks: Any) -> list[Callback]:
    """One callback, several, or None, as a list; raises GraphTypeError for anything else."""
    if callbacks is None:
        return []
    items = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
    for callback in items:
        if not isinstance(callback, Callback):
            is_class = isinstance(callback, type) and issubclass(callback, Callback)
            advice = f" but a class of them; create one: {callback.__name__}()" if is_class else ""
            text = (
                f"The 'callbacks' are a Callback, a list of them or None, and {callback!r} is not a Callback{advice}."
            )
            raise GraphTypeError(text)
    return items


_WARNING = Guard()
_warned: WeakSet[type[Callback]] = WeakSet()


def _warn_of_hooks(kind: type[Callback]) -> None:
    """Warn once of a class whose hooks are called at unexpected times, or never."""
    if issubclass(kind, CallbackManager):
        return
    with _WARNING.lock:
        if kind in _warned:
            return
        _warned.add(kind)
    if old := [hook for hook in OLD_HOOKS if getattr(kind, hook) is not getattr(Callback, hook)]:
        are = "is" if len(old) == 1 else "are"
        warn(
            f"The callback {kind.__name__!r} overrides {', '.join(old)}, which {are} called in training and in "
            "evaluation; the names of today are "
            f"{', '.join(f'on_train_{hook}' for hook in old)}, and the same with on_eval."
        )
    never = [name for name in dir(kind) if name.startswith("on_") and name not in NEW_HOOKS]
    if never and not any(getattr(kind, hook) is not getattr(Callback, hook) for hook in (*OLD_HOOKS, *NEW_HOOKS)):
        near = nearest(f"on_train_{never[0].removeprefix('on_')}", NEW_HOOKS)
        warn(f"The callback {kind.__name__!r} has {never[0]}, which no Model calls{near}.")


def first_output(outputs: object) -> Any:
    """The first of several outputs, or the only one: the loss of a training step."""
    while isinstance(outputs, (tuple, list)) and outputs:
        outputs = outputs[0]
    return outputs


def loss_of(outputs: object) -> float | None:
    """The mean of the first output, or None where that is not a number; reading it waits for the step."""
    loss = first_output(outputs)
    if isinstance(loss, (Tensor, np.ndarray, np.generic, int, float)):
        return float(np.mean(np.asarray(loss)))
    return None


def was_skipped(outputs: object) -> bool:
    """Returns whether a step with loss scaling, with the outputs (loss, overflow, scale, ...), overflowed."""
    if not isinstance(outputs, tuple) or len(outputs) < 3 or not is_flag(outputs[1]):
        return False
    return bool(outputs[1].asnumpy().any())


def is_flag(output: object) -> bool:
    """Returns whether an output is a tensor of bools."""
    return isinstance(output, Tensor) and output.dtype.kind == "bool"


def learning_rate_of(state: InternalCallbackParam) -> Any:
    """The learning rate of a run's optimizer, a Parameter if it is one number; None without an optimizer."""
    optimizer = state.get("optimizer") or getattr(state.get("train_network"), "optimizer", None)
    return getattr(optimizer, "learning_rate", None)


def scalars_of(state: InternalCallbackParam) -> dict[str, Any]:
    """The loss, the learning rate if it is a number, and the loss scale, as far as a run has them."""
    scalars: dict[str, Any] = {"loss": loss_of(state.net_outputs)}
    rate = learning_rate_of(state)
    scalars["learning_rate"] = rate.asnumpy() if isinstance(rate, Parameter) else None
    scale = getattr(state.train_network, "_params", {}).get("scale_sense")
    scalars["loss_scale"] = None if scale is None else scale.asnumpy()
    return {name: value for name, value in scalars.items() if value is not None}
