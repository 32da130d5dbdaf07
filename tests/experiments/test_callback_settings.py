"""Callbacks of a run that goes on: those that change numbers must be the same."""

import json

import pytest
from compared_runs import begun, data, go_on
from small_backends import build_kit

from delira.errors import ConfigError
from delira.runs.differences import find_differences
from delira.training import KFoldResult
from delira.training.callbacks import (
    AbstractCallback,
    CSVLogger,
    EarlyStopping,
    ExponentialMovingAverage,
    GradientNormClipping,
    ReduceLROnPlateau,
    WeightDecay,
    on_criterion,
)


@pytest.mark.parametrize(
    ("then", "now", "line"),
    [
        ([], [WeightDecay(10.0)], "WeightDecay(rate=10.0, p=2, "),
        ([EarlyStopping("mse", patience=5)], [EarlyStopping("mse", patience=9)], "patience=5"),
        ([EarlyStopping("mse", patience=5)], [], "in the run, not now"),
        ([], [GradientNormClipping(1.0)], "GradientNormClipping(max_norm=1.0"),
        ([ExponentialMovingAverage(0.9)], [ExponentialMovingAverage(0.99)], "decay=0.99"),
        ([ReduceLROnPlateau("mse", factor=0.5)], [ReduceLROnPlateau("mse", factor=0.1)], '"factor": 0.1'),
        ([[EarlyStopping("mse")]], [[EarlyStopping("ce")]], 'monitor="ce"'),
    ],
)
def test_other_callbacks_are_refused_and_listed(then, now, line, tmp_path):
    kit = build_kit("torch")
    pytest.importorskip("torch")
    experiment = kit.experiment(tmp_path)
    described = [experiment.resolve(None, {"callbacks": each}).described(data(), kit.backend) for each in (then, now)]
    manifests = [json.loads(json.dumps({**each, "fingerprint": {}})) for each in described]
    assert find_differences(manifests[0], manifests[0]) == {}
    (told,) = find_differences(*manifests)["callbacks"]
    assert line in told


def test_a_run_is_not_continued_with_weight_decay_that_it_had_not(tmp_path):
    pytest.importorskip("torch")
    experiment, folder = begun(tmp_path, "torch")
    with pytest.raises(ConfigError, match=r"its callbacks differ .*\n  callbacks: .*WeightDecay\(rate=10"):
        go_on(experiment, folder, [WeightDecay(10.0)])
    with pytest.warns(UserWarning, match="callbacks: .*WeightDecay"):
        go_on(experiment, folder, [WeightDecay(10.0)], allow_changes=True)


class Own(AbstractCallback):
    def __init__(self, strength=1.0):
        self.strength = strength


class Watching(Own):
    only_watches = True


def test_what_only_watches_may_come_and_go(tmp_path):
    experiment, folder = begun(tmp_path, callbacks=[Watching(1.0)])
    go_on(experiment, folder, [Watching(2.0), CSVLogger(str(tmp_path / "log.csv"))])
    assert '"changes"' not in (folder / "ledger.jsonl").read_text()


class InTheStep(Own):
    def on_criterion(self, state):
        """Change the loss."""


@on_criterion
def also(state):
    """Change the loss."""


def test_an_own_callback_that_acts_inside_the_step_must_be_the_same(tmp_path):
    pytest.importorskip("torch")
    experiment, folder = begun(tmp_path, "torch", callbacks=[InTheStep(1.0)])
    with pytest.raises(ConfigError, match=r"InTheStep\(strength=1.0\) in the run, .*InTheStep\(strength=2.0\) now"):
        go_on(experiment, folder, [InTheStep(2.0)])
    with pytest.raises(ConfigError, match=r'function="also", .* now, not in the run'):
        go_on(experiment, folder, [InTheStep(1.0), also])


def test_another_own_callback_that_came_or_went_is_told(tmp_path, caplog):
    experiment, folder = begun(tmp_path, callbacks=[Own(1.0)])
    go_on(experiment, folder)
    assert "Own(strength=1.0) in the run, not now" in caplog.text
    assert "Own(strength=1.0) in the run, not now" in KFoldResult.load(folder).to_html()
