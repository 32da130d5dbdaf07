"""Functions of scikit-learn, objects of torchmetrics and metrics of trials, as they are, in Trial and in Experiment."""

import copy
import functools
import importlib
import inspect
import pickle

import numpy as np
import pytest
import sklearn.metrics as sk
from scipy.special import expit, softmax
from tree_loop import BCEWithLogitsLoss, CrossEntropyLoss, one_pass, split

import delira
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.io.container import read_tree, write_tree
from delira.metrics import FBeta, Hausdorff, MetricSet, kind_of, known_keys, lambda_metric, mean, per_sample, score, std
from delira.metrics.metric_set import SklearnFunction, TreeMetric, evaluator, in_form
from delira.settings.config import TrainerConfig
from delira.state import LOSS, state_key

N = 70
GENERATOR = np.random.default_rng(8)
LABELS = {2: GENERATOR.integers(2, size=N), 3: GENERATOR.integers(3, size=N)}
#: scores of which about two thirds are right
SCORES = {n: (GENERATOR.normal(size=(N, n)) + 1.5 * np.eye(n)[LABELS[n]]).astype(np.float32) for n in LABELS}
NUMBERS = GENERATOR.gamma(2.0, size=(N,))
NEAR = (NUMBERS * GENERATOR.uniform(0.7, 1.3, size=N)).astype(np.float32)


def of_set(metric, pred, true, criterion=None, name="metric"):
    """What a metric set says, of ragged batches."""
    metrics = MetricSet({name: in_form(metric, name, criterion)})
    for batch, target in split(np.array, pred, true):
        metrics.update({"pred": batch, "label": target})
    return metrics.compute()[name].item()


def of_list(metric, pred, true, criterion=None):
    """What a trial reports."""
    _, final = one_pass([metric], split(np.array, pred, true), is_training=False, criterion=criterion)
    assert len(final) == 1
    return next(iter(final.values()))


# ------------------------------------------------------------------ every function of scikit-learn

SECOND = ("y_pred", "labels_pred", "y2", "y_score", "y_proba", "y_prob", "pred_decision")
SKIPPED = {
    "classification_report": "a text",
    "confusion_matrix_at_thresholds": "a curve",
    "det_curve": "a curve",
    "metric_at_thresholds": "a curve",
    "precision_recall_curve": "a curve",
    "roc_curve": "a curve",
}


def functions():
    for name in sk.__all__:
        function = getattr(sk, name)
        parameters = list(inspect.signature(function).parameters) if inspect.isfunction(function) else []
        if len(parameters) > 1 and parameters[1] in SECOND and name not in SKIPPED:
            yield name


EVERY = sorted(functions())
OF_NUMBERS = [name for name in EVERY if getattr(sk, name).__module__.endswith("_regression")]
OF_LABELS = [
    name
    for name in EVERY
    if name not in OF_NUMBERS
    and list(inspect.signature(getattr(sk, name)).parameters)[1] in ("y_pred", "labels_pred", "y2")
]
OF_SCORES = [name for name in EVERY if name not in {*OF_NUMBERS, *OF_LABELS}]
RANKED = {"coverage_error", "dcg_score", "label_ranking_average_precision_score", "label_ranking_loss", "ndcg_score"}
AVERAGED = ("f1_score", "fbeta_score", "jaccard_score", "precision_score", "recall_score")


def settings_of(name, n_classes):
    settings = {"beta": 2.0} if name == "fbeta_score" else {}
    return {**settings, "average": "macro"} if n_classes > 2 and name in AVERAGED else settings


def asked(name, n_classes):
    """The function as a user gives it."""
    settings = settings_of(name, n_classes)
    if name == "top_k_accuracy_score":
        settings["k"] = n_classes - 1
    return functools.partial(getattr(sk, name), **settings) if settings else getattr(sk, name)


def directly(name, n_classes):
    """What the function says of what its documentation asks for."""
    function, true, scores = asked(name, n_classes), LABELS[n_classes], SCORES[n_classes].astype(float)
    if name in OF_LABELS:
        return function(true, scores.argmax(1))
    if name in RANKED:
        return function(np.eye(n_classes)[true], scores)
    if name == "hinge_loss":
        return function(true, scores[:, 1] - scores[:, 0] if n_classes == 2 else scores)
    if n_classes == 2:
        return function(true, softmax(scores, axis=1)[:, 1])
    if name == "roc_auc_score":
        return function(true, softmax(scores, axis=1), multi_class="ovr")
    return function(true, scores if name in ("average_precision_score", "top_k_accuracy_score") else softmax(scores, 1))


