"""Who imports whom: the arrows between the packages, and what `import graphls` leaves out."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "graphls").rglob("*.py"))
}
ALLOWED: dict[str, tuple[str, ...]] = {
    "graphls.ir": ("graphls.ir",),
    "graphls.primitives": ("graphls.ir", "graphls.primitives"),
    "graphls.passes": ("graphls.ir", "graphls.files", "graphls.primitives", "graphls.passes"),
    "graphls.backends": (
        "graphls.ir", "graphls.files", "graphls.primitives", "graphls.backends", "graphls.sharing", "graphls.text",
        "graphls.version",
    ),
    "graphls.importing": ("graphls.ir", "graphls.backends.onnx", "graphls.importing", "graphls.text"),
}
RUNTIMES = ("onnx", "onnxruntime")
OF_ONNX = ("graphls.backends", "graphls.importing")
"""Packages that import them."""


def imports(tree: ast.AST, everywhere: bool) -> Iterator[str]:
    """The modules that are imported: everywhere, or only where importing the file does it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif everywhere or not (is_function(node) or is_for_types(node)):
            yield from imports(node, everywhere)


def is_function(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def imported(module: str, everywhere: bool) -> tuple[str, ...]:
    return tuple(imports(tree(module), everywhere))


def loaded(module: str, seen: set[str]) -> set[str]:
    """All modules that importing this one imports, ours followed."""
    if module in seen:
        return seen
    seen.add(module)
    if module in MODULES:
        for name in imported(module, everywhere=False):
            loaded(name if name in MODULES else name.rpartition(".")[0] or name, seen)
        loaded(module.rpartition(".")[0], seen)
    return seen


@pytest.mark.parametrize("module", MODULES)
def test_the_arrows_between_packages(module: str) -> None:
    found = set(imported(module, everywhere=True))
    for package, allowed in ALLOWED.items():
        if within(module, (package,)):
            assert {name for name in found if within(name, ("graphls",)) and not within(name, allowed)} == set()
    if within(module, tuple(ALLOWED)) and not within(module, OF_ONNX):
        assert {name for name in found if within(name, RUNTIMES)} == set()
    assert {name for name in found if within(name, ("torch", "onnxruntime.training"))} == set()


def test_every_package_of_the_arrows_exists() -> None:
    assert {name for allowed in ALLOWED.values() for name in (*ALLOWED, *allowed)} <= MODULES.keys()


@pytest.mark.parametrize("module", [name for name in MODULES if not within(name, OF_ONNX)])
def test_no_other_package_imports_a_runtime_when_it_is_imported(module: str) -> None:
    assert {name for name in loaded(module, set()) if within(name, RUNTIMES)} == set()


def test_showing_a_cell_registers_no_passes_of_the_diagnosis() -> None:
    assert {name for name in loaded("graphls.nn.cell_tree", set()) if within(name, ("graphls.diagnosis",))} == set()


def test_importing_graphls_leaves_the_runtimes_alone() -> None:
    code = "import graphls, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    unwanted = {"torch", "onnx", "onnxruntime", "networkx", "sklearn", "scipy", "rich"}
    assert unwanted.isdisjoint(run.stdout.split())


@pytest.mark.parametrize("package", ["graphls.nn", "graphls.ops"])
def test_a_package_has_the_names_that_its_modules_list(package: str) -> None:
    here = importlib.import_module(package)
    beside = {"graphls.ops.operations"}  # operator classes are found by their names, and not listed
    listing = {name for name in MODULES if name.startswith(package + ".") and lists_names(tree(name))} - beside
    for module in map(importlib.import_module, sorted(listing)):
        assert [name for name in module.__all__ if getattr(here, name) is not getattr(module, name)] == []
    assert {*here.__all__} == {name for module in listing for name in importlib.import_module(module).__all__}


def lists_names(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" for node in tree.body)
