"""The window verifier accepts a right step and rejects a graph for each property that is broken."""

import pytest

import graphls.passes  # noqa: F401
from graphls.ir import parse
from graphls.ir.errors import VerifyError
from graphls.passes.manager import parse_pipeline
from graphls.passes.windows import verify_windows, windows

RIGHT = """
graph @step(%x: f32[4], %scale: f32[]) {
  state @w: f32[4]
  %y = mul(%x, @w) : f32[4]  // forward | net.py:3
  %loss = sum(%y) {axis=[0], keepdims=false} : f32[]  // forward | net.py:4
  %status = overflow_start() after(%loss) : token  // check | step.py:7
  %seed = depend(%scale) after(%status) : f32[]  // backward | step.py:8
  %gw = mul(%x, %seed) : f32[4]  // backward | net.py:3
  %overflow = overflow_get(%status, %gw) : bool[]  // check | step.py:9
  %new = cond(%overflow) : f32[4] region {
    yield @w
  } region {
    %d = sub(@w, %gw) : f32[4]  // update
    yield %d
  }  // update
  @w <- %new
  return %loss, %overflow
}
"""


def broken(old: str, new: str) -> str:
    assert old in RIGHT
    return RIGHT.replace(old, new)


def message(text: str) -> str:
    with pytest.raises(VerifyError) as caught:
        verify_windows(parse(text))
    return str(caught.value)


def test_a_right_step_is_accepted() -> None:
    verify_windows(parse(RIGHT))


def test_what_is_inside_is_found_once() -> None:
    (window,) = windows(parse(RIGHT).nodes)
    assert window.inside is window.inside, "a check that asks for every node would take the square of their number"


def test_the_window_opens_after_the_loss() -> None:
    text = broken("overflow_start() after(%loss)", "overflow_start()").replace(
        "%gw = mul(%x, %seed)", "%g = mul(%y, %seed) : f32[4]  // backward\n  %gw = mul(%x, %g)"
    )
    found = message(text)
    assert "must run before %status (step.py:7), which opens after the loss" in found
    assert "net.py:3" in found.splitlines()[0]


def test_backward_nodes_run_inside() -> None:
    text = broken("depend(%scale) after(%status)", "neg(%scale)")
    assert "this backward node must run inside the window of %status (step.py:7)" in message(text)


def test_what_is_checked_is_made_inside() -> None:
    text = broken("overflow_get(%status, %gw)", "overflow_get(%status, %gw, %y)")
    assert "%y is checked here, but not computed inside the window" in message(text)


def test_an_input_cannot_be_checked() -> None:
    assert "%x is checked here" in message(broken("overflow_get(%status, %gw)", "overflow_get(%status, %x)"))


def test_a_status_is_not_cleared_before_it_is_read() -> None:
    again = "%again = overflow_start(%status) after(%gw) : token  // check | step.py:8\n  %overflow = "
    assert "%status is cleared here while %overflow (step.py:9) still reads it" in message(
        broken("%overflow = ", again)
    )


def test_a_status_may_be_cleared_after_it_was_read() -> None:
    again = "%again = overflow_start(%status) after(%overflow) : token  // check\n  %new = "
    verify_windows(parse(broken("%new = ", again)))


def test_two_windows_on_one_token_do_not_interleave() -> None:
    again = "overflow_start(%status) after(%overflow) : token\n  "
    assert "windows interleave" in message(broken("%new = ", f"%b = {again}%c = {again}%new = "))


def test_a_token_stays_in_its_block() -> None:
    text = broken("    yield @w\n", "    %o = overflow_get(%status, %gw) : bool[]\n    yield @w\n")
    assert "the token %status comes from outside of this region" in message(text)


def test_an_update_depends_on_the_status() -> None:
    text = broken("@w <- %new", "@w <- %gw")
    found = message(text)
    assert "@w is written (net.py:3) before the status %overflow (step.py:9) is read" in found
    assert "@w <- %gw\n  ^" in found


def test_the_overflow_pass_mends_what_it_can() -> None:
    text = broken("%status = overflow_start() after(%loss) : token  // check | step.py:7\n  ", "")
    text = text.replace(" after(%status)", " after(%loss)").replace("overflow_get(%status, ", "overflow_get(")
    for mode in ("outputs", "window"):
        result = parse_pipeline(f"overflow{{mode={mode}}}, fold, cse, dce, order").run(parse(text))
        verify_windows(result.graph)
        names = [node.primitive.name for node in result.graph.nodes]
        assert names.index("overflow_start") == names.index("sum") + 1
