"""What an output is, logits, probabilities or labels, and where its classes lie: settled once, the same everywhere."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delira.cli.runs import list_runs
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.experiments.result import KFoldResult
from delira.metrics import MetricSet, accuracy, dice, score
from delira.metrics.metric_set import evaluator, in_form
from delira.metrics.tree.criteria import describe_criterion
from delira.report.predictions import classify, reliability
from delira.settings.config import read_settings

sk = pytest.importorskip("sklearn.metrics", reason="the numbers are compared with those of scikit-learn")
sp = pytest.importorskip("scipy.special", reason="softmax and sigmoid are those of scipy")

FIRST = SimpleNamespace(channels_last=False, is_differentiable=True)
LAST = SimpleNamespace(channels_last=True, is_differentiable=True)
macro_f1 = functools.partial(sk.f1_score, average="macro")


def own_loss(prediction, target):
    """A loss of which nobody knows anything."""
    return ((prediction - target) ** 2).mean()


class BCEWithLogitsLoss:
    """Known by its name."""

    def __call__(self, prediction, target):
        """Not called here."""


def computed(metric, pred, true, size, *, backend=FIRST, loss=own_loss, **given_settings):
    """What an experiment computes in a pass."""
    config = read_settings({"losses": {"loss": loss}, **given_settings})
    metrics = MetricSet(config.bound({"metric": metric}, backend=backend))
    for start in range(0, len(pred), size):
        metrics.update({"pred": pred[start : start + size], "label": true[start : start + size]})
    return metrics.compute()["metric"].mean()


def sizes(n):
    return (1, 7, n)


def ece(confidence, right):
    """Guo et al. 2017, in 15 bins, each without its lower edge."""
    total = 0.0
    for low in range(15):
        inside = (confidence > low / 15) & (confidence <= (low + 1) / 15) | ((low == 0) & (confidence == 0))
        if inside.any():
            total += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    return total


# ------------------------------------------------------------------ point 41


def test_losses_of_frameworks_say_what_they_take():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    named = {
        "logits": [
            torch.nn.CrossEntropyLoss(), torch.nn.NLLLoss(), torch.nn.BCEWithLogitsLoss(), functional.cross_entropy,
            functools.partial(functional.cross_entropy, label_smoothing=0.1), torch.nn.MultiLabelSoftMarginLoss(),
            functional.binary_cross_entropy_with_logits, torch.nn.CrossEntropyLoss().forward,
            functools.wraps(functional.cross_entropy)(lambda p, y: functional.cross_entropy(p, y)),
        ],
        "probabilities": [torch.nn.BCELoss(), functional.binary_cross_entropy],
        "numbers": [torch.nn.MSELoss(), torch.nn.L1Loss(), functional.mse_loss],
        None: [own_loss, lambda p, y: functional.cross_entropy(p, y), functools.partial(own_loss), None],
    }  # fmt: skip
    for output, losses in named.items():
        for loss in losses:
            known = describe_criterion(loss)
            assert (known.output, known.told_by) == (output, "values" if output is None else "criterion"), loss


def test_losses_of_keras_say_it_by_from_logits():
    keras = pytest.importorskip("keras")
    for name in ("BinaryCrossentropy", "CategoricalCrossentropy", "SparseCategoricalCrossentropy"):
        for is_logits in (False, True):
            loss = getattr(keras.losses, name)(from_logits=is_logits)
            assert describe_criterion(loss).output == ("logits" if is_logits else "probabilities")
    function = functools.partial(keras.losses.binary_crossentropy, from_logits=True)
    assert describe_criterion(function).output == "logits"


def test_losses_of_optax_say_what_they_take():
    optax, jax = pytest.importorskip("optax"), pytest.importorskip("jax")
    for loss in (optax.softmax_cross_entropy, jax.jit(optax.sigmoid_binary_cross_entropy)):
        assert describe_criterion(loss).output == "logits"


def test_a_loss_of_ones_own_that_is_called_as_another_is_not_taken_for_it():
    def cross_entropy(prediction, target):
        return own_loss(prediction, target)

    known = describe_criterion(cross_entropy)
    assert (known.kind, known.output) == ("categorical", None)


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.integers(8, 40), st.sampled_from(["logits", "probabilities"]))
def test_one_score_is_read_in_one_way_by_every_metric(seed, n, output):
    random = np.random.default_rng(seed)
    true = np.arange(n) % 2
    logits = random.normal(size=n) + true - 0.5
    logits[0], logits[1] = -0.3, 0.2  # some are below 0
    probability = sp.expit(logits)
    pred = logits if output == "logits" else probability
    yes = (probability > 0.5).astype(int)
    expected = {
        "binary_acc": np.mean(yes == true), sk.accuracy_score: np.mean(yes == true), "f1": sk.f1_score(true, yes),
        sk.f1_score: sk.f1_score(true, yes), "mcc": sk.matthews_corrcoef(true, yes),
        "balanced_acc": sk.balanced_accuracy_score(true, yes), sk.log_loss: sk.log_loss(true, probability),
        sk.brier_score_loss: sk.brier_score_loss(true, probability), "ece": ece(probability, true),
        "roc_auc": sk.roc_auc_score(true, probability), "pr_auc": sk.average_precision_score(true, probability),
    }  # fmt: skip
    for metric, value in expected.items():
        for size in sizes(n):
            for shape in ((n,), (n, 1)):
                got = computed(metric, pred.reshape(shape), true.reshape(shape), size)
                assert got == pytest.approx(value), (metric, size)


@settings(max_examples=4)
@given(st.integers(0, 10**6))
def test_what_is_said_goes_before_the_values(seed):
    random = np.random.default_rng(seed)
    true = np.arange(20) % 2
    pred = random.random(20) * 0.98 + 0.01  # from 0 to 1: logits, or probabilities
    for said, cut, probability in (("logits", 0.0, sp.expit(pred)), ("probabilities", 0.5, pred)):
        for how in ({"output": said}, {"output": {"pred": said}}):
            assert computed("binary_acc", pred, true, 7, **how) == pytest.approx(np.mean((pred > cut) == true))
            assert computed(sk.accuracy_score, pred, true, 7, **how) == pytest.approx(np.mean((pred > cut) == true))
            assert computed(sk.log_loss, pred, true, 7, **how) == pytest.approx(sk.log_loss(true, probability))
            assert computed("ece", pred, true, 7, **how) == pytest.approx(ece(probability, true))
    by_loss = computed("binary_acc", pred, true, 7, loss=BCEWithLogitsLoss())
    assert by_loss == pytest.approx(np.mean((pred > 0) == true))


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans())
def test_classes_are_read_in_one_way_one_hot_or_not(seed, n_classes, is_one_hot):
    random = np.random.default_rng(seed)
    n = 30
    labels = np.arange(n) % n_classes
    logits = random.normal(size=(n, n_classes)) * 2 + np.eye(n_classes)[labels]
    probability = sp.softmax(logits, 1)
    true = np.eye(n_classes, dtype=np.float32)[labels] if is_one_hot else labels
    found = logits.argmax(1)
    against_rest = [(labels == c, probability[:, c]) for c in ([1] if n_classes == 2 else range(n_classes))]
    expected = {
        sk.accuracy_score: np.mean(found == labels), macro_f1: macro_f1(labels, found),
        sk.log_loss: sk.log_loss(labels, probability), "ece": ece(probability.max(1), found == labels),
        "cat_acc": np.mean(found == labels), accuracy: np.mean(found == labels),
        "roc_auc": np.mean([sk.roc_auc_score(*each) for each in against_rest]),
        "pr_auc": np.mean([sk.average_precision_score(*each) for each in against_rest]),
        "f1": sk.f1_score(labels, found, average="binary" if n_classes == 2 else "macro"),
    }  # fmt: skip
    for metric, value in expected.items():
        for pred in (logits, probability):
            for size in sizes(n):
                assert computed(metric, pred, true, size) == pytest.approx(value), (metric, size)


@pytest.mark.parametrize("wrong", ["logit", 1, [], {"pred": "sigmoid"}, True])
def test_what_an_output_cannot_be_is_refused_at_the_door(wrong):
    with pytest.raises(ConfigError, match=r"output(\['pred'\])? must be one of 'logits', 'probabilities', 'labels'"):
        read_settings({"losses": {"loss": own_loss}, "output": wrong})


def test_what_is_said_to_be_a_probability_and_is_none_is_refused():
    with pytest.raises(DataError, match=r"they have values from -1 to 2; probabilities go from 0 to 1"):
        computed(sk.log_loss, np.array([-1.0, 2.0]), np.array([0, 1]), 2, output="probabilities")


# ------------------------------------------------------------------ point 42


def test_one_hot_targets_rank_by_the_softmax():
    random = np.random.default_rng(0)
    labels = random.integers(3, size=200)
    logits = random.normal(size=(200, 3)) + np.eye(3)[labels] + random.normal(size=(200, 1)) * 3
    true, probability = np.eye(3)[labels], sp.softmax(logits, 1)
    for metric, function in (("roc_auc", sk.roc_auc_score), ("pr_auc", sk.average_precision_score)):
        expected = np.mean([function(true[:, c], probability[:, c]) for c in range(3)])
        raw = np.mean([function(true[:, c], logits[:, c]) for c in range(3)])
        assert abs(expected - raw) > 0.02
        assert computed(metric, logits, true, 7) == pytest.approx(expected)
        assert computed(metric, logits, labels, 7) == pytest.approx(expected)


def test_labels_that_do_not_exclude_each_other_are_ranked_column_by_column():
    random = np.random.default_rng(0)
    true = (random.random((60, 3)) > 0.5).astype(int)
    logits = random.normal(size=(60, 3)) + true
    for loss in (own_loss, BCEWithLogitsLoss()):
        expected = np.mean([sk.roc_auc_score(true[:, c], logits[:, c]) for c in range(3)])
        assert computed("roc_auc", logits, true, 7, loss=loss) == pytest.approx(expected)
        subset = np.mean(((logits > 0) == true).all(1))
        assert computed(sk.accuracy_score, logits, true, 7, loss=loss) == pytest.approx(subset)
        assert computed("binary_acc", logits, true, 7, loss=loss) == pytest.approx(np.mean((logits > 0) == true))


def test_the_calibration_of_several_labels_at_once_is_refused():
    true = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]])
    with pytest.raises(DataError, match="got 3 labels at once, each with a score of its own"):
        computed("ece", np.full((3, 3), 0.3), true, 3)
    with pytest.raises(DataError, match="got 3 labels at once"):
        computed("ece", np.full((3, 3), 0.3), np.eye(3), 3, loss=BCEWithLogitsLoss())


# ------------------------------------------------------------------ point 40


@settings(max_examples=4)
@given(st.integers(0, 10**6))
def test_sequences_with_as_many_steps_as_classes_are_read_as_the_backend_has_them(seed):
    random = np.random.default_rng(seed)
    true = random.integers(4, size=(10, 4))
    scores = random.normal(size=(10, 4, 4)) + 2 * np.eye(4)[true]  # the classes last
    found, probability = scores.argmax(-1), sp.softmax(scores, -1).reshape(-1, 4)
    expected = {
        accuracy: np.mean(found == true), "cat_acc": np.mean(found == true), sk.accuracy_score: np.mean(found == true),
        macro_f1: macro_f1(true.ravel(), found.ravel()), "mcc": sk.matthews_corrcoef(true.ravel(), found.ravel()),
        sk.log_loss: sk.log_loss(true.ravel(), probability, labels=range(4)),
        "ece": ece(probability.max(1), (found == true).ravel()),
    }  # fmt: skip
    for backend, pred in ((LAST, scores), (FIRST, np.moveaxis(scores, -1, 1))):
        for metric, value in expected.items():
            for size in sizes(10):
                assert computed(metric, pred, true, size, backend=backend) == pytest.approx(value), (metric, backend)


def test_the_other_axis_is_taken_where_only_that_fits():
    random = np.random.default_rng(0)
    true = random.integers(3, size=(10, 5))
    scores = random.normal(size=(10, 3, 5))
    for backend in (FIRST, LAST):
        for metric in (accuracy, "cat_acc", sk.accuracy_score):
            got = computed(metric, scores, true, 7, backend=backend)
            assert got == pytest.approx(np.mean(scores.argmax(1) == true))


def test_masks_have_their_classes_where_the_backend_has_them():
    random = np.random.default_rng(0)
    true = random.integers(4, size=(3, 4, 4))
    scores = np.eye(4)[true] + random.normal(size=(3, 4, 4, 4)) * 0.1
    assert computed(dice, scores, true, 2, backend=LAST) == 1.0
    assert computed(dice, np.moveaxis(scores, -1, 1), true, 2, backend=FIRST) == 1.0


def test_shapes_that_allow_two_readings_are_refused_where_nobody_says_which():
    true, scores = np.zeros((6, 4), int), np.zeros((6, 4, 4))
    for metric in ("cat_acc", "f1", "top_5_acc", sk.accuracy_score, sk.log_loss, "roc_auc"):
        with pytest.raises(DataError, match="may lie on the axis 1 or on the last one"):
            score(in_form(metric), [true, scores])


# ------------------------------------------------------------------ a whole run


class Rows:
    """Splits into two halves."""

    def __init__(self, n_splits=2):
        self.n_splits = n_splits

    def get_n_splits(self, *_):
        """As many as there are."""
        return self.n_splits

    def split(self, x, *_):
        """One part after the other."""
        parts = np.array_split(np.arange(len(x)), self.n_splits)
        for part in parts:
            yield np.setdiff1d(np.arange(len(x)), part), part


def cross_validated(folder, x, y, loss, metrics, n_splits=2, **how):
    """A network that predicts what it is given, cross-validated."""
    torch = pytest.importorskip("torch")
    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchExperiment

    class Same(AbstractPyTorchNetwork):
        """Its only weight counts for nothing."""

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x):
            """What it is given, but not a number while it does not learn where that is above 1,000."""
            given = x + 0 * self.weight
            return {"pred": given if self.training else torch.where(given > 1000, torch.nan, given)}

    training = {"losses": {"loss": loss}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.0}, **how}
    experiment = PyTorchExperiment({"training": training}, Same, name="same", save_path=folder, verbose=False)
    manager = BaseDataManager({"data": x, "label": y}, batch_size=7, n_process_augmentation=0)
    return experiment.kfold(
        manager, metrics, num_epochs=1, num_splits=n_splits, split_type=Rows(n_splits), val_split=None
    )


def test_a_run_has_one_accuracy_on_the_page_in_the_table_and_as_stored(tmp_path):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    x = random.random((40, 1)).astype(np.float32)  # logits from 0 to 1
    y = random.integers(2, size=(40, 1)).astype(np.float32)
    metrics = {"acc": "binary_acc", "ece": "ece", "again": sk.accuracy_score}
    result = cross_validated(tmp_path, x, y, torch.nn.BCEWithLogitsLoss(), metrics)
    stored = KFoldResult.load(tmp_path)
    share, error = np.mean((x > 0) == y), ece(sp.expit(x[:, 0].astype(float)), y[:, 0])
    assert not result.warnings
    assert not stored.warnings
    assert classify(result).is_hit.mean() == pytest.approx(share)
    rows, cases = stored.summary(), classify(stored)
    assert (rows["acc"]["oof"], rows["again"]["oof"], cases.is_hit.mean()) == pytest.approx((share,) * 3)
    assert (rows["ece"]["oof"], reliability(cases).error) == pytest.approx((error,) * 2, rel=1e-5)


def test_values_of_all_folds_settle_it_and_a_fold_that_looked_otherwise_is_computed_again(tmp_path):
    random = np.random.default_rng(0)
    y = random.integers(2, size=40).astype(np.float32)
    x = np.concatenate([random.uniform(0.1, 0.4, size=20), random.normal(size=20)]).astype(np.float32)
    metrics = {"acc": "binary_acc", "f1": sk.f1_score}
    result = cross_validated(tmp_path, x, y, own_loss, metrics)
    yes = x > 0  # the first fold alone looks like probabilities, all of which say no
    (listed,) = list_runs(tmp_path).content["runs"]
    of_folds = [np.mean(yes[part] == y[part]) for part in (slice(20), slice(20, 40))]
    assert listed["score"]["value"] == pytest.approx(np.mean(of_folds))
    for one in (result, KFoldResult.load(tmp_path)):
        first, second = (fold.metrics for fold in one.folds)
        assert first["acc"] == pytest.approx(np.mean(yes[:20] == y[:20]))
        assert first["f1"] == pytest.approx(sk.f1_score(y[:20], yes[:20]))
        assert second["acc"] == pytest.approx(np.mean(yes[20:] == y[20:]))
        assert classify(one).is_hit.mean() == pytest.approx(np.mean(yes == y))
        assert evaluator(one.metrics["acc"])(y[:20], x[:20]) == pytest.approx(np.mean(yes[:20] == y[:20]))  # a draw
        (caveat,) = (text for text in one.warnings if text.startswith("nothing says"))
        assert "nothing says what the output 'pred' is" in caveat
        assert "read as logits, because it has values below 0 or above 1" in caveat
        assert caveat in str(one)


def test_what_the_user_said_is_no_caveat(tmp_path):
    x = np.linspace(0.1, 0.9, 20).astype(np.float32)
    y = (np.arange(20) % 2).astype(np.float32)
    result = cross_validated(tmp_path, x, y, own_loss, {"acc": "binary_acc"}, output="logits")
    assert result.warnings == []
    assert [fold.metrics["acc"].item() for fold in result.folds] == [0.5, 0.5]
    assert classify(result).is_hit.mean() == 0.5
    assert classify(result).predicted.all()


def test_cases_whose_predictions_are_not_finite_are_named_and_no_fold_hides_them(tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=(24, 3)).astype(np.float32)
    y = np.arange(24) % 3
    x[5, 1] = x[17, 0] = 2000

    def own_accuracy(y_true, y_pred):
        return float(np.mean(y_pred.argmax(1) == y_true))

    torch = pytest.importorskip("torch")
    metrics = {"acc": accuracy, "f1": "f1", "own": own_accuracy}
    result = cross_validated(tmp_path / "a", x, y, torch.nn.CrossEntropyLoss(), metrics)
    for one in (result, KFoldResult.load(tmp_path / "a")):
        assert all(np.isnan(fold.metrics["acc"]) and np.isnan(fold.metrics["f1"]) for fold in one.folds)
        (caveat,) = (text for text in one.warnings if "not finite" in text)
        assert "the predictions 'pred' of 2 cases are not finite (index in the data set: 5, 17)" in caveat
        assert "are not finite (index in the data set: 5, 17)" in one.to_html()
    with pytest.raises(DataError, match=r"predictions of 1 case are not finite \(index in the data: 5\)"):
        cross_validated(tmp_path / "b", x, y, torch.nn.CrossEntropyLoss(), metrics, nonfinite_predictions="raise")


def test_an_epoch_whose_score_is_no_number_is_never_the_best():
    from delira.training import BaseNetworkTrainer

    better = BaseNetworkTrainer._is_better_val_scores
    for mode in ("lowest", "highest"):
        assert not better(0.5, float("nan"), mode)
        assert not better(None, float("nan"), mode)


def test_the_average_over_classes_is_that_of_the_whole_data_set(tmp_path):
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    from sklearn.linear_model import LogisticRegression

    from delira.training import SklearnExperiment

    random = np.random.default_rng(0)
    y = np.array([0, 1] * 12 + [0, 1, 2] * 8)  # the first half lacks class 2
    x = 0.2 * random.normal(size=(48, 3)) + 3 * np.eye(3)[y]
    x[[0, 4]] = x[1]  # two mistakes, both of class 0
    experiment = SklearnExperiment.of(LogisticRegression(), "average", tmp_path, verbose=False)
    manager = BaseDataManager({"data": x, "label": y}, batch_size=48, n_process_augmentation=0)
    metrics = {name: name for name in ("f1", "precision", "recall")}
    keys = dict.fromkeys(metrics, ("label", "label_pred"))
    result = experiment.kfold(
        manager, metrics, num_epochs=1, num_splits=2, split_type=Rows(), metric_keys=keys, val_split=None
    )
    for fold in result.folds:
        true, pred = fold.targets["label"], fold.predictions["label_pred"]
        for name, function in (("f1", sk.f1_score), ("precision", sk.precision_score), ("recall", sk.recall_score)):
            assert fold.metrics[name] == pytest.approx(function(true, pred, average="macro", zero_division=0)), name
    assert {*result.folds[0].predictions["label_pred"].tolist()} == {0, 1}


@pytest.mark.parametrize("is_outside", [True, False])
def test_what_an_estimator_predicts_for_yes_and_no_is_a_number_and_no_logit(tmp_path, is_outside):
    linear_model = pytest.importorskip("sklearn.linear_model")
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    from delira.training import SklearnExperiment

    random = np.random.default_rng(0)
    x = random.normal(size=(40, 2)) if is_outside else random.normal(size=(40, 2)).clip(-0.1, 0.1)
    y = (x[:, 0] + random.normal(scale=0.3, size=40) > 0.4 * x.max()).astype(float)
    experiment = SklearnExperiment.of(linear_model.LinearRegression(), "numbers", tmp_path, verbose=False)
    manager = BaseDataManager({"data": x, "label": y}, batch_size=40, n_process_augmentation=0)
    metrics = {"acc": "binary_acc", "f1": sk.f1_score, "again": sk.accuracy_score}
    result = experiment.kfold(manager, metrics, num_epochs=1, num_splits=2, split_type=Rows(2), val_split=None)
    for one in (result, KFoldResult.load(tmp_path)):
        for fold in one.folds:
            true, pred = fold.targets["label"], fold.predictions["pred"].astype(float)
            assert bool((pred < 0).any() or (pred > 1).any()) == is_outside
            assert fold.metrics["f1"] == pytest.approx(sk.f1_score(true, pred > 0.5))
            assert [fold.metrics[name].item() for name in ("acc", "again")] == [np.mean((pred > 0.5) == true)] * 2
        pred = np.concatenate([fold.predictions["pred"] for fold in one.folds])
        assert classify(one).is_hit.mean() == pytest.approx(np.mean((pred > 0.5) == y))
        assert not [text for text in one.warnings if "nothing says" in text]


def test_a_matrix_of_pycm_reads_outputs_as_metrics_do(caplog):
    torch = pytest.importorskip("torch")
    pytest.importorskip("pycm")
    import delira
    from delira.training.callbacks import PyCM

    x = torch.tensor([[-1.5], [-0.2], [0.3], [0.4], [2.0], [-0.6], [0.2]])
    y = torch.tensor([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0], [1.0]])
    model, found = torch.nn.Linear(1, 1, bias=False), []
    torch.nn.init.ones_(model.weight)
    keep = PyCM().with_handler(lambda matrix, state: found.append(matrix.matrix))
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    trial = delira.Trial(model, optimizer, own_loss, callbacks=[keep], verbose=0)
    with caplog.at_level("WARNING", logger="delira"):
        trial.with_train_data(x, y, 7).with_val_data(x, y, 3, shuffle=False).run(2)
    table = sk.confusion_matrix(y[:, 0] > 0, x[:, 0] > 0)  # the values say that they are logits
    assert found == [{0: dict(enumerate(table[0])), 1: dict(enumerate(table[1]))}] * 2
    said = [record.getMessage() for record in caplog.records if "PyCM takes them for" in record.getMessage()]
    assert len(said) == 1
    assert "PyCM takes them for logits" in said[0]


@pytest.mark.parametrize(
    ("name", "settings", "output", "is_of_each"),
    [
        ("DiceLoss", {"softmax": True}, "logits", False),
        ("DiceLoss", {"sigmoid": True}, "logits", True),
        ("DiceLoss", {}, None, False),
        ("DiceCELoss", {"softmax": True, "to_onehot_y": True}, "logits", False),
        ("DiceFocalLoss", {"sigmoid": True}, "logits", True),
        ("GeneralizedDiceFocalLoss", {"softmax": True}, "logits", False),
        ("TverskyLoss", {"softmax": True}, "logits", False),
        ("FocalLoss", {}, "logits", True),
        ("FocalLoss", {"use_softmax": True}, "logits", False),
    ],
)
def test_losses_of_monai_say_what_predictions_are(name, settings, output, is_of_each):
    losses = pytest.importorskip("monai.losses")
    known = describe_criterion(getattr(losses, name)(**settings))
    assert (known.output, known.is_of_each, known.is_exclusive) == (output, is_of_each, False)
