"""Tests in this folder need a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cuda.card import fault_of_card

HERE = "tests/cuda/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of this folder where no GPU is at hand."""
    here = [item for item in items if item.nodeid.startswith(HERE)]
    fault = fault_of_card() if here else ""
    for item in here if fault else ():
        item.add_marker(pytest.mark.skip(reason=fault))


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Writes a line into the report of `python -m tests.cuda`."""
    return lambda line: record_property("note", line)
