"""A graph as a function of arrays of JAX, which traces it into a program of XLA."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, visible
from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.sharding import Sharding
from graphls.ir.types import TOKEN, bfloat16, float32
from graphls.passes.distributed.sharding_proof import stated_shardings
from graphls.primitives.faults import is_builtin, mismatch, untraceable
from graphls.primitives.indexing import axis_size
from graphls.primitives.primitive import Primitive
from graphls.runtime.xla.instructions import tag
from graphls.runtime.xla.joining import Forms

Array = Any
"""An array of JAX, traced or not."""

Placed = Callable[[Array, Sharding, Sharding | None], Array]
HOLDS = np.array(True)

LARGE = 4096
"""Elements from which on a program computes what is constant, instead of having it among its literals."""


class Tracer:
    """Runs the nodes of a graph by their rules, on arrays of `jax`; `checks` are the tests of indices so far.

    Nothing in a program of XLA raises, so each test is a result of it: whether all indices of a node are in range. The
    indices of `tested` nodes, and constant ones, are not tested here. `placed` divides a result as its node requires.
    """

    def __init__(
        self, jax: Any, tested: Collection[Node] = (), placed: Placed | None = None, forms: Forms | None = None
    ) -> None:
        self.jax = jax
        self.tested = tested
        self.placed = placed or _unchanged
        self.checks: list[tuple[Node, Array]] = []
        self.stated: dict[Value, Sharding | None] = {}
        """The shardings of values that are divided as a node or the graph says."""
        self.forms = Forms(forms)
        self.rounded: dict[Value, Array] = {}

    def run(self, nodes: Sequence[Node], env: dict[Value, Array]) -> None:
        """Add the results of nodes to `env`, which has all that they read."""
        self.stated.update(stated_shardings(nodes, env))
        for node in nodes:
            env.update(zip(node.outputs, self.results(node, env), strict=True))

    def results(self, node: Node, env: dict[Value, Array]) -> tuple[Array, ...]:
        """The results of one node, in their dtypes."""
        primitive: Any = node.primitive
        with self.jax.named_scope(f"{visible(node.scope or primitive.name)}/{tag(node)}"):
            arrays = self._operands(node, env)
            if primitive.takes_indices and node not in self.tested:
                self._test(node, arrays[1])
            results = self._computed(node, arrays, env)
        typed = tuple(self._typed(r, v) for r, v in zip(results, node.outputs, strict=True))
        sharding = primitive.result_sharding(node.attrs)
        if sharding is None:
            return typed
        before = self.stated.get(node.inputs[0])
        return tuple(self.placed(result, sharding, before) for result in typed)

    def _operands(self, node: Node, env: Mapping[Value, Array]) -> tuple[Array, ...]:
        """The arrays that a node reads, of JAX where NumPy would compute a large constant from its own."""
        arrays = tuple(env[value] for value in node.inputs)
        are_constant = [isinstance(array, (np.ndarray, np.generic)) for array in arrays]
        joined = self.forms.joined(node, are_constant)
        self.forms.add(node, are_constant)
        arrays = tuple(self._apart(a) if is_joined else a for a, is_joined in zip(arrays, joined, strict=True))
        is_constant = all(are_constant)
        is_large = any(value.type.size > LARGE for value in node.outputs)
        return tuple(map(self.jax.numpy.asarray, arrays)) if is_constant and is_large else arrays

    def _apart(self, array: Array) -> Array:
        """An operand with a barrier, without which XLA would join what computes it with what reads it.

        1 - p + 1e-12 would be 0 where p is 1, as XLA adds the constants first, and log(exp(x)) would never overflow.
        """
        return self.jax.lax.optimization_barrier(array)

    def _computed(self, node: Node, arrays: tuple[Array, ...], env: dict[Value, Array]) -> tuple[Array, ...]:
        primitive: Any = node.primitive
        if node.regions:
            tested: set[Node] = set()
            types = tuple(value.type for value in node.outputs)
            run = partial(self._region, node, env, tested)
            results, holds = primitive.xla_regions(self.jax, arrays, node.attrs, types, run)
            if tested:
                self.checks.append((tested.pop() if len(tested) == 1 else node, holds))
            return tuple(results)
        if primitive.name == "cast" and node.attrs["dtype"] is float32 and node.inputs[0] in self.rounded:
            return (self.rounded[node.inputs[0]],)  # the same numbers, which XLA rounds in the kernels that read them
        has_own = hasattr(primitive, "xla")
        rule = partial(primitive.xla, self.jax) if has_own else self._of_numpy(primitive.numpy)
        if not is_builtin(primitive):
            return self._of_plugin(node, arrays, rule)
        if primitive.flops_per_element and not (has_own and primitive.is_product):
            return tuple(primitive.computed(arrays, node.attrs, rule))
        result = rule(*arrays, **node.attrs)  # what moves elements, or sums products in 32 bits, takes 16-bit floats
        return result if isinstance(result, tuple) else (result,)

    def _of_plugin(self, node: Node, arrays: tuple[Array, ...], rule: Any) -> tuple[Array, ...]:
        """The results of a user's rule, which must be traceable and give the shapes of the type rule."""
        primitive: Any = node.primitive
        try:
            results = tuple(primitive.computed(arrays, node.attrs, rule))
        except GraphTypeError as error:
            if hasattr(primitive, "xla") or not isinstance(error.__cause__, self.jax.errors.JAXTypeError):
                raise
            raise untraceable(primitive, node.loc) from error
        shapes, expected = [np.shape(result) for result in results], [value.type.shape for value in node.outputs]
        if shapes != expected:
            name = "xla" if hasattr(primitive, "xla") else "numpy"
            raise mismatch(primitive, name, f"the shapes {shapes}", f"its type rule says {expected}", node.loc)
        return results

    def _of_numpy(self, rule: Any) -> Any:
        """A NumPy rule on arrays of JAX, which has functions of its own in place of NumPy's compiled ones."""
        return getattr(self.jax.numpy, rule.__name__) if isinstance(rule, np.ufunc) else rule

    def _region(
        self, node: Node, env: Mapping[Value, Array], tested: set[Node], index: int, arrays: Sequence[Array]
    ) -> tuple[tuple[Array, ...], Array]:
        """The results of a region of a node, and whether all indices in it are in range; adds the `tested` nodes."""
        inner, region = Tracer(self.jax, placed=self.placed, forms=self.forms), node.regions[index]
        own = {**env, **dict(zip(region.inputs, arrays, strict=True))}
        inner.run(region.nodes, own)
        tested.update(node for node, _ in inner.checks)
        return tuple(self.jax.numpy.asarray(own[value]) for value in region.outputs), inner.holds()

    def holds(self) -> Array:
        """Whether all tests hold."""
        return self.jax.numpy.stack([check for _, check in self.checks]).all() if self.checks else HOLDS

    def _test(self, node: Node, indices: Array) -> None:
        holds = are_in_range(indices, axis_size(node))
        if not isinstance(holds, np.bool_) or not holds:
            self.checks.append((node, holds))

    def _typed(self, result: Any, value: Value) -> Array:
        """A result in the dtype of its value, to which 16-bit floats are rounded."""
        if value.type == TOKEN:
            return np.zeros((), np.int32)
        dtype = value.type.dtype.numpy
        if isinstance(result, (np.ndarray, np.generic)) or not hasattr(result, "dtype"):
            return np.asarray(result, dtype)
        if value.type.dtype is bfloat16 and result.dtype == np.float32:
            self.rounded[value] = self.jax.lax.reduce_precision(result, exponent_bits=8, mantissa_bits=7)
        return result if result.dtype == dtype else result.astype(dtype)


