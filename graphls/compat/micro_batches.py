"""Cells of `mindspore.nn` that cut a batch into parts, or that say how several devices share the work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from graphls.ir.checks import positive_int
from graphls.ir.errors import GraphValueError
from graphls.nn.cell import Cell
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

__all__ = [
    "MicroBatchInterleaved",
    "PipelineCell",
    "VirtualDatasetCellTriple",
    "_BroadCastCell",
    "_MicroBatch",
    "_VirtualDatasetCell",
]


class _MicroBatch(Cell):
    """Part number `i` of all inputs, of `micro_size` equal parts along the first axis.

    Raises GraphValueError for a size that has no such parts.
    """

    def __init__(self, micro_size: int) -> None:
        super().__init__()
        self.micro_size = micro_size

    def construct(self, i: int, *inputs: Tensor) -> tuple[Any, ...]:
        for x in inputs:
            if x.shape[0] % self.micro_size:
                message = f"{x.shape[0]} rows are no {self.micro_size} equal parts; give a batch of another size."
                raise GraphValueError(message)
        sizes = [x.shape[0] // self.micro_size for x in inputs]
        return tuple(x[i * size : (i + 1) * size] for x, size in zip(inputs, sizes, strict=True))


class PipelineCell(Cell):
    """The sum of what a network gives for each of `micro_size` equal parts of a batch.

    Stages and segments change nothing, as one device does them all. Raises GraphTypeError and GraphValueError for a
    size that is no integer of 1 or more.
    """

    def __init__(
        self,
        network: Cell,
        micro_size: int,
        stage_config: Mapping[str, int] | None = None,
        segment_config: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.micro_size = positive_int(type(self).__name__, "micro_size", micro_size)
        self.micro_batch = _MicroBatch(self.micro_size)

    def construct(self, *inputs: object) -> Any:
        total = self.network(*self.micro_batch(0, *inputs))
        for i in range(1, self.micro_size):
            total = total + self.network(*self.micro_batch(i, *inputs))
        return total


class MicroBatchInterleaved(PipelineCell):
    """The sum of what a network gives for each of `interleave_num` equal parts of a batch; raises as PipelineCell."""

    def __init__(self, network: Cell, interleave_num: int = 2) -> None:
        super().__init__(network, interleave_num)
        self.interleave_num = interleave_num


class _VirtualDatasetCell(Cell):
    """The network itself: one device takes the whole batch."""

    def __init__(self, backbone: Cell) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = backbone

    def construct(self, *inputs: object) -> Any:
        return self._backbone(*inputs)


class VirtualDatasetCellTriple(_VirtualDatasetCell):
    """The network itself: one device takes the whole batch."""


class _BroadCastCell(Cell):
    """The parameters themselves: there is one device, which has them."""

    def __init__(self, params: Iterable[Parameter]) -> None:
        super().__init__()
        self.params = tuple(params)

    def construct(self) -> Any:
        return tuple(parameter.value() for parameter in self.params)