def compare(found, expected):
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=1e-5, atol=1e-7)


def test_the_lists_of_this_page_are_long():
    assert len(OF_LABELS) >= 24
    assert len(OF_SCORES) >= 12
    assert len(OF_NUMBERS) >= 16


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", OF_LABELS + OF_SCORES)
def test_a_function_of_scikit_learn_gives_the_same_in_both(name, n_classes):
    if n_classes > 2 and name == "class_likelihood_ratios":
        pytest.skip("scikit-learn has it for two classes")
    takes_labels = "labels" in inspect.signature(getattr(sk, name)).parameters
    if n_classes > 2 and name in ("brier_score_loss", "d2_brier_score") and not takes_labels:
        pytest.skip("this version of scikit-learn has it for two classes")
    expected, scores, labels = directly(name, n_classes), SCORES[n_classes], LABELS[n_classes]
    compare(of_list(asked(name, n_classes), scores, labels), expected)
    if np.ndim(expected):
        with pytest.raises(DataError, match="a metric is one number"):
            of_set(asked(name, n_classes), scores, labels)
    else:
        compare(of_set(asked(name, n_classes), scores, labels), expected)


@pytest.mark.parametrize("shape", [(N,), (N, 1), (10, 7), (10, 1, 7)])
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_a_function_of_numbers_gives_the_same_in_both(name, shape):
    expected = getattr(sk, name)(NUMBERS, NEAR.astype(float))
    if len(shape) == 2 and shape[1] > 1:  # several outputs: a mean over them
        if name in ("max_error", "mean_gamma_deviance", "mean_poisson_deviance", "mean_tweedie_deviance"):
            pytest.skip("scikit-learn has it for one output")
        try:
            expected = getattr(sk, name)(NUMBERS.reshape(shape), NEAR.reshape(shape).astype(float))
        except ValueError:
            pytest.skip("scikit-learn has it for one output")
    pred, true = NEAR.reshape(shape), NUMBERS.reshape(shape)
    compare(of_list(getattr(sk, name), pred, true), expected)
    compare(of_set(getattr(sk, name), pred, true), expected)


@pytest.mark.parametrize("name", ["roc_auc_score", "average_precision_score", "log_loss", "brier_score_loss"])
@pytest.mark.parametrize("shape", [(N,), (N, 1)])
def test_single_scores_of_two_classes_are_logits_if_the_criterion_says_so(name, shape):
    logits = SCORES[2][:, 1] - SCORES[2][:, 0]
    expected = getattr(sk, name)(LABELS[2], expit(logits.astype(float)))
    for found in (of_set, of_list):
        compare(found(getattr(sk, name), logits.reshape(shape), LABELS[2], BCEWithLogitsLoss()), expected)
        compare(found(getattr(sk, name), expit(logits).reshape(shape), LABELS[2]), expected)


def test_a_threshold_follows_the_criterion():
    logits = np.linspace(-1, 1, N, dtype=np.float32)[:, None]
    for criterion, scores, threshold in (
        (BCEWithLogitsLoss(), logits, 0.0),
        (BCEWithLogitsLoss(), abs(logits), 0.0),
        (None, logits, 0.0),  # below 0 there are no probabilities
        (None, abs(logits), 0.5),
    ):
        expected = sk.f1_score(LABELS[2], scores[:, 0] > threshold)
        for metric in (sk.f1_score, "f1", FBeta(1), FBeta):
            assert of_set(metric, scores, LABELS[2], criterion) == pytest.approx(expected)
            assert of_list(metric, scores, LABELS[2], criterion) == pytest.approx(expected)


def test_very_unlikely_classes_keep_their_order():
    small = 10.0 ** -GENERATOR.uniform(18, 30, size=N)  # 1 - p is 1
    probabilities = np.stack([1 - small, small], 1)
    for name in ("roc_auc_score", "average_precision_score"):
        expected = getattr(sk, name)(LABELS[2], small)
        assert of_set(getattr(sk, name), probabilities, LABELS[2]) == expected
        assert of_list(getattr(sk, name), probabilities, LABELS[2]) == expected


def test_masks_are_compared_pixel_by_pixel():
    true = GENERATOR.integers(3, size=(20, 4, 5))
    scores = (GENERATOR.normal(size=(20, 3, 4, 5)) + np.moveaxis(np.eye(3)[true], -1, 1)).astype(np.float32)
    expected = sk.f1_score(true.ravel(), scores.argmax(1).ravel(), average="macro")
    macro = functools.partial(sk.f1_score, average="macro")
    assert of_set(macro, scores, true) == pytest.approx(expected)
    assert of_list(macro, scores, true) == pytest.approx(expected)
    assert of_set(macro, scores.argmax(1), true) == pytest.approx(expected)  # masks as predictions


