"""The limit of the threads that steps on a CPU compute on, which the context sets."""

from __future__ import annotations

from graphls.base.sharing.settings import Settings

_settings = Settings({"limit": 0})


def limit_threads(limit: int | None) -> None:
    """Let steps that are compiled from now on compute on this many threads at most; None and 0 leave it to engines."""
    _settings.update({"limit": limit or 0})


def thread_limit() -> int:
    """The most threads that a step that is compiled now may compute on, 0 where its engines decide."""
    limit: int = _settings["limit"]
    return limit
