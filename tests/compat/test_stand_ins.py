"""Names of MindSpore that graphls does not offer: naming them works, using them fails, asking for them tells."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from types import ModuleType, new_class, resolve_bases
from typing import Any, Optional

import pytest

from graphls import compat
from graphls.compat.hook.mindspore_names import paths, section_of
from graphls.compat.hook.stand_in import StandIn, StandInType
from graphls.ir.errors import GraphlsError

pytestmark = pytest.mark.usefixtures("mindspore")

FILE = """
from __future__ import annotations

import mindspore as ms
import mindspore.absent.deep as deep
from mindspore import nn, ops, absent_module
from mindspore.absent import Thing, function
from mindspore.nn import Absent, Dense
from mindspore.absent import *

class Net(nn.Absent):
    def __init__(self):
        super().__init__()
        self.layer = 3

class Mixed(Absent, nn.Cell):
    pass

@function
def decorated(x):
    return x

@ops.absent.inner(1, mode="a")
def configured(x):
    return x

@function
class Decorated:
    @Thing
    def method(self):
        return 1

def with_default(x: Thing = ms.ABSENT) -> Thing:
    return x

dense = Dense(2, 2)
"""


def loaded(path: Path, text: str) -> ModuleType:
    """A file with this text, imported."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """The file above, imported."""
    return loaded(tmp_path / "names_more.py", FILE)


USES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a class that derives": (lambda m: m.Net(), "nn.Absent"),
    "a class that derives from a cell too": (lambda m: m.Mixed(), "nn.Absent"),
    "a decorated function": (lambda m: m.decorated(3), "absent.function"),
    "a function of a decorator with arguments": (lambda m: m.configured(3), "ops.absent"),
    "a decorated class": (lambda m: m.Decorated(), "absent.function"),
    "a call": (lambda m: m.Thing(3, a=4), "absent.Thing"),
    "a call of an attribute": (lambda m: m.Thing.of(3), "absent.Thing"),
    "a function of a module": (lambda m: m.deep.run(), "absent.deep.run"),
    "a function of a name": (lambda m: m.absent_module.run(), "absent_module"),
    "a number": (lambda m: m.with_default() + 1, "ABSENT"),
    "a number on the right": (lambda m: 2 * m.with_default(), "ABSENT"),
    "a truth": (lambda m: not m.with_default(), "ABSENT"),
    "a comparison": (lambda m: m.with_default() == "x", "ABSENT"),
    "a sequence": (lambda m: [*m.with_default()], "ABSENT"),
    "an element": (lambda m: m.with_default()[0], "ABSENT"),
    "a conversion": (lambda m: float(m.with_default()), "ABSENT"),
}


@pytest.mark.parametrize("use", USES)
def test_a_use_is_the_error(use: str, module: ModuleType) -> None:
    call, name = USES[use]
    with pytest.raises(AttributeError, match=rf"^graphls does not offer mindspore\.{name}.*test_stand_ins") as caught:
        call(module)
    assert isinstance(caught.value, GraphlsError)


def test_the_context_of_what_is_absent(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"absent\.Thing"), module.Thing:
        pass


def test_nothing_is_an_instance(module: ModuleType) -> None:
    assert not isinstance(3, module.Thing)
    assert isinstance(3, (module.Thing, int))
    assert issubclass(module.Net, module.Absent)
    assert not issubclass(int, module.Absent)


def test_a_stand_in_shows_what_it_is_and_stays_the_same(module: ModuleType) -> None:
    ms: Any = importlib.import_module("mindspore")
    assert repr(module.Thing) == "<mindspore.absent.Thing, which graphls does not offer>"
    assert (module.Thing.__name__, module.Thing.__qualname__) == ("Thing", "mindspore.absent.Thing")
    assert ms.nn.Absent is module.Absent
    assert {module.Absent: 1}[ms.nn.Absent] == 1
    optional = Optional[module.Thing]  # noqa: UP045
    assert (module.Thing | None, None | module.Thing) == (optional, optional)


def test_an_error_names_what_is_near() -> None:
    import mindspore as ms

    with pytest.raises(AttributeError, match=r"does not offer mindspore.nn.Dens; the nearest is 'Dense'. \(.*\)$"):
        ms.nn.Dens(3, 4)


def test_calls_that_ask_get_the_truth() -> None:
    import mindspore as ms

    ms.nn.Absent  # noqa: B018  (naming it does not make it be there)
    assert not hasattr(ms, "absent_function")
    assert not hasattr(ms.nn, "Absent")
    assert getattr(ms.nn, "Absent", None) is None
    assert "Absent" not in dir(ms.nn)
    assert not hasattr(ms.nn.Absent, "inner")
    assert importlib.util.find_spec("mindspore.absentee") is None
    with pytest.raises(ImportError, match=r"graphls does not offer mindspore.absentee.*test_stand_ins"):
        importlib.import_module("mindspore.absentee")
    with pytest.raises(ImportError, match=r"graphls does not offer mindspore.absentee"):
        __import__("mindspore.absentee")


GUARDED = """
import mindspore as ms
from contextlib import suppress