def test_targets_that_the_criterion_does_not_count_are_left_out():
    criterion = CrossEntropyLoss()
    criterion.ignore_index = 255
    true = np.where(np.arange(N) % 4, LABELS[3], 255)
    counts = true != 255
    macro = functools.partial(sk.f1_score, average="macro")
    expected = {
        macro: macro(true[counts], SCORES[3][counts].argmax(1)),
        sk.log_loss: sk.log_loss(true[counts], softmax(SCORES[3][counts].astype(float), 1)),
    }
    for metric, value in expected.items():
        compare(of_set(metric, SCORES[3], true, criterion), value)
        compare(of_list(metric, SCORES[3], true, criterion), value)


def test_one_hot_targets_of_a_cross_entropy_are_classes():
    one_hot = np.eye(3, dtype=np.float32)[LABELS[3]]
    for name in ("accuracy_score", "log_loss", "roc_auc_score"):
        compare(of_set(getattr(sk, name), SCORES[3], one_hot, CrossEntropyLoss()), directly(name, 3))
        compare(of_list(getattr(sk, name), SCORES[3], one_hot, CrossEntropyLoss()), directly(name, 3))


# ------------------------------------------------------------------ what worked before


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32, np.float64, bool])
def test_predictions_that_are_labels_are_handed_on(dtype):
    pred, true = SCORES[2].argmax(1).astype(dtype), LABELS[2]
    assert of_set(sk.f1_score, pred, true) == sk.f1_score(true, pred)
    assert of_set(sk.f1_score, pred[:, None], true) == sk.f1_score(true, pred)


def test_float_labels_beyond_1_are_no_probabilities():
    pred = SCORES[3].argmax(1).astype(float)
    macro = functools.partial(sk.f1_score, average="macro")
    assert of_set(macro, pred, LABELS[3].astype(float)) == macro(LABELS[3], pred)


def test_scores_that_are_whole_numbers_are_scores():
    scores = np.round(4 * SCORES[3])
    for found in (of_set, of_list):
        assert found(sk.accuracy_score, scores, LABELS[3]) == sk.accuracy_score(LABELS[3], scores.argmax(1))


def test_texts_are_labels():
    names = np.array(["cat", "dog", "hen"])
    true, pred = names[LABELS[3]], names[SCORES[3].argmax(1)]
    assert of_set(sk.accuracy_score, pred, true) == sk.accuracy_score(true, pred)
    probabilities = softmax(SCORES[3].astype(float), 1)
    assert of_set(sk.log_loss, probabilities, true) == pytest.approx(sk.log_loss(true, probabilities))
    compare(of_set(sk.label_ranking_loss, probabilities, true), directly("label_ranking_loss", 3))


def test_tables_of_yes_and_no_stay_tables():
    true, pred = GENERATOR.integers(2, size=(2, N, 3))
    macro = functools.partial(sk.f1_score, average="macro")
    assert of_set(macro, pred, true) == macro(true, pred)
    assert of_set(macro, pred.astype(np.float32), true) == macro(true, pred)
    scores = GENERATOR.random((N, 3))
    assert of_set(macro, scores, true) == macro(true, scores > 0.5)
    assert of_set(sk.label_ranking_loss, scores, true) == sk.label_ranking_loss(true, scores)


def test_labels_from_1_are_classes_of_columns_in_their_order():
    true, probabilities = LABELS[3] + 1, softmax(SCORES[3].astype(float), 1)
    compare(of_set(sk.log_loss, probabilities, true), directly("log_loss", 3))
    compare(of_set(sk.roc_auc_score, probabilities, true), directly("roc_auc_score", 3))


def test_functions_that_compare_something_else_are_called_as_ever():
    points = GENERATOR.normal(size=(N, 2))
    found = MetricSet({"silhouette": sk.silhouette_score}, {"silhouette": ("pred", "label")})
    found.update({"pred": points, "label": LABELS[3]})
    assert found.compute()["silhouette"].item() == pytest.approx(sk.silhouette_score(points, LABELS[3]))
    assert not isinstance(in_form(sk.silhouette_score), SklearnFunction)


