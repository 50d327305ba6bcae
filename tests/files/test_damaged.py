"""Damaged files of all kinds are errors of graphls, soon; `python -m tests.files.damaged` reads many more."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import pytest

import graphls
from graphls import nn, train
from graphls.cli.training.columns import read_columns
from graphls.interop.torch import load_optimizer_state_dict, load_state_dict
from graphls.ir.errors import GraphlsError
from tests.files.damaged import KINDS, faults


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_errors_of_graphls(kind: str) -> None:
    assert not list(faults(kind, range(12)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    KINDS[kind].write(tmp_path)
    (tmp_path / KINDS[kind].file).unlink()
    os.mkfifo(tmp_path / KINDS[kind].file)
    with pytest.raises((GraphlsError, OSError), match=r"not a regular file|does not exist|did not match any files"):
        KINDS[kind].read(tmp_path)


def header(text: str) -> bytes:
    """An array whose header says this."""
    content = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(content)) + content + bytes(16)


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f4', 'fortran_order': (((((, 'shape': (4,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), ",
        "{'descr': 'O', 'fortran_order': False, 'shape': (4,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }",
        "{'descr': '<f4,' * 3}", "[1, 2", "\0",
    ],
)  # fmt: skip
def test_headers_of_arrays_that_are_none(text: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        archive.writestr("x.npy", header(text))
    with pytest.raises(ValueError, match=r"bad\.npz is not a file of numpy\.savez"):
        read_columns(tmp_path / "bad.npz")


@pytest.mark.parametrize("ending", [".ckpt", ".safetensors"])
def test_a_name_that_no_file_can_have_is_one_that_is_not_there(ending: str) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        train.load_checkpoint("a" * 300 + ending)


def test_long_names_of_other_files_are_told() -> None:
    name = "a" * 300
    for read in (graphls.onnx.load, graphls.load_step, lambda path: load_state_dict(nn.Dense(2, 2), path + ".pt")):
        with pytest.raises(OSError, match="File name too long"):
            read(name)


def archive(content: bytes) -> bytes:
    """A file as torch.save has it, with this pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("archive/data.pkl", content)
    return file.getvalue()


PAIRS = 40
DOUBLED = pickle.BININT1 + b"\1" + (pickle.BINPUT + b"\0" + pickle.BINGET + b"\0" + pickle.TUPLE2) * PAIRS
STORAGE = b"\x80\x02X\x07\0\0\0storagectorch\nFloatStorage\n"
HOSTILE = {
    "a value": b"}X\1\0\0\0a" + DOUBLED + b"s",
    "a state": b"}X\5\0\0\0state" + DOUBLED + b"sX\x0c\0\0\0param_groups]s",
    "a key": b"}" + DOUBLED + b"K\1s",
    "one of two keys": b"}(" + DOUBLED + b"K\1K\2K\1u",
    "a key of an OrderedDict": b"ccollections\nOrderedDict\n(](" + DOUBLED + b"K\1ltR",
    "the name of a storage": b"(X\x07\0\0\0storagectorch\nFloatStorage\n" + DOUBLED + b"X\3\0\0\0cpuK\1tQ",
    "the size of a storage": b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0aX\3\0\0\0cpu" + DOUBLED + b"tQ",
    "a list in itself": b"]\x71\0h\0a",
    "a dict in itself": b"}\x71\0X\5\0\0\0modelh\0s",
}


@pytest.mark.parametrize("where", HOSTILE)
def test_a_few_bytes_cannot_stand_for_endless_objects(where: str, tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(archive(b"\x80\x02" + HOSTILE[where] + b"."))
    net = nn.Dense(2, 2)
    with pytest.raises(ValueError, match=r"cannot be read|There is no state"):
        load_optimizer_state_dict(nn.AdamW(net.trainable_params(), 0.1), net, tmp_path / "a.pt")
    with pytest.raises(ValueError, match="cannot be read"):
        load_state_dict(net, tmp_path / "a.pt")
