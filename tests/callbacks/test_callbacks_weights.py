"""Which weights a callback is for: by name, or as the parameters themselves."""

import pytest

from delira.errors import ConfigError
from delira.training import callbacks as cb


def test_a_weight_that_is_frozen_just_now_may_be_named(fit):
    """It has no part in the loss meanwhile, and is no mistake."""
    kernel, bias = fit.names(fit.trial())
    schedule = cb.FreezeUnfreeze({0: bias, 1: None})
    trial = fit.trial(cb.WeightDecay(10.0, params=[kernel]), schedule)
    history = trial.run(2)
    plain = fit.trial(cb.FreezeUnfreeze({0: bias, 1: None})).run(1)  # the network is the fitted one: another loss
    assert history[1]["loss"] > history[0]["loss"] + 1.0
    assert plain[0]["loss"] < history[1]["loss"]
    with pytest.raises(ConfigError, match="WeightDecay: params: there is no weight 'kernal'"):
        fit.trial(cb.WeightDecay(params=["kernal"])).run(1)


def test_a_parameter_that_is_frozen_just_now_may_be_given(torch_fit):
    net = torch_fit.module
    trial = torch_fit.trial(cb.WeightDecay(1.0, params=net.parameters()), cb.FreezeUnfreeze({0: "bias"}))
    before = net.weight.clone()
    trial.run(1)
    assert (net.weight == before).all()
