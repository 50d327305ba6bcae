"""Operator classes of distances, integers, statistics and windows: the tables for `graphls.ops.operations`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import float32, int32
from graphls.ops import (
    bessel,
    bitwise,
    boxes,
    distances,
    divisors,
    gamma,
    histograms,
    inplace,
    norms,
    predicates,
    quantiles,
    scans,
    signal_windows,
    zeta_function,
)
from graphls.ops.creation import full_like
from graphls.ops.movement import flip
from graphls.ops.operands import axis_of, tensor_of
from graphls.ops.operator import REQUIRED
from graphls.ops.settings import integer
from graphls.ops.shapes import concat, cut, squeeze
from graphls.ops.sorting import sort
from graphls.source import user_location
from graphls.tensor import Tensor


def _cumulative_logsumexp(x: Any, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The logarithms of the running sums of exp(x), see `logcumsumexp`.

    `exclusive` leaves the element itself out, which makes the first one -inf; `reverse` sums from the end.
    """
    x = tensor_of(x)
    at = axis_of(axis, x.ndim)
    found = scans.logcumsumexp(flip(x, at) if reverse else x, at)
    if exclusive:
        first = full_like(cut(found, at, 0, min(1, found.shape[at])), -math.inf)
        found = concat((first, cut(found, at, 0, max(0, found.shape[at] - 1))), at)
    return flip(found, at) if reverse else found


def _euclidean_norm(x: Any, axes: Any, keep_dims: bool = False) -> Tensor:
    """The square root of the sum of squares along axes."""
    return norms.vector_norm(x, 2, axes, keep_dims)


def _inverted_permutation(input_x: Any) -> tuple[int, ...]:
    """The places at which a permutation of 0, 1, ... has these, as integers; it is a tuple or list of them."""
    if not isinstance(input_x, (tuple, list)):
        raise GraphTypeError(f"InvertPermutation takes a tuple of integers, not {input_x!r}.", user_location())
    order = [integer("InvertPermutation", "input_x", i) for i in input_x]
    if sorted(order) != list(range(len(order))):
        message = f"InvertPermutation takes each of 0 to {len(order) - 1} once, not {input_x!r}."
        raise GraphValueError(message, user_location())
    return tuple(order.index(i) for i in range(len(order)))


def _nth_element(input: Any, n: Any, reverse: bool = False) -> Tensor:
    """The element along the last axis before which `n` smaller ones come, with `reverse` larger ones."""
    x, place = tensor_of(input), integer("NthElement", "n", n)
    if not x.ndim or not 0 <= place < x.shape[-1]:
        raise GraphValueError(f"NthElement has no element {place} along the last axis of {x.type}.", user_location())
    return squeeze(cut(sort(x, -1, reverse)[0], x.ndim - 1, place, place + 1), -1)


def _quantile(x: Any, q: Any, dim: Any = None, keep_dims: bool = False, ignore_nan: bool = False) -> Tensor:
    """See `quantile`; with `ignore_nan` of what is not nan."""
    return (quantiles.nanquantile if ignore_nan else quantiles.quantile)(x, q, dim, keep_dims)


def _renorm(x: Any, p: Any, dim: int, maxnorm: Any) -> Tensor:
    return norms.renorm(x, p, dim, maxnorm)


_renorm.__doc__ = norms.renorm.__doc__


def _update_by_indices(x: Any, indices: Any, v: Any) -> Tensor:
    return inplace.inplace_update(x, v, indices)


_update_by_indices.__doc__ = inplace.inplace_update.__doc__

PLAIN: dict[str, Callable[..., Any]] = {
    "BesselI0": bessel.bessel_i0,
    "BesselI0e": bessel.bessel_i0e,
    "BesselI1": bessel.bessel_i1,
    "BesselI1e": bessel.bessel_i1e,
    "BesselJ0": bessel.bessel_j0,
    "BesselJ1": bessel.bessel_j1,
    "BesselK0": bessel.bessel_k0,
    "BesselK0e": bessel.bessel_k0e,
    "BesselK1": bessel.bessel_k1,
    "BesselK1e": bessel.bessel_k1e,
    "BesselY0": bessel.bessel_y0,
    "BesselY1": bessel.bessel_y1,
    "Eps": predicates.eps,
    "Gcd": divisors.gcd,
    "InplaceUpdateV2": _update_by_indices,
    "InvertPermutation": _inverted_permutation,
    "Lcm": divisors.lcm,
    "Polygamma": gamma.polygamma,
    "PopulationCount": bitwise.population_count,
    "Zeta": zeta_function.zeta,
}

_WINDOW = {"periodic": True, "dtype": float32}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "BartlettWindow": (signal_windows.bartlett_window, _WINDOW),
    "BlackmanWindow": (signal_windows.blackman_window, _WINDOW),
    "Cdist": (distances.cdist, {"p": 2.0}),
    "CumulativeLogsumexp": (_cumulative_logsumexp, {"exclusive": False, "reverse": False}),
    "EuclideanNorm": (_euclidean_norm, {"keep_dims": False}),
    "HammingWindow": (signal_windows.hamming_window, {"periodic": True, "alpha": 0.54, "beta": 0.46, "dtype": float32}),
    "Histogram": (histograms.histc, {"bins": 100, "min": 0.0, "max": 0.0}),
    "HistogramFixedWidth": (histograms.histogram_fixed_width, {"nbins": REQUIRED, "dtype": int32}),
    "IOU": (boxes.iou, {"mode": "iou"}),
    "InplaceAdd": (inplace.inplace_add, {"indices": REQUIRED}),
    "InplaceIndexAdd": (inplace.inplace_index_add, {"axis": REQUIRED}),
    "InplaceSub": (inplace.inplace_sub, {"indices": REQUIRED}),
    "InplaceUpdate": (inplace.inplace_update, {"indices": REQUIRED}),
    "Mvlgamma": (gamma.mvlgamma, {"p": REQUIRED}),
    "NthElement": (_nth_element, {"reverse": False}),
    "Pdist": (distances.pdist, {"p": 2.0}),
    "Quantile": (_quantile, {"dim": None, "keep_dims": False, "ignore_nan": False}),
    "Renorm": (_renorm, {"p": REQUIRED, "dim": REQUIRED, "maxnorm": REQUIRED}),
}
