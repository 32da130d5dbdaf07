"""Overlap where classes are missing is MONAI's, and the error of several outputs scikit-learn's."""

import numpy as np
import pytest
from tree_loop import converter, one_pass

from delira.errors import ConfigError
from delira.metrics import Dice, IoU, RootMeanSquaredError, std
from delira.metrics.tree.aggregators import RunningMean, RunningMetric
from delira.metrics.tree.labels import wrong_labels
from delira.state import LOSS, X
from delira.utils.arrays import ops_of, read_arrays

sk = pytest.importorskip("sklearn.metrics", reason="the comparison is with scikit-learn")
RANDOM = np.random.default_rng(5)
TRUE, PRED = RANDOM.integers(3, size=(2, 7, 6, 6))
PRED[0], TRUE[0] = 0, 0  # no foreground in both
TRUE[1] = 0  # predicted and not there
PRED[2][PRED[2] == 1] = 0  # there and not predicted
TRUE[3][TRUE[3] == 2] = 0
TRUE[4][TRUE[4] == 2] = PRED[4][PRED[4] == 2] = 0


@pytest.fixture(params=["numpy", "torch", "tensorflow", "jax"])
def convert(request):
    return converter(request.param)


def batches(convert, pred, true, size=3):
    return [(convert(pred[at : at + size]), convert(true[at : at + size])) for at in range(0, len(true), size)]


def one_hot(labels):
    return np.moveaxis(np.eye(3, dtype=np.float32)[labels], -1, 1)


def of_monai(name, pred=PRED, true=TRUE, **settings):
    """MONAI's own metric, over its own batches."""
    monai = pytest.importorskip("monai.metrics", reason="MONAI is not installed")
    torch = pytest.importorskip("torch")
    metric = getattr(monai, name)(reduction="mean", **settings)
    for start in range(0, len(true), 3):
        metric(torch.tensor(one_hot(pred[start : start + 3])), torch.tensor(one_hot(true[start : start + 3])))
    return metric.aggregate().item()


@pytest.mark.sampled("pairs")
@pytest.mark.slow_cases("jax")
@pytest.mark.parametrize("ignore_empty", [True, False])
@pytest.mark.parametrize("include_background", [True, False])
def test_overlap_where_classes_are_missing_is_that_of_monai(convert, ignore_empty, include_background):
    settings = {"ignore_empty": ignore_empty, "include_background": include_background}
    _, final = one_pass([Dice(**settings), IoU(**settings)], batches(convert, one_hot(PRED), TRUE))
    expected = {"dice": of_monai("DiceMetric", **settings), "iou": of_monai("MeanIoU", **settings)}
    assert final == pytest.approx(expected, rel=1e-6)


def test_what_does_not_count_is_ignored_unless_it_is_said():
    given = batches(np.array, one_hot(PRED), TRUE)
    assert one_pass(["dice"], given) == one_pass([Dice(ignore_empty=True)], given)
    assert one_pass(["dice"], given)[1]["dice"] == pytest.approx(of_monai("DiceMetric", include_background=False))


def test_the_running_dice_leaves_out_batches_without_a_mask():
    empty = np.zeros_like(TRUE[:3])
    reported, final = one_pass([Dice()], [(one_hot(empty), empty), *batches(np.array, one_hot(PRED), TRUE)])
    assert np.isnan(reported[0]["running_dice"])
    assert final["dice"] == pytest.approx(of_monai("DiceMetric", include_background=False))
    running = RunningMean("dice", step_size=1)
    running.train()
    values = [running.process(value) for value in (0.5, _nothing(), 1.0)]
    assert [float(value) for value in values] == [0.5, 0.5, 0.75]
    again = RunningMean("dice", step_size=1)
    again.load_state_dict(running.state_dict())
    assert float(again.process(0.0)) == 0.5


def _nothing():
    from delira.metrics import Weighted

    return Weighted(np.zeros(2), np.zeros(2, dtype=bool))


def test_masks_that_are_all_empty_have_no_overlap():
    empty = np.zeros_like(TRUE[:3])
    assert np.isnan(one_pass([Dice()], [(one_hot(empty), empty)])[1]["dice"])
    assert one_pass([Dice(ignore_empty=False)], [(one_hot(empty), empty)])[1] == {"dice": 1.0}


@pytest.mark.sampled("values")
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 4, 5)])
def test_the_root_mean_squared_error_is_that_of_scikit_learn(convert, shape):
    true, pred = RANDOM.normal(size=(2, 11, *shape)).astype(np.float32)
    true *= np.arange(1, 4, dtype=np.float32) if shape == (3,) else 1
    _, final = one_pass(["rmse"], batches(convert, pred, true, 4))
    flat = (true, pred) if len(shape) < 2 else (true.ravel(), pred.ravel())
    assert final["rmse"] == pytest.approx(sk.root_mean_squared_error(*flat), rel=1e-5)


def test_the_roots_of_the_outputs_may_be_had(convert):
    true, pred = RANDOM.normal(size=(2, 11, 3)).astype(np.float32)
    _, final = one_pass([RootMeanSquaredError(multioutput="raw_values")], batches(convert, pred, true, 4))
    np.testing.assert_allclose(
        final["rmse"], sk.root_mean_squared_error(true, pred, multioutput="raw_values"), rtol=1e-5
    )
    with pytest.raises(ConfigError, match="multioutput must be 'uniform_average' or 'raw_values', got 'mean'"):
        RootMeanSquaredError(multioutput="mean")


def test_a_running_metric_of_ones_own_sees_the_last_means():
    class RunningMedian(RunningMetric):
        def compute(self, means):
            return np.median(means)

    median = RunningMedian("error", batch_size=3, step_size=1)
    median.train()
    values = [median.process(np.array(each, dtype=float)) for each in ([1, 3], [10, 10], [4, 4], [0, 0])]
    assert median.name == "running_error"
    assert [float(value) for value in values] == [2, 6, 4, 4]
    median.eval()
    assert median.process(np.array([1.0])) is None


def test_a_single_number_of_a_batch_is_one_observation_of_a_spread():
    given = [{LOSS: value, X: np.zeros(n)} for n, value in ((20, 0.0), (20, 1.0), (10, 2.0))]
    assert one_pass(["loss", std(LOSS)], given)[1] == {"loss": pytest.approx(0.8), "loss_std": 1.0}


def test_masks_of_truth_values_have_no_wrong_label_and_nothing_is_brought_to_their_device(convert, monkeypatch):
    true = convert(np.ones((2, 70, 70), bool))
    monkeypatch.setattr(type(ops_of(true)), "asarray", None)
    found = wrong_labels(true, 2)
    monkeypatch.undo()
    assert type(found) is type(true)
    assert read_arrays([found])[0].dtype == bool
    assert not read_arrays([found])[0].any()
