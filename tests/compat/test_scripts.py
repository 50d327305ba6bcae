"""Scripts that import mindspore, run as users run them: in a process of their own, from another folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphls.cli.main import main
from graphls.context import _fault_of, forced_device
from tests.cores import one_core

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = Path(__file__).parent / "scripts"


def run(script: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`python -m graphls exec script arguments`, from a folder."""
    return execute(str(script), *arguments, folder=folder)


def execute(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`python -m graphls exec` with any arguments, from a folder."""
    command = [sys.executable, "-m", "graphls", "exec", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with one_core():
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


def numbers(text: str, name: str) -> list[float]:
    """The numbers that a script has printed behind a name."""
    return [float(found) for found in re.findall(rf"{name}\D*([\d.]+)", text)]


def test_lenet_in_a_loop_of_its_own(tmp_path: Path) -> None:
    done = run(SCRIPTS / "lenet_loop.py", "--epochs", "2", "--scale", str(2.0**20), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    losses = numbers(done.stdout, "loss:")
    assert len(losses) == 6
    assert losses[-1] < losses[0] / 4
    assert numbers(done.stdout, "accuracy:")[0] > 0.8
    skipped, scale = numbers(done.stdout, "skipped:")[0], numbers(done.stdout, "scale:")[0]
    assert skipped > 0
    assert scale in (2.0 ** (20 - skipped), 2.0 ** (21 - skipped))
    assert list(tmp_path.iterdir()) == []


def test_lenet_with_model_train_and_callbacks(tmp_path: Path) -> None:
    done = run(SCRIPTS / "lenet_model.py", "--epoch_size", "4", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    monitored = re.findall(r"epoch: (\d) step: (\d+), loss is ([\d.]+)", done.stdout)
    assert [(epoch, step) for epoch, step, _ in monitored] == [(e, s) for e in "1234" for s in ("10", "20", "30")]
    assert float(monitored[-1][2]) < 0.8
    assert len(re.findall(r"Train epoch time: [\d.]+ ms, per step time: [\d.]+ ms", done.stdout)) == 4
    saved = {path.name for path in (tmp_path / "ckpt").iterdir()}
    assert {name for name in saved if name.endswith(".ckpt")} == {"lenet-3_30.ckpt", "lenet-4_30.ckpt"}
    assert float(re.findall(r"'Accuracy'.*([01]\.\d+)", done.stdout)[0]) > 0.75
    assert done.stdout.strip().endswith("(1, 10)")


def test_what_the_page_on_the_training_flow_shows(tmp_path: Path) -> None:
    done = run(SCRIPTS / "notebook.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    losses = "16.000000 8.604445 1.418746 0.482356"
    once = ["gradient [4.0, 4.0, 4.0, 4.0]", f"losses {losses}", f"scaled {losses}"]
    first, *steps = done.stdout.splitlines()
    assert first == "rows 100 list (3, 4, 5) Float64 (1,)" and steps[:6] == once * 2
    assert [re.sub(r"[\d.]+$", "", line) for line in steps[6:14]] == [
        f"epoch: {epoch} step: {step}, loss is " for epoch in (1, 2) for step in range(1, 5)
    ]
    assert steps[14].startswith("accuracy {'Accuracy': ") and len(steps) == 15
    assert {path.name for path in (tmp_path / "saved").glob("*.ckpt")} == {"scores-1_4.ckpt", "scores-2_4.ckpt"}


def test_a_script_is_the_main_module(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "helper.py").write_text("import mindspore\nNAME = mindspore.nn.Dense.__name__\n")
    script = tmp_path / "scripts" / "main.py"
    script.write_text(
        "import sys, pickle\nimport helper\n"
        "class Thing: pass\n"
        "print(__name__, __file__, sys.argv, sys.path[0], helper.NAME, Thing.__module__)\n"
        "assert sys.modules['__main__'].Thing is Thing\n"
        "pickle.loads(pickle.dumps(Thing()))\n"
        "sys.exit(7)\n"
    )
    done = run(Path("scripts/main.py"), "--epochs", "-h", "a b", folder=tmp_path)
    folder = script.parent
    wanted = ["__main__", script, ["scripts/main.py", "--epochs", "-h", "a b"], folder, "Dense", "__main__"]
    assert (done.stdout, done.stderr, done.returncode) == (f"{' '.join(map(str, wanted))}\n", "", 7)


FAILING = "import mindspore\ndef inner():\n    mindspore.nn.Dens(3, 4)\n{call}\n"


def test_a_traceback_begins_with_the_script(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text(FAILING.format(call="inner()"))
    done = run(script, folder=tmp_path)
    lines = [line for line in done.stderr.splitlines() if line.strip("~^ ")]  # Python 3.13 marks more calls
    assert done.returncode == 1
    assert lines.pop(0) == "2 frames of graphls left out, GRAPHLS_TRACEBACK=full shows all:"
    assert lines[:4] == [
        "Traceback (most recent call last):", f'  File "{script}", line 4, in <module>', "    inner()",
        f'  File "{script}", line 3, in inner',
    ]  # fmt: skip
    assert lines[-1].endswith(
        "GraphAttributeError: graphls does not offer mindspore.nn.Dens; the nearest is 'Dense'. (failing.py:3)"
    )


@pytest.mark.parametrize(
    ("source", "code", "end"),
    [
        ("raise SystemExit", 0, ""),
        ("raise SystemExit('no data')", 1, "no data"),
        ("def f(:", 1, "SyntaxError: invalid syntax"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("# coding: latin-1\nprint('\xe9')", 0, ""),
    ],
)
def test_exit_codes_are_those_of_python(source: str, code: int, end: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(source, encoding="latin-1")
    done = run(script, folder=tmp_path)
    assert done.returncode == code
    assert done.stderr.rstrip().endswith(end)
    assert "graphls" not in done.stderr


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    done = run(Path("missing.py"), folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "graphls: can't open file 'missing.py': No such file or directory\n")
    done = run(Path("-h"), folder=tmp_path)
    assert done.returncode == 0
    assert "every import of mindspore resolved to graphls" in " ".join(done.stdout.split())


def test_loss_scaling_with_cells_tensors_and_managers(tmp_path: Path) -> None:
    done = run(SCRIPTS / "loss_scale.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    steps = {line[0]: (float(line[1]), line[2], float(line[3])) for line in lines[:4]}
    losses = {round(loss, 4) for loss, _, _ in steps.values()}
    assert len(losses) == 1
    assert {name: rest[1:] for name, rest in steps.items()} == {
        "cell": ("False", 4096.0 * 4), "fixed": ("False", 4096.0), "tensor": ("False", 4096.0), "set": ("False", 1024.0)
    }  # fmt: skip
    moved = {(level, name): float(by) for _, level, name, by in lines[4:]}
    assert len(moved) == 12
    for by in moved.values():
        assert abs(by - moved["O0", "fixed"]) < 0.02 * by


def test_tests_of_loss_scaling_run_as_scripts(tmp_path: Path) -> None:
    file = Path(__file__).parent / "suite" / "loss_scale_steps.py"
    done = run(file, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    names = re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    assert re.findall(r"^test_\w+$", done.stdout, re.MULTILINE) == sorted(names)


DEVICE = """
import sys
import mindspore as ms

ms.set_context(device_target="Ascend")
print(sys.argv[1:], ms.get_context("device_target"), ms.nn.ReLU()(ms.Tensor([-1.0, 2.0])))
"""


def test_a_device_of_the_command_line_is_that_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(DEVICE)
    done = execute("--device", "cpu", str(script), "--device", "mine", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['--device', 'mine'] Ascend [0. 2.]\n"


def test_a_device_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    if _fault_of("GPU") is None:
        pytest.skip("a GPU is there")
    assert main(["exec", "--device=cuda", "none.py"]) == 1
    assert capsys.readouterr().err.startswith("graphls: This ONNX Runtime has no CUDAExecutionProvider")
    assert forced_device() == ""
