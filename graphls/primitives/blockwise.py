"""Floats as codes of 8 bits: the nearest numbers of a map of 256, with an absolute maximum for each block of 256.

The rule is that of Dettmers et al., "8-bit Optimizers via Block-wise Quantization" (2021, arXiv:2110.02861), with the
map and the size of a block of bitsandbytes 0.50. It gives the same codes on every engine, as borders between numbers
are looked up and compared, not computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import gcd
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.distributed.shards import BLOCK
from graphls.ir.types import Type, float32, int16, int32, uint8
from graphls.primitives.emitter import Emitter
from graphls.primitives.namespaces import IN_BOUNDS, namespace
from graphls.primitives.primitive import Array, Primitive, f32, no_gradient, of, require_float, sample
from graphls.primitives.shape import reshaped

RANGE = (2.0**-119, 2.0**126)
"""The range of maxima whose reciprocal, and FINE times it, no engine takes for 0 or infinite."""
ZERO = 127
"""The code of 0 in the map with signs."""
ONE = 0x3F800000
"""The bits of 1 in float32."""
MAGNITUDE, LOW = 0x7FFFFFFF, 0xFFFF
"""The bits of a float32 but its sign, and the lower half of them."""
PART = 128 * BLOCK
"""Elements that the host computes at a time, so that what it computes of them stays in the second-level cache."""
FINE, CELLS = 128.0, 32767.0
"""x becomes the cell CELLS * y / (1 + |y|) of y = FINE * x, without its fraction, in a model of ONNX."""
SLACK = 1 / 16
"""The parts of a cell by which an engine may be wrong about a place."""
COPIES = 16
"""The most copies of a table: as many threads look up in it at a time."""


@cache
def dynamic_map(is_signed: bool) -> Array:
    """The 256 numbers that codes stand for, rising, in float32: `create_dynamic_map` of bitsandbytes.

    These are 0, 1 and, for each exponent from -6 to 0, the centres of equal parts of [0.1, 1] times a power of ten: 2
    parts at first and twice as many for each further exponent, or with signs half as many, and their negatives.
    """
    codes: list[Array] = [np.array([0, 1], np.float32)]
    for exponent in range(7):
        ends = _evenly_spaced(2 ** (exponent if is_signed else exponent + 1))
        centres = (ends[:-1] + ends[1:]) / np.float32(2) * np.float32(10.0 ** (exponent - 6))
        codes += [centres, -centres] if is_signed else [centres]
    return np.sort(np.concatenate(codes))


def _evenly_spaced(parts: int) -> Array:
    """The borders of equal parts of [0.1, 1] in float32, rounded once, from both ends as PyTorch's linspace does."""
    first, last = float(np.float32(0.1)), 1.0
    step = float((np.float32(last) - np.float32(first)) / np.float32(parts))
    half = (parts + 1) // 2
    rising = [first + step * i for i in range(half)]
    falling = [last - step * (parts - i) for i in range(half, parts + 1)]
    return np.array([*rising, *falling], np.float32)


@cache
def borders(is_signed: bool) -> Array:
    """The largest number of each code, halfway to the next one; infinite for the last code."""
    codes = dynamic_map(is_signed)
    return np.append((codes[:-1] + codes[1:]) / np.float32(2), np.float32(np.inf))


