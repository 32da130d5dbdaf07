"""Parts of a pass that were seen apart and merged give the numbers of one pass, computed elsewhere."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sklearn.metrics", reason="the numbers are compared with those of scikit-learn")
import itertools

from metric_cases import CASES
from pairwise import every_second
from test_every_metric import FEW, SEEDS, bound, by_waves, compare, drawn, ragged, torch_parts

import delira.metrics as dm
from delira.errors import ConfigError
from delira.metrics.per_class import may_lack_values, mean_of_values
from delira.state import CRITERION, Y_PRED, Y_TRUE, State, X
from delira.training.epoch import StepValues

pytestmark = [
    pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning"),
]


def cut(n, random):
    """Rows of four parts of a pass; one has none."""
    first, second = sorted(random.choice(np.arange(1, n), 2, replace=False))
    places = [0, 0, first, second, n] if random.integers(2) else [0, first, first, second, n]
    return [slice(start, end) for start, end in itertools.pairwise(places)]


def see(metrics, state, data, rows, convert):
    """Process some rows in batches of four."""
    metrics.eval()
    metrics.reset(state)
    for batch in ragged(rows.stop - rows.start, 4):
        each = slice(rows.start + batch.start, min(rows.start + batch.stop, rows.stop))
        pred, true = convert(data.pred[each]), convert(data.true[each])
        state.update({X: pred, Y_PRED: pred, Y_TRUE: true})
        metrics.process(state)


def without_prefix(values):
    return {name.removeprefix("val_"): value for name, value in values.items()}


@pytest.mark.left_to_full(every_second(CASES, 1))
@pytest.mark.parametrize("name", CASES)
@given(seed=SEEDS)
@FEW
def test_lists_of_metrics_of_trials_are_merged(name, seed):
    torch = pytest.importorskip("torch", reason="losses of PyTorch")
    data, loss, _ = drawn(name, seed)
    parts = cut(len(data.pred), np.random.default_rng(seed))
    for wave in by_waves([case for case in CASES[name] if case.in_trial]):
        lists = []
        for rows in parts:
            metrics = dm.MetricList([copy.deepcopy(metric) for _, metric in wave.values()])
            state = State({CRITERION: torch_parts(loss)[1]})
            see(metrics, state, data, rows, torch.tensor)
            lists.append((metrics, state))
        first, state = lists[0]
        for metrics, _ in lists[1:]:
            kept = copy.deepcopy(metrics.state_dict())
            first.merge(metrics)
            np.testing.assert_equal(metrics.state_dict(), kept)
        found = without_prefix(first.process_final(lists[-1][1]))
        compare(found, {reported: case.expected(data) for reported, (case, _) in wave.items()}, "4, merged")


@pytest.mark.left_to_full(every_second(CASES))
@pytest.mark.parametrize("name", CASES)
@given(seed=SEEDS)
@FEW
def test_sets_of_metrics_of_experiments_are_merged(name, seed):
    data, loss, _ = drawn(name, seed)
    parts = cut(len(data.pred), np.random.default_rng(seed))
    metrics, expected = {}, {}
    for case in CASES[name]:
        for metric in case.metrics if case.is_number else ():
            metrics[key := f"{case.name}, {len(metrics)}"] = metric
            expected[key] = case.expected(data)
    sets = []
    for rows in parts:
        made = dm.MetricSet(copy.deepcopy(bound(metrics, loss)))
        for batch in ragged(rows.stop - rows.start, 4):
            each = slice(rows.start + batch.start, min(rows.start + batch.stop, rows.stop))
            made.update({"label": data.true[each], "pred": data.pred[each]})
        sets.append(made)
    for other in sets[1:]:
        sets[0].merge(other)
    values = sets[0].compute()
    found = {key: mean_of_values(values[key], may_lack_values(metric)) for key, metric in metrics.items()}
    compare(found, expected, "4, merged")


@given(seed=SEEDS)
@settings(FEW, max_examples=5)
def test_what_hangs_on_a_metric_is_merged(seed):
    data, _, _ = drawn("several_numbers", seed)

    def array(y_pred, y_true):
        return y_pred - y_true

    def make():
        return dm.MetricList([
            dm.mean(dm.std(dm.var(dm.max_(dm.min_(array))))),
            dm.MetricTree(dm.lambda_metric("columns")(array), [dm.Mean("columns", dim=0), dm.Std("columns", dim=0)]),
            dm.to_dict(dm.EpochLambda("whole", lambda y_pred, y_true: abs(y_pred - y_true).max())),
        ])  # fmt: skip

    found, lists = data.wide - data.true, []
    for rows in cut(len(found), np.random.default_rng(seed)):
        lists.append(make())
        see(lists[-1], State(), data, rows, np.asarray)
    for other in lists[1:]:
        lists[0].merge(other)
    expected = {
        "array": found.mean(), "array_std": found.std(ddof=1), "array_var": found.var(ddof=1), "array_max": found.max(),
        "array_min": found.min(), "columns": found.mean(axis=0), "columns_std": found.std(axis=0, ddof=1),
        "whole": abs(found).max(),
    }  # fmt: skip
    compare(without_prefix(lists[0].process_final(State())), expected, "4, merged")


@given(seed=SEEDS)
@settings(FEW, max_examples=5)
def test_how_predictions_are_read_is_known_if_one_part_has_told(seed):
    random = np.random.default_rng(seed)
    scores, true = random.normal(size=12), random.integers(2, size=12).astype("f8")
    scores[:8] = random.uniform(0.1, 0.4, size=8)  # of probabilities that would be a no, of logits it is a yes
    scores[8:], scores[11] = 0.3, 3.0
    rows = (slice(0, 4), slice(4, 8), slice(8, 12))
    for order in (rows, rows[::-1], (rows[1], rows[2], rows[0])):
        lists = []
        for part in order:
            lists.append(dm.MetricList(["binary_acc"]))
            lists[-1].eval()
            lists[-1].reset(state := State({CRITERION: None}))
            for rows in (slice(part.start, part.start + 2), slice(part.start + 2, part.stop)):  # the second one tells
                state.update({X: scores[rows], Y_PRED: scores[rows], Y_TRUE: true[rows]})
                lists[-1].process(state)
        for other in lists[1:]:
            lists[0].merge(other)
        found = without_prefix(lists[0].process_final(state))["binary_acc"]
        assert found == pytest.approx(np.mean((scores > 0) == (true > 0.5)))


@given(sizes=st.lists(st.integers(1, 9), min_size=2, max_size=9), seed=SEEDS)
@settings(max_examples=20)
def test_losses_of_parts_of_an_epoch_are_merged(sizes, seed):
    random = np.random.default_rng(seed)
    values, at = random.normal(size=len(sizes)), int(random.integers(len(sizes) + 1))
    parts = StepValues(np.array), StepValues(np.array)
    for step, (value, size) in enumerate(zip(values, sizes, strict=True)):
        parts[step >= at].append({"loss": value, **({"late": value} if step >= at else {})}, size, step + 1)
    parts[0].merge(parts[1])
    parts[0].append({"loss": 2.0}, 3, len(sizes) + 1)
    assert parts[0].reduce()["loss"] == pytest.approx(np.average([*values, 2.0], weights=[*sizes, 3]))
    assert parts[0].reduce("last_only")["loss"] == 2.0
    if at < len(sizes):
        assert parts[0].reduce()["late"] == pytest.approx(np.average(values[at:], weights=sizes[at:]))
        assert parts[1].reduce()["loss"] == pytest.approx(np.average(values[at:], weights=sizes[at:]))
    np.testing.assert_array_equal(parts[0].after("loss", 0), [*values, 2.0])


def test_objects_of_torchmetrics_are_merged_or_refused():
    torchmetrics = pytest.importorskip("torchmetrics", reason="its metrics are merged")
    random = np.random.default_rng(0)
    true, scores = random.integers(3, size=20), random.normal(size=(20, 3))
    make = {
        "accuracy": lambda: torchmetrics.Accuracy("multiclass", num_classes=3, average="micro"),
        "auroc": lambda: torchmetrics.AUROC("multiclass", num_classes=3),
        "largest": lambda: torchmetrics.MaxMetric(),
    }
    sets = [dm.MetricSet({name: made() for name, made in make.items()}, {"largest": ("number",)}) for _ in range(2)]
    for each, rows in zip((*sets, whole := dm.MetricSet({n: m() for n, m in make.items()}, {"largest": ("number",)})),
                          (slice(0, 7), slice(7, 20), slice(0, 20)), strict=True):  # fmt: skip
        each.update({"label": true[rows], "pred": scores[rows].astype("f4"), "number": scores[rows, 0].astype("f4")})
    empty = dm.MetricSet({name: made() for name, made in make.items()}, {"largest": ("number",)})
    empty.merge(sets[0])
    sets = [empty, sets[1]]
    sets[0].merge(sets[1])
    np.testing.assert_allclose(*(list(each.compute().values()) for each in (sets[0], whole)), rtol=1e-6)
    assert sets[0].compute()["accuracy"] == pytest.approx(np.mean(scores.argmax(1) == true))
    assert sets[0].compute()["largest"] == pytest.approx(scores[:, 0].max())
    unknown = [dm.MetricSet({"r": torchmetrics.PearsonCorrCoef()}) for _ in range(2)]
    for each in unknown:
        each.update({"label": scores[:, 0].astype("f4"), "pred": scores[:, 1].astype("f4")})
    with pytest.raises(ConfigError, match=r"'r', a PearsonCorrCoef of torchmetrics, cannot take in .* 'mean_x'"):
        unknown[0].merge(unknown[1])


class Longest(dm.Metric):
    """A user's own, which keeps something."""

    def __init__(self):
        super().__init__("longest")
        self.value = 0

    def process(self, state):
        self.value = max(self.value, len(state[Y_TRUE]))
        return self.value


