"""`python -m graphls train`: from an ONNX model and data to the same model, trained."""

from __future__ import annotations

import re
import signal
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pyarrow
import pytest
from onnx import numpy_helper
from pyarrow import parquet

import graphls
import graphls.onnx
from graphls import adapters, nn
from graphls.cli.main import main
from graphls.dataset import NumpySlicesDataset
from graphls.interop.formats.safetensors import encode
from graphls.train.callbacks import Progress
from tests.onnx.models import filled

MLP = """
<ir_version: 8, opset_import: ["": 17], metadata_props: ["made": "by hand"]>
classifier (float[batch, 4] x) => (float[batch, 3] p)
<float[4, 8] w1, float[8] b1, float[8, 3] w2, float[3] b2>
{
    a = MatMul(x, w1)
    b = Add(a, b1)
    c = Tanh(b)
    d = MatMul(c, w2)
    logits = Add(d, b2)
    p = Softmax <axis = -1> (logits)
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a classifier and data of three classes, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    onnx.save(filled(MLP, w1=(4, 8), b1=(8,), w2=(8, 3), b2=(3,)), "m.onnx")
    draw = np.random.default_rng(0)
    labels = np.arange(48) % 3
    x = (3 * np.eye(3, 4)[labels] + 0.3 * draw.normal(size=(48, 4))).astype(np.float32)
    np.savez("data.npz", x=x, label=labels)
    yield tmp_path
    sys.modules.pop("mine", None)


def train(*more: str, loss: str = "cross_entropy", data: str = "data.npz", output: str = "out.onnx") -> int:
    """Run the command, with a quick optimizer."""
    arguments = ["train", "m.onnx", "--data", data, "--loss", loss, "-o", output, "--learning-rate", "0.05"]
    return main([*arguments, "--batch-size", "16", *more])


def tensors(path: str) -> dict[str, Any]:
    """The initializers of a file."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