class QuantizeBlockwise(Primitive):
    """The uint8 codes of the numbers nearest to x / maximum in a map of 256; the lower one of two that are as near.

    A maximum is that of the absolute values of 256 elements of the flat array, the last of which may be fewer. The map
    has negative numbers with `is_signed`. nan has any code.
    """

    half = "native"
    samples = (
        sample(f32(2, 300), f32(3), low=0.5, gradient=False, is_signed=True),
        sample(f32(512), f32(2), low=0.5, gradient=False, is_signed=False),
        sample(f32(), f32(1), low=0.5, gradient=False, is_signed=True),
        sample(f32(0, 3), f32(0), low=0.5, gradient=False, is_signed=True),
    )
    vjp = no_gradient

    def infer(self, x: Type, maxima: Type, is_signed: bool) -> Type:
        require_float(self.name, x)
        _check_maxima(self.name, x, maxima)
        return x.with_dtype(uint8)

    def numpy(self, x: Array, maxima: Array, is_signed: bool) -> Any:
        codes = np.empty(x.shape, np.uint8)
        encode(np.ascontiguousarray(x, np.float32), maxima, is_signed, codes)
        return codes

    def xla(self, jax: Any, x: Any, maxima: Any, is_signed: bool) -> Any:
        return _in_shape(_nearest(_in_rows(x.astype(np.float32)) * _scale(maxima), is_signed), x.shape)

    def onnx(self, e: Emitter, x: str, maxima: str, is_signed: bool) -> str:
        """Of the code and its border that a table has for each cell, the next code follows where x is beyond it.

        The runtime looks up scalars six times as fast by GatherElements as by Gather, and loses time by Where.
        """
        x, maxima = _in_float32(e, x, 0), _in_float32(e, maxima, 1)
        clipped = e.operator("Clip", [maxima, *(e.const(bound, float32) for bound in RANGE)])
        scale = e.Div(e.const(FINE, float32), clipped)
        fine = e.Mul(_in_rows_of_onnx(e, x), reshaped(e, scale, (e.in_types[1].size, 1)))
        place = e.cast(e.Mul(e.Softsign(fine), e.const(CELLS, float32)), int16)
        codes, limits = _cells(is_signed)
        first, limit = (_looked_up(e, table, place) for table in (codes, limits))
        code = e.Add(e.cast(first, int32), e.cast(e.Greater(fine, limit), int32))  # few runtimes add uint8
        return _in_shape_of_onnx(e, e.cast(code, uint8))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """A product and a comparison for each element, and a quotient for each block."""
        return 2 * inputs[0].size + inputs[1].size


class DequantizeBlockwise(Primitive):
    """The numbers that the uint8 codes of `quantize_blockwise` stand for, in float32: those of the map times maxima."""

    half = "native"
    samples = (
        sample(of(uint8, 2, 300), f32(3), gradient=False, integers=(0, 256), is_signed=True),
        sample(of(uint8, 512), f32(2), gradient=False, integers=(0, 256), is_signed=False),
        sample(of(uint8), f32(1), gradient=False, integers=(0, 256), is_signed=True),
        sample(of(uint8, 0, 3), f32(0), gradient=False, integers=(0, 256), is_signed=True),
    )
    vjp = no_gradient

    def infer(self, codes: Type, maxima: Type, is_signed: bool) -> Type:
        if codes.dtype is not uint8:
            raise GraphTypeError(f"{self.name} takes codes in uint8, not {codes}.")
        _check_maxima(self.name, codes, maxima)
        return codes.with_dtype(float32)

    def numpy(self, codes: Array, maxima: Array, is_signed: bool) -> Any:
        result = np.empty(codes.shape, np.float32)
        decode(np.ascontiguousarray(codes), maxima, is_signed, result)
        return result

    def xla(self, jax: Any, codes: Any, maxima: Any, is_signed: bool) -> Any:
        numbers = _entries(dynamic_map(is_signed), _in_rows(codes).astype(np.int32))
        return _in_shape(numbers * maxima[:, None].astype(np.float32), codes.shape)

    def onnx(self, e: Emitter, codes: str, maxima: str, is_signed: bool) -> str:
        numbers = _looked_up(e, dynamic_map(is_signed), _in_rows_of_onnx(e, codes))
        scale = reshaped(e, _in_float32(e, maxima, 1), (e.in_types[1].size, 1))
        return _in_shape_of_onnx(e, e.Mul(numbers, scale))


