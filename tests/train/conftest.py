"""The backend that the models of a test run on."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import graphls


@pytest.fixture
def backend(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Lets models run on the backend that a test is given indirectly."""
    monkeypatch.setattr("graphls.api.compile", partial(graphls.compile, backend=request.param))
    return str(request.param)
