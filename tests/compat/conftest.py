"""The import hook, active in one test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from graphls import compat, context


@pytest.fixture
def mindspore() -> Iterator[None]:
    """Let the test import mindspore."""
    compat.install()
    yield
    compat.uninstall()
    context.reset_context()
    assert not any(name.partition(".")[0] == "mindspore" for name in sys.modules)
