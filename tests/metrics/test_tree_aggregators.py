"""What hangs on a metric, over numbers that are missing, infinite or none, and over masks of every kind."""

import numpy as np
import pytest
from tree_loop import FRAMEWORKS, converter, one_pass

from delira.metrics import CategoricalAccuracy, Max, Mean, Metric, MetricTree, Min, RunningMean, Std, Var, Weighted
from delira.state import Y_PRED, Y_TRUE

NAN, INF = np.nan, np.inf


class Given(Metric):
    """What the state has as a prediction."""

    def process(self, state):
        return state[Y_PRED]


def found(*batches):
    hanging = [Mean("mean"), Std("x"), Var("x"), Max("x"), Min("x")]
    given = [{Y_PRED: batch, Y_TRUE: None} for batch in batches]
    return one_pass([MetricTree(Given("x"), hanging)], given)[1]


def expected(*numbers):
    with np.errstate(invalid="ignore"):
        return {
            "mean": np.mean(numbers), "x_std": np.std(numbers, ddof=1), "x_var": np.var(numbers, ddof=1),
            "x_max": np.max(numbers), "x_min": np.min(numbers),
        }  # fmt: skip


@pytest.mark.parametrize(
    "numbers",
    [(1.0, NAN, 2.0), (NAN, 1.0), (1.0, 3.0, NAN), (1.0, INF, 2.0), (INF, INF), (-INF, 1.0), (-INF, INF, 0.0)],
)
@pytest.mark.parametrize("kind", [float, np.float32, lambda number: np.array([number])], ids=["float", "0-d", "1-d"])
def test_numbers_that_are_none_or_infinite_are_what_numpy_makes_of_them(numbers, kind):
    assert found(*map(kind, numbers)) == pytest.approx(expected(*numbers), nan_ok=True)
    assert found(np.array(numbers)) == pytest.approx(expected(*numbers), nan_ok=True)


def test_columns_are_kept_apart_where_one_is_infinite():
    table = np.array([[1.0, INF, 3.0, NAN], [2.0, 5.0, -INF, 1.0], [0.5, 1.0, INF, 1.0]])
    given = [{Y_PRED: row[None], Y_TRUE: None} for row in table]
    values = one_pass([MetricTree(Given("x"), [Mean("mean", dim=0), Max("x", dim=0)])], given)[1]
    with np.errstate(invalid="ignore"):
        assert values["mean"] == pytest.approx(table.mean(axis=0), nan_ok=True)
    assert values["x_max"] == pytest.approx(table.max(axis=0), nan_ok=True)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_batch_in_which_nothing_counts_changes_nothing(framework, place):
    convert, rng = converter(framework), np.random.default_rng(0)
    values, masks = rng.normal(size=(4, 6)).astype("f4"), rng.random((4, 6)) < 0.7
    masks[place] = False
    given = [Weighted(convert(value), convert(mask)) for value, mask in zip(values, masks, strict=True)]
    assert found(*given) == pytest.approx(expected(*values[masks]), rel=1e-6)
    window = [{Y_PRED: one, Y_TRUE: None} for one in given]
    reported = one_pass([MetricTree(Given("x"), [RunningMean("x", step_size=1)])], window)[0]
    means = [value[mask].mean() for value, mask in zip(values, masks, strict=True) if mask.any()]
    assert float(reported[-1]["running_x"]) == pytest.approx(np.mean(means), rel=1e-6)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_batches_with_and_without_a_mask_may_follow_each_other(framework):
    convert, rng = converter(framework), np.random.default_rng(0)
    values, mask = rng.normal(size=(4, 6)).astype("f4"), rng.random(6) < 0.5
    given = [convert(values[0]), Weighted(convert(values[1]), convert(mask)), convert(values[2])]
    given.append(Weighted(convert(values[3]), mask))  # of numpy, beside values of the framework
    numbers = np.concatenate([values[0], values[1][mask], values[2], values[3][mask]])
    assert found(*given) == pytest.approx(expected(*numbers), rel=1e-5)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_of_a_large_batch_a_mask_of_numpy_counts_too(framework):
    convert, rng = converter(framework), np.random.default_rng(0)
    values, mask = rng.normal(size=(80, 70)).astype("f4"), rng.random((80, 70)) < 0.5
    assert found(Weighted(convert(values), mask)) == pytest.approx(expected(*values[mask].astype("f8")), rel=1e-4)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_large_batches_of_many_shapes_are_read_at_once(framework, monkeypatch):
    from delira.metrics import gather as moments

    convert, rng, reads = converter(framework), np.random.default_rng(0), []
    values = [rng.normal(size=(70, width)).astype("f4") for width in (70, 80, 90)]
    read_alike = moments.read_alike
    monkeypatch.setattr(moments, "read_alike", lambda arrays: reads.append(len(arrays)) or read_alike(arrays))
    rows = moments.read_rows([moments.Batch(convert(value)) for value in values])
    assert reads == [3]
    assert [row[0] for row in rows] == [4900, 5600, 6300]
    assert [row[1] for row in rows] == pytest.approx([value.astype("f8").mean() for value in values], abs=1e-6)


class _Keeping(Metric):
    """Hangs on a metric, and keeps what it is given."""

    def __init__(self):
        super().__init__("kept")
        self.given = []

    def process(self, *args):
        self.given.append(args[0])


@pytest.mark.slow_cases("jax")
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("ignored", [-100, 2])
def test_labels_that_do_not_count_are_left_out_however_late_they_are_read(framework, ignored):
    draw, keeping = np.random.default_rng(0), _Keeping()
    metric = CategoricalAccuracy(ignore_index=ignored, class_axis=1)
    tree = MetricTree(metric, [Mean("acc"), RunningMean("acc"), keeping])
    # one above the number from which a batch is reduced on its device, one of a shape of its own
    pairs, right, counts = [], [], []
    for shape in ((7,), (7,), (3,), (5, 1000)):
        scores = draw.normal(size=(shape[0], 4, *shape[1:])).astype("float32")
        labels = draw.integers(0, 4, shape)
        labels.flat[0] = ignored
        pairs.append((scores, labels))
        right.append((scores.argmax(1) == labels).ravel())
        counts.append((labels != ignored).ravel())
    convert = converter(framework)
    _, values = one_pass([tree], [tuple(map(convert, pair)) for pair in pairs])
    right, counts = np.concatenate(right), np.concatenate(counts)
    assert values["acc"] == pytest.approx(right[counts].mean())
    masks = [np.asarray(given.weight).ravel() for given in keeping.given]
    assert np.array_equal(np.concatenate(masks), counts)
