"""Functions of PyTorch that its exporter translates wrongly, in terms of functions that it translates well."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from graphls.base.errors import GraphValueError


def exact_functions(torch: Any) -> Any:
    """A context in which functions that PyTorch's exporter gets wrong are computed by others, to the same results.

    Raises GraphValueError inside for settings that change a parameter in `forward`, and for packed sequences.
    """
    functional = torch.nn.functional
    replaced: dict[Any, Callable[..., Any]] = {
        functional.cross_entropy: _cross_entropy,
        functional.embedding: _embedding,
        functional.embedding_bag: _embedding_bag,
        functional.instance_norm: _instance_norm,
        torch._pack_padded_sequence: _packed_sequence,
    }

    class Exact(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
        ) -> Any:
            other = replaced.get(function)
            if other is None:
                return function(*args, **(kwargs or {}))
            if function is torch._pack_padded_sequence:
                return other()
            bound = signature(function).bind(*args, **(kwargs or {}))
            bound.apply_defaults()
            return other(torch, bound.arguments)

    return Exact()


def _cross_entropy(torch: Any, arguments: dict[str, Any]) -> Any:
    """The cross-entropy; for smoothed labels, which the exporter forgets, and for probabilities by its formula."""
    function, x = torch.nn.functional.cross_entropy, arguments["input"]
    target, weight = arguments["target"], arguments["weight"]
    smoothing, reduction = arguments["label_smoothing"], arguments["reduction"]
    if arguments["size_average"] is not None or arguments["reduce"] is not None:
        flags = arguments["size_average"], arguments["reduce"]
        reduction = torch.nn._reduction.legacy_get_string(*flags, emit_warning=False)
    settings = {"weight": weight, "ignore_index": arguments["ignore_index"]}
    if not smoothing and not target.is_floating_point():
        return function(x, target, reduction=reduction, **settings)
    axis = 1 if x.dim() > 1 else 0
    classes, logs = x.shape[axis], torch.log_softmax(x, axis)
    if weight is not None:
        logs = logs * weight.reshape([-1 if each == axis else 1 for each in range(x.dim())])
    if target.is_floating_point():
        losses = -(logs * (target * (1 - smoothing) + smoothing / classes)).sum(axis)
        count = losses.numel()
    else:
        hard = function(x, target, reduction="none", **settings)
        is_counted = (target != arguments["ignore_index"]).to(x.dtype)
        losses = (1 - smoothing) * hard - smoothing / classes * logs.sum(axis) * is_counted
        weights = 1 if weight is None else weight[torch.where(is_counted > 0, target, 0)]
        count = (is_counted * weights).sum()
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / count


def _embedding(torch: Any, arguments: dict[str, Any]) -> Any:
    """The rows; with `scale_grad_by_freq` their gradients are divided by the number of times that a row is taken."""
    _refuse_max_norm("Embedding", arguments)
    index, weight, is_scaled = arguments.pop("input"), arguments["weight"], arguments.pop("scale_grad_by_freq")
    rows = torch.nn.functional.embedding(index, **arguments)
    if not is_scaled:
        return rows
    flat = index.reshape(-1)
    counts = weight.new_zeros(weight.shape[0]).index_add(0, flat, torch.ones_like(flat, dtype=weight.dtype))
    scaled = rows / counts[index].unsqueeze(-1)
    return rows.detach() + (scaled - scaled.detach())


def _embedding_bag(torch: Any, arguments: dict[str, Any]) -> Any:
    """The bags of rows; raises GraphValueError for settings that the exporter forgets."""
    _refuse_max_norm("EmbeddingBag", arguments)
    if arguments["scale_grad_by_freq"]:
        raise GraphValueError("PyTorch's exporter forgets scale_grad_by_freq of an EmbeddingBag; set it to False.")
    return torch.nn.functional.embedding_bag(**arguments)


def _refuse_max_norm(kind: str, arguments: Mapping[str, Any]) -> None:
    if arguments["max_norm"] is not None:
        text = f"{kind} with max_norm changes its weight in every call, which a cell of from_torch does not"
        raise GraphValueError(f"{text}; set max_norm of the layer to None, and scale the rows in forward.")


def _instance_norm(torch: Any, arguments: dict[str, Any]) -> Any:
    """The normalisation; in training the exporter loses the running statistics, which are updated here."""
    names = ("running_mean", "running_var")
    if not arguments["use_input_stats"] or arguments["running_mean"] is None:
        return torch.nn.functional.instance_norm(**arguments)
    statistics = [arguments[name] for name in names]
    result = torch.nn.functional.instance_norm(**{**arguments, **dict.fromkeys(names)})
    with torch.no_grad():
        axes = tuple(range(2, arguments["input"].dim()))
        variances, averages = torch.var_mean(arguments["input"].detach(), axes)
        for statistic, new in zip(statistics, (averages, variances), strict=True):
            statistic.mul_(1 - arguments["momentum"]).add_(arguments["momentum"] * new.mean(0))
    return result


def _packed_sequence() -> Any:
    text = "the number of steps of a packed sequence depends on the values of its lengths"
    raise GraphValueError(f"{text}; take padded sequences, and a mask of the steps that count.")
