"""Where values lie that cross between segments."""

from __future__ import annotations

import numpy as np

from graphls.inspect.profile.memory import memory_of
from graphls.ir import parse
from graphls.ir.graph import Graph
from graphls.ir.plan import plan_of
from graphls.passes.schedule.partition import Partition
from graphls.runtime.boundary_buffers import boundary_buffers, overwritten
from graphls.runtime.onnxruntime.runtime import load_runtime
from graphls.runtime.onnxruntime.session_options import has_common_arena

STEP = """
graph @step(%x: f32[4,2]) {{
  state @w: f32[4,2]
  %a = exp(%x) : f32[4,2]
  %b = neg(%x) : f32[4,2]
  %t, %p, %q = all_reduce(%a, %b) {{group="world", op="sum", ranks=2}} : token, f32[4,2], f32[4,2]
  %c = mul(%p, %{other}) : f32[4,2]
  %d = add(%c, %q) : f32[4,2]
  @w <- %d
  return {given}
}}
"""


def planned(other: str = "q", given: str = "") -> Graph:
    return Partition(least=0).run(parse(STEP.format(other=other, given=given)))


def test_what_is_put_together_takes_the_place_of_what_was_given() -> None:
    plan = plan_of(planned())
    buffers = boundary_buffers(plan)
    assert len(overwritten(plan)) == 2 and len(buffers) == 4
    assert all(buffers[result] is buffers[operand] for result, operand in overwritten(plan).items())
    buffer = next(iter(buffers.values())).base
    assert buffer.nbytes == 64 and all(np.shares_memory(array, buffer) for array in buffers.values())
    assert memory_of(planned(), "cpu", plan).crossing == 64


def test_what_is_read_later_keeps_its_own_place() -> None:
    for graph in (planned(other="a"), planned(given="%b")):
        plan = plan_of(graph)
        arrays = {array.ctypes.data for array in boundary_buffers(plan).values()}
        assert not overwritten(plan) and len(arrays) == 4
        assert memory_of(graph, "cpu", plan).crossing == 128


def test_a_shard_takes_the_beginning_of_what_it_is_of() -> None:
    text = STEP.format(other="p", given="").replace("all_reduce", "reduce_shards").replace('op="sum", ', "")
    text = text.replace("token, f32[4,2], f32[4,2]", "token, f32[4], f32[4]")
    for line in ("@w", "%c = mul(%p, %p) ", "%d = add(%c, %q) "):
        text = text.replace(f"{line}: f32[4,2]", f"{line}: f32[4]")
    plan = plan_of(Partition(least=0).run(parse(text)))
    buffers = boundary_buffers(plan)
    assert len(overwritten(plan)) == 2
    for result, operand in overwritten(plan).items():
        assert buffers[result].shape == (4,) and buffers[result].ctypes.data == buffers[operand].ctypes.data


def test_segments_share_an_arena() -> None:
    assert has_common_arena(load_runtime())
