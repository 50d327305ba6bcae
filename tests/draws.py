"""The random numbers of a test are the same whichever tests ran before it in its process.

Each test finds the generators of modules where they were when all tests were collected, and graphls as if no seed had
been set.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from graphls.dataset.randomness import SEED
from graphls.frontend.tensors import random

HELPERS = "helpers"
_collected: dict[str, list[tuple[np.random.BitGenerator, Any]]] = {}
"""The generators of each module of tests, and of all helpers, with their states behind the last module."""


def pytest_collection_finish() -> None:
    for module in [module for name, module in sys.modules.items() if name.startswith("tests.")]:
        name = module.__name__ if module.__name__.rpartition(".")[2].startswith("test_") else HELPERS
        found = [value.bit_generator for value in vars(module).values() if isinstance(value, np.random.Generator)]
        _collected.setdefault(name, []).extend((generator, generator.state) for generator in found)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Function) -> None:
    _begin_anew(item.module.__name__, HELPERS)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, object, object]:
    """Let a fixture that is made for several tests take no numbers from the one that is first to use it."""
    made = yield
    if fixturedef.scope != "function":
        _begin_anew(*_collected)
    return made


def _begin_anew(*modules: str) -> None:
    for name in modules:
        for generator, state in _collected.get(name, ()):
            generator.state = state
    SEED.reset()
    random._seeded = None, np.random.default_rng(0)
    random.random_state().set_data(np.zeros(2, np.int64))
