"""Callbacks, as far as the tests of this folder need them while the package has none."""

from __future__ import annotations

import sys
import types
from typing import Any

try:
    import graphls.train.callbacks.callback  # noqa: F401
except ImportError:

    class Callback:
        def __enter__(self) -> Any:
            return self

        def __exit__(self, *error: Any) -> Any:
            return None

        def on_train_step_end(self, run_context: Any) -> None:
            """What tests override."""

    class InternalCallbackParam(dict[str, Any]):
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__

    class RunContext:
        def __init__(self, original_args: Any) -> None:
            self._original_args = original_args

        def original_args(self) -> Any:
            return self._original_args

    module: Any = types.ModuleType("graphls.train.callbacks.callback")
    module.Callback, module.RunContext, module.InternalCallbackParam = Callback, RunContext, InternalCallbackParam
    sys.modules[module.__name__] = module
