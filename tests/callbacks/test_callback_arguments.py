"""Arguments of callbacks are refused by their names."""

import re

import numpy as np
import pytest

from delira.callbacks.imaging import make_grid
from delira.errors import ConfigError
from delira.training import callbacks as cb


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: cb.EarlyStopping(patience="3"), "EarlyStopping: patience is a whole number of at least 0, got '3'"),
        (lambda: cb.EarlyStopping(patience=1.5), "EarlyStopping: patience is a whole number of at least 0, got 1.5"),
        (lambda: cb.EarlyStopping(None), "EarlyStopping: monitor is the name of a value, got None"),
        (lambda: cb.Best(min_delta="1e-3"), "Best: min_delta is a number of at least 0, got '1e-3'"),
        (lambda: cb.SWA("5"), "SWA: start_epoch is a whole number of at least 0, got '5'"),
        (lambda: cb.GradientNormClipping("1"), "GradientNormClipping: max_norm is a number above 0, got '1'"),
        (lambda: cb.GradientClipping(float("nan")), "GradientClipping: clip_value is a number above 0, got nan"),
        (lambda: cb.L1WeightDecay("1e-4"), "L1WeightDecay: rate is a number of at least 0, got '1e-4'"),
        (lambda: cb.WeightDecay(params=3), "WeightDecay: params are names of weights, .* got 3"),
        (lambda: cb.FreezeUnfreeze(["head"]), r"FreezeUnfreeze: the schedule is a dict of .* got \['head'\]"),
        (lambda: cb.StepLR("10"), "StepLR: step_size is a whole number of at least 1, got '10'"),
        (lambda: cb.ExponentialLR("0.9"), "ExponentialLR: gamma is a number of at least 0, got '0.9'"),
        (lambda: cb.LambdaLR(0.9), "LambdaLR: lr_lambda is a function of the steps so far, got 0.9"),
        (lambda: cb.MultiStepLR(30), "MultiStepLR: milestones is a list of steps, got 30"),
        (lambda: cb.WarmupCosine("5", 10), "WarmupCosine: warmup_steps is a whole number of at least 0, got '5'"),
        (lambda: cb.Mixup("0.4"), "Mixup: alpha is a number of at least 0, got '0.4'"),
        (lambda: cb.Mixup(lam=[0.5]), "Mixup: lam is from 0 to 1, or RANDOM"),
        (lambda: cb.CutMix(1.0, "10"), "CutMix: classes is at least 2, or -1"),
        (lambda: cb.Cutout(1, 2.5), "Cutout: length is a whole number of at least 1, got 2.5"),
        (lambda: cb.LabelSmoothingRegularisation("0.1"), "LabelSmoothingRegularisation: epsilon is a number"),
        (lambda: cb.KaimingNormal("relu"), "KaimingNormal: a is a number, got 'relu'"),
        (lambda: cb.XavierUniform("relu"), "XavierUniform: gain is a number above 0, got 'relu'"),
        (lambda: cb.LsuvInit([0.0], max_attempts=2.5), "max_attempts is a whole number of at least 1, got 2.5"),
        (lambda: cb.ClassAppearanceModel(10, 28), r"input_size is \(channels, height, width\), got 28"),
        (lambda: cb.CSVLogger("a.csv", None), "CSVLogger: the separator is one character, got None"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(make, match):
    with pytest.raises(ConfigError, match=match):
        make()


#: what needs a whole number, its name for it, and the least
WHOLE = {
    "Interval": (lambda n: cb.Interval(period=n), "period", 1),
    "Best": (lambda n: cb.Best(period=n), "period", 1),
    "TensorBoard": (lambda n: cb.TensorBoard(batch_step_size=n), "batch_step_size", 1),
    "TensorBoardText": (lambda n: cb.TensorBoardText(batch_step_size=n), "batch_step_size", 1),
    "LiveLossPlot": (lambda n: cb.LiveLossPlot(batch_step_size=n), "batch_step_size", 1),
    "TensorBoardProjector": (lambda n: cb.TensorBoardProjector(avg_pool_size=n), "avg_pool_size", 1),
    "CachingImagingCallback": (lambda n: cb.CachingImagingCallback(num_images=n), "num_images", 1),
    "MakeGrid": (lambda n: cb.MakeGrid(nrow=n), "nrow", 1),
    "make_grid": (lambda n: make_grid(np.zeros((2, 1, 3, 3)), padding=n), "padding", 0),
    "FreezeUnfreeze": (lambda n: cb.FreezeUnfreeze({n: None}), "epoch", 0),
}


@pytest.mark.parametrize("who", WHOLE)
def test_whole_numbers_of_numpy_are_taken_and_nothing_that_only_looks_like_one(who):
    make, name, least = WHOLE[who]
    make(np.int64(least))
    for wrong in (True, 2.0, "a", None, least - 1):
        with pytest.raises(
            ConfigError, match=f"^{who}: {name} is a whole number of at least {least}, got {re.escape(repr(wrong))}$"
        ):
            make(wrong)
