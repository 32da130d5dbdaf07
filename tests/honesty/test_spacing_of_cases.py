"""Distances of masks: each case with its own spacing, computed once, then drawn."""

import numpy as np
import pytest
import scipy.stats
from scipy.spatial.distance import cdist

from delira.errors import ConfigError, DataError, MissingKeyError
from delira.experiments.result import FoldResult, KFoldResult
from delira.metrics import Hausdorff, MetricList, MetricSet, kind_of
from delira.state import Y_PRED, Y_TRUE, State

GENERATOR = np.random.default_rng(0)
N = 24
TRUE = (GENERATOR.random((N, 6, 5)) < 0.3).astype(int)
PRED = (GENERATOR.random((N, 6, 5)) < 0.3).astype(int)
SPACING = GENERATOR.uniform(0.5, 3, size=(N, 2))


def edge(mask):
    """Pixels of which a neighbour, or the outside, is none of the mask: a loop by hand."""
    padded = np.pad(mask, 1)
    inside = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return np.argwhere(mask.astype(bool) & ~inside.astype(bool))


def distance(true, pred, spacing):
    one, other = edge(true) * spacing, edge(pred) * spacing
    table = cdist(one, other)
    return max(table.min(axis=0).max(), table.min(axis=1).max())


DISTANCES = np.array([distance(*each) for each in zip(TRUE, PRED, SPACING, strict=True)])
SETTINGS = {"spacing": "voxel", "num_classes": 2}


def test_the_spacing_of_each_case_comes_from_its_batch():
    metrics = MetricSet({"hausdorff": Hausdorff(**SETTINGS)})
    assert metrics.required_keys() == {"hausdorff": ("label", "pred", "voxel")}
    for batch in np.array_split(np.arange(N), 5):
        metrics.update({"label": TRUE[batch], "pred": PRED[batch], "voxel": SPACING[batch]})
    assert metrics.compute()["hausdorff"][0] == pytest.approx(DISTANCES.mean())


def test_one_number_for_each_case_holds_for_all_axes():
    metrics = MetricSet({"hausdorff": Hausdorff(**SETTINGS)})
    metrics.update({"label": TRUE, "pred": PRED, "voxel": SPACING[:, 0]})
    by_hand = [distance(t, p, s) for t, p, s in zip(TRUE, PRED, SPACING[:, 0], strict=True)]
    assert metrics.compute()["hausdorff"][0] == pytest.approx(np.mean(by_hand))


def test_in_a_trial_the_spacing_is_a_key_of_the_state():
    metrics = MetricList([Hausdorff(**SETTINGS)])
    state = State({Y_TRUE: TRUE, Y_PRED: PRED, "voxel": SPACING})
    metrics.eval()
    metrics.reset(state)
    metrics.process(state)
    assert metrics.process_final(state)["val_hausdorff"] == pytest.approx(DISTANCES.mean())


def test_distances_are_computed_once_for_each_case_and_then_drawn(monkeypatch):
    calls, compute = [], Hausdorff._distance
    monkeypatch.setattr(Hausdorff, "_distance", lambda *args: calls.append(1) or compute(*args))
    folds, metrics = [], {"hausdorff": Hausdorff(**SETTINGS)}
    for number in range(3):
        test, found = np.arange(number, N, 3), MetricSet(metrics)
        found.update({"label": TRUE[test], "pred": PRED[test], "voxel": SPACING[test]})
        targets = {"label": TRUE[test], "voxel": SPACING[test]}
        folds.append(FoldResult(number, [], None, test, found.compute(), {"pred": PRED[test]}, targets))
    del calls[:]
    row = KFoldResult(folds, N, found.metrics).summary()["hausdorff"]
    assert len(calls) == N
    assert row["oof"] == pytest.approx(DISTANCES.mean())
    expected = scipy.stats.bootstrap(
        (DISTANCES,), np.mean, method="percentile", n_resamples=4000, rng=np.random.default_rng(1)
    ).confidence_interval
    width = expected.high - expected.low
    assert row["ci_low"] == pytest.approx(expected.low, abs=0.08 * width)
    assert row["ci_high"] == pytest.approx(expected.high, abs=0.08 * width)
    assert not row["pooled"]


def test_cases_without_a_mask_do_not_count_in_draws_either():
    true, pred = TRUE.copy(), PRED.copy()
    true[::4], pred[::4] = 0, 0
    folds, metrics = [], {"hausdorff": Hausdorff(num_classes=2)}
    for number in range(2):
        test, found = np.arange(number, N, 2), MetricSet(metrics)
        found.update({"label": true[test], "pred": pred[test]})
        folds.append(FoldResult(number, [], None, test, found.compute(), {"pred": pred[test]}, {"label": true[test]}))
    row = KFoldResult(folds, N, found.metrics).summary()["hausdorff"]
    counted = [distance(true[i], pred[i], 1.0) for i in range(N) if i % 4]
    assert row["oof"] == pytest.approx(np.mean(counted))
    assert row["ci_low"] < row["oof"] < row["ci_high"]


def test_a_pass_that_goes_on_after_a_checkpoint_gives_the_same():
    whole, halves = (MetricSet({"h": Hausdorff(**SETTINGS)}) for _ in range(2))
    batches = [{"label": TRUE[part], "pred": PRED[part], "voxel": SPACING[part]} for part in (slice(0, 9), slice(9, N))]
    halves.update(batches[0])
    again = MetricSet({"h": Hausdorff(**SETTINGS)})
    again.load_state_dict(halves.state_dict())
    again.update(batches[1])
    for batch in batches:
        whole.update(batch)
    assert again.compute() == whole.compute()


@pytest.mark.parametrize("spacing", [0, -1.0, (1.0, np.nan), [[1.0]], None, (), {"a": 1}])
def test_a_spacing_that_is_none_is_refused(spacing):
    with pytest.raises(ConfigError, match="hausdorff: spacing must be positive numbers"):
        Hausdorff(spacing=spacing)


@pytest.mark.parametrize(
    ("voxel", "error", "message"),
    [
        (np.zeros(N), DataError, "needs positive numbers of shape"),
        (np.ones(N - 1), DataError, "needs positive numbers of shape"),
        (np.ones((N, 3)), DataError, "got the spacing .* of a mask of shape"),
        (np.full(N, "1 mm"), DataError, "needs positive numbers of shape"),
        (None, MissingKeyError, "metric 'h' reads 'voxel'"),
    ],
)
def test_a_spacing_of_the_batch_that_is_none_is_refused_by_name(voxel, error, message):
    metrics = MetricSet({"h": Hausdorff(**SETTINGS)})
    with pytest.raises(error, match=message):  # noqa: PT012
        metrics.update({"label": TRUE, "pred": PRED, **({} if voxel is None else {"voxel": voxel})})
        metrics.compute()


def test_it_is_known_how_it_is_computed():
    assert kind_of(Hausdorff(**SETTINGS)) == "stream"
