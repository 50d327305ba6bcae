"""The rooms of datasets: which imports which, and that no import hides in a function or is for types only."""

from __future__ import annotations

import pytest

from tests.test_imports import MODULES, imported

ROOMS = {
    "checks": "",
    "columns": "checks",
    "randomness": "",
    "config": "checks randomness",
    "samplers": "checks randomness",
    "transforms": "checks columns randomness",
    "text": "checks transforms",
    "vision": "checks randomness transforms",
    "pipeline": "checks columns config randomness text",
    "readers": "checks columns config pipeline randomness samplers vision",
    "mindrecord": "checks columns readers samplers vision",
}
"""What each file or folder of graphls/dataset imports of the others, also for types: only what is above it here."""
PREFIX = "graphls.dataset."


def room(module: str) -> str:
    return module.removeprefix(PREFIX).partition(".")[0]


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_imports_what_stands_below_it(name: str) -> None:
    assert set(ROOMS[name].split()) <= set(list(ROOMS)[: list(ROOMS).index(name)])
    modules = [module for module in MODULES if module.startswith(PREFIX) and room(module) == name]
    found = {room(other) for module in modules for other in imported(module, True) if other.startswith(PREFIX)}
    assert found - {name} == set(ROOMS[name].split())


def test_every_room_is_known_and_no_import_is_in_a_function() -> None:
    modules = [module for module in MODULES if module.startswith(PREFIX)]
    assert {room(module) for module in modules} == ROOMS.keys()
    for module in modules:
        for_types = {other for other in imported(module, True) if other == "PIL.Image.Image"}
        assert set(imported(module, True)) - for_types == set(imported(module, False)), module
