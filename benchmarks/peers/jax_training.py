"""A training step in JAX."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from jax import Array
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


class Training:
    """A function, weights and the optimizer's state, which a step replaces in place."""

    def __init__(self, row: Row, contender: Contender) -> None:
        self.network = partial(getattr(jax_networks, row.name), **row.sizes)
        self.x, self.labels = map(jnp.asarray, row.batch())
        self.adam, self.rate = row.optimizer == "adam", row.rate
        self.shapes: dict[str, tuple[int, ...]] = {}
        jax.eval_shape(partial(self.network, self._noted), self.x)
        self.weights: Tree = {}
        self.compiled = jax.jit(self._step, donate_argnums=(0, 1))

    def _noted(self, name: str, shape: tuple[int, ...]) -> Array:
        self.shapes[name] = shape
        return jnp.zeros(shape)

    def set_values(self) -> None:
        """Give every parameter its first value, and the optimizer's state zeros."""
        self.weights = {name: jnp.asarray(first_value(name, shape)) for name, shape in self.shapes.items()}
        zeros = jax.tree.map(jnp.zeros_like, self.weights)
        self.state = (jnp.float32(0), zeros, jax.tree.map(jnp.zeros_like, self.weights)) if self.adam else zeros

    def _loss(self, weights: Tree, x: Array, labels: Array) -> Array:
        scores = jax.nn.log_softmax(self.network(lambda name, _: weights[name], x))
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    def _step(self, weights: Tree, state: Any, x: Array, labels: Array) -> tuple[Tree, Any, Array]:
        loss, gradients = jax.value_and_grad(self._loss)(weights, x, labels)
        return *(adam if self.adam else momentum)(weights, gradients, state, self.rate), loss

    def step(self) -> Array:
        """One step, waited for."""
        result = jax.block_until_ready(self.compiled(self.weights, self.state, self.x, self.labels))
        self.weights, self.state, loss = result
        return loss
