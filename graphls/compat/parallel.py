"""`mindspore.parallel`: strategies, layouts and settings of networks that devices divide."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from graphls.base.errors import GraphAttributeError, GraphValueError
from graphls.base.sharing.settings import Settings
from graphls.distributed.world import devices_driven, devices_of_stage, world
from graphls.frontend.tensors.tensor import TensorLike
from graphls.ir.registry import nearest
from graphls.nn.cell import Cell
from graphls.nn.micro_batches import (
    GradAccumulationCell,
    MicroBatchInterleaved,
    PipelineCell,
    PipelineGradReducer,
)
from graphls.nn.shard import sharded
from graphls.ops.strategies import Layout
from graphls.runtime.context.keys import mindspore_settings
from graphls.runtime.context.parallel import (
    DEFAULTS,
    _get_device_num,
    _get_global_rank,
    _get_gradients_mean,
    _get_parallel_mode,
    _get_parameter_broadcast,
    _get_pipeline_stages,
    get_auto_parallel_context,
    reset_auto_parallel_context,
    set_auto_parallel_context,
)

__all__ = [
    "AutoParallel", "GradAccumulation", "Layout", "MicroBatchInterleaved", "Pipeline", "PipelineGradReducer",
    "_cost_model_context", "_get_all_auto_parallel_context", "_get_auto_parallel_context", "_get_device_num",
    "_get_enable_parallel_optimizer", "_get_full_batch", "_get_global_rank", "_get_gradients_mean",
    "_get_parallel_mode", "_get_parameter_broadcast", "_get_pipeline_stages", "_get_stage_device_num",
    "_is_in_auto_parallel_mode", "_is_in_data_parallel_mode", "_is_in_hybrid_parallel_mode", "_is_parallel_mode",
    "_need_to_full", "_reset_auto_parallel_context", "_reset_op_id", "_set_auto_parallel_context",
    "auto_parallel_context", "cost_model_context", "get_algo_parameters", "no_init_parameters",
    "parameter_broadcast", "reset_algo_parameters", "reset_cost_model_context", "set_algo_parameters",
    "set_cost_model_context", "shard", "sync_pipeline_shared_parameters",
]  # fmt: skip

ALGORITHM: dict[str, Any] = {
    "elementwise_op_strategy_follow": False,
    "enable_algo_approxi": False,
    "algo_approxi_epsilon": 0.1,
    "fully_use_devices": False,
    "tensor_slice_align_enable": False,
    "tensor_slice_align_size": 16,
}
MORE = {name: default for name, (default, _) in mindspore_settings("auto_parallel_context").items()}
"""Settings of `auto_parallel_context()` beyond those of parallel training."""

_algorithm = Settings(ALGORITHM)
_more = Settings(MORE)
_cost_model = Settings({})


def set_algo_parameters(**kwargs: object) -> None:
    """Store parameters of MindSpore's strategy search; raises GraphValueError for an unknown one."""
    for name in kwargs:
        _require_algorithm(name)
    _algorithm.update(kwargs)


def get_algo_parameters(attr_key: str) -> Any:
    """A parameter of MindSpore's strategy search; raises GraphValueError for an unknown one."""
    _require_algorithm(attr_key)
    return _algorithm[attr_key]


def reset_algo_parameters() -> None:
    """Reset every parameter of the strategy search to its default."""
    _algorithm.reset()


def _require_algorithm(name: str) -> None:
    if name not in ALGORITHM:
        text = f"The search for strategies has no parameter {name!r}{nearest(name, ALGORITHM)}."
        raise GraphValueError(text)


def set_cost_model_context(**kwargs: object) -> None:
    """Store parameters of MindSpore's cost model, which have no effect here."""
    _cost_model.update(kwargs)


def reset_cost_model_context() -> None:
    """Remove the parameters of the cost model."""
    _cost_model.reset()


cost_model_context = _cost_model_context = set_cost_model_context


def shard(
    fn: Any, in_strategy: object = None, out_strategy: object = None, parameter_plan: object = None,
    device: str = "Ascend", level: int = 0,
) -> Callable[..., Any]:  # fmt: skip
    """A function, or a cell as a function, whose inputs and results the devices of a mesh divide; see docs/parallel.md.

    Raises as `nn.Cell.shard`.
    """
    if in_strategy is None and out_strategy is None and parameter_plan is None:
        return fn  # type: ignore[no-any-return]
    return sharded(fn, in_strategy, out_strategy, parameter_plan)


