"""The cache entry of a model compiled by an engine: read, or written for the next process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from graphls.ir.graph import Graph
from graphls.runtime.cache import Parts, current, key_of
from graphls.runtime.lowering.ports import Ports, table_of

MODEL, TABLE = "model", "table"
Opened = TypeVar("Opened")


class CacheEntry:
    """The entry of the model of a graph, by the facts that it was `compiled_with`; without those it stays empty.

    It holds the model, the ports of the model as a table, and what else the engine keeps of it. Where no folder for
    entries is set, or the graph has no key, nothing is read and nothing is written.
    """

    def __init__(self, graph: Graph, compiled_with: Callable[[], Mapping[str, object]] | None) -> None:
        self.graph = graph
        self.cache = current() if compiled_with else None
        self.key = key_of(graph, **compiled_with()) if self.cache and compiled_with else None

    @property
    def is_used(self) -> bool:
        """Whether the entry can be written and read again."""
        return self.key is not None

    def read(self, opened: Callable[[Mapping[str, Any], Mapping[str, memoryview]], Opened]) -> Opened | None:
        """The object that `opened` makes of the table and the parts; None where there is no usable entry."""
        if self.cache is None or self.key is None:
            return None
        return self.cache.open(self.key, lambda parts: opened(json.loads(bytes(parts[TABLE])), parts))

    def write(self, ports: Ports, parts: Parts, **facts: object) -> None:
        """Write the parts, and a table of the ports and of what else the engine reads `facts` of."""
        if self.cache is not None and self.key is not None:
            table = json.dumps({**table_of(self.graph, ports), **facts}).encode()
            self.cache.keep(self.key, {TABLE: table, **parts})
