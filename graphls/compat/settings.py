"""Names of `mindspore.context` beside the settings of the process."""

from __future__ import annotations

from graphls.compat.root import (
    COMPATIBLE,
    LAX,
    STRICT,
    get_offload_context,
    get_ps_context,
    reset_ps_context,
    set_offload_context,
    set_ps_context,
)

__all__ = [
    "COMPATIBLE",
    "LAX",
    "STRICT",
    "get_offload_context",
    "get_ps_context",
    "reset_ps_context",
    "set_offload_context",
    "set_ps_context",
]
