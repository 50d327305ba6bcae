"""Tables of the kernels of each ONNX Runtime provider (kernel_tables.json).

The tables are facts: for each operator the versions of its schema that a kernel takes, and its types. The origin of
each table is recorded under "sources".
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
"""The opset of a model for no runtime in particular: every table has the kernels of this one."""

NEWEST_CHOSEN = 21
"""The newest opset that is chosen by default: the oldest supported package of ONNX, 1.16, has it."""

IR_VERSIONS = {23: 11, 24: 12, 25: 13}
"""The versions of the file format by opset; 10 before, which has `metadata_props`."""

DEVICES = ("cpu", "cuda")
OLDEST_RUNTIME = "{}.{}.0".format(*OLDEST_VERSION)
"""The oldest version of ONNX Runtime that has a table: later versions have all of its kernels at PORTABLE, too."""

FIRST_UNKNOWN = (1, 24)
"""The first version that has more kernels than those of the oldest table, that of 1.19.2."""

Types = Mapping[str, str]
"""The element types of an operator's inputs and outputs, by the names of its parameters and of its type variables."""


@dataclass(frozen=True)
class Row:
    """A kernel: the supported versions of the schema, and the supported types of each type variable."""

    since: int
    until: int | None
    types: Mapping[str, frozenset[str]]

    def takes_version(self, since: int) -> bool:
        """True if the runtime selects it for a node whose schema is of version `since`.

        A row without an end takes the schema of its own version only, not newer ones.
        """
        return self.since == since or (self.until is not None and self.since <= since <= self.until)

    def takes(self, types: Types) -> bool:
        """True if it supports the types; unknown types count as supported."""
        return all(self.takes_type(name, types) for name in self.types)

    def takes_type(self, name: str, types: Types) -> bool:
        """True if it supports the type of one variable."""
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
            entries = self._rows.get(domain, {}).get(operator, ())
            self._read[key] = [Row(a, b, {name: self._sets[i] for name, i in types.items()}) for a, b, types in entries]
        return self._read[key]

    def lacks(self, operator: str, since: int, types: Types, domain: str = "") -> str:
        """The reason why a node has no kernel, "" if it has one; `since` is the version of its schema."""
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
    """The signature of an operator: its parameters with their type variables, or with fixed types.

    One that `is_composed` is defined by other operators, which the runtime inlines if it has no kernel.
    """

    since: int
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    variables: Mapping[str, frozenset[str]]
    is_composed: bool = False

    def types(self, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
        """The element types by parameters and type variables; the last parameter stands for all that follow it."""
        types: dict[str, str] = {}
        for parameters, kinds in ((self.inputs, inputs), (self.outputs, outputs)):
            for number, kind in enumerate(kinds):
                if kind and parameters:
                    name, variable = parameters[min(number, len(parameters) - 1)]
                    types.setdefault(name, kind)
                    types.setdefault(variable, kind)
        return types

    def refuses(self, types: Types) -> str:
        """The reason why the schema itself rejects these types, or ""."""
        bad = sorted({types[name] for name, kinds in self.variables.items() if types.get(name, "") not in {"", *kinds}})
        return f"ONNX has no {' and '.join(bad)} in version {self.since} of" if bad else ""


def ir_version(opset: int) -> int:
    """The version of the file format of a model at an opset."""
    return IR_VERSIONS.get(opset, 10)


@cache
def signature(operator: str, opset: int, domain: str = "") -> Signature | None:
    """The signature of an operator at an opset; None for an unknown one."""
    schema = _schema(operator, opset, domain)
    if schema is None:
        return _signature_of_table(operator) if domain == "com.microsoft" else None
    variables = {c.type_param_str: frozenset(map(plain, c.allowed_type_strs)) for c in schema.type_constraints}
    inputs, outputs = (tuple((p.name, plain(p.type_str)) for p in ps) for ps in (schema.inputs, schema.outputs))
    is_composed = schema.has_function or schema.has_context_dependent_function
    return Signature(schema.since_version, inputs, outputs, variables, is_composed)


def _signature_of_table(operator: str) -> Signature | None:
    entry = _data()["signatures"].get(operator)
    if entry is None:
        return None
    inputs, outputs = (tuple(_parameter(text) for text in side.split()) for side in entry)
    return Signature(1, inputs, outputs, {})


def _parameter(text: str) -> tuple[str, str]:
    name, _, variable = text.partition(":")
    return name, variable


def plain(kind: str) -> str:
    """A type as the tables write it: `float` for `tensor(float)`, `seq(float)` for `seq(tensor(float))`."""
    return re.sub(r"(?<!_)tensor\((\w+)\)", r"\1", kind)


def version_of(runtime: str) -> tuple[int, int]:
    """The first two numbers of a version; raises GraphValueError for other texts and for one that is too old."""
    match = re.match(r"(\d+)\.(\d+)", runtime)
    if match is None:
        raise GraphValueError(f"{runtime!r} is not a version of ONNX Runtime; write one such as 1.19.2.")
    version = int(match[1]), int(match[2])
    if version < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        raise GraphValueError(f"The kernels of ONNX Runtime {runtime} are not known; graphls needs {oldest} or newer.")
    return version


def table(device: str, runtime: str) -> KernelTable:
    """The known kernels of a version of ONNX Runtime on "cpu" or "cuda"; see `unknown`.

    They are those of the newest table that is not newer than the version, else of the oldest one.
    """
    return _table(f"{device} {_release(device, runtime)}")


def _release(device: str, runtime: str) -> str:
    """The release whose table applies to a version of the runtime."""
    if device not in DEVICES:
        known = ", ".join(map(repr, DEVICES))
        raise GraphValueError(f"There is no table of kernels of {device!r}; use one of {known}.")
    version = version_of(runtime)
    releases: list[str] = [name.split()[1] for name in _data()["tables"] if name.split()[0] == device]
    releases.sort(key=version_of)
    return next((release for release in reversed(releases) if version_of(release) <= version), releases[0])


def unknown(device: str, runtime: str) -> str:
    """The gaps of the tables for a version of ONNX Runtime, as a sentence; "" if they are complete."""
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

    It suits the CPU as well, which has kernels for all of them.
    """
    kernels = table("cuda", runtime)
    return max(range(OLDEST, NEWEST_CHOSEN + 1), key=lambda opset: (_served(kernels, opset), opset))


def chosen_opset(opset: int | None, runtime: str | None) -> int:
    """The requested opset, or the best one for a version of the runtime, or for all of them.

    Raises GraphValueError for an opset that the lowering, or the installed package of ONNX, does not support.
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
    """The number of operators that have a kernel at an opset."""
    schemas = ((name, _schema(name, opset)) for name in kernels.operators())
    return sum(any(row.takes_version(s.since_version) for row in kernels.rows(name)) for name, s in schemas if s)


def _schema(operator: str, opset: int, domain: str = "") -> Any:
    """The ONNX schema of an operator at an opset; None if there is none."""
    try:
        return onnx.defs.get_schema(operator, opset, domain)
    except Exception:  # SchemaError, which no public module of onnx has
        return None
