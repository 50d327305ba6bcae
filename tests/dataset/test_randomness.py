"""Random numbers of rows."""

from __future__ import annotations

from contextvars import copy_context

import numpy as np

from graphls.dataset.randomness import Key, RowDraws, between, generator


def test_a_row_has_the_numbers_of_a_new_generator_wherever_the_one_before_ended() -> None:
    copy_context().run(_compare)  # else all tests after this one would draw from the row


def _compare() -> None:
    key = Key(2**63 + 5, 7, 3)
    draws = RowDraws(key)
    for row in (0, 5, 2**40, 5, 0):
        draws.enter(row)
        known, new = generator(), key.generator(row)
        assert known is draws.generator()
        assert str(known.bit_generator.state) == str(new.bit_generator.state)
        assert known.integers(2**8, dtype="uint8") == new.integers(2**8, dtype="uint8")  # leaves half a word over
        assert known.random() == new.random()


def test_between_draws_what_uniform_does() -> None:
    draw, other = np.random.default_rng(5), np.random.default_rng(5)
    for low, high in ((0.08, 1.0), (-3.0, 7.5), (2.0, 2.0), (1e-9, 1e9)):
        np.testing.assert_allclose(between(draw, low, high), other.uniform(low, high), rtol=1e-15)
    assert draw.random() == other.random()
