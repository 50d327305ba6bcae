"""What of a program of MindSpore something else stood in for, as lines of text."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from graphls.compat.hook.finder import Mirror
from graphls.compat.hook.offers import REACHED
from graphls.runtime.context import Replacement, forced_device
from graphls.runtime.context.parallel import OneRank


def report() -> str:
    """The devices and settings that were replaced since the hook was installed, and the names that are not offered."""
    lines = [*_devices(), *_settings(), *_names()]
    return "\n".join(["graphls exec:", *(f"  {line}" for line in lines or ["nothing was replaced"])])


def _devices() -> Iterator[str]:
    if forced_device():
        yield f"everything ran on {forced_device()}, whatever device_target said"
    for target, device in Replacement.devices.items():
        yield f"device_target {target!r} is not there; {device} took its place"


def _settings() -> Iterator[str]:
    for name, value in OneRank.left_out.items():
        yield f"{name}={value!r} means several devices and was left out"


def _names() -> Iterator[str]:
    mirrors = [module for module in [*sys.modules.values()] if isinstance(module, Mirror)]
    named = {message for mirror in mirrors for message in mirror.not_offered}
    for message in sorted(named - REACHED):
        yield f"named and never used: {message}"
    for message in sorted(REACHED):
        yield f"used: {message}"
