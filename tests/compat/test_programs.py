"""Programs of every form run as Python and Jupyter run them: the reference is `python` on the same files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from graphls.cli.main import main
from tests.cores import one_core

ROOT = Path(__file__).parent.parent.parent
MAIN = '''"""What a program sees of how it was started."""
import inspect, multiprocessing, os, sys

def double(x: int) -> "int":
    return 2 * x

if __name__ == "__main__":
    spec = __spec__ and __spec__.name
    print(sys.argv, sys.path[0], os.getcwd(), __name__, __package__, spec, __file__, __doc__)
    print(double.__annotations__, sys.modules["__main__"].double is double, inspect.getsource(double))
    if "spawn" in sys.argv:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(double, [1, 2]))
    sys.exit(len(sys.argv))
'''


def start(command: Sequence[str], folder: Path) -> tuple[int, str, str]:
    """The exit code, the output and the errors of `python command`, from a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(folder / "ipython")}
    with one_core():
        done = subprocess.run(
            [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
        )
    return done.returncode, done.stdout, done.stderr


def execute(*arguments: str, folder: Path) -> tuple[int, str, str]:
    """The same of `python -m graphls exec arguments`."""
    return start(["-m", "graphls", "exec", *arguments], folder)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the program as a script, a module, a package, a folder and an archive."""
    for name in ("script.py", "package/train.py", "package/__main__.py", "folder/__main__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(MAIN)
    (tmp_path / "package" / "__init__.py").write_text("import mindspore.nn\n")
    (tmp_path / "mindspore").mkdir()  # for Python; the import hook comes before it
    (tmp_path / "mindspore" / "__init__.py").touch()
    (tmp_path / "mindspore" / "nn.py").touch()
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", MAIN)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        ["folder/../script.py", "--device", "-m"],
        ["-m", "package.train", "spawn", "-m", "--device=x"],
        ["-mpackage"],
        ["./folder", "-h"],
        ["archive.zip", "a b"],
    ],
    ids=" ".join,
)
def test_programs_run_as_under_python(program: list[str], project: Path) -> None:
    code, output, errors = start(program, project)
    assert code == len(output.splitlines()[0].split("]")[0].split(","))
    assert execute(*program, folder=project) == (code, output, errors)


@pytest.mark.parametrize(
    ("program", "code", "message"),
    [
        (["-m", "absent.train"], 1, "No module named absent.train"),
        (["-m", "package.absent"], 1, "No module named package.absent"),
        (["-m", "mindspore"], 1, "No module named mindspore.__main__; 'mindspore' is a package"),
        (["package/empty"], 1, "can't find '__main__' module in 'package/empty'"),
        (["bad.ipynb"], 1, "is not a notebook"),
    ],
    ids=str,
)
def test_what_is_no_program_is_one_line(program: list[str], code: int, message: str, project: Path) -> None:
    (project / "package" / "empty").mkdir()
    (project / "bad.ipynb").write_text("[1]")
    found, output, errors = execute(*program, folder=project)
    assert (found, output) == (code, "")
    assert message in errors.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"), [([], "one program is needed"), (["-m"], "argument -m: expected one argument")]
)
def test_no_program_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["exec", *arguments])
    found = capsys.readouterr()
    assert found.out == "" and message in found.err.splitlines()[-1]


def test_an_error_of_a_package_that_holds_the_module_has_its_lines(project: Path) -> None:
    (project / "package" / "__init__.py").write_text("import absent_package\n")
    code, _, errors = execute("-m", "package.train", folder=project)
    assert code == 1
    assert errors.splitlines()[1:] == [
        f'  File "{project}/package/__init__.py", line 1, in <module>',
        "    import absent_package",
        "ModuleNotFoundError: No module named 'absent_package'",
    ]


REPORTED = """
import mindspore as ms
from mindspore.nn import Absent
ms.set_context(device_target="Ascend")
ms.set_auto_parallel_context(global_rank=3)
print(hasattr(ms.nn, "Asked"))
{end}
"""


def test_a_report_says_what_was_replaced(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(REPORTED.format(end="ms.nn.Dens(3, 4)"))
    code, _, errors = execute("--report", "train.py", folder=tmp_path)
    assert code == 1
    assert errors[errors.index("graphls exec:\n") :].splitlines()[1:] == [
        "  device_target 'Ascend' is not there; cpu took its place",
        "  global_rank=3 means several devices and was left out",
        "  named and never used: graphls does not offer mindspore.nn.Absent.",
        "  used: graphls does not offer mindspore.nn.Dens; the nearest is 'Dense'.",
    ]


def test_a_report_of_a_program_that_exits_and_needs_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import mindspore\nraise SystemExit(3)\n")
    assert execute("--report", "train.py", folder=tmp_path) == (3, "", "graphls exec:\n  nothing was replaced\n")


def notebook(path: Path, *cells: str, version: int = 4) -> None:
    """Write a notebook with cells of code below one of text."""
    field = "source" if version == 4 else "input"
    sheet = {"cells": [{"cell_type": "markdown", "source": "# text"}]}
    sheet["cells"] += [{"cell_type": "code", field: cell.splitlines(True)} for cell in cells]  # type: ignore[misc]
    path.write_text(json.dumps({"nbformat": version, **(sheet if version == 4 else {"worksheets": [sheet]})}))


CELLS = (
    "import sys\nimport mindspore as ms\nimport helper\nprint(sys.argv, __name__, helper.NAME)",
    "def double(x: int):\n    return 2 * x\nprint(double.__annotations__)\n!echo from a shell",
    "import asyncio\nawait asyncio.sleep(0)\nms.Tensor([1.0, 2.0]).sum()",
)


@pytest.mark.parametrize("version", [3, 4])
def test_a_notebook_runs_cell_by_cell(version: int, tmp_path: Path) -> None:
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "helper.py").write_text("NAME = 'helper'\n")
    notebook(tmp_path / "books" / "train.ipynb", *CELLS, "raise SystemExit(5)", version=version)
    code, output, errors = execute("books/train.ipynb", "--epochs", folder=tmp_path)
    assert (code, errors) == (5, "")
    assert output.splitlines() == [
        "['books/train.ipynb', '--epochs'] __main__ helper",
        "{'x': <class 'int'>}",
        "from a shell",
        "Out[3]: Tensor(shape=[], dtype=Float32, value=3.0)",
    ]


def test_an_error_of_a_notebook_ends_it_and_names_its_cell(tmp_path: Path) -> None:
    notebook(tmp_path / "train.ipynb", CELLS[1], "import mindspore as ms\nms.nn.Dens(3, 4)", "print('never')")
    code, output, errors = execute("train.ipynb", folder=tmp_path)
    assert (code, "never" in output) == (1, False)
    assert "graphls does not offer mindspore.nn.Dens; the nearest is 'Dense'. (Cell In[2], line 2)" in errors
    assert "interactiveshell.py" not in errors
