# Functions and operator classes, as records declare them (`graphls/ops/record.py`). Made by `make stubs`.
import builtins
from collections.abc import Callable, Sequence
from typing import Any

from graphls.ir.types import DTypeLike
from graphls.ops.operands import Axis, Operand, OutputSizes, Paddings, ShapeLike, Sizes
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.arrays.arrangement import atleast_1d as atleast_1d
from graphls.ops.arrays.arrangement import atleast_2d as atleast_2d
from graphls.ops.arrays.arrangement import atleast_3d as atleast_3d
from graphls.ops.arrays.arrangement import block_diag as block_diag
from graphls.ops.arrays.arrangement import broadcast_tensors as broadcast_tensors
from graphls.ops.arrays.arrangement import chunk as chunk
from graphls.ops.arrays.arrangement import column_stack as column_stack
from graphls.ops.arrays.arrangement import dstack as dstack
from graphls.ops.arrays.arrangement import expand as expand
from graphls.ops.arrays.arrangement import expand_as as expand_as
from graphls.ops.arrays.arrangement import flip as flip
from graphls.ops.arrays.arrangement import fliplr as fliplr
from graphls.ops.arrays.arrangement import flipud as flipud
from graphls.ops.arrays.arrangement import hstack as hstack
from graphls.ops.arrays.arrangement import meshgrid as meshgrid
from graphls.ops.arrays.arrangement import movedim as movedim
from graphls.ops.arrays.arrangement import repeat_elements as repeat_elements
from graphls.ops.arrays.arrangement import repeat_interleave as repeat_interleave
from graphls.ops.arrays.arrangement import reverse as reverse
from graphls.ops.arrays.arrangement import reverse_sequence as reverse_sequence
from graphls.ops.arrays.arrangement import roll as roll
from graphls.ops.arrays.arrangement import rot90 as rot90
from graphls.ops.arrays.arrangement import sequence_mask as sequence_mask
from graphls.ops.arrays.arrangement import tensor_split as tensor_split
from graphls.ops.arrays.arrangement import tile as tile
from graphls.ops.arrays.arrangement import unstack as unstack
from graphls.ops.arrays.arrangement import vstack as vstack
from graphls.ops.arrays.attributes import deepcopy as deepcopy
from graphls.ops.arrays.attributes import dtype as dtype
from graphls.ops.arrays.attributes import dyn_shape as dyn_shape
from graphls.ops.arrays.attributes import eps as eps
from graphls.ops.arrays.attributes import fills as fills
from graphls.ops.arrays.attributes import is_complex as is_complex
from graphls.ops.arrays.attributes import is_floating_point as is_floating_point
from graphls.ops.arrays.attributes import is_nonzero as is_nonzero
from graphls.ops.arrays.attributes import is_tensor as is_tensor
from graphls.ops.arrays.attributes import isreal as isreal
from graphls.ops.arrays.attributes import numel as numel
from graphls.ops.arrays.attributes import rank as rank
from graphls.ops.arrays.attributes import scalar_cast as scalar_cast
from graphls.ops.arrays.attributes import scalar_to_array as scalar_to_array
from graphls.ops.arrays.attributes import shape as shape
from graphls.ops.arrays.attributes import size as size
from graphls.ops.arrays.attributes import tuple_to_array as tuple_to_array
from graphls.ops.arrays.attributes import type_as as type_as
from graphls.ops.arrays.blocks import batch_to_space_nd as batch_to_space_nd
from graphls.ops.arrays.blocks import col2im as col2im
from graphls.ops.arrays.blocks import depth_to_space as depth_to_space
from graphls.ops.arrays.blocks import dsplit as dsplit
from graphls.ops.arrays.blocks import fold as fold
from graphls.ops.arrays.blocks import hsplit as hsplit
from graphls.ops.arrays.blocks import padding as padding
from graphls.ops.arrays.blocks import ravel as ravel
from graphls.ops.arrays.blocks import space_to_batch_nd as space_to_batch_nd
from graphls.ops.arrays.blocks import space_to_depth as space_to_depth
from graphls.ops.arrays.blocks import swapdims as swapdims
from graphls.ops.arrays.blocks import take as take
from graphls.ops.arrays.blocks import top_k as top_k
from graphls.ops.arrays.blocks import unfold as unfold
from graphls.ops.arrays.blocks import view_as as view_as
from graphls.ops.arrays.blocks import vsplit as vsplit
from graphls.ops.arrays.creation import arange as arange
from graphls.ops.arrays.creation import bartlett_window as bartlett_window
from graphls.ops.arrays.creation import blackman_window as blackman_window
from graphls.ops.arrays.creation import empty as empty
from graphls.ops.arrays.creation import empty_like as empty_like
from graphls.ops.arrays.creation import fill as fill
from graphls.ops.arrays.creation import full as full
from graphls.ops.arrays.creation import full_like as full_like
from graphls.ops.arrays.creation import hamming_window as hamming_window
from graphls.ops.arrays.creation import hann_window as hann_window
from graphls.ops.arrays.creation import kaiser_window as kaiser_window
from graphls.ops.arrays.creation import linspace as linspace
from graphls.ops.arrays.creation import logspace as logspace
from graphls.ops.arrays.creation import one_hot as one_hot
from graphls.ops.arrays.creation import ones as ones
from graphls.ops.arrays.creation import ones_like as ones_like
from graphls.ops.arrays.creation import range as range
from graphls.ops.arrays.creation import scalar_to_tensor as scalar_to_tensor
from graphls.ops.arrays.creation import zeros as zeros
from graphls.ops.arrays.creation import zeros_like as zeros_like
from graphls.ops.arrays.diagonals import diag as diag
from graphls.ops.arrays.diagonals import diag_embed as diag_embed
from graphls.ops.arrays.diagonals import diagflat as diagflat
from graphls.ops.arrays.diagonals import diagonal as diagonal
from graphls.ops.arrays.diagonals import diagonal_scatter as diagonal_scatter
from graphls.ops.arrays.diagonals import eye as eye
from graphls.ops.arrays.diagonals import matrix_band_part as matrix_band_part
from graphls.ops.arrays.diagonals import matrix_diag as matrix_diag
from graphls.ops.arrays.diagonals import matrix_diag_part as matrix_diag_part
from graphls.ops.arrays.diagonals import matrix_set_diag as matrix_set_diag
from graphls.ops.arrays.diagonals import select_scatter as select_scatter
from graphls.ops.arrays.diagonals import slice_scatter as slice_scatter
from graphls.ops.arrays.diagonals import tril as tril
from graphls.ops.arrays.diagonals import tril_indices as tril_indices
from graphls.ops.arrays.diagonals import triu as triu
from graphls.ops.arrays.diagonals import triu_indices as triu_indices
from graphls.ops.arrays.indexing import getitem as getitem
from graphls.ops.arrays.indexing import setitem as setitem
from graphls.ops.arrays.joins import cartesian_prod as cartesian_prod
from graphls.ops.arrays.joins import combinations as combinations
from graphls.ops.arrays.joins import vander as vander
from graphls.ops.arrays.pads import mirror_pad as mirror_pad
from graphls.ops.arrays.pads import pad as pad
from graphls.ops.arrays.scattering import gather_nd as gather_nd
from graphls.ops.arrays.scattering import index_add as index_add
from graphls.ops.arrays.scattering import index_fill as index_fill
from graphls.ops.arrays.scattering import inplace_add as inplace_add
from graphls.ops.arrays.scattering import inplace_index_add as inplace_index_add
from graphls.ops.arrays.scattering import inplace_sub as inplace_sub
from graphls.ops.arrays.scattering import inplace_update as inplace_update
from graphls.ops.arrays.scattering import scatter as scatter
from graphls.ops.arrays.scattering import scatter_nd as scatter_nd
from graphls.ops.arrays.scattering import tensor_scatter_elements as tensor_scatter_elements
from graphls.ops.arrays.segments import sparse_segment_mean as sparse_segment_mean
from graphls.ops.arrays.segments import unsorted_segment_max as unsorted_segment_max
from graphls.ops.arrays.segments import unsorted_segment_min as unsorted_segment_min
from graphls.ops.arrays.segments import unsorted_segment_prod as unsorted_segment_prod
from graphls.ops.arrays.segments import unsorted_segment_sum as unsorted_segment_sum
from graphls.ops.arrays.selection import argsort as argsort
from graphls.ops.arrays.selection import bincount as bincount
from graphls.ops.arrays.selection import bucketize as bucketize
from graphls.ops.arrays.selection import index_select as index_select
from graphls.ops.arrays.selection import kthvalue as kthvalue
from graphls.ops.arrays.selection import masked_fill as masked_fill
from graphls.ops.arrays.selection import masked_select as masked_select
from graphls.ops.arrays.selection import msort as msort
from graphls.ops.arrays.selection import narrow as narrow
from graphls.ops.arrays.selection import nonzero as nonzero
from graphls.ops.arrays.selection import searchsorted as searchsorted
from graphls.ops.arrays.selection import slice as slice
from graphls.ops.arrays.selection import sort as sort
from graphls.ops.arrays.selection import strided_slice as strided_slice
from graphls.ops.arrays.selection import take_along_axis as take_along_axis
from graphls.ops.arrays.selection import topk as topk
from graphls.ops.arrays.selection import unique as unique
from graphls.ops.arrays.selection import unique_consecutive as unique_consecutive
from graphls.ops.arrays.selection import unique_with_pad as unique_with_pad
from graphls.ops.arrays.shapes import broadcast_to as broadcast_to
from graphls.ops.arrays.shapes import concat as concat
from graphls.ops.arrays.shapes import expand_dims as expand_dims
from graphls.ops.arrays.shapes import flatten as flatten
from graphls.ops.arrays.shapes import gather as gather
from graphls.ops.arrays.shapes import gather_elements as gather_elements
from graphls.ops.arrays.shapes import reshape as reshape
from graphls.ops.arrays.shapes import split as split
from graphls.ops.arrays.shapes import squeeze as squeeze
from graphls.ops.arrays.shapes import stack as stack
from graphls.ops.arrays.shapes import swapaxes as swapaxes
from graphls.ops.arrays.shapes import transpose as transpose
from graphls.ops.composite import HyperMap as HyperMap
from graphls.ops.composite import Map as Map
from graphls.ops.composite import MultitypeFuncGraph as MultitypeFuncGraph
from graphls.ops.composite import Partial as Partial
from graphls.ops.composite import partial as partial
from graphls.ops.control_flow import cond as cond
from graphls.ops.control_flow import fori_loop as fori_loop
from graphls.ops.control_flow import scan as scan
from graphls.ops.control_flow import vmap as vmap
from graphls.ops.control_flow import while_loop as while_loop
from graphls.ops.directions import derivative as derivative
from graphls.ops.directions import get_grad as get_grad
from graphls.ops.directions import jacfwd as jacfwd
from graphls.ops.directions import jacrev as jacrev
from graphls.ops.directions import jvp as jvp
from graphls.ops.directions import vjp as vjp
from graphls.ops.gradients import GradOperation as GradOperation
from graphls.ops.gradients import grad as grad
from graphls.ops.gradients import value_and_grad as value_and_grad
from graphls.ops.host_calls import print_ as print_
from graphls.ops.host_calls import pure_callback as pure_callback
from graphls.ops.host_calls import py_func as py_func
from graphls.ops.linear_algebra.contractions import einsum as einsum
from graphls.ops.linear_algebra.factorizations import cholesky as cholesky
from graphls.ops.linear_algebra.factorizations import cholesky_inverse as cholesky_inverse
from graphls.ops.linear_algebra.factorizations import cholesky_solve as cholesky_solve
from graphls.ops.linear_algebra.factorizations import geqrf as geqrf
from graphls.ops.linear_algebra.factorizations import orgqr as orgqr
from graphls.ops.linear_algebra.factorizations import ormqr as ormqr
from graphls.ops.linear_algebra.factorizations import qr as qr
from graphls.ops.linear_algebra.linear_algebra import addbmm as addbmm
from graphls.ops.linear_algebra.linear_algebra import addmm as addmm
from graphls.ops.linear_algebra.linear_algebra import addmv as addmv
from graphls.ops.linear_algebra.linear_algebra import addr as addr
from graphls.ops.linear_algebra.linear_algebra import adjoint as adjoint
from graphls.ops.linear_algebra.linear_algebra import baddbmm as baddbmm
from graphls.ops.linear_algebra.linear_algebra import batch_dot as batch_dot
from graphls.ops.linear_algebra.linear_algebra import bmm as bmm
from graphls.ops.linear_algebra.linear_algebra import cross as cross
from graphls.ops.linear_algebra.linear_algebra import dot as dot
from graphls.ops.linear_algebra.linear_algebra import ger as ger
from graphls.ops.linear_algebra.linear_algebra import inner as inner
from graphls.ops.linear_algebra.linear_algebra import kron as kron
from graphls.ops.linear_algebra.linear_algebra import matrix_exp as matrix_exp
from graphls.ops.linear_algebra.linear_algebra import matrix_power as matrix_power
from graphls.ops.linear_algebra.linear_algebra import mm as mm
from graphls.ops.linear_algebra.linear_algebra import mv as mv
from graphls.ops.linear_algebra.linear_algebra import outer as outer
from graphls.ops.linear_algebra.linear_algebra import t as t
from graphls.ops.linear_algebra.linear_algebra import tensor_dot as tensor_dot
from graphls.ops.linear_algebra.linear_algebra import trace as trace
from graphls.ops.linear_algebra.linear_algebra import vdot as vdot
from graphls.ops.linear_algebra.linear_algebra import vecdot as vecdot
from graphls.ops.linear_algebra.linear_systems import det as det
from graphls.ops.linear_algebra.linear_systems import inverse as inverse
from graphls.ops.linear_algebra.linear_systems import logdet as logdet
from graphls.ops.linear_algebra.linear_systems import lstsq as lstsq
from graphls.ops.linear_algebra.linear_systems import lu_solve as lu_solve
from graphls.ops.linear_algebra.linear_systems import lu_unpack as lu_unpack
from graphls.ops.linear_algebra.linear_systems import matrix_solve as matrix_solve
from graphls.ops.linear_algebra.linear_systems import pinv as pinv
from graphls.ops.linear_algebra.linear_systems import slogdet as slogdet
from graphls.ops.linear_algebra.norms import cdist as cdist
from graphls.ops.linear_algebra.norms import clip_by_global_norm as clip_by_global_norm
from graphls.ops.linear_algebra.norms import clip_by_norm as clip_by_norm
from graphls.ops.linear_algebra.norms import cosine_similarity as cosine_similarity
from graphls.ops.linear_algebra.norms import dist as dist
from graphls.ops.linear_algebra.norms import l2_normalize as l2_normalize
from graphls.ops.linear_algebra.norms import pdist as pdist
from graphls.ops.linear_algebra.norms import renorm as renorm
from graphls.ops.math.arithmetic import addcdiv as addcdiv
from graphls.ops.math.arithmetic import addcmul as addcmul
from graphls.ops.math.arithmetic import allclose as allclose
from graphls.ops.math.arithmetic import approximate_equal as approximate_equal
from graphls.ops.math.arithmetic import bias_add as bias_add
from graphls.ops.math.arithmetic import bitwise_and as bitwise_and
from graphls.ops.math.arithmetic import bitwise_left_shift as bitwise_left_shift
from graphls.ops.math.arithmetic import bitwise_or as bitwise_or
from graphls.ops.math.arithmetic import bitwise_right_shift as bitwise_right_shift
from graphls.ops.math.arithmetic import bitwise_xor as bitwise_xor
from graphls.ops.math.arithmetic import copysign as copysign
from graphls.ops.math.arithmetic import fmax as fmax
from graphls.ops.math.arithmetic import fmin as fmin
from graphls.ops.math.arithmetic import fmod as fmod
from graphls.ops.math.arithmetic import frac as frac
from graphls.ops.math.arithmetic import gcd as gcd
from graphls.ops.math.arithmetic import heaviside as heaviside
from graphls.ops.math.arithmetic import invert as invert
from graphls.ops.math.arithmetic import isclose as isclose
from graphls.ops.math.arithmetic import isneginf as isneginf
from graphls.ops.math.arithmetic import isposinf as isposinf
from graphls.ops.math.arithmetic import lcm as lcm
from graphls.ops.math.arithmetic import lerp as lerp
from graphls.ops.math.arithmetic import nan_to_num as nan_to_num
from graphls.ops.math.arithmetic import population_count as population_count
from graphls.ops.math.arithmetic import positive as positive
from graphls.ops.math.arithmetic import signbit as signbit
from graphls.ops.math.arithmetic import subtract as subtract
from graphls.ops.math.arithmetic import true_divide as true_divide
from graphls.ops.math.arithmetic import trunc as trunc
from graphls.ops.math.bessel import bessel_i0 as bessel_i0
from graphls.ops.math.bessel import bessel_i0e as bessel_i0e
from graphls.ops.math.bessel import bessel_i1 as bessel_i1
from graphls.ops.math.bessel import bessel_i1e as bessel_i1e
from graphls.ops.math.bessel import bessel_j0 as bessel_j0
from graphls.ops.math.bessel import bessel_j1 as bessel_j1
from graphls.ops.math.bessel import bessel_k0 as bessel_k0
from graphls.ops.math.bessel import bessel_k0e as bessel_k0e
from graphls.ops.math.bessel import bessel_k1 as bessel_k1
from graphls.ops.math.bessel import bessel_k1e as bessel_k1e
from graphls.ops.math.bessel import bessel_y0 as bessel_y0
from graphls.ops.math.bessel import bessel_y1 as bessel_y1
from graphls.ops.math.elementwise import abs as abs
from graphls.ops.math.elementwise import add as add
from graphls.ops.math.elementwise import addn as addn
from graphls.ops.math.elementwise import cast as cast
from graphls.ops.math.elementwise import ceil as ceil
from graphls.ops.math.elementwise import clamp as clamp
from graphls.ops.math.elementwise import clip_by_value as clip_by_value
from graphls.ops.math.elementwise import cos as cos
from graphls.ops.math.elementwise import div as div
from graphls.ops.math.elementwise import equal as equal
from graphls.ops.math.elementwise import erf as erf
from graphls.ops.math.elementwise import exp as exp
from graphls.ops.math.elementwise import expm1 as expm1
from graphls.ops.math.elementwise import floor as floor
from graphls.ops.math.elementwise import floor_div as floor_div
from graphls.ops.math.elementwise import greater as greater
from graphls.ops.math.elementwise import greater_equal as greater_equal
from graphls.ops.math.elementwise import isfinite as isfinite
from graphls.ops.math.elementwise import isinf as isinf
from graphls.ops.math.elementwise import isnan as isnan
from graphls.ops.math.elementwise import less as less
from graphls.ops.math.elementwise import less_equal as less_equal
from graphls.ops.math.elementwise import log as log
from graphls.ops.math.elementwise import log1p as log1p
from graphls.ops.math.elementwise import logical_and as logical_and
from graphls.ops.math.elementwise import logical_not as logical_not
from graphls.ops.math.elementwise import logical_or as logical_or
from graphls.ops.math.elementwise import logical_xor as logical_xor
from graphls.ops.math.elementwise import maximum as maximum
from graphls.ops.math.elementwise import minimum as minimum
from graphls.ops.math.elementwise import mod as mod
from graphls.ops.math.elementwise import mul as mul
from graphls.ops.math.elementwise import neg as neg
from graphls.ops.math.elementwise import not_equal as not_equal
from graphls.ops.math.elementwise import pow as pow
from graphls.ops.math.elementwise import reciprocal as reciprocal
from graphls.ops.math.elementwise import round as round
from graphls.ops.math.elementwise import rsqrt as rsqrt
from graphls.ops.math.elementwise import sign as sign
from graphls.ops.math.elementwise import sin as sin
from graphls.ops.math.elementwise import sqrt as sqrt
from graphls.ops.math.elementwise import square as square
from graphls.ops.math.elementwise import sub as sub
from graphls.ops.math.elementwise import tanh as tanh
from graphls.ops.math.elementwise import truncate_div as truncate_div
from graphls.ops.math.elementwise import where as where
from graphls.ops.math.gamma_functions import digamma as digamma
from graphls.ops.math.gamma_functions import lgamma as lgamma
from graphls.ops.math.gamma_functions import mvlgamma as mvlgamma
from graphls.ops.math.gamma_functions import polygamma as polygamma
from graphls.ops.math.gamma_functions import zeta as zeta
from graphls.ops.math.incomplete_functions import igamma as igamma
from graphls.ops.math.incomplete_functions import igammac as igammac
from graphls.ops.math.low_precision import pack_float4 as pack_float4
from graphls.ops.math.low_precision import round_stochastically as round_stochastically
from graphls.ops.math.low_precision import unpack_float4 as unpack_float4
from graphls.ops.math.reductions import cummax as cummax
from graphls.ops.math.reductions import cummin as cummin
from graphls.ops.math.reductions import logcumsumexp as logcumsumexp
from graphls.ops.math.scaling import absolute_maximum as absolute_maximum
from graphls.ops.math.scaling import dequantize as dequantize
from graphls.ops.math.scaling import quantize as quantize
from graphls.ops.math.statistics import cov as cov
from graphls.ops.math.statistics import diff as diff
from graphls.ops.math.statistics import histc as histc
from graphls.ops.math.transcendental import acos as acos
from graphls.ops.math.transcendental import acosh as acosh
from graphls.ops.math.transcendental import asin as asin
from graphls.ops.math.transcendental import asinh as asinh
from graphls.ops.math.transcendental import atan as atan
from graphls.ops.math.transcendental import atan2 as atan2
from graphls.ops.math.transcendental import atanh as atanh
from graphls.ops.math.transcendental import cosh as cosh
from graphls.ops.math.transcendental import deg2rad as deg2rad
from graphls.ops.math.transcendental import erfc as erfc
from graphls.ops.math.transcendental import erfinv as erfinv
from graphls.ops.math.transcendental import exp2 as exp2
from graphls.ops.math.transcendental import float_power as float_power
from graphls.ops.math.transcendental import hypot as hypot
from graphls.ops.math.transcendental import ldexp as ldexp
from graphls.ops.math.transcendental import log10 as log10
from graphls.ops.math.transcendental import log2 as log2
from graphls.ops.math.transcendental import logaddexp as logaddexp
from graphls.ops.math.transcendental import logaddexp2 as logaddexp2
from graphls.ops.math.transcendental import logit as logit
from graphls.ops.math.transcendental import rad2deg as rad2deg
from graphls.ops.math.transcendental import sinc as sinc
from graphls.ops.math.transcendental import sinh as sinh
from graphls.ops.math.transcendental import tan as tan
from graphls.ops.math.transcendental import xdivy as xdivy
from graphls.ops.math.transcendental import xlogy as xlogy
from graphls.ops.network.attention import flash_attention_score as flash_attention_score
from graphls.ops.network.attention import scaled_dot_product_attention as scaled_dot_product_attention
from graphls.ops.network.classification_losses import cross_entropy as cross_entropy
from graphls.ops.network.classification_losses import multi_margin_loss as multi_margin_loss
from graphls.ops.network.classification_losses import multilabel_margin_loss as multilabel_margin_loss
from graphls.ops.network.classification_losses import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from graphls.ops.network.classification_losses import nll_loss as nll_loss
from graphls.ops.network.ctc import ctc_greedy_decoder as ctc_greedy_decoder
from graphls.ops.network.ctc import ctc_loss as ctc_loss
from graphls.ops.network.images import interpolate as interpolate
from graphls.ops.network.images import pixel_shuffle as pixel_shuffle
from graphls.ops.network.images import pixel_unshuffle as pixel_unshuffle
from graphls.ops.network.layers import add_layer_norm as add_layer_norm
from graphls.ops.network.layers import add_rms_norm as add_rms_norm
from graphls.ops.network.layers import bidense as bidense
from graphls.ops.network.layers import channel_shuffle as channel_shuffle
from graphls.ops.network.layers import conv3d_transpose as conv3d_transpose
from graphls.ops.network.layers import dense as dense
from graphls.ops.network.layers import embedding as embedding
from graphls.ops.network.layers import intopk as intopk
from graphls.ops.network.layers import rotary_position_embedding as rotary_position_embedding
from graphls.ops.network.layers import swiglu as swiglu
from graphls.ops.network.losses import binary_cross_entropy as binary_cross_entropy
from graphls.ops.network.losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from graphls.ops.network.losses import cosine_embedding_loss as cosine_embedding_loss
from graphls.ops.network.losses import gaussian_nll_loss as gaussian_nll_loss
from graphls.ops.network.losses import hinge_embedding_loss as hinge_embedding_loss
from graphls.ops.network.losses import huber_loss as huber_loss
from graphls.ops.network.losses import kl_div as kl_div
from graphls.ops.network.losses import l1_loss as l1_loss
from graphls.ops.network.losses import margin_ranking_loss as margin_ranking_loss
from graphls.ops.network.losses import mse_loss as mse_loss
from graphls.ops.network.losses import poisson_nll_loss as poisson_nll_loss
from graphls.ops.network.losses import smooth_l1_loss as smooth_l1_loss
from graphls.ops.network.losses import soft_margin_loss as soft_margin_loss
from graphls.ops.network.losses import triplet_margin_loss as triplet_margin_loss
from graphls.ops.network.network import celu as celu
from graphls.ops.network.network import dropout as dropout
from graphls.ops.network.network import elu as elu
from graphls.ops.network.network import fast_gelu as fast_gelu
from graphls.ops.network.network import gelu as gelu
from graphls.ops.network.network import glu as glu
from graphls.ops.network.network import gumbel_softmax as gumbel_softmax
from graphls.ops.network.network import hardshrink as hardshrink
from graphls.ops.network.network import hardsigmoid as hardsigmoid
from graphls.ops.network.network import hardswish as hardswish
from graphls.ops.network.network import hardtanh as hardtanh
from graphls.ops.network.network import leaky_relu as leaky_relu
from graphls.ops.network.network import log_softmax as log_softmax
from graphls.ops.network.network import logsigmoid as logsigmoid
from graphls.ops.network.network import matmul as matmul
from graphls.ops.network.network import mish as mish
from graphls.ops.network.network import prelu as prelu
from graphls.ops.network.network import relu as relu
from graphls.ops.network.network import relu6 as relu6
from graphls.ops.network.network import rrelu as rrelu
from graphls.ops.network.network import selu as selu
from graphls.ops.network.network import sigmoid as sigmoid
from graphls.ops.network.network import silu as silu
from graphls.ops.network.network import softmax as softmax
from graphls.ops.network.network import softmax2d as softmax2d
from graphls.ops.network.network import softmin as softmin
from graphls.ops.network.network import softplus as softplus
from graphls.ops.network.network import softshrink as softshrink
from graphls.ops.network.network import softsign as softsign
from graphls.ops.network.network import tanhshrink as tanhshrink
from graphls.ops.network.network import threshold as threshold
from graphls.ops.network.normalization import batch_norm as batch_norm
from graphls.ops.network.normalization import group_norm as group_norm
from graphls.ops.network.normalization import layer_norm as layer_norm
from graphls.ops.network.normalization import lrn as lrn
from graphls.ops.network.normalization import rms_norm as rms_norm
from graphls.ops.network.pooling import avg_pool1d as avg_pool1d
from graphls.ops.network.pooling import max_pool1d as max_pool1d
from graphls.ops.network.sampling import affine_grid as affine_grid
from graphls.ops.network.sampling import bounding_box_decode as bounding_box_decode
from graphls.ops.network.sampling import bounding_box_encode as bounding_box_encode
from graphls.ops.network.sampling import check_valid as check_valid
from graphls.ops.network.sampling import crop_and_resize as crop_and_resize
from graphls.ops.network.sampling import grid_sample as grid_sample
from graphls.ops.network.sampling import iou as iou
from graphls.ops.operations import *
from graphls.ops.randomness.distributions import choice_with_mask as choice_with_mask
from graphls.ops.randomness.distributions import gamma as gamma
from graphls.ops.randomness.distributions import laplace as laplace
from graphls.ops.randomness.distributions import multinomial_with_replacement as multinomial_with_replacement
from graphls.ops.randomness.distributions import poisson as poisson
from graphls.ops.randomness.distributions import random_categorical as random_categorical
from graphls.ops.randomness.distributions import random_gamma as random_gamma
from graphls.ops.randomness.distributions import random_poisson as random_poisson
from graphls.ops.randomness.distributions import standard_laplace as standard_laplace
from graphls.ops.randomness.random import bernoulli as bernoulli
from graphls.ops.randomness.random import multinomial as multinomial
from graphls.ops.randomness.random import normal as normal
from graphls.ops.randomness.random import rand as rand
from graphls.ops.randomness.random import rand_like as rand_like
from graphls.ops.randomness.random import randint as randint
from graphls.ops.randomness.random import randint_like as randint_like
from graphls.ops.randomness.random import randn as randn
from graphls.ops.randomness.random import randn_like as randn_like
from graphls.ops.randomness.random import randperm as randperm
from graphls.ops.randomness.random import shuffle as shuffle
from graphls.ops.randomness.random import standard_normal as standard_normal
from graphls.ops.randomness.random import uniform as uniform
from graphls.ops.state import assign as assign
from graphls.ops.state import assign_add as assign_add
from graphls.ops.state import assign_sub as assign_sub
from graphls.ops.state import depend as depend
from graphls.ops.state import identity as identity
from graphls.ops.state import shard as shard
from graphls.ops.state import stop_gradient as stop_gradient