def accuracy(path: str) -> float:
    """How often the model is right, by ONNX Runtime alone."""
    data = np.load("data.npz")
    (found,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": data["x"]})
    assert np.allclose(found.sum(axis=1), 1, atol=1e-5)
    return float((found.argmax(axis=1) == data["label"]).mean())


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_a_model_is_trained_and_stays_the_same_model(precision: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--epochs", "6", "--validate", "data.npz", "--frozen", "b2", "--loss-scale", "256")
    assert train(*options, "--precision", precision) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "m.onnx: 3 tensors with 64 elements are trained; 1 frozen: named by frozen= (1: b2)."
    assert out[1].startswith("The model ends in Softmax (p), which cross_entropy computes itself: ")
    assert out[2].startswith("epoch 1/6: 3 steps in ") and "validation loss " in out[2] and "accuracy 1" in out[7]
    assert (out[8] == "No step overflowed; the loss scale is 2^8.") is (precision == "float16")
    assert out[-1] == "out.onnx" and accuracy("out.onnx") > 0.95
    before, after = onnx.load("m.onnx"), onnx.load("out.onnx")
    first, last = tensors("m.onnx"), tensors("out.onnx")
    changed = {name for name, array in last.items() if not np.array_equal(array, first[name])}
    assert changed == {"w1", "b1", "w2"}
    for model in (before, after):
        del model.graph.initializer[:]
    assert before == after


def test_steps_that_overflow_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--epochs", "4", "--precision", "float16", "--loss-scale", "1e8", "--no-checkpoints") == 0
    *_, steps, why, most, _ = capsys.readouterr().out.splitlines()
    assert " of 12 steps overflowed and were skipped (steps 1 to " in steps and "went from 1e+08 to " in steps
    assert why.startswith("The backward overflows first, in ")
    found = re.fullmatch(r"Most steps went into the search for a scale: begin with --loss-scale (\d+), .*", most)
    assert found is not None
    again = ("--epochs", "4", "--precision", "float16", "--loss-scale")
    assert train(*again, found[1], "--no-checkpoints") == 0
    assert "No step overflowed" in capsys.readouterr().out
    assert train(*again, f"{4 * int(found[1])}", "--no-checkpoints") == 0  # one or two of which do not fit
    *_, steps, _, advice, _ = capsys.readouterr().out.splitlines()
    assert steps[0] in "12" and advice == "That is how the scale is found; nothing needs to be done."
    data = np.load("data.npz")
    np.savez("huge.npz", x=data["x"] * 1e6, label=data["label"])
    assert train("--precision", "float16", "--no-checkpoints", data="huge.npz", output="none.onnx") == 1
    out, error = capsys.readouterr()
    assert "The forward overflows first" in out and "train with --precision bfloat16 or float32" in out
    assert error.startswith("graphls: Every step was skipped, so none.onnx is not written.")
    assert not Path("none.onnx").exists() and not Path("out.checkpoints").exists()


def test_a_model_is_trained_on_a_mesh_and_goes_on_on_another(capsys: pytest.CaptureFixture[str]) -> None:
    """With overflows, which are explained as on one device, evaluation, and a checkpoint in between."""
    pytest.importorskip("jax")
    settings = ("--precision", "float16", "--loss-scale", "1e7", "--epochs")
    validation = ("--validate", "data.npz")
    assert train(*settings, "6", *validation, output="one.onnx") == 0
    one = capsys.readouterr().out.splitlines()
    assert train(*settings, "3", "--mesh", "data=4,model=2", "--zero", "1") == 0
    assert train(*settings, "6", "--mesh", "data=2", "--zero", "3", "--resume", *validation) == 0
    several = capsys.readouterr().out.splitlines()
    first, last = tensors("one.onnx"), tensors("out.onnx")
    for name in first:
        np.testing.assert_allclose(last[name], first[name], rtol=2e-2, atol=2e-3)
    assert any(line.startswith("The backward overflows first, in ") for line in one)
    why, same = ([line for line in lines if "overflows first" in line] for lines in (one, several))
    assert why == same
    assert "Going on after step 9." in several and accuracy("out.onnx") > 0.95
    assert train("--engine", "xla", "--no-checkpoints") == 0


@pytest.mark.parametrize("updates", [(), ("--accumulate-steps", "2", "--ema-decay", "0.9", "--validate", "data.npz")])
def test_a_run_goes_on_with_the_same_bits(
    updates: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("--precision", "float16", "--optimizer", "sgd{momentum=0.9}", "--warmup", "2", "--clip", "1", *updates)
    assert train("--epochs", "4", *settings, output="whole.onnx") == 0
    Path("out.onnx").write_bytes(b"mine")

    def stop(self: Progress, run_context: Any) -> None:
        if run_context.original_args().cur_step_num == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "on_train_step_begin", stop)
        assert train("--epochs", "4", *settings) == 130
    assert "interrupted, out.onnx is as it was; --resume goes on from out.checkpoints." in capsys.readouterr().err
    assert Path("out.onnx").read_bytes() == b"mine" and not list(Path().glob(".*.tmp"))
    assert train("--epochs", "4", *settings, "--seed", "1", "--resume") == 1
    assert "is of a run with --seed 0, not 1; give what that run had" in capsys.readouterr().err
    assert train("--epochs", "4", *settings, "--resume") == 0
    assert "Going on after step 4." in capsys.readouterr().out
    assert Path("out.onnx").read_bytes() == Path("whole.onnx").read_bytes()
    assert train("--epochs", "4", *settings, "--resume") == 0
    assert "12 steps are done, which are 4 epochs; --epochs 5 would go on." in capsys.readouterr().out


def test_updates_are_those_of_model() -> None:
    """Accumulated and clipped gradients and averages, against Model with the same numbers."""
    sgd = ("--optimizer", "sgd", "--no-shuffle", "--no-checkpoints", "--epochs", "2")
    assert train(*sgd, "--accumulate-steps", "3", "--clip-value", "0.001", "--ema-decay", "0.5") == 0
    first, data = tensors("m.onnx"), np.load("data.npz")
    cell = graphls.onnx.load("m.onnx", trainable="*", outputs=["logits"])
    model = graphls.Model(
        cell, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
        nn.SGD(cell.trainable_params(), 0.05), accumulate_steps=3, clip_value=0.001, ema_decay=0.5,
    )  # fmt: skip
    rows = NumpySlicesDataset((data["x"], data["label"].astype(np.int32)), ["x", "y"], shuffle=False).batch(16)
    model.train(2, rows)
    with model.ema_weights():
        expected = {p.name: p.asnumpy().copy() for p in cell.trainable_params()}
    found = tensors("out.onnx")
    assert set(expected) == set(found)
    assert all(not np.array_equal(p.asnumpy(), expected[p.name]) for p in cell.trainable_params())
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-7)
        assert 0 < np.abs(found[name] - first[name]).max() <= 0.05 * 0.001 * 1.51


def test_a_softmax_that_is_written_out_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--no-checkpoints", "--epochs", "2") == 0
    wanted = tensors("out.onnx")
    parts = "m = ReduceMax <axes = [1]> (logits)  s = Sub(logits, m)  e = Exp(s)  t = ReduceSum(e, axes)"
    text = MLP.replace("p = Softmax <axis = -1> (logits)", f"{parts}  u = Expand(t, one)  p = Div(e, u)")
    text = text.replace("float[3] b2>", "float[3] b2, int64[1] axes = {1}, int64[1] one = {1}>")
    onnx.save(filled(text, w1=(4, 8), b1=(8,), w2=(8, 3), b2=(3,)), "m.onnx")
    assert train("--no-checkpoints", "--epochs", "2") == 0
    assert "The model ends in Softmax (p), which cross_entropy computes itself" in capsys.readouterr().out
    found = tensors("out.onnx")
    assert all(np.allclose(array, found[name], atol=1e-6) for name, array in wanted.items())


def test_a_run_that_is_told_to_end(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(self: Progress, run_context: Any) -> None:
        if run_context.original_args().cur_step_num == 4:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Progress, "on_train_step_begin", tell)
    assert train("--epochs", "4", "--validate", "data.npz") == 143
    assert "interrupted, out.onnx is as it was; --resume goes on from out.checkpoints." in capsys.readouterr().err
    assert {path.name for path in Path("out.checkpoints").glob("*.ckpt")} == {"train-1_3.ckpt", "train-2_1.ckpt"}


MINE = """
import numpy as np
from graphls import nn, ops

data = np.load("data.npz")
x, label = data["x"], data["label"]

def arrays():
    return {"x": x.astype(np.float64), "digit": label.astype(np.int8)}

def batches():
    for i in range(0, 48, 16):
        yield {"digit": label[i : i + 16], "x": x[i : i + 16]}

def samples():
    yield from zip(x, label)

def broken():
    yield x[0], label[0]
    raise RuntimeError("the disk is full")

def short():
    yield x[0]

def empty():
    return iter(())

class Loss(nn.Cell):
    def construct(self, prediction, label):
        return ops.mean(ops.nll_loss(ops.log(prediction), label))

def vector(prediction, label):
    return ops.sum(prediction, 1)
"""


def test_all_kinds_of_data_train_alike() -> None:
    data = np.load("data.npz")
    Path("mine.py").write_text(MINE)
    Path("d.safetensors").write_bytes(encode({"x": data["x"], "digit": data["label"].astype(np.int32)}))
    rows = [f"{t},{','.join(str(float(v)) for v in r)}" for r, t in zip(data["x"], data["label"], strict=True)]
    Path("d.csv").write_text("\n".join(["digit,x[0],x[1],x[2],x[3]", *rows]))
    table = Path("d.csv").read_text()
    Path("e.csv").write_text(table.replace("digit", "digit1", 1).replace("x[", "in ").replace("]", ""))
    assert train("--no-shuffle", "--no-checkpoints", "--bind", "x=in *", "--label", "digit1", data="e.csv") == 0
    written = {"e.csv": Path("out.onnx").read_bytes()}
    parquet.write_table(pyarrow.table({"x": data["x"].tolist(), "digit": data["label"]}), "d.parquet")
    for source in ("data.npz", "d.safetensors", "d.csv", "d.parquet", "mine:arrays", "mine:batches", "mine:samples"):
        assert train("--no-shuffle", "--no-checkpoints", data=source) == 0
        written[source] = Path("out.onnx").read_bytes()
    assert len(set(written.values())) == 1
    assert train("--no-shuffle", "--no-checkpoints", data="mine:arrays", loss="mine:Loss") == 0
    other = tensors("out.onnx")
    Path("out.onnx").write_bytes(written["data.npz"])
    assert all(np.allclose(array, other[name], atol=1e-5) for name, array in tensors("out.onnx").items())


REGRESSION = """
<ir_version: 8, opset_import: ["": 17]>
line (float[n, 2, 2] x, float scale) => (float[n, 1] y, float[n] other) <float[4, 1] w, float[1] b>
{
    flat = Flatten(x)
    a = MatMul(flat, w)
    c = Add(a, b)
    y = Mul(c, scale)
    other = ReduceSum <keepdims = 0> (flat)
}
"""


@pytest.mark.parametrize("loss", ["mse", "l1", "huber", "binary_cross_entropy"])
def test_losses_of_numbers(loss: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels (N,) of a prediction (N, 1) are no (N, N) differences; a table fills an input of two axes."""
    onnx.save(filled(REGRESSION, w=(4, 1), b=(1,)), "m.onnx")
    draw = np.random.default_rng(1)
    rows = [[*row, float(row[0] > 0)] for row in draw.normal(size=(64, 4))]
    Path("d.csv").write_text("\n".join(["x0,x1,x2,x3,target", *(",".join(map(str, row)) for row in rows)]))
    options = ("--fixed", "scale=1", "--prediction", "y", "--validate", "d.csv", "--epochs", "8", "--no-checkpoints")
    assert train(*options, "--schedule", "cosine", "--optimizer", "adam", loss=loss, data="d.csv") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    first, *_, last = (float(line.partition("validation loss ")[2].partition(",")[0]) for line in lines)
    assert last < 0.8 * first
    assert ("accuracy" in lines[0]) is (loss == "binary_cross_entropy")
    assert train(*options[2:], loss=loss, data="d.csv") == 1
    assert "'scale' of the model is one number, and has no rows of data; give it one" in capsys.readouterr().err


TOKENS = """
<ir_version: 8, opset_import: ["": 17]>
tagger (int64[n, 5] ids) => (float[n, 5, 3] scores) <float[7, 3] table>
{ scores = Gather(table, ids) }
"""


def test_classes_along_the_last_axis(capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(filled(TOKENS, table=(7, 3)), "m.onnx")
    ids = np.random.default_rng(0).integers(0, 7, (32, 5)).astype(np.int32)
    tags = np.where(ids == 6, -100, ids % 3)
    np.savez("tokens.npz", ids=ids, tags=tags)
    options = ("--epochs", "20", "--validate", "tokens.npz", "--no-checkpoints")
    assert train(*options, "--optimizer", "sgd", "--learning-rate", "5", data="tokens.npz") == 0
    assert capsys.readouterr().out.splitlines()[-2].endswith("accuracy 1")
    assert np.array_equal(tensors("out.onnx")["table"][6], tensors("m.onnx")["table"][6])  # ignored, so not trained


LOSS = """
<ir_version: 8, opset_import: ["": 17]>
whole (float[4, 2] x, float[4, 1] y) => (float loss) <float[2, 1] w>
{
    a = MatMul(x, w)
    d = Sub(a, y)
    s = Mul(d, d)
    loss = ReduceMean <keepdims = 0> (s)
}
"""


def test_a_model_that_gives_its_own_loss_in_batches_of_a_size(capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(filled(LOSS, w=(2, 1)), "m.onnx")
    x = np.random.default_rng(0).normal(size=(18, 2))
    np.savez("own.npz", x=x, y=x @ [[1.0], [-2.0]])
    arguments = ["train", "m.onnx", "--data", "own.npz", "--loss", "none", "-o", "out.onnx", "--epochs", "60"]
    assert main([*arguments, "--optimizer", "sgd", "--learning-rate", "0.1", "--no-checkpoints"]) == 0
    assert np.allclose(tensors("out.onnx")["w"], [[1], [-2]], atol=1e-2)
    out = capsys.readouterr().out
    assert "epoch 1/60: 4 steps in" in out and "so 2 of the 18 rows of own.npz are left out." in out


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"x": None, "X": np.zeros((8, 4))}, "takes the input 'x', and bad.npz has only 'label', 'X'"),
        ({"x": np.zeros((48, 5))}, "have the shape (5,), and the model takes (4,); reshape the data."),
        ({"x": np.full((48, 4), np.nan)}, "'x' in bad.npz is nan in row 0; take such rows out or fill them."),
        ({"x": np.full((48, 4), "a")}, "'x' in bad.npz holds 'a', which is not a number"),
        ({"x": np.zeros((47, 4))}, "'x' has 47 rows and the label has 48; give the same number of each."),
        ({"x": np.zeros((0, 4)), "label": np.zeros(0)}, "bad.npz has no rows; give it some."),
        ({"label": np.arange(48)}, "The label 3 in row 3 of bad.npz is not one of the model's 3 classes"),
        ({"label": np.arange(48) / 2}, "The label 0.5 in row 1 of bad.npz is not a class; give numbers of classes, or"),
        ({"x": np.zeros((48, 4), complex)}, "'x' in bad.npz is of the type complex128; give real numbers."),
        ({"label": np.full(48, np.inf)}, "The label in bad.npz holds nan or an infinity"),
        ({"label": None}, "has 0 arrays beside the inputs of the model, and one is the label; add it"),
        ({"more": np.zeros(48)}, "beside the inputs of the model ('label', 'more'), and one is the label; name it"),
        ({"label": np.zeros((48, 2, 2), int)}, "The label has the shape (16, 2, 2) for a prediction of (16, 3)"),
    ],
)
def test_data_that_does_not_fit(changes: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = {**np.load("data.npz"), **changes}
    np.savez("bad.npz", **{name: array for name, array in arrays.items() if array is not None})
    assert train(data="bad.npz") == 1
    error = capsys.readouterr().err
    assert told in error and error.startswith("graphls: ") and error.count("\n") == 1
    assert not Path("out.onnx").exists()


def test_data_that_memory_does_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile("huge.npz", "w") as file:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"
        file.writestr("x.npy", b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n")
    assert train(data="huge.npz") == 1
    assert "The memory is too small: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--data", "none.npz"], "none.npz cannot be read: No such file or directory."),
        (["--data", "data.txt"], "Data is a file that ends in .npz, .safetensors, .csv, .parquet"),
        (["--data", "m.onnx:x"], "There is no module 'm.onnx' for --data m.onnx:x"),
        (["--data", "mine:bathces"], "The module mine has no function 'bathces'; did you mean 'batches'."),
        (["--data", "mine:broken"], "mine:broken failed: RuntimeError: the disk is full."),
        (["--data", "mine:short"], "mine:short gives items of 1 arrays, and training takes 2: x, the label;"),
        (["--data", "mine:empty"], "mine:empty yields no data; let it yield batches or samples."),
        (["--data", "mine:x"], "--data takes a function, and mine:x is of type ndarray."),
        (["--loss", "mine:vector"], "A loss is one number of a batch, and this is of the shape (16,)"),
        (["--loss", "crossentropy"], "There is no loss 'crossentropy'; did you mean 'cross_entropy'; take one of"),
        (["--loss", "mse"], "The label has the shape (16,) for a prediction of (16, 3); give it that shape."),
        (["--optimizer", "adma"], "There is no optimizer 'adma'; did you mean 'adam"),
        (["--optimizer", "sgd{momentun=1}"], "The optimizer SGD has no setting 'momentun'; it has learning_rate,"),
        (["--optimizer", "sgd{momentum}"], "The settings 'momentum' do not parse; write them like 'momentum=0.9,"),
        (["--learning-rate", "1e38", "--optimizer", "sgd"], "training ends; take a smaller --learning-rate, --clip 1"),
        (["--trainable", "head.*"], "No float tensor of the model is called 'head.*', as trainable asks"),
        (["--frozen", "*"], "m.onnx has no tensor of floats that is trained; name some with --trainable"),
        (["--prediction", "q"], "The model has no tensor 'q', which --prediction names"),
        (["--label", "labl"], "data.npz has no array 'labl', which --label names; did you mean 'label'."),
        (["--bind", "x"], "--bind takes a name and columns or patterns of them, such as x=length,width"),
        (["--bind", "x=pixel_*"], "The data has no pixel_*, which --bind calls 'x'."),
        (["--fixed", "x"], "--fixed takes name=value with a number or a list"),
        (["--epochs", "0"], "--epochs is a number of 1 or more, not 0."),
        (["--clip", "0"], "--clip is a norm above 0, not 0.0."),
        (["--clip-value", "-1"], "--clip-value is a number above 0, not -1.0."),
        (["--clip-norm", "1", "--clip-value", "1"], "Gradients are clipped by --clip or by --clip-value, not both."),
        (["--accumulate-steps", "0"], "--accumulate-steps is a number of 1 or more, not 0."),
        (["--ema-decay", "1"], "--ema-decay is a number between 0 and 1, not 1.0."),
        (["--engine", "onedn"], "There is no engine 'onedn'; did you mean 'onednn'"),
        (["--mesh", "data"], "--mesh takes axes with numbers of devices, such as data=64,model=8, not 'data'."),
        (["--zero", "1"], "--zero divides states among the devices of a mesh; name it, such as --mesh data=4."),
        (["--mesh", "data=2", "--engine", "onednn"], "The engine 'onednn' runs on one device, and mesh(data=2) has 2"),
        (["--resume"], "There is no checkpoint in out.checkpoints to go on from; train without --resume."),
        (["-o", "."], "cannot be written: . is a directory."),
        (["-o", "m.onnx/x.onnx"], "m.onnx is no directory."),
    ],
)
def test_options_that_do_not_fit(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(MINE)
    assert train("--no-checkpoints", *options) == 1
    error = capsys.readouterr().err
    assert told in error and error.startswith("graphls: ") and error.count("\n") == 1
    assert not Path("out.onnx").exists()


def test_adapters_are_trained_saved_apart_and_merged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--lora", "2", "--lora-match", "w?", "--lora-alpha", "4", "--trainable", "b2")
    assert train(*options, "--adapters", "apart", "--epochs", "6") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "m.onnx: 5 tensors with 49 elements are trained; 3 frozen: requires_grad=False (3: w1, b1, w2)."
    assert out[-2:] == ["apart", "out.onnx"] and accuracy("out.onnx") > 0.9
    first, last = tensors("m.onnx"), tensors("out.onnx")
    assert [name for name in first if not np.array_equal(first[name], last[name])] == ["w1", "w2", "b2"]
    net = graphls.onnx.load("m.onnx")
    assert adapters.load_adapters(net, "apart") == ["w1", "w2"]
    x = np.load("data.npz")["x"]
    (expected,) = onnxruntime.InferenceSession("out.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(net(graphls.Tensor(x)).asnumpy(), expected, atol=1e-5)


def test_adapters_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--lora", "2", "--lora-match", "q_proj*") == 1
    assert "No weight of a product matches ['q_proj*']; there are 'w1', 'w2'." in capsys.readouterr().err
    assert train("--lora-match", "w1") == 1
    assert "give their rank with --lora." in capsys.readouterr().err
    assert train("--lora", "0") == 1
    assert "--lora is a number of 1 or more, not 0." in capsys.readouterr().err
