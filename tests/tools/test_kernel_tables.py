"""The tables of kernels as a file, and as the runtime tells them."""

from __future__ import annotations

import onnxruntime
import pytest

from graphls.runtime.lowering.kernel_tables import FILE
from tools.kernel_tables import read, runtime_tables, table_of, written


def test_the_file_is_written_as_it_is_read() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert written(*read(text)) == text


def test_every_table_says_where_it_comes_from() -> None:
    sources, _, tables = read(FILE.read_text(encoding="utf-8"))
    assert sources.keys() == tables.keys() and all(source["provider"] for source in sources.values())


def test_the_runtime_tells_what_is_in_the_file() -> None:
    _, _, tables = read(FILE.read_text(encoding="utf-8"))
    version, found = runtime_tables()
    assert version == onnxruntime.__version__
    known = {device: f"{device} {version}" for device in found if f"{device} {version}" in tables}
    if not known:
        pytest.skip("the file has no table of this runtime, or the runtime tells none")
    for device, name in known.items():
        assert found[device] == tables[name]


class Kernel:
    """A kernel as the runtime tells it."""

    def __init__(self, since: int, until: int, *kinds: str) -> None:
        self.domain, self.op_name, self.version_range = "", "Add", (since, until)
        self.type_constraints = {"T": list(kinds)}


def test_kernels_that_differ_in_a_type_only_are_one_row() -> None:
    kernels = [Kernel(7, 13, "tensor(float)"), Kernel(7, 13, "tensor(double)"), Kernel(14, 2**31 - 1, "tensor(float)")]
    expected = [(14, None, {"T": frozenset({"float"})}), (7, 13, {"T": frozenset({"float", "double"})})]
    assert table_of(kernels) == {"": {"Add": expected}}
