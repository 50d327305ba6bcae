"""The page docs/operators.md."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from graphls import nn, ops
from graphls.compat.names import PATHS
from graphls.names.lazy import find, is_missing
from graphls.nn.cell import Cell
from graphls.ops.operations import OPERATORS
from tools.operators.names import names, sections
from tools.operators.probe import DATA, Finding, probe, probe_cell

HEAD = """\
# Operators and cells

Made by `make docs`; a test holds it to the code. Every row is found by trying: tensors of which dtypes a call takes
(integers that a function of floats takes become float32), whether a weighted sum of its results has a gradient, and
whether it lowers to an ONNX model for the CPU and for CUDA. An empty field means that no call could be made up, because
a cell or a parameter is needed. The last column has the names of MindSpore 2.10 that the row answers to: functions and
operator classes of `mindspore.ops`, and cells of `mindspore.nn`.
"""
COLUMNS = "| name | what it is | dtypes | gradient | CPU | CUDA | MindSpore |\n|---|---|---|---|---|---|---|"


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD, _summary(), "## Functions of `graphls.ops`", *_functions(), "## Operator classes", _classes()]
    parts += ["## Cells of `graphls.nn`", *_cells(), "## Not offered", *_lacking()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


MODULES = {"ops": ("ops",), "class": ("ops", "ops.operations"), "nn": ("nn",)}
"""In which modules of MindSpore names of each kind stand."""


@cache
def _offered(kind: str) -> frozenset[str]:
    """What graphls has of one kind of names: its own, and what a script gets where it imports them."""
    classes = frozenset(OPERATORS)
    own = {"ops": frozenset(ops.__all__) | classes, "class": classes, "nn": frozenset(nn.__all__)}[kind]
    rooms = [room for module in MODULES[kind] for room in PATHS[module]]
    return own | {name for name in names(kind) if not is_missing(find(name, rooms))}


def _summary() -> str:
    lines = ["| names of MindSpore | offered | not offered |", "|---|---|---|"]
    for kind, title in (("ops", "functions"), ("class", "operator classes"), ("nn", "cells")):
        found = names(kind) & _offered(kind)
        lines.append(f"| {title} | {len(found)} | {len(names(kind) - found)} |")
    return "\n".join(lines)


def _functions() -> list[str]:
    members = {name: getattr(ops, name) for name in ops.__all__}
    return _tables(members, _function_row)


def _cells() -> list[str]:
    members = {name: getattr(nn, name) for name in nn.__all__}
    return _tables(members, _cell_row)


def _tables(members: dict[str, Any], row: Callable[[str, Any], str]) -> list[str]:
    """A table for each module, in the order of their names, under the first sentence of its docstring."""
    parts = []
    for module in sorted({m.__module__ for m in members.values()}):
        title = (importlib.import_module(module).__doc__ or module).strip().splitlines()[0].rstrip(".")
        rows = [row(name, member) for name, member in sorted(members.items()) if member.__module__ == module]
        parts += [f"### {title}", "\n".join([COLUMNS, *rows])]
    return parts


def _function_row(name: str, function: Any) -> str:
    if inspect.isfunction(function) and function.__name__ != name and function.__name__ in ops.__all__:
        return _row(name, f"The same as `{function.__name__}`.", None, _answers(name, None))
    finding = probe(function) if inspect.isfunction(function) else None
    return _row(name, _sentence(function), finding, _answers(name, function))


def _cell_row(name: str, kind: Any) -> str:
    finding = probe_cell(kind) if inspect.isclass(kind) and issubclass(kind, Cell) and kind is not Cell else None
    return _row(name, _sentence(kind), finding, [f"nn.{name}"] if name in names("nn") else [])


def _row(name: str, sentence: str, finding: Finding | None, answers: Iterable[str]) -> str:
    found = ["", "", "", ""] if finding is None else [_spelt(finding), *map(_yes, _flags(finding))]
    shown = " ".join(f"`{answer}`" for answer in answers)
    return "| " + " | ".join([f"`{name}`", sentence.replace("|", "\\|"), *found, shown]) + " |"


def _flags(finding: Finding) -> tuple[bool, bool, bool]:
    return finding.gradient, finding.cpu, finding.cuda


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


def _spelt(finding: Finding) -> str:
    """Dtypes, with all of a kind as one word."""
    words = []
    for kinds, word in ((("float",), "floats"), (("int", "uint"), "integers"), (("bool",), "bool")):
        every = [d for d in DATA if d.kind in kinds]
        found = [d for d in finding.dtypes if d in every]
        words += [word] if found == every else [d.long_name for d in found]
    return ", ".join(words)


def _sentence(member: Any) -> str:
    first = (inspect.getdoc(member) or "").split("\n\n")[0].replace("\n", " ")
    return first.split("; raises ")[0].rstrip(".") + "."


def _answers(name: str, function: Any) -> list[str]:
    """The names of MindSpore that a function stands for."""
    found = [f"ops.{name}"] if name in names("ops") else []
    if function is None:
        return found
    classes = sorted(names("class") & OPERATORS.keys())
    found += [f"ops.{c}" for c in classes if c in OPERATORS and _stands_for(OPERATORS[c], name, function)]
    cells = sorted(names("nn").intersection(nn.__all__))
    return found + [f"nn.{cell}" for cell in cells if cell.lower() == name.replace("_", "")]


def _stands_for(operator: Any, name: str, function: Any) -> bool:
    """Whether an operator class computes this function, by itself or through a wrapper."""
    own = getattr(operator, "function", None)
    wrapped = [cell.cell_contents for cell in getattr(own, "__closure__", None) or ()]
    return own is function or function in wrapped or operator.__name__.lower() == name.replace("_", "")


def _classes() -> str:
    own = sorted(set(OPERATORS) - names("class"))
    text = "Written `ops.Name(settings)(tensors)`: " + ", ".join(f"`{name}`" for name in sorted(OPERATORS)) + "."
    if own:
        text += " Not in MindSpore 2.10 any more: " + ", ".join(f"`{name}`" for name in own) + "."
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _lacking() -> list[str]:
    parts = []
    for section in sections():
        lacking = [name for name in section.names if name not in _offered(section.kind)]
        kind = {"ops": "`mindspore.ops`", "class": "`mindspore.ops`", "nn": "`mindspore.nn`"}[section.kind]
        if lacking:
            names_of = textwrap.fill(", ".join(lacking), 120, break_long_words=False, break_on_hyphens=False)
            parts.append(f"**{section.title}** ({kind}):\n{names_of}")
    return parts
