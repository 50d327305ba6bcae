"""The training programs copied into a bundle."""

from __future__ import annotations

from importlib import resources

LOOPS = {"python": "step.py", "javascript": "step.mjs"}
"""The loops by language."""


def loop_source(language: str) -> bytes:
    """The program that trains a bundle in that language."""
    return (resources.files("graphls.step.export") / "loops" / LOOPS[language]).read_bytes()
