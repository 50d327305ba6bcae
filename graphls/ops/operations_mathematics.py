"""Operator classes of distances, integers, statistics and windows: the tables for `graphls.ops.operations`."""

from __future__ import annotations

from typing import Any

from graphls.ops import (
    inplace,
    norms,
    quantiles,
)
from graphls.ops.record import operator_class
from graphls.tensors.tensor import Tensor


@operator_class("Quantile", "dim keep_dims ignore_nan")
def _quantile(x: Any, q: Any, dim: Any = None, keep_dims: bool = False, ignore_nan: bool = False) -> Tensor:
    """See `quantile`; with `ignore_nan` of what is not nan."""
    return (quantiles.nanquantile if ignore_nan else quantiles.quantile)(x, q, dim, keep_dims)


@operator_class("Renorm", "p dim maxnorm", like=norms.renorm)
def _renorm(x: Any, p: Any, dim: int, maxnorm: Any) -> Tensor:
    return norms.renorm(x, p, dim, maxnorm)


@operator_class("InplaceUpdateV2", like=inplace.inplace_update)
def _update_by_indices(x: Any, indices: Any, v: Any) -> Tensor:
    return inplace.inplace_update(x, v, indices)
