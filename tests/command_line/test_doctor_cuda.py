"""What the doctor says of a GPU: what is missing, in order, each with its command."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphls.cli import doctor
from graphls.cli.main import main
from graphls.runtime.onnxruntime.cuda_libraries import Card, Driver, cuda_version, libraries_of
from tests.cuda.double import make_up_a_gpu

H100 = Card("NVIDIA H100", 80 << 30, (9, 0))
PASCAL = Card("NVIDIA GTX 1080", 8 << 30, (6, 1))


def said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    driver: Driver,
    missing: tuple[str, ...] = (),
    providers: tuple[str, ...] = ("CUDAExecutionProvider", "CPUExecutionProvider"),
    cuda: str = "13.0",
) -> tuple[int, list[str]]:
    """The exit code and the lines behind those of the packages, for a machine like this."""
    runtime: Any = SimpleNamespace(
        __file__="none/none.py", __version__="1.31.1", cuda_version=cuda, get_available_providers=lambda: providers
    )
    monkeypatch.setattr(doctor, "load_runtime", lambda: runtime)
    monkeypatch.setattr(doctor, "find_driver", lambda: driver)
    monkeypatch.setattr(doctor, "missing_libraries", lambda cuda: missing)
    monkeypatch.setattr(doctor, "provider_fault", lambda runtime: "")
    code = main(["doctor", "--device", "cuda"])
    lines = capsys.readouterr().out.splitlines()
    return code, lines[next(i for i, line in enumerate(lines) if line.startswith("driver")) :]


def test_everything_is_missing_in_order(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    everything = tuple(libraries_of(13))
    driver = Driver(fault="no NVIDIA driver is installed")
    code, lines = said(monkeypatch, capsys, driver, everything, ("CPUExecutionProvider",))
    assert code == 1 and all("FAIL" in line for line in lines[:-1]) and lines[-1].endswith("not run")
    assert "install NVIDIA's driver 580.65.06 or newer" in lines[0]
    assert "has no CUDA; run pip uninstall --yes" in lines[1] and 'pip install "graphls[cuda]"' in lines[1]
    commands = [line.rpartition("run ")[2] for line in lines[2:-1]]
    assert commands[0] == "pip install nvidia-cuda-runtime" and commands[-1] == "pip install nvidia-cudnn-cu13"
    assert lines[-2].startswith("cuDNN") and len(commands) == len(everything)


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        (Driver((12, 4), (H100,)), "knows CUDA 12.4, the runtime needs 13; install NVIDIA's driver 580"),
        (Driver((12, 4), (H100,)), 'run pip install "onnxruntime-gpu[cuda,cudnn]>=1.21,<1.27", which is for CUDA 12'),
        (
            Driver((13, 0), (PASCAL,)),
            "NVIDIA GTX 1080 has capability 6.1, CUDA 13 needs 7.5; take another card, or run",
        ),
    ],
)
def test_versions_that_do_not_match(
    driver: Driver, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = said(monkeypatch, capsys, driver)
    (fault,) = (line for line in lines if "FAIL" in line)
    assert code == 1 and text in fault and lines[-1].endswith("not run")


def test_libraries_of_older_versions_have_their_names() -> None:
    assert libraries_of(12)["libcublas.so.12"] == "nvidia-cublas-cu12" and "libcufft.so.11" in libraries_of(12)
    assert {"libcudart.so.11.0", "libcudnn.so.8", "libcufft.so.10"} <= libraries_of(11).keys()


@pytest.mark.parametrize(("text", "expected"), [(b"..libcublas.so.11\0", (11,)), (b"nothing", ())])
def test_the_version_of_cuda_is_found_where_the_runtime_does_not_tell(
    text: bytes, expected: tuple[int, ...], tmp_path: Path
) -> None:
    (tmp_path / "capi").mkdir()
    (tmp_path / "capi" / "libonnxruntime_providers_cuda.so").write_bytes(text)
    assert cuda_version(SimpleNamespace(cuda_version="", __file__=str(tmp_path / "__init__.py"))) == expected
    assert cuda_version(SimpleNamespace(cuda_version="12.8", __file__=str(tmp_path / "__init__.py"))) == (12, 8)
    assert cuda_version(SimpleNamespace(__file__=str(tmp_path / "elsewhere" / "__init__.py"))) == ()


def test_a_small_step_runs_where_nothing_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The double computes float16 as the CPU does, without roundings, which the step sees."""
    make_up_a_gpu(monkeypatch)
    code, lines = said(monkeypatch, capsys, Driver((13, 0), (H100,)))
    assert "GPU 0                      NVIDIA H100, 80 GiB, capability 9.0" in lines
    assert lines[-1].startswith("a small step") and not any("FAIL" in line for line in lines[:-1])
    assert (code, "pass, in" in lines[-1]) in [(0, True), (1, False)]
