"""The pages in docs/operators/."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from graphls import nn, ops
from graphls.compat.hook.offers import offer
from graphls.frontend.names.lazy import is_missing
from graphls.nn.cell import Cell
from graphls.ops.operations import OPERATORS
from tools.operators import examples
from tools.operators.names import names, sections
from tools.operators.probe import DATA, Finding, probe, probe_cell
from tools.operators.subjects import SUBJECTS, Subject

HEAD = """\
# Operators and cells

Made by `make pages`; `make lint` holds them to the code. Every row is found by trying: tensors of which dtypes a
call takes (integers that a function of floats takes become float32), whether a weighted sum of its results has a
gradient, and whether it lowers to an ONNX model for the CPU and for CUDA. An empty field means that no call could be
made up, because a cell or a parameter is needed. The last column of a table has the names of MindSpore 2.10 that the
row answers to: functions and operator classes of `mindspore.ops`, and cells of `mindspore.nn`.

Every page ends with examples, in which numbers have four digits. What is no tensor, number or setting of the right kind
raises a GraphTypeError, and shapes, dtypes or settings that do not fit raise a GraphValueError, with the line of the
call: entries tell errors only where there is more to say.
"""
COLUMNS = "| name | what it is | dtypes | gradient | CPU | CUDA | MindSpore |\n|---|---|---|---|---|---|---|"
PACKAGES = {"ops": "Functions of `graphls.ops`", "nn": "Cells of `graphls.nn`"}


Found = Mapping[str, Sequence[str]]
"""The findings in the rows of pages, in columns before the last one, by full names."""


def pages(there: Mapping[str, str]) -> dict[str, str]:
    """Each page as Markdown, by its file; what stands `there`, in the pages by their files, is not tried again."""
    known = known_of(there)
    subjects = {s.file: _joined([f"# {s.title}", *_tables(s, known), _examples(s, there)]) for s in SUBJECTS}
    lacking = [
        "# Not offered",
        "What MindSpore 2.10 has and graphls has not, by MindSpore's own headings.",
        *_lacking(),
    ]
    return {"index.md": _index(), **subjects, "not_offered.md": _joined(lacking)}


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _examples(subject: Subject, there: Mapping[str, str]) -> str:
    return examples.section(subject.file, subject.paths, there.get(subject.file, ""))


def _index() -> str:
    parts = [HEAD, _summary()]
    for package, title in PACKAGES.items():
        lines = [f"- [{s.title}]({s.file}): {len(s.members)}" for s in SUBJECTS if s.package == package]
        parts += [f"## {title}", "\n".join(lines)]
    return _joined([*parts, "## Operator classes", _classes(), "What lacks stands in [Not offered](not_offered.md)."])


MODULES = {"ops": ("ops",), "class": ("ops", "ops.operations"), "nn": ("nn",)}
"""In which modules of MindSpore names of each kind stand."""


@cache
def _offered(kind: str) -> frozenset[str]:
    """The names of one kind in graphls: its own, and those that a script can import from `mindspore`."""
    classes = frozenset(OPERATORS)
    own = {"ops": frozenset(ops.__all__) | classes, "class": classes, "nn": frozenset(nn.__all__)}[kind]
    found = ((name, offer(module, name)) for name in names(kind) for module in MODULES[kind])
    return own | {name for name, value in found if not is_missing(value)}


def _summary() -> str:
    lines = ["| names of MindSpore | offered | not offered |", "|---|---|---|"]
    for kind, title in (("ops", "functions"), ("class", "operator classes"), ("nn", "cells")):
        found = names(kind) & _offered(kind)
        lines.append(f"| {title} | {len(found)} | {len(names(kind) - found)} |")
    return "\n".join(lines)


def _tables(subject: Subject, known: Found) -> Iterator[str]:
    """A table for each module of a subject under the first sentence of its docstring."""
    row = {"ops": function_row, "nn": cell_row}[subject.package]
    for module in subject.modules:
        members = {name: item for name, item in subject.members.items() if item.__module__.endswith(f".{module}")}
        rows = [row(name, item, known) for name, item in members.items()]
        if rows:
            path = next(item.__module__ for item in members.values())
            title = (importlib.import_module(path).__doc__ or module).strip().splitlines()[0].rstrip(".")
            yield f"## {title}"
            yield "\n".join([COLUMNS, *rows])


def function_row(name: str, function: Any, known: Found) -> str:
    """The row of a function of `graphls.ops`."""
    if inspect.isfunction(function) and function.__name__ != name and function.__name__ in ops.__all__:
        return _row(name, f"The same as `{function.__name__}`.", NOTHING, _answers(name, None))
    found = known.get(f"ops.{name}") or _columns(probe(function) if inspect.isfunction(function) else None)
    return _row(name, _sentence(function), found, _answers(name, function))


def cell_row(name: str, kind: Any, known: Found) -> str:
    """The row of a cell, or of another name of `graphls.nn`."""
    is_cell = inspect.isclass(kind) and issubclass(kind, Cell) and kind is not Cell
    found = known.get(f"nn.{name}") or _columns(probe_cell(kind) if is_cell else None)
    return _row(name, _sentence(kind), found, [f"nn.{name}"] if name in names("nn") else [])


def known_of(there: Mapping[str, str]) -> Found:
    """The findings in the rows of existing pages, by their names."""
    found = {}
    for subject in SUBJECTS:
        for row in re.findall(r"^\| `.*$", there.get(subject.file, ""), re.MULTILINE):
            name, *_, dtypes, gradient, cpu, cuda, _, _ = re.split(r"(?<!\\)\|", row)[1:]
            found[f"{subject.package}.{name.strip(' `')}"] = [text.strip() for text in (dtypes, gradient, cpu, cuda)]
    return found


NOTHING = ("", "", "", "")


def _columns(finding: Finding | None) -> Sequence[str]:
    return NOTHING if finding is None else (_spelt(finding), *map(_yes, _flags(finding)))


def _row(name: str, sentence: str, found: Sequence[str], answers: Iterable[str]) -> str:
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
    """Returns whether an operator class computes this function, directly or through a wrapper."""
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
