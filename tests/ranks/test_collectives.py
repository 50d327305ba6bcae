"""Collectives: at once, in a step, differentiated, in groups; and what ranks do not agree on."""

from __future__ import annotations

import re

import numpy as np
import pytest

import graphls as gl
from graphls.compat.operators import collectives
from graphls.ir import Builder, Graph, Type, Value, dump, parse, verify
from graphls.ir.registry import lookup
from graphls.ir.types import bool_, float16, float32
from graphls.ops.collectives import all_gathered, all_reduced, broadcasted, reduce_scattered
from tests.ranks.running import Ran, needs_ranks

AT_ONCE = """
    x = gl.Tensor(np.arange(4, dtype=np.float32).reshape(4, 1) + 10 * RANK)

    def everything(x):
        return (
            collectives.AllReduce()(x), collectives.AllReduce("max")(x), collectives.AllReduce(op="min")(x),
            collectives.AllReduce("prod")(x), collectives.AllGather()(x), collectives.ReduceScatter()(x),
            *collectives.Broadcast(1)((x,)), collectives.all_reduce(x)[0], collectives.broadcast(x, 0),
            ops.cast(collectives.AllReduce()(ops.cast(x, gl.float16)), gl.float32),
            ops.cast(collectives.AllReduce()(ops.cast(x, gl.bfloat16)), gl.float32),
            collectives.AllReduce()(ops.cast(x, gl.int32)),
        )

    if RANK == 0:
        time.sleep(0.1)
    collectives.Barrier()()
    step = gl.compile(everything, x)
    again = gl.compile(everything, x, backend="numpy")
    ways = [everything(x), step(x), again(x)]
    told = [" ".join("".join(str(t.asnumpy().ravel().astype(int).tolist()).split()) for t in way) for way in ways]
    assert len(set(told)) == 1, told
    assert [t.shape for t in ways[0]] == [t.shape for t in ways[1]]
    print(RANK, told[0])
"""
BOTH = "[10,12,14,16] [10,11,12,13] [0,1,2,3] [0,11,24,39] [0,1,2,3,10,11,12,13]"
REST = "[10,11,12,13] [10,12,14,16] [0,1,2,3] [10,12,14,16] [10,12,14,16] [10,12,14,16]"


DIFFERENTIATED = """
    x = np.array([[1.0], [2.0]], np.float32) + RANK
    scale = np.array([[3.0], [5.0]], np.float32) * (1 + RANK)

    def net(x, scale):
        total, = broadcast([collectives.AllReduce()(x) * scale])
        wide = collectives.AllGather()(x * x)
        part = collectives.ReduceScatter()(wide * wide)
        return total.sum() + (part * scale).sum() + (collectives.AllReduce("max")(x) * scale).sum()

    def broadcast(tensors):
        return collectives.Broadcast(1)(tuple(tensors))

    step = gl.compile(ops.value_and_grad(net), x, scale)
    value, gradient = step(x, scale)
    # A difference quotient of the sum of what all ranks give, by one element of one rank.
    for owner in range(SIZE):
        for i in range(2):
            found = []
            for d in (-2.0**-6, 2.0**-6):
                moved = x.copy()
                moved[i, 0] += d * (RANK == owner)
                loss = gl.Tensor(np.float32(step(moved, scale)[0].asnumpy()))
                found.append(float(collectives.AllReduce()(loss).asnumpy()))
            quotient = (found[1] - found[0]) * 2.0**5
            if RANK == owner:
                assert abs(quotient - gradient.asnumpy()[i, 0]) < 1e-2 * abs(quotient), (quotient, gradient)
    print("right")
"""

