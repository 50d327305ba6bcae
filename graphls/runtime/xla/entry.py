"""Compiled programs in the compile cache: read without tracing and compiling, or written for the next process."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from graphls.ir.graph import Graph, Node, walk
from graphls.runtime.cache import current, key_of

PROGRAM, TABLE = "program", "table"


@dataclass(frozen=True)
class Compiled:
    """A compiled program of a graph, with the nodes whose indices it tests."""

    program: Any
    checks: list[Node]


class ProgramEntry:
    """The entry of the program of a graph for some devices, by the facts that it was `compiled_with`.

    Where no folder for entries is set, the graph has no key, or devices belong to other processes, nothing is read and
    nothing is written. An entry has
    the code of the machine in it, which JAX wraps by pickle: one is read only where its checksum is that of its key.
    """

    def __init__(self, jax: Any, graph: Graph, devices: Sequence[Any], **compiled_with: object) -> None:
        self.jax, self.graph, self.devices = jax, graph, devices
        self.cache = current()
        is_own = len({device.process_index for device in devices}) == 1
        self.key = key_of(graph, **self._facts(), **compiled_with) if self.cache and is_own else None

    def _facts(self) -> dict[str, object]:
        """All that a program depends on besides its graph; its code is divided for the cores of the processor."""
        client = self.devices[0].client
        return {
            "engine": "xla",
            "jax": (self.jax.__version__, version("jaxlib"), client.platform, client.platform_version),
            "devices": [(device.id, device.device_kind) for device in self.devices],
            "flags": os.environ.get("XLA_FLAGS", ""),
            "cores": os.cpu_count(),
        }

    def read(self, inputs: int, outputs: int) -> Compiled | None:
        """The program of the entry, which takes and returns so many arrays; None where there is no usable entry."""
        if self.cache is None or self.key is None:
            return None
        return self.cache.open(self.key, lambda parts: self._opened(parts, inputs, outputs))

    def _opened(self, parts: Mapping[str, memoryview], inputs: int, outputs: int) -> Compiled:
        from jax.experimental.serialize_executable import deserialize_and_load

        nodes, structure = list(walk(self.graph)), self.jax.tree_util.tree_structure
        checks = [nodes[number] for number in json.loads(bytes(parts[TABLE]))["checks"]]
        trees = structure(((0,) * inputs, {})), structure((0,) * outputs)
        client = self.devices[0].client
        return Compiled(deserialize_and_load(bytes(parts[PROGRAM]), *trees, client, self.devices), checks)

    def write(self, compiled: Compiled) -> None:
        """Write a program, where its platform can do so."""
        if self.cache is None or self.key is None:
            return
        from jax.experimental.serialize_executable import serialize

        numbers = {node: number for number, node in enumerate(walk(self.graph))}
        table = json.dumps({"checks": [numbers[node] for node in compiled.checks]}).encode()
        with suppress(ValueError, NotImplementedError, self.jax.errors.JaxRuntimeError):
            self.cache.keep(self.key, {TABLE: table, PROGRAM: serialize(compiled.program)[0]})
