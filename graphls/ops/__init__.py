"""Functions of tensors: inside `construct` they become nodes of the graph, outside they compute at once.

Every module lists its names in `__all__`, and they are all names of this package.
"""

# ruff: noqa: F403

from types import ModuleType as _Module

from graphls.ops.activations import *
from graphls.ops.adaptive import *
from graphls.ops.arithmetic import *
from graphls.ops.arrangement import *
from graphls.ops.attributes import *
from graphls.ops.bands import *
from graphls.ops.batch_blocks import *
from graphls.ops.batch_products import *
from graphls.ops.bessel import *
from graphls.ops.bitwise import *
from graphls.ops.blocks import *
from graphls.ops.box_overlaps import *
from graphls.ops.boxes import *
from graphls.ops.cholesky_factors import *
from graphls.ops.clipping import *
from graphls.ops.combining import *
from graphls.ops.comparisons import *
from graphls.ops.composite import *
from graphls.ops.control_flow import *
from graphls.ops.conversions import *
from graphls.ops.convolution import *
from graphls.ops.covariance import *
from graphls.ops.creation import *
from graphls.ops.ctc import *
from graphls.ops.determinants import *
from graphls.ops.diagonals import *
from graphls.ops.differentiate import *
from graphls.ops.directions import *
from graphls.ops.distances import *
from graphls.ops.distributions import *
from graphls.ops.divisors import *
from graphls.ops.einstein import *
from graphls.ops.elementwise import *
from graphls.ops.exponentials import *
from graphls.ops.gamma_functions import *
from graphls.ops.gumbel import *
from graphls.ops.histograms import *
from graphls.ops.householder import *
from graphls.ops.incomplete_functions import *
from graphls.ops.indexing import *
from graphls.ops.inplace import *
from graphls.ops.jacobians import *
from graphls.ops.layers import *
from graphls.ops.linear_algebra import *
from graphls.ops.linear_systems import *
from graphls.ops.logic import *
from graphls.ops.losses import *
from graphls.ops.losses_classes import *
from graphls.ops.losses_distances import *
from graphls.ops.lu_factors import *
from graphls.ops.mapping import *
from graphls.ops.matrix_exponential import *
from graphls.ops.movement import *
from graphls.ops.network import *
from graphls.ops.normalization import *
from graphls.ops.norms import *
from graphls.ops.old_names import *
from graphls.ops.operations import __getattr__ as __getattr__  # operator classes are names of this package, too
from graphls.ops.pads import *
from graphls.ops.pooling import *
from graphls.ops.predicates import *
from graphls.ops.quantiles import *
from graphls.ops.random import *
from graphls.ops.ranges import *
from graphls.ops.rearrangement import *
from graphls.ops.reductions import *
from graphls.ops.regions import *
from graphls.ops.resize import *
from graphls.ops.runs import *
from graphls.ops.sampling import *
from graphls.ops.scans import *
from graphls.ops.scattering import *
from graphls.ops.segments import *
from graphls.ops.selection import *
from graphls.ops.shapes import *
from graphls.ops.signal_windows import *
from graphls.ops.sorting import *
from graphls.ops.sparse_segments import *
from graphls.ops.state import *
from graphls.ops.statistics import *
from graphls.ops.transformers import *
from graphls.ops.trigonometric import *
from graphls.ops.unpooling import *
from graphls.ops.zeta_function import *
from graphls.tensors.vocabulary import register as _register

__all__ = sorted(name for name, item in vars().items() if not name.startswith("_") and not isinstance(item, _Module))

from graphls.ops.methods import methods as _methods

_register(methods=_methods, **{name: item for name, item in vars().items() if name in __all__})
