"""Each single fault that is put into a model, or into the device that runs it, makes a difference that is found.

| fault | what would do that |
|---|---|
| `operator_is_not_rounded` | a runtime that fuses operators, a rule that is computed too wide |
| `cast_is_dropped` | an optimization of casts, weights that are not narrowed |
| `operator_rounds_towards_zero`, `overflow_saturates`, `small_numbers_are_zeros` | another arithmetic of a device |
| `state_is_not_updated`, `states_are_exchanged` | wrong bindings |
| `scale_changes_otherwise` | another factor or number of steps |
| `constant_is_off_by_a_digit`, `cast_is_added`, `operands_are_exchanged` | a rule of the lowering |
| `update_is_not_skipped` | a condition that is lost |
| `random_tensors_are_exchanged` | random numbers that go to another place |
| `overflow_starts_later`, `overflow_starts_earlier`, `gradient_is_not_looked_at` | a window that is another one |
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.networks.agreement import Combination, Prepared, difference, prepare
from tests.networks.faults import FAULTS
from tests.networks.faults.fault import is_found
from tests.networks.faults.of_windows import overflow_starts_later

MLP, CHECKED = Combination("mlp", "O2", "window", seed=1), Combination("mlp", "O2", "outputs", seed=3)
LENET, LSTM = Combination("lenet", "O2", "outputs", seed=0), Combination("lstm", "float16", "window", seed=1)
GPT, NARROW = Combination("gpt", "float16", "outputs", seed=2), Combination("gpt", "bfloat16", "outputs", seed=0)
EARLY = Combination("gpt", "O2", "outputs", seed=0)

# What stands here makes a difference to a number that is looked at; others may be faults of what is exact anyway.
CASES = [
    ("operator_is_not_rounded", MLP, 0), ("operator_is_not_rounded", LENET, 1), ("operator_is_not_rounded", NARROW, 0),
    ("cast_is_dropped", MLP, 0), ("cast_is_dropped", LENET, 1), ("cast_is_dropped", LSTM, 1),
    ("operator_rounds_towards_zero", LENET, 0), ("operator_rounds_towards_zero", GPT, 0),
    ("overflow_saturates", MLP, 0), ("overflow_saturates", LSTM, 0),
    ("small_numbers_are_zeros", MLP, 0), ("small_numbers_are_zeros", GPT, 0),
    ("state_is_not_updated", MLP, 0), ("state_is_not_updated", LSTM, 1), ("state_is_not_updated", LENET, 2),
    ("states_are_exchanged", MLP, 0), ("states_are_exchanged", LENET, 1),
    ("scale_changes_otherwise", MLP, 0), ("scale_changes_otherwise", MLP, 1), ("scale_changes_otherwise", LSTM, 0),
    ("constant_is_off_by_a_digit", LENET, 0), ("constant_is_off_by_a_digit", LSTM, 1),
    ("operands_are_exchanged", MLP, 0), ("operands_are_exchanged", LSTM, 1),
    ("cast_is_added", MLP, 0), ("cast_is_added", GPT, 1),
    ("update_is_not_skipped", MLP, 0), ("update_is_not_skipped", LSTM, 0),
    ("random_tensors_are_exchanged", GPT, 0), ("random_tensors_are_exchanged", NARROW, 1),
    ("overflow_starts_later", EARLY, 0),
    ("overflow_starts_earlier", EARLY, 0), ("overflow_starts_earlier", NARROW, 0),
    ("gradient_is_not_looked_at", CHECKED, 0), ("gradient_is_not_looked_at", CHECKED, 1),
]  # fmt: skip

prepared = cache(prepare)


@pytest.mark.parametrize(("fault", "combination", "seed"), CASES, ids=str)
def test_a_fault_is_found(fault: str, combination: Combination, seed: int) -> None:
    step = prepared(combination)
    faulty = FAULTS[fault](step, np.random.default_rng(seed))
    assert is_found(step, faulty), f"not found: {faulty.where}"


class Masked(nn.Cell):
    """A dense layer, one of whose results is not used; where it would go, it is multiplied by a large number."""

    def __init__(self) -> None:
        super().__init__()
        self.rise, self.fall = nn.Dense(4, 4), nn.Dense(4, 3)
        self.unused = graphls.Tensor(np.arange(4) == 2)

    def construct(self, x: Any) -> Any:
        return self.fall(ops.masked_fill(self.rise(x), self.unused, 0.0))


def hidden_overflow() -> Prepared:
    """A step in which a value inside of the window overflows that no gradient is made of."""
    graphls.set_seed(1)
    network = nn.WithLossCell(Masked().to_float(graphls.float16), nn.MSELoss())
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(network, optimizer, nn.DynamicLossScaleUpdateCell(2**12, 4, 3))
    inputs = np.ones((2, 4), np.float32), np.zeros((2, 3), np.float32)
    step = graphls.compile(cell, *inputs, backend="numpy", overflow_mode="window")
    states = {v.name: step.parameters[v.name].asnumpy() for v in step.graph.states}
    weight = next(array for name, array in states.items() if name.endswith("fall.weight") and "moment" not in name)
    weight[:, 2] = 6e4
    return Prepared(Combination("masked", "float16", "window"), step.graph, states, (inputs,) * 16)


def test_a_window_that_opens_later_is_found_by_what_overflows_only_at_its_beginning() -> None:
    step = hidden_overflow()
    flags = [bool(after["output 1"]) for after in step.expected]
    assert flags[0] and not all(flags) and not difference(step)
    assert is_found(step, overflow_starts_later(step, np.random.default_rng(0)))
