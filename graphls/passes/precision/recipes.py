"""Recipes: which form each operand of a product has, by the names that the field uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DType, Type, float8_e4m3fn, float8_e5m2
from graphls.passes.precision.forms import BlockForm, CurrentForm, DelayedForm, Form, MXForm, NVFP4Form

ROLES = ("input", "weight", "gradient")
"""What an operand is: the gradient of a result, a weight, or another value of the forward."""

PRODUCTS = ("forward", "input_gradient", "weight_gradient")
"""The products of a layer: its result, the gradient of its input and that of its weight."""


def product_of(roles: Sequence[str]) -> str | None:
    """The product of a layer whose two operands have these roles; None for one of two gradients."""
    if "gradient" not in roles:
        return "forward"
    if roles.count("gradient") == 2:
        return None
    return "input_gradient" if "weight" in roles else "weight_gradient"


Float8Format = Literal["HYBRID", "E4M3"]
"""E4M3 is float8_e4m3fn for all tensors; HYBRID has float8_e5m2 for gradients."""


@dataclass(frozen=True)
class Recipe:
    """Which operands of products have few bits, and how they are rounded: a base class for recipes of your own.

    `attention` says whether products of two activations are low, `keep` has shell-style patterns of the names of cells
    that stay as they are. A subclass has a method `form`, and is a frozen dataclass where it has fields. Raises
    GraphTypeError for settings of other types.

    Examples:
        >>> import graphls
        >>> from graphls import amp
        >>> from graphls.ir import parse_type
        >>> class WideRange(amp.Recipe):
        ...     def form(self, role, product, kind, axes):
        ...         return None if role == "weight" else amp.CurrentForm(graphls.float8_e5m2)
        >>> WideRange(keep=("head",)).form("input", "forward", parse_type("f32[8,4]"), (1,)).dtype
        Float8_e5m2
    """

    attention: bool = field(default=False, kw_only=True)
    keep: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        _check_switches(attention=self.attention)
        if isinstance(self.keep, str) or not all(isinstance(pattern, str) for pattern in self.keep):
            raise GraphTypeError(f'keep={self.keep!r} is a tuple of patterns of names, such as ("head", "layers.0.*").')
        object.__setattr__(self, "keep", tuple(self.keep))

    def form(self, role: str, product: str, kind: Type, axes: tuple[int, ...]) -> Form | None:
        """The form of an operand that a product sums over `axes`; None leaves it as it is.

        `role` is one of "input", "weight" and "gradient", `product` one of "forward", "input_gradient" and
        "weight_gradient", and `kind` the type of the operand. Raises NotImplementedError in this class.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class DelayedScaling(Recipe):
    """float8 with one scale for each tensor, which the maxima of earlier steps give.

    A history of `amax_history_len` absolute maxima is a state. At the end of a step the scale of the next one is
    (largest / amax) / 2 ** `margin`, where amax is the greatest of the history, or the last with
    `amax_compute_algo="most_recent"`. `fp8_format` is "HYBRID", with float8_e5m2 for gradients and float8_e4m3fn for
    all others, or "E4M3". Raises GraphValueError for other arguments. Source: Transformer Engine's DelayedScaling,
    which has the names; Micikevicius et al., "FP8 Formats for Deep Learning" (arXiv 2209.05433).

    Examples:
        >>> from graphls import amp
        >>> from graphls.ir import parse_type
        >>> recipe = amp.DelayedScaling(margin=1, amax_history_len=16)
        >>> form = recipe.form("gradient", "input_gradient", parse_type("f32[8,4]"), (1,))
        >>> form.dtype, {name: array.shape for name, array in form.states.items()}
        (Float8_e5m2, {'amax_history': (16,), 'scale': ()})
    """

    margin: float = 0
    amax_history_len: int = 1024
    amax_compute_algo: Literal["max", "most_recent"] = "max"
    fp8_format: Float8Format = "HYBRID"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("fp8_format", self.fp8_format, ("HYBRID", "E4M3"))
        _check("amax_compute_algo", self.amax_compute_algo, ("max", "most_recent"))
        if not isinstance(self.margin, (int, float)) or not abs(self.margin) <= 100:
            raise GraphValueError(f"margin={self.margin!r} is a number of bits, from -100 to 100.")
        if not isinstance(self.amax_history_len, int) or self.amax_history_len < 1:
            raise GraphValueError(f"amax_history_len={self.amax_history_len!r} is a number of steps, at least 1.")

    def form(self, role: str, product: str, kind: Type, axes: tuple[int, ...]) -> Form:
        dtype = _float8(self.fp8_format, role)
        return DelayedForm(dtype, self.margin, self.amax_history_len, self.amax_compute_algo)


