"""Training on XLA has the flags, scales and losses of the interpreter; `tests.xla.networks` compares all networks."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

from tests.xla.networks import BOUNDS, difference

QUICK = [
    ("mlp", "float32"), ("mlp", "bfloat16"), ("mlp", "float16"), ("lenet", "float16"), ("embeddings", "bfloat16"),
    ("attention", "float32"), ("gpt", "bfloat16"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Gradients in")
@pytest.mark.parametrize(("name", "form"), QUICK)
def test_twenty_steps_have_the_flags_and_scales_of_the_interpreter(name: str, form: str) -> None:
    words, far = difference(name, form)
    assert not words
    assert far <= BOUNDS[form]
