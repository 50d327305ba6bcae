"""The call of a compiled program, in C from the first step on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


class ProgramCall:
    """Calls a program on arrays of JAX and NumPy.

    JAX prepares a call for each combination of kinds of arguments: the first call runs in Python, where a Ctrl-C could
    land between the program, which takes the memory of the old states, and the new ones. So `prepare` lets JAX prepare
    the call without running the program, and `run` is a call into C. Where JAX has no such interface, it is in Python.
    """

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled
        self.is_preparing = False
        self.prepared: set[tuple[type, ...]] = set()
        try:
            self.run, self.is_in_c = self._in_c(), True
        except (ImportError, AttributeError, TypeError):  # of another version of JAX
            self.run, self.is_in_c = compiled, False

    def prepare(self, inputs: Sequence[Any], states: Iterable[Any]) -> None:
        """Prepare the call for inputs of these kinds, and for states, in Python, without running the program."""
        kinds = tuple(map(type, inputs))
        if kinds in self.prepared or not self.is_in_c:
            return
        self.prepared.add(kinds)  # before, as a call that JAX has prepared runs the program
        self.is_preparing = True
        try:
            self.run(*inputs, *states)
        finally:
            self.is_preparing = False

    def _in_c(self) -> Any:
        from jax._src import tree_util
        from jax._src.interpreters import pxla
        from jax._src.lib import _jax

        executable, parameters = self.compiled._executable, self.compiled._params
        results = tree_util.dispatch_registry.flatten((0,) * len(executable.out_avals), None)[1]
        data = pxla.MeshExecutableFastpathData(
            executable.xla_executable, results, executable._in_shardings, executable._out_shardings,
            executable.out_avals, [True] * len(executable.out_avals), [True] * len(executable.in_avals),
            executable._dispatch_in_layouts, parameters.const_args,
        )  # fmt: skip

        def unknown(*arguments: Any) -> tuple[Any, Any, bool]:
            """What JAX calls for kinds of arguments that it has not prepared: the results, and how to prepare them."""
            return None if self.is_preparing else self.compiled(*arguments), data, False

        name = executable.unsafe_call.name
        keys = pxla.JitGlobalCppCacheKeys()
        return _jax.pjit(name, None, unknown, [], [], keys, tree_util.dispatch_registry, pxla.cc_shard_arg)
