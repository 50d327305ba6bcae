"""Functions of tensors: inside `construct` they become nodes of the graph, outside they compute at once.

Every module declares its operations by records (`record.py`), which make the names of this package.
"""

from graphls.ops import (  # noqa: F401
    adaptive,
    arithmetic,
    arrangement,
    attention,
    attributes,
    bessel,
    blocks,
    classification_losses,
    collectives,
    composite,
    contractions,
    control_flow,
    convolution,
    creation,
    ctc,
    diagonals,
    directions,
    distributions,
    elementwise,
    factorizations,
    flash_attention,
    gamma_functions,
    gradients,
    host_calls,
    images,
    incomplete_functions,
    indexing,
    joins,
    layers,
    linear_algebra,
    linear_systems,
    losses,
    network,
    normalization,
    norms,
    pads,
    pooling,
    random,
    reductions,
    regions,
    sampling,
    scattering,
    segments,
    selection,
    shapes,
    sparse_ctc,
    state,
    statistics,
    tensor_methods,
    transcendental,
    updates,
)
from graphls.ops.operations import __getattr__ as __getattr__  # operator classes, and what is declared later
from graphls.ops.record import FUNCTIONS, OPERATORS
from graphls.tensors import vocabulary as _vocabulary

_vocabulary.register(**FUNCTIONS)
globals().update(FUNCTIONS)
__all__ = sorted(FUNCTIONS)


def __dir__() -> list[str]:
    return sorted({*FUNCTIONS, *OPERATORS})
