"""What a process that runs tests for another one tells it of them: only what is shown.

Six messages for each of thousands of tests that take milliseconds are half of what xdist takes.
"""

from __future__ import annotations

from typing import Any

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """Leave out that a test begins and ends, and its setup and end where they passed.

    Where durations of these are wanted, all is told.
    """
    option = session.config.option
    if option.durations is None and option.xmlpath is None:
        for plugin in session.config.pluginmanager.get_plugins():
            if type(plugin).__name__ == "WorkerInteractor":
                plugin.sendevent = _only_what_is_shown(plugin.sendevent)


def _only_what_is_shown(send: Any) -> Any:
    def sendevent(name: str, **told: Any) -> None:
        report = told.get("data") if name == "testreport" else None
        passed_around = report and report["outcome"] == "passed" and report["when"] != "call"
        if name not in ("logstart", "logfinish") and not passed_around:
            send(name, **told)

    return sendevent
