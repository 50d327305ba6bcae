"""Keys of plain constants."""

from __future__ import annotations

import numpy as np
import pytest

from graphls.ir.compare import key_of_constant


def test_constants_are_told_apart_by_class_and_sign() -> None:
    keys = [key_of_constant(value) for value in (0, False, 0.0, -0.0, None, "0", (0,), (0.0,), [0], (-0.0,))]
    assert len(set(keys)) == len(keys)
    assert key_of_constant(float("nan")) == key_of_constant(float("nan"))
    for value in (np.zeros(2), object(), (object(),)):
        with pytest.raises(TypeError, match="not a plain constant"):
            key_of_constant(value)
