"""The colour palette of pages and charts; each phase also has a letter for readers who cannot see colours."""

from __future__ import annotations

PHASES = {"forward": "#0072b2", "backward": "#c25500", "check": "#862d86", "update": "#006b4f"}
"""Colours on light ground that stay apart for colour-blind people; those of the page, which tests them."""
PHASES_ON_DARK = {"forward": "#4aa8e0", "backward": "#f28a3c", "check": "#f2b8e6", "update": "#5ad19a"}
BADGES = {"forward": "F", "backward": "B", "check": "C", "update": "U"}
ENGINES = {"onnxruntime": "#8a929c", "onednn": "#5b3fc4", "xla": "#2d0000", "numpy": "#005f6b",
           "host": "#8a6100"}  # fmt: skip
"""Border colours of segments, whose titles name the engine for readers who cannot see colours."""
ENGINES_ON_DARK = {"onnxruntime": "#d0d7de", "onednn": "#b3a1ff", "xla": "#d25a5a",
                   "numpy": "#12a4b8", "host": "#e3c567"}  # fmt: skip
MIXED = "#8a8f98"
"""The colour of groups of several phases, and of ports."""
WINDOW = "#f0b429"


PLAIN = {
    "ground": ("#f6f7f9", "#14161a"),
    "paper": ("#ffffff", "#1d2026"),
    "ink": ("#1a1c20", "#e8eaee"),
    "soft": ("#5a616c", "#a3abb8"),
    "line": ("#c9ced6", "#3c424d"),
    "wire": ("#7b8491", "#8b95a5"),
    "accent": ("#0b57d0", "#8ab4f8"),
    "added": ("#1a6b2f", "#7ddc95"),
    "removed": ("#a3202c", "#ff9a9f"),
    "changed": ("#7a4d00", "#ffca6b"),
    "bad": ("#b3123b", "#ff4d6d"),
}
"""Colours that belong to no phase and no engine, on light ground and on dark."""
THEME = {
    **PLAIN,
    **{name: (PHASES[name], PHASES_ON_DARK[name]) for name in PHASES},
    **{name: (ENGINES[name], ENGINES_ON_DARK[name]) for name in ENGINES},
}
"""The colours of all pages by their names, on light ground and on dark."""


def both(name: str) -> str:
    """A colour of the theme as CSS `light-dark(...)`; MIXED for a name without one."""
    return "light-dark({}, {})".format(*THEME.get(name, (MIXED, MIXED)))


def theme() -> str:
    """The colours as variables of CSS, with which the style of every page begins."""
    rules = "".join(f"  --{name}: {both(name)};\n" for name in THEME)
    return f":root {{\n  color-scheme: light dark;\n{rules}  --window: {WINDOW};\n}}\n"
