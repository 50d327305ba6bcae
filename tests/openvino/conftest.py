"""What tests of OpenVINO's engine look at."""

from __future__ import annotations

from typing import Any

import pytest

from graphls.runtime.openvino.part import OpenvinoPart


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[OpenvinoPart]:
    """The segments that are opened, in their order."""
    made: list[OpenvinoPart] = []
    open_part = OpenvinoPart.__init__

    def opened(self: OpenvinoPart, *given: Any, **named: Any) -> None:
        made.append(self)
        open_part(self, *given, **named)

    monkeypatch.setattr(OpenvinoPart, "__init__", opened)
    return made
