"""Tensors, parameters, steps and files in low dtypes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import graphls
from graphls import Tensor, nn, ops
from graphls.ir.types import LOW, DType, float4_e2m1fn, float8_e4m3fn, float8_e5m2
from tests.low_precision.numbers import IDS, bits, every
from tests.low_precision.steps import require_engine

EVERY = pytest.mark.parametrize("dtype", LOW, ids=IDS)


@EVERY
@pytest.mark.parametrize("form", ["ckpt", "safetensors"])
def test_files_hold_all_numbers(dtype: DType, form: str, tmp_path: Path) -> None:
    tensor, path = Tensor(every(dtype).reshape(2, -1)), str(tmp_path / f"a.{form}")
    graphls.save_checkpoint([{"name": "w", "data": tensor}], path, format=form)
    loaded = graphls.load_checkpoint(path, format=form)["w"]
    assert loaded.dtype is dtype and loaded.shape == tensor.shape
    np.testing.assert_array_equal(bits(loaded.asnumpy()), bits(tensor.asnumpy()))


def test_safetensors_read_them_by_the_names_of_the_format(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    names = {d.long_name: d for d in LOW}
    path = tmp_path / "a.safetensors"
    data = [{"name": name, "data": Tensor(every(d))} for name, d in names.items()]
    graphls.save_checkpoint(data, str(path), format="safetensors")
    stored = {name: (entry["dtype"], entry["shape"], bytes(entry["data"])) for name, entry in
              safetensors.deserialize(path.read_bytes())}  # fmt: skip
    assert {name: kind for name, (kind, _, _) in stored.items()} == {
        "float8_e4m3fn": "F8_E4M3", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2": "F8_E5M2",
        "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "float4_e2m1fn": "F4",
    }  # fmt: skip
    assert stored["float4_e2m1fn"][1:] == ([16], bytes([0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]))
    odd = [{"name": "w", "data": Tensor(every(float4_e2m1fn)[:3])}]
    with pytest.raises(ValueError, match="in pairs, unlike 'w' of 3 elements"):
        graphls.save_checkpoint(odd, str(path), format="safetensors")


@EVERY
def test_tensors_are_rounded_and_bounded(dtype: DType) -> None:
    x = Tensor([1.0, 1e9, 0.4], dtype)
    assert x.dtype is dtype and x.asnumpy().dtype == getattr(ml_dtypes, dtype.long_name)
    assert float(x.asnumpy()[1]) == min(float(ml_dtypes.finfo(dtype.numpy).max), 2.0**30)
    assert float(x[0].asnumpy()) == 1.0
    assert dtype.long_name[:5].capitalize() in repr(x)
    np.testing.assert_array_equal(x.astype(graphls.float32).asnumpy(), x.asnumpy().astype(np.float32))
    assert graphls.ir.as_dtype(dtype.long_name) is dtype and graphls.ir.as_dtype(dtype.numpy) is dtype


class Quantized(nn.Cell):
    """A state and an input in low dtypes, and results in some."""

    def __init__(self) -> None:
        super().__init__()
        self.w = graphls.Parameter(Tensor(np.float32([[1, 2.3], [3, 500]]), float8_e4m3fn), name="w")

    def construct(self, x: Any, scale: Any) -> Any:
        self.w = ops.cast(ops.cast(self.w, graphls.float32) + x, float8_e4m3fn)
        wide = ops.cast(scale, graphls.float32)
        return self.w, ops.cast(self.w, graphls.float32) * wide, scale.reshape(-1), ops.cast(x, float4_e2m1fn)


def inputs() -> tuple[Tensor, Tensor]:
    return Tensor(np.float32([[1, 2.2], [-3.14, 0.001]])), Tensor(np.float32([[1, 2], [3, 4]]), float8_e5m2)


def two_steps(step: Any) -> list[list[bytes]]:
    return [[result.asnumpy().tobytes() for result in step(*inputs())] for _ in range(2)]


@pytest.mark.parametrize("engine", ["onnxruntime", "xla", "onednn", "numpy"])
def test_steps_take_and_keep_them_on_every_engine(engine: str) -> None:
    require_engine(engine)
    expected = two_steps(graphls.compile(Quantized(), *inputs(), engine="numpy"))
    net = Quantized()
    assert two_steps(graphls.compile(net, *inputs(), engine=engine)) == expected
    assert net.w.dtype is float8_e4m3fn and net.w.asnumpy().tobytes() == expected[1][0]


def test_bundles_hold_them(tmp_path: Path) -> None:
    step = graphls.compile(Quantized(), *inputs())
    step.export(str(tmp_path / "bundle"))
    assert two_steps(graphls.load_step(str(tmp_path / "bundle"))) == two_steps(step)


def test_operators_of_low_dtypes() -> None:
    x = Tensor([1.0, 1e9, -0.3])
    assert np.isnan(ops.cast(x, float8_e4m3fn, saturate=False).asnumpy()[1].astype(np.float32))
    assert ops.cast(x, float8_e4m3fn).asnumpy().astype(np.float32).tolist() == [1, 448, -0.3125]
    assert ops.cast(x, graphls.int32, saturate=False).dtype is graphls.int32
    packed = ops.pack_float4(ops.cast(x, float4_e2m1fn))
    assert packed.asnumpy().tolist() == [0x72, 0x09]
    assert ops.unpack_float4(packed, size=3).asnumpy().astype(np.float32).tolist() == [1, 6, -0.5]
    assert ops.unpack_float4(packed).shape == (4,)


@pytest.mark.parametrize("engine", ["onnxruntime", "xla", "numpy"])
def test_random_rounding_in_a_step_is_that_of_its_seed(engine: str) -> None:
    if engine == "xla":
        pytest.importorskip("jax")
    x = Tensor(np.linspace(-6, 6, 1000, dtype=np.float32))

    def results(name: str) -> list[bytes]:
        graphls.set_seed(5)
        step = graphls.compile(lambda x: ops.round_stochastically(x), x, engine=name)
        return [step(x).asnumpy().tobytes() for _ in range(2)]

    first, second = results(engine)
    assert [first, second] == results("numpy") and first != second
