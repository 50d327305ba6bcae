"""Entries on disk: what is damaged, cut short or of another version counts as none, and nothing fails for a cache."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls.context import reset_context, set_cache_dir, set_context
from graphls.ir.errors import GraphFileError, GraphTypeError, GraphValueError
from graphls.ir.parse import parse
from graphls.runtime import cache
from graphls.runtime.cache import MAGIC, PAGE, Cache, key_of
from graphls.runtime.lowering.lowering import lower
from tests.primitives.test_every_primitive import PRIMITIVES

PARTS: dict[str, bytes | memoryview] = {"table": b"{}", "model": b"m" * 5000, "empty": b""}


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    Cache.has_warned.clear()
    yield
    reset_context()


def same(found: Any) -> bool:
    return found is not None and {name: bytes(part) for name, part in found.items()} == PARTS


def test_an_entry_comes_back_whole(tmp_path: Path) -> None:
    kept = Cache(tmp_path / "not" / "there" / "yet")
    assert kept.load("a") is None
    kept.keep("a", PARTS)
    assert same(kept.load("a")) and kept.load("b") is None
    assert [path.name for path in kept.folder.iterdir()] == ["a.compiled"]


@pytest.mark.parametrize(
    "size",
    [0, 1, len(MAGIC), len(MAGIC) + 31, len(MAGIC) + 36, len(MAGIC) + 45, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, -1],
)
def test_an_entry_that_was_cut_short_counts_as_none_and_is_written_again(tmp_path: Path, size: int) -> None:
    kept = Cache(tmp_path)
    kept.keep("a", PARTS)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:size])
    assert kept.load("a") is None
    kept.keep("a", PARTS)
    assert same(kept.load("a"))


def test_an_entry_of_another_key_counts_as_none(tmp_path: Path) -> None:
    kept = Cache(tmp_path)
    kept.keep("a", PARTS)
    (tmp_path / "b.compiled").write_bytes((tmp_path / "a.compiled").read_bytes())
    assert same(kept.load("a")) and kept.load("b") is None


def test_a_link_in_the_place_of_an_entry_is_replaced_and_its_target_left(tmp_path: Path) -> None:
    target = tmp_path / "of the user"
    target.write_text("precious")
    (tmp_path / "a.compiled").symlink_to(target)
    kept = Cache(tmp_path)
    kept.keep("a", PARTS)
    assert same(kept.load("a")) and target.read_text() == "precious"
    assert not (tmp_path / "a.compiled").is_symlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_in_the_place_of_an_entry_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.compiled")
    assert Cache(tmp_path).load("a") is None


HEAD = len(MAGIC)


@pytest.mark.parametrize("place", [0, HEAD, HEAD + 33, HEAD + 39, HEAD + 41, PAGE, 3 * PAGE - 1])
def test_an_entry_with_another_byte_counts_as_none(tmp_path: Path, place: int) -> None:
    kept = Cache(tmp_path)
    kept.keep("a", PARTS | {"last": bytes(PAGE)})
    (file,) = tmp_path.iterdir()
    data = bytearray(file.read_bytes())
    data[place] ^= 0x41
    file.write_bytes(data)
    assert kept.load("a") is None


def test_what_was_not_used_for_longest_goes_beyond_the_limit(tmp_path: Path) -> None:
    size = sum(map(len, cache._padded(PARTS))) + PAGE
    kept = Cache(tmp_path, 3 * size)
    for number, key in enumerate("abc"):
        kept.keep(key, PARTS)
        os.utime(tmp_path / f"{key}.compiled", (number, number))
    assert same(kept.load("a")), "which makes it the one that was used last"
    kept.keep("d", PARTS)
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["a", "c", "d"]


def test_what_is_beyond_the_limit_alone_is_not_kept_and_said_once(tmp_path: Path) -> None:
    kept = Cache(tmp_path, 100)
    with pytest.warns(UserWarning, match="takes 16,384 bytes, which is beyond the limit of 100"):
        kept.keep("a", PARTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.keep("b", PARTS)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Cache(tmp_path / "file")
    with pytest.warns(UserWarning, match=r"could not be kept in .*file: .* is not a directory"):
        kept.keep("a", PARTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.keep("b", PARTS)
    assert kept.load("a") is None


def test_a_full_disk_is_one_warning_and_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, parts: Any, follows_links: bool) -> None:
        raise GraphFileError(f"{path} cannot be written: No space left on device.")

    kept = Cache(tmp_path)
    kept.keep("a", PARTS)
    monkeypatch.setattr(cache, "write_parts", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        kept.keep("b", PARTS)
    assert same(kept.load("a"))


def test_what_a_killed_process_has_left_behind_goes(tmp_path: Path) -> None:
    (tmp_path / ".other.compiled.0123.tmp").write_bytes(b"half")
    Cache(tmp_path).keep("a", PARTS)
    assert [path.name for path in tmp_path.iterdir()] == ["a.compiled"]


TEXT = "graph @g(%x: f32[2]) {{\n{nodes}  return %x\n}}\n"
NODES = "".join(f"  %y{i} = exp(%x) : f32[2]  // forward a.b | model.py:{i + 1}\n" for i in range(30))


def test_a_key_knows_all_of_a_graph_but_the_lines_of_the_user() -> None:
    graph = parse(TEXT.format(nodes=NODES))
    key = key_of(graph, engine="one")
    assert key is not None and key == key_of(parse(TEXT.format(nodes=NODES)), engine="one")
    assert key == key_of(parse(TEXT.format(nodes=NODES.replace("model.py", "other.py"))), engine="one")
    others = [NODES.replace("exp", "log", 1), NODES.replace("y7", "z7"), NODES.replace("a.b", "a.c", 1)]
    others += [NODES.replace("forward", "backward", 1), NODES + NODES.splitlines(True)[0].replace("y0", "last")]
    keys = {key, key_of(graph, engine="two"), *(key_of(parse(TEXT.format(nodes=n)), engine="one") for n in others)}
    assert len(keys) == 7


def test_a_key_knows_constants_by_their_bits() -> None:
    nodes = NODES + '  %c = constant() {{value=array(f32[2], [{}, 1.0])}} : f32[2]  // forward\n'
    keys = {key_of(parse(TEXT.format(nodes=nodes.format(value)))) for value in ("0.0", "-0.0", "1.0")}
    assert len(keys) == 3


def test_another_version_or_machine_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parse(TEXT.format(nodes=NODES))
    keys = {key_of(graph)}
    for name, other in (("__version__", "9.9"), ("machine", lambda: "another"), ("_sources", lambda: "others")):
        with monkeypatch.context() as patch:
            patch.setattr(cache, name, other)
            keys.add(key_of(graph))
    assert len(keys) == 4


def test_every_primitive_lies_in_the_sources_of_a_key() -> None:
    rooms = tuple(f"graphls.{room}." for room in cache._SOURCES)
    folder = Path(graphls.__file__).parent
    assert all((folder / room / "__init__.py").exists() for room in cache._SOURCES)
    for kind in map(type, PRIMITIVES):
        assert kind.__module__.startswith(rooms) or not kind.__module__.startswith("graphls."), kind
    assert lower.__module__.startswith(rooms)


@pytest.mark.parametrize("file", ["primitives/arithmetic.py", "ir/types.py", "runtime/lowering/lowering.py"])
def test_a_changed_source_misses_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """What lowers a graph may change without the graph, as the rule of a primitive does in a new version."""
    root = Path(graphls.__file__).parent
    for room in cache._SOURCES:
        shutil.copytree(root / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "__file__", str(tmp_path / Path(cache.__file__).relative_to(root)))
    monkeypatch.setattr(cache, "_sources", cache._sources.__wrapped__)
    graph, kept = parse(TEXT.format(nodes=NODES)), Cache(tmp_path / "entries")
    key = key_of(graph)
    assert key is not None
    kept.keep(key, PARTS)
    assert same(kept.load(key_of(graph) or ""))
    with open(tmp_path / file, "a") as source:
        source.write("# changed\n")
    assert kept.load(key_of(graph) or "") is None


def test_small_graphs_and_primitives_from_elsewhere_have_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parse(TEXT.format(nodes=NODES))
    assert key_of(parse(TEXT.format(nodes=NODES.splitlines(True)[0]))) is None
    monkeypatch.setattr(type(graph.nodes[0].primitive), "__module__", "users.own")
    assert key_of(graph) is None


def test_the_folder_is_that_of_the_settings_or_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRAPHLS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache.current() is None
    monkeypatch.setenv("GRAPHLS_CACHE", str(tmp_path / "environment"))
    assert cache.current() == Cache(tmp_path / "environment")
    graphls.set_cache_dir(tmp_path / "chosen", limit=10**6)
    assert cache.current() == Cache(tmp_path / "chosen", 10**6)
    set_cache_dir(None)
    assert cache.current() == Cache(tmp_path / "environment")
    set_context(enable_compile_cache=True, compile_cache_path=str(tmp_path / "mindspore"))
    assert cache.current() == Cache(tmp_path / "mindspore")
    set_context(compile_cache_path="")
    reset_context()
    set_context(enable_compile_cache=True)
    assert cache.current() == Cache(tmp_path / "home" / "graphls" / "compiled")


def test_wrong_arguments_are_told_at_once() -> None:
    with pytest.raises(GraphTypeError, match="named by a string or a path, not by 3"):
        set_cache_dir(3)  # type: ignore[arg-type]
    with pytest.raises(GraphTypeError, match="a number of bytes, not '4GB'"):
        set_cache_dir("here", limit="4GB")  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="1 byte or more, not 0"):
        set_cache_dir("here", limit=0)
    assert cache.current() is None or os.environ.get("GRAPHLS_CACHE")


def test_arrays_in_an_entry_are_mapped(tmp_path: Path) -> None:
    array = np.arange(3000, dtype=np.float32)
    kept = Cache(tmp_path)
    kept.keep("a", {"first": b"x", "array": memoryview(array).cast("B")})
    found = kept.load("a")
    assert found is not None
    np.testing.assert_array_equal(np.frombuffer(found["array"], np.float32), array)
