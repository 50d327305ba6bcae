"""MindSpore's checkpoint files, byte for byte, and files that nobody has written."""

from __future__ import annotations

import binascii
from typing import Any

import numpy as np
import pytest
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given, settings
from hypothesis import strategies as st

import graphls
from graphls.interop.formats import safetensors as safetensors_format
from graphls.interop.formats.checkpoint import NAMES, TYPES, decode, encode
from graphls.ir.errors import GraphTypeError, GraphValueError
from tests.train.checkpoint_proto import Checkpoint

BY_HAND = b"".join([
    b"\x0a\x1c",  # Checkpoint.value, 28 bytes
    b"\x0a\x01w",  # tag "w"
    b"\x12\x17",  # tensor, 23 bytes
    b"\x08\x02\x08\x01",  # dims 2, 1
    b"\x12\x07Float32",
    b"\x1a\x08\x00\x00\x80\x3f\x00\x00\x00\xc0",  # tensor_content 1.0, -2.0
    b"\x0a\x1a",  # Checkpoint.value, 26 bytes
    b"\x0a\x05epoch",
    b"\x12\x11",  # tensor of shape (), 17 bytes, no dims
    b"\x12\x05Int64",
    b"\x1a\x08\x03\x00\x00\x00\x00\x00\x00\x00",
])  # fmt: skip
ENTRIES = {"w": np.array([[1.0], [-2.0]], np.float32), "epoch": np.array(3, np.int64)}


def written(entries: Any, **options: Any) -> bytes:
    return b"".join(encode(entries, **options))


def every_dtype() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    arrays = {name: rng.integers(0, 100, (2, 3)).astype(dtype.numpy) for name, dtype in TYPES.items()}
    return arrays | {"empty": np.zeros((0, 4), np.float16), "scalar": np.array(True), "ümläut": np.zeros(300)}


def from_protobuf(data: bytes) -> dict[str, Any]:
    """What google.protobuf reads, for files without slices and strings."""
    message = Checkpoint()
    message.ParseFromString(data)
    tensors = {value.tag: value.tensor for value in message.value}
    return {
        tag: np.frombuffer(t.tensor_content, TYPES[t.tensor_type].numpy).reshape(tuple(t.dims))
        for tag, t in tensors.items()
    }


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


def test_a_file_written_by_hand() -> None:
    assert written(ENTRIES) == BY_HAND
    assert_same(decode(BY_HAND), ENTRIES)


def test_google_protobuf_reads_what_is_written_and_writes_the_same_bytes() -> None:
    arrays = every_dtype()
    data = written(arrays)
    assert_same(from_protobuf(data), arrays)
    assert_same(decode(data), arrays)
    message = Checkpoint()
    for name, array in arrays.items():
        value = message.value.add(tag=name)
        value.tensor.dims.extend(array.shape)
        value.tensor.tensor_type = NAMES[graphls.tensor(array).dtype]
        value.tensor.tensor_content = array.tobytes()
    assert message.SerializeToString() == data