POINTS = """
    x = np.array([[1.0, 2.0], [3.0, 5.0]], np.float32) + RANK
    weight = np.array([[2.0, 3.0], [5.0, 7.0]], np.float32) * (1 + RANK)
    other = 1 - RANK

    def net(x, weight):
        swapped, doubled = ops.NeighborExchange(
            [other, RANK], [other, RANK], [(2, 2), (2,)], [(2, 2), (2,)], gl.float32)((x * x, x[0] * x[1]))
        turned = ops.AlltoAll(2, 1, 0)(x * weight)
        total = ops.Reduce(1)(x * weight)
        part = collectives.scatter_tensor(x * x * weight, 1)
        half = ops.cast(ops.AllReduce()(ops.cast(x * weight, gl.float16)), gl.float32)
        joined = ops.ReduceScatter()(ops.AllGather()(x * x))
        lists = collectives.all_to_all_with_output_shape([(2,), (2,)], [x[0] * x[0], x[1] * x[0]])[0]
        terms = swapped * weight, doubled * doubled, turned * turned, total * weight, part * part, half * half
        return sum(t.sum() for t in (*terms, joined * joined, lists[0] * lists[1]))

    step = gl.compile(ops.value_and_grad(net), x, weight)
    backwards = gl.compile(ops.value_and_grad(net), x, weight, backend="numpy")
    value, gradient = step(x, weight)
    assert np.allclose(gradient.asnumpy(), backwards(x, weight)[1].asnumpy())
    assert np.allclose(value.asnumpy(), net(gl.Tensor(x), gl.Tensor(weight)).asnumpy())
    for owner in range(SIZE):
        for i in np.ndindex(2, 2):
            found = []
            for d in (-2.0**-4, 2.0**-4):
                moved = x.copy()
                moved[i] += d * (RANK == owner)
                loss = gl.Tensor(np.float32(step(moved, weight)[0].asnumpy()))
                found.append(float(ops.AllReduce()(loss).asnumpy()))
            quotient = (found[1] - found[0]) * 2.0**3
            if RANK == owner:
                assert abs(quotient - gradient.asnumpy()[i]) < 1e-2 * abs(quotient), (i, quotient, gradient)
    if RANK == 0:
        collectives.send(gl.Tensor([1.5, 2.5]), 1)
        seen = collectives.irecv(gl.Tensor([0]), 1, tag=3)[0].tolist()
    else:
        seen = collectives.recv(gl.Tensor([0.0, 0.0])).tolist()
        collectives.isend(gl.Tensor([7]), 0, tag=3).wait()
    # Pieces of other sizes, also to nobody, in a step and back; and several at the same time.
    pieces = gl.Tensor(np.arange(3, dtype=np.float32) + 3 * RANK)
    counts = ([1, 2], [1, 0]) if RANK == 0 else ([0, 3], [2, 3])
    turned = ops.AlltoAllV()(pieces, *counts)
    assert turned.tolist() == ([0.0] if RANK == 0 else [1.0, 2.0, 3.0, 4.0, 5.0]), turned
    matrix = gl.Tensor(np.array([[1, 2], [0, 3]]))
    assert ops.AlltoAllVC()(pieces, matrix).tolist() == turned.tolist()
    assert ops.AlltoAllVC(transpose=True)(turned, matrix).tolist() == pieces.tolist()
    square = lambda x: (ops.AlltoAllV()(x, *counts) ** 2).sum()
    assert gl.compile(ops.grad(square), pieces)(pieces).tolist() == (2 * pieces).tolist()
    nothing = ops.AlltoAllV(block_size=2)(gl.Tensor([1.0, 2.0]) if RANK == 0 else gl.Tensor(np.zeros(0, np.float32)),
                                          *(([0, 1], [0, 0]) if RANK == 0 else ([0, 0], [1, 0])))
    assert nothing.tolist() == (0.0 if RANK == 0 else [1.0, 2.0])
    rows, _ = collectives.all_to_all_single_with_output_shape((2, 1), gl.Tensor([[RANK], [2 + RANK]]))
    assert rows.tolist() == [[2 * RANK], [2 * RANK + 1]], rows
    P2POp = collectives.P2POp
    both = [P2POp("isend", gl.Tensor(RANK + 1.0), other), P2POp(collectives.irecv, (), other, recv_dtype=gl.float32)]
    assert [t.tolist() for t in collectives.batch_isend_irecv(both)] == [0.0, other + 1.0]
    most = ops.Reduce(0, "max")(gl.Tensor([1 + RANK])).tolist(), collectives.reduce(gl.Tensor([1 + RANK]), 0).tolist()
    print(RANK, seen, *most, collectives.gather_into_tensor(gl.Tensor([RANK])).tolist())
"""