@dataclass(frozen=True)
class CurrentScaling(Recipe):
    """float8 with one scale for each tensor, from its own absolute maximum.

    `fp8_format` is that of DelayedScaling. With `power_of_two` scales are powers of two, so that nothing but the cast
    rounds. Raises GraphValueError for other formats and GraphTypeError for other switches. Source: Transformer Engine's
    Float8CurrentScaling.

    Examples:
        >>> from graphls import amp
        >>> from graphls.ir import parse_type
        >>> amp.CurrentScaling(fp8_format="E4M3").form("gradient", "input_gradient", parse_type("f32[8,4]"), (1,))
        CurrentForm(dtype=Float8_e4m3fn, power_of_two=False)
    """

    fp8_format: Float8Format = "HYBRID"
    power_of_two: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("fp8_format", self.fp8_format, ("HYBRID", "E4M3"))
        _check_switches(power_of_two=self.power_of_two)

    def form(self, role: str, product: str, kind: Type, axes: tuple[int, ...]) -> Form:
        return CurrentForm(_float8(self.fp8_format, role), self.power_of_two)


@dataclass(frozen=True)
class BlockScaling(Recipe):
    """float8 with a scale for each 128 numbers along the summed axis, and for 128 x 128 numbers of a weight.

    Scales are powers of two, or with `power_of_two=False` any float32. `fp8_format` is that of DelayedScaling; with
    "E4M3" gradients are float8_e4m3fn, too. Raises GraphValueError for other formats and GraphTypeError for other
    switches. Sources: Transformer Engine's Float8BlockScaling; DeepSeek-V3 Technical Report (arXiv 2412.19437), section
    3.3.

    Examples:
        >>> import graphls
        >>> from graphls import amp
        >>> from graphls.ir import parse_type
        >>> recipe = amp.BlockScaling()
        >>> recipe.form("input", "forward", parse_type("f32[512,256]"), (1,)).block
        (1, 128)
        >>> recipe.form("weight", "forward", parse_type("f32[1024,256]"), (1,)).block
        (128, 128)
    """

    fp8_format: Float8Format = "E4M3"
    power_of_two: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("fp8_format", self.fp8_format, ("HYBRID", "E4M3"))
        _check_switches(power_of_two=self.power_of_two)

    def form(self, role: str, product: str, kind: Type, axes: tuple[int, ...]) -> Form | None:
        block = _square(kind, axes, 128) if role == "weight" else _line(kind, axes, 128)
        return BlockForm(_float8(self.fp8_format, role), block, self.power_of_two)