def test_own_functions_and_metrics_of_samples_stay_what_they_are():
    def own(y_true, y_pred):
        return 0.5

    @functools.wraps(sk.f1_score)
    def of_scores(y_true, y_pred):
        return sk.f1_score(y_true, y_pred.argmax(1))

    for metric in (own, per_sample(sk.mean_squared_error), functools.partial(own), of_scores):
        assert in_form(metric) is metric
    assert of_set(of_scores, SCORES[2], LABELS[2]) == directly("f1_score", 2)
    expected = np.mean((NUMBERS - NEAR) ** 2)
    assert of_list(per_sample(lambda y_true, y_pred: (y_true - y_pred) ** 2), NEAR, NUMBERS) == pytest.approx(expected)
    single = per_sample(sk.mean_squared_error)
    assert of_list(single, NEAR[:, None], NUMBERS[:, None]) == pytest.approx(expected)


# ------------------------------------------------------------------ what is refused


def test_texts_and_scores_name_the_way_out():
    names = np.array(["cat", "dog", "hen"])[LABELS[3]]
    for metric in (sk.accuracy_score, "cat_acc"):
        with pytest.raises(DataError, match="compare them with predicted labels"):
            of_set(metric, SCORES[3], names)


@pytest.mark.parametrize("shift", [1, -1])
def test_labels_that_are_no_columns_are_refused_where_scores_are_argmaxed(shift):
    for found in (of_set, of_list):
        with pytest.raises(DataError, match=r"got the target (3|-1) in sample \d+, which is none of the 3 classes"):
            found(sk.accuracy_score, SCORES[3], LABELS[3] + shift)


def test_unknown_strings_are_refused_with_a_guess():
    with pytest.raises(ConfigError, match=r"there is no metric 'ms'; did you mean 'mse'\?"):
        MetricSet({"error": "ms"})


@pytest.mark.parametrize("metric", ["loss", "lr", "epoch", LOSS, state_key("unused")])
def test_what_only_a_trial_has_is_refused(metric):
    with pytest.raises(ConfigError, match="reads the state of a trial"):
        MetricSet({"metric": metric})


def test_several_values_need_the_name_of_one():
    @mean
    @std
    @lambda_metric("distance")
    def distance(y_pred, y_true):
        return abs(y_pred.argmax(1) - y_true)

    values = abs(SCORES[3].argmax(1) - LABELS[3])
    assert of_set(distance, SCORES[3], LABELS[3], name="distance") == pytest.approx(values.mean())
    assert of_set(distance, SCORES[3], LABELS[3], name="distance_std") == pytest.approx(values.std(ddof=1))
    with pytest.raises(DataError, match=r"has the values \['distance_std', 'distance'\].*call it what the one"):
        of_set(distance, SCORES[3], LABELS[3], name="other")


# ------------------------------------------------------------------ the metrics of trials

MASKS = GENERATOR.integers(2, size=(8, 6, 6))


@pytest.mark.parametrize("key", sorted({*known_keys()} - {"loss", "lr", "epoch", "confusion_matrix"}))
def test_a_string_is_the_same_in_both(key):
    metric = delira.metrics.tree.hanging._DEFAULTS[key][0]
    if not getattr(metric, "__module__", "").startswith("delira."):
        pytest.skip("of another test")
    pred, true, criterion = SCORES[3], LABELS[3], CrossEntropyLoss()
    if key in ("dice", "iou", "hausdorff"):
        pred, true = (MASKS + GENERATOR.normal(size=MASKS.shape)).astype(np.float32), MASKS
        criterion = BCEWithLogitsLoss()
    elif key in ("mae", "mse", "rmse", "r2"):
        pred, true = NEAR, NUMBERS.astype(np.float32)
    elif key in ("binary_acc", "binary_accuracy"):
        pred, true = SCORES[2][:, 1], LABELS[2]
    assert of_set(key, pred, true, criterion) == pytest.approx(of_list(key, pred, true, criterion), nan_ok=True)
    assert kind_of(in_form(key, criterion=criterion)) == "stream"


def test_a_matrix_is_no_number():
    with pytest.raises(DataError, match="'metric' returned a list, but a metric is one number"):
        of_set("confusion_matrix", SCORES[3], LABELS[3])


def test_functions_of_predictions_and_targets_get_arrays_of_numpy():
    given = []

    @lambda_metric("right", on_epoch=True)
    def right(y_pred, y_true):
        given.append(type(y_pred))
        return (y_pred.argmax(1) == y_true).mean()

    assert of_set(right, SCORES[3], LABELS[3]) == pytest.approx(sk.accuracy_score(LABELS[3], SCORES[3].argmax(1)))
    assert set(given) == {np.ndarray}