GROUPS = """
    communication.create_group("first", [0])
    communication.create_group("both", [1, 0])
    x = gl.Tensor([1.0 + RANK])
    own = collectives.AllReduce(group="both")(x).tolist(), communication.get_rank("both")
    mine = communication.get_process_group_ranks("first") if RANK == 0 else communication.get_local_rank()
    try:
        collectives.AllReduce(group="first")(x)
        told = "none"
    except ValueError as error:
        told = str(error).partition(" (")[0]
    sizes = communication.get_local_rank_size(), communication.get_group_size("nccl_world_group")
    world = communication.get_world_rank_from_group_rank("both", 0)
    communication.destroy_group("both")
    try:
        communication.get_rank("both")
    except ValueError as error:
        told += " " + str(error).partition(" (")[0]
    communication.release()
    communication.init()
    communication.create_group("first", [1, 0])
    assert collectives.AllReduce(group="first")(x).tolist() == own[0]
    print(RANK, own, mine, sizes, world, told)
"""
GONE = "There is no group 'both'; make it with create_group, on all ranks."
NONE = "Rank 1 is none of the group 'first', which has"
MEASURED = """
    from contextlib import redirect_stdout
    from io import StringIO

    from graphls.cli.main import main
    from graphls.distributed import cost

    cost.LARGE, cost.LARGE_TIMES = 1 << 20, 2
    with redirect_stdout(StringIO()) as told:
        assert main(["simulate", "--measure"]) == 0
    print(told.getvalue().strip())
"""


OTHER_WAYS = """
    def caught(act):
        try:
            act()
        except RuntimeError as error:
            return str(error)
        return "nothing"

    from graphls.distributed.rank_status import WAITING

    def apart(one, other):
        told = caught((one, other)[RANK])
        assert caught(barrier) == told.partition(" (other_ways.py")[0], "nothing is communicated any more"
        WAITING.diverged = ""
        assert "every rank of a group must run the same collectives in the same order" in told, told
        return told.partition(";")[0]

    x, scalar, large = gl.Tensor(np.ones(3, np.float32)), gl.Tensor(1.0), gl.Tensor(np.ones(100_000, np.float32))
    reduce, barrier = ops.AllReduce(), collectives.barrier
    for one, other in (
        (lambda: reduce(x), lambda: reduce(large)), (lambda: reduce(x), barrier), (barrier, lambda: reduce(large)),
        (lambda: reduce(x), lambda: ops.AllReduce("max")(x)), (lambda: reduce(x), lambda: reduce(x.astype(gl.int32))),
        (lambda: reduce(x), lambda: reduce(x.reshape((3, 1)))), (lambda: reduce(x), lambda: ops.AllGather()(x)),
        (lambda: ops.Broadcast(0)((x,)), lambda: ops.Broadcast(1)((x,))),
        (lambda: communication.create_group("a", [0]), lambda: communication.create_group("a", [1])),
        (lambda: communication.create_group("a", [0]), lambda: reduce(large)),
        (lambda: gl.compile(lambda x: reduce(x), x)(x), lambda: reduce(x)),
        (lambda: gl.compile(lambda x: reduce(x), x)(x), lambda: gl.compile(lambda x: reduce(x), large)(large)),
        (lambda: gl.compile(lambda x: reduce(x), x)(x), lambda: gl.compile(lambda x: ops.AllGather()(x), x)(x)),
    ):
        told = apart(one, other)
        if other is barrier:
            print(told)
    # What ranks run in branches of their own is the same.
    assert (reduce(x) if RANK else
            reduce(x)).tolist() == [2.0] * 3

    def training(kind, width, sharded):
        set_auto_parallel_context(
            parallel_mode="data_parallel", gradients_mean=True, enable_parallel_optimizer=sharded,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0})
        net = nn.Dense(3, width)
        loss, optimizer = nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 0.1)
        step = nn.TrainOneStepCell(loss, optimizer)
        if kind == "scaled":
            step = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(1024, 2, 5))
        step, rows = step.set_train(), (np.ones((4, 3), np.float32), np.ones((4, width), np.float32))
        return step, lambda: step(*map(gl.Tensor, rows))

    import re
    import warnings

    warnings.simplefilter("ignore")
    for kind, width, sharded in (("plain", 1, False), ("plain", 99, False), ("plain", 64, True), ("scaled", 4, False)):
        step, run = training(kind, width, sharded)
        run()
        values = lambda: b"".join(p.asnumpy().tobytes() for p in step.get_parameters())
        before = values()
        for given in (x, large, scalar):  # as of a callback on one rank that logs a mean
            told = apart(run, lambda: reduce(given))
        barrier()  # states that are divided are read while no rank is in a step
        assert values() == before, (kind, width)
        run()
        assert values() != before

    # Batches of other numbers of rows compile other steps, whose gradients are the same.
    step, _ = training("plain", 1, False)
    for count in (4, 4 + RANK, 4):
        step(gl.Tensor(np.ones((count, 3), np.float32)), gl.Tensor(np.ones((count, 1), np.float32)))
    (weight, *_) = step.get_parameters()
    least, most = (ops.AllReduce(op)(weight).asnumpy() for op in ("min", "max"))
    assert (least == most).all()

    # From rank to rank, what is sent is what is received; what is not is taken, and gone.
    if RANK == 0:
        collectives.send(x, 1, tag=5)
        collectives.send(scalar, 1, tag=5)
    else:
        told = re.sub(r":\\d+", "", caught(lambda: collectives.recv(gl.Tensor([1, 2]), 0, tag=5)))
        assert told.startswith("Rank 0 sends f32[3] at other_ways.py while rank 1 receives i64[2]"), told
        assert collectives.recv(scalar, 0, tag=5).tolist() == 1.0

    def parameters(*shapes, names=("a", "b"), dtype=np.float32):
        return [gl.Parameter(gl.Tensor(np.ones(s, dtype)), name=n) for s, n in zip(shapes, names)]

    from graphls.nn.grad_reducer import broadcast_parameters

    for mine, its, told in (
        (parameters((6, 300)), parameters((6, 400)), "rank 0 has a f32[6,300], and rank 1 a f32[6,400]"),
        (parameters(2, 3), parameters(2), "rank 0 has b f32[3], and rank 1 none"),
        (parameters(2, 3), parameters(2, 3, names="ac"), "rank 0 has b f32[3], and rank 1 c f32[3]"),
        (parameters(2), parameters(2, dtype=np.float16), "rank 0 has a f32[2], and rank 1 a f16[2]"),
    ):
        assert told in caught(lambda: broadcast_parameters(its if RANK else mine))
"""