@dataclass(frozen=True)
class MXFP8(Recipe):
    """float8 with a power of two for each 32 numbers along the summed axis.

    The scale rounds up by default, so that nothing saturates; `scale_rule="floor"` is that of the OCP specification.
    `fp8_format` is that of DelayedScaling; with "E4M3" gradients are float8_e4m3fn, too. Raises GraphValueError for
    other arguments. Sources: OCP Microscaling Formats v1.0; Transformer Engine's MXFP8BlockScaling; Mishra et al.,
    "Recipes for Pre-training LLMs with MXFP8" (arXiv 2506.08027).

    Examples:
        >>> from graphls import amp
        >>> from graphls.ir import parse_type
        >>> amp.MXFP8().form("input", "weight_gradient", parse_type("f32[512,256]"), (0,))
        MXForm(dtype=Float8_e4m3fn, block=(32, 1), scale_rule='ceil')
    """

    fp8_format: Float8Format = "E4M3"
    scale_rule: Literal["ceil", "floor"] = "ceil"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("fp8_format", self.fp8_format, ("HYBRID", "E4M3"))
        _check("scale_rule", self.scale_rule, ("ceil", "floor"))

    def form(self, role: str, product: str, kind: Type, axes: tuple[int, ...]) -> Form | None:
        return MXForm(_float8(self.fp8_format, role), _line(kind, axes, 32), self.scale_rule)


@dataclass(frozen=True)
class NVFP4(Recipe):
    """float4_e2m1fn with a scale of float8_e4m3fn for each 16 numbers along the summed axis and one for the tensor.

    `fp4_2d_quantization` has a scale for each 16 x 16 numbers of a weight. With `stochastic_rounding` gradients are
    rounded to one of the two nearest numbers, the more often the nearer it is. With `random_hadamard_transform` both
    operands of the gradient of a weight are multiplied by a Hadamard matrix with random signs, 16 numbers at a time,
    along the axis that it sums, which spreads outliers and leaves the product the same. Raises GraphTypeError for other
    switches than True and False. Sources: "Pretraining Large Language Models with NVFP4" (arXiv 2509.25149);
    Transformer Engine's NVFP4BlockScaling, which has the names of the options.

    Examples:
        >>> from graphls import amp
        >>> from graphls.ir import parse_type
        >>> recipe = amp.NVFP4(stochastic_rounding=False)
        >>> recipe.form("gradient", "weight_gradient", parse_type("f32[512,256]"), (0,))
        NVFP4Form(block=(16, 1), is_stochastic=False, hadamard_axis=0)
    """

    random_hadamard_transform: bool = True
    stochastic_rounding: bool = True
    fp4_2d_quantization: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_switches(
            random_hadamard_transform=self.random_hadamard_transform, stochastic_rounding=self.stochastic_rounding,
            fp4_2d_quantization=self.fp4_2d_quantization,
        )  # fmt: skip

    def form(self, role: str, product: str, kind: Type, axes: tuple[int, ...]) -> Form | None:
        is_square = role == "weight" and self.fp4_2d_quantization
        is_transformed = product == "weight_gradient" and self.random_hadamard_transform
        return NVFP4Form(
            block=_square(kind, axes, 16) if is_square else _line(kind, axes, 16),
            is_stochastic=role == "gradient" and self.stochastic_rounding,
            hadamard_axis=axes[0] if is_transformed else None,
        )


RECIPES: dict[str, type[Recipe]] = {
    "delayed": DelayedScaling, "current": CurrentScaling, "block": BlockScaling, "mxfp8": MXFP8, "nvfp4": NVFP4,
}  # fmt: skip
"""The recipes by their names in the text of pipelines of passes."""


def _check(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise GraphValueError(f"{name}={value!r} is one of {', '.join(map(repr, choices))}.")


def _check_switches(**switches: object) -> None:
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise GraphTypeError(f"{name}={value!r} is True or False.")


def _float8(name: str, role: str) -> DType:
    return float8_e5m2 if name == "HYBRID" and role == "gradient" else float8_e4m3fn


def _line(kind: Type, axes: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Blocks of so many numbers along the first of the summed axes."""
    return tuple(size if axis == axes[0] else 1 for axis in range(kind.rank))


def _square(kind: Type, axes: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Blocks along the first of the summed axes and along the last one that stays."""
    others = [axis for axis in range(kind.rank) if axis not in axes]
    return tuple(size if axis in (axes[0], *others[-1:]) else 1 for axis in range(kind.rank))
