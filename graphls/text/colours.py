"""The colours of pictures; each phase has a letter as well, for who does not see them."""

from __future__ import annotations

PHASES = {"forward": "#0072b2", "backward": "#c25500", "check": "#862d86", "update": "#006b4f"}
"""Colours on light ground that stay apart for colour-blind people; those of the page, which tests them."""
PHASES_ON_DARK = {"forward": "#4aa8e0", "backward": "#f28a3c", "check": "#f2b8e6", "update": "#5ad19a"}
BADGES = {"forward": "F", "backward": "B", "check": "C", "update": "U"}
ENGINES = {"onnxruntime": "#8a929c", "openvino": "#b3123b", "numpy": "#005f6b", "host": "#8a6100"}
"""What the borders of segments have; their titles name the engine, for who does not see it."""
ENGINES_ON_DARK = {"onnxruntime": "#d0d7de", "openvino": "#ff4d6d", "numpy": "#12a4b8", "host": "#e3c567"}
MIXED = "#8a8f98"
"""What is of several phases, and ports."""
WINDOW = "#f0b429"


def both(phase: str) -> str:
    """The colour of a phase as CSS takes it, on light ground and on dark."""
    return f"light-dark({PHASES.get(phase, MIXED)},{PHASES_ON_DARK.get(phase, MIXED)})"