__all__: list[str]
view = reshape
permute = transpose
unsqueeze = expand_dims
cat = concat
gather_d = gather_elements
tensor_add = add
accumulate_n = addn
tensor_sub = sub
multiply = mul
tensor_mul = mul
tensor_muls = mul
divide = div
tensor_div = div
floor_divide = floor_div
floordiv = floor_div
tensor_floordiv = floor_div
floor_mod = mod
floormod = mod
remainder = mod
tensor_mod = mod
pows = pow
tensor_pow = pow
negative = neg
absolute = abs
sgn = sign
inv = reciprocal
tensor_exp = exp
tensor_expm1 = expm1
clip = clamp
eq = equal
ne = not_equal
lt = less
tensor_lt = less
le = less_equal
tensor_le = less_equal
gt = greater
tensor_gt = greater
ge = greater_equal
tensor_ge = greater_equal
select = where
unbind = unstack
row_stack = vstack
moveaxis = movedim
arcsin = asin
arccos = acos
arctan = atan
arctan2 = atan2
arcsinh = asinh
arccosh = acosh
arctanh = atanh
argwhere = nonzero
tensor_slice = slice
swish = silu
hsigmoid = hardsigmoid
hswish = hardswish
soft_shrink = softshrink
matrix_determinant = det
log_matrix_determinant = slogdet
tensordot = tensor_dot
truncate_mod = fmod
bitwise_not = invert
i0 = bessel_i0
upsample = interpolate
def sum(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def reduce_sum(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def mean(x: Any = ..., axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, input: Any = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def reduce_mean(x: Any = ..., axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, input: Any = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def amax(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, initial: TensorLike | None = None, where: TensorLike | None = None, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def reduce_max(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, initial: TensorLike | None = None, where: TensorLike | None = None, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def amin(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, initial: TensorLike | None = None, where: TensorLike | None = None, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def reduce_min(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, initial: TensorLike | None = None, where: TensorLike | None = None, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def max(x: TensorLike = ..., axis: builtins.int | None = None, keepdims: builtins.bool = False, *, initial: TensorLike | None = None, where: TensorLike | None = None, input: TensorLike = ..., dim: builtins.int | None = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> builtins.tuple[Tensor, Tensor]: ...
def min(x: TensorLike = ..., axis: builtins.int | None = None, keepdims: builtins.bool = False, *, initial: TensorLike | None = None, where: TensorLike | None = None, input: TensorLike = ..., dim: builtins.int | None = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> builtins.tuple[Tensor, Tensor]: ...
def prod(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, dtype: Any = None, *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def reduce_prod(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, dtype: Any = None, *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def any(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def reduce_any(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def all(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def reduce_all(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def var(x: TensorLike = ..., axis: Axis = None, ddof: builtins.int = 0, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def std(x: TensorLike = ..., axis: Axis = None, ddof: builtins.int = 0, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def argmax(x: TensorLike = ..., axis: builtins.int | None = None, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: builtins.int | None = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def argmin(x: TensorLike = ..., axis: builtins.int | None = None, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: builtins.int | None = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def cumsum(x: TensorLike = ..., axis: builtins.int = ..., dtype: Any = None, *, exclusive: builtins.bool = False, reverse: builtins.bool = False, input: TensorLike = ..., dim: builtins.int = ...) -> Tensor: ...
def cumprod(x: Tensor = ..., axis: builtins.int = ..., dtype: Any = None, *, exclusive: builtins.bool = False, reverse: builtins.bool = False, input: Tensor = ..., dim: builtins.int = ...) -> Tensor: ...
def tensor_scatter_update(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def tensor_scatter_add(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def tensor_scatter_sub(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def tensor_scatter_mul(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def tensor_scatter_div(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def tensor_scatter_max(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def tensor_scatter_min(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_update(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_add(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_sub(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_mul(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_div(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_max(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_min(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_nd_update(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_nd_add(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_nd_sub(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_nd_mul(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_nd_div(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_nd_max(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def scatter_nd_min(input_x: Any, indices: Any, updates: Any) -> Tensor: ...
def norm(x: Any = ..., ord: Any = None, axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, input: Any = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def vector_norm(x: Any = ..., ord: Any = 2, axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, input: Any = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def matrix_norm(x: Any = ..., ord: Any = "fro", axis: builtins.tuple[builtins.int, builtins.int] = (-2, -1), keepdims: builtins.bool = False, *, dtype: Any = None, input: Any = ..., dim: builtins.tuple[builtins.int, builtins.int] = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def conv1d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes = 1, pad_mode: builtins.str = "valid", padding: Sizes = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor: ...
def conv2d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes = 1, pad_mode: builtins.str = "valid", padding: Sizes = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor: ...
def conv3d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes = 1, pad_mode: builtins.str = "valid", padding: Sizes = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor: ...
def conv_transpose1d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1, *, pad_mode: builtins.str = "pad") -> Tensor: ...
def conv_transpose2d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1, *, pad_mode: builtins.str = "pad") -> Tensor: ...
def conv_transpose3d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1, *, pad_mode: builtins.str = "pad") -> Tensor: ...
def dropout1d(input: TensorLike, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor: ...
def dropout2d(input: TensorLike, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor: ...
def dropout3d(input: TensorLike, p: builtins.float = 0.5, training: builtins.bool = True) -> Tensor: ...
def var_mean(x: TensorLike = ..., axis: Axis = None, ddof: builtins.int = 0, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> builtins.tuple[Tensor, Tensor]: ...
def std_mean(x: TensorLike = ..., axis: Axis = None, ddof: builtins.int = 0, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> builtins.tuple[Tensor, Tensor]: ...
def aminmax(x: TensorLike = ..., *, axis: Axis = 0, keepdims: builtins.bool = False, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> builtins.tuple[Tensor, Tensor]: ...
def count_nonzero(x: TensorLike = ..., axis: Axis = (), keepdims: builtins.bool = False, dtype: DTypeLike = ..., *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def nansum(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, dtype: Any = None, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def nanmean(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, dtype: DTypeLike | None = None, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def logsumexp(x: TensorLike = ..., axis: Axis = None, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: Axis = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def trapz(y: TensorLike = ..., x: TensorLike | None = None, *, dx: TensorLike = 1.0, axis: builtins.int = -1, input: TensorLike | None = ..., dim: builtins.int = ...) -> Tensor: ...
def median(x: TensorLike = ..., axis: builtins.int | None = -1, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: builtins.int | None = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> builtins.tuple[Tensor, Tensor]: ...
def nanmedian(x: TensorLike = ..., axis: builtins.int | None = -1, keepdims: builtins.bool = False, *, input: TensorLike = ..., dim: builtins.int | None = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> builtins.tuple[Tensor, Tensor]: ...
def quantile(input: TensorLike = ..., q: TensorLike = ..., axis: builtins.int | None = None, keepdims: builtins.bool = False, *, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def nanquantile(input: TensorLike = ..., q: TensorLike = ..., axis: builtins.int | None = None, keepdims: builtins.bool = False, *, dim: builtins.int | None = ..., keepdim: builtins.bool = ..., keep_dims: builtins.bool = ...) -> Tensor: ...
def max_pool2d(x: TensorLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, return_indices: builtins.bool = False, ceil_mode: builtins.bool = False, *, pad_mode: builtins.str = "pad") -> Any: ...
def max_pool3d(x: TensorLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, return_indices: builtins.bool = False, ceil_mode: builtins.bool = False, *, pad_mode: builtins.str = "pad") -> Any: ...
def avg_pool2d(input_x: TensorLike, kernel_size: Sizes = 1, stride: Sizes = 1, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = 0, *, pad_mode: builtins.str = "pad") -> Tensor: ...
def avg_pool3d(input_x: TensorLike, kernel_size: Sizes = 1, stride: Sizes = 1, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = 0, *, pad_mode: builtins.str = "pad") -> Tensor: ...
def lp_pool1d(x: TensorLike, norm_type: builtins.float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: builtins.bool = False) -> Tensor: ...
def lp_pool2d(x: TensorLike, norm_type: builtins.float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: builtins.bool = False) -> Tensor: ...
def max_unpool1d(x: TensorLike, indices: TensorLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: ShapeLike | None = None) -> Tensor: ...
def max_unpool2d(x: TensorLike, indices: TensorLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: ShapeLike | None = None) -> Tensor: ...
def max_unpool3d(x: TensorLike, indices: TensorLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: ShapeLike | None = None) -> Tensor: ...
def adaptive_avg_pool1d(input: TensorLike, output_size: OutputSizes) -> Tensor: ...
def adaptive_avg_pool2d(input: TensorLike, output_size: OutputSizes) -> Tensor: ...
def adaptive_avg_pool3d(input: TensorLike, output_size: OutputSizes) -> Tensor: ...
def adaptive_max_pool1d(input: TensorLike, output_size: OutputSizes, return_indices: builtins.bool = False) -> Any: ...
def adaptive_max_pool2d(input: TensorLike, output_size: OutputSizes, return_indices: builtins.bool = False) -> Any: ...
def adaptive_max_pool3d(input: TensorLike, output_size: OutputSizes, return_indices: builtins.bool = False) -> Any: ...
