"""The pytest plugin for tests that import mindspore: `pytest -p graphls.compat.pytest test_network.py`.

It installs the import hook before conftest files and tests are imported, and changes nothing else in pytest.
"""

from __future__ import annotations

import pytest

from graphls.compat.hook.finder import install, uninstall


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Install the import hook before conftest files are imported."""
    install()


def pytest_unconfigure() -> None:
    """Remove the import hook."""
    uninstall()
