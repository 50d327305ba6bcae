"""Examples of operators and cells: a line for each in tools/operators/examples, and its output at a prompt.

A line has statements. They are about the first operator or cell in them that its page describes, unless the line begins
with a name. Numbers are shown with four digits.
"""

from __future__ import annotations

import ast
import io
import math
import re
import warnings
from collections.abc import Container, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

import graphls
from graphls import Parameter, Tensor, nn, ops

FOLDER = Path(__file__).with_suffix("")
NAMES = {"graphls": graphls, "math": math, "np": np, "nn": nn, "ops": ops, "Parameter": Parameter, "Tensor": Tensor}
IMPORTS = {"math": "import math", "np": "import numpy as np", "graphls": "import graphls"}


def examples(file: str, names: Container[str]) -> dict[str, list[str]]:
    """The statements of the examples of a page of docs/operators by full names, of which these may be meant."""
    source = FOLDER / Path(file).with_suffix(".txt").name
    by_path: dict[str, list[str]] = {}
    for line in source.read_text(encoding="utf-8").splitlines() if source.exists() else ():
        about, _, text = line.partition(": ") if LINE.match(line) else ("", "", line)
        name = about or r"\w+"
        paths = [f"graphls.{each}" for each in re.findall(rf"\b((?:nn|ops)\.{name})\b", text)]
        path = next((path for path in paths if path in names and path not in by_path), None)
        if path is None:
            raise ValueError(f"{source.name} has a line for an unknown name, or a second line for one: {line}")
        by_path[path] = statements(text)
    return by_path


LINE = re.compile(r"\w+: ")


def statements(line: str) -> list[str]:
    """The statements of a line, as they are written."""
    return [ast.get_source_segment(line, node) or "" for node in ast.parse(line).body]


def section(file: str, names: Container[str], page: str = "") -> str:
    """The examples of a page as Markdown; those that the text of the page has already are not run again."""
    there = {tuple(_statements_in(text)): text for text in written(page)}
    groups = list(examples(file, names).values())
    texts = [there.get(tuple(lines)) or shown(lines) for lines in groups]
    head = "\n".join(f">>> {line}" for line in imports([line for lines in groups for line in lines]))
    return "\n\n".join([f"{TITLE}\n\n```pycon\n{head}", *texts]) + "\n```" if texts else ""


TITLE = "## Examples"


def entries(file: str, names: Container[str], page: str) -> dict[str, str]:
    """The examples in the text of a page by full names, each with the imports that it needs."""
    pairs = zip(examples(file, names).items(), written(page), strict=True)
    return {path: "\n".join([*(f">>> {line}" for line in imports(lines)), text]) for (path, lines), text in pairs}


def written(page: str) -> list[str]:
    """The examples in the text of a page, in the order of their lines."""
    block = re.search(rf"^{TITLE}\n\n```pycon\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return block[1].rstrip().split("\n\n")[1:] if block else []


def _statements_in(text: str) -> list[str]:
    return [line.removeprefix(">>> ") for line in text.splitlines() if line.startswith(">>> ")]


def shown(lines: list[str]) -> str:
    """The statements as a prompt shows them, with the output of each."""
    names: dict[str, Any] = dict(NAMES)
    parts = []
    with np.printoptions(precision=4, suppress=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        for line in lines:
            parts += [f">>> {line}", *_output_of(line, names)]
    return "\n".join(parts)


def _output_of(line: str, names: dict[str, Any]) -> Iterator[str]:
    """The output lines of a statement at a prompt."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.Interactive(ast.parse(line).body), "<example>", "single"), names)
    text = DIGITS.sub(lambda match: f"{float(match[0]):.4g}", printed.getvalue())
    yield from (row or "<BLANKLINE>" for row in text.splitlines())


DIGITS = re.compile(r"\d+\.\d{5,}(?:e-?\d+)?")


def imports(lines: list[str]) -> list[str]:
    """The import statements that these statements need."""
    used = {node.id for line in lines for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)}
    own = [name for name in ("Parameter", "Tensor", "nn", "ops") if name in used]
    lines_of_packages = [text for name, text in IMPORTS.items() if name in used]
    return [*lines_of_packages, *([f"from graphls import {', '.join(own)}"] if own else [])]
