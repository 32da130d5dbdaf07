"""Decorators over each other in any order, and on methods."""

import pytest
from decorated_methods import Decorated

from delira.callbacks import decorators
from delira.callbacks.abstract_callback import HOOKS
from delira.errors import ConfigError
from delira.state import EPOCH, LOSS, State
from delira.training import callbacks as cb
from delira.training.callbacks import (
    Callback,
    CallbackList,
    add_to_loss,
    on_end_epoch,
    on_step_training,
    once,
    once_per_epoch,
    only_if,
    traceable,
)

STACKS = {
    "once inside": lambda f: add_to_loss(once(f)),
    "once outside": lambda f: once(add_to_loss(f)),
    "two inside": lambda f: add_to_loss(once(only_if(lambda state: state[LOSS] > 3)(f))),
    "two outside": lambda f: only_if(lambda state: state[LOSS] > 3)(once(add_to_loss(f))),
    "around": lambda f: once(add_to_loss(only_if(lambda state: state[LOSS] > 3)(f))),
}


def fire(callbacks, hook="on_criterion", **facts):
    """What the loss is after a hook."""
    state = State({LOSS: 5.0, EPOCH: 0, **facts})
    callbacks.fire(hook, state, "fit")
    return state[LOSS]


@pytest.mark.parametrize("name", STACKS)
def test_conditions_and_the_loss_stack_in_any_order(name):
    callbacks = CallbackList([STACKS[name](lambda state: 2.0)])
    if "once" not in name:
        assert fire(callbacks, **{LOSS: 1.0}) == 1.0
    assert [fire(callbacks), fire(callbacks)] == [7.0, 5.0]
    again = CallbackList([STACKS[name](lambda state: 2.0)])
    again.load_state_dict(callbacks.state_dict())
    assert fire(again) == 5.0


def test_the_loss_of_once_per_epoch_is_added_in_each_epoch():
    for stacked in (add_to_loss(once_per_epoch(lambda state: 1.0)), once_per_epoch(add_to_loss(lambda state: 1.0))):
        callbacks = CallbackList([stacked])
        assert [fire(callbacks, **{EPOCH: epoch}) for epoch in (0, 0, 1, 1)] == [6.0, 5.0, 6.0, 5.0]


def test_a_mark_stays_where_the_loss_is_added():
    assert add_to_loss(once(traceable(lambda state: 1.0))).traceable
    assert not add_to_loss(once(lambda state: 1.0)).traceable


def test_the_loss_is_added_to_under_a_condition_in_every_backend(fit):
    seen = []

    @on_step_training
    def look(state):
        seen.append(float(state[LOSS]))

    for stacked in (look, [add_to_loss(only_if(lambda state: True)(lambda state: 100.0)), look]):
        fit.trial(stacked).run(1)
    assert min(seen[3:]) > 100 > max(seen[:3])


def test_hooks_under_a_loss_are_refused():
    with pytest.raises(ConfigError, match=r"add_to_loss decorates a function .*: on_end_epoch>; leave its hooks out"):
        add_to_loss(on_end_epoch(lambda state: 1.0))


def test_decorated_methods_run_at_their_hooks():
    callback = Decorated()
    callbacks = CallbackList([callback])
    for hook in ("on_start", "on_start_epoch", "on_step_training", "on_step_training", "on_end_epoch"):
        fire(callbacks, hook)
    assert callback.seen == ["start", "plain", "both", "step", "first", "both"]
    assert fire(callbacks) == 5.0
    callback.seen.clear()
    assert fire(callbacks) == fire(callbacks, "on_criterion_validation") == 105.0
    callback.both(State())
    assert callback.seen == ["both"]


def test_what_decorated_methods_remember_is_each_objects_own_and_in_checkpoints():
    one, other, later = Decorated(), Decorated(), Decorated()
    for callback in (one, one, other):
        fire(CallbackList([callback]), "on_step_training")
    assert one.seen == other.seen == ["step", "first"]
    again = CallbackList([later])
    again.load_state_dict(CallbackList([one]).state_dict())
    fire(again, "on_step_training")
    assert later.seen == []


def test_a_subclass_replaces_a_decorated_method():
    class Other(Decorated):
        @add_to_loss
        def penalty(self, state):
            return 1.0

    class Without(Decorated):
        penalty = None

    assert fire(CallbackList([Other()])) == 6.0
    assert fire(CallbackList([Without()])) == 5.0


def test_a_decorated_method_is_learned(fit):
    class Penalty(Callback):
        @add_to_loss
        def penalty(self, state):
            return 100.0

    history = fit.trial(Penalty()).run(1)
    assert history[0]["loss"] > 100
    assert history[0]["val_loss"] > 100


def test_a_decorated_callback_in_any_other_class_is_an_attribute():
    class Settings:
        callback = on_end_epoch(lambda state: None)

    assert Settings().callback is Settings.callback


def test_decorated_methods_need_the_base_class():
    class Duck:
        def on_start(self, state): ...

        @add_to_loss
        def penalty(self, state): ...

    with pytest.raises(ConfigError, match=r"Duck\.penalty would never be called: derive Duck from .*\.Callback"):
        CallbackList([Duck()])


def test_decorators_are_those_of_their_module_and_say_when_they_run():
    from delira.training.callbacks import decorators

    assert cb.on_step_training is decorators.on_step_training
    assert cb.on_step_training.__name__ == "on_step_training"
    assert "a step is done" in cb.on_step_training.__doc__


def test_every_hook_has_the_decorator_of_its_name():
    for name in HOOKS:
        decorate = getattr(decorators, name)
        assert (decorate.__name__, decorate(lambda state: None).hooks) == (name, (name,))
