"""Suggestions for names that users know from PyTorch."""

from __future__ import annotations

from collections.abc import Iterable

from graphls.base.refusals import refusal
from graphls.ir.registry import nearest

_GRADIENTS = "gradients are taken by graphls.value_and_grad(network, None, weights), or by nn.TrainOneStepCell"
_STEP = "nn.TrainOneStepCell(network, optimizer) takes the gradients and calls the optimizer in one step"
_NO_ZERO = "gradients do not add up between steps, so there is nothing to clear"
_DEVICE = 'a whole step has one device: graphls.compile(cell, x, device="cuda"), or set_context(device_target="GPU")'
_FLOAT = "cell.to_float(graphls.float16) sets the dtype that a cell computes in"
_SAVE = "graphls.train.save_checkpoint(network, path) writes the parameters, network.parameters_dict() has them by name"
_LOAD = "graphls.train.load_checkpoint(path, network) reads them"
_WEIGHTS = "graphls.interop.torch has state_dict(network) and load_state_dict(network, path) for weights of PyTorch"
_STOP = "ops.stop_gradient(x) is the value without a gradient"
_RATE = "the learning rate is called learning_rate"

TENSOR = {
    "backward": _GRADIENTS, "grad": _GRADIENTS, "retain_grad": _GRADIENTS, "grad_fn": _GRADIENTS, "detach": _STOP,
    "detach_": _STOP, "requires_grad_": "parameters have requires_grad, and functions are told what to differentiate",
    "cuda": _DEVICE, "cpu": "x.asnumpy() is the value as a NumPy array", "device": _DEVICE, "is_cuda": _DEVICE,
    "data": "x.asnumpy() is the value, and parameter.set_data(x) replaces it", "permute_": "use x.permute",
    "register_hook": "gradients are values, which graphls.value_and_grad(network, None, weights) returns to look at",
}  # fmt: skip
CELL = {
    "eval": "cell.set_train(False) switches to evaluation", "train": "cell.set_train() switches to training",
    "forward": "call the cell; its method is named construct", "parameters": "use cell.trainable_params()",
    "named_parameters": "use cell.parameters_and_names()", "modules": "use cell.cells_and_names()",
    "named_modules": "use cell.cells_and_names()", "children": "use cell.cells()",
    "named_children": "use cell.name_cells()", "zero_grad": _NO_ZERO,
    "cuda": _DEVICE, "cpu": _DEVICE, "to": f"{_FLOAT}; {_DEVICE}", "half": _FLOAT, "float": _FLOAT, "double": _FLOAT,
    "bfloat16": _FLOAT, "requires_grad_": "set requires_grad of the parameters, or give weights to value_and_grad",
    "register_parameter": "assign a Parameter to an attribute of the cell",
}  # fmt: skip
OPTIMIZER = {
    "step": _STEP, "zero_grad": _NO_ZERO,
    "param_groups": "groups are given to the optimizer as dicts, and get_lr() tells the learning rate",
    "add_param_group": "all groups are given when the optimizer is made",
}  # fmt: skip
PACKAGE = {
    "no_grad": "values have no gradients unless a function takes them; ops.stop_gradient(x) cuts one off",
    "inference_mode": "values have no gradients unless a function takes them", "cuda": _DEVICE, "device": _DEVICE,
    "optim": "optimizers are in graphls.nn", "manual_seed": "use graphls.set_seed",
    "save": _SAVE, "load": f"{_LOAD}; {_WEIGHTS}", "autograd": _GRADIENTS,
    "utils": "datasets are in graphls.dataset", "detach": _STOP, "functional": "functions are in graphls.ops",
    "Module": "networks are subclasses of nn.Cell, with a method construct", "ModuleList": "use nn.CellList",
    "ModuleDict": "use nn.CellDict", "Sequential": "use nn.SequentialCell",
    "init": "initial values are in graphls.initializer",
    "lr_scheduler": "schedules are cells and lists such as nn.CosineDecayLR and nn.piecewise_constant_lr",
}  # fmt: skip
NAMESPACE = {
    **PACKAGE, "Parameter": "use graphls.Parameter", "Tensor": "use graphls.Tensor",
}  # fmt: skip
"""Advice for names that `graphls.nn` and `graphls.ops` do not have."""
TORCH = {
    "linear": "nn.Dense", "bilinear": "nn.BiDense", "lstm": "nn.LSTM", "gru": "nn.GRU", "rnn_tanh": "nn.RNN",
    "rnn_relu": "nn.RNN", "multi_head_attention_forward": "nn.MultiheadAttention", "instance_norm": "nn.InstanceNorm2d",
    "local_response_norm": "ops.lrn", "normalize": "ops.L2Normalize", "gather": "ops.gather_elements",
    "take_along_dim": "ops.gather_elements", "index_select": "ops.gather with an axis",
    "scatter": "ops.tensor_scatter_elements", "transpose": "ops.swapaxes", "permute": "ops.transpose",
    "concatenate": "ops.cat", "concat": "ops.cat", "clamp_min": "ops.clamp", "clamp_max": "ops.clamp",
    "clone": "the tensor itself, as values of a graph never change", "detach": "ops.stop_gradient",
    "expit": "ops.sigmoid", "gammaln": "ops.lgamma", "psi": "ops.digamma", "trapezoid": "ops.trapz",
    "repeat": "ops.tile", "expand": "ops.broadcast_to", "rsub": "ops.sub", "to": "ops.cast",
    "__setitem__": "ops.setitem",
}  # fmt: skip
"""Counterparts of functions of PyTorch that have another name here, or whose name means something else."""
KEYWORDS = {
    "lr": _RATE, "betas": "they are two arguments, beta1 and beta2", "bias": "it is called has_bias",
    "in_features": "it is called in_channels", "out_features": "it is called out_channels",
    "track_running_stats": "use_batch_statistics says which statistics are used", "dim": "it is called axis",
    "params": "they are the first argument", "affine": "parameters are left out by requires_grad",
    "proj_size": refusal("projections").rstrip("."),
}  # fmt: skip
"""Advice for keyword arguments, given only where a class has no argument of that name."""


def instead(name: str, habits: dict[str, str], known: Iterable[str]) -> str:
    """The advice for a name, as `; use ...`, or the closest known name, or nothing.

    Names with an underscore are those that tools look for, often and in vain, and are close to none.
    """
    if name in habits:
        return f"; {habits[name]}"
    return "" if name.startswith("_") else nearest(name, known)
