"""`mindspore.ops.operations._sequence_ops`, and what `_inner_ops` and `_scalar_ops` have of the kind."""

from __future__ import annotations

from typing import Any

from graphls.compat.operators.functional import CLASSES, _class
from graphls.frontend.names.lazy import offering

_made: dict[str, Any] = {name: _class(name, function) for name, function in CLASSES.items()}

__getattr__, __dir__ = offering(_made)
