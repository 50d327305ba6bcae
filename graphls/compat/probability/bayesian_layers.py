"""`mindspore.nn.probability.bnn_layers`: layers whose weights are sampled from a trained distribution in each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from graphls import nn, ops
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.compat.probability.distributions import Normal
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, float32
from graphls.nn.cell import Cell
from graphls.nn.initializer import Normal as NormalInitializer
from graphls.nn.initializer import initializer
from graphls.ops.operands import Sizes

Prior: TypeAlias = "Cell | Callable[[], Cell]"
Posterior: TypeAlias = "Callable[..., Cell]"


class NormalPrior(Cell):
    """A constant normal distribution."""

    def __init__(self, dtype: DTypeLike = float32, mean: float = 0, std: float = 0.1) -> None:
        super().__init__()
        self.normal = Normal(mean, std, dtype=dtype)

    def construct(self, *args: object) -> Any:
        return self.normal(*args)


class NormalPosterior(Cell):
    """A normal distribution of a shape, with a trained mean m and a trained d, whose deviation is softplus(d).

    Both have normal initial values. Raises GraphTypeError for arguments of other types and negative deviations.
    """

    def __init__(
        self, name: str, shape: Sizes, dtype: DTypeLike = float32, loc_mean: float = 0, loc_std: float = 0.1,
        untransformed_scale_mean: float = -5, untransformed_scale_std: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        if not isinstance(name, str):
            raise GraphTypeError("The type of `name` must be `str`")
        if not isinstance(shape, (tuple, list)):
            raise GraphTypeError("The type of `shape` must be `tuple` or `list`")
        for key, number in (("loc_mean", loc_mean), ("untransformed_scale_mean", untransformed_scale_mean)):
            _check_number(key, number)
        for key, number in (("loc_std", loc_std), ("untransformed_scale_std", untransformed_scale_std)):
            _check_number(key, number, GraphTypeError)
        initial = NormalInitializer(loc_std, loc_mean)
        self.mean = Parameter(initializer(initial, shape, dtype), name=f"{name}_mean")
        initial = NormalInitializer(untransformed_scale_std, untransformed_scale_mean)
        self.untransformed_std = Parameter(initializer(initial, shape, dtype), name=f"{name}_untransformed_std")
        self.normal = Normal(dtype=dtype)

    @property
    def std(self) -> Tensor:
        """The standard deviation, which is above 0."""
        return ops.softplus(self.untransformed_std) + 1e-6

    def construct(self, name: str, *args: Any) -> Any:
        if name == "sample":
            return self.normal.sample(*(args or ((),)), self.mean, self.std)
        return self.normal(name, *args, self.mean, self.std)


def _check_number(name: str, number: TensorLike, error: type[Exception] | None = None) -> None:
    """Raise GraphTypeError for anything but a number, and `error`, unless it is None, for numbers below 0."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise GraphTypeError(f"The type of `{name}` must be `int` or `float`")
    if error is not None and number < 0:
        raise error(f"The value of `{name}` must be >= 0")


def normal_post_fn(name: str, shape: Sizes) -> NormalPosterior:
    """The default posterior distribution of layers."""
    return NormalPosterior(name=name, shape=shape)


class _Variational:
    """A layer with sampled weights: their prior and posterior distributions, and the divergence between these."""

    weight_prior: Cell
    weight_posterior: NormalPosterior
    bias_prior: Cell
    bias_posterior: NormalPosterior
    has_bias: bool

    def _set_distributions(self, part: str, shape: list[int], prior: Prior, posterior: Posterior) -> None:
        """Set the distributions of the weight or the bias; raises GraphTypeError unless they are normal."""
        prior_cell = prior if isinstance(prior, Cell) else prior()
        posterior_cell = posterior(shape=shape, name=f"bnn_{part}")
        for key, cell in (("prior", prior_cell), ("posterior", posterior_cell)):
            if not isinstance(getattr(cell, "normal", None), Normal):
                text = f"The type of distribution of `{part}_{key}_fn` must be `normal`"
                raise GraphTypeError(text)
        setattr(self, f"{part}_prior", prior_cell)
        setattr(self, f"{part}_posterior", posterior_cell)

    def compute_kl_loss(self) -> Tensor:
        """The Kullback-Leibler divergence of the priors from the posteriors, over all weights."""
        parts = [(self.weight_prior, self.weight_posterior)]
        if self.has_bias:
            parts.append((self.bias_prior, self.bias_posterior))
        losses: list[Tensor] = [prior("kl_loss", "Normal", post.mean, post.std).sum() for prior, post in parts]
        return losses[0] + losses[1] if self.has_bias else losses[0]


