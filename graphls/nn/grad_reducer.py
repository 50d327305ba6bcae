"""Gradients reduced over all ranks, and parameters broadcast to them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from graphls import ops
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.distributed.groups import require_equal_parameters
from graphls.distributed.world import WORLD, Group, devices_driven, devices_of_stage, find_group, world
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.frontend.trace.tracer import in_phase
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.ops.collectives import all_reduced, all_reduced_where, broadcasted
from graphls.ops.operands import tensor_of
from graphls.runtime.context.parallel import ParallelMode, get_auto_parallel_context

__all__ = ["DistributedGradReducer"]


class DistributedGradReducer(Cell):
    """The sums of the gradients of all ranks of a group, or, with `mean`, their means.

    `parameters` are those that the gradients belong to. `mean` is None for the setting `gradients_mean`; a mean is a
    sum divided by `degree`, by default the number of ranks. 16-bit gradients are sent and added in float32, and
    converted back to their dtype after the mean, unless `gradient_fp32_sync` is set to False: then they are sent as
    they are, and sums are rounded to their dtype. Those of parameters with `layerwise_parallel` are not reduced. With
    `fusion_type` 0 each gradient is sent alone; else those of parameters with equal `comm_fusion` are sent together, in
    the order in which the backward computes them (see `buckets`). With one rank, gradients are unchanged. If
    one process drives several devices, the gradients are those of the mean over the joined batch already: the sum over
    ranks is as many times as much.

    Raises GraphTypeError for a `mean` that is not a bool, GraphValueError for a degree that is not an integer of 1 or
    more and for an unknown group, GraphRuntimeError for a degree above 1 in a single process.
    """

    def __init__(
        self, parameters: Iterable[Parameter], mean: bool | None = None, degree: int | None = None,
        fusion_type: int = 1, group: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(auto_prefix=False)
        rank_group = find_group(group)
        copies = _copies(rank_group)
        degree = max(rank_group.size, copies) if degree is None else degree
        if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
            message = f"The degree of DistributedGradReducer is an integer of 1 or more, not {degree!r}."
            raise GraphValueError(message)
        if degree > copies and rank_group.comm is None:
            text = f"The degree is {degree}, and this process is alone; call communication.init() first in a script"
            raise GraphRuntimeError(f"{text} that `mpiexec -n {degree}` starts.")
        mean = get_auto_parallel_context("gradients_mean") if mean is None else mean
        if not isinstance(mean, bool):
            raise GraphTypeError(f"The mean of DistributedGradReducer is a bool, not {mean!r}.")
        self.mean, self.degree, self.group = mean, degree, rank_group.name
        self.ranks = 1 if rank_group.comm is None else rank_group.size
        owners = tuple(parameters)
        self.stays = tuple(bool(getattr(p, "layerwise_parallel", False)) for p in owners)
        self.buckets = buckets(owners, fusion_type)
        wide = get_auto_parallel_context("gradient_fp32_sync"), get_auto_parallel_context("force_fp32_communication")
        self.in_float32 = any(wide)

    def construct(self, grads: Sequence[TensorLike]) -> Any:
        if self.ranks == 1:
            return grads if self.mean or self.degree == 1 else tuple(ops.mul(grad, self.degree) for grad in grads)
        with in_phase("backward"):
            triples = zip(grads, self.stays, self.buckets, strict=True)
            return tuple(grad if stays else self.reduced(tensor_of(grad), bucket) for grad, stays, bucket in triples)

    def reduced_where(self, flag: Tensor, grads: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The sums or means where a flag, the same on all ranks, is true; else each rank's own, unsent.

        Those of one dtype are sent together.
        """
        if self.ranks == 1:
            factor = ops.where(flag, 1.0 if self.mean else float(self.degree), 1.0)
            return tuple(ops.cast(ops.mul(grad, factor), grad.dtype) for grad in grads)
        results = list(grads)
        with in_phase("backward"):
            factor = ops.where(flag, 1 / self.degree, 1.0)
            for dtype in dict.fromkeys(grad.dtype for grad in grads):
                indices = [i for i, g in enumerate(grads) if g.dtype is dtype and not self.stays[i]]
                totals = all_reduced_where(flag, [grads[i] for i in indices], "sum", self.group) if indices else []
                for i, total in zip(indices, totals, strict=True):
                    results[i] = ops.mul(total, factor) if self.mean else total
        return tuple(results)

    def reduced(self, grad: Tensor, bucket: tuple[int, ...]) -> Tensor:
        """The sum or the mean of one gradient."""
        operand = ops.cast(grad, float32) if grad.dtype.is_half and self.in_float32 else grad
        (total,) = all_reduced([operand], "sum", self.group, bucket)
        return ops.cast(total * (1 / self.degree) if self.mean else total, grad.dtype)


