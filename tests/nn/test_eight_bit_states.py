"""States of optimizers in 8 bits: the map and the codes of bitsandbytes, on every engine, and in training steps."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.ops.eight_bit_states import EightBitState
from graphls.ops.operands import apply
from graphls.primitives import blockwise
from graphls.primitives.blockwise import borders, dynamic_map

Array = np.ndarray[Any, Any]
F32 = np.float32
BACKENDS = ("numpy", "onnxruntime", "xla")
SIGNS = (True, False)
MAKERS: dict[str, Callable[..., nn.Optimizer]] = {
    "Adam": lambda p, **bits: nn.Adam(p, 0.01, **bits),
    "AMSGrad": lambda p, **bits: nn.Adam(p, 0.01, use_amsgrad=True, **bits),
    "Adam by Nesterov": lambda p, **bits: nn.Adam(p, 0.01, use_nesterov=True, **bits),
    "LazyAdam": lambda p, **bits: nn.LazyAdam(p, 0.01, **bits),
    "AdamW": lambda p, **bits: nn.AdamW(p, 0.01, **bits),
    "AdamW by the largest": lambda p, **bits: nn.AdamW(p, 0.01, amsgrad=True, **bits),
    "AdamWeightDecay": lambda p, **bits: nn.AdamWeightDecay(p, 0.01, weight_decay=0.1, **bits),
    "Lamb": lambda p, **bits: nn.Lamb(p, 0.01, **bits),
    "Lion": lambda p, **bits: nn.Lion(p, 0.01, **bits),
    "Momentum": lambda p, **bits: nn.Momentum(p, 0.1, 0.9, **bits),
    "SGD": lambda p, **bits: nn.SGD(p, 0.1, 0.9, **bits),
    "SGD with dampening": lambda p, **bits: nn.SGD(p, 0.1, 0.9, 0.1, **bits),
    "LARS": lambda p, **bits: nn.LARS(nn.Momentum(p, 0.1, 0.9, **bits), coefficient=0.1),
}


def engine(backend: str) -> dict[str, str]:
    if backend != "xla":
        return {"backend": backend}
    pytest.importorskip("jax")
    return {"engine": "xla"}


# -- the map, and the codes -----------------------------------------------------------------------------------

# Some numbers of create_dynamic_map of bitsandbytes 0.50.2, and the crc32 of the bytes of all.
SIGNED = {
    0: -0.992968738079071, 1: -0.9789062738418579, 63: -0.10703125596046448, 64: -0.09859374910593033,
    126: -5.500000384017767e-07, 127: 0.0, 128: 5.500000384017767e-07, 129: 3.250000190746505e-06,
    130: 7.749999895168003e-06, 131: 2.1249998098937795e-05, 191: 0.10703125596046448, 192: 0.12109375,
    253: 0.9789062738418579, 254: 0.992968738079071, 255: 1.0,
}  # fmt: skip
UNSIGNED = {
    0: 0.0, 1: 3.2500003044333425e-07, 63: 0.010703125968575478, 64: 0.012109375558793545, 126: 0.09929687529802322,
    127: 0.103515625, 128: 0.11054687201976776, 191: 0.5535156726837158, 192: 0.560546875, 253: 0.9894530773162842,
    254: 0.9964843988418579, 255: 1.0,
}  # fmt: skip


@pytest.mark.parametrize(("is_signed", "numbers", "check"), [(True, SIGNED, 454261483), (False, UNSIGNED, 3899729807)])
def test_the_map_is_that_of_bitsandbytes(is_signed: bool, numbers: dict[int, float], check: int) -> None:
    codes = dynamic_map(is_signed)
    assert codes.dtype == np.float32 and codes.shape == (256,) and (np.diff(codes) > 0).all()
    assert {i: float(codes[i]) for i in numbers} == numbers
    assert zlib.crc32(codes.tobytes()) == check


@pytest.mark.parametrize("is_signed", SIGNS)
def test_a_cell_has_at_most_one_border_also_where_a_place_is_rounded(is_signed: bool) -> None:
    codes, limits = blockwise._cells(is_signed)
    cells = np.arange(1 << 16).astype(np.uint16).view(np.int16).astype(np.float64)
    highest = np.clip((np.where(cells < 0, cells, cells + 1) + blockwise.SLACK) / blockwise.CELLS, -1, 1)
    with np.errstate(divide="ignore"):
        last = np.searchsorted(borders(is_signed), highest / (1 - abs(highest)) / blockwise.FINE)
    assert set((last - codes).tolist()) == {0, 1}
    assert (limits == borders(is_signed)[codes] * F32(blockwise.FINE)).all()


@pytest.mark.parametrize("is_signed", SIGNS)
def test_numbers_with_one_upper_half_have_at_most_one_border(is_signed: bool) -> None:
    halves = borders(is_signed)[:-1].view(np.uint32) >> 16
    assert len(set(halves.tolist())) == 255


def test_maxima_of_another_shape_are_refused() -> None:
    with pytest.raises(GraphValueError, match=r"takes maxima of the shape \(3,\), one for each block of 256 elements"):
        apply("quantize_blockwise", np.ones((2, 300), F32), np.ones(2, F32), is_signed=True)
    with pytest.raises(GraphTypeError, match="takes codes in uint8, not f32"):
        apply("dequantize_blockwise", np.ones(256, F32), np.ones(1, F32), is_signed=True)


class Stored(nn.Cell):
    """Writes a value to a state, and returns what was in there before."""

    def __init__(self, state: EightBitState) -> None:
        super().__init__()
        self.state, self.maxima = state, state.maxima

    def construct(self, x: Any) -> Any:
        old = self.state.read()
        ops.depend(self.state.write(x), old)
        return old


def stored(x: Array, is_signed: bool, backend: str) -> tuple[Array, Array, Array]:
    """The codes, the maxima, and the value that they stand for."""
    state = EightBitState(x.shape, "state", "x", is_signed)
    step = graphls.compile(Stored(state), x, **engine(backend))
    assert not step(x).asnumpy().any(), "the state is 0 at first"
    return state.asnumpy(), state.maxima.asnumpy(), step(np.zeros_like(x)).asnumpy()


def draw(shape: tuple[int, ...], is_signed: bool) -> Array:
    x = np.random.RandomState(0).randn(*shape).astype(F32)
    x = x * x * x
    return x if is_signed else x * x


def by_numpy(x: Array, is_signed: bool) -> tuple[Array, Array, Array]:
    """Blocks of 256 of the flat array, each with the nearest of 256 numbers."""
    rows = np.zeros(-(-x.size // 256) * 256, F32)
    rows[: x.size] = x.reshape(-1)
    rows = rows.reshape(-1, 256)
    maxima = np.abs(rows).max(1)
    scaled = rows * (F32(1) / np.maximum(maxima, np.finfo(F32).tiny))[:, None]
    distances = np.abs(scaled.astype(np.float64)[..., None] - dynamic_map(is_signed).astype(np.float64))
    codes = distances.argmin(-1).astype(np.uint8)
    values = dynamic_map(is_signed)[codes] * maxima[:, None]
    return codes.reshape(-1)[: x.size].reshape(x.shape), maxima, values.reshape(-1)[: x.size].reshape(x.shape)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_signed", SIGNS)
@pytest.mark.parametrize("shape", [(5120,), (64, 64), (70, 100), (4097,), (3, 5, 17, 19), (1,)])
def test_codes_are_the_nearest(shape: tuple[int, ...], is_signed: bool, backend: str) -> None:
    x = draw(shape, is_signed)
    for name, ours, theirs in zip(
        ("codes", "maxima", "values"), stored(x, is_signed, backend), by_numpy(x, is_signed), strict=True
    ):
        assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes(), name


# The crc32 of codes, maxima and values by the rule of bitsandbytes 0.50.2 in PyTorch (its backends/default).
OF_BITSANDBYTES = {True: (4161414485, 2988466988, 1535349850), False: (3608679039, 1222233232, 970494742)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_signed", SIGNS)
def test_codes_are_those_of_bitsandbytes(is_signed: bool, backend: str) -> None:
    x = np.ldexp(np.random.RandomState(0).randn(20, 256).astype(F32), np.arange(-10, 10)[:, None])
    x = x * x * x if is_signed else (x * x * x) * (x * x * x)
    assert tuple(zlib.crc32(a.tobytes()) for a in stored(x, is_signed, backend)) == OF_BITSANDBYTES[is_signed]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_signed", SIGNS)
def test_numbers_at_the_borders_of_codes(is_signed: bool, backend: str) -> None:
    halfway = borders(is_signed)[:-1]
    x = np.concatenate([halfway, np.nextafter(halfway, F32(2)), np.nextafter(halfway, F32(-2)), F32([1, 0, -0.0])])
    rows = np.ones((len(x), 256), F32)
    rows[:, 0] = x
    codes = stored(rows, is_signed, backend)[0][:, 0]
    assert codes.tolist() == np.searchsorted(halfway, x).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_signed", SIGNS)
def test_extreme_numbers(is_signed: bool, backend: str) -> None:
    x = draw((6, 256), is_signed)
    x[0], x[1, 7], x[2, 9], x[3], x[4] = 0, np.nan, np.inf, 1e-42, np.finfo(F32).max
    _, maxima, values = stored(x, is_signed, backend)
    assert maxima[0] == 0 and not values[0].any() and (values[3] <= 1e-42).all()
    assert np.isnan(maxima[1]) and np.isnan(values[1]).all() and np.isinf(maxima[2])
    assert np.isfinite(values[3:]).all() and (values[4] == np.finfo(F32).max).all()
    np.testing.assert_array_equal(values[5], by_numpy(x[5], is_signed)[2])


# -- optimizers -------------------------------------------------------------------------------------------------

SHAPES = [(64, 64), (70, 100), (100,), ()]


def weights() -> list[graphls.Parameter]:
    draws = np.random.RandomState(1)
    return [graphls.Parameter(np.asarray(draws.randn(*s), F32), name=f"w{i}") for i, s in enumerate(SHAPES)]


def gradients(number: int) -> tuple[Array, ...]:
    draws = np.random.RandomState(number + 2)
    return tuple(np.asarray(draws.randn(*s), F32) for s in SHAPES)


def updated(kind: str, backend: str = "onnxruntime", steps: int = 5, **bits: int) -> tuple[Any, list[Array]]:
    own = weights()
    optimizer = MAKERS[kind](own, **bits)
    step = graphls.compile(optimizer, gradients(0), **engine(backend))
    for number in range(steps):
        step(gradients(number))
    return optimizer, [p.asnumpy() for p in own]


@pytest.mark.parametrize("kind", MAKERS)
def test_an_update_is_near_to_that_with_states_in_32_bits(kind: str) -> None:
    _, narrow = updated(kind, state_bits=8)
    _, wide = updated(kind)
    for start, ours, theirs in zip(weights(), narrow, wide, strict=True):
        moved = np.linalg.norm(theirs - start.asnumpy())
        bound = 0.25 if kind == "Lion" else 0.05  # of Lion the sign decides alone, also near to 0
        assert moved > 0 and np.linalg.norm(ours - theirs) < bound * moved
    for ours, theirs in zip(narrow[2:], wide[2:], strict=True):
        assert ours.tobytes() == theirs.tobytes(), "states of small parameters stay in 32 bits"


@pytest.mark.parametrize("backend", BACKENDS)
def test_adam_is_the_formula_between_decoding_and_encoding(backend: str) -> None:
    optimizer, ours = updated("Adam", backend, 3, state_bits=8)
    (w,), m, v = (weights()[:1], np.zeros((64, 64), F32), np.zeros((64, 64), F32))
    w = w.asnumpy().astype(np.float64)
    for t in range(1, 4):
        g = gradients(t - 1)[0]
        m, v = F32(0.9) * m + F32(0.1) * g, F32(0.999) * v + F32(0.001) * g * g
        w -= 0.01 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v.astype(np.float64)) + 1e-8)
        (*_, m), (*_, v) = by_numpy(m, True), by_numpy(v, False)
    assert (np.abs(ours[0] - w) > 2e-5).mean() < 0.001, "all but those that are as near to another code"
    codes, maxima = optimizer.moment1[0], optimizer.moment1_maxima[0]
    decoded = dynamic_map(True)[codes.asnumpy()] * np.repeat(maxima.asnumpy(), 256).reshape(64, 64)
    np.testing.assert_allclose(decoded, m, atol=0.02)


def test_states_have_the_names_shapes_and_dtypes_of_codes_and_maxima() -> None:
    optimizer = nn.Adam(weights(), state_bits=8)
    states = {p.name: (p.dtype.numpy, p.shape) for p in optimizer.get_parameters() if "moment" in p.name}
    assert states == {
        **{f"moment{k}.w{i}": (np.uint8, SHAPES[i]) for k in (1, 2) for i in (0, 1)},
        **{f"moment{k}.w{i}": (np.float32, SHAPES[i]) for k in (1, 2) for i in (2, 3)},
        **{f"moment{k}_maxima.w{i}": (np.float32, (n,)) for k in (1, 2) for i, n in ((0, 16), (1, 28))},
    }
    assert not hasattr(nn.Adam(weights()), "moment1_maxima")
    double = graphls.Parameter(np.zeros((64, 64)), name="w")
    assert nn.Momentum([double], 0.1, 0.9, state_bits=8).moments[0].dtype is graphls.float64
    half = graphls.Parameter(np.zeros((64, 64), np.float16), name="w")
    assert nn.Momentum([half], 0.1, 0.9, state_bits=8).moments[0].dtype is graphls.uint8


def test_another_number_of_bits_is_refused() -> None:
    with pytest.raises(GraphValueError, match=r"For 'Adam', the 'state_bits' is 32 or 8, not 4\."):
        nn.Adam(weights(), state_bits=4)
    with pytest.raises(GraphTypeError, match="state_bits"):
        nn.Lion(weights(), state_bits=8.0)  # type: ignore[arg-type]


def test_what_does_not_train_keeps_its_states() -> None:
    own = weights()
    optimizer = nn.Adam(own, state_bits=8)
    optimizer(gradients(0))
    own[0].requires_grad = False
    before = {p.name: p.asnumpy().tobytes() for p in optimizer.get_parameters()}
    optimizer(gradients(1))
    after = {p.name: p.asnumpy().tobytes() for p in optimizer.get_parameters()}
    assert {n for n in before if n.endswith("w0") and before[n] != after[n]} == set()
    assert {n for n in before if n.endswith("w1") and before[n] == after[n]} == set()


# -- training steps ---------------------------------------------------------------------------------------------


def batch(number: int) -> tuple[Array, Array]:
    draws = np.random.RandomState(number)
    return draws.randn(4, 64).astype(F32), draws.randn(4, 70).astype(F32)


def network() -> nn.Cell:
    draws = np.random.RandomState(7)
    first, second = (graphls.Tensor(draws.randn(n, 64).astype(F32) / 8) for n in (64, 70))
    return nn.SequentialCell(nn.Dense(64, 64, first, "zeros", activation="tanh"), nn.Dense(64, 70, second, "zeros"))


def training(kind: str, backend: str, **options: Any) -> tuple[Any, Any]:
    net = network()
    optimizer = MAKERS[kind](net.trainable_params(), state_bits=8)
    loss = nn.WithLossCell(net, nn.MSELoss())
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(16, 2, 3), **options)
    return cell, graphls.compile(cell, *batch(0), **engine(backend))


def states(cell: Any) -> dict[str, bytes]:
    return {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind not in ("Lion", "LARS")])
def test_codes_and_maxima_are_written_in_place(kind: str) -> None:
    _, step = training(kind, "numpy")
    large = {w.state.name: w.in_place for w in step.graph.writes if w.state.type.size > 1}
    assert all(large.values()), large
    assert any("_maxima." in name for name in large)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["Adam", "SGD with dampening", "Lion", "Lamb"])
def test_a_skipped_step_leaves_codes_and_maxima(kind: str, backend: str) -> None:
    ends = []
    cell, step = training(kind, backend)
    start = {parameter: parameter.asnumpy() for parameter in cell.get_parameters()}
    for skips in (True, False):
        for parameter, value in start.items():
            parameter.set_data(graphls.Tensor(value))
        for number in range(4):
            x, y = batch(number)
            if skips and number in (0, 2):
                before = states(cell.optimizer)
                assert bool(step(np.full_like(x, np.inf), y)[1])
                assert states(cell.optimizer) == before
            assert not bool(step(x, y)[1])
        ends.append(states(cell.optimizer))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_checkpoint_resumes_bit_for_bit(backend: str, tmp_path: Path) -> None:
    path = str(tmp_path / "state.ckpt")
    cell, step = training("Adam", backend)
    for number in range(6):
        if number == 3:
            graphls.save_checkpoint(cell, path)
        step(*batch(number))
    again, step = training("Adam", backend)
    missing = graphls.load_param_into_net(again, graphls.load_checkpoint(path))
    assert not any(missing)
    for number in range(3, 6):
        step(*batch(number))
    assert states(again) == states(cell)


def test_a_checkpoint_with_states_in_32_bits_is_refused(tmp_path: Path) -> None:
    wide, narrow = nn.Adam(weights()), nn.Adam(weights(), state_bits=8)
    path = str(tmp_path / "state.ckpt")
    graphls.save_checkpoint(wide, path)
    with pytest.raises(GraphRuntimeError, match=r"moment1\.w0"):
        graphls.load_param_into_net(narrow, graphls.load_checkpoint(path))


def test_states_are_not_exchanged_with_pytorch() -> None:
    from graphls.interop.torch import optimizer_state_dict

    net = nn.Dense(64, 64)
    with pytest.raises(GraphValueError, match="codes in 8 bits"):
        optimizer_state_dict(nn.AdamW(net.trainable_params(), state_bits=8), net)


@pytest.mark.parametrize("backend", BACKENDS)
def test_accumulation_clipping_and_averages(backend: str) -> None:
    net = network()
    optimizer = nn.AdamW(net.trainable_params(), state_bits=8)
    loss, scale = nn.WithLossCell(net, nn.MSELoss()), graphls.amp.DynamicLossScaleManager(16, 2, 3)
    options = {"accumulate_steps": 2, "clip_norm": 1.0, "ema_decay": 0.9}
    cell = graphls.amp.build_train_network(loss, optimizer, loss_scale_manager=scale, **options)
    step = graphls.compile(cell, *batch(0), **engine(backend))
    for number in range(4):
        before = states(optimizer)
        step(*batch(number))
        changed = {name for name, value in states(optimizer).items() if value != before[name]}
        assert any("_maxima." in name for name in changed) == bool(number % 2)


def test_model_trains_as_well_as_with_states_in_32_bits() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    images, labels = (images / 16).astype(F32), labels.astype(np.int32)

    def loss_of(bits: int) -> float:
        draws = np.random.RandomState(0)
        matrices = [graphls.Tensor((draws.randn(n, 64) * 0.2).astype(F32)) for n in (64, 10)]
        net = nn.SequentialCell(
            nn.Dense(64, 64, matrices[0], "zeros", activation="relu"), nn.Dense(64, 10, matrices[1], "zeros")
        )
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9, state_bits=bits)
        step = graphls.compile(nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer), images, labels)
        return float([step(images, labels) for _ in range(200)][-1])

    assert loss_of(8) == pytest.approx(loss_of(32), rel=0.02)
