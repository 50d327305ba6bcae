"""Managers of the loss scale on the host: formulas, defaults, checks, and the update cells they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn
from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError


def test_the_base_class_defines_nothing() -> None:
    manager = amp.LossScaleManager()
    assert manager.get_loss_scale() is None
    assert manager.update_loss_scale(True) is None  # type: ignore[func-returns-value]
    assert manager.get_update_cell() is None


def test_managers_are_at_the_top_and_in_amp() -> None:
    for name in ("LossScaleManager", "FixedLossScaleManager", "DynamicLossScaleManager"):
        assert getattr(graphls, name) is getattr(amp, name)


def test_a_fixed_manager() -> None:
    manager = amp.FixedLossScaleManager()
    assert (manager.get_loss_scale(), manager.get_drop_overflow_update()) == (128.0, True)
    manager.update_loss_scale(True)
    assert manager.get_loss_scale() == 128.0
    cell = manager.get_update_cell()
    assert isinstance(cell, nn.FixedLossScaleUpdateCell) and cell.get_loss_scale() == 128.0
    kept = amp.FixedLossScaleManager(1024, drop_overflow_update=False)
    assert kept.get_update_cell() is None and kept.get_drop_overflow_update() is False
    assert amp.FixedLossScaleManager(1).get_loss_scale() == 1


@pytest.mark.parametrize("scale", [0.5, 0, -1, float("nan")])
def test_a_fixed_scale_below_1(scale: float) -> None:
    with pytest.raises(ValueError, match=rf"The argument 'loss_scale' must be >= 1, but got {scale}") as caught:
        amp.FixedLossScaleManager(scale)
    assert isinstance(caught.value, GraphValueError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_managers.py")


def test_defaults_of_a_dynamic_manager() -> None:
    manager = amp.DynamicLossScaleManager()
    assert (manager.get_loss_scale(), manager.scale_factor, manager.scale_window) == (2**24, 2, 2000)
    assert (manager.cur_iter, manager.last_overflow_iter, manager.bad_step) == (1, 0, 0)
    assert manager.get_drop_overflow_update() is True
    assert amp.DynamicLossScaleManager(4, 3000).scale_factor == 3000


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.5,), ValueError, "The argument 'init_loss_scale' must be > 1, but got 0.5"),
        ((0.5, 0, 0), ValueError, "init_loss_scale"),
        ((1, 0, 0), ValueError, "For 'DynamicLossScaleManager', the 'scale_window' must be int and must > 0, "
                                "but got '0' with type 'int'."),
        ((1, 0, 2.0), TypeError, "'scale_window' must be int and must > 0"),
        ((1, 2, True), TypeError, "'scale_window' must be int and must > 0"),
        ((1, 0, 5), ValueError, "The argument 'scale_factor' must be > 0, but got 0"),
        ((1, -2.0, 5), ValueError, "The argument 'scale_factor' must be > 0, but got -2.0"),
        (("1",), TypeError, "The argument 'init_loss_scale' must be a number, but got '1' with type 'str'."),
        ((1, None), TypeError, "The argument 'scale_factor' must be a number, but got None"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_found_in_their_order(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        amp.DynamicLossScaleManager(*arguments)
    assert isinstance(caught.value, graphls.GraphlsError)


def test_a_fixed_scale_that_is_no_number() -> None:
    with pytest.raises(GraphTypeError, match="'loss_scale' must be a number"):
        amp.FixedLossScaleManager("128")  # type: ignore[arg-type]


def test_the_reference_sequence() -> None:
    manager = amp.DynamicLossScaleManager(16, 2, 3)
    found = []
    for overflow in (0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1):
        manager.update_loss_scale(bool(overflow))
        found.append(manager.get_loss_scale())
    assert found == [16, 8, 8, 8, 16, 16, 16, 32, 16, 8, 4, 2, 1]
    assert isinstance(found[0], int) and isinstance(found[1], float)
    assert (manager.cur_iter, manager.last_overflow_iter, manager.bad_step) == (14, 13, 5)


def test_numbers_stay_integers_until_the_scale_falls_and_never_fall_below_1() -> None:
    manager = amp.DynamicLossScaleManager(3, 5, 1)
    manager.update_loss_scale(False)
    assert manager.get_loss_scale() == 15 and isinstance(manager.get_loss_scale(), int)
    manager = amp.DynamicLossScaleManager(1, 0.5, 1)
    manager.update_loss_scale(True)
    assert manager.get_loss_scale() == 2
    manager = amp.DynamicLossScaleManager(1.5, 2, 1)
    manager.update_loss_scale(True)
    assert manager.get_loss_scale() == 1


@pytest.mark.parametrize("overflow", [True, np.True_, graphls.Tensor(True), graphls.Tensor([True]), 1])
def test_what_says_that_a_step_overflowed(overflow: Any) -> None:
    manager = amp.DynamicLossScaleManager(8, 2, 3)
    manager.update_loss_scale(overflow)
    assert manager.get_loss_scale() == 4


def test_the_1001st_overflow_in_a_row_raises_before_the_step_is_counted() -> None:
    manager = amp.DynamicLossScaleManager(2.0**24, 2, 2000)
    for _ in range(1000):
        manager.update_loss_scale(True)
    manager.update_loss_scale(False)
    for _ in range(1000):
        manager.update_loss_scale(True)
    assert manager.cur_iter == 2002
    message = "Dynamic loss scale Continuous overflow 1001 times, has exceeded maximum threshold."
    with pytest.raises(RuntimeError, match=message) as caught:
        manager.update_loss_scale(True)
    assert isinstance(caught.value, GraphRuntimeError)
    assert (manager.cur_iter, manager.bad_step, manager.last_overflow_iter) == (2002, 1001, 2002)


def test_the_update_cell_starts_with_the_scale_as_it_is() -> None:
    manager = amp.DynamicLossScaleManager(16, 4, 7)
    manager.update_loss_scale(True)
    cell = manager.get_update_cell()
    assert isinstance(cell, nn.DynamicLossScaleUpdateCell)
    assert (cell.get_loss_scale(), cell.scale_factor, cell.scale_window) == (4, 4, 7)
    assert manager.get_update_cell() is not cell
