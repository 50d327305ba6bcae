"""`mindspore.parallel`: settings of MindSpore's automatic parallelism, without effect on a single device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from math import prod
from typing import Any

from graphls.base.errors import GraphAttributeError, GraphValueError
from graphls.base.sharing.settings import Settings
from graphls.frontend.tensors.tensor import TensorLike
from graphls.ir.registry import nearest
from graphls.nn.cell import Cell
from graphls.runtime.context.keys import mindspore_settings
from graphls.runtime.context.parallel import (
    DEFAULTS,
    _get_device_num,
    _get_global_rank,
    _get_gradients_mean,
    _get_parallel_mode,
    _get_parameter_broadcast,
    get_auto_parallel_context,
    reset_auto_parallel_context,
    set_auto_parallel_context,
)

__all__ = [
    "AutoParallel", "Layout", "_cost_model_context", "_get_all_auto_parallel_context", "_get_auto_parallel_context",
    "_get_device_num", "_get_enable_parallel_optimizer", "_get_full_batch", "_get_global_rank", "_get_gradients_mean",
    "_get_parallel_mode", "_get_parameter_broadcast", "_get_pipeline_stages", "_get_stage_device_num",
    "_is_in_auto_parallel_mode", "_is_in_data_parallel_mode", "_is_in_hybrid_parallel_mode", "_is_parallel_mode",
    "_need_to_full", "_reset_auto_parallel_context", "_reset_op_id", "_set_auto_parallel_context",
    "auto_parallel_context", "cost_model_context", "get_algo_parameters", "no_init_parameters", "parameter_broadcast",
    "reset_algo_parameters", "reset_cost_model_context", "set_algo_parameters", "set_cost_model_context", "shard",
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
    fn: Any, in_strategy: TensorLike | None = None, out_strategy: TensorLike | None = None,
    parameter_plan: TensorLike | None = None, device: str = "Ascend",
    level: int = 0,
) -> Callable[..., Any]:  # fmt: skip
    """The function or cell itself, without an effect: networks are not divided among devices."""
    return fn  # type: ignore[no-any-return]


class Layout:
    """A named mesh of devices, and the tensor axes that its axes shard; on one device, none.

    `layout("dp", "mp")` returns the layout of a tensor. Raises GraphValueError for names that do not fit the mesh.
    """

    def __init__(
        self, device_matrix: tuple[int, ...], alias_name: tuple[str, ...], rank_list: list[int] | None = None,
        init_alias: object | None = None,
    ) -> None:  # fmt: skip
        if len(device_matrix) != len(alias_name) or len(set(alias_name)) != len(alias_name):
            text = f"A Layout has one name for each of the {len(device_matrix)} axes, not {alias_name!r}."
            raise GraphValueError(text)
        self._device_matrix, self._alias_name, self._rank_list = device_matrix, alias_name, rank_list or []
        self._tensor_map: list[Any] = []

    def __call__(self, *tensor_map: object) -> Layout:
        for item in tensor_map:
            for name in item if isinstance(item, tuple) else (item,):
                if name != "None" and name not in self._alias_name:
                    text = f"The Layout has the axes {self._alias_name!r}, not {name!r}."
                    raise GraphValueError(text)
        layout = Layout(self._device_matrix, self._alias_name, self._rank_list)
        layout._tensor_map = list(tensor_map)
        return layout

    def to_dict(self) -> dict[str, Any]:
        """The mesh, the map of the tensor and the ranks."""
        ranks = self._rank_list or list(range(prod(self._device_matrix)))
        count = len(self._alias_name)
        index = {name: count - 1 - i for i, name in enumerate(self._alias_name)} | {"None": -1}
        axes = [tuple(map(index.get, item)) if isinstance(item, tuple) else index[item] for item in self._tensor_map]
        return {"device_matrix": self._device_matrix, "tensor_map": tuple(axes), "rank_list": ranks}


class AutoParallel(Cell):
    """A network that MindSpore would distribute over devices; on one device it is the network itself."""

    def __init__(self, network: Cell, parallel_mode: str = "semi_auto") -> None:
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, *inputs: object) -> Any:
        return self.network(*inputs)

    def _setting(self, *args: TensorLike, **options: object) -> None:
        """Does nothing: the setting concerns several devices."""

    comm_fusion = dataset_strategy = full_batch = hsdp = pipeline = gradient_fp32_sync = loss_repeated_mean = _setting
    load_param_strategy_file = save_param_strategy_file = set_group_ckpt_save_file = _setting
    load_operator_strategy_file = save_operator_strategy_file = disable_strategy_file_only = _setting


def parameter_broadcast(net: Cell, layout: TensorLike, cur_rank: int = 0, initial_rank: int = 0) -> None:
    """Does nothing: the parameters are those of the only rank."""


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


def _get_pipeline_stages() -> int:
    return 1


def _get_stage_device_num() -> int:
    return 1


def _is_in_data_parallel_mode() -> bool:
    return bool(get_auto_parallel_context("parallel_mode") == "data_parallel")


def _is_parallel_mode() -> bool:
    return False


_is_in_auto_parallel_mode = _is_in_hybrid_parallel_mode = _need_to_full = _is_parallel_mode


def _reset_op_id() -> None:
    """Does nothing: names of nodes do not depend on a counter."""
