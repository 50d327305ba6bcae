"""The rules of releases: what warns before it goes, versions of files, and the files that forges look for."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import yaml

import graphls
from graphls.base.reporting import deprecated
from graphls.ir.parse import FORM
from graphls.step.export.manifest import VERSION
from tools import public_names
from tools.site import reference


def version_of(text: str) -> list[int]:
    return [int(part) for part in text.split(".")]


ROOT = Path(__file__).parents[1]
RULES = (ROOT / "docs" / "releases.md").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NUMBER = version_of(graphls.__version__)


@deprecated(since="1.2", removal="2.0", instead="area")
def surface(width: int, height: int = 2) -> int:
    """The area of a rectangle."""
    return width * height


@deprecated(since="1.3", removal="2.0", instead="graphls.Tensor")
class Array:
    def __init__(self, size: int) -> None:
        self.size = size


def test_a_deprecated_function_warns_at_the_line_of_its_user() -> None:
    with pytest.warns(DeprecationWarning, match=r"^surface is deprecated since graphls 1\.2 .* 2\.0; use area") as log:
        assert surface(3) == 6
    assert log[0].filename == __file__ and f"({Path(__file__).relative_to(Path.cwd())}:" in str(log[0].message)
    assert list(inspect.signature(surface).parameters) == ["width", "height"]
    assert (inspect.getdoc(surface), surface.__name__) == ("The area of a rectangle.", "surface")


def test_a_deprecated_class_warns_where_it_is_made_and_stays_a_class() -> None:
    with pytest.warns(DeprecationWarning, match="Array is deprecated since graphls 1.3 .* use graphls.Tensor"):
        assert Array(3).size == 3
    assert isinstance(Array, type) and list(inspect.signature(Array).parameters) == ["size"]


def test_a_script_shows_the_warning_once_a_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from graphls.base.reporting import deprecated\n"
        "old = deprecated('1.1', '2.0', 'new')(lambda: None)\n"
        "for _ in range(3):\n"
        "    old()\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert run.stderr.count("DeprecationWarning") == 1 and "train.py:4" in run.stderr


def test_no_name_is_left_that_this_version_drops() -> None:
    items = [reference.item(path) for path in public_names.paths()]
    versions = [item.deprecation for item in items if hasattr(item, "deprecation")]
    for since, removal in versions:
        assert version_of(since) <= NUMBER < version_of(removal)
        assert removal.endswith(".0")


def test_importing_and_compiling_uses_nothing_deprecated() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        assert float(graphls.compile(lambda x: x + 1, 1.0)(1.0)) == 2


def test_the_page_has_the_versions_of_files_that_the_code_has() -> None:
    assert f"| form {FORM}," in RULES and f'`"version": {VERSION}`' in RULES
    assert re.search(rf"^## \[{re.escape(graphls.__version__)}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_forges_have_what_they_look_for() -> None:
    for name in ("README.md", "LICENSE", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        linked = [path for path in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if "://" not in path]
        assert text and [path for path in linked if not (ROOT / path).exists()] == []


def test_workflows_call_targets_of_the_makefile() -> None:
    """The same as .ci/run, and each with the version of Python that the workflow installs."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    commands = re.findall(r"- run: (.*)", text)
    targets = {command.split()[1] for command in commands}
    assert all(re.fullmatch(r"make [\w-]+( ARGUMENTS=--check)? PYTHON=python", command) for command in commands)
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    assert targets == {"lint", "test", "test-training", "site", "dist", "gallery"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_valid_and_may_only_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    table = yaml.safe_load(text)
    assert table["permissions"] == {"contents": "read"} and "secrets" not in text
    assert table[True].keys() == {"push", "pull_request"}  # `on`, which YAML 1.1 reads as true
    for job in table["jobs"].values():
        assert job["timeout-minutes"] and job["runs-on"] and "permissions" not in job
        assert all(step.keys() & {"run", "uses"} for step in job["steps"])
        assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in job["steps"] if "uses" in step)
        assert not job["steps"][0]["with"]["persist-credentials"]


def test_versions_of_python_are_the_same_everywhere() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    versions = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    least, most = re.findall(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', project)[0]
    assert versions == [f"3.{minor}" for minor in range(int(least), int(most))]
    matrix = re.findall(r"python: \[(.*)\]", "".join(path.read_text() for path in WORKFLOWS))
    assert matrix == [", ".join(f'"{version}"' for version in versions)]
    assert f"CPython {versions[0]} to {versions[-1]}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(re.search(rf"^\| .*{re.escape(version)}\b.* \|", RULES, re.MULTILINE) for version in versions)
