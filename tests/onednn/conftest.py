"""Tests of the engine of oneDNN run where its library is."""

from __future__ import annotations

import pytest

from graphls.base.errors import GraphRuntimeError
from graphls.runtime.onednn.library import library


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of kernels where there are none."""
    try:
        library()
    except GraphRuntimeError as error:
        for item in items:
            if "tests/onednn/" in item.nodeid and "test_library" not in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=error.message))
