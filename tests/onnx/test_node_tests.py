"""A part of ONNX's own node tests; `python -m tests.onnx.node_tests` runs all of them."""

from __future__ import annotations

import random

import pytest

from tests.onnx import node_tests

MODULES = sorted(random.Random(18).sample(sorted(set(node_tests.modules()) - {"resize", "attention"}), 24))
CASES = node_tests.collect(MODULES)


@pytest.mark.parametrize("kind", ["outputs", "gradient", "file"])
@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_a_node(name: str, kind: str) -> None:
    case = next(case for case in CASES if case.name == name)
    assert node_tests.verdict(case, kind).startswith(("ok", "no ", "left out"))