def encode(x: Array, maxima: Array, is_signed: bool, codes: Array) -> None:
    """Write the codes of float32 numbers into an array, by one look-up of each.

    The entry for an upper half of a number, and its lower half, or of a negative one what that lacks to 65535, are a
    sum whose upper half is the code: it carries where the number is beyond the border.
    """
    entries, scale = _entries_of_halves(is_signed), _scale(maxima)
    scaled, sums, lower = np.empty(PART, np.float32), np.empty(PART, np.int32), np.empty(PART, np.int32)
    for some, rows, width in _parts(x.size):
        size = some.stop - some.start
        product, total, low = scaled[:size], sums[:size], lower[:size]
        with np.errstate(all="ignore"):
            np.multiply(x.reshape(-1)[some].reshape(-1, width), scale[rows], out=product.reshape(-1, width))
        bits = product.view(np.int32)
        np.right_shift(product.view(np.uint32), 16, out=low.view(np.uint32))
        entries.take(low, out=total, mode="clip")  # which needs no buffer, as "raise" does
        if is_signed:
            np.right_shift(bits, 31, out=low)
            bits = np.bitwise_xor(bits, low, out=low)
        total += np.bitwise_and(bits, LOW, out=low)
        np.right_shift(total, 16, out=total)
        np.copyto(codes.reshape(-1)[some], total, casting="unsafe")


def decode(codes: Array, maxima: Array, is_signed: bool, result: Array) -> None:
    """Write the float32 numbers of codes into an array, by one look-up of each two in a complete block."""
    pairs, maxima = _pairs(is_signed), maxima.astype(np.float32)[:, None]
    for some, rows, width in _parts(codes.size):
        numbers, flat = result.reshape(-1)[some], codes.reshape(-1)[some]
        if width == BLOCK:
            pairs.take(flat.view(np.uint16), out=numbers.view(np.float64), mode="clip")
        else:
            dynamic_map(is_signed).take(flat, out=numbers, mode="clip")
        with np.errstate(all="ignore"):
            numbers.reshape(-1, width)[...] *= maxima[rows]