NOT_A_NUMBER = """
    for kind in (np.float16, np.float32, np.float64):
        columns = [[np.nan, 1, -np.inf, -2, 0, 3], [1, -np.nan, np.inf, -3, 5, 2]]
        x = np.array(columns[RANK], kind)
        for op, expected in ("max", [np.nan, np.nan, np.inf, -2, 5, 3]), ("min", [np.nan, np.nan, -np.inf, -3, 0, 2]):
            total = collectives.AllReduce(op)(gl.Tensor(x)).asnumpy()
            assert total.dtype == kind
            np.testing.assert_array_equal(total, expected)
    print("right")
"""

TWO_RANKS = {
    "at_once": AT_ONCE, "differentiated": DIFFERENTIATED, "points": POINTS, "groups": GROUPS, "measured": MEASURED,
    "other_ways": OTHER_WAYS, "not_a_number": NOT_A_NUMBER,
}  # fmt: skip


@needs_ranks
def test_two_ranks(two_ranks: Ran) -> None:
    """At once, in a step and in NumPy, differentiated, from one to another, in groups; and the network measured."""
    found = two_ranks.found
    assert found["at_once"] == [f"0 {BOTH} [10,12] {REST}", f"1 {BOTH} [14,16] {REST}"]
    assert found["not_a_number"] == found["differentiated"] == ["right"] * 2
    assert found["points"] == ["0 [7] [2] [3] [0, 1]", "1 [1.5, 2.5] [2] [0] [0, 1]"]
    assert found["groups"] == [
        f"0 ([3.0], 1) [0] (2, 2) 1 none {GONE}",
        f"1 ([3.0], 0) 1 (2, 2) 1 {NONE} {GONE}",
    ]
    at = [line.split() for line in found["other_ways"]]
    assert len(at) == 2 and at[0] == at[1] and " ".join(at[0]).startswith("Rank 1 runs barrier at other_ways.py:"), at
    assert "while rank 0 runs all_reduce of f32[3] at other_ways.py:" in " ".join(at[0])
    told = "".join(found["measured"])
    assert re.fullmatch(r" ?--latency [\d.e+]+us --bandwidth [\d.e+]+GB/s --memory [\d.e+]+GB/s", told)


def test_one_rank_has_what_it_gives() -> None:
    x = gl.Tensor([[1.0], [2.0]])
    assert [t.tolist() for t in (*all_reduced([x]), all_gathered(x), reduce_scattered(x), *broadcasted([x]))] == [
        [[1.0], [2.0]]
    ] * 4
    step = gl.compile(lambda x: collectives.AllReduce()(x) * 2, x)
    assert not [node for node in step.graph.nodes if node.primitive.is_collective]
    assert collectives.Barrier()().tolist() == 0


