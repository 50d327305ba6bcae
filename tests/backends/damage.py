"""Entries of a cache whose checksum is right and whose parts are not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphls.runtime.cache import Cache

Parts = dict[str, bytes]


def _table(change: Callable[[dict[str, Any]], object]) -> Callable[[Parts], Parts]:
    def damaged(parts: Parts) -> Parts:
        table = json.loads(parts["table"])
        change(table)
        return parts | {"table": json.dumps(table).encode()}

    return damaged


DAMAGES: dict[str, Callable[[Parts], Parts]] = {
    "no parts": lambda parts: {},
    "no table": lambda parts: {"model": parts["model"]},
    "no model": lambda parts: {"table": parts["table"]},
    "empty table": lambda parts: parts | {"table": b""},
    "table of bytes": lambda parts: parts | {"table": b"\xff\xfe\x00\x81"},
    "deep table": lambda parts: parts | {"table": b"[" * 100_000},
    "table of a list": lambda parts: parts | {"table": b"[]"},
    "table of nothing": lambda parts: parts | {"table": b"null"},
    "table without names": lambda parts: parts | {"table": b"{}"},
    "empty model": lambda parts: parts | {"model": b""},
    "no model at all": lambda parts: parts | {"model": b"this is no model"},
    "half a model": lambda parts: parts | {"model": parts["model"][: len(parts["model"]) // 2]},
    "strange input": _table(lambda table: table["inputs"].__setitem__(0, "strange")),
    "fewer inputs": _table(lambda table: table["inputs"].pop()),
    "strange output": _table(lambda table: table["outputs"].__setitem__(0, 7)),
    "no states": _table(lambda table: table.update(states={})),
    "states in a list": _table(lambda table: table.update(states=[])),
    "strange writes": _table(lambda table: table.update(writes={name: "strange" for name in table["writes"]})),
    "node beyond the last": _table(lambda table: table.update(host=[[10**6, "x"]])),
    "node before the first": _table(lambda table: table.update(host=[[-1, "x"]])),
    "node by name": _table(lambda table: table.update(host=[["first", "name"]])),
}


def poison(folder: Path, damage: str) -> None:
    """Damage all entries of a folder so that their checksums are right."""
    for path in folder.glob("*.compiled"):
        parts = {name: bytes(part) for name, part in (Cache(folder).load(path.stem) or {}).items()}
        Cache(folder).keep(path.stem, DAMAGES[damage](parts))
