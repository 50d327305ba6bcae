"""Training on XLA has the flags, scales and losses of the interpreter; `tests.xla.networks` compares all networks.

It says the bounds, and why ResNet-18 and MobileNet begin each step with the states of the interpreter.
"""

from __future__ import annotations

from itertools import product

import pytest

pytest.importorskip("jax")

from tests.xla.networks import BOUNDS, FORMS, KINDS, difference

SMALL = ("mlp", "lenet", "gpt")
SLOW = ("resnet18", "mobilenet", "bert")
OTHERS = tuple(name for name in KINDS if name not in (*SMALL, *SLOW))
CASES = [*product(SMALL, FORMS), *product(OTHERS, ("float16",))]
"""Three networks in every form, others in one; the slow ones and all forms are for `python -m tests.xla.networks`."""


@pytest.mark.filterwarnings("ignore:Gradients in")
@pytest.mark.parametrize(("name", "form"), CASES)
def test_twenty_steps_have_the_flags_and_scales_of_the_interpreter(name: str, form: str) -> None:
    words, far = difference(name, form)
    assert not words
    assert far <= BOUNDS[form]