def _parts(size: int) -> Iterator[tuple[slice, slice, int]]:
    """The parts of a flat array, their blocks, and how wide these are: all complete ones, then the last."""
    end = size - size % BLOCK
    for start in range(0, end, PART):
        stop = min(start + PART, end)
        yield slice(start, stop), slice(start // BLOCK, stop // BLOCK), BLOCK
    if end < size:
        yield slice(end, size), slice(end // BLOCK, None), size - end


@cache
def _pairs(is_signed: bool) -> Array:
    """The numbers of each two codes, which 16 bits have, as the bits of a float64."""
    codes = np.arange(1 << 16, dtype=np.uint16).view(np.uint8)
    pairs: Array = dynamic_map(is_signed)[codes].view(np.float64)
    return pairs


@cache
def _entries_of_halves(is_signed: bool) -> Array:
    """The entry of each upper half of a float32 (see `encode`)."""
    halves = np.arange(1 << 16, dtype=np.uint32) << 16

    def code(lower: Any) -> Any:
        with np.errstate(all="ignore"):
            return _nearest((halves + np.asarray(lower, np.uint32)).view(np.float32), is_signed).astype(np.int32)

    first, last = code(0), code(LOW)
    before, limit = np.zeros_like(first), np.full_like(first, LOW + 1)
    for _ in range(16):  # the least lower half that has the last code
        middle = (before + limit) // 2
        is_last = code(np.minimum(middle, LOW)) == last
        before, limit = np.where(is_last, before, middle), np.where(is_last, middle, limit)
    is_negative = is_signed & (halves >> 31 > 0)
    carries = np.where(first == last, 0, np.where(is_negative, limit, LOW + 1 - limit))
    entries: Array = ((np.minimum(first, last) << 16) + carries).astype(np.int32)
    return entries


def _check_maxima(name: str, x: Type, maxima: Type) -> None:
    """Raise unless there is a maximum for each block."""
    require_float(name, maxima)
    shape = (-(-x.size // BLOCK),)
    if maxima.shape != shape:
        text = f"{name} of {x} takes maxima of the shape {shape}"
        raise GraphValueError(f"{text}, one for each block of {BLOCK} elements, not {maxima}.")


def _in_rows(x: Any) -> Any:
    """The elements in rows of blocks, the last of which is filled up with zeros."""
    flat = x.reshape(-1)
    missing = -flat.size % BLOCK
    return (namespace(x).pad(flat, (0, missing)) if missing else flat).reshape(-1, BLOCK)


def _in_shape(rows: Any, shape: tuple[int, ...]) -> Any:
    size = int(np.prod(shape))
    return rows.reshape(-1)[:size].reshape(shape)


def _scale(maxima: Any) -> Any:
    return (np.float32(1) / namespace(maxima).clip(maxima.astype(np.float32), *map(np.float32, RANGE)))[:, None]


def _nearest(x: Any, is_signed: bool) -> Any:
    """The codes of numbers from -1 or 0 to 1.

    Magnitudes are in the order of their bits, and those with the same upper half have at most one border among them. An
    entry for such a half is the place of its first number in the upper half, and in the lower what carries beyond the
    border. Of negative numbers, the next ones in this order are the lower ones.
    """
    xp, bits = namespace(x), x.view(np.int32)
    first, entries = _upper_halves(is_signed)
    sign = bits >> 31
    magnitudes = (bits & MAGNITUDE) - sign if is_signed else bits
    magnitudes = xp.clip(magnitudes, np.int32(first << 16), np.int32(ONE))
    places = (_entries(entries, (magnitudes >> 16) - np.int32(first)) + (magnitudes & LOW)) >> 16
    if is_signed:
        places = ZERO + (xp.minimum(places, 128 + sign) ^ sign) - sign
    return places.astype(np.uint8)


def _entries(table: Array, places: Any) -> Any:
    """The entries of a table at places within it."""
    if isinstance(places, np.ndarray):
        return table.take(places)
    return namespace(places).asarray(table).at[places].get(mode=IN_BOUNDS)


@cache
def _upper_halves(is_signed: bool) -> tuple[int, Array]:
    """The upper half of the first border above 0, and the entries (see `_nearest`) from there to 1."""
    limits = borders(is_signed)[:-1]
    bits = limits[limits > 0].view(np.int32)
    halves = np.arange(bits[0] >> 16, (ONE >> 16) + 1)
    places, ends = np.searchsorted(bits, halves << 16), np.searchsorted(bits, (halves + 1) << 16)
    carries = np.where(ends > places, LOW - (bits[np.minimum(places, len(bits) - 1)] & LOW), 0)
    return int(halves[0]), ((places << 16) + carries).astype(np.int32)


@cache
def _cells(is_signed: bool) -> tuple[Array, Array]:
    """The code of the smallest number of each cell, and its border; of negative cells behind the others."""
    cells = np.arange(1 << 16).astype(np.uint16).view(np.int16).astype(np.float64)
    lowest = np.clip((np.where(cells > 0, cells, cells - 1) - SLACK) / CELLS, -1, 1)
    with np.errstate(divide="ignore"):
        codes = np.searchsorted(borders(is_signed), lowest / (1 - abs(lowest)) / FINE)
    return codes.astype(np.uint8), borders(is_signed)[codes] * np.float32(FINE)


def _in_float32(e: Emitter, x: str, number: int) -> str:
    """An operand in float32, by its number."""
    return x if e.in_types[number].dtype is float32 else e.cast(x, float32)


def _looked_up(e: Emitter, table: Array, places: str) -> str:
    """The entries of a table at places in the rows of blocks, from one copy for each thread."""
    rows = e.in_types[1].size
    copies = gcd(rows, COPIES)
    wide = e.Expand(e.const(table[None], None), e.ints((copies, len(table))))
    shape = (copies, rows * BLOCK // copies)
    entries = e.GatherElements(wide, reshaped(e, e.cast(places, int32), shape), axis=1)
    return reshaped(e, entries, (rows, BLOCK))


def _in_rows_of_onnx(e: Emitter, x: str) -> str:
    """The elements in rows of blocks; Concat fills them up, as CUDA has no kernel that pads integers."""
    kind, rows = e.in_types[0], e.in_types[1].size
    flat, missing = reshaped(e, x, (kind.size,)), -kind.size % BLOCK
    if missing:
        flat = e.Concat(flat, e.const(np.zeros(missing), float32 if kind.dtype.is_float else kind.dtype), axis=0)
    return reshaped(e, flat, (rows, BLOCK))


def _in_shape_of_onnx(e: Emitter, rows: str) -> str:
    kind = e.out_types[0]
    if kind.size % BLOCK:
        flat = reshaped(e, rows, (e.in_types[1].size * BLOCK,))
        rows = e.Slice(flat, e.ints([0]), e.ints([kind.size]), e.ints([0]))
    return reshaped(e, rows, kind.shape)