@pytest.mark.parametrize("metric", ["f1", "roc_auc", "mse", sk.f1_score], ids=["f1", "roc_auc", "mse", "f1_score"])
def test_a_set_goes_on_from_its_state_in_a_file(metric, tmp_path):
    pred, true = (NEAR, NUMBERS) if metric == "mse" else (SCORES[2], LABELS[2])
    batches = split(np.array, pred, true)
    whole, first, second = (MetricSet({"metric": metric}) for _ in range(3))
    for position, (batch, target) in enumerate(batches):
        whole.update({"pred": batch, "label": target})
        if position == 3:
            assert first.is_storable
            with open(tmp_path / "state", "wb") as file:
                write_tree(file, first.state_dict())
            second.load_state_dict(read_tree(tmp_path / "state"))
        (first if position < 3 else second).update({"pred": batch, "label": target})
    assert second.compute() == whole.compute()


def test_what_is_in_form_can_be_copied_and_pickled():
    for metric in (sk.f1_score, "f1", "acc"):
        formed = in_form(metric, "metric", CrossEntropyLoss())
        for other in (copy.deepcopy(formed), pickle.loads(pickle.dumps(formed))):
            scores = functools.partial(score, arrays=[LABELS[2], SCORES[2]])
            assert scores(other) == scores(formed)


def test_a_set_can_be_used_again():
    metrics = MetricSet({"f1": "f1", "accuracy": sk.accuracy_score})
    for _ in range(2):
        metrics.reset()
        metrics.update({"pred": SCORES[2], "label": LABELS[2]})
        assert metrics.compute()["f1"].item() == pytest.approx(sk.f1_score(LABELS[2], SCORES[2].argmax(1)))


# ------------------------------------------------------------------ the losses say what predictions are


def test_the_accuracy_is_chosen_by_the_loss_of_the_prediction():
    config = {"loss_keys": {"count": ("count", "n")}, "metric_keys": {"counted": ("n", "count")}}
    losses = {"ce": CrossEntropyLoss(), "count": type("MSELoss", (), {"__call__": lambda *args: 0})()}
    losses["ce"].__class__.__call__ = lambda *args: 0
    settings = TrainerConfig(losses=losses, val_metrics={"acc": "acc", "counted": "acc"}, **config)
    roots = {name: metric.metrics.trees[0].root for name, metric in settings.bound(settings.epoch_metrics).items()}
    assert {name: type(root.delegate.root).__name__ for name, root in roots.items()} == {
        "acc": "CategoricalAccuracy",
        "counted": "MeanSquaredError",
    }


def test_two_losses_of_one_prediction_choose_nothing():
    losses = {name: lambda pred, label: 0 for name in ("first", "second")}
    with pytest.raises(ConfigError, match="name the one you mean: 'cat_acc', 'binary_acc'"):
        TrainerConfig(losses=losses, val_metrics={"acc": "acc"})


@pytest.mark.parametrize("setting", ["losses", "train_metrics"])
def test_strings_are_no_losses_and_no_metrics_of_steps(setting):
    with pytest.raises(ConfigError, match="is a str, which cannot be called"):
        TrainerConfig(**{setting: {"f1": "f1"}})


# ------------------------------------------------------------------ torchmetrics


def torchmetrics_cases():
    probabilities = softmax(SCORES[3].astype(np.float64), 1).astype(np.float32)
    images = GENERATOR.random((20, 1, 16, 16)).astype(np.float32)
    noisy = np.clip(images + GENERATOR.normal(scale=0.1, size=images.shape), 0, 1).astype(np.float32)
    masks = GENERATOR.integers(3, size=(20, 8, 8))
    other = np.where(GENERATOR.random(masks.shape) < 0.8, masks, 0)
    positive = SCORES[2][:, 1] - SCORES[2][:, 0]
    right = SCORES[3].argmax(1)
    return {
        "classification.MulticlassF1Score": ({"num_classes": 3}, SCORES[3], LABELS[3],
                                             sk.f1_score(LABELS[3], right, average="macro")),
        "classification.BinaryAUROC": ({}, positive, LABELS[2], sk.roc_auc_score(LABELS[2], positive)),
        "classification.MulticlassCohenKappa": ({"num_classes": 3}, SCORES[3], LABELS[3],
                                                sk.cohen_kappa_score(LABELS[3], right)),
        "classification.MulticlassAUROC": ({"num_classes": 3}, probabilities, LABELS[3],
                                           sk.roc_auc_score(LABELS[3], softmax(SCORES[3], 1), multi_class="ovr")),
        "regression.MeanSquaredError": ({}, NEAR, NUMBERS.astype(np.float32), sk.mean_squared_error(NUMBERS, NEAR)),
        "regression.R2Score": ({}, NEAR, NUMBERS.astype(np.float32), sk.r2_score(NUMBERS, NEAR)),
        "segmentation.MeanIoU": ({"num_classes": 3, "input_format": "index", "per_class": False}, other, masks,
                                 np.mean([sk.jaccard_score(t.ravel(), p.ravel(), average="macro", labels=[0, 1, 2])
                                          for t, p in zip(masks, other, strict=True)])),
        "image.PeakSignalNoiseRatio": ({"data_range": 1.0}, noisy, images,
                                       10 * np.log10(1 / np.mean((noisy.astype(float) - images) ** 2))),
        "aggregation.MeanMetric": ({}, NEAR, NUMBERS, NEAR.astype(float).mean()),
        "aggregation.MaxMetric": ({}, NEAR, NUMBERS, NEAR.max()),
        "aggregation.SumMetric": ({}, NEAR, NUMBERS, NEAR.astype(float).sum()),
    }  # fmt: skip


