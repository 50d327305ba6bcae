"""A training step in JAX."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
from jax import Array, lax
from jax import numpy as jnp

from benchmarks.peers import jax_networks
from benchmarks.peers.contenders import Contender
from benchmarks.peers.rows import Row, first_value

Tree = dict[str, Array]


def load(contender: Contender) -> None:
    """JAX imports all of it at once, and takes as many threads as the process may."""


def momentum(weights: Tree, gradients: Tree, state: Any, rate: float) -> tuple[Tree, Any]:
    """v = 0.9 * v + g; w = w - rate * v."""
    speeds = {name: 0.9 * state[name] + g for name, g in gradients.items()}
    return {name: weight - rate * speeds[name] for name, weight in weights.items()}, speeds


def adam(weights: Tree, gradients: Tree, state: Any, rate: float) -> tuple[Tree, Any]:
    """Kingma and Ba (2015), the form before section 2.1."""
    count, means, squares = state
    count = count + 1
    means = {name: 0.9 * means[name] + 0.1 * g for name, g in gradients.items()}
    squares = {name: 0.999 * squares[name] + 0.001 * g * g for name, g in gradients.items()}
    rate = rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    changed = {n: weight - rate * means[n] / (jnp.sqrt(squares[n]) + 1e-8) for n, weight in weights.items()}
    return changed, (count, means, squares)


class Scale(NamedTuple):
    """A dynamic loss scale, and the number of steps without an overflow."""

    value: Array
    steps: Array

    def after(self, holds: Array) -> Scale:
        """Half of it where a gradient has overflowed; twice as much after 2000 steps where none has."""
        steps = jnp.where(holds, self.steps + 1, 0)
        value = jnp.where(holds, self.value, jnp.maximum(self.value / 2, 1))
        return Scale(jnp.where(steps == 2000, value * 2, value), steps % 2000)


class Training:
    """A function, weights and the optimizer's state, which a step replaces in place."""

    def __init__(self, row: Row, contender: Contender) -> None:
        self.network = partial(getattr(jax_networks, row.name), **row.sizes)
        self.x, self.labels = map(jnp.asarray, row.batch())
        self.adam, self.rate = row.optimizer == "adam", row.rate
        self.dtype = jnp.bfloat16 if contender.precision == "bfloat16" else jnp.float32
        self.is_scaled = contender.precision == "scaled"
        self.shapes: dict[str, tuple[int, ...]] = {}
        jax.eval_shape(partial(self.network, self._noted), self.x)
        self.weights: Tree = {}
        self.compiled = jax.jit(self._scaled_step if self.is_scaled else self._step, donate_argnums=(0, 1))

    def _noted(self, name: str, shape: tuple[int, ...]) -> Array:
        self.shapes[name] = shape
        return jnp.zeros(shape)

    def set_values(self) -> None:
        """Give every parameter its first value, and the optimizer's state zeros."""
        self.weights = {name: jnp.asarray(first_value(name, shape)) for name, shape in self.shapes.items()}
        zeros = jax.tree.map(jnp.zeros_like, self.weights)
        state = (jnp.float32(0), zeros, jax.tree.map(jnp.zeros_like, self.weights)) if self.adam else zeros
        self.state = (state, Scale(jnp.float32(2**10), jnp.int32(0))) if self.is_scaled else state

    def _loss(self, weights: Tree, x: Array, labels: Array) -> Array:
        def cast(name: str, _: tuple[int, ...]) -> Array:
            """A weight as the network computes with it; normalisations take float32."""
            return weights[name] if name.endswith(("gamma", "beta")) else weights[name].astype(self.dtype)

        scores = self.network(cast, x.astype(self.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x)
        scores = jax.nn.log_softmax(scores.astype(jnp.float32))
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    def _update(self, weights: Tree, gradients: Tree, state: Any) -> tuple[Tree, Any]:
        return (adam if self.adam else momentum)(weights, gradients, state, self.rate)

    def _step(self, weights: Tree, state: Any, x: Array, labels: Array) -> tuple[Tree, Any, Array]:
        loss, gradients = jax.value_and_grad(self._loss)(weights, x, labels)
        return *self._update(weights, gradients, state), loss

    def _scaled_step(self, weights: Tree, state: tuple[Any, Scale], x: Array, labels: Array) -> tuple[Tree, Any, Array]:
        """A step that changes nothing but the scale where a gradient has overflowed."""
        inner, scale = state
        value, gradients = jax.value_and_grad(lambda *a: self._loss(*a) * scale.value)(weights, x, labels)
        holds = jnp.stack([jnp.isfinite(gradient).all() for gradient in gradients.values()]).all()
        unscaled = {name: gradient / scale.value for name, gradient in gradients.items()}
        weights, inner = lax.cond(holds, self._update, lambda w, _, s: (w, s), weights, unscaled, inner)
        return weights, (inner, scale.after(holds)), value / scale.value

    def step(self) -> Array:
        """One step, waited for."""
        result = jax.block_until_ready(self.compiled(self.weights, self.state, self.x, self.labels))
        self.weights, self.state, loss = result
        return loss
