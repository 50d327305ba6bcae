"""Names of `mindspore.nn` that mean little on one device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphls.context.parallel import get_auto_parallel_context
from graphls.ir.errors import GraphRuntimeError, GraphValueError
from graphls.nn.cell import Cell
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import TensorLike

__all__ = ["DistributedGradReducer"]


class DistributedGradReducer(Cell):
    """The gradients of all devices together, which on one device are those of that device.

    `mean` is None for the setting `gradients_mean`. Raises GraphValueError for a degree that is no integer of 1 or
    more, GraphRuntimeError for more devices than one.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        mean: bool | None = None,
        degree: int | None = None,
        fusion_type: int = 1,
        group: str = "",
    ) -> None:
        super().__init__(auto_prefix=False)
        degree = 1 if degree is None else degree
        if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
            message = f"The degree of DistributedGradReducer is an integer of 1 or more, not {degree!r}."
            raise GraphValueError(message)
        if degree > 1:
            message = f"graphls trains on one device, where the degree is 1, not {degree}."
            raise GraphRuntimeError(message)
        self.mean = get_auto_parallel_context("gradients_mean") if mean is None else mean
        self.degree = degree

    def construct(self, grads: TensorLike) -> Any:
        return grads