class Stream:
    def __init__(self):
        self.n = 0

    def update(self, y_true, y_pred):
        self.n += len(y_true)

    def compute(self):
        return self.n

    def reset(self):
        self.n = 0


def parts_of(metrics, *pairs, criterion=None):
    """A list of metrics for each pair of predictions and targets; None is a part without a batch."""
    lists = []
    for pair in pairs:
        lists.append(dm.MetricList([copy.deepcopy(metric) for metric in metrics]))
        lists[-1].eval()
        lists[-1].reset(state := State({CRITERION: criterion}))
        if pair is not None:
            state.update({X: pair[0], Y_PRED: pair[0], Y_TRUE: pair[1]})
            lists[-1].process(state)
    return lists, State({CRITERION: criterion})


def test_samples_whose_prediction_is_not_finite_keep_their_place_in_the_pass():
    random = np.random.default_rng(0)
    pairs = [(random.normal(size=(n, 2, 4)), random.integers(2, size=(n, 4))) for n in (3, 2, 4)]
    pairs[1][0][1] = np.nan
    pairs[2][0][2] = np.nan
    for metric in ("cat_acc", "f1", "dice", "iou", "roc_auc", "ece"):
        lists, state = parts_of([metric], *pairs)
        for other in lists[1:]:
            lists[0].merge(other)
        assert np.isnan(next(iter(lists[0].process_final(state).values())))
        assert lists[0].trees[0].lost == [4, 7], metric


