"""How similar the rows of a matrix are."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.train.metrics.metric import Array, Metric, check_choice, check_type, misfit, rearrange_inputs

_SIMILARITIES, _REDUCTIONS = ("dot", "cosine"), ("none", "sum", "mean")


class CosineSimilarity(Metric):
    """The cosine of the angle between each two rows of the matrix that was taken in last, or their dot products.

    `similarity` is "cosine" or "dot", `reduction` "none", "sum" or "mean" over each row of the result, and
    `zero_diagonal` sets the similarity of a row with itself to 0 before. Raises GraphTypeError and GraphValueError for
    settings that do not fit.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import CosineSimilarity
        >>> metric = CosineSimilarity()
        >>> metric.clear()
        >>> metric.update(np.array([[3.0, 4.0], [4.0, 3.0]]))
        >>> metric.eval()
        array([[0.  , 0.96],
               [0.96, 0.  ]])
    """

    inputs = ("matrix",)

    def __init__(self, similarity: str = "cosine", reduction: str = "none", zero_diagonal: bool = True) -> None:
        super().__init__()
        check_choice(self, "similarity", similarity, _SIMILARITIES)
        check_choice(self, "reduction", reduction, _REDUCTIONS)
        check_type(self, "zero_diagonal", zero_diagonal, bool)
        self.similarity, self.reduction, self.zero_diagonal = similarity, reduction, zero_diagonal
        self.clear()

    def clear(self) -> None:
        self._matrix: Array | None = None

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Take in a matrix (N, M), in the place of that before; raises GraphValueError for another shape."""
        (rows,) = self._arrays(inputs)
        if rows.ndim != 2:
            raise misfit(self, "a matrix, (N, M)", rows)
        if self.similarity == "cosine":
            with np.errstate(invalid="ignore"):  # a row of zeros has no direction, and the cosine is nan
                rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self._matrix = rows @ rows.T
        if self.zero_diagonal:
            np.fill_diagonal(self._matrix, 0)

    def eval(self) -> Any:
        """The similarities (N, N), or their sums or means (N,); raises GraphRuntimeError before the first `update`."""
        if self._matrix is None:
            raise GraphRuntimeError("The 'CosineSimilarity' must be updated before it is evaluated.")
        if self.reduction == "none":
            return self._matrix
        return self._matrix.sum(axis=-1) if self.reduction == "sum" else self._matrix.mean(axis=-1)
