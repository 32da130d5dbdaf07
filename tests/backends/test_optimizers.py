"""Optimizers of every backend: made, named, and their rates."""

import pytest

from delira.contract import UpdateConfig
from delira.errors import ConfigError


def build(kit, builder=None, **params):
    return kit.backend.optimizers.build(
        kit.build(), builder, None if builder else kit.optimizer_cls, {"lr": 0.1, **params}, UpdateConfig()
    )


def test_a_class_becomes_the_optimizer_called_default_with_its_rate(kit):
    optimizers = build(kit)
    assert list(optimizers) == ["default"]
    assert kit.backend.optimizers.learning_rates(optimizers) == pytest.approx({"lr": 0.1})


def test_rates_are_scaled_where_they_are(kit):
    optimizers = build(kit)
    kit.backend.optimizers.scale_rates(optimizers, 0.5)
    assert kit.backend.optimizers.learning_rates(optimizers) == pytest.approx({"lr": 0.05})


def test_rates_are_set_of_every_optimizer_or_refused(kit):
    role, optimizers = kit.backend.optimizers, build(kit)
    if kit.backend.name == "toy":
        with pytest.raises(ConfigError, match="the backend 'toy' has no learning rates to change"):
            role.set_rates(optimizers, 0.25)
    else:
        role.set_rates(optimizers, 0.25)
        assert role.learning_rates(optimizers) == pytest.approx({"lr": 0.25})


def test_arguments_that_do_not_fit_are_named(kit):
    with pytest.raises((ConfigError, TypeError), match="momentom"):
        build(kit, momentom=0.5)


def test_nothing_was_left_out_of_an_optimizer_that_is_new(kit):
    optimizers = build(kit)
    assert kit.backend.optimizers.count_left_out(optimizers) == 0
    kit.backend.optimizers.finish_epoch(optimizers)
    kit.backend.optimizers.check(kit.build(), {})


@pytest.mark.parametrize("kit", ["torch", "torchscript", "tensorflow", "jax"], indirect=True)
@pytest.mark.slow_cases("torchscript|tensorflow|jax")
def test_a_builder_returns_a_dict_of_optimizers(kit):
    for made, found in (([], "a list"), ({}, "an empty dict")):
        with pytest.raises(ConfigError, match=f"optim_fn returned {found}; it returns a dict"):
            build(kit, lambda network, cls, made=made, **params: made)


@pytest.mark.parametrize("kit", ["toy"], indirect=True)
def test_the_plain_case_has_no_schedules_and_no_copies(kit):
    optimizers = kit.backend.optimizers
    with pytest.raises(ConfigError, match="the backend 'toy' has no learning-rate schedules"):
        optimizers.build_schedules({}, None, {})
    with pytest.raises(ConfigError, match="the backend 'toy' cannot copy optimizers"):
        optimizers.copy(None, None, None)
    with pytest.raises(ConfigError, match="the backend 'toy' cannot train without an optimizer"):
        optimizers.none()


def test_estimators_bring_their_own():
    linear = pytest.importorskip("sklearn.linear_model", reason="the backend needs the package 'scikit-learn'")
    from delira.backends.sklearn.backend import BACKEND
    from delira.models import SklearnEstimator

    network = SklearnEstimator(linear.LinearRegression())
    with pytest.raises(ConfigError, match="scikit-learn estimators bring their own optimizer"):
        BACKEND.optimizers.build(network, None, object, {}, UpdateConfig())
    (fit,) = BACKEND.optimizers.build(network, None, None, {}, UpdateConfig()).values()
    assert fit.network is network
