"""The subjects of the pages of operators and cells, with their modules of `graphls.ops` and `graphls.nn`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphls import nn, ops


@dataclass(frozen=True)
class Subject:
    """One page: its file in docs/operators/, its title, the package, and the modules whose names are on it."""

    file: str
    title: str
    package: str
    modules: tuple[str, ...]

    @property
    def members(self) -> dict[str, Any]:
        """The public names of the modules with their objects, in order."""
        members = public(self.package).items()
        ends = tuple(f".{module}" for module in self.modules)
        return {name: item for name, item in members if item.__module__.endswith(ends)}

    @property
    def paths(self) -> list[str]:
        """Their full names."""
        return [f"graphls.{self.package}.{name}" for name in self.members]


def public(package: str) -> dict[str, Any]:
    """The public names of "ops" or "nn" with their objects, in order."""
    of = {"ops": ops, "nn": nn}[package]
    return {name: getattr(of, name) for name in sorted(of.__all__)}


def _ops(file: str, title: str, modules: str) -> Subject:
    return Subject(f"{file}.md", title, "ops", tuple(modules.split()))


def _nn(file: str, title: str, modules: str) -> Subject:
    return Subject(f"{file}.md", title, "nn", tuple(modules.split()))


SUBJECTS = (
    _ops("elementwise", "Elementwise functions", "elementwise arithmetic transcendental low_precision scaling"),
    _ops("special", "Special functions", "bessel gamma_functions incomplete_functions"),
    _ops("reductions", "Reductions and statistics", "reductions statistics norms segments"),
    _ops("shapes", "Creating and rearranging tensors", "creation attributes shapes arrangement joins blocks pads"),
    _ops("indexing", "Indexing, selecting and scattering", "indexing selection scattering"),
    _ops("linear_algebra", "Linear algebra", "linear_algebra contractions diagonals factorizations linear_systems"),
    _ops("network", "Neural networks", "network layers convolution pooling adaptive_pooling normalization attention"),
    _ops("images", "Images and samples", "images sampling"),
    _ops("losses", "Losses", "losses classification_losses ctc"),
    _ops("random", "Random tensors", "random distributions"),
    _ops("gradients", "Gradients and higher-order functions", "gradients directions composite control_flow"),
    _ops("steps", "State, Python and ranks in a step", "state updates host_calls collectives"),
    _nn("cells", "Cells and containers", "cell containers"),
    _nn("layers", "Layers", "dense convolution pooling normalization images arrays"),
    _nn("activations", "Activations and other functions as cells", "activations functions"),
    _nn("sequences", "Recurrent layers and transformers", "recurrent transformer"),
    _nn("loss_cells", "Losses as cells", "losses function_cells"),
    _nn("optimizers", "Optimizers", "optimizers.base optimizers.descent optimizers.adaptive optimizers.layerwise "
        "optimizers.muon"),
    _nn("learning_rates", "Learning rates", "dynamic_lr learning_rate_schedule"),
    _nn("training_steps", "Training steps", "train_step train_step_mf micro_batches loss_scale grad_reducer"),
)  # fmt: skip


def without_subject() -> list[str]:
    """Public names without a page: their modules belong into SUBJECTS."""
    listed = {f"{s.package}.{name}" for s in SUBJECTS for name in s.members}
    names = (f"{package}.{name}" for package in ("ops", "nn") for name in public(package))
    return [name for name in names if name not in listed]
