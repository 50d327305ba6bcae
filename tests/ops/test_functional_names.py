"""Every name that `graphls.ops.functional` lists is there, also the two of MindSpore 1 that `graphls.ops` has not."""

from __future__ import annotations

from graphls import ops
from graphls.ops import functional


def test_every_listed_name_is_there() -> None:
    assert [name for name in functional.__all__ if not callable(getattr(functional, name))] == []
    assert (functional.neg_tensor, functional.tensor_eq) == (ops.neg, ops.equal)
