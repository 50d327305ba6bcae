"""Gradients of all ranks together, and parameters that are the same on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from graphls import ops
from graphls.context.parallel import ParallelMode, get_auto_parallel_context
from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.ir.types import DType, float32
from graphls.nn.cell import Cell
from graphls.ops.collectives import all_reduced, broadcasted
from graphls.ops.operands import tensor_of
from graphls.ranks.world import find_group, world
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = ["DistributedGradReducer"]

BUCKET = 25 << 20
"""How many bytes of gradients travel together."""


class DistributedGradReducer(Cell):
    """The sums of the gradients of all ranks of a group, or, with `mean`, their means.

    `parameters` are those that the gradients belong to. `mean` is None for the setting `gradients_mean`; a mean is a
    sum divided by `degree`, by default the number of ranks. 16-bit gradients are added in float32, and have their dtype
    again behind that. Those of parameters with `layerwise_parallel` stay those of the rank. With `fusion_type` 0 each
    gradient travels alone; else those of parameters with equal `comm_fusion` travel together, the last parameters
    first, as a backward makes them, up to a size (see `set_auto_parallel_context(comm_fusion=...)`). Of one rank,
    gradients stay what they are.

    Raises GraphTypeError for a `mean` that is no bool, GraphValueError for a degree that is no integer of 1 or more and
    for a group that there is not, GraphRuntimeError for a degree above 1 in a process alone.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        mean: bool | None = None,
        degree: int | None = None,
        fusion_type: int = 1,
        group: str | None = None,
    ) -> None:
        super().__init__(auto_prefix=False)
        found = find_group(group)
        degree = found.size if degree is None else degree
        if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
            message = f"The degree of DistributedGradReducer is an integer of 1 or more, not {degree!r}."
            raise GraphValueError(message)
        if degree > 1 and found.size == 1:
            text = f"The degree is {degree}, and this process is alone; call communication.init() first in a script"
            raise GraphRuntimeError(f"{text} that `mpiexec -n {degree}` starts.")
        mean = get_auto_parallel_context("gradients_mean") if mean is None else mean
        if not isinstance(mean, bool):
            raise GraphTypeError(f"The mean of DistributedGradReducer is a bool, not {mean!r}.")
        self.mean, self.degree, self.group, self.ranks = mean, degree, found.name, found.size
        given = tuple(parameters)
        self.stays = tuple(bool(getattr(p, "layerwise_parallel", False)) for p in given)
        self.fusion = tuple(0 if fusion_type == 0 else getattr(p, "comm_fusion", 1) for p in given)

    def construct(self, grads: Sequence[TensorLike]) -> Any:
        if self.ranks == 1:
            return grads
        reduced = [tensor_of(grad) for grad in grads]
        wide = [ops.cast(grad, float32) if grad.dtype.is_half else grad for grad in reduced]
        sizes, kinds = [grad.type.nbytes for grad in wide], [grad.dtype for grad in wide]
        for bucket in buckets(sizes, list(zip(self.fusion, kinds, strict=True)), self.stays, bucket_size()):
            sums = all_reduced([wide[i] for i in bucket], "sum", self.group)
            for i, total in zip(bucket, sums, strict=True):
                mean = total * (1 / self.degree) if self.mean else total
                reduced[i] = ops.cast(mean, reduced[i].dtype)
        return tuple(reduced)


def buckets(
    sizes: Sequence[int], kinds: Sequence[tuple[int, DType]], stays: Sequence[bool], most: int
) -> list[list[int]]:
    """The positions of gradients of one kind that travel together, from the last on.

    A kind is a number, 0 for those that travel alone, and a dtype. A gradient larger than `most` bytes is alone.
    """
    found: list[list[int]] = []
    last: dict[tuple[int, DType], tuple[list[int], int]] = {}
    for i in reversed(range(len(sizes))):
        if stays[i]:
            continue
        bucket, size = last.get(kinds[i], ([], 0))
        if not bucket or kinds[i][0] == 0 or size + sizes[i] > most:
            bucket, size = [], 0
            found.append(bucket)
        bucket.append(i)
        last[kinds[i]] = bucket, size + sizes[i]
    return found


def bucket_size() -> int:
    """How many bytes of gradients travel together: what `comm_fusion` says in MB, or 25 MB."""
    setting = get_auto_parallel_context("comm_fusion").get("allreduce", {})
    return int(setting["config"]) << 20 if setting.get("mode") == "size" else BUCKET


def is_data_parallel() -> bool:
    """Whether several ranks train one network on different data."""
    modes = ParallelMode.DATA_PARALLEL, ParallelMode.HYBRID_PARALLEL
    return world().size > 1 and get_auto_parallel_context("parallel_mode") in modes


def broadcast_parameters(parameters: Iterable[Parameter], group: str | None = None) -> None:
    """Give the parameters of all ranks of a group the values that they have on its first rank."""
    found = find_group(group)
    if found.size == 1:
        return
    for parameter in parameters:
        (value,) = broadcasted([parameter], 0, found.name)
        if found.rank > 0:
            parameter.set_data(value)


def sum_over_ranks(x: TensorLike) -> Tensor:
    """The sum of a tensor over all ranks."""
    return all_reduced([x])[0]


def any_rank(flag: Tensor) -> Tensor:
    """Whether a flag is set on any rank."""
    return ops.greater_equal(sum_over_ranks(ops.cast(flag, float32)), 1)
