"""Settings of parallel training, with MindSpore's names and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any, ClassVar

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.base.reporting import warn
from graphls.base.sharing.settings import Settings
from graphls.distributed.world import (
    devices_driven,
    devices_of_stage,
    drive_devices,
    drive_stages,
    stages_driven,
    world,
)
from graphls.ir.slices import mesh_of_devices
from graphls.runtime.context.device_layout import DATA_PARALLEL, FULL_BATCH, ONE_DEVICE, DeviceLayout
from graphls.runtime.context.keys import mindspore_settings, require_known


class ParallelMode:
    """The names of MindSpore's parallel modes.

    Examples:
        >>> from graphls import ParallelMode
        >>> ParallelMode.DATA_PARALLEL
        'data_parallel'
    """

    STAND_ALONE = "stand_alone"
    DATA_PARALLEL = "data_parallel"
    HYBRID_PARALLEL = "hybrid_parallel"
    SEMI_AUTO_PARALLEL = "semi_auto_parallel"
    AUTO_PARALLEL = "auto_parallel"
    MODE_LIST = (STAND_ALONE, DATA_PARALLEL, HYBRID_PARALLEL, SEMI_AUTO_PARALLEL, AUTO_PARALLEL)


DEFAULTS: dict[str, Any] = {
    **{name: default for name, (default, _) in mindspore_settings("set_auto_parallel_context").items()},
    "group_ckpt_save_file": "",
    "parallel_optimizer_threshold": 64,
}
"""Every setting with its default."""

ONE_RANK_MODES = (ParallelMode.STAND_ALONE, ParallelMode.DATA_PARALLEL)
"""Modes that do not divide the network: data-parallel training with one rank is training."""

DIVIDING_MODES = (ParallelMode.SEMI_AUTO_PARALLEL, ParallelMode.AUTO_PARALLEL)
"""Modes in which the devices of one process divide the network."""

FIXED = ("device_num", "global_rank", "pipeline_stages")
"""Settings that are determined by the existing ranks."""

OPTIMIZER = (
    "gradient_accumulation_shard", "parallel_optimizer_threshold", "optimizer_weight_shard_size", "optimizer_level",
)  # fmt: skip
"""The keys of a `parallel_optimizer_config`."""

PIPELINE = ("pipeline_interleave", "pipeline_scheduler")
"""The keys of a `pipeline_config`."""

_settings = Settings(DEFAULTS)


class OneRank:
    """The policy for settings of several devices: an error, or one warning where scripts of MindSpore run.

    `left_out` has the settings without effect.
    """

    is_forced = False
    left_out: ClassVar[dict[str, object]] = {}


def set_auto_parallel_context(**kwargs: object) -> None:
    """Change settings of parallel training, as far as data parallel training goes.

    With `parallel_mode="data_parallel"`, training steps add the gradients of all ranks, or average them with
    `gradients_mean`, and start from the parameters of rank 0, unless `parameter_broadcast=False` is set. `device_num`
    and `global_rank` are those of the process. `comm_fusion={"allreduce": {"mode": "size", "config": 25}}` sets the MB
    of gradients that are sent together. With `enable_parallel_optimizer`, each rank has a part of the states of
    optimizers: of those of at least the KB under "parallel_optimizer_threshold" in `parallel_optimizer_config`, by
    default 64.

    In one process, `device_num=8` lets it drive 8 devices with the engine "xla", which divide steps in every mode but
    "stand_alone" and "hybrid_parallel": inputs by `dataset_strategy`, or not with `full_batch`, operators by their
    strategies, and with `enable_parallel_optimizer` what "optimizer_level" says. `pipeline_stages=2` gives half of the
    devices to each of two stages, which cells name by `pipeline_stage`; all else divides the devices of a stage. See
    docs/parallel.md.

    Raises GraphTypeError and GraphValueError for an unknown key or mode and for other values that a setting cannot
    have, and GraphRuntimeError for other ranks than exist and for settings that divide a network; where scripts of
    MindSpore run alone, these become one device, after a warning.

    Examples:
        >>> from graphls import context
        >>> context.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
        >>> context.get_auto_parallel_context("parallel_mode")
        'data_parallel'
        >>> context.reset_auto_parallel_context()
    """
    accepted = {}
    for name, value in kwargs.items():
        require_known("set_auto_parallel_context", name, DEFAULTS)
        _check(name, value)
    _check_stages(**{name: kwargs[name] for name in ("device_num", "pipeline_stages") if name in kwargs})
    if "device_num" in kwargs:
        drive(kwargs["device_num"])
    if "pipeline_stages" in kwargs and devices_driven() > 1:
        drive_stages(kwargs.pop("pipeline_stages"))  # type: ignore[arg-type]
    for name, value in kwargs.items():
        if name == "parallel_optimizer_config":
            _check_optimizer(dict(value))  # type: ignore[call-overload]
        if name == "global_rank" and devices_driven() > 1:
            continue  # a number among the devices, all of which this process drives
        if not _needs_several(name, value):
            accepted[name] = value
        elif OneRank.is_forced and world().size == 1 and devices_driven() == 1:
            _warn_once(name, value)
        else:
            raise GraphRuntimeError(_refusal(name, value))
    _settings.update(accepted)


def _check(name: str, value: Any) -> None:
    """Raise GraphTypeError or GraphValueError for a value that a setting cannot have."""
    if name == "parallel_mode" and value not in ParallelMode.MODE_LIST:
        known = ", ".join(map(repr, ParallelMode.MODE_LIST))
        raise GraphValueError(f"The parallel_mode is one of {known}, not {value!r}.")
    if isinstance(DEFAULTS[name], (bool, dict, list)):
        kind = type(DEFAULTS[name])
        if not isinstance(value, kind):
            raise GraphTypeError(f"The {name} of set_auto_parallel_context is a {kind.__name__}, not {value!r}.")
    if name in FIXED:
        least = 0 if name == "global_rank" else 1
        if type(value) is not int:
            raise GraphTypeError(f"The {name} of set_auto_parallel_context is an integer, not {value!r}.")
        if value < least:
            raise GraphValueError(f"The {name} of set_auto_parallel_context is {least} or more, not {value}.")
    if name == "dataset_strategy":
        _check_dataset_strategy(value)
    for key in value if name == "pipeline_config" else ():
        require_known("pipeline_config", key, PIPELINE)


def _check_stages(device_num: Any = None, pipeline_stages: Any = None) -> None:
    """Raise GraphValueError for stages that do not divide the devices, of both the new numbers or those before."""
    devices, stages = device_num or devices_driven(), pipeline_stages or stages_driven()
    if devices > 1 and devices % stages:
        text = f"{stages} stages of a pipeline cannot have equal parts of {devices} devices"
        raise GraphValueError(f"{text}; set pipeline_stages to a number that divides them.")


def _check_dataset_strategy(value: Any) -> None:
    """Raise GraphValueError for what is neither a name nor numbers of slices for each input."""
    is_named = isinstance(value, str) and value in ("", DATA_PARALLEL, FULL_BATCH)
    if not is_named and not (isinstance(value, (tuple, list)) and all(map(_are_slices, value))):
        text = f'The dataset_strategy is "{DATA_PARALLEL}", "{FULL_BATCH}" or a tuple of slices for each input'
        raise GraphValueError(f"{text}, such as ((4, 1), (4,)), not {value!r}.")


def _are_slices(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(type(count) is int and count > 0 for count in value)


def drive(count: Any, *, from_start: bool = False) -> None:
    """Let this process drive so many devices, if JAX is there and no other process was started."""
    if world().size == 1 and (count == 1 or find_spec("jax") is not None):
        drive_devices(count, from_start=from_start)


def drive_or_warn(count: int) -> None:
    """Let this process drive so many devices; it drives one, after a warning, if JAX is missing."""
    drive(count, from_start=True)
    if count > 1 and devices_driven() != count:
        missing = "JAX, which drives them, is missing: `pip install 'graphls[xla]'`"
        reason = "this is one of several processes" if world().size > 1 else missing
        warn(f"The script runs on one device and not on {count}, as {reason}.")


def parallel_layout() -> DeviceLayout:
    """How the devices that this process drives divide steps; one device where it drives one."""
    count = devices_driven()
    if count == 1 or get_auto_parallel_context("parallel_mode") == ParallelMode.STAND_ALONE:
        return ONE_DEVICE
    config = get_auto_parallel_context("parallel_optimizer_config")
    is_divided = get_auto_parallel_context("enable_parallel_optimizer")
    zero = int(config.get("optimizer_level", "level1")[-1]) if is_divided else 0
    threshold = config.get("parallel_optimizer_threshold", get_auto_parallel_context("parallel_optimizer_threshold"))
    return _layout_of(count, stages_driven(), zero, _dataset_strategy(), int(threshold) << 10)


@lru_cache(maxsize=16)
def _layout_of(
    count: int, stages: int, zero: int, strategy: str | tuple[tuple[int, ...], ...], least: int
) -> DeviceLayout:
    """The layout of so many devices; each call of a cell asks for it, so it is the same object."""
    mesh = mesh_of_devices(count, stages)
    return DeviceLayout(mesh, zero, "+".join(mesh.of_stage.names), strategy, least)


def _dataset_strategy() -> str | tuple[tuple[int, ...], ...]:
    strategy = get_auto_parallel_context("dataset_strategy")
    if get_auto_parallel_context("full_batch"):
        return FULL_BATCH
    return strategy or DATA_PARALLEL if isinstance(strategy, str) else tuple(map(tuple, strategy))


def _check_optimizer(config: dict[str, Any]) -> None:
    """Raise GraphlsError for a division that is not offered, and for an invalid threshold."""
    for name, value in config.items():
        require_known("parallel_optimizer_config", name, OPTIMIZER)
        if name == "parallel_optimizer_threshold" and (type(value) is not int or value < 0):
            raise GraphValueError(f"The {name} is a number of KB, 0 or more, not {value!r}.")
        if name == "optimizer_level" and value not in ("level1", "level2", "level3"):
            raise GraphValueError(f'The {name} is "level1", "level2" or "level3", not {value!r}.')
        if OneRank.is_forced and world().size * devices_driven() == 1:
            continue  # on one device nothing is divided
        if name == "optimizer_level" and value != "level1" and devices_driven() == 1:
            raise GraphRuntimeError(refusal("division of weights", f"optimizer_level={value!r}"))
        if name == "optimizer_weight_shard_size" and value not in (-1, world().size * devices_of_stage()):
            if devices_driven() > 1:
                of_stage = " of a stage" if stages_driven() > 1 else ""
                text = f"The states of optimizers are divided among all {devices_of_stage()} devices{of_stage}"
                raise GraphRuntimeError(f"{text}, not among {value!r}; leave {name} out.")
            text = f"The states of optimizers are divided among all processes that were started, {world().size}"
            raise GraphRuntimeError(f"{text}, not among {value!r}; leave {name} out.")


def force_one_rank(is_forced: bool) -> None:
    """Set whether settings of several devices are accepted as those of one."""
    with _settings.lock:
        OneRank.is_forced, OneRank.left_out = is_forced, {}


@contextmanager
def preserved_parallel_context() -> Iterator[None]:
    """Restore every setting of parallel training after a block."""
    devices, stages = devices_driven(), stages_driven()
    try:
        with _settings.preserved():
            yield
    finally:
        drive_devices(devices)
        drive_stages(stages)


def takes_parameters_of_first_rank() -> bool:
    """Returns whether training begins with the parameters of rank 0, unless a script disables that."""
    return _settings.explicit_value("parameter_broadcast") is not False


def shard_threshold() -> int | None:
    """The bytes from which on the states of an optimizer are divided among the ranks; None where they are not."""
    is_enabled = world().size > 1 and get_auto_parallel_context("enable_parallel_optimizer")
    config = get_auto_parallel_context("parallel_optimizer_config")
    default = get_auto_parallel_context("parallel_optimizer_threshold")
    return int(config.get("parallel_optimizer_threshold", default)) << 10 if is_enabled else None


def _needs_several(name: str, value: object) -> bool:
    """Returns whether a setting requires several devices."""
    if name == "parallel_mode":
        modes = DIVIDING_MODES if devices_driven() > 1 else ()
        return value not in (*ONE_RANK_MODES, *modes)
    return name in FIXED and value != _fixed(name)


def _fixed(name: str) -> Any:
    """The value that the existing ranks determine for a setting, or its default."""
    fixed = {"device_num": world().size * devices_driven(), "global_rank": world().rank}
    return {**fixed, "pipeline_stages": stages_driven()}[name]


def _refusal(name: str, value: object) -> str:
    """The error sentence for a setting that needs other ranks than exist, or divides a network."""
    if name == "device_num":
        started = "one was" if world().size == 1 else f"{world().size} were"
        return f"device_num is the number of processes that were started, and {started}, not {value}; {_start(value)}."
    if name == "global_rank":
        number = f"global_rank is the number of this process among those that mpiexec has started, {world().rank} of"
        return f"{number} {world().size}, not {value}; leave it out, and {_start(4)}."
    if name == "parallel_mode" and devices_driven() > 1:
        text = f"The parallel_mode {value!r} runs operators on the part of one device, and this process drives"
        return f"{text} {devices_driven()}; use {ParallelMode.SEMI_AUTO_PARALLEL!r}, which divides complete tensors."
    return refusal("division of networks", f"{name}={value!r}")


def _start(count: object) -> str:
    """The advice to start a script for so many devices or in so many processes."""
    if OneRank.is_forced:
        return f"start the script by `python -m graphls exec --devices {count} script.py`"
    return f"start the script by `mpiexec -n {count} python script.py`"


def _warn_once(name: str, value: object) -> None:
    with _settings.lock:
        before, OneRank.left_out = OneRank.left_out, {**OneRank.left_out, name: value}
    if not before:
        count = value if name == "device_num" else 4
        warn(
            f"One process was started, so {name}={value!r} and what else means several is left out; to divide "
            f"training, {_start(count)}."
        )


def get_auto_parallel_context(attr_key: str) -> Any:
    """The value of a setting of parallel training; raises GraphValueError for an unknown name.

    Examples:
        >>> from graphls import context
        >>> context.get_auto_parallel_context("gradients_mean")
        False
    """
    require_known("get_auto_parallel_context", attr_key, DEFAULTS)
    explicit = _settings.explicit_value(attr_key)
    return _settings[attr_key] if explicit is not None or attr_key not in FIXED else _fixed(attr_key)


def reset_auto_parallel_context() -> None:
    """Reset every setting of parallel training to its default."""
    _settings.reset()
    drive_devices()
    drive_stages()


# -- the names that training cells of MindSpore 1 import ------------------------------------------------------

_get_parallel_mode = partial(get_auto_parallel_context, "parallel_mode")
_get_gradients_mean = partial(get_auto_parallel_context, "gradients_mean")
_get_device_num = partial(get_auto_parallel_context, "device_num")
_get_global_rank = partial(get_auto_parallel_context, "global_rank")
_get_pipeline_stages = partial(get_auto_parallel_context, "pipeline_stages")
_get_parameter_broadcast = partial(get_auto_parallel_context, "parameter_broadcast")