CASES = torchmetrics_cases()


def made(name, **settings):
    torchmetrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    module, _, cls = name.partition(".")
    return getattr(importlib.import_module(f"{torchmetrics.__name__}.{module}"), cls)(**settings)


@pytest.mark.parametrize("name", CASES)
def test_an_object_of_torchmetrics_gives_the_same_in_both(name):
    settings, pred, true, expected = CASES[name]
    assert of_set(made(name, **settings), pred, true) == pytest.approx(expected, rel=1e-4)
    assert of_list(made(name, **settings), pred, true) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", [name for name, (settings, *_) in CASES.items() if not settings])
def test_a_class_of_torchmetrics_is_made(name):
    _, pred, true, expected = CASES[name]
    cls = type(made(name))
    assert of_set(cls, pred, true) == pytest.approx(expected, rel=1e-4)
    assert of_list(cls, pred, true) == pytest.approx(expected, rel=1e-4)
    assert kind_of(cls) == "stream"


def test_a_class_of_torchmetrics_that_needs_arguments_is_refused():
    cls = type(made("classification.MulticlassF1Score", num_classes=3))
    for found in (of_set, of_list):
        with pytest.raises(ConfigError, match=r"pass an object, MulticlassF1Score\(...\)"):
            found(cls, SCORES[3], LABELS[3])


def test_of_a_collection_the_one_with_the_name_counts():
    torchmetrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    parts = {
        "recall": torchmetrics.classification.BinaryRecall(),
        "precision": torchmetrics.classification.BinaryPrecision(),
    }
    pred = expit(SCORES[2][:, 1])
    for name, function in (("recall", sk.recall_score), ("precision", sk.precision_score)):
        found = of_set(torchmetrics.MetricCollection(parts), pred, LABELS[2], name=name)
        assert found == pytest.approx(function(LABELS[2], pred > 0.5))


# ------------------------------------------------------------------ experiments


def torch_parts():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    net = torch.nn.Linear(4, 3)
    return net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.CrossEntropyLoss()


def tensorflow_parts():
    pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow', not installed")
    import keras

    net = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    return net, keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def jax_parts():
    nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package 'flax', which is not installed")
    import optax

    def cross_entropy(prediction, target):
        return optax.softmax_cross_entropy_with_integer_labels(prediction, target).mean()

    return nnx.Linear(4, 3, rngs=nnx.Rngs(0)), optax.sgd(0.1), cross_entropy


def sklearn_parts():
    pytest.importorskip("skops", reason="the checkpoints of the sklearn backend need the package 'skops'")
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(), None, None


def manager():
    data = GENERATOR.normal(size=(48, 4)).astype(np.float32)
    return BaseDataManager({"data": data, "label": np.arange(48) % 3}, 10)


macro_f1 = functools.partial(sk.f1_score, average="macro")
METRICS = {
    "f1": macro_f1,
    "auc": sk.roc_auc_score,
    "nll": sk.log_loss,
    "kappa": "cohen_kappa",
    "cat_acc": "cat_acc",
    "balanced": delira.metrics.BalancedAccuracy,
}


def expected_of(label, pred):
    probabilities = pred if np.allclose(pred.sum(1), 1) and (pred >= 0).all() else softmax(pred.astype(float), 1)
    return {
        "f1": macro_f1(label, pred.argmax(1)),
        "auc": sk.roc_auc_score(label, probabilities, multi_class="ovr"),
        "nll": sk.log_loss(label, probabilities),
        "kappa": sk.cohen_kappa_score(label, pred.argmax(1)),
        "cat_acc": sk.accuracy_score(label, pred.argmax(1)),
        "balanced": sk.balanced_accuracy_score(label, pred.argmax(1)),
    }


