"""What a backend needs of a parameter."""

from __future__ import annotations

from typing import Protocol

from graphls.storage import Storage


class HasStorage(Protocol):
    """Something whose value lives in a Storage."""

    storage: Storage
