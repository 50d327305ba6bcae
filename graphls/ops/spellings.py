"""The names that MindSpore has given to one parameter over the years."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from graphls.ir.errors import GraphTypeError

Result = TypeVar("Result")

_SPELLINGS = {"dim": "axis", "keepdim": "keepdims", "keep_dims": "keepdims", "input": "x"}


def with_spellings(function: Callable[..., Result]) -> Callable[..., Result]:
    """The function, whose `axis` may be given as `dim`, its `keepdims` as `keepdim` or `keep_dims`, its `x` as `input`.

    Calls raise GraphTypeError, with the user's line, for arguments that the function does not take.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Result:
        named = {_SPELLINGS.get(name, name): value for name, value in options.items()}
        try:
            signature.bind(*args, **named)
            if len(named) < len(options):
                raise TypeError("one argument has two names")
        except TypeError as error:
            message = f"{function.__name__} takes {', '.join(signature.parameters)}: {error}."
            raise GraphTypeError(message) from None
        return function(*args, **named)

    return called
