"""What a newcomer gets wrong, and the words that help."""

import re

import numpy as np
import pytest
from small_rooms import build_room

import delira
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError, MissingKeyError
from delira.state import state_key
from delira.training import callbacks as cb
from delira.training.callbacks.imaging import make_grid

PICTURE, LABELS = state_key("picture_of_a_newcomer"), state_key("labels_of_a_newcomer")


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
        (lambda: cb.Mixup("0.4"), "Mixup: alpha is a number above 0, got '0.4'"),
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


@pytest.mark.parametrize("make", [cb.EarlyStopping, cb.Best])
def test_a_trial_without_the_loss_says_how_to_have_it(torch_fit, make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        MissingKeyError, match=r"watches 'val_loss', but .* a trial has the loss with metrics=\['loss'\]"
    ):
        torch_fit.trial(make(), metrics=["mse"]).run(1)


def test_an_experiment_says_that_losses_have_names(tmp_path):
    rng = np.random.default_rng(0)
    data = BaseDataManager({"data": rng.normal(size=(8, 3)).astype("f4"), "label": np.ones((8, 1), "f4")}, 4)
    with pytest.raises(MissingKeyError, match="an experiment calls each loss by its own name: pass monitor="):
        build_room("torch").trainer(tmp_path, callbacks=[cb.EarlyStopping()]).train(1, data, data)


def test_the_metric_of_mixed_samples_is_named():
    torch = pytest.importorskip("torch", reason="the torch room needs the package 'torch', which is not installed")
    net = torch.nn.Linear(3, 2)
    criterion = cb.mixup_loss(torch.nn.CrossEntropyLoss())
    trial = delira.Trial(
        net, torch.optim.SGD(net.parameters(), 0.1), criterion, ["cat_acc"], [cb.Mixup()], seed=0, verbose=0
    )
    with pytest.raises(DataError, match=r"the metric 'acc' .* samples are mixed; use 'mixup_acc'"):
        trial.with_train_data(torch.rand(4, 3), torch.tensor([0, 1, 0, 1]), 4).run(1)


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


@pytest.mark.parametrize(
    "callback", [cb.WeightDecay(), cb.GradientClipping(1.0), cb.Mixup(), cb.FreezeUnfreeze({0: None}), cb.StepLR(1)]
)
def test_what_needs_gradients_is_refused_for_estimators(callback):
    linear = pytest.importorskip("sklearn.linear_model", reason="the room needs the package 'scikit-learn'")
    trial = delira.Trial(linear.SGDClassifier(), metrics=["acc"], callbacks=[callback], seed=0, verbose=0)
    with pytest.raises(ConfigError, match=rf"{type(callback).__name__}.*'sklearn'"):
        trial.with_train_data([[0.0], [1.0]], [0, 1], 2).run(1)


def test_one_of_ones_own_may_need_gradients():
    linear = pytest.importorskip("sklearn.linear_model", reason="the room needs the package 'scikit-learn'")

    class Mine(cb.Callback):
        needs_gradients = True

        def on_backward(self, state): ...

    trial = delira.Trial(linear.SGDClassifier(), callbacks=[Mine()], seed=0, verbose=0)
    with pytest.raises(ConfigError, match="Mine is for networks that learn by gradients"):
        trial.with_train_data([[0.0], [1.0]], [0, 1], 2).run(1)


def test_decorators_are_those_of_their_module_and_say_when_they_run():
    from delira.training.callbacks import decorators

    assert cb.on_step_training is decorators.on_step_training
    assert cb.on_step_training.__name__ == "on_step_training"
    assert "a step is done" in cb.on_step_training.__doc__


