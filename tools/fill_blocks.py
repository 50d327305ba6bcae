"""Write the text blocks of docs/reading_a_graph.md from its example, so that the page is always current.

A comment before a block defines its content: `<!-- stage 10_order -->` is an entire stage, `<!-- lines 08_order: %a, @w
-->` the lines of a stage that begin with these words, `<!-- difference 01_gradient -->` the changes of a pass.
"""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "reading_a_graph.md"
FILE = "train.py"
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
BLOCK = re.compile(r"<!-- (stage|lines|difference) (\w+)(?:: ([^\n]+))? -->\n```text\n.*?```", re.DOTALL)


def filled(page: str) -> str:
    """The page with its text blocks as the first Python block on it makes them."""
    stages = stages_of(page)
    return BLOCK.sub(lambda match: f"{match[0].partition('```')[0]}```text\n{block(stages, match)}\n```", page)


def stages_of(page: str) -> dict[str, Any]:
    """The stages of the step that the first Python block makes, as if it were the file train.py."""
    example = EXAMPLE.search(page)
    assert example, "The page has no Python block."
    names: dict[str, Any] = {"__name__": "__main__"}
    with redirect_stdout(StringIO()):
        exec(compile(example[1], FILE, "exec"), names)
    stages: dict[str, Any] = names["step"].stages
    return stages


def block(stages: dict[str, Any], match: re.Match[str]) -> str:
    """The text that the comment before a block requests."""
    kind, stage, words = match.groups()
    text = str(stages[stage]).rstrip()
    if kind == "stage":
        return text
    if kind == "lines":
        return "\n".join(line for word in words.split(", ") for line in lines(text, word))
    order = list(stages)
    return str(stages[order[order.index(stage) - 1]].diff(stages[stage]))


def lines(text: str, word: str) -> list[str]:
    """The lines that begin with a word, each with its regions."""
    pattern = rf"^ *{re.escape(word)}(?![\w.]).*(?:(?<=region {{)\n(?:.*\n)*?  }}  //.*)?$"
    matches = re.findall(pattern, text, re.MULTILINE)
    assert matches, f"No line begins with {word!r}."
    return matches


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