found = []
try:
    from mindspore.ops import absent_name
except ImportError as error:
    found.append(str(error))
try:
    import mindspore.absentee
except (ValueError, ModuleNotFoundError) as error:
    found.append(str(error))
try:
    from mindspore.absentee.inner import thing
except:
    found.append("bare")
try:
    ms.absent_name
except AttributeError as error:
    found.append(str(error))
with suppress(ImportError):
    from mindspore import absent_name
    found.append("not here")
try:
    from mindspore import absent_name
except ValueError:
    found.append("not here")
try:
    def inner():
        from mindspore import absent_name
        return absent_name
except ImportError:
    pass
inner()
try:
    class Inner:
        from mindspore import absent_name
except ImportError:
    found.append("class")
"""


def test_in_a_try_that_takes_the_error_it_is_raised(tmp_path: Path) -> None:
    found = loaded(tmp_path / "guarded.py", GUARDED).found
    assert [re.sub(r"(; the nearest is .*|\.)? \(.*guarded.py:", " (guarded.py:", text) for text in found] == [
        "graphls does not offer mindspore.ops.absent_name (guarded.py:7)",
        "graphls does not offer mindspore.absentee (guarded.py:11)",
        "bare",
        "graphls does not offer mindspore.absent_name (guarded.py:19)",
        "class",
    ]


def test_text_without_a_file_gets_stand_ins() -> None:
    names: dict[str, Any] = {}
    exec("from mindspore.ops import absent_name\nimport mindspore.absentee.inner\n", names)
    with pytest.raises(AttributeError, match=r"mindspore\.ops\.absent_name"):
        names["absent_name"]()


LOADING = """
import mindspore as ms

fft = ms.ops.FFT3D()
ms.rewrite.common.namespace._subtree_black_list.append(int)
count = lambda: int(fft)

def transform(x):
    return fft(x)
