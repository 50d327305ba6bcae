"""Operator classes that move, select, join and draw elements (see `operations`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ir.types import int32, int64
from graphls.ops import arrangement, blocks, diagonals, movement, pads, random, ranges, scattering, selection, shapes
from graphls.ops import sorting as order
from graphls.ops.elementwise import cast
from graphls.ops.operator import REQUIRED, described_as


def _unstack(x: Any, axis: int = 0, num: int | None = None) -> Any:
    """The slices along an axis; raises GraphValueError where there are not `num` of them."""
    slices = arrangement.unstack(x, axis)
    if num is not None and num != len(slices):
        raise GraphValueError(f"Unstack finds {len(slices)} slices, not {num}.")
    return slices


def _range(start: Any, limit: Any, delta: Any, maxlen: int = 1000000) -> Any:
    """The numbers from `start` up to `limit`; raises GraphValueError for more than `maxlen`."""
    numbers = ranges.range(start, limit, delta)
    if numbers.size > maxlen:
        raise GraphValueError(f"Range has {numbers.size} numbers, more than its maxlen of {maxlen}.")
    return numbers


@described_as(arrangement.meshgrid)
def _meshgrid(inputs: Any, indexing: str = "xy") -> Any:
    return arrangement.meshgrid(*inputs, indexing=indexing)


@described_as(movement.roll)
def _roll(x: Any, shift: Any, axis: Any) -> Any:
    return movement.roll(x, shift, axis)


@described_as(selection.searchsorted)
def _search_sorted(sorted_sequence: Any, values: Any, dtype: Any = int64, right: bool = False) -> Any:
    return cast(selection.searchsorted(sorted_sequence, values, right=right), dtype)


def _locking(name: str) -> Callable[..., Any]:
    """A function that writes a parameter, with the setting `use_locking` that MindSpore has; writes never meet here."""
    function = getattr(scattering, name)

    @described_as(function)
    def scatter(input_x: Any, indices: Any, updates: Any, use_locking: bool = True) -> Any:
        return function(input_x, indices, updates)

    return scatter


def _seed(seed: int, seed2: int) -> int | None:
    """Two seeds as one; none where both are 0."""
    return (seed * 2**32 + seed2) or None


@described_as(random.standard_normal)
def _standard_normal(shape: Any, seed: int = 0, seed2: int = 0) -> Any:
    return random.standard_normal(shape, _seed(seed, seed2))


@described_as(random.rand)
def _uniform_real(shape: Any, seed: int = 0, seed2: int = 0) -> Any:
    return random.rand(shape, seed=_seed(seed, seed2))


@described_as(random.randint)
def _uniform_int(shape: Any, minval: Any, maxval: Any, seed: int = 0, seed2: int = 0) -> Any:
    return random.randint(int(minval), int(maxval), shape, _seed(seed, seed2), dtype=int32)


@described_as(random.multinomial)
def _multinomial(x: Any, num_samples: int, seed: int = 0, seed2: int = 0, dtype: Any = int32) -> Any:
    return cast(random.multinomial(x, num_samples, seed=_seed(seed, seed2)), dtype)


_SEEDS = {"seed": 0, "seed2": 0}
_JOINS = ("Update", "Add", "Sub", "Mul", "Div", "Max", "Min")

PLAIN: dict[str, Callable[..., Any]] = {
    "Diag": diagonals.diag,
    "Eye": diagonals.eye,
    "GatherNd": scattering.gather_nd,
    "GatherV2": shapes.gather,
    "IndexFill": scattering.index_fill,
    "LinSpace": ranges.linspace,
    "MaskedFill": selection.masked_fill,
    "MaskedSelect": selection.masked_select,
    "NonZero": selection.nonzero,
    "ScatterNd": scattering.scatter_nd,
    "Slice": selection.slice,
    "Tile": arrangement.tile,
    "Unique": selection.unique,
    **{f"TensorScatter{join}": getattr(scattering, f"tensor_scatter_{join.lower()}") for join in _JOINS},
}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "DepthToSpace": (blocks.depth_to_space, {"block_size": REQUIRED}),
    "IndexAdd": (scattering.index_add, {"axis": REQUIRED, "use_lock": True, "check_index_bound": True}),
    "Meshgrid": (_meshgrid, {"indexing": "xy"}),
    "MirrorPad": (pads.mirror_pad, {"mode": "REFLECT"}),
    "Multinomial": (_multinomial, {**_SEEDS, "dtype": int32}),
    "Pack": (shapes.stack, {"axis": 0}),
    "Pad": (pads.pad_zeros, {"paddings": REQUIRED}),
    "Range": (_range, {"maxlen": 1000000}),
    "ReverseSequence": (movement.reverse_sequence, {"seq_dim": REQUIRED, "batch_dim": 0}),
    "ReverseV2": (movement.reverse, {"axis": REQUIRED}),
    "Roll": (_roll, {"shift": REQUIRED, "axis": REQUIRED}),
    "SearchSorted": (_search_sorted, {"dtype": int64, "right": False}),
    "Sort": (order.sort, {"axis": -1, "descending": False}),
    "SpaceToDepth": (blocks.space_to_depth, {"block_size": REQUIRED}),
    "StandardNormal": (_standard_normal, _SEEDS),
    "StridedSlice": (
        selection.strided_slice,
        {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0},
    ),
    "TensorScatterElements": (scattering.tensor_scatter_elements, {"axis": 0, "reduction": "none"}),
    "TopK": (order.topk, {"sorted": True}),
    "Tril": (diagonals.tril, {"diagonal": 0}),
    "Triu": (diagonals.triu, {"diagonal": 0}),
    "UniformInt": (_uniform_int, _SEEDS),
    "UniformReal": (_uniform_real, _SEEDS),
    "Unpack": (_unstack, {"axis": 0, "num": None}),
    "Unstack": (_unstack, {"axis": 0, "num": None}),
    **{f"Scatter{join}": (_locking(f"scatter_{join.lower()}"), {"use_locking": True}) for join in _JOINS},
    **{f"ScatterNd{join}": (_locking(f"scatter_nd_{join.lower()}"), {"use_locking": True}) for join in _JOINS},
}