@pytest.mark.slow_cases("tensorflow|jax")
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, when it copies a model
@pytest.mark.parametrize("parts", [torch_parts, tensorflow_parts, jax_parts, sklearn_parts])
def test_every_backend_computes_them_in_training_validation_folds_and_intervals(parts, tmp_path):
    trial = delira.Trial(*parts(), seed=0, verbose=0)
    of_training = {"over_epoch": sk.accuracy_score, "mcc": "mcc"}
    experiment = trial.to_experiment(
        "any", tmp_path, val_metrics=METRICS, metrics=of_training, num_epochs=1, verbose=False, save_freq=None
    )
    result = experiment.kfold(manager(), num_splits=3, shuffle=True, split_type="stratified", val_split=0.3)
    assert {*METRICS, "over_epoch", "mcc"} <= result.folds[0].metrics.keys()
    for fold in result.folds:
        label, pred = fold.targets["label"], fold.predictions["pred"]
        for name, value in expected_of(label, pred).items():
            assert fold.metrics[name].item() == pytest.approx(value, rel=1e-5), name
        record = fold.history[0]
        assert {"over_epoch", "mcc", "val_f1", "val_kappa", "val_over_epoch"} <= record.keys()


def test_values_over_all_folds_have_intervals(tmp_path):
    """Two cheap metrics: each is evaluated 2,000 times."""
    trial = delira.Trial(*torch_parts(), seed=0, verbose=0)
    experiment = trial.to_experiment("any", tmp_path, num_epochs=1, verbose=False, save_freq=None)
    result = experiment.kfold(manager(), {"accuracy": sk.accuracy_score, "cat_acc": "cat_acc"}, num_splits=3)
    label, pred = result.oof.targets["label"], result.oof.predictions["pred"]
    for row in result.summary().values():
        assert row["oof"] == pytest.approx(sk.accuracy_score(label, pred.argmax(1)))
        assert row["ci_low"] < row["oof"] < row["ci_high"]
        assert not row["note"]


@pytest.mark.parametrize("name", METRICS)
def test_a_draw_of_cases_is_evaluated_as_the_whole(name):
    evaluate, draws = evaluator(METRICS[name], name), np.random.default_rng(0).integers(N, size=(3, N))
    for cases in draws:
        label, pred = LABELS[3][cases], SCORES[3][cases]
        assert evaluate(label, pred) == pytest.approx(expected_of(label, pred)[name], rel=1e-5)


def torch_experiment(tmp_path, loss, n_out, **settings):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    torch.manual_seed(0)
    net = torch.nn.Linear(4, n_out)
    trial = delira.Trial(net, torch.optim.SGD(net.parameters(), 0.1), loss(torch), seed=0, verbose=0)
    return trial.to_experiment("x", tmp_path, verbose=False, save_freq=None, num_epochs=1, **settings)


def binary_manager():
    data = np.random.default_rng(8).normal(size=(40, 4)).astype(np.float32)
    return BaseDataManager({"data": data, "label": (data[:, :1] > 0).astype(np.float32)}, 8)


def test_logits_of_a_binary_loss_are_logits_for_every_metric(tmp_path):
    metrics = {"acc": "acc", "f1": "f1", "sk": sk.accuracy_score, "nll": sk.log_loss}
    experiment = torch_experiment(tmp_path, lambda torch: torch.nn.BCEWithLogitsLoss(), 1, val_metrics=metrics)
    data = binary_manager()
    result = experiment.kfold(data, num_splits=2)
    network = experiment.run(data, data)
    tested = experiment.test(network, data)
    labels = np.concatenate([batch["label"] for batch in data.epoch(0, 0, 0)])
    folds = [(fold.targets["label"], fold.predictions["pred"], fold.metrics) for fold in result.folds]
    for label, pred, values in (*folds, (labels, tested[0]["pred"], tested[1])):
        right = label[:, 0], pred[:, 0] > 0
        assert values["acc"] == values["sk"] == sk.accuracy_score(*right)
        assert values["f1"].item() == pytest.approx(sk.f1_score(*right))
        assert values["nll"].item() == pytest.approx(sk.log_loss(label[:, 0], expit(pred[:, 0].astype(float))))
    evaluate = evaluator(result.metrics["acc"], "acc")
    label, pred = result.oof.targets["label"], result.oof.predictions["pred"]
    assert evaluate(label, pred) == sk.accuracy_score(label[:, 0], pred[:, 0] > 0)