def _unchanged(array: Array, sharding: Sharding, before: Sharding | None) -> Array:
    return array


def are_in_range(indices: Array, size: int) -> Array:
    """Whether all indices are those of an axis of that size, from its beginning or from its end."""
    return ((indices >= -size) & (indices < size)).all()


def takes(node: Node) -> bool:
    """Whether the rules of a node and of all nodes in its regions can be traced."""
    return all(map(_is_traceable, walk(Graph("node", (), (), (node,), (), ()))))


def _is_traceable(node: Node) -> bool:
    primitive: Any = node.primitive
    if primitive.calls_python or primitive.on_host or primitive.is_collective:
        return False
    if any(value.type.stacked for value in (*node.inputs, *node.outputs)):
        return False  # the sizes of XLA are static
    if node.regions:
        return hasattr(primitive, "xla_regions")
    if hasattr(primitive, "xla"):
        return True
    if type(primitive).numpy is Primitive.numpy:
        return False  # what a pass removes, or what has an ONNX rule only
    if is_builtin(primitive) or primitive.is_traceable:
        return True
    return isinstance(primitive.numpy, np.ufunc) and getattr(np, primitive.numpy.__name__, None) is primitive.numpy


def traced(
    jax: Any, graph: Graph, arrays: Sequence[Array], tested: Collection[Node] = (), placed: Placed | None = None
) -> tuple[list[Array], list[Array], Array, list[tuple[Node, Array]]]:
    """A graph on arrays for its inputs and states: results, new states, whether all tests of indices hold, and these.

    The indices of `tested` nodes are in range.
    """
    jnp, tracer = jax.numpy, Tracer(jax, tested, placed)
    env: dict[Value, Array] = dict(zip((*graph.inputs, *graph.states), arrays, strict=True))
    tracer.run(graph.nodes, env)
    results, new = ([jnp.asarray(env[v]) for v in vs] for vs in (graph.outputs, (w.value for w in graph.writes)))
    return results, new, jnp.asarray(tracer.holds()), tracer.checks