def _copies(group: Group) -> int:
    """The number of devices of this process whose rows are joined in the gradients of its step; 1 for ranks of MPI.

    Raises GraphRuntimeError for a group of some of these devices.
    """
    if group.comm is not None:
        return 1
    count = devices_of_stage()
    if group.name != WORLD and devices_driven() > 1 and group.size not in (count, devices_driven()):
        text = f"The gradients of a step are those of the rows of all {count} devices of this process"
        raise GraphRuntimeError(f"{text}, and not of the group {group.name!r} of {group.size} ranks; leave it out.")
    return count if group.name == WORLD or devices_driven() > 1 else 1


def is_data_parallel() -> bool:
    """Returns whether several ranks train one network on different data."""
    modes = ParallelMode.DATA_PARALLEL, ParallelMode.HYBRID_PARALLEL
    return world().size > 1 and get_auto_parallel_context("parallel_mode") in modes


def adds_for_devices() -> bool:
    """Returns whether gradients are sums over the devices that this process drives, as over ranks."""
    mode, mean = get_auto_parallel_context("parallel_mode"), get_auto_parallel_context("gradients_mean")
    return mode == ParallelMode.DATA_PARALLEL and not mean and devices_of_stage() > 1


def broadcast_parameters(parameters: Iterable[Parameter], group: str | None = None) -> None:
    """Set the parameters of all ranks of a group to the values of its first rank.

    Raises GraphRuntimeError, on all ranks, where their parameters differ in names or types.
    """
    rank_group, owned = find_group(group), list(parameters)
    if rank_group.comm is None:
        return
    require_equal_parameters(rank_group, [f"{parameter.name} {tensor_of(parameter).type}" for parameter in owned])
    for parameter in owned:
        (value,) = broadcasted([parameter], 0, rank_group.name)
        if rank_group.rank > 0:
            parameter.set_data(value)


def sum_over_ranks(x: TensorLike) -> Tensor:
    """The sum of a tensor over all ranks."""
    return all_reduced([x])[0]


def any_rank_where(when: Tensor, flag: Tensor) -> Tensor:
    """Returns whether a flag is set on any rank, where `when` (the same on all) is true; else the rank's own flag."""
    with in_phase("check"):
        (total,) = all_reduced_where(when, [ops.cast(flag, float32)])
        return ops.greater_equal(total, 1)


def any_rank(flag: Tensor) -> Tensor:
    """Returns whether a flag is set on any rank."""
    with in_phase("check"):
        return ops.greater_equal(sum_over_ranks(ops.cast(flag, float32)), 1)


SIZE = 25 << 20
"""The default size of a bucket, in bytes of gradients that are sent together."""

ALONE = (0,)


def buckets(parameters: Sequence[Parameter], fusion_type: int = 1) -> tuple[tuple[int, ...], ...]:
    """For each gradient the number of its bucket, 0 for one that is sent alone, and the size of the bucket in bytes.

    Gradients of parameters with equal `comm_fusion` share one. `all_reduce_fusion_config=[20, 35]`, and
    `comm_fusion={"allreduce": {"mode": "index", "config": [20, 35]}}`, send those of the first 20 parameters, of the
    next 15, and the others together, regardless of their size; the modes "size", with a config in MB, and "auto" cut by
    size. `comm_fusion={"openstate": False}` sends each alone. Raises GraphValueError for other settings.
    """
    numbers = [0 if fusion_type == 0 else getattr(p, "comm_fusion", 1) for p in parameters]
    fusion = get_auto_parallel_context("comm_fusion")
    if not fusion.get("openstate", True):
        return (ALONE,) * len(numbers)
    cuts, size = _setting(fusion.get("allreduce", {}), get_auto_parallel_context("all_reduce_fusion_config"))
    if not cuts:
        return tuple((number, size) if number else ALONE for number in numbers)
    keys = [(number, bisect_right(cuts, i)) for i, number in enumerate(numbers)]
    known = {key: i for i, key in enumerate(dict.fromkeys(keys), 1)}
    return tuple((known[key],) if key[0] else ALONE for key in keys)


def _setting(setting: dict[str, Any], indices: Sequence[int]) -> tuple[list[int], int]:
    """The numbers of parameters at which buckets are cut, and the size of a bucket in bytes."""
    mode, config = setting.get("mode", "auto"), setting.get("config")
    if mode == "auto":
        return _indices(indices), SIZE
    if mode == "size" and isinstance(config, (int, float)) and config >= 0:
        return [], int(config * (1 << 20))
    if mode == "index" and isinstance(config, (list, tuple)):
        return _indices(config), SIZE
    text = "The allreduce of comm_fusion has the mode 'auto', 'size' with a config in MB, or 'index' with a list"
    raise GraphValueError(f"{text} of numbers of parameters, not {setting}.")


def _indices(indices: Sequence[int]) -> list[int]:
    cuts = list(indices)
    if not all(type(i) is int and i >= 0 for i in cuts) or sorted(set(cuts)) != cuts:
        raise GraphValueError(f"Numbers of parameters at which gradients are parted rise from 0, unlike {cuts}.")
    return cuts
