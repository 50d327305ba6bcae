"""The examples in docstrings of public names do what they say."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest

from graphls.ir import registry
from graphls.passes import manager
from tools.site import reference

SHOWN = {
    "graphls": "Parameter Tensor compile grad parse value_and_grad",
    "graphls.amp": "DynamicLossScaleManager FixedLossScaleManager build_train_network",
    "graphls.dataset": "GeneratorDataset NumpySlicesDataset",
    "graphls.nn": "Cell DynamicLossScaleUpdateCell Optimizer TrainOneStepWithLossScaleCell",
    "graphls.onnx": "load",
    "graphls.passes": "register_pass",
    "graphls.primitives": "FloatElementwise",
    "graphls.train": "Callback Model save_checkpoint",
}
"""What people use most, and so must have an example."""


def examples() -> dict[str, Any]:
    """Everything with an example, by full name."""
    found = {path: reference.item(path) for path in sorted({*reference.entries().values()})}
    return {path: of for path, of in found.items() if not reference.is_value(of) and ">>> " in (of.__doc__ or "")}


@pytest.mark.parametrize("path", examples())
def test_the_example_runs(path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))
    monkeypatch.setattr(manager, "_passes", dict(manager._passes))
    text = inspect.getdoc(reference.item(path)) or ""
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, path, path, 0)
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test).failed == 0


def test_what_people_use_most_has_an_example() -> None:
    wanted = {reference.entries()[f"{module}.{name}"] for module, names in SHOWN.items() for name in names.split()}
    assert wanted - examples().keys() == set()
