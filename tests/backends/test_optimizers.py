"""Optimizers of every backend: made, named, and their rates."""

import pytest

from delira.contract import UpdateConfig
from delira.errors import ConfigError


def build(room, builder=None, **params):
    return room.backend.optimizers.build(
        room.build(), builder, None if builder else room.optimizer_cls, {"lr": 0.1, **params}, UpdateConfig()
    )


def test_a_class_becomes_the_optimizer_called_default_with_its_rate(room):
    optimizers = build(room)
    assert list(optimizers) == ["default"]
    assert room.backend.optimizers.learning_rates(optimizers) == pytest.approx({"lr": 0.1})


def test_rates_are_scaled_where_they_are(room):
    optimizers = build(room)
    room.backend.optimizers.scale_rates(optimizers, 0.5)
    assert room.backend.optimizers.learning_rates(optimizers) == pytest.approx({"lr": 0.05})


def test_arguments_that_do_not_fit_are_named(room):
    with pytest.raises((ConfigError, TypeError), match="momentom"):
        build(room, momentom=0.5)


def test_nothing_was_left_out_of_an_optimizer_that_is_new(room):
    optimizers = build(room)
    assert room.backend.optimizers.count_left_out(optimizers) == 0
    room.backend.optimizers.finish_epoch(optimizers)
    room.backend.optimizers.check(room.build(), {})


@pytest.mark.parametrize("room", ["torch", "torchscript", "tensorflow", "jax"], indirect=True)
@pytest.mark.slow_cases("torchscript|tensorflow|jax")
def test_a_builder_returns_a_dict_of_optimizers(room):
    for made, found in (([], "a list"), ({}, "an empty dict")):
        with pytest.raises(ConfigError, match=f"optim_fn returned {found}; it returns a dict"):
            build(room, lambda network, cls, made=made, **params: made)


@pytest.mark.parametrize("room", ["toy"], indirect=True)
def test_the_plain_case_has_no_schedules_and_no_copies(room):
    optimizers = room.backend.optimizers
    with pytest.raises(ConfigError, match="the room 'toy' has no learning-rate schedules"):
        optimizers.build_schedules({}, None, {})
    with pytest.raises(ConfigError, match="the room 'toy' cannot copy optimizers"):
        optimizers.copy(None, None, None)
    with pytest.raises(ConfigError, match="the room 'toy' cannot train without an optimizer"):
        optimizers.none()


def test_estimators_bring_their_own():
    linear = pytest.importorskip("sklearn.linear_model", reason="the room needs the package 'scikit-learn'")
    from delira.backends.sklearn.backend import BACKEND
    from delira.models import SklearnEstimator

    network = SklearnEstimator(linear.LinearRegression())
    with pytest.raises(ConfigError, match="scikit-learn estimators bring their own optimizer"):
        BACKEND.optimizers.build(network, None, object, {}, UpdateConfig())
    (fit,) = BACKEND.optimizers.build(network, None, None, {}, UpdateConfig()).values()
    assert fit.network is network
