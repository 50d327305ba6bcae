"""`python -m tools.kernel_tables` adds the kernels of the runtime at hand to runtime/lowering/kernel_tables.json.

A runtime tells those of all providers that it is built with, so that one for a GPU tells those of CUDA, too. Which
runtimes tell them is found out: onnxruntime 1.31.1 from PyPI does, onnxruntime-training-cpu 1.19.2 does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from graphls.runtime.devices import PROVIDERS
from graphls.runtime.lowering.kernel_tables import FILE, plain

FUNCTION = "onnxruntime.capi.onnxruntime_pybind11_state.get_all_opkernel_def"
OPEN = 2**31 - 1
"""The end of a range of versions that has none."""

Types = dict[str, frozenset[str]]
Table = dict[str, dict[str, list[tuple[int, "int | None", Types]]]]
"""By domain and operator the rows: the first and the last version, and types by their variables."""


def runtime_tables() -> tuple[str, dict[str, Table]]:
    """The version of the runtime at hand, and its tables by device."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    kernels = list(state.get_all_opkernel_def()) if hasattr(state, FUNCTION.rpartition(".")[2]) else []
    devices = {provider: device for device, provider in PROVIDERS.items()}
    by_device: dict[str, list[Any]] = {}
    for kernel in kernels:
        if kernel.provider in devices:
            by_device.setdefault(devices[kernel.provider], []).append(kernel)
    return onnxruntime.__version__, {device: table_of(listed) for device, listed in by_device.items()}


def table_of(kernels: Iterable[Any]) -> Table:
    """The rows of kernels; those that differ in the types of one variable only are one row."""
    rows: dict[tuple[str, str, int, int], list[Types]] = {}
    for kernel in kernels:
        types = {name: frozenset(map(plain, kinds)) for name, kinds in kernel.type_constraints.items()}
        rows.setdefault((kernel.domain, kernel.op_name, *kernel.version_range), []).append(types)
    table: Table = {}
    for (domain, operator, since, until), listed in rows.items():
        named = table.setdefault(domain, {}).setdefault(operator, [])
        named += [(since, None if until == OPEN else until, types) for types in _merged(listed)]
        named.sort(key=lambda row: -row[0])
    return table


def _merged(listed: list[Types]) -> list[Types]:
    names = {tuple(types) for types in listed}
    if len(names) > 1 or len(next(iter(names))) != 1:
        return listed
    ((name,),) = names
    return [{name: frozenset().union(*(types[name] for types in listed))}]


def read(text: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Table]]:
    """The sources, the signatures of operators of the runtime itself, and the tables in the text of the file."""
    data = json.loads(text)
    sets = [frozenset(kinds.split()) for kinds in data["types"]]
    tables: dict[str, Table] = {}
    for name, domains in data["tables"].items():
        tables[name] = {
            domain: {operator: [_row(row, sets) for row in rows] for operator, rows in operators.items()}
            for domain, operators in domains.items()
        }
    return data["sources"], data["signatures"], tables


def _row(row: Any, sets: list[frozenset[str]]) -> tuple[int, int | None, Types]:
    since, until, types = row
    return since, until, {name: sets[number] for name, number in types.items()}


def written(sources: Mapping[str, Any], signatures: Mapping[str, Any], tables: Mapping[str, Table]) -> str:
    """The text of the file: an operator on each line, whose types are numbers of sets that are listed once."""
    sets: dict[frozenset[str], int] = {}
    blocks = [_block(name, {d: _lines(t, sets, 4) for d, t in table.items()}) for name, table in tables.items()]
    types = ",\n".join(f"  {json.dumps(' '.join(sorted(kinds)))}" for kinds in sets)
    listed = ",\n".join(f"  {json.dumps(name)}: {json.dumps(sides)}" for name, sides in sorted(signatures.items()))
    source = json.dumps(sources, indent=2).replace("\n", "\n ")
    parts = (f' "sources": {source}', f' "types": [\n{types}\n ]', f' "signatures": {{\n{listed}\n }}')
    return "{\n" + ",\n".join(parts) + ',\n "tables": {\n' + ",\n".join(blocks) + "\n }\n}\n"


def _block(name: str, domains: Mapping[str, str]) -> str:
    inner = ",\n".join(f"   {json.dumps(domain)}: {{\n{lines}\n   }}" for domain, lines in domains.items())
    return f"  {json.dumps(name)}: {{\n{inner}\n  }}"


def _lines(operators: Mapping[str, Any], sets: dict[frozenset[str], int], indentation: int) -> str:
    lines = []
    for operator, rows in sorted(operators.items()):
        numbered = [[a, b, {n: sets.setdefault(kinds, len(sets)) for n, kinds in t.items()}] for a, b, t in rows]
        text = json.dumps(numbered, separators=(",", ":"))
        lines.append(f"{' ' * indentation}{json.dumps(operator)}: {text}")
    return ",\n".join(lines)


def main() -> None:
    """Add the tables, in the place of those of the same version; print their names."""
    sources, signatures, tables = read(FILE.read_text(encoding="utf-8"))
    version, tables_by_device = runtime_tables()
    for device, table in tables_by_device.items():
        name = f"{device} {version}"
        print(name)
        tables[name] = table
        sources[name] = {"function": FUNCTION, "package": f"onnxruntime {version}", "provider": PROVIDERS[device]}
    FILE.write_text(written(sources, signatures, tables), encoding="utf-8")


if __name__ == "__main__":
    main()
