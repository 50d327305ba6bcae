"""Functions of tensors: inside `construct` they become nodes of the graph, outside they compute at once.

Each module declares its operations by records (`record.py`), from which the names of this package come.
"""

from graphls.frontend.registry import register as _register
from graphls.ops import (  # noqa: F401
    collectives,
    composite,
    control_flow,
    directions,
    gradients,
    host_calls,
    state,
    tensor_methods,
    updates,
)
from graphls.ops.arrays import (  # noqa: F401
    arrangement,
    attributes,
    blocks,
    creation,
    diagonals,
    indexing,
    joins,
    pads,
    scattering,
    segments,
    selection,
    shapes,
)
from graphls.ops.linear_algebra import contractions, factorizations, linear_algebra, linear_systems, norms  # noqa: F401
from graphls.ops.math import (  # noqa: F401
    arithmetic,
    bessel,
    elementwise,
    gamma_functions,
    incomplete_functions,
    low_precision,
    reductions,
    scaling,
    statistics,
    transcendental,
)
from graphls.ops.network import (  # noqa: F401
    adaptive_pooling,
    attention,
    classification_losses,
    convolution,
    ctc,
    images,
    layers,
    losses,
    network,
    normalization,
    pooling,
    sampling,
)
from graphls.ops.randomness import distributions, random  # noqa: F401
from graphls.ops.record import FUNCTIONS, OPERATORS

# isort: split
# After the modules above, whose operator classes it lists.
from graphls.ops.operations import __getattr__ as __getattr__

_register(**FUNCTIONS)
globals().update(FUNCTIONS)
__all__ = sorted(FUNCTIONS)


def __dir__() -> list[str]:
    return sorted({*FUNCTIONS, *OPERATORS})
