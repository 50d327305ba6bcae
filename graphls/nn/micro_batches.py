"""Networks that run on parts of a batch, one after the other: accumulation of gradients, pipelines, interleaving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphls import ops
from graphls.base.checks import not_negative_int, positive_int
from graphls.base.errors import GraphKeyError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves, rebuild, structure
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.frontend.trace.tracer import in_micro_batch
from graphls.ir.registry import nearest
from graphls.ir.types import float32
from graphls.nn.cell import Cell

__all__ = ["GradAccumulationCell", "MicroBatchInterleaved", "PipelineCell", "PipelineGradReducer"]


class _MicroBatches(Cell):
    """A network that runs on equal parts of its inputs in sequence; returns the sum of its outputs.

    `argument` is the name of the number of parts in a message. Raises as GradAccumulationCell.
    """

    def __init__(self, network: Cell, count: object, argument: str) -> None:
        super().__init__(auto_prefix=False)
        kind = type(self).__name__
        if not isinstance(network, Cell):
            raise GraphTypeError(f"{kind} takes a cell, not {network!r}.")
        self.network = network
        self._count = positive_int(kind, argument, count)

    def construct(self, *inputs: object) -> Any:
        total = self._part(inputs, 0)
        for number in range(1, self._count):
            total = _sum(total, self._part(inputs, number))
        return total

    def _part(self, inputs: tuple[object, ...], number: int) -> Any:
        with in_micro_batch(number, self._count):
            return self.network(*micro_batch(type(self).__name__, inputs, number, self._count))


class GradAccumulationCell(_MicroBatches):
    """A network that runs on `micro_size` parts of its inputs in sequence; returns the sum of its outputs.

    Every tensor among the inputs is split along its first axis; anything else goes to every part. The gradient of the
    sum is the sum of the gradients. Raises GraphTypeError for a network that is not a cell or a `micro_size` that is
    not an integer, GraphValueError for one below 1 and for an axis that it does not divide.

    Examples:
        >>> from graphls import nn, tensor
        >>> net = nn.WithLossCell(nn.Dense(2, 1, weight_init="zeros", bias_init="zeros"), nn.MSELoss())
        >>> parts = nn.GradAccumulationCell(net, 2)
        >>> parts(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[1.0], [2.0]]))  # 1 ** 2 and 2 ** 2
        Tensor(shape=[], dtype=Float32, value=5.0)
    """

    _adds_gradients = True
    """Whether parameters `accu_grads.<name>` of a step have the sums of the gradients, as in MindSpore."""

    def __init__(self, network: Cell, micro_size: int) -> None:
        super().__init__(network, micro_size, "micro_size")
        self.micro_size = self._count


class PipelineCell(GradAccumulationCell):
    """A network whose stages run on devices of their own, each on another of `micro_size` parts of a batch.

    It returns the sum of the outputs for the parts, as GradAccumulationCell does, and is the same on one device. The
    stages are the `pipeline_stage` of cells inside the network, which `stage_config` sets by their names, such as
    `{"_backbone.layer1": 0, "_backbone.layer2": 1}`; they count on a mesh with an axis `stage`. The names and numbers
    of a `segment_config`, with which MindSpore runs several parts of the network in one stage, are checked alone.

    Raises GraphKeyError for a name that no cell inside the network has, GraphTypeError and GraphValueError for numbers
    that are not integers from 0, and as GradAccumulationCell.

    Examples:
        >>> from graphls import nn, tensor
        >>> body = nn.SequentialCell(nn.Dense(2, 3), nn.ReLU(), nn.Dense(3, 1))
        >>> net = nn.WithLossCell(body, nn.MSELoss())
        >>> parts = nn.PipelineCell(net, 2, stage_config={"_backbone.0": 0, "_backbone.2": 1})
        >>> body[0].pipeline_stage, body[1].pipeline_stage, body[2].pipeline_stage
        (0, None, 1)
        >>> parts(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[1.0], [2.0]])).shape
        ()
    """

    def __init__(
        self, network: Cell, micro_size: int, stage_config: Mapping[str, int] | None = None,
        segment_config: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(network, micro_size)
        stages = _numbers(network, "stage_config", stage_config)
        _numbers(network, "segment_config", segment_config)
        for cell, stage in stages:
            cell.pipeline_stage = stage


class MicroBatchInterleaved(_MicroBatches):
    """A network that runs on `interleave_num` parts of its inputs in sequence; returns the sum of its outputs.

    On several devices the communication of one part is hidden behind the computation of another, where the compiler
    schedules it so. Inside a PipelineCell, each of its parts is split again. Raises as GradAccumulationCell.

    Examples:
        >>> from graphls import nn, tensor
        >>> net = nn.WithLossCell(nn.Dense(2, 1, weight_init="zeros", bias_init="zeros"), nn.MSELoss())
        >>> nn.MicroBatchInterleaved(net, 2)(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[1.0], [2.0]]))
        Tensor(shape=[], dtype=Float32, value=5.0)
    """

    def __init__(self, network: Cell, interleave_num: int = 2) -> None:
        super().__init__(network, interleave_num, "interleave_num")
        self.interleave_num = self._count


class PipelineGradReducer(Cell):
    """The gradients of a PipelineCell divided by the scale of its loss, for steps that are written as functions.

    `reducer(grads)` returns a tuple of gradients in their dtypes. They are sums over all parts of the batch and all
    devices already, so `parameters` and `opt_shard`, arguments of MindSpore, change nothing. Raises GraphTypeError for
    a scale that is not a number, GraphValueError unless it has one element.

    Examples:
        >>> from graphls import nn, tensor
        >>> nn.PipelineGradReducer([], scale_sense=4.0)((tensor([8.0]), tensor([2.0])))
        (Tensor(shape=[1], dtype=Float32, value=[2.]), Tensor(shape=[1], dtype=Float32, value=[0.5]))
    """

    def __init__(
        self, parameters: Sequence[Parameter], scale_sense: float | Tensor = 1.0, opt_shard: bool | None = None
    ) -> None:
        super().__init__(auto_prefix=False)
        if isinstance(scale_sense, bool) or not isinstance(scale_sense, (int, float, Tensor)):
            raise GraphTypeError(f"The scale_sense of PipelineGradReducer is a number, not {scale_sense!r}.")
        scale = Tensor(scale_sense, float32)
        if scale.size != 1:
            raise GraphValueError(f"The scale_sense of PipelineGradReducer is one number, not {scale.type}.")
        self.scale_sense = Parameter(scale, name="scale_sense", requires_grad=False)
        self.opt_shard = opt_shard

    def construct(self, grads: Sequence[Tensor]) -> tuple[Tensor, ...]:
        inverse = ops.reciprocal(ops.reshape(self.scale_sense, ()))
        return tuple(ops.mul(grad, ops.cast(inverse, grad.dtype)) for grad in grads)


def micro_batch(name: str, inputs: tuple[object, ...], number: int, count: int) -> tuple[Any, ...]:
    """One of `count` equal parts of every tensor among the inputs along its first axis, and all else as it is.

    Raises GraphValueError, with the `name` of the cell, for an axis that is not divided evenly.
    """

    def part(x: Any) -> Any:
        if not is_tensor(x):
            return x
        if not x.shape or x.shape[0] % count:
            raise GraphValueError(
                f"For '{name}', an input of shape {x.shape} cannot be split into {count} parts along its first axis; "
                f"take a batch that {count} divides.",
            )
        size = x.shape[0] // count
        return x[number * size : (number + 1) * size]

    result: tuple[Any, ...] = map_leaves(part, inputs)
    return result


def _sum(first: TensorLike, second: TensorLike) -> Any:
    """The sum of two pytrees of outputs, tensor by tensor."""
    if structure(first) != structure(second):
        raise GraphValueError("A network must give every part of a batch as many outputs.")
    pairs = zip(leaves(first), leaves(second), strict=True)
    return rebuild(first, [ops.add(a, b) if is_tensor(a) else a for a, b in pairs])


def _numbers(network: Cell, argument: str, config: Mapping[str, int] | None) -> list[tuple[Cell, int]]:
    """The cells of a network that a configuration names, with their numbers."""
    if config is None:
        return []
    if not isinstance(config, Mapping):
        text = f"The {argument} of PipelineCell is a dict of numbers by the names of cells"
        raise GraphTypeError(f"{text}, not {config!r}.")
    cells = {name: cell for name, cell in network.cells_and_names() if name}
    for name in config:
        if name not in cells:
            text = f"The {argument} of PipelineCell names {name!r}, and {type(network).__name__} has no such cell"
            raise GraphKeyError(f"{text}{nearest(name, cells)}; cells_and_names() lists them.")
    return [(cells[name], not_negative_int("PipelineCell", argument, number)) for name, number in config.items()]
