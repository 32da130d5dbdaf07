"""Values that callbacks watch: plain numbers and lists of any framework, and which direction is better."""

import math

import numpy as np
import pytest
from small_backends import build_kit

from delira.callbacks.monitor import number, plain_values, sign_of
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, MissingKeyError
from delira.training import callbacks as cb
from delira.training.callbacks import Best, EarlyStopping
from delira.utils.late import Lazy

REASON = "the {} backend needs the package {!r}, which is not installed"


def numpy_arrays():
    return np.asarray


def torch_arrays():
    torch = pytest.importorskip("torch", reason=REASON.format("torch", "torch"))
    return lambda values: torch.tensor(values, requires_grad=True) * 1.0


def tensorflow_arrays():
    tensorflow = pytest.importorskip("tensorflow", reason=REASON.format("tensorflow", "tensorflow"))
    return tensorflow.constant


def jax_arrays():
    jax = pytest.importorskip("jax", reason=REASON.format("jax", "jax"))
    return jax.numpy.asarray


@pytest.mark.parametrize("arrays_of", [numpy_arrays, torch_arrays, tensorflow_arrays, jax_arrays])
def test_arrays_of_one_value_are_numbers_and_others_lists(arrays_of):
    array = arrays_of()
    given = {
        "scalar": array(0.5), "row": array([0.25]), "cell": array([[2.0]]), "several": array([1.0, 2.0]),
        "nested": {"classes": [array(1.5), 3]}, "plain": 7,
    }  # fmt: skip
    found = plain_values(given)
    wanted = {
        "scalar": 0.5, "row": 0.25, "cell": 2.0, "several": [1.0, 2.0], "nested": {"classes": [1.5, 3]}, "plain": 7,
    }  # fmt: skip
    assert found == wanted
    assert [type(found[name]) for name in ("scalar", "row", "cell", "several")] == [float, float, float, list]


def test_whole_numbers_texts_and_what_is_computed_late_stay_what_they_are():
    given = {"n": np.int64(3), "name": "a", "text": np.str_("b"), "late": Lazy(lambda: [1.0]), "none": None}
    found = plain_values(given)
    assert found == {"n": 3, "name": "a", "text": "b", "late": [1.0], "none": None}
    assert type(found["n"]) is int
    assert type(found["text"]) is str


def test_nothing_is_left_out():
    assert plain_values({"epoch": np.float32(2)}) == {"epoch": 2.0}


def test_a_watched_value_may_be_an_array_of_one_value():
    assert number(np.array([0.5])) == 0.5


@pytest.mark.parametrize(
    ("name", "is_larger_better"),
    [
        *((f"val_{name}", True) for name in (
            "acc", "binary_acc", "top_5_acc", "roc_auc_score", "pr_auc", "f1", "f1_score", "iou", "mean_iou", "dice",
            "precision", "recall", "kappa", "mcc", "r2", "balanced_accuracy",
        )),
        *((f"val_{name}", False) for name in (
            "loss", "mse", "mae", "rmse", "hausdorff", "calibration_error", "dice_loss", "nll",
        )),
    ],
)  # fmt: skip
def test_auto_knows_which_values_are_good(name, is_larger_better):
    assert sign_of("auto", name, "test") == (-1.0 if is_larger_better else 1.0)
    assert EarlyStopping(name).state_dict() == {"best": math.inf, "epochs_waited": 0}
    Best(monitor=name)


def test_auto_guesses_nothing():
    for name in ("something", "val_precision_mm", "previous_indices", "accuracy_std", "1-accuracy"):
        with pytest.raises(ConfigError, match=r"so say mode='min' \(also called 'lowest'\) or mode='max'"):
            sign_of("auto", name, "test")


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
        build_kit("torch").trainer(tmp_path, callbacks=[cb.EarlyStopping()]).train(1, data, data)
