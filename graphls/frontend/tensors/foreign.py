"""Zero-copy views of arrays of other libraries, such as torch, JAX and CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphTypeError

Array = np.ndarray[Any, Any]


def offers_array(item: object) -> bool:
    """Whether an object exports its elements by `__array__` or `__dlpack__`, as tensors of graphls do, too."""
    kind = type(item)
    return hasattr(kind, "__array__") or hasattr(kind, "__dlpack__")


def offered_array(item: Any) -> Array:
    """The elements as a NumPy array, which shares their memory where the library allows it.

    Raises GraphTypeError where it cannot be read, such as one on a GPU or one of torch that needs gradients.
    """
    try:
        return np.asarray(item) if hasattr(type(item), "__array__") else np.asarray(np.from_dlpack(item))
    except GraphlsError:
        raise
    except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as error:
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise GraphTypeError(f"This {type(item).__name__} cannot be read as an array: {reason}.") from error
