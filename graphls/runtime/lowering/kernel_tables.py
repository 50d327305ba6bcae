"""Tables of the kernels of each ONNX Runtime provider (kernel_tables.json).

The tables are facts: for an operator the versions of its schema that a kernel takes, and its types. Where each one
comes from stands beside it under "sources".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from graphls.base.errors import GraphValueError
from graphls.runtime.onnxruntime.runtime import OLDEST as OLDEST_VERSION

FILE = Path(__file__).with_name("kernel_tables.json")
OLDEST, NEWEST = 17, 25
"""The versions of the operators of ONNX (opsets) that the lowering can write."""

PORTABLE = 18
"""The opset of a model that is made for no runtime in particular: every table has the kernels of this one."""

NEWEST_CHOSEN = 21
"""The newest opset that is chosen where nobody asks for one: the oldest package of ONNX that is taken, 1.16, has it."""

IR_VERSIONS = {23: 11, 24: 12, 25: 13}
"""The versions of the file format by opset; 10 before, which has what a model tells of itself (metadata_props)."""

DEVICES = ("cpu", "cuda")
OLDEST_RUNTIME = "{}.{}.0".format(*OLDEST_VERSION)
"""The oldest version of ONNX Runtime that has a table: what it has a kernel for, later ones have, too, at PORTABLE."""

FIRST_UNKNOWN = (1, 24)
"""The first version that has more kernels than those of the oldest table, that of 1.19.2."""

Types = Mapping[str, str]
"""The element types of what an operator takes and gives, by the names of its parameters and of its type variables."""


@dataclass(frozen=True)
class Row:
    """A kernel: the versions of the schema, and for each type variable the types, that it takes."""

    since: int
    until: int | None
    types: Mapping[str, frozenset[str]]

    def takes_version(self, since: int) -> bool:
        """Whether the runtime takes it for a node whose schema is of version `since`.

        A row without an end takes the schema of its own version only, not newer ones.
        """
        return self.since == since or (self.until is not None and self.since <= since <= self.until)

    def takes(self, types: Types) -> bool:
        """Whether the types are among its own; those that are not known count as such."""
        return all(self.takes_type(name, types) for name in self.types)

    def takes_type(self, name: str, types: Types) -> bool:
        """Whether the type of one variable is among its own."""
        return types.get(name, "") in {"", *self.types[name]}


class KernelTable:
    """The kernels of one provider in one release of the runtime."""

    def __init__(self, rows: Mapping[str, Mapping[str, Sequence[Any]]], sets: Sequence[frozenset[str]]) -> None:
        self._rows = rows
        self._sets = sets
        self._read: dict[tuple[str, str], list[Row]] = {}

    def rows(self, operator: str, domain: str = "") -> Sequence[Row]:
        """The kernels of an operator."""
        key = domain, operator
        if key not in self._read:
            found = self._rows.get(domain, {}).get(operator, ())
            self._read[key] = [Row(a, b, {name: self._sets[i] for name, i in types.items()}) for a, b, types in found]
        return self._read[key]

    def lacks(self, operator: str, since: int, types: Types, domain: str = "") -> str:
        """Why a node finds no kernel, "" where it finds one; `since` is the version of its schema."""
        rows = self.rows(operator, domain)
        if not rows:
            return f"no kernel of {operator}"
        fitting = [row for row in rows if row.takes_version(since)]
        if not fitting:
            return f"no kernel of {operator} in version {since}"
        if any(row.takes(types) for row in fitting):
            return ""
        refused = {types[name] for row in fitting for name in row.types if not row.takes_type(name, types)}
        return f"no kernel of {operator} for {' and '.join(sorted(refused))}"

    def operators(self, domain: str = "") -> Iterable[str]:
        """The names of the operators that have kernels."""
        return self._rows.get(domain, {})


@dataclass(frozen=True)
class Signature:
    """The signature of an operator: its parameters with their type variables, or types where those are fixed.

    One that `is_composed` is defined by other operators, which the runtime puts in its place where it has no kernel.
    """

    since: int
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    variables: Mapping[str, frozenset[str]]
    is_composed: bool = False

    def types(self, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
        """The element types by parameters and type variables; the last parameter stands for all that follow it."""
        found: dict[str, str] = {}
        for parameters, given in ((self.inputs, inputs), (self.outputs, outputs)):
            for place, kind in enumerate(given):
                if kind and parameters:
                    name, variable = parameters[min(place, len(parameters) - 1)]
                    found.setdefault(name, kind)
                    found.setdefault(variable, kind)
        return found

    def refuses(self, types: Types) -> str:
        """Why the schema itself does not take these types, or ""."""
        bad = sorted({types[name] for name, kinds in self.variables.items() if types.get(name, "") not in {"", *kinds}})
        return f"ONNX has no {' and '.join(bad)} in version {self.since} of" if bad else ""


def ir_version(opset: int) -> int:
    """The version of the file format of a model at an opset."""
    return IR_VERSIONS.get(opset, 10)


@cache
def signature(operator: str, opset: int, domain: str = "") -> Signature | None:
    """The signature of an operator at an opset; None for one that is not known there."""
    schema = _schema(operator, opset, domain)
    if schema is None:
        return _signature_of_table(operator) if domain == "com.microsoft" else None
    variables = {c.type_param_str: frozenset(map(plain, c.allowed_type_strs)) for c in schema.type_constraints}
    inputs, outputs = (tuple((p.name, plain(p.type_str)) for p in ps) for ps in (schema.inputs, schema.outputs))
    is_composed = schema.has_function or schema.has_context_dependent_function
    return Signature(schema.since_version, inputs, outputs, variables, is_composed)


def _signature_of_table(operator: str) -> Signature | None:
    found = _data()["signatures"].get(operator)
    if found is None:
        return None
    inputs, outputs = (tuple(_parameter(text) for text in side.split()) for side in found)
    return Signature(1, inputs, outputs, {})


def _parameter(text: str) -> tuple[str, str]:
    name, _, variable = text.partition(":")
    return name, variable


def plain(kind: str) -> str:
    """A type as the tables write it: `float` for `tensor(float)`, `seq(float)` for `seq(tensor(float))`."""
    return re.sub(r"(?<!_)tensor\((\w+)\)", r"\1", kind)


def version_of(runtime: str) -> tuple[int, int]:
    """The first two numbers of a version; raises GraphValueError for other texts and for one that is too old."""
    found = re.match(r"(\d+)\.(\d+)", runtime)
    if found is None:
        raise GraphValueError(f"{runtime!r} is not a version of ONNX Runtime; write one such as 1.19.2.")
    version = int(found[1]), int(found[2])
    if version < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        raise GraphValueError(f"The kernels of ONNX Runtime {runtime} are not known; graphls needs {oldest} or newer.")
    return version


def table(device: str, runtime: str) -> KernelTable:
    """The kernels that a version of ONNX Runtime has on "cpu" or "cuda", as far as they are known; see `unknown`.

    They are those of the newest table that is no newer, else of the oldest one.
    """
    return _table(f"{device} {_release(device, runtime)}")


def _release(device: str, runtime: str) -> str:
    """The release whose table is taken for a version of the runtime."""
    if device not in DEVICES:
        known = ", ".join(map(repr, DEVICES))
        raise GraphValueError(f"There is no table of kernels of {device!r}; use one of {known}.")
    version = version_of(runtime)
    releases: list[str] = [name.split()[1] for name in _data()["tables"] if name.split()[0] == device]
    releases.sort(key=version_of)
    return next((release for release in reversed(releases) if version_of(release) <= version), releases[0])


def unknown(device: str, runtime: str) -> str:
    """The gaps of the tables for a version of ONNX Runtime, as a sentence; "" where they tell all."""
    release = _release(device, runtime)
    if device != "cuda" or version_of(runtime) < FIRST_UNKNOWN or version_of(release) >= FIRST_UNKNOWN:
        return ""
    return (
        f"There is no table of the kernels of ONNX Runtime {runtime}: it has those of {release} at least, so that "
        "operators which are said to have none may have one."
    )


@cache
def _table(name: str) -> KernelTable:
    data = _data()
    return KernelTable(data["tables"][name], [frozenset(text.split()) for text in data["types"]])


@cache
def _data() -> Any:
    return json.loads(FILE.read_text(encoding="utf-8"))


@cache
def best_opset(runtime: str) -> int:
    """The opset at which most operators have a kernel on CUDA in a version of the runtime, the newest of equals.

    It serves the CPU as well, which has kernels for all of them.
    """
    kernels = table("cuda", runtime)
    return max(range(OLDEST, NEWEST_CHOSEN + 1), key=lambda opset: (_served(kernels, opset), opset))


def chosen_opset(opset: int | None, runtime: str | None) -> int:
    """The opset that is asked for, or the one that serves a version of the runtime, or all of them, best.

    Raises GraphValueError for one that the lowering, or the package of ONNX at hand, does not know.
    """
    if opset is None:
        return PORTABLE if runtime is None else best_opset(runtime)
    if isinstance(opset, bool) or not isinstance(opset, int) or not OLDEST <= opset <= NEWEST:
        raise GraphValueError(f"A model can be written at opset {OLDEST} to {NEWEST}, not {opset!r}.")
    if opset > onnx.defs.onnx_opset_version():
        known = onnx.defs.onnx_opset_version()
        text = f"The package onnx {onnx.__version__} knows opsets up to {known}, not {opset}"
        raise GraphValueError(f"{text}; run pip install --upgrade onnx.")
    return opset


def _served(kernels: KernelTable, opset: int) -> int:
    """How many operators have a kernel at an opset."""
    found = ((name, _schema(name, opset)) for name in kernels.operators())
    return sum(any(row.takes_version(s.since_version) for row in kernels.rows(name)) for name, s in found if s)


def _schema(operator: str, opset: int, domain: str = "") -> Any:
    """The ONNX schema of an operator at an opset; None where it is not there."""
    try:
        return onnx.defs.get_schema(operator, opset, domain)
    except Exception:  # SchemaError, which no public module of onnx has
        return None
