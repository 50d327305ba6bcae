"""Settings of data-parallel training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.reporting import warn
from graphls.base.sharing.settings import Settings
from graphls.distributed.world import world
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
"""Modes that leave the network whole: data parallel training with one rank is training."""

FIXED = ("device_num", "global_rank", "pipeline_stages")
"""Settings that the ranks that there are leave no choice for."""

OPTIMIZER = (
    "gradient_accumulation_shard", "parallel_optimizer_threshold", "optimizer_weight_shard_size", "optimizer_level",
)  # fmt: skip
"""What a `parallel_optimizer_config` says."""

_settings = Settings(DEFAULTS)


class OneRank:
    """The policy for settings of several devices: an error, or one warning where scripts of MindSpore run.

    `left_out` has those that did nothing.
    """

    is_forced = False
    left_out: ClassVar[dict[str, object]] = {}


def set_auto_parallel_context(**kwargs: object) -> None:
    """Change settings of parallel training, as far as data parallel training goes.

    With `parallel_mode="data_parallel"`, training steps put the gradients of all ranks together, by their mean with
    `gradients_mean`, and start from the parameters of rank 0, unless `parameter_broadcast=False` is said. `device_num`
    and `global_rank` are those that there are. `comm_fusion={"allreduce": {"mode": "size", "config": 25}}` says how
    many MB of gradients travel together. With `enable_parallel_optimizer`, each rank has a part of the states of
    optimizers: of those that take as many KB or more as `parallel_optimizer_config` says under
    "parallel_optimizer_threshold", by default 64.

    Raises GraphTypeError and GraphValueError for an unknown key or mode and for other values that a setting cannot
    have, and GraphRuntimeError for other ranks than there are and for what divides a network; where scripts of
    MindSpore run alone, these become one device, after a warning.

    Examples:
        >>> from graphls import context
        >>> context.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
        >>> context.get_auto_parallel_context("parallel_mode")
        'data_parallel'
        >>> context.reset_auto_parallel_context()
    """
    wanted = {}
    for name, value in kwargs.items():
        require_known("set_auto_parallel_context", name, DEFAULTS)
        _check(name, value)
        if not _needs_several(name, value):
            wanted[name] = value
        elif OneRank.is_forced and world().size == 1:
            _warn_once(name, value)
        else:
            raise GraphRuntimeError(f"{_what_there_is()}, where {name} is {_fixed(name)!r}, not {value!r}.",)
    _settings.update(wanted)


def _check(name: str, value: Any) -> None:
    """Raise GraphTypeError or GraphValueError for a value that a setting cannot have."""
    if name == "parallel_mode" and value not in ParallelMode.MODE_LIST:
        known = ", ".join(map(repr, ParallelMode.MODE_LIST))
        raise GraphValueError(f"The parallel_mode is one of {known}, not {value!r}.")
    if isinstance(DEFAULTS[name], (bool, dict, list)):
        kind = type(DEFAULTS[name])
        if not isinstance(value, kind):
            raise GraphTypeError(f"The {name} of set_auto_parallel_context is a {kind.__name__}, not {value!r}.")
    if name in ("device_num", "global_rank"):
        least = 1 if name == "device_num" else 0
        if type(value) is not int:
            raise GraphTypeError(f"The {name} of set_auto_parallel_context is an integer, not {value!r}.")
        if value < least:
            raise GraphValueError(f"The {name} of set_auto_parallel_context is {least} or more, not {value}.")
    if name == "parallel_optimizer_config":
        _check_optimizer(value)


def _check_optimizer(config: dict[str, Any]) -> None:
    """Raise GraphlsError for what cannot be divided, and for a threshold that is no number of KB."""
    for name, value in config.items():
        require_known("parallel_optimizer_config", name, OPTIMIZER)
        if name == "parallel_optimizer_threshold" and (type(value) is not int or value < 0):
            raise GraphValueError(f"The {name} is a number of KB, 0 or more, not {value!r}.")
        if name == "optimizer_level" and value != "level1":
            text = f"graphls divides the states of optimizers among ranks, which is 'level1', not {value!r}"
            raise GraphRuntimeError(f"{text}: gradients and parameters stay whole.")
        if name == "optimizer_weight_shard_size" and value not in (-1, world().size):
            text = f"graphls divides the states of optimizers among all {world().size} ranks"
            raise GraphRuntimeError(f"{text}, not among {value!r}; leave {name} out.")


def force_one_rank(is_forced: bool) -> None:
    """Whether settings of several devices are taken as those of one."""
    with _settings.lock:
        OneRank.is_forced, OneRank.left_out = is_forced, {}


@contextmanager
def kept_parallel_context() -> Iterator[None]:
    """Give every setting of parallel training, behind a block, the value that it has now."""
    with _settings.preserved():
        yield


def takes_parameters_of_first_rank() -> bool:
    """Whether training begins with the parameters of rank 0: unless a script says that it does not."""
    return _settings.explicit_value("parameter_broadcast") is not False


def shard_threshold() -> int | None:
    """From how many bytes on the states of an optimizer are divided among the ranks; None where they are not."""
    is_asked = world().size > 1 and get_auto_parallel_context("enable_parallel_optimizer")
    config = get_auto_parallel_context("parallel_optimizer_config")
    default = get_auto_parallel_context("parallel_optimizer_threshold")
    return int(config.get("parallel_optimizer_threshold", default)) << 10 if is_asked else None


def _needs_several(name: str, value: object) -> bool:
    """Whether a setting means several devices."""
    return value not in ONE_RANK_MODES if name == "parallel_mode" else name in FIXED and value != _fixed(name)


def _fixed(name: str) -> Any:
    """The value that a setting has by the ranks that there are, or its default."""
    return {"device_num": world().size, "global_rank": world().rank}.get(name, DEFAULTS[name])


def _what_there_is() -> str:
    if world().size == 1:
        return "graphls trains on one device in one process"
    return f"graphls trains in {world().size} processes, of which this is rank {world().rank}"


def _warn_once(name: str, value: object) -> None:
    with _settings.lock:
        before, OneRank.left_out = OneRank.left_out, {**OneRank.left_out, name: value}
    if not before:
        warn(f"graphls trains on one device in one process; {name}={value!r} and what else means several is left out.")


def get_auto_parallel_context(attr_key: str) -> Any:
    """The value of a setting of parallel training; raises GraphValueError for a name that is none.

    Examples:
        >>> from graphls import context
        >>> context.get_auto_parallel_context("gradients_mean")
        False
    """
    require_known("get_auto_parallel_context", attr_key, DEFAULTS)
    given = _settings.explicit_value(attr_key)
    return _settings[attr_key] if given is not None or attr_key not in FIXED else _fixed(attr_key)


def reset_auto_parallel_context() -> None:
    """Give every setting of parallel training its default again."""
    _settings.reset()


# -- the names that training cells of MindSpore 1 import ------------------------------------------------------


def _get_parallel_mode() -> Any:
    return get_auto_parallel_context("parallel_mode")


def _get_gradients_mean() -> Any:
    return get_auto_parallel_context("gradients_mean")


def _get_device_num() -> Any:
    return get_auto_parallel_context("device_num")


def _get_global_rank() -> Any:
    return get_auto_parallel_context("global_rank")


def _get_parameter_broadcast() -> Any:
    return get_auto_parallel_context("parameter_broadcast")
