"""A plugin of pytest that writes what each test gave, a line of JSON, so that a run that is stopped tells, too."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.cuda.card import DOUBLE
from tests.cuda.double import make_up_a_gpu

FILE = "GRAPHLS_CUDA_RESULTS"


def pytest_configure() -> None:
    """Make up a GPU, where these tests themselves are tried without one."""
    if os.environ.get(DOUBLE):
        make_up_a_gpu(pytest.MonkeyPatch())


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the result of a test, once; processes that do the work for another leave that to it."""
    if report.when == "call" or (report.when == "setup" and not report.passed) or report.failed:
        notes = [str(value) for key, value in report.user_properties if key == "note"]
        _write(id=report.nodeid, outcome=report.outcome, seconds=report.duration, notes=notes, text=_text(report))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write which files could not be read."""
    if report.failed:
        _write(id=report.nodeid, outcome="unread", seconds=0, notes=[], text=_text(report))


def _text(report: Any) -> str:
    """The reason of a test that was skipped, the error of one that failed."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr or "")
    return text if report.failed else ""


def _write(**values: Any) -> None:
    if os.environ.get(FILE) and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ[FILE], "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")


def _stand_in_for_hypothesis() -> None:
    """Where hypothesis is not installed, let tests that it draws for be skipped, not the files that they stand in."""
    module: Any = ModuleType("hypothesis")
    module.__getattr__ = lambda name: MagicMock()

    def given(*args: Any, **named: Any) -> Any:
        return lambda function: pytest.mark.skip(reason="hypothesis is not installed")(lambda: None)

    class Settings:
        register_profile = load_profile = MagicMock()

        def __init__(self, *args: Any, **named: Any) -> None:
            pass

        def __call__(self, function: Any) -> Any:
            return function

    module.given, module.settings, module.__path__ = given, Settings, []
    sys.modules.update({"hypothesis": module, "hypothesis.strategies": MagicMock(), "hypothesis.stateful": MagicMock()})


if find_spec("hypothesis") is None:
    _stand_in_for_hypothesis()