class _DenseVariational(_Variational, Cell):
    def __init__(
        self, in_channels: int, out_channels: int, activation: str | Cell | None = None, has_bias: bool = True,
        weight_prior_fn: Prior = NormalPrior, weight_posterior_fn: Posterior = normal_post_fn,
        bias_prior_fn: Prior = NormalPrior, bias_posterior_fn: Posterior = normal_post_fn,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_channels, self.out_channels, self.has_bias = in_channels, out_channels, has_bias
        self._set_distributions("weight", [out_channels, in_channels], weight_prior_fn, weight_posterior_fn)
        if has_bias:
            self._set_distributions("bias", [out_channels], bias_prior_fn, bias_posterior_fn)
        self.activation = nn.get_activation(activation) if isinstance(activation, str) else activation
        if self.activation is not None and not isinstance(self.activation, Cell):
            raise GraphValueError("The type of `activation` is wrong.")

    def construct(self, x: TensorLike) -> Tensor:
        result = self._weighted(x)
        if self.has_bias:
            result = result + self.bias_posterior("sample")
        return result if self.activation is None else self.activation(result)

    def _weighted(self, x: TensorLike) -> Tensor:
        raise NotImplementedError


class DenseReparam(_DenseVariational):
    """`Dense` with weights sampled in each call, the same for all rows (Kingma and Welling, 2013)."""

    def _weighted(self, x: TensorLike) -> Tensor:
        return ops.matmul(x, self.weight_posterior("sample").T)


class DenseLocalReparam(_DenseVariational):
    """`Dense` whose results are sampled as if each row had its own weights (Kingma et al., 2015)."""

    def _weighted(self, x: TensorLike) -> Tensor:
        mean = ops.matmul(x, self.weight_posterior.mean.T)
        deviation = ops.sqrt(ops.matmul(ops.square(x), ops.square(self.weight_posterior.std).T))
        return self.weight_posterior.normal.sample((), mean, deviation)


class ConvReparam(_Variational, Cell):
    """`Conv2d` with weights sampled in each call, the same for all rows."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, pad_mode: str = "same",
        padding: Sizes = 0, dilation: Sizes = 1, group: int = 1, has_bias: bool = False,
        weight_prior_fn: Prior = NormalPrior, weight_posterior_fn: Posterior = normal_post_fn,
        bias_prior_fn: Prior = NormalPrior, bias_posterior_fn: Posterior = normal_post_fn,
    ) -> None:  # fmt: skip
        super().__init__()
        size = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
        self.has_bias = has_bias
        shape = [out_channels, in_channels // group, *size]
        self._set_distributions("weight", shape, weight_prior_fn, weight_posterior_fn)
        if has_bias:
            self._set_distributions("bias", [out_channels], bias_prior_fn, bias_posterior_fn)
        self.conv2d = ops.Conv2D(
            out_channels, size, pad_mode=pad_mode, pad=padding, stride=stride, dilation=dilation, group=group
        )

    def construct(self, x: TensorLike) -> Tensor:
        result = self.conv2d(x, self.weight_posterior("sample"))
        return ops.bias_add(result, self.bias_posterior("sample")) if self.has_bias else result


class WithBNNLossCell(Cell):
    """`dnn_factor` times a network's loss, plus `bnn_factor` times the divergences of its layers with sampled weights.

    Raises GraphTypeError and GraphValueError for factors that are not numbers of 0 or more.
    """

    def __init__(self, backbone: Cell, loss_fn: Cell, dnn_factor: float = 1, bnn_factor: float = 1) -> None:
        super().__init__(auto_prefix=False)
        _check_number("dnn_factor", dnn_factor, GraphValueError)
        _check_number("bnn_factor", bnn_factor, GraphValueError)
        self.backbone_network, self.loss_fn = backbone, loss_fn
        self.dnn_factor, self.bnn_factor = dnn_factor, bnn_factor

    def construct(self, x: TensorLike, label: TensorLike) -> Tensor:
        loss: Tensor = self.loss_fn(self.backbone_network(x), label) * self.dnn_factor
        for _, layer in self.backbone_network.cells_and_names():
            if isinstance(layer, _Variational):
                loss = loss + layer.compute_kl_loss() * self.bnn_factor
        return loss