class AutoParallel(Cell):
    """A network that the devices of this process divide; on one device it is the network itself.

    `parallel_mode` is "semi_auto", or "sharding_propagation" or "recursive_programming", for which XLA finds what
    strategies do not say. It and what the methods set become settings of the process, as by
    `set_auto_parallel_context`. Raises GraphValueError for another mode.
    """

    def __init__(self, network: Cell, parallel_mode: str = "semi_auto") -> None:
        super().__init__(auto_prefix=False)
        if parallel_mode not in MODES:
            raise GraphValueError(f"The parallel_mode is one of {', '.join(map(repr, MODES))}, not {parallel_mode!r}.")
        self.network = network
        self._set(parallel_mode=MODES[parallel_mode])

    def construct(self, *inputs: object) -> Any:
        return self.network(*inputs)

    def dataset_strategy(self, config: Any) -> None:
        """What devices divide of inputs: "data_parallel", "full_batch", or slices for each input."""
        self._set(dataset_strategy=config)

    def hsdp(self, shard_size: int = -1, threshold: int = 64, optimizer_level: str = "level1") -> None:
        """Divide what `optimizer_level` says of parameters of at least `threshold` KB among the devices."""
        sizes = {"optimizer_weight_shard_size": shard_size, "parallel_optimizer_threshold": threshold}
        self._set(enable_parallel_optimizer=True)
        self._set(parallel_optimizer_config={**sizes, "optimizer_level": optimizer_level})

    def pipeline(
        self, stages: int = 1, output_broadcast: bool = False, interleave: bool = False, scheduler: str = "1f1b"
    ) -> None:
        """Divide the devices among so many stages; the order of their tasks is 1F1B with any other argument."""
        self._set(pipeline_stages=stages)

    def _set(self, **settings: object) -> None:
        """Change settings of parallel training, where this process drives several devices."""
        if devices_driven() > 1:
            set_auto_parallel_context(**settings)

    def _setting(self, *args: TensorLike, **options: object) -> None:
        """Does nothing: the setting concerns MindSpore's communication and files."""

    comm_fusion = gradient_fp32_sync = loss_repeated_mean = enable_fp32_communication = transformer_opt = _setting
    load_param_strategy_file = save_param_strategy_file = set_group_ckpt_save_file = print_local_norm = _setting
    load_operator_strategy_file = save_operator_strategy_file = disable_strategy_file_only = _setting
    disable_loss_repeated_mean = disable_gradient_fp32_sync = _setting

    def full_batch(self, is_whole: bool = True) -> None:
        """Whether each device has complete inputs."""
        self._set(full_batch=is_whole)


GradAccumulation, Pipeline = GradAccumulationCell, PipelineCell
"""The names that they have in `mindspore.parallel.nn`."""

MODES = {
    "semi_auto": "semi_auto_parallel", "sharding_propagation": "auto_parallel", "recursive_programming": "auto_parallel"
}  # fmt: skip
"""The modes of AutoParallel, with those of `set_auto_parallel_context`."""


def parameter_broadcast(net: Cell, layout: TensorLike, cur_rank: int = 0, initial_rank: int = 0) -> None:
    """Does nothing: the parameters are those of the only rank."""


def sync_pipeline_shared_parameters(net: Cell) -> None:
    """Does nothing: a parameter that several stages read is one parameter."""


@contextmanager
def no_init_parameters() -> Any:
    """A block whose cells MindSpore leaves uninitialised, to load them later; here they are initialised."""
    yield


class _AutoParallelContext:
    """The settings of parallel training as an object with a setter and a getter for each."""

    def __getattr__(self, name: str) -> Any:
        verb, _, key = name.partition("_")
        if verb not in ("set", "get") or key not in {**DEFAULTS, **MORE}:
            raise GraphAttributeError(f"The settings of parallel training have no {name!r}.")
        if verb == "get":
            return lambda *group: get_auto_parallel_context(key) if key in DEFAULTS else _more[key]
        change = (lambda settings: set_auto_parallel_context(**settings)) if key in DEFAULTS else _more.update
        return lambda *values, **options: change({key: [*values, *options.values()][0]})

    def reset(self) -> None:
        """Reset every setting to its default."""
        reset_auto_parallel_context()
        _more.reset()


_context = _AutoParallelContext()


def auto_parallel_context() -> _AutoParallelContext:
    """The settings of parallel training."""
    return _context


_set_auto_parallel_context = set_auto_parallel_context
_get_auto_parallel_context = get_auto_parallel_context
_reset_auto_parallel_context = reset_auto_parallel_context


def _get_all_auto_parallel_context() -> dict[str, Any]:
    return {name: get_auto_parallel_context(name) for name in DEFAULTS}


def _get_full_batch() -> Any:
    return get_auto_parallel_context("full_batch")


def _get_enable_parallel_optimizer() -> Any:
    return get_auto_parallel_context("enable_parallel_optimizer")


def _get_stage_device_num() -> int:
    return world().size * devices_of_stage()


def _is_in_data_parallel_mode() -> bool:
    return bool(get_auto_parallel_context("parallel_mode") == "data_parallel")


def _is_in_auto_parallel_mode() -> bool:
    return get_auto_parallel_context("parallel_mode") in ("semi_auto_parallel", "auto_parallel")


def _is_parallel_mode() -> bool:
    return False


_is_in_hybrid_parallel_mode = _need_to_full = _is_parallel_mode


def _reset_op_id() -> None:
    """Does nothing: names of nodes do not depend on a counter."""
