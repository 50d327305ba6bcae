"""Self-contained HTML cards: escaped text and colours for light and dark pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from graphls.base.text.colours import both

DARK = (
    '[data-jp-theme-light="false"]', ".vscode-dark", ".vscode-high-contrast:not(.vscode-high-contrast-light)",
    '[theme="dark"]', '[data-theme="dark"]', '[data-bs-theme="dark"]', '[data-md-color-scheme="slate"]',
)  # fmt: skip
"""Selectors of the dark pages of JupyterLab, VS Code, Colab and documentation sites."""
LIGHT = (
    '[data-jp-theme-light="true"]', ".vscode-light", ".vscode-high-contrast-light",
    '[theme="light"]', '[data-theme="light"]', '[data-bs-theme="light"]', '[data-md-color-scheme="default"]',
)  # fmt: skip
FADE = (
    ".graphls-wide{overflow-x:auto;scrollbar-width:thin;margin:.5em 0}"
    "@keyframes graphls-fade{from,95%{--graphls-fade:3em}to{--graphls-fade:0px}}"
    "@supports (animation-timeline:scroll(self inline)){.graphls-wide{"
    "--graphls-fade:0px;mask-image:linear-gradient(to left,#0002,#000 var(--graphls-fade));"
    "animation:graphls-fade linear;animation-timeline:scroll(self inline)}}"
)
"""Rules of tables and lines that scroll: they fade at the right, until one scrolls to their end."""
STYLE = f"<style>{FADE}</style>" + "".join(
    f"<style>:is({','.join(hosts)}) .graphls-card{{color-scheme:{scheme}}}</style>"
    for hosts, scheme in ((DARK, "dark"), (LIGHT, "light"))
)
"""Rules by the page around a card: the reader's preference may differ from the notebook's theme."""
BOX = (
    "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:13px;line-height:1.5;"
    "border:1px solid rgba(128,128,128,.45);border-radius:6px;padding:.7em 1em;max-width:max-content;overflow-x:auto;"
    "box-sizing:border-box"
)
CELL = "text-align:left;vertical-align:top;padding:.1em 1.2em .1em 0;background:none;border:none"
RIGHT = "text-align:right;white-space:nowrap"
NUMBER = f"{CELL};{RIGHT}"
LABEL = f"{CELL};opacity:.65;font-weight:normal"
LONG = 30
"""Characters from which a name in a table may be broken."""


def card_head(title: str) -> str:
    """The opening tags of a card, which `</div>` closes."""
    return f'{STYLE}<div class="graphls-card" role="region" aria-label="{escape(title)}" style="{BOX}">'


def escape(text: str) -> str:
    """The text as HTML shows it."""
    # Not at the top: at its start `python -m graphls` takes an html.py of the working directory for Python's.
    from html import escape

    return escape(text)


class Page:
    """A box with a headline, facts, a table and notes."""

    def __init__(self, title: str, headline: str) -> None:
        self.parts = [card_head(title)]
        self.parts.append(f'<div style="font-weight:600;overflow-wrap:anywhere">{escape(headline)}</div>')

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Labels, each with a text."""
        rows = (
            f'<tr style="background:none"><th scope="row" style="{LABEL}">{escape(label)}</th>'
            f'<td style="{CELL};white-space:pre-wrap;overflow-wrap:anywhere">{escape(text)}</td></tr>'
            for label, text in facts
        )
        self.parts.append(f'<table style="border-collapse:collapse;margin:.5em 0">{"".join(rows)}</table>')

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> None:
        """A table of texts, the first columns to the left and the others, which are numbers, to the right.

        Spaces that the first text of a row begins with stay.
        """
        styles = [LABEL if i < left else f"{LABEL};{RIGHT}" for i in range(len(header))]
        pairs = zip(styles, header, strict=True)
        head = "".join(f'<th scope="col" style="{style}">{escape(name)}</th>' for style, name in pairs)
        lines = "".join(f'<tr style="background:none">{_cells(_indented(row), left)}</tr>' for row in rows)
        self.parts.append(
            '<div class="graphls-wide"><table style="border-collapse:collapse;margin:0"><thead>'
            f'<tr style="background:none">{head}</tr></thead><tbody>{lines}</tbody></table></div>'
        )

    def notes(self, notes: Iterable[str]) -> None:
        """Sentences, each on a line."""
        self.parts += [f"<div>{escape(note)}</div>" for note in notes]

    def fold(self, summary: str, is_open: bool) -> None:
        """Begin a part that folds into its summary, a sentence; `end_fold` ends it."""
        state = " open" if is_open else ""
        self.parts.append(f'<details{state}><summary style="cursor:pointer">{escape(summary)}</summary>')

    def end_fold(self) -> None:
        """End the part that folds."""
        self.parts.append("</details>")

    def lines(self, lines: Iterable[tuple[str, str | None]]) -> None:
        """Lines of text as they are, some with the name of a colour; long ones go on beside the box, which scrolls."""
        colours = ((line, f";color:{both(name)}" if name else "") for line, name in lines)
        rows = (f'<div style="white-space:pre{colour}">{escape(line) or " "}</div>' for line, colour in colours)
        self.parts.append(f'<div class="graphls-wide">{"".join(rows)}</div>')

    def text(self) -> str:
        """The finished HTML."""
        return "".join([*self.parts, "</div>"])


def _cells(row: Sequence[str], left: int) -> str:
    texts = (_breaking(escape(text)) if i < left else escape(text) for i, text in enumerate(row))
    return "".join(f'<td style="{CELL if i < left else NUMBER}">{text}</td>' for i, text in enumerate(texts))


def _breaking(text: str) -> str:
    """A long name that may go on in the next line after a dot or a slash."""
    if len(text) <= LONG:
        return text
    parts = re.sub(r"([./])(?=[^./\s])", r"\1<wbr>", text)
    return f'<div style="min-width:18em">{parts}</div>'


def _indented(row: Sequence[str]) -> Sequence[str]:
    name = row[0].lstrip(" ")
    return ["\N{NO-BREAK SPACE}" * (len(row[0]) - len(name)) + name, *row[1:]]
