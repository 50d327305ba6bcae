"""The colours of pictures; each phase has a letter as well, for who does not see them."""

from __future__ import annotations

PHASES = {"forward": "#0072b2", "backward": "#d55e00", "check": "#aa4499", "update": "#009e73"}
"""Colours that stay apart for colour-blind people, on light and on dark."""
BADGES = {"forward": "F", "backward": "B", "check": "C", "update": "U"}
MIXED = "#8a8f98"
"""What is of several phases, and ports."""
WINDOW = "#f0b429"