"""


def test_calls_in_the_body_of_a_module_that_is_imported_fail_where_their_result_is_used(tmp_path: Path) -> None:
    module = loaded(tmp_path / "loading.py", LOADING)
    for use in (lambda: module.transform(3), module.count):
        with pytest.raises(AttributeError, match=r"^graphls does not offer mindspore\.ops\.FFT3D\..*loading\.py"):
            use()
    with pytest.raises(AttributeError, match=r"mindspore\.ops\.FFT3D"):
        exec(LOADING, {"__name__": "__main__"})  # a script itself ends where it stands


def test_a_star_imports_all_names_that_mindspore_has(tmp_path: Path) -> None:
    text = "from mindspore.common.dtype import *\nTYPES = {float32: 4, complex64: 8}\nfrom mindspore.nn import *\n"
    module = loaded(tmp_path / "stars.py", text)
    assert [f"{found}" for found in module.TYPES] == ["Float32", repr(module.complex64)]
    assert isinstance(module.DenseThor(3), module.Cell)
    text = "try:\n    from mindspore.nn import *\nexcept ImportError:\n    pass\n"
    guarded = loaded(tmp_path / "guarded_star.py", text)
    assert hasattr(guarded, "Cell") and not hasattr(guarded, "DenseThor")
    assert "DenseThor" not in importlib.import_module("mindspore.nn").__all__


def test_packages_are_told_the_version_of_mindspore_and_find_what_it_loads() -> None:
    import mindspore as ms

    assert version("mindspore") == ms.__version__
    assert [found.name for found in distributions() if found.name == "mindspore"] == ["mindspore"]
    assert "PIL.Image" in sys.modules
    compat.uninstall()
    with pytest.raises(PackageNotFoundError):
        version("mindspore")
    compat.install()


def test_uninstalling_forgets_modules_of_stand_ins() -> None:
    exec("import mindspore.absentee.inner", {})
    compat.uninstall()
    assert not [name for name in sys.modules if name.startswith("mindspore")]
    compat.install()


# -- names that MindSpore 2.10 has ------------------------------------------------------------------------------------


@pytest.mark.slow  # there are 33,000
def test_every_name_of_mindspore_loads_is_derived_from_and_constructs() -> None:
    faults: list[str] = []
    for path in paths():
        full = f"mindspore.{path}".rstrip(".")
        section = section_of(path)
        assert section is not None
        names = [*section.own, *section.imported]
        exec(f"import {full}", {})
        values = eval(f"[{', '.join(f'module.{name}' for name in names)}]", {"module": sys.modules[full]})
        faults += [f"{path}.{name}" for name, value in zip(names, values, strict=True) if not _is_usable(value)]
    assert not faults


def _is_usable(value: Any) -> bool:
    """Whether what stands in for a name can be derived from, and objects be made of it if it is a class."""
    if isinstance(value, StandInType):
        return all(isinstance(kind(1, a=2), value) for kind in (value, type("Derived", (value,), {})))
    is_tried = isinstance(value, StandIn) and len(value.__qualname__) % 20 == 0  # as all are alike
    return not is_tried or issubclass(new_class("Derived", resolve_bases((value,))), value)


def test_classes_that_are_not_offered_construct_and_fail_when_they_are_used() -> None:
    import mindspore as ms
    from mindspore import nn, ops
    from mindspore.dataset import audio
    from mindspore.ops.operations.sparse_ops import DenseToDenseSetOperation

    operator = DenseToDenseSetOperation(set_operation="a-b")
    assert isinstance(operator, ops.Primitive) and operator.shard(((1, 1),)) is operator
    cell = nn.DenseThor(3)
    assert isinstance(cell, nn.Cell) and cell.set_train() is cell and not hasattr(cell, "accu")

    class Own(nn.DenseThor):  # type: ignore[misc]
        def construct(self, x: Any) -> Any:
            return x + 1

    assert Own()(ms.Tensor([1.0])).tolist() == [2.0]
    wrapper = audio.Vol(0.3)
    for use, name in (
        (lambda: operator(1, 2, 3), "ops.operations.sparse_ops.DenseToDenseSetOperation"),
        (lambda: cell(3), "nn.layer.thor_layer.DenseThor"),
        (lambda: cell.accu, "nn.layer.thor_layer.DenseThor"),
        (lambda: wrapper(3), "dataset.audio.transforms.Vol"),
        (lambda: ops.CustomOpBuilder("a", ["b"]).load(), "ops.operations.custom_ops.CustomOpBuilder"),
        (lambda: ms.SummaryLandscape("x").gen_landscapes_with_multi_process(), "SummaryLandscape"),
    ):
        with pytest.raises(AttributeError, match=rf"^graphls does not offer mindspore\..*{name}.*test_stand_ins"):
            use()


def test_values_enumerations_and_errors_are_those_of_mindspore() -> None:
    from mindspore import QuantDtype
    from mindspore.dataset.text import JiebaMode
    from mindspore.ops.signature import make_sig, sig_dtype, sig_rw
    from mindspore.rewrite import NodeType
    from mindspore.train.callback import SummaryCollector
    from mindspore.train.serialization import ENCRYPT_BLOCK_SIZE, _CheckpointProtobufSizeError

    assert ENCRYPT_BLOCK_SIZE == 64 * 1024
    assert [mode.name for mode in JiebaMode] == ["HMM", "MIX", "MP"]
    assert QuantDtype.INT8._value_ == 7
    assert NodeType.CallCell.value == 1 and int(sig_rw.RW_WRITE) == 1
    assert make_sig("x", dtype=sig_dtype.T).dtype is sig_dtype.T
    assert SummaryCollector._DEFAULT_SPECIFIED_DATA["histogram_regular"] is None
    with pytest.raises(ValueError, match="too large"):
        raise _CheckpointProtobufSizeError("too large")
    compat.uninstall()
    assert not hasattr(SummaryCollector, "_DEFAULT_SPECIFIED_DATA")
    compat.install()


def test_a_function_with_the_name_of_its_module_is_the_function() -> None:
    parallel: Any = importlib.import_module("mindspore.parallel.shard") and sys.modules["mindspore.parallel"]
    assert sys.modules["mindspore.parallel.shard"].Layout is parallel.Layout
    net = lambda x: x  # noqa: E731
    assert parallel.shard(net) is net


def test_what_other_modules_of_mindspore_make_is_found_there() -> None:
    import mindspore as ms
    from mindspore.graph.api import jit
    from mindspore.multiprocessing import set_start_method
    from mindspore.ops.auto_generate.gen_ops_def import argmax_ext
    from mindspore.scipy.utils import Tensor

    assert jit is ms.jit and Tensor is ms.Tensor and argmax_ext is ms.mint.argmax
    assert set_start_method.__self__ is not None


def test_settings_of_parallel_training_that_mindspore_has() -> None:
    import mindspore as ms
    from mindspore.parallel._auto_parallel_context import auto_parallel_context

    assert ms.get_auto_parallel_context("dump_device_local_norm") is False
    auto_parallel_context().set_enable_all_reduce_fusion(enable_all_reduce_fusion=True)
    assert auto_parallel_context().get_enable_all_reduce_fusion() is True
    auto_parallel_context().reset()
    assert auto_parallel_context().get_enable_all_reduce_fusion() is False
    with pytest.raises(AttributeError, match="no 'set_enable_all'"):
        auto_parallel_context().set_enable_all(True)


def test_what_files_make_while_they_load_works() -> None:
    import mindspore as ms
    from mindspore import nn, ops
    from mindspore._c_expression import MSContext
    from mindspore.communication import get_group_size, get_rank
    from mindspore.log import get_log_config
    from mindspore.ops import CustomRegOp, DataType

    registration = CustomRegOp("own").input(0, "x").output(0, "y").dtype_format(DataType.F32_Default).target("CPU")
    info = registration.get_op_info()
    assert info["op_name"] == "own" and info["input"] == [(0, "x")] and info["target"] == [("CPU",)]
    assert get_log_config()["GLOG_v"] in "01234"
    ms.device_context.ascend.op_precision.precision_mode("allow_fp32_to_fp16")
    ms.runtime.set_kernel_launch_capture(True)
    ms.device_context.gpu.op_tuning.conv_fprop_algo("performance")
    assert ms.device_context.cpu.is_available() and not ms.device_context.ascend.is_available()
    assert (ms.device_context.cpu.device_count(), ms.device_context.ascend.device_count()) == (1, 0)
    assert (get_rank(), get_group_size()) == (0, 1)
    assert ops.Partial().set_device("CPU")(pow, 2)(3) == 8
    assert MSContext.get_instance().get_ascend_soc_version() == ""
    layer = nn.Dropout(p=0.25)
    assert layer.dropout.shard(((1, 1),)).settings["keep_prob"] == 0.75
    layer.dropout = nn.ReLU()  # as a class that derives from it may do
