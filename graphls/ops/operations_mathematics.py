"""Operator classes of distances, integers, statistics and windows: the tables for `graphls.ops.operations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.types import float32, int32
from graphls.ops import (
    bessel,
    bitwise,
    box_overlaps,
    distances,
    divisors,
    histograms,
    incomplete_beta,
    incomplete_functions,
    inplace,
    norms,
    predicates,
    quantiles,
    signal_windows,
    zeta_function,
)
from graphls.ops.operator import REQUIRED, described_as
from graphls.tensors.tensor import Tensor


def _quantile(x: Any, q: Any, dim: Any = None, keep_dims: bool = False, ignore_nan: bool = False) -> Tensor:
    """See `quantile`; with `ignore_nan` of what is not nan."""
    return (quantiles.nanquantile if ignore_nan else quantiles.quantile)(x, q, dim, keep_dims)


@described_as(norms.renorm)
def _renorm(x: Any, p: Any, dim: int, maxnorm: Any) -> Tensor:
    return norms.renorm(x, p, dim, maxnorm)


@described_as(inplace.inplace_update)
def _update_by_indices(x: Any, indices: Any, v: Any) -> Tensor:
    return inplace.inplace_update(x, v, indices)

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
    "Betainc": incomplete_beta.betainc,
    "Eps": predicates.eps,
    "Gcd": divisors.gcd,
    "Igamma": incomplete_functions.igamma,
    "Igammac": incomplete_functions.igammac,
    "InplaceUpdateV2": _update_by_indices,
    "Lcm": divisors.lcm,
    "PopulationCount": bitwise.population_count,
    "Zeta": zeta_function.zeta,
}

_WINDOW = {"periodic": True, "dtype": float32}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "BartlettWindow": (signal_windows.bartlett_window, _WINDOW),
    "BlackmanWindow": (signal_windows.blackman_window, _WINDOW),
    "Cdist": (distances.cdist, {"p": 2.0}),
    "HammingWindow": (signal_windows.hamming_window, {"periodic": True, "alpha": 0.54, "beta": 0.46, "dtype": float32}),
    "Histogram": (histograms.histc, {"bins": 100, "min": 0.0, "max": 0.0}),
    "HistogramFixedWidth": (histograms.histogram_fixed_width, {"nbins": REQUIRED, "dtype": int32}),
    "IOU": (box_overlaps.iou, {"mode": "iou"}),
    "InplaceAdd": (inplace.inplace_add, {"indices": REQUIRED}),
    "InplaceIndexAdd": (inplace.inplace_index_add, {"axis": REQUIRED}),
    "InplaceSub": (inplace.inplace_sub, {"indices": REQUIRED}),
    "InplaceUpdate": (inplace.inplace_update, {"indices": REQUIRED}),
    "Pdist": (distances.pdist, {"p": 2.0}),
    "Quantile": (_quantile, {"dim": None, "keep_dims": False, "ignore_nan": False}),
    "Renorm": (_renorm, {"p": REQUIRED, "dim": REQUIRED, "maxnorm": REQUIRED}),
}
