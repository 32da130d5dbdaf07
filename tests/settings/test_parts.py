"""The parts of the settings refuse what they cannot be, each where it is made."""

import pytest

from delira.errors import ConfigError, expect, flag, positive
from delira.settings import parts


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: expect(positive("val_freq", 0, "epoch")), r"val_freq must be an integer .* 1 \(epoch\), got 0"),
        (lambda: expect(positive("val_freq", True, "epoch")), "got True"),
        (lambda: expect(flag("shuffle", 1)), "shuffle must be True or False, got 1"),
        (lambda: parts.check_verbose(3), "verbose must be 0 .* got 3"),
        (lambda: parts.OptimizerConfig(cls=5), "optimizer_cls must be a class"),
        (lambda: parts.OptimizerConfig(builder=5), "optim_fn must be a function"),
        (lambda: parts.OptimizerConfig(params={"lr": "fast"}), "optimizer_params: lr is a finite number"),
        (lambda: parts.ScheduleConfig(params={"gamma": 0.1}), "has no effect without lr_scheduler_cls"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_what_can_be_is_taken_as_it_is():
    assert parts.OptimizerConfig().cls is None
    assert parts.ScheduleConfig(cls=dict, params={"gamma": 0.1}).params == {"gamma": 0.1}
    parts.check_verbose(True)
    expect(flag("shuffle", False))
