"""Changes an exported program where its translation to ONNX would fail, or would forget that a gradient is cut."""

from __future__ import annotations

from typing import Any


def prepare(torch: Any, program: Any) -> None:
    """Change an exported program where PyTorch's translation to ONNX would fail or forget a gradient that is cut."""
    aten = torch.ops.aten
    for module in (each for each in program.graph_module.modules() if hasattr(each, "graph")):
        for node in list(module.graph.nodes):
            if node.target is aten.scaled_dot_product_attention.default:
                # Its strides change when it is decomposed, and views of its result would fail.
                copy = _after(node, node, aten.clone.default, node, memory_format=torch.contiguous_format)
                _replace(program, node, copy, {copy})
            elif node.target is aten.embedding.default and len(node.args) > 2 and node.args[2] >= 0:
                _detach_padding(aten, program, node)
            elif node.target is torch.ops.higher_order.wrap_with_set_grad_enabled and not node.args[0]:
                _detach_region(aten, program, node, getattr(module, node.args[1].target))
        module.recompile()


def _after(node: Any, like: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of a function after a node, with the module and the line of another."""
    with node.graph.inserting_after(node):
        call = node.graph.call_function(function, args, kwargs)
    call.meta.update(like.meta)
    return call


def _replace(program: Any, node: Any, by: Any, readers: set[Any]) -> None:
    """Let all readers of a node but these read another one."""
    node.replace_all_uses_with(by, delete_user_cb=lambda user: user not in readers)
    program.graph_signature.replace_all_uses(node.name, by.name)


def _detach_padding(aten: Any, program: Any, node: Any) -> None:
    """Cut the gradient of the rows of `padding_idx`."""
    detached = _after(node, node, aten.detach.default, node)
    is_padding = _after(detached, node, aten.eq.Scalar, node.args[1], node.args[2])
    is_row = _after(is_padding, node, aten.unsqueeze.default, is_padding, -1)
    chosen = _after(is_row, node, aten.where.self, is_row, detached, node)
    _replace(program, node, chosen, {detached, chosen})


def _detach_region(aten: Any, program: Any, region: Any, body: Any) -> None:
    """Insert `detach` after a `torch.no_grad()`, for its results and for the buffers that it writes.

    A result that is an argument itself, as that of a `flatten` of two axes, has a gradient in PyTorch, too.
    """
    results = next(iter(body.graph.find_nodes(op="output"))).args[0]
    same = {user for user in region.users if _is_argument(results[user.args[1]])}
    order = {node: number for number, node in enumerate(region.graph.nodes)}
    last = max((*region.users, region), key=lambda node: order[node])
    buffers = [node for node in region.args[2:] if getattr(node, "name", "").startswith("b_")]
    for value in [*(user for user in region.users if user not in same), *buffers]:
        example = value.meta.get("val")
        before = {user for user in value.users if order[user] <= order[last]}
        if len(before) == len(value.users) or not example.is_floating_point():
            continue
        detached = _after(last, last, aten.detach.default, value)
        detached.meta["val"] = example
        if value in buffers:
            others = before | {detached}
            value.replace_all_uses_with(detached, delete_user_cb=lambda user, those=others: user not in those)
        else:
            _replace(program, value, detached, {detached})


def _is_argument(node: Any) -> bool:
    """Whether the value of a node in a region is one of the region's arguments, not a copy nor a view."""
    while node.op == "call_function":
        values = [getattr(arg, "meta", {}).get("val") if hasattr(arg, "op") else arg for arg in node.args]
        schema = getattr(node.target, "_schema", None)
        if not values or values[0] is None or schema is None or schema.is_mutable:
            return False
        if node.target(*values, **node.kwargs) is not values[0]:
            return False
        node = node.args[0]
    return bool(node.op == "placeholder")
