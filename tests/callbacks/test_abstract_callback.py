"""What a list of callbacks takes, what it calls, and how callbacks look."""

import numpy as np
import pytest
from decorated_methods import Decorated

import delira
from delira.errors import ConfigError
from delira.state import EPOCH
from delira.training import callbacks as cb
from delira.training.callbacks import (
    Callback,
    CallbackList,
    EarlyStopping,
    WeightDecay,
    on_end_epoch,
)


def test_lists_of_callbacks_are_flattened_and_copied():
    first, second, third = EarlyStopping(), WeightDecay(), on_end_epoch(lambda state: None)
    callbacks = CallbackList([[first, (second,)], CallbackList([third])])
    other = callbacks.copy()
    other.append(EarlyStopping())
    assert [*callbacks] == [*other][:3] == [first, second, third]
    assert len(other) == 4


def test_a_list_of_ones_own_is_given_each_callback_where_it_is_made():
    seen = []

    class Telling(CallbackList):
        def append(self, callback):
            seen.append(callback)
            super().append(callback)

    first, second = EarlyStopping(), WeightDecay()
    assert [*Telling([first, second])] == seen == [first, second]


def test_a_trial_takes_a_list_of_lists(torch_fit):
    seen = []
    torch_fit.trial([[on_end_epoch(lambda state: seen.append(state[EPOCH]))]]).run(2)
    assert seen == [0, 1]


def test_a_callback_tells_what_it_is():
    assert repr(WeightDecay(1e-3)) == "WeightDecay(rate=0.001, p=2)"
    assert repr(EarlyStopping("val_acc", patience=2)).startswith("EarlyStopping(monitor='val_acc'")
    assert repr(Decorated()) == "Decorated()"
    assert "0x" not in repr(delira.training.callbacks.TerminateOnNaN())


def test_a_hook_that_is_not_written_is_not_heard():
    class Little(Callback):
        def on_end(self, state): ...

    callbacks = CallbackList([Little(), Callback()])
    heard = [hook for hook in delira.callbacks.abstract_callback.HOOKS if callbacks.hears(hook)]
    assert heard == ["on_end"]
    assert np.all([callbacks.at_hook("on_end")])


@pytest.mark.parametrize(
    "callback", [cb.WeightDecay(), cb.GradientClipping(1.0), cb.Mixup(), cb.FreezeUnfreeze({0: None}), cb.StepLR(1)]
)
def test_what_needs_gradients_is_refused_for_estimators(callback):
    linear = pytest.importorskip("sklearn.linear_model", reason="the backend needs the package 'scikit-learn'")
    trial = delira.Trial(linear.SGDClassifier(), metrics=["acc"], callbacks=[callback], seed=0, verbose=0)
    with pytest.raises(ConfigError, match=rf"{type(callback).__name__}.*'sklearn'"):
        trial.with_train_data([[0.0], [1.0]], [0, 1], 2).run(1)


def test_one_of_ones_own_may_need_gradients():
    linear = pytest.importorskip("sklearn.linear_model", reason="the backend needs the package 'scikit-learn'")

    class Mine(cb.Callback):
        needs_gradients = True

        def on_backward(self, state): ...

    trial = delira.Trial(linear.SGDClassifier(), callbacks=[Mine()], seed=0, verbose=0)
    with pytest.raises(ConfigError, match="Mine is for networks that learn by gradients"):
        trial.with_train_data([[0.0], [1.0]], [0, 1], 2).run(1)
