"""The comparison with peers: that networks are theirs, that failures are told, and that tables are right."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.peers import runner
from benchmarks.peers.__main__ import main
from benchmarks.peers.contenders import CONTENDERS, Contender, chosen
from benchmarks.peers.graphls_training import Training
from benchmarks.peers.results import Result
from benchmarks.peers.rows import QUICK_ROWS, ROWS
from benchmarks.peers.runner import RowRun, Settings
from benchmarks.peers.table import compare, details, summary

LOSSES = {
    "mlp": [1.5706, 1.5697, 1.568],
    "lenet": [2.2126, 2.1135, 1.9359],
    "resnet18": [1.7808, 1.7412, 1.6731],
    "resnet50": [2.1967, 2.1454, 2.0658],
    "transformer": [2.7616, 2.5344, 2.4303],
    "gpt": [2.6184, 2.5855, 2.5525],
    "lstm": [1.1152, 1.1149, 1.1145],
    "mobilenet": [2.1701, 1.8458, 1.6018],
    "unet": [1.111, 1.1082, 1.1034],
    "embeddings": [1.6066, 1.6045, 1.6023],
    "gru_attention": [1.1351, 1.1344, 1.1338],
}
"""Losses of the first steps of the quick rows in PyTorch 2.13.0, eager, float32."""

QUICK = Settings(rounds=1, seconds=0.0, quick=True, patience=60.0)


@pytest.mark.parametrize("row", LOSSES)
def test_networks_are_those_of_pytorch(row: str) -> None:
    training = Training(QUICK_ROWS[row], CONTENDERS[0])
    training.set_values()
    assert [float(training.step()) for _ in range(3)] == pytest.approx(LOSSES[row], rel=2e-3)


@pytest.mark.parametrize(
    ("row", "precision"), [("embeddings", "float32"), ("embeddings", "scaled"), ("transformer", "bfloat16")]
)
def test_networks_of_jax_are_those_of_graphls(row: str, precision: str) -> None:
    pytest.importorskip("jax")
    from benchmarks.peers import jax_training

    losses = []
    for kind, framework in ((Training, "graphls"), (jax_training.Training, "jax")):
        training = kind(QUICK_ROWS[row], Contender(framework, framework, precision))
        training.set_values()
        losses.append([float(training.step()) for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=5e-2 if precision == "bfloat16" else 2e-3)


def test_every_row_has_a_quick_one() -> None:
    assert ROWS.keys() == QUICK_ROWS.keys() == LOSSES.keys()


def test_contenders_take_turns_and_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    main(["--quick", "--rows", "mlp", "--contenders", "graphls*", "--json", str(file)])
    written = json.loads(file.read_text())
    found = {result["contender"]: result for result in written["rows"]["mlp"]}
    assert list(found) == ["graphls", "graphls-scaled", "graphls-bfloat16"] and written["settings"]["rounds"] == 2
    for result in found.values():
        assert not result["error"] and len(result["rounds"]) == 2 and result["ms"] >= result["least"] > 0
        assert result["peak_mb"] > result["imported_mb"] > 10 and result["first_step_s"] > 0
    assert found["graphls"]["losses"] == pytest.approx(found["graphls-scaled"]["losses"], rel=1e-5)
    assert "| mlp " in capsys.readouterr().out


def test_the_reference_stays_where_memory_allows_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "available_mb", lambda: 1.0)
    found = {result.contender: result for result in RowRun(QUICK_ROWS["mlp"], chosen("graphls*"), QUICK).run()}
    assert {name: len(result.rounds) for name, result in found.items()} == {
        "graphls": 2, "graphls-scaled": 1, "graphls-bfloat16": 1,
    }  # fmt: skip
    assert found["graphls"].relatives == [1.0, 1.0] and found["graphls-bfloat16"].relative > 0


def peer(tmp_path: Path, *lines: str) -> Settings:
    """Settings with a script in place of the Python of the peers."""
    script = tmp_path / "peer"
    script.write_text("\n".join(("#!/bin/sh", *lines)))
    script.chmod(0o755)
    return Settings(str(script), rounds=2, seconds=0.0, patience=60.0, quick=True)


START = 'echo \'{"first_step_s": 1.0, "imported_mb": 1.0, "losses": [1.0]}\''


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["echo no module of that name >&2", "exit 3"], "no module of that name"),
        (["exit 3"], "it ended with 3"),
        ([START, "read line", "kill -9 $$"], "it ended with -9"),
    ],
)
def test_a_contender_that_fails_is_told(tmp_path: Path, lines: list[str], error: str) -> None:
    (found,) = RowRun(QUICK_ROWS["mlp"], [Contender("torch-eager", "torch")], peer(tmp_path, *lines)).run()
    assert not found.works and found.error == error
    assert error in details("mlp", [found]) and compare("mlp", [found]).peer is None


def test_a_contender_that_does_other_work_is_told(tmp_path: Path) -> None:
    settings = peer(tmp_path, START.replace("1.0]", "9.0, 9.0, 9.0, 9.0]"), "cat")
    own, found = RowRun(QUICK_ROWS["mlp"], [CONTENDERS[0], Contender("torch-eager", "torch")], settings).run()
    assert own.works and found.error == "other work: at step 1 its loss is 9.00000 instead of 1.57059"


def test_a_contender_that_does_not_answer_is_told(tmp_path: Path) -> None:
    settings = Settings(peer(tmp_path, "sleep 60").peer_python, rounds=1, seconds=0.0, patience=0.2, quick=True)
    (result,) = RowRun(QUICK_ROWS["mlp"], [Contender("torch-eager", "torch")], settings).run()
    assert result.error == "no answer within 0 s"


def result(
    name: str, framework: str, precision: str, ms: float, peak_mb: float = 100.0, first_step_s: float = 1.0
) -> Result:
    """A result of three rounds beside a reference of 10 ms."""
    rounds = [ms, 2 * ms, ms / 2]
    return Result(
        name, framework, precision, first_step_s, 50.0, peak_mb, [1.0], rounds, min(rounds), [ms / 10] * len(rounds)
    )


def results(own: float) -> list[Result]:
    """One of every kind; the best of each is not the first."""
    return [
        result("graphls", "graphls", "float32", own, 200.0),
        result("graphls-scaled", "graphls", "scaled", own + 3.0),
        result("onednn", "graphls", "float32", own - 2.0, 250.0),
        result("onednn-scaled", "graphls", "scaled", (own - 2.0) * 1.01),
        result("torch-eager", "torch", "float32", 14.0, 500.0),
        result("torch-compile", "torch", "float32", 12.0, 600.0, 30.0),
        result("jax", "jax", "float32", 13.0),
        result("graphls-bfloat16", "graphls", "bfloat16", 8.0),
        result("torch-autocast", "torch", "bfloat16", 6.0),
        Result("torch-autocast-channels-last", "torch", "bfloat16", error="it ended with 3"),
    ]


def test_a_row_comes_to_ratios_of_the_best() -> None:
    compared = compare("row", results(10.0))
    assert compared.graphls is not None and compared.graphls.contender == "onednn"
    assert compared.peer is not None and compared.peer.contender == "torch-compile"
    numbers = compared.speed, compared.low_speed, compared.scaling, compared.memory, compared.first_step
    assert numbers == pytest.approx((1.5, 0.75, 1.01, 2.0, 30.0))


def test_what_is_missing_has_no_ratio() -> None:
    compared = compare("row", [result("graphls", "graphls", "float32", 10.0)])
    assert compared.speed is compared.low_speed is compared.scaling is compared.memory is compared.first_step is None


def test_the_worst_row_is_the_first() -> None:
    lines = summary({"fine": results(6.0), "empty": [], "slow": results(22.0), "even": results(14.0)}).splitlines()
    assert [line.split()[1] for line in lines[2:]] == ["slow", "even", "fine", "empty"]
    assert lines[2].split("|")[2:8] == [
        " 20 (onednn) ", " 12 (torch-compile)   ", " 0.60           ",
        " 8 (graphls-bfloat16) ", " 6 (torch-autocast) ", " 0.75               ",
    ]  # fmt: skip


def test_unknown_names_are_told_with_those_that_there_are() -> None:
    with pytest.raises(SystemExit, match="no row fast; there are mlp, lenet"):
        main(["--rows", "mlp,fast"])
    with pytest.raises(SystemExit, match="no contender 'torsh-\\*'; there are graphls, "):
        chosen("graphls,torsh-*")


def test_graphls_runs_in_the_python_of_the_runner() -> None:
    assert QUICK.peer_python == sys.executable
