"""Random arrays as functions of the seed, the step and the call site."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.types import Type, bool_, float32, int64, uint8
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, Primitive, no_gradient, of, sample

Shape = tuple[int, ...]


def _require_state(name: str, state: Type) -> None:
    if state != Type(int64, (2,)):
        raise GraphTypeError(f"{name} takes the seed and the step as i64[2], not {state}.")


def _words(state: Array, site: int, count: int) -> Array:
    """64-bit words of the Philox generator with the key (seed, site) and a counter that starts at the step.

    NumPy promises that this stream stays the same in later versions. The blocks of a step are counted in the low half
    of the counter, so that the streams of two steps never overlap.
    """
    seed, step = (int(n) % 2**64 for n in state)
    key = np.array([seed, site % 2**64], np.uint64)
    counter = np.array([0, 0, step, 0], np.uint64)
    generator = np.random.Philox(key=key, counter=counter)
    return np.asarray(generator.random_raw(count), dtype="<u8")


class RandomArray(Primitive, abstract=True):
    """Random numbers that the host generates from a state of (seed, step) and the number of the call site."""

    half = "native"
    flops_per_element = 0
    on_host = True
    vjp = no_gradient

    def onnx(self, e: Emitter, state: str, **attrs: Any) -> str:
        raise AssertionError("a random array is computed on the host and fed to the model")


class RandomUniform(RandomArray):
    """Float32 numbers in [0, 1) with 24 random bits, from the seed and step in `state` and the call site."""

    samples = (sample(of(int64, 2), shape=(2, 3), site=1), sample(of(int64, 2), shape=(), site=0))

    def infer(self, state: Type, shape: Shape, site: int) -> Type:
        _require_state(self.name, state)
        return Type(float32, shape)

    def numpy(self, state: Array, shape: Shape, site: int) -> Array:
        size = prod(shape)
        bits = _words(state, site, -(-size // 2)).view("<u4")[:size]
        bits >>= 8
        numbers = bits.view("<i4").astype(np.float32)
        numbers *= np.float32(2.0**-24)
        return numbers.reshape(shape)


class RandomBytes(RandomArray):
    """Uint8 numbers from 0 to 255, from the seed and step in `state` and the call site."""

    samples = (sample(of(int64, 2), shape=(2, 3), site=1), sample(of(int64, 2), shape=(), site=0))

    def infer(self, state: Type, shape: Shape, site: int) -> Type:
        _require_state(self.name, state)
        return Type(uint8, shape)

    def numpy(self, state: Array, shape: Shape, site: int) -> Array:
        size = prod(shape)
        return _words(state, site, -(-size // 8)).view(np.uint8)[:size].reshape(shape)


class RandomBernoulli(RandomArray):
    """Bools that are true with a probability, to 16 bits, from the seed and step in `state` and the call site."""

    samples = (
        sample(of(int64, 2), shape=(3, 5), site=1, probability=0.5),
        sample(of(int64, 2), shape=(7,), site=2, probability=1.0),
    )

    def infer(self, state: Type, shape: Shape, site: int, probability: float) -> Type:
        _require_state(self.name, state)
        if not 0 <= probability <= 1:
            raise GraphValueError(f"A probability is between 0 and 1, not {probability}.")
        return Type(bool_, shape)

    def numpy(self, state: Array, shape: Shape, site: int, probability: float) -> Array:
        size = prod(shape)
        bits = _words(state, site, -(-size // 4)).view("<u2")[:size]
        return (bits < np.uint32(round(probability * 2**16))).reshape(shape)


class RandomNormal(RandomArray):
    """Float32 numbers of the standard normal distribution, from the seed and step in `state` and the call site.

    By Box and Muller (1958), in float64, from 53 random bits for each radius and angle.
    """

    samples = (sample(of(int64, 2), shape=(2, 3), site=1), sample(of(int64, 2), shape=(5,), site=0))

    def infer(self, state: Type, shape: Shape, site: int) -> Type:
        _require_state(self.name, state)
        return Type(float32, shape)

    def numpy(self, state: Array, shape: Shape, site: int) -> Array:
        size = prod(shape)
        bits = _words(state, site, size + size % 2) >> np.uint64(11)
        radius = np.sqrt(-2 * np.log((bits[0::2] + 1) * 2.0**-53))
        angle = bits[1::2] * (2 * np.pi * 2.0**-53)
        numbers = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=1)
        return numbers.reshape(-1)[:size].astype(np.float32).reshape(shape)


class RandomIntegers(RandomArray):
    """Int64 numbers from `start` up to, but without, `stop`, from the seed and step in `state` and the call site."""

    samples = (
        sample(of(int64, 2), shape=(2, 3), site=1, start=-2, stop=5),
        sample(of(int64, 2), shape=(4,), site=2, start=-(2**63), stop=2**63 - 1),
    )

    def infer(self, state: Type, shape: Shape, site: int, start: int, stop: int) -> Type:
        _require_state(self.name, state)
        if not -(2**63) <= start < stop < 2**63:
            raise GraphValueError(f"Random integers are drawn from a range of int64, not from {start} to {stop}.")
        return Type(int64, shape)

    def numpy(self, state: Array, shape: Shape, site: int, start: int, stop: int) -> Array:
        numbers = _words(state, site, prod(shape)) % np.uint64(stop - start) + np.uint64(start % 2**64)
        return numbers.view("<i8").reshape(shape)


class RandomPermutation(RandomArray):
    """The int64 numbers below `size` in random order, from the seed and step in `state` and the call site."""

    samples = (sample(of(int64, 2), size=7, site=1), sample(of(int64, 2), size=0, site=1))

    def infer(self, state: Type, size: int, site: int) -> Type:
        _require_state(self.name, state)
        if size < 0:
            raise GraphValueError(f"A permutation has 0 elements or more, not {size}.")
        return Type(int64, (size,))

    def numpy(self, state: Array, size: int, site: int) -> Array:
        return np.argsort(_words(state, site, size), kind="stable")
