"""Operators of MindSpore for debugging: summaries for event files, and Assert."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.location import user_location
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.host_calls import report
from graphls.ops.operands import tensor_of
from graphls.ops.primitive import Operator
from graphls.train.callbacks.summary import SummaryRecord


class Summary(Operator):
    """A named value for the event file of an open SummaryRecord or SummaryCollector; without one it has no effect."""

    plugin = ""
    ranks: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.settings = {}

    def __call__(self, name: str, value: TensorLike) -> Any:
        if not isinstance(name, str) or not name:
            raise GraphTypeError(f"{type(self).__name__} takes a name, not {name!r}.")
        tensor = tensor_of(value)
        if (self.ranks and tensor.ndim not in self.ranks) or (self.plugin == "scalar" and tensor.size != 1):
            raise GraphValueError(f"{type(self).__name__} cannot write {tensor.type}.")
        report(type(self).__name__, [tensor], lambda arrays: self._write(name, arrays[0]))
        return tensor

    def _write(self, name: str, value: np.ndarray[Any, Any]) -> None:
        for record in SummaryRecord.open_ones:
            record.note(self.plugin, name, value)


class ScalarSummary(Summary):
    """`ScalarSummary()(name, x)`: a number for the event file of this step."""

    plugin = "scalar"


class HistogramSummary(Summary):
    """`HistogramSummary()(name, x)`: a histogram of all elements for the event file of this step."""

    plugin = "histogram"


class TensorSummary(HistogramSummary):
    """`TensorSummary()(name, x)`: a histogram of all elements, as TensorBoard has no tensors."""


class ImageSummary(Summary):
    """`ImageSummary()(name, x)`: images (N, C, H, W) for the event file of this step."""

    plugin, ranks = "image", (4,)


class Assert(Operator):
    """`Assert(summarize)(condition, tensors)`: raises an error if the condition is false after a run of the graph."""

    def __init__(self, summarize: int = 3) -> None:
        self.settings = {"summarize": summarize}

    def __call__(self, condition: Tensor, input_data: Tensor) -> Any:
        tensors = [tensor_of(condition), *map(tensor_of, input_data)]
        location = user_location()

        def show(arrays: list[np.ndarray[Any, Any]]) -> None:
            if not arrays[0].all():
                shown = "; ".join(str(a.reshape(-1)[: self.settings["summarize"]]) for a in arrays[1:])
                raise GraphRuntimeError(f"The condition of Assert is false, for {shown}.", location)

        report("Assert", tensors, show)
        return tensors[0]