def losses(room):
    """Losses that take one target each."""
    if room == "torch":
        torch = pytest.importorskip("torch", reason="the torch room needs the package 'torch', which is not installed")
        return [torch.nn.MSELoss(), torch.nn.functional.mse_loss, lambda prediction, target: (prediction - target) ** 2]
    if room == "tensorflow":
        keras = pytest.importorskip("keras", reason="the tensorflow room needs the package 'tensorflow'")
        return [keras.losses.MeanSquaredError(), keras.losses.mean_squared_error]
    return [lambda prediction, target: ((prediction - target) ** 2).mean()]


def test_pairs_of_targets_need_a_criterion_for_them(fit):
    """Keras would take the second target for weights of the samples, and say nothing."""
    for loss in losses(fit.room):
        fit.criterion = loss
        with pytest.raises(
            ConfigError, match=r"Mixup makes a pair of each target, which .* does not take; make it mixup"
        ):
            fit.trial(cb.Mixup()).run(1)


def test_a_criterion_of_ones_own_may_take_the_pair(torch_fit):
    seen = []

    def of_both(prediction, first, second=None):  # one target in a validation
        seen.append(second is not None)
        return ((prediction - first) ** 2).mean()

    torch_fit.criterion = of_both
    torch_fit.trial(cb.Mixup(lam=0.5)).run(1)
    assert seen == [True] * 3 + [False] * 3


@pytest.mark.parametrize("name", ["{epoch:q}", "{epoch", "{epoch!z}"])
def test_a_format_that_is_none_is_named(torch_fit, name, tmp_path):
    with pytest.raises(ConfigError, match=r"MostRecent: the name .* cannot be filled in"):
        torch_fit.trial(cb.MostRecent(f"{tmp_path}/{name}")).run(1)


def test_two_averages_are_refused_by_name(torch_fit):
    with pytest.raises(ConfigError, match="there is an SWA already"):
        torch_fit.trial(cb.SWA(), cb.ExponentialMovingAverage()).run(1)


def test_a_layer_that_is_not_there_is_named(torch_fit):
    torch = pytest.importorskip("torch", reason="the torch room needs the package 'torch', which is not installed")
    torch_fit.module = torch.nn.Sequential(torch.nn.Linear(3, 1))
    with pytest.raises(ConfigError, match="ZeroBias: there is no layer 'O'"):
        torch_fit.trial(cb.ZeroBias(modules=["0", "O"]))


def test_folds_of_an_experiment_have_files_of_their_own(tmp_path):
    pytest.importorskip("pycm", reason="the callback needs the package 'pycm', which is not installed")
    data = BaseDataManager({"data": np.eye(3, dtype="f4").repeat(4, 0), "label": np.ones((12, 1), "f4")}, 4)
    grid = cb.MakeGrid(PICTURE, 1)
    callbacks = [
        cb.on_step_validation(lambda state: state.update({PICTURE: np.zeros((1, 1, 4, 4)), LABELS: np.array([0, 1])})),
        cb.MostRecent(tmp_path / "newest"), cb.Interval(tmp_path / "in_{fold}", period=2),
        cb.CSVLogger(tmp_path / "metrics.csv"), grid.to_file(tmp_path / "grid.png"),
        cb.PyCM(pred_key=LABELS, target_key=LABELS).to_html_file(tmp_path / "matrix"),
    ]  # fmt: skip
    experiment = build_room("torch").experiment(tmp_path / "runs", callbacks=callbacks, verbose=False)
    experiment.kfold(data, num_splits=2)
    ours = sorted(path.name for path in tmp_path.iterdir() if path.name != "runs")
    endings = {"newest": ".pt", "metrics": ".csv", "grid": ".png", "matrix": ".html"}
    expected = [f"{name}{fold}{ending}" for name, ending in endings.items() for fold in ("", "_fold_1")]
    assert ours == sorted([*expected, "in_0.pt", "in_1.pt"])
    rows = [(tmp_path / f"metrics{fold}.csv").read_text().splitlines() for fold in ("", "_fold_1")]
    assert [len(lines) for lines in rows] == [3, 3]
    assert rows[0] != rows[1]
