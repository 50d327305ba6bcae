"""The pytest plugin for tests that import mindspore: `pytest -p graphls.compat.pytest test_of_others.py`.

It installs the import hook before conftest files and tests are imported, and changes nothing else of pytest.
"""

from __future__ import annotations

import pytest

from graphls.compat.hook.finder import install, uninstall


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Let conftest files and tests import mindspore."""
    install()


def pytest_unconfigure() -> None:
    """Let `import mindspore` find what Python finds."""
    uninstall()
