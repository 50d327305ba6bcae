"""Tests of the engine of oneDNN run where its library is."""

from __future__ import annotations

import ctypes

import pytest

from graphls.base.errors import GraphRuntimeError
from graphls.runtime.onednn.library import OPENMP, library
from tests.conftest import WORKERS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of kernels where there are none."""
    own = [item for item in items if "tests/onednn/" in item.nodeid and "test_library" not in item.nodeid]
    try:
        library()
    except GraphRuntimeError as error:
        for item in own:
            item.add_marker(pytest.mark.skip(reason=error.message))


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Compute on one thread where several processes test: threads that wait take what the others need."""
    if WORKERS > 1:
        ctypes.CDLL(OPENMP).omp_set_num_threads(1)
