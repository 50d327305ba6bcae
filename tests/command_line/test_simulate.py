"""`python -m graphls simulate`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.cli.main import main


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> str:
    net = nn.SequentialCell(nn.Dense(6, 9), nn.Dropout(p=0.5), nn.BatchNorm1d(9), nn.Dense(9, 2))
    loss = nn.WithLossCell(net.to_float(graphls.bfloat16), nn.SoftmaxCrossEntropyWithLogits(sparse=True))
    cell = nn.TrainOneStepCell(loss, nn.Adam(net.trainable_params(), 0.01)).set_train()
    path = tmp_path_factory.mktemp("simulate") / "step.ir"
    path.write_text(str(graphls.compile(cell, np.zeros((4, 6), np.float32), np.zeros(4, np.int32)).graph))
    return str(path)


def test_a_step_that_is_run_here(step: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", step, "--ranks", "64, 8,8", "--steps", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("One rank: ") and "in 1 bucket;" in lines[0]
    assert lines[1].split()[:2] == ["ranks", "step"] and [line.split()[0] for line in lines[2:4]] == ["8", "64"]
    assert lines[-1].startswith("This is a model (best): 5 us and 25 GB/s between any two ranks")


def test_a_step_whose_time_is_given(step: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["--time", "40ms", "--latency", "1ms", "--bandwidth", "1GB/s", "--algorithm", "ring", "--no-overlap"]
    assert main(["simulate", step, "--ranks", "2", *told]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("One rank: 40.000 ms")
    assert lines[2].split()[:7] == ["2", "42.000", "ms", "2.000", "ms", "0.0%", "95.2%"]
    assert "beyond some 16 ranks more than half of the time is lost" in lines[3]
    assert "is fastest on some 4: " in lines[4]


def test_ranks_that_share_cores(step: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["--time", "40ms", "--latency", "1us", "--memory", "9TB/s", "--local-ranks", "4", "--places", "2"]
    assert main(["simulate", step, "--ranks", "2,4", *told]) == 0
    two, four = (line.split() for line in capsys.readouterr().out.splitlines()[2:4])
    assert (two[1], four[1]) == ("40.001", "80.002") and two[5] == four[5] == "0.0%"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--local-ranks", "0"], "A machine has one rank or more, and places for some, not 0 and"),
        (["--places", "nan"], "A machine has one rank or more, and places for some, not 1 and nan."),
        (["--ranks", "8,0"], "--ranks takes numbers from 1 on, such as 8,64,512, not '8,0'."),
        (["--latency", "5"], "--latency takes a positive number and one of s, ms, us, ns, such as 5us, not '5'."),
        (["--bandwidth", "25Gb/s"], "one of B, kB, MB, GB, TB, KiB, MiB, GiB, such as 25GB/s, not '25Gb'."),
        (["--bucket", "0MB"], "--bucket takes a positive number"),
        (["--time=-1ms"], "--time takes a positive number"),
        (["--steps", "0"], "simulate runs one step or more, not 0."),
        (["--measure"], "There is no network in one process; start `mpiexec -n 2 python -m graphls simulate"),
    ],
)
def test_wrong_arguments(step: str, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert main(["simulate", step, *arguments]) == 1
    except SystemExit as end:
        assert end.code == 2
    error = capsys.readouterr().err
    assert told in error and (error.count("\n") == 1 or "usage" in error)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nonsense", "step.ir:1:1"),
        ("graph @f(%x: f32[4]) {\n  return %x\n}\n", "@f updates no state by a gradient; give the graph of a training"),
    ],
)
def test_wrong_files(text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "step.ir"
    path.write_text(text)
    assert main(["simulate", str(path)]) == 1
    assert main(["simulate", str(tmp_path / "none.ir")]) == 1
    assert main(["simulate"]) == 1
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 3 and told in error[0] and "none.ir" in error[1] and "GRAPHLS_DUMP=folder" in error[2]
