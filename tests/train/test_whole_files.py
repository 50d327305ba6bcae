"""Files are written whole or not at all: killed processes, full disks, folders that cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from graphls.base.files.files import write_bytes, write_parts
from graphls.ir.errors import GraphFileError
from graphls.train.serialization import load_checkpoint, save_checkpoint
from tests.train.standins import file_size_limit

ROOT = Path(__file__).parents[2]
SMALL = {"w": np.arange(4, dtype=np.float32)}
LARGE = {"w": np.zeros(2**16, np.float32)}
FORMATS = ("ckpt", "safetensors")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk_leaves_the_file_that_was_there(tmp_path: Path, format: str) -> None:
    save_checkpoint(SMALL, tmp_path / "a", format=format)
    before = (tmp_path / f"a.{format}").read_bytes()
    with file_size_limit(2**12), pytest.raises(GraphFileError, match="cannot be written: File too large"):
        save_checkpoint(LARGE, tmp_path / "a", format=format)
    assert (tmp_path / f"a.{format}").read_bytes() == before
    assert files(tmp_path) == [f"a.{format}"]


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may write everywhere, so it becomes nobody."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_folder_that_cannot_be_written_keeps_its_file() -> None:
    with TemporaryDirectory() as name:
        path = Path(name) / "a.ckpt"
        save_checkpoint(SMALL, path)
        before = path.read_bytes()
        os.chmod(name, 0o555)
        with without_rights(), pytest.raises(GraphFileError, match="cannot be written: Permission denied"):
            save_checkpoint(LARGE, path)
        os.chmod(name, 0o755)
        assert path.read_bytes() == before and files(Path(name)) == ["a.ckpt"]


def test_a_directory_a_device_and_a_file_as_folder_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "a.ckpt", Path("/dev/null"), tmp_path / "file" / "b.ckpt"):
        with pytest.raises(GraphFileError, match="cannot be written"):
            write_bytes(path, b"x")
    assert files(tmp_path) == ["a.ckpt", "file"] and Path("/dev/null").is_char_device()


def test_a_link_stays_a_link_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "latest.ckpt").symlink_to("real.ckpt")
    save_checkpoint(SMALL, tmp_path / "latest.ckpt")
    assert (tmp_path / "latest.ckpt").is_symlink() and files(tmp_path) == ["latest.ckpt", "real.ckpt"]


def test_an_error_between_two_parts_leaves_nothing(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"begun"
        assert len(files(tmp_path)) == 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parts(tmp_path / "a", parts())
    assert files(tmp_path) == []


WRITES_WITHOUT_AN_END = """
import sys, time
from pathlib import Path
from tempfile import TemporaryDirectory
from graphls.base.files.files import write_parts
def parts():
    yield b"begun"
    print("begun", flush=True)
    time.sleep(600)
write_parts(Path(sys.argv[1]), parts())
"""


@contextmanager
def process_that_writes(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITES_WITHOUT_AN_END, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "begun\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["a.ckpt", "a[0]*?.ckpt"])
def test_what_a_killed_process_leaves_goes_with_the_next_file_of_that_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_bytes(path, b"old")
    with process_that_writes(path):
        (unfinished,) = set(files(tmp_path)) - {name}
        assert unfinished.startswith(f".{name}.") and unfinished.endswith(".tmp")
        write_bytes(path, b"from here")
        assert files(tmp_path) == sorted([unfinished, name]), "the other process is still writing"
    assert path.read_bytes() == b"from here"
    write_bytes(tmp_path / "other.ckpt", b"")
    assert unfinished in files(tmp_path)
    write_bytes(path, b"new")
    assert files(tmp_path) == sorted([name, "other.ckpt"]) and path.read_bytes() == b"new"


SAVES_FOR_EVER = """
import sys
import numpy as np
from graphls.train.serialization import save_checkpoint
for number in range(10**9):
    save_checkpoint({"w": np.full(2**18, number, np.float32)}, sys.argv[1], async_save=number % 2 == 1)
    print(number, flush=True)
"""


def test_killing_a_process_that_saves_leaves_a_whole_file(tmp_path: Path) -> None:
    path, rng = tmp_path / "a.ckpt", np.random.default_rng(7)
    for _ in range(3):
        command = [sys.executable, "-c", SAVES_FOR_EVER, str(path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(3):
                process.stdout.readline()
            time.sleep(float(rng.uniform(0, 0.01)))
            process.send_signal(signal.SIGKILL)
        values = load_checkpoint(path)["w"].asnumpy()
        assert values.shape == (2**18,) and np.ptp(values) == 0 and values[0] >= 1
    save_checkpoint(SMALL, path)
    assert files(tmp_path) == ["a.ckpt"]


def test_names_up_to_the_longest_that_a_file_can_have(tmp_path: Path) -> None:
    longest = tmp_path / ("n" * 250 + ".ckpt")
    for _ in range(2):
        save_checkpoint(SMALL, longest)
    assert files(tmp_path) == [longest.name]
    with pytest.raises(GraphFileError, match="File name too long"):
        save_checkpoint(SMALL, tmp_path / ("n" * 260 + ".ckpt"))