def test_a_first_batch_of_one_class_is_too_little_to_refuse_a_metric(tmp_path):
    data = np.random.default_rng(8).normal(size=(40, 4)).astype(np.float32)
    data = data[np.argsort(data[:, 0])]
    labels = (data[:, :1] > 0).astype(np.float32)
    experiment = torch_experiment(
        tmp_path, lambda torch: torch.nn.BCEWithLogitsLoss(), 1, val_metrics={"nll": sk.log_loss}
    )
    manager = BaseDataManager({"data": data, "label": labels}, 8)
    network = experiment.run(manager, manager)
    predictions, values = experiment.test(network, manager)
    assert values["nll"].item() == pytest.approx(sk.log_loss(labels, expit(predictions["pred"].astype(float))))
    with pytest.raises(DataError, match="only one label"):
        experiment.run(manager, BaseDataManager({"data": data[:8], "label": labels[:8]}, 8))


def test_the_error_of_a_metric_of_one_entry_arrives_as_it_is(tmp_path):
    def spread(pred):
        raise DataError("no spread of so few") from ValueError("few")

    experiment = torch_experiment(
        tmp_path, lambda torch: torch.nn.BCEWithLogitsLoss(), 1, val_metrics={"spread": spread},
        metric_keys={"spread": ("pred",)},
    )  # fmt: skip
    with pytest.raises(DataError, match="no spread of so few"):
        experiment.run(binary_manager(), binary_manager())


def test_a_cross_validation_is_continued_with_them(tmp_path):
    experiment = torch_experiment(tmp_path, lambda torch: torch.nn.BCEWithLogitsLoss(), 1, val_metrics={"acc": "acc"})
    data = binary_manager()
    first = experiment.kfold(data, {"acc": "acc", "f1": sk.f1_score}, num_splits=2, random_seed=3)
    again = experiment.kfold(data, {"acc": "acc", "ece": "ece"}, num_splits=2, random_seed=3, resume=first.path)
    for one, other in zip(first.folds, again.folds, strict=True):
        assert one.metrics["acc"] == other.metrics["acc"]
        np.testing.assert_array_equal(one.predictions["pred"], other.predictions["pred"])
        assert 0 <= other.metrics["ece"].item() <= 1


def test_a_metric_of_single_cases_is_computed_once_for_each_and_then_drawn(tmp_path, monkeypatch):
    data = GENERATOR.normal(size=(12, 1, 6, 6)).astype(np.float32)
    masks = BaseDataManager({"data": data, "label": (data > 0).astype(np.float32)}, 4)
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    net = torch.nn.Conv2d(1, 1, 3, padding=1)
    trial = delira.Trial(net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.BCEWithLogitsLoss(), seed=0, verbose=0)
    experiment = trial.to_experiment("masks", tmp_path, verbose=False, save_freq=None, num_epochs=1)
    result = experiment.kfold(masks, {"hausdorff": Hausdorff(percentile=50), "dice": "dice"}, num_splits=2)
    calls = []
    distance = Hausdorff._distance
    monkeypatch.setattr(Hausdorff, "_distance", lambda *args: calls.append(1) or distance(*args))
    rows = result.summary()
    assert len(calls) == 12
    for row in rows.values():
        assert row["ci_low"] <= row["oof"] <= row["ci_high"]
        assert not row["note"]


def test_a_trial_hands_its_metrics_over_by_name(tmp_path):
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    net = torch.nn.Linear(4, 3)
    metrics = ["loss", "acc", sk.matthews_corrcoef, functools.partial(sk.f1_score, average="macro"), FBeta(2)]
    trial = delira.Trial(
        net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.CrossEntropyLoss(), metrics, seed=0, verbose=0
    )
    experiment = trial.to_experiment("x", tmp_path, verbose=False, save_freq=None, num_epochs=1)
    fold = experiment.kfold(manager(), num_splits=2).folds[0]
    label, right = fold.targets["label"], fold.predictions["pred"].argmax(1)
    assert fold.metrics.keys() == {"acc", "matthews_corrcoef", "f1_score", "f2"}
    assert fold.metrics["matthews_corrcoef"].item() == pytest.approx(sk.matthews_corrcoef(label, right))
    assert fold.metrics["f1_score"].item() == pytest.approx(macro_f1(label, right))


def test_a_trial_metric_shows_what_it_is():
    assert repr(TreeMetric("f1")) == "TreeMetric(FBeta('f1'))"
    assert repr(in_form(sk.f1_score)).startswith("SklearnFunction(<function f1_score")
