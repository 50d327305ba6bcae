"""The command line."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls.cli.main import main
from graphls.ir import dump, parse
from graphls.passes import parse_pipeline

ROOT = Path(__file__).parents[2]
GRAPH = "graph @g(%x: f32[2]) {\n  %a = exp(%x) : f32[2]\n  %y = neg(%x) : f32[2]\n  return %y\n}\n"
FAULTY = GRAPH.replace("neg(%x) : f32[2]", "neg(%x) : f32[3]")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "g.ir"
    path.write_text(GRAPH)
    return str(path)


def after(passes: str) -> str:
    return dump(parse_pipeline(passes).run(parse(GRAPH)).graph)


def test_opt_prints_the_graph(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "-p", "fold, dce", file]) == 0
    assert capsys.readouterr() == (after("dce"), "")


def test_opt_without_passes_prints_the_graph_as_it_is(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", file, "--verify"]) == 0
    assert capsys.readouterr().out == dump(parse(GRAPH))


def test_opt_reads_the_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(GRAPH))
    assert main(["opt", "-p", "dce", "-"]) == 0
    assert capsys.readouterr().out == after("dce")


def test_opt_writes_a_file(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "made" / "out.ir"
    assert main(["opt", "-p", "dce", file, "-o", str(output)]) == 0
    assert output.read_text() == after("dce")
    assert capsys.readouterr() == ("", "")


def test_opt_shows_stages_and_times_on_stderr(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "-p", "cse, dce", file, "--print-between-passes", "--time-passes"]) == 0
    out, err = capsys.readouterr()
    assert out == after("dce")
    assert f"// 00_input\n{dump(parse(GRAPH))}" in err
    assert f"// 02_dce\n{after('dce')}" in err
    rows = [line.split() for line in err.splitlines()[-4:]]
    assert rows[0] == ["pass", "ms", "share", "nodes"] and [row[0] for row in rows[1:]] == ["01_cse", "02_dce", "total"]
    assert [row[3:] for row in rows[1:]] == [["2", "->", "2"], ["2", "->", "1"], ["2", "->", "1"]]
    assert float(rows[1][1]) >= 0 and rows[3][2] in ("100%", "0%")


def test_opt_aligns_times_of_long_names(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "-p", "gradient, overflow{mode=window}", file, "--time-passes"]) == 0
    err = capsys.readouterr().err
    assert len({line.index("->") for line in err.splitlines()[1:]}) == 1
    assert main(["opt", file, "--time-passes"]) == 0
    assert capsys.readouterr().err.splitlines()[-1].split()[0] == "total"


def test_opt_shows_what_every_pass_changed(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "-p", "cse, dce", file, "--print-differences"]) == 0
    out, err = capsys.readouterr()
    assert out == after("dce")
    assert "// 01_cse\nNo difference in 2 nodes.\n\n// 02_dce\nNodes: 0 added, 1 removed, 0 changed" in err
    assert "\n-   %a = exp(%x) : f32[2]  // forward\n" in err and "00_input" not in err


def test_diff_tells_by_its_exit_code(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.ir"
    other.write_text(GRAPH.replace("%y", '%"<script>"'))
    assert main(["diff", file, file]) == 0
    assert capsys.readouterr() == ("No difference in 2 nodes.\n", "")
    assert main(["diff", file, str(other)]) == 0
    assert capsys.readouterr().out == "No difference in 2 nodes, but in names, lines of users or order.\n"
    other.write_text(GRAPH.replace("neg", "tanh"))
    assert main(["diff", file, str(other)]) == 1
    assert "~   %y = tanh(%x) : f32[2]  // forward\n~     was: neg(%x)\n" in capsys.readouterr().out


def test_diff_reads_the_standard_input(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(GRAPH.replace("  %a = exp(%x) : f32[2]\n", "")))
    assert main(["diff", file, "-"]) == 1
    assert "\n-   %a = exp(%x)" in capsys.readouterr().out


@pytest.mark.parametrize("text", [None, "graph @g(", GRAPH.replace("exp", "exq")])
def test_diff_exits_with_2_after_an_error(
    text: str | None, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text:
        (tmp_path / "other.ir").write_text(text)
    assert main(["diff", file, str(tmp_path / "other.ir")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("graphls: ") and err.count("\n") == 1


def test_opt_takes_passes_of_the_user(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_own_passes.py").write_text(
        "from dataclasses import dataclass\nfrom graphls.passes import register_pass\n\n"
        "@register_pass\n@dataclass(frozen=True)\nclass Empty:\n    name = 'empty'\n\n"
        "    def run(self, graph):\n        return graph.replace(nodes=(), outputs=())\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for module in ("my_own_passes", "my_own_passes.py"):
        assert main(["opt", "--import", module, "-p", "empty", file]) == 0
        assert capsys.readouterr().out == "graph @g(%x: f32[2]) {\n  return\n}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "dze", "FILE"], "graphls: There is no pass 'dze'; did you mean 'dce'"),
        (["-p", "dce{x=1}", "FILE"], "graphls: The pass 'dce' has no option 'x'"),
        (["-p", "dce", "no/such/file.ir"], "graphls: [Errno 2] No such file or directory: 'no/such/file.ir'"),
        (["--import", "no_such_module", "FILE"], "graphls: No module named 'no_such_module'"),
        (["FAULTY", "--verify"], "graphls: The input graph of the pipeline does not verify. Neg gives f32[2]"),
        (["BINARY"], "binary.ir is not UTF-8 text"),
        (["SYNTAX"], "syntax.ir:2:8: There is no primitive 'exq'; did you mean 'exp'"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "faulty.ir").write_text(FAULTY)
    (tmp_path / "syntax.ir").write_text(GRAPH.replace("exp", "exq"))
    (tmp_path / "binary.ir").write_bytes(b"\xff\xfe")
    names = {"FILE": file, **{n: str(tmp_path / f"{n.lower()}.ir") for n in ("FAULTY", "SYNTAX", "BINARY")}}
    assert main(["opt", *(names.get(a, a) for a in arguments)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_without_verify_a_faulty_graph_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "faulty.ir").write_text(FAULTY)
    assert main(["opt", str(tmp_path / "faulty.ir")]) == 0


@pytest.mark.parametrize("arguments", [[], ["opt"], ["optimise"], ["opt", "-q", "file.ir"], ["doctor", "file.ir"]])
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: graphls" in capsys.readouterr().err


def test_the_module_runs(file: str) -> None:
    command = [sys.executable, "-m", "graphls", "opt", "-p", "dce", file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, after("dce"), "")


def test_imports_are_lazy() -> None:
    names = "('numpy', 'onnx', 'onnxruntime')"
    code = f"import sys, graphls.cli.main; print([m for m in {names} if m in sys.modules])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    assert "onnx" not in done.stdout


def test_doctor_reports_versions_and_passes(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["numpy", np.__version__] for line in lines)
    assert [line.split() for line in lines if "float16" in line] == [["float16", "on", "cpu", "pass"]]


@pytest.mark.parametrize(
    ("installed", "shown"),
    [
        ({}, "not installed"),
        ({"jax": "0.10.2", "jaxlib": "0.10.1"}, "jax 0.10.2, jaxlib 0.10.1"),
        (
            {"jax": "0.10.2", "jaxlib": "0.10.2", "jax-cuda13-plugin": "0.10.2"},
            "jax 0.10.2, jaxlib 0.10.2, jax-cuda13-plugin 0.10.2",
        ),
    ],
)
def test_doctor_lists_the_packages_of_xla(
    installed: dict[str, str],
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("graphls.cli.doctor.package_version", lambda package: installed.get(package, ""))
    main(["doctor"])
    assert f"XLA                        {shown}\n" in capsys.readouterr().out


def test_doctor_reads_the_version_of_xla_without_loading_it() -> None:
    code = "import sys; from graphls.cli.main import main; main(['doctor']); print('jax' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.endswith("\nFalse\n")


def test_doctor_without_a_runtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert 'pip install "graphls[cpu]"' in out
    assert "numpy" in out


class Session:
    """A runtime that computes as the CPU provider does without roundings."""

    def __init__(self, model: bytes, providers: list[str]) -> None:
        self.providers = providers

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]

    def run(self, outputs: Any, inputs: dict[str, Any]) -> list[Any]:
        return [np.array([900.0], np.float16)]


def test_doctor_sees_a_float16_that_does_not_overflow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(runtime, "InferenceSession", Session)
    monkeypatch.setattr("graphls.runtime.onnxruntime.runtime.fault_of_installation", lambda runtime, number: "")
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(runtime, "get_available_providers", lambda: providers)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "float16 on cpu             FAIL: 300 * 300 * 0.01 gives 900.0 and must give inf" in out
    assert "float16 on cuda            FAIL: CUDAExecutionProvider could not be loaded" in out


def test_doctor_sees_two_runtimes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("graphls.runtime.onnxruntime.runtime.package_version", lambda package: "1.0")
    assert main(["doctor"]) == 1
    assert "and onnxruntime-openvino are installed and overwrite each other" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["opt", "--list"], ["doctor"]])
def test_a_command_ends_quietly_when_nobody_reads_its_output(arguments: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "graphls", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert (process.stderr.read(), process.wait(600)) == (b"", 141)
    process.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["opt", "--pasess", "fold", "graph.ir"], "unrecognized arguments: --pasess graph.ir; did you mean '--passes'"),
        (["opt", "graph.ir", "--patern=x"], "did you mean '--pattern'"),
        (["otp", "graph.ir"], "did you mean 'opt'"),
        (["doctor", "--device", "cdua"], "did you mean 'cuda'"),
        (["opt", "a", "b"], "unrecognized arguments: b\n"),
    ],
)
def test_misspelled_commands_and_flags_are_corrected(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and message in capsys.readouterr().err
