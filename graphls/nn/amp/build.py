"""Construction of a training step in mixed precision from a network, an optimizer and a loss."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.base.reporting import warn
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.trace.casting import in_dtype
from graphls.ir.types import DType, as_dtype, bfloat16, float16, float32
from graphls.nn.amp.precision import LEVELS, auto_mixed_precision, keep_normalisation, level_of
from graphls.nn.called_function import CellOrFunction, as_cell
from graphls.nn.cell import Cell
from graphls.nn.loss_scale import DynamicLossScaleManager, LossScaleManager
from graphls.nn.micro_batches import GradAccumulationCell
from graphls.nn.optimizers.base import Optimizer
from graphls.nn.train_step import TrainOneStepCell, TrainOneStepWithLossScaleCell, WithLossCell
from graphls.nn.train_step_updates import (
    TrainOneStepWithLossScaleAndUpdatesCell,
    TrainOneStepWithUpdatesCell,
    Updates,
)
from graphls.passes.precision.recipes import Recipe

DTYPES = (float16, bfloat16, float32)
SETTINGS = ("cast_model_type", "keep_batchnorm_fp32", "loss_scale_manager")


def build_train_network(
    network: CellOrFunction, optimizer: Optimizer, loss_fn: CellOrFunction | None = None,
    level: str | Recipe = "O0", boost_level: str = "O0", *,
    accumulate_steps: int = 1, clip_norm: float | None = None, clip_value: float | None = None,
    ema_decay: float | None = None, **kwargs: Any,
) -> TrainOneStepCell:  # fmt: skip
    """A training step for a network, in training mode: its loss, its gradients, the optimizer and the loss scale.

    `network` returns predictions for `loss_fn`, or the loss itself without one; either may be a function of tensors.
    The level sets, and a keyword argument overrides:

    - `cast_model_type`: the dtype in which the network computes, float16 under O2 and O3, else float32. A 16-bit one
      casts the entire network; without one, O1 and auto are those of `auto_mixed_precision`. Predictions of a network
      in mixed precision and float labels are cast to float32 for the loss.
    - `keep_batchnorm_fp32`: whether batch and layer normalisation of a cast network compute in float32, true under O2.
    - `loss_scale_manager`: a LossScaleManager or None. Under O2 it is a new DynamicLossScaleManager for each network,
      unless the network is cast to bfloat16, which needs none.

    A recipe in place of the level, such as `amp.DelayedScaling()`, lets products read operands of 8 bits or 4; the rest
    computes in `cast_model_type`. See docs/low_precision.md.

    `accumulate_steps=n` makes one update of every n calls, by the mean of their gradients. Gradients are scaled to a
    common norm of at most `clip_norm`, or each element is clipped to -`clip_value` and `clip_value`, right before the
    update: accumulated, unscaled, and reduced over all ranks, which send them once for each update. `ema_decay=d` keeps
    an average of each trained parameter, average = d * average + (1 - d) * parameter at each update, which starts with
    the result of the first update: in `with step.ema_weights(): ...` the parameters have their averages. One overflow
    among n calls skips their entire update. All of it is part of the step, and its states are parameters of the step,
    in checkpoints too: `accu_grads.<name>`, `accumulation_step`, `accumulation_overflow`, `ema.<name>` and
    `ema_updates`.

    With a manager that has an update cell this is a TrainOneStepWithLossScaleCell, which returns (loss, overflow,
    scale), else a TrainOneStepCell, which scales by the manager and returns the loss. Without a manager, the gradients
    of a GradAccumulationCell are those of the mean over its parts; with one, of their sum. Raises GraphTypeError and
    GraphValueError for arguments that do not fit; warns where the optimizer does not divide by the scale as it should.

    Examples:
        >>> import numpy as np
        >>> from graphls import amp, nn
        >>> net = nn.Dense(2, 1)
        >>> optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
        >>> manager = amp.DynamicLossScaleManager(init_loss_scale=2**10)
        >>> step = amp.build_train_network(net, optimizer, nn.MSELoss(), level="O3", loss_scale_manager=manager)
        >>> loss, overflow, scale = step(np.ones((4, 2), np.float32), np.zeros((4, 1), np.float32))
        >>> bool(overflow), float(scale)
        (False, 1024.0)
    """
    network, loss_fn = _checked_parts(network, optimizer, loss_fn)
    _check_levels(level, boost_level)
    _check_settings(kwargs)
    updates = Updates("build_train_network", accumulate_steps, clip_norm, clip_value, ema_decay)
    low = as_dtype(kwargs.get("cast_model_type", float16 if level in ("O2", "O3") else float32))
    keeps = kwargs.get("keep_batchnorm_fp32", level == "O2")
    if "loss_scale_manager" in kwargs:
        manager = kwargs["loss_scale_manager"] or None
    else:
        manager = DynamicLossScaleManager() if level == "O2" and low is not bfloat16 else None
    is_mixed = _cast(network, level, low, keeps)
    if loss_fn is not None:
        network = (_WithWideLossCell if is_mixed else WithLossCell)(network, loss_fn)
    return _step(network, optimizer, manager, updates)


def _cast(network: Cell, level: str | Recipe, low: DType, keeps_normalisation: bool) -> bool:
    """Cast the network; returns whether anything in it is in 16 bits."""
    if low.is_half:
        network.to_float(low)
        if keeps_normalisation:
            keep_normalisation(network, low)
    if isinstance(level, Recipe):
        network.to_float(level)
    if low.is_half:
        return True
    if level in ("O1", "auto"):
        auto_mixed_precision(network, level)
    return level_of(network) != "O0"


class _WithWideLossCell(WithLossCell):
    """A network and a loss that is computed from float32 predictions and labels."""

    def construct(self, data: object, label: Any) -> Any:
        widen = partial(map_leaves, partial(in_dtype, target=float32))
        return self._loss_fn(widen(self._backbone(data)), widen(label))


def _step(network: Cell, optimizer: Optimizer, manager: LossScaleManager | None, updates: Updates) -> TrainOneStepCell:
    cell = None if manager is None else manager.get_update_cell()
    scale = None if manager is None else manager.get_loss_scale() or None
    if cell is not None:
        step = _scaling(network, optimizer, cell, updates)
    else:
        if scale is not None and scale != optimizer.loss_scale:
            warn(
                f"The loss is scaled by {scale} and the optimizer divides gradients by {optimizer.loss_scale}; "
                f"create the optimizer with loss_scale={scale}."
            )
        if scale is None and isinstance(network, GradAccumulationCell):
            scale = 1 / network.micro_size
        step = (
            TrainOneStepCell(network, optimizer, scale)
            if updates.is_plain
            else TrainOneStepWithUpdatesCell(network, optimizer, updates, scale)
        )
    step.set_train()
    return step


def _scaling(network: Cell, optimizer: Optimizer, scale: Cell, updates: Updates) -> TrainOneStepCell:
    """A step whose loss scale a cell updates."""
    if updates.is_plain:
        return TrainOneStepWithLossScaleCell(network, optimizer, scale)
    return TrainOneStepWithLossScaleAndUpdatesCell(network, optimizer, scale, updates)


def _checked_parts(network: object, optimizer: object, loss_fn: object) -> tuple[Cell, Cell | None]:
    """The network and the loss as cells; raises GraphTypeError for parts of other kinds."""
    network = as_cell(network, "network")
    if not isinstance(optimizer, Optimizer):
        raise GraphTypeError(f"The argument 'optimizer' must be an Optimizer, but got {optimizer!r}.")
    return network, None if loss_fn is None else as_cell(loss_fn, "loss_fn")


def _check_levels(level: object, boost_level: object) -> None:
    if not isinstance(level, (str, Recipe)):
        raise GraphTypeError(
            f"The argument `level` must be a string in ['O0','O1','O2','O3','auto'],but got type {type(level)}.",
        )
    if isinstance(level, str) and level not in LEVELS:
        raise GraphValueError(f"The 'level' should be in : {list(LEVELS)}, but got {level!r}.")
    if boost_level != "O0":
        raise GraphValueError(refusal("boost", f"boost_level={boost_level!r}"))


def _check_settings(settings: Mapping[str, object]) -> None:
    for name in settings:
        if name not in SETTINGS:
            raise GraphValueError(f"Unsupported arg {name!r}; those known are {', '.join(SETTINGS)}.")
    dtype = settings.get("cast_model_type", float32)
    if not _is_known(dtype):
        raise GraphTypeError(f"The argument 'cast_model_type' must be one of {DTYPES}, but got {dtype!r}.")
    keeps = settings.get("keep_batchnorm_fp32", False)
    if not isinstance(keeps, bool):
        raise GraphTypeError(f"The argument 'keep_batchnorm_fp32' must be bool, but got {keeps!r}.")
    manager = settings.get("loss_scale_manager")
    if manager and not isinstance(manager, LossScaleManager):
        raise GraphTypeError(f"The argument 'loss_scale_manager' must be a LossScaleManager, but got {manager!r}.")


def _is_known(dtype: Any) -> bool:
    try:
        return as_dtype(dtype) in DTYPES
    except GraphTypeError:
        return False