@pytest.mark.parametrize("size", [1, 7, 24, 1000])
def test_large_parameters_stand_in_slices(size: int) -> None:
    array = np.arange(30, dtype=np.float32).reshape(5, 6)
    data = written({"a": array, "b": array.T.copy()}, slice_bytes=size)
    message = Checkpoint()
    message.ParseFromString(data)
    slices = [value.tensor for value in message.value if value.tag == "a"]
    assert len(slices) == min(-(-120 // size), 120) and all(list(s.dims) == [5, 6] for s in slices)
    assert b"".join(s.tensor_content for s in slices) == array.tobytes()
    assert_same(decode(data), {"a": array, "b": array.T.copy()})


def test_strings_are_stored_as_numpy_stores_them() -> None:
    for text in ("lenet", "", "Größe 😀"):
        data = written({"text": text})
        message = Checkpoint()
        message.ParseFromString(data)
        tensor = message.value[0].tensor
        assert (list(tensor.dims), tensor.tensor_type) == ([0], "str")
        assert tensor.tensor_content == np.array(text).tobytes()
        assert decode(data) == {"text": text}


def test_the_checksum() -> None:
    plain, data = written(ENTRIES), written(ENTRIES, crc_check=True)
    assert data == plain + b"crc_num" + binascii.crc32(plain).to_bytes(10, "big")
    for check in (False, True):
        assert_same(decode(data, check), ENTRIES)
    damaged = data.replace(b"\x00\xc0", b"\x00\x40")
    assert float(decode(damaged)["w"][1, 0]) == 2  # type: ignore[index]
    with pytest.raises(GraphValueError, match="crc check"):
        decode(damaged, crc_check=True)


def test_the_mark_of_a_checksum_alone_is_none() -> None:
    with pytest.raises(GraphValueError):
        decode(b"crc_num")


def test_files_of_older_versions() -> None:
    """They have dims [0] for shape (), and the state of random kernels may stand in a value of its own."""
    message = Checkpoint()
    for tag, kind in (("random_op", "random_op"), ("step", "Int32")):
        value = message.value.add(tag=tag)
        value.tensor.dims.append(0)
        value.tensor.tensor_type, value.tensor.tensor_content = kind, b"\x07\0\0\0"
    assert_same(decode(message.SerializeToString()), {"step": np.array(7, np.int32)})


def test_packed_dims_are_read() -> None:
    packed = BY_HAND.replace(b"\x08\x02\x08\x01", b"\x0a\x02\x02\x01")
    assert_same(decode(packed), ENTRIES)
    assert_same(from_protobuf(packed), ENTRIES)


def of_tensor(dims: list[int], kind: str, content: bytes, tag: str = "w", times: int = 1) -> bytes:
    message = Checkpoint()
    for _ in range(times):
        value = message.value.add(tag=tag)
        value.tensor.dims.extend(dims)
        value.tensor.tensor_type, value.tensor.tensor_content = kind, content
    data: bytes = message.SerializeToString()
    return data


def nested(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = b"\x0a" + _VarintBytes(len(data)) + data
    return data


HOSTILE = {
    "a length beyond the file": (b"\x0a\x7f\x0a\x01w", "announced"),
    "a length of 2**63": (b"\x0a" + b"\xff" * 9 + b"\x01", "announced"),
    "a number without an end": (b"\x0a" + b"\xff" * 20, "64 bits"),
    "a number of 65 bits": (b"\x0a" + b"\xff" * 9 + b"\x02", "64 bits"),
    "another field": (b"\x12\x00", "field 2"),
    "the field 0": (b"\x02\x00", "field 0"),
    "a group": (b"\x0b\x0c", "kind 3"),
    "a fixed number": (b"\x0d\0\0\0\0", "kind 5"),
    "a number for a value": (b"\x08\x01", "number instead of bytes"),
    "a value without anything": (b"\x0a\x00", "no 'tag'"),
    "a value without a tensor": (b"\x0a\x03\x0a\x01w", "no 'tensor'"),
    "a tensor without a type": (b"\x0a\x05\x0a\x01w\x12\x00", "no 'tensor_type'"),
    "two tags": (b"\x0a\x06\x0a\x01w\x0a\x01v", "two fields"),
    "a hash table": (b"\x0a\x05\x0a\x01w\x1a\x00", "hash table"),
    "a name that is no text": (BY_HAND.replace(b"\x01w", b"\x01\xff"), "UTF-8"),
    "a negative size": (of_tensor([-1, -1], "Float32", b"\0" * 4), "impossible shape"),
    "sizes that do not fit": (of_tensor([3], "Float32", b"\0" * 8), "do not fit together"),
    "content between elements": (of_tensor([2], "Float32", b"\0" * 7), "do not fit together"),
    "a huge tensor": (of_tensor([2**40, 2**40], "Float32", b""), "impossible shape"),
    "a huge empty tensor": (of_tensor([0, 2**62], "Float32", b""), "impossible shape"),
    "many axes": (of_tensor([1] * 33, "Float32", b"\0" * 4), "impossible shape"),
    "a million axes": (of_tensor([2**62] * 10**5, "Float32", b"\0" * 4), "impossible shape"),
    "an unknown type": (of_tensor([1], "Complex64", b"\0" * 8), "Complex64"),
    "an object": (of_tensor([1], "object", b"\0" * 8), "object"),
    "booleans of 2": (of_tensor([1], "Bool", b"\x02"), "neither 0 nor 1"),
    "a torn string": (of_tensor([0], "str", b"\0\0\0"), "damaged"),
    "a string beyond Unicode": (of_tensor([0], "str", b"\xff" * 4), "damaged"),
    "one tag twice": (of_tensor([1], "Float32", b"\0" * 4, times=2), "do not fit together"),
    "a tag again": (BY_HAND + of_tensor([1], "Float32", b"\0" * 4), "twice"),
    "slices of two dtypes": (of_tensor([1], "Int8", b"\0") + of_tensor([1], "Bool", b"\0"), "differ"),
    "deep nesting": (nested(3000), "UTF-8"),
    "a pickle": (b"cos\nsystem\n(S'true'\ntR.", "kind"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_a_sentence(name: str) -> None:
    data, text = HOSTILE[name]
    with pytest.raises(GraphValueError, match=text) as caught:
        decode(data)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_every_truncation_is_refused_or_ends_between_two_values() -> None:
    entries = dict(list(every_dtype().items())[:8])
    data = written(entries)
    whole = {len(written(dict(list(entries.items())[:n]))) for n in range(9)}
    for length in range(len(data)):
        if length in whole:
            assert len(decode(data[:length])) == sorted(whole).index(length)
        else:
            with pytest.raises(GraphValueError):
                decode(data[:length])


def test_what_a_checkpoint_cannot_hold() -> None:
    with pytest.raises(GraphTypeError):
        written({"a": np.zeros(2, np.complex64)})


VALID = written(every_dtype() | ENTRIES)
MUTATIONS = st.lists(
    st.tuples(st.sampled_from(["set", "cut", "insert", "copy"]), st.integers(0, 2**16), st.binary(max_size=12)),
    min_size=1,
    max_size=4,
)


def mutated(data: bytes, mutations: list[tuple[str, int, bytes]]) -> bytes:
    for kind, place, content in mutations:
        at = place % (len(data) + 1)
        end = at + len(content)
        if kind == "cut":
            data = data[:at] + data[end:]
        elif kind == "copy":
            data = data[:at] + data[place % 97 : place % 97 + len(content)] + data[at:]
        else:
            data = data[:at] + content + data[end if kind == "set" else at :]
    return data


@settings(max_examples=250)
@given(MUTATIONS, st.booleans())
def test_random_mutations_are_refused_or_read_as_protobuf_reads_them(mutations: Any, crc_check: bool) -> None:
    data = mutated(VALID, mutations)
    try:
        found = decode(data, crc_check)
    except GraphValueError:
        return
    assert_same(found, from_protobuf(data))


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_read_as_protobuf_reads_them(data: bytes) -> None:
    try:
        found = decode(data)
    except GraphValueError:
        return
    assert_same(found, from_protobuf(data))


SAFETENSORS = safetensors_format.encode({**every_dtype(), "note": "text"})


@settings(max_examples=200)
@given(MUTATIONS)
def test_random_mutations_of_safetensors_are_refused_or_read(mutations: Any) -> None:
    try:
        found = safetensors_format.decode(mutated(SAFETENSORS, mutations))
    except GraphValueError:
        return
    for entry in found.values():
        assert isinstance(entry, str) or entry.dtype != np.bool_ or set(entry.view(np.uint8).flat) <= {0, 1}