def test_a_part_without_a_batch_leaves_open_how_predictions_are_read():
    true = np.array([0.0, 1.0])
    doubtful, telling = np.array([0.2, 0.3]), np.array([0.2, 3.0])
    orders = [
        (doubtful, None, telling),
        (None, doubtful, telling),
        (doubtful, telling, None),
        (telling, None, doubtful),
    ]
    for order in orders:
        lists, state = parts_of(["binary_acc"], *(None if pred is None else (pred, true) for pred in order))
        for other in lists[1:]:
            lists[0].merge(other)
        assert without_prefix(lists[0].process_final(state)) == {"binary_acc": 0.5}  # above 0, and not above 0.5
        assert lists[0].trees[0].way == "logits"


def test_how_many_classes_there_are_may_be_known_to_a_later_part_alone():
    scores, true = np.eye(3)[[0, 1, 1, 0]] * 9, np.array([0, 1, 0, 0])
    lists, state = parts_of(["f1"], None, (scores, true))
    lists[0].merge(lists[1])
    assert without_prefix(lists[0].process_final(state))["f1"] == pytest.approx((0.8 + 2 / 3) / 2)  # of both classes


def test_masks_without_a_foreground_do_not_count_in_any_part():
    masks = np.zeros((3, 6, 6), int)
    masks[0, 1, 1] = masks[2, 4, 2] = 1
    moved = np.roll(masks, 2, axis=2)
    lists, state = parts_of([dm.Hausdorff(num_classes=2)], (moved[:1], masks[:1]), (moved[1:], masks[1:]))
    lists[0].merge(lists[1])
    assert next(iter(lists[0].process_final(state).values())) == 2.0


def test_where_the_classes_lie_may_be_known_to_a_later_part_alone():
    jnp = pytest.importorskip("jax.numpy", reason="of JAX the classes are the last axis")
    true = np.array([[0, 1, 1], [2, 0, 1]])
    scores = np.eye(3)[true]  # as many steps as classes
    lists, state = parts_of([dm.accuracy], None, (jnp.array(scores), jnp.array(true)))
    lists[0].merge(lists[1])
    assert next(iter(lists[0].process_final(state).values())) == 1.0


def test_a_metric_of_ones_own_that_keeps_something_says_that_it_cannot():
    with pytest.raises(ConfigError, match=r"the metric 'longest' cannot .* Longest needs a method merge"):
        Longest().merge(Longest())
    sets = [dm.MetricSet({"n": Stream()}) for _ in range(2)]
    for each in sets:
        each.update({"label": np.zeros(3), "pred": np.zeros(3)})
    with pytest.raises(ConfigError, match=r"the metric 'n', a Stream, cannot take in .* no method merge"):
        sets[0].merge(sets[1])
    Stream.merge = lambda self, other: setattr(self, "n", self.n + other.n)
    try:
        sets[0].merge(sets[1])
    finally:
        del Stream.merge
    assert sets[0].compute()["n"] == 6


def test_an_object_that_two_parts_share_would_count_twice_and_is_refused():
    shared = Stream()
    sets = [dm.MetricSet({"n": shared}) for _ in range(2)]
    for each in sets:
        each.update({"label": np.zeros(3), "pred": np.zeros(3)})
    with pytest.raises(ConfigError, match=r"'n' cannot be merged with the same object"):
        sets[0].merge(sets[1])
    root = dm.MeanAbsoluteError()
    with pytest.raises(ConfigError, match=r"'mae' cannot be merged with itself"):
        dm.MetricList([root]).merge(dm.MetricList([root]))


def test_other_metrics_are_refused():
    with pytest.raises(ConfigError, match=r"\['mae'\] cannot be merged into \['mse'\]"):
        dm.MetricList(["mse"]).merge(dm.MetricList(["mae"]))
    with pytest.raises(ConfigError, match=r"\['b'\] cannot be merged into \['a'\]"):
        dm.MetricSet({"a": len}).merge(dm.MetricSet({"b": len}))
