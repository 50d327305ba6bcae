"""Converts notebooks to pages: their text, their code, and their saved outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def page(notebook: str) -> str:
    """A notebook, as the text of its file, as Markdown."""
    cells = json.loads(notebook)["cells"]
    return "\n\n".join(part for cell in cells for part in _cell(cell)) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    text = _text(cell["source"])
    if cell["cell_type"] == "code" and text.strip():
        yield f"```python\n{text}\n```"
        yield from (shown for output in cell["outputs"] if (shown := _output(output)))
    elif cell["cell_type"] == "markdown":
        yield text


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        html = _text(data["text/html"])
        return f'<div class="output">\n{html}\n</div>' if "<iframe" not in html else ""
    if "image/svg+xml" in data:
        return f'<div class="output">\n{_text(data["image/svg+xml"])}\n</div>'
    if "image/png" in data:
        source = f"data:image/png;base64,{_text(data['image/png']).strip()}"
        return f'<img class="output" alt="What the cell has drawn" src="{source}">'
    text = _text(output.get("text") or data.get("text/plain") or "")
    return f"```{{.text .output}}\n{text.rstrip()}\n```" if text.strip() else ""


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