@pytest.mark.parametrize(
    ("use", "error", "told"),
    [
        (lambda x: all_reduced([x], "mean"), ValueError, "The op of all_reduce is one of 'sum', 'max', 'min', 'prod'"),
        (lambda x: all_reduced([x > 0]), TypeError, r"all_reduce takes numbers, not bool\[2\]; cast it first"),
        (lambda x: all_gathered(x.sum()), TypeError, r"all_gather works along the first axis, and f32\[\] has none"),
        (lambda x: broadcasted([x], 1), ValueError, "The root of broadcast is one of 1 ranks, from 0, not 1"),
        (lambda x: gl.ops.AlltoAllV()(x, [1], [1]), ValueError, r"AlltoAllV sends \[1\] elements of .* to 1 ranks"),
        (lambda x: gl.ops.AlltoAllVC()(x, [1, 1]), ValueError, "has 1 numbers for each of 1 ranks, not 2 in all"),
        (lambda x: collectives.P2POp("send", x, 0), ValueError, "The op of a P2POp is 'isend' or 'irecv', not 'send'"),
        (lambda x: collectives.P2POp("isend", x, 0, tag=1), ValueError, "The tag of a P2POp is 0, not 1"),
        (lambda x: collectives.P2POp("isend", x, "0"), TypeError, "The peer of a P2POp is the number of a rank"),
        (lambda x: collectives.P2POp("irecv", (2,), 0), ValueError, "with a shape receives, and has a recv_dtype"),
        (lambda x: collectives.P2POp("irecv", [2], 0), TypeError, "has a tensor or, to receive, a shape"),
        (lambda x: collectives.batch_isend_irecv([x]), TypeError, "batch_isend_irecv takes a list of P2POp"),
        (lambda x: all_reduced([x], group="mine"), ValueError, "There is no group 'mine'; make it with create_group"),
    ],
)
def test_wrong_uses(use: object, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        use(gl.Tensor([1.0, 2.0]))  # type: ignore[operator]


def graph_of(name: str, types: list[Type], **attrs: object) -> Graph:
    """A graph of one collective of four ranks."""
    inputs = tuple(Value(f"x{i}", kind) for i, kind in enumerate(types))
    e = Builder()
    outputs = e.emit(name, inputs, {**attrs, "group": "world", "ranks": 4})
    return verify(Graph("one", inputs, (), tuple(e.nodes), (), outputs[1:]))


def test_types_and_texts() -> None:
    x, h = Type(float32, (8, 3)), Type(float16, (8,))
    cases = [
        (graph_of("all_reduce", [x, x], op="sum"), [x, x]),
        (graph_of("all_reduce_where", [Type(bool_), x, x], op="sum"), [x, x]),
        (graph_of("all_gather", [h]), [h.with_shape((32,))]),
        (graph_of("reduce_scatter", [x], op="max"), [x.with_shape((2, 3))]),
        (graph_of("broadcast", [x, Type(bool_)], root=3), [x, Type(bool_)]),
        (graph_of("reduce_to", [h], root=0), [h]),
        (graph_of("barrier", []), [Type(gl.int32)]),
        (graph_of("all_to_all", [x]), [x]),
        (graph_of("neighbor_exchange", [x], send=(3,), receive=(1,), results=("f16[8]",), tag=2), [h]),
    ]
    for graph, types in cases:
        assert [v.type for v in graph.outputs] == types
        assert dump(parse(dump(graph))) == dump(graph)
    with pytest.raises(ValueError, match="among 4 ranks, and 6 rows have no equal parts"):
        graph_of("reduce_scatter", [Type(float32, (6,))], op="sum")
    with pytest.raises(TypeError, match=r"first operand of all_reduce_where is a bool\[\], not f32\[8,3\]"):
        graph_of("all_reduce_where", [x, x], op="sum")
    with pytest.raises(ValueError, match="neighbor_exchange has 1 tensors for 2 ranks; give one for each"):
        graph_of("neighbor_exchange", [x], send=(3, 1), receive=(), results=())
    with pytest.raises(RuntimeError, match="compiled for 4 ranks, and there are 1; compile the step again"):
        attrs = {"op": "sum", "group": "world", "ranks": 4}
        lookup("all_reduce").evaluate((np.ones(1),), attrs, (Type(float32), Type(float32, (1,))))
