"""Small names of tensors, parameters and dtypes that scripts of MindSpore use."""

from __future__ import annotations

import numpy as np
import pytest

import graphls as gl
from graphls import Parameter, Tensor, nn
from graphls.frontend.tensors import dtypes
from graphls.initializer import initializer


def test_dtypes_print_as_in_mindspore() -> None:
    assert (str(gl.float32), f"{gl.bfloat16}", repr(gl.bool_)) == ("Float32", "Bfloat16", "Bool")


def test_dtypes_of_numpy_and_python() -> None:
    assert dtypes.dtype_to_nptype(gl.float16) is np.float16
    assert [dtypes.dtype_to_pytype(d) for d in (gl.bool_, gl.uint8, gl.float64)] == [bool, int, float]
    assert [dtypes.pytype_to_dtype(t) for t in (bool, int, float, np.int8)] == [gl.bool_, gl.int64, gl.float64, gl.int8]
    with pytest.raises(TypeError, match="is not a class of numbers"):
        dtypes.pytype_to_dtype(str)


def test_tensors_of_arrays_and_of_initial_values() -> None:
    array = np.arange(3.0)
    for made in (Tensor.from_numpy(array), gl.from_numpy(array)):
        assert made.dtype is gl.float64
        np.testing.assert_array_equal(made.asnumpy(), array)
    assert initializer("ones", (2,), gl.float16).init_data().tolist() == [1.0, 1.0]


def test_the_value_of_a_parameter_is_that_of_now() -> None:
    weight = Parameter(Tensor([1.0]), name="w")
    before = weight.value()
    weight.set_data(Tensor([2.0]))
    assert (before.tolist(), weight.value().tolist(), weight.data.tolist()) == ([1.0], [2.0], [2.0])


def test_the_data_of_a_parameter_in_a_trace_is_no_constant() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = Parameter(Tensor([1.0]), name="w")

        def construct(self, x: Tensor) -> Tensor:
            self.weight = self.weight.value() + 1
            return x * self.weight.data

    net = Net()
    found = [net(Tensor([3.0])).tolist() for _ in range(3)]
    assert found == [[6.0], [9.0], [12.0]]


def test_the_seed_that_was_given() -> None:
    gl.set_seed(5)
    assert gl.get_seed() == 5


def test_gradients_of_one_device() -> None:
    parameter = Parameter(Tensor([1.0]), name="w")
    reducer = nn.DistributedGradReducer([parameter], mean=True, degree=1)
    assert [g.tolist() for g in reducer((Tensor([4.0]),))] == [[4.0]]
    with pytest.raises(ValueError, match="degree of DistributedGradReducer is an integer of 1 or more, not 0"):
        nn.DistributedGradReducer([parameter], degree=0)
    with pytest.raises(RuntimeError, match="degree is 2, and this process is alone"):
        nn.DistributedGradReducer([parameter], degree=2)


def test_the_log(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import logging

    from graphls import log

    monkeypatch.setattr(log, "_logger", logging.Logger("graphls-test"))
    monkeypatch.delenv("GLOG_v", raising=False)
    log.info("not shown")
    log.warning("shown %d", 1)
    monkeypatch.setenv("GLOG_v", "3")
    log.warning("not shown")
    log.error("shown 2")
    shown = capfd.readouterr().err.splitlines()
    assert [(line.split()[0], line.split("shown")[-1]) for line in shown] == [("[WARNING]", " 1"), ("[ERROR]", " 2")]
    assert log.get_level() == "3"
