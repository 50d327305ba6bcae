"""Quantities with units, as arguments of commands: bytes and seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping

from graphls.base.errors import GraphValueError

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def quantity(name: str, text: str, units: Mapping[str, float], example: str) -> float:
    """A positive number with a unit, for the option `name`; raises GraphValueError for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(\w+)\s*", text)
    if match is None or match[2] not in units or float(match[1]) == 0:
        known = ", ".join(units)
        raise GraphValueError(f"--{name} takes a positive number and one of {known}, such as {example}, not {text!r}.")
    return float(match[1]) * units[match[2]]
