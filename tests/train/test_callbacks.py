"""Callbacks: the base class and the list of them, and those that print, stop and keep."""

from __future__ import annotations

from typing import Any

import pytest

from graphls import train
from graphls.ir.errors import GraphTypeError
from graphls.train.callbacks import CallbackManager, InternalCallbackParam, _CallbackManager, _InternalCallbackParam
from graphls.train.callbacks.callback import NEW_HOOKS, OLD_HOOKS
from tests.train.standins import Mean, Rows, context, line, linear


def test_what_callbacks_are_told_is_a_dict_with_attributes() -> None:
    told = InternalCallbackParam(cur_step_num=3)
    told.own = 5
    assert told["own"] == told.own == told.get("own") == 5 and told.cur_step_num == 3
    assert not hasattr(told, "other") and told.get("other", 7) == 7
    del told.own
    assert "own" not in told
    assert _InternalCallbackParam is InternalCallbackParam and _CallbackManager is CallbackManager


def test_a_run_context_is_made_of_a_dict_and_remembers_the_wish_to_stop() -> None:
    told = {"a": 1}
    run = train.RunContext(told)
    assert run.original_args() is told and run.get_stop_requested() is False
    run.request_stop()
    assert run.get_stop_requested() is True
    with pytest.raises(GraphTypeError, match="should be dict type, but got <class 'int'>"):
        train.RunContext(3)


@pytest.mark.parametrize("hook", NEW_HOOKS)
def test_a_hook_calls_the_one_of_its_older_name(hook: str) -> None:
    old = hook.removeprefix("on_train_").removeprefix("on_eval_")
    seen: list[Any] = []
    kind = type("Old", (train.Callback,), {old: lambda self, run: seen.append(run)})
    run = context()
    getattr(kind(), hook)(run)
    assert seen == [run]
    both = type("Both", (kind,), {hook: lambda self, run: seen.append("new")})
    getattr(both(), hook)(run)
    assert seen == [run, "new"]


def test_all_hooks_reach_all_callbacks_in_their_order() -> None:
    seen: list[Any] = []

    class Named(train.Callback):
        def __init__(self, name: str) -> None:
            self.name = name

    for hook in (*OLD_HOOKS, *NEW_HOOKS):
        setattr(Named, hook, lambda self, run, hook=hook: seen.append((self.name, hook)))
    with pytest.warns(UserWarning, match="The callback 'Named' overrides begin, epoch_begin"):
        manager = CallbackManager((Named("a"), Named("b")))
    with manager:
        for hook in (*OLD_HOOKS, *NEW_HOOKS):
            getattr(manager, hook)(context())
    assert seen == [(name, hook) for hook in (*OLD_HOOKS, *NEW_HOOKS) for name in "ab"]


def test_old_hooks_are_called_in_training_and_evaluation_and_told_of_once() -> None:
    class Old(train.Callback):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def step_end(self, run_context: Any) -> None:
            self.seen.append(run_context.original_args().mode)

        def end(self, run_context: Any) -> None:
            self.seen.append("end")

    model, _ = linear(metrics={"mean": Mean()})
    old = Old()
    text = "'Old' overrides step_end, end, which .* on_train_step_end, on_train_end"
    with pytest.warns(UserWarning, match=text) as w:
        model.train(1, Rows(*line(8)), old)
        model.eval(Rows(*line(4)), [old, Old()])
    assert len([one for one in w if "overrides" in str(one.message)]) == 1
    assert "test_callbacks.py" in w[0].filename
    assert old.seen == ["train", "train", "end", "eval", "end"]


def test_a_hook_that_is_none_is_told_of() -> None:
    class Misspelled(train.Callback):
        def on_step_end(self, run_context: Any) -> None:
            raise AssertionError

    with pytest.warns(UserWarning, match="'Misspelled' has on_step_end, which no .* mean 'on_train_s"):
        CallbackManager(Misspelled())


def test_callbacks_of_the_package_use_no_old_hooks() -> None:
    kinds = [getattr(train, name) for name in train.__all__]
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, train.Callback) and kind is not train.Callback:
            assert all(getattr(kind, hook) is getattr(train.Callback, hook) for hook in OLD_HOOKS)


def test_callbacks_are_left_in_reverse_order_and_told_of_the_error() -> None:
    seen: list[Any] = []

    class Managed(train.Callback):
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> Any:
            seen.append(("enter", self.name))
            if self.name == "fails":
                raise RuntimeError("at the door")
            return self

        def __exit__(self, *error: Any) -> None:
            seen.append(("exit", self.name, error[0]))

    with pytest.raises(KeyError), CallbackManager([Managed("a"), Managed("b")]):
        raise KeyError("inside")
    assert seen == [("enter", "a"), ("enter", "b"), ("exit", "b", KeyError), ("exit", "a", KeyError)]
    seen.clear()
    with pytest.raises(RuntimeError, match="at the door"), CallbackManager([Managed("a"), Managed("fails")]):
        pass
    assert seen == [("enter", "a"), ("enter", "fails"), ("exit", "a", RuntimeError)]


def test_what_is_no_callback_is_refused() -> None:
    for wrong in (3, [train.LossMonitor(), None], train.LossMonitor):
        with pytest.raises(GraphTypeError, match="is not a Callback"):
            CallbackManager(wrong)
    with pytest.raises(GraphTypeError, match=r"a class of them; create one: LossMonitor\(\)"):
        CallbackManager([train.LossMonitor])


def test_lambda_callback_has_a_function_for_every_hook() -> None:
    seen: list[str] = []
    functions = {hook: lambda run, hook=hook: seen.append(hook) for hook in NEW_HOOKS}
    callback = train.LambdaCallback(**functions)
    for hook in NEW_HOOKS:
        getattr(callback, hook)(context())
        getattr(train.LambdaCallback(), hook)(context())
    assert seen == list(NEW_HOOKS)
    with pytest.raises(GraphTypeError, match="'on_train_end' of LambdaCallback is a function, not 3"):
        train.LambdaCallback(on_train_end=3)  # type: ignore[arg-type]
