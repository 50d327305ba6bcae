"""A Ctrl-C at every instruction of graphls that a call runs, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import graphls

PACKAGE = Path(graphls.__file__).parent
PURE = tuple(str(PACKAGE / name) for name in ("ir", "primitives"))
"""What changes no state: functions on graphs and arrays."""


def interrupted_at(instruction: int, function: Callable[[], Any]) -> bool:
    """Call a function and interrupt it before an instruction of graphls, from 0; whether it got that far."""
    left = instruction

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        file = frame.f_code.co_filename
        if not file.startswith(str(PACKAGE)) or file.startswith(PURE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False
