"""Operators that ONNX's reference evaluator lacks, has in part, or computes too slowly for whole steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

Array = np.ndarray[Any, Any]
Turned = Sequence[int] | None


class Scan(OpRun):
    """Along the first axis, in both directions; that of ONNX goes forwards only."""

    op_domain = ""

    def need_context(self) -> bool:
        return True

    def _run(self, *given: Array, context: Any, body: Any, num_scan_inputs: int, **options: Any) -> tuple[Array, ...]:
        carried = list(given[:-num_scan_inputs])
        arrays = _turned(given[-num_scan_inputs:], options["scan_input_directions"])
        rounds = []
        for rows in zip(*arrays, strict=True):
            found = body.run(None, {**context, **dict(zip(body.input_names, (*carried, *rows), strict=True))})
            carried = found[: len(carried)]
            rounds.append(found[len(carried) :])
        stacks = [np.stack(made) for made in zip(*rounds, strict=True)]
        return (*carried, *_turned(stacks, options["scan_output_directions"]))


def _turned(arrays: Sequence[Array], directions: Turned) -> list[Array]:
    """Arrays, those of direction 1 with their rows from the last to the first."""
    steps = [-1 if d else 1 for d in directions or [0] * len(arrays)]
    return [np.ascontiguousarray(array[::step]) for array, step in zip(arrays, steps, strict=True)]


class ConvTranspose(OpRun):
    """Each place of the kernel adds its product with the images where it lies; ONNX's own takes ten times as long."""

    op_domain = ""

    def _run(self, x: Array, w: Array, b: Array | None = None, *, group: int, **options: Any) -> tuple[Array, ...]:
        rank, kernel = x.ndim - 2, w.shape[2:]
        strides, dilations = (options[name] or [1] * rank for name in ("strides", "dilations"))
        extra, pads = options["output_padding"] or [0] * rank, options["pads"] or [0] * 2 * rank
        steps = zip(x.shape[2:], strides, kernel, dilations, extra, strict=True)
        sizes = [(n - 1) * s + (k - 1) * d + 1 + e for n, s, k, d, e in steps]
        y = np.zeros((len(x), group, w.shape[1], *sizes), x.dtype)
        parts = np.reshape(x, (len(x), group, 1, x.shape[1] // group, -1))
        weights = np.reshape(w, (group, -1, *w.shape[1:]))
        for place in product(*map(range, kernel)):
            rows = np.ascontiguousarray(np.swapaxes(weights[(..., *place)], 1, 2))
            made = np.matmul(rows, parts[:, :, 0]).reshape(*y.shape[:3], *x.shape[2:])
            at = zip(place, strides, dilations, x.shape[2:], strict=True)
            y[(..., *(slice(p * d, p * d + s * (n - 1) + 1, s) for p, s, d, n in at))] += made
        ends = [n - after for n, after in zip(y.shape[3:], pads[rank:], strict=True)]
        y = y[(..., *map(slice, pads[:rank], ends))]
        y = y.reshape(len(x), -1, *y.shape[3:])
        return (y if b is None else y + b.reshape(-1, *[1] * rank),)


class LogSoftmax(OpRun):
    """Without the logarithm of a zero that the exponential of ONNX's own leaves."""

    op_domain = ""

    def _run(self, x: Array, *, axis: int) -> tuple[Array, ...]:
        below = x - x.max(axis, keepdims=True)
        return (below - np.log(np.exp(below).sum(axis, keepdims=True)),)


class GatherElements(OpRun):
    """That of ONNX takes 32 rows at most."""

    op_domain = ""

    def _run(self, x: Array, indices: Array, *, axis: int) -> tuple[Array, ...]:
        return (np.take_along_axis(x, indices.astype(np.int64), axis),)


class Pad(OpRun):
    """Also by fewer than no elements, which takes some away."""

    op_domain = ""

    def _run(self, x: Array, pads: Array, fill: Any = None, axes: Any = None, *, mode: str) -> tuple[Array, ...]:
        places = range(x.ndim) if axes is None else axes
        ends = [(0, 0)] * x.ndim
        for axis, first, last in zip(places, pads[: len(pads) // 2], pads[len(pads) // 2 :], strict=True):
            ends[axis] = int(first), int(last)
        x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, ends, strict=True))]
        options: dict[str, Any] = {"constant_values": 0 if fill is None else fill} if mode == "constant" else {}
        return (np.pad(x, [(max(a, 0), max(b, 0)) for a, b in ends], mode, **options),)  # type: ignore[call-overload]


class Sigmoid(OpRun):
    """By the formula of the composition that stands for it in float32, so that both round alike."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array, ...]:
        u = np.exp(np.minimum(x, np.float32(40)))
        return (u / (1 + u),)


class Softsign(OpRun):
    """That of ONNX takes no scalars."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array, ...]:
        return (np.asarray(x / (1 + np.abs(x))),)


class GemmFloat8(OpRun):
    """A @ B.T of two float8, times the scales, in float32: one of ONNX Runtime on CUDA."""

    op_domain = "com.microsoft"

    def _run(
        self, a: Array, b: Array, c: None, scale_a: Array, scale_b: Array, *, transA: int, transB: int, dtype: int
    ) -> tuple[Array, ...]:
        assert (c, transA, transB, dtype) == (None, 0, 1, 1)
        assert not any(size % 16 for size in (*a.shape, *b.shape)) and scale_a.shape == scale_b.shape == (1,)
        return (a.astype(np.float32) @ b.astype(np.float32).T * scale_a * scale_b,)


KERNELS = [Scan, ConvTranspose, LogSoftmax, GatherElements, Pad, Sigmoid, Softsign, GemmFloat8]
