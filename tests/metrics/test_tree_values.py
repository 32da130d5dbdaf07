"""Every metric of the tree, over ragged batches, against scikit-learn, MONAI and numpy over the whole data set."""

import functools
import inspect

import numpy as np
import pytest
import sklearn.metrics as sk
from scipy.special import expit, softmax
from tree_loop import FRAMEWORKS, BCEWithLogitsLoss, CrossEntropyLoss, converter, one_pass, split

import delira.metrics
from delira.errors import ConfigError, DataError
from delira.metrics import (
    BinaryAccuracy,
    CalibrationError,
    CategoricalAccuracy,
    ConfusionMatrix,
    Dice,
    FBeta,
    Hausdorff,
    IoU,
    Precision,
    Recall,
    TopKCategoricalAccuracy,
)
from delira.state import LOSS, Y_PRED, Y_TRUE

RANDOM = np.random.default_rng(7)
SCORES = RANDOM.normal(size=(43, 6)).astype(np.float32)
SCORES[np.arange(43), np.arange(43) % 6] += 1
LABELS = (np.arange(43) % 6).astype(np.int64)
LABELS[::5] = 0
LOGITS = RANDOM.normal(size=43).astype(np.float32)
YES = (LOGITS + RANDOM.normal(size=43) > 0).astype(np.float32)
NUMBERS = RANDOM.normal(3, 2, size=(43, 3)).astype(np.float32)
NEAR = (NUMBERS + RANDOM.normal(size=(43, 3))).astype(np.float32)

PROBABILITIES = softmax(SCORES.astype(np.float64), axis=1)
FOUND = SCORES.argmax(1)
SAID = LOGITS > 0


@pytest.fixture(params=FRAMEWORKS)
def convert(request):
    return converter(request.param)


def over_classes(function):
    return np.mean([function(label == LABELS, PROBABILITIES[:, label]) for label in range(6)])


OF_CLASSES = {
    "cat_acc": ("acc", sk.accuracy_score(LABELS, FOUND)),
    "cat_accuracy": ("acc", sk.accuracy_score(LABELS, FOUND)),
    "top_5_acc": ("top_5_acc", sk.top_k_accuracy_score(LABELS, SCORES, k=5)),
    "top_5_accuracy": ("top_5_acc", sk.top_k_accuracy_score(LABELS, SCORES, k=5)),
    "top_10_acc": ("top_10_acc", 1.0),
    "top_10_accuracy": ("top_10_acc", 1.0),
    "balanced_acc": ("balanced_acc", sk.balanced_accuracy_score(LABELS, FOUND)),
    "precision": ("precision", sk.precision_score(LABELS, FOUND, average="macro")),
    "recall": ("recall", sk.recall_score(LABELS, FOUND, average="macro")),
    "f1": ("f1", sk.f1_score(LABELS, FOUND, average="macro")),
    "cohen_kappa": ("cohen_kappa", sk.cohen_kappa_score(LABELS, FOUND)),
    "mcc": ("mcc", sk.matthews_corrcoef(LABELS, FOUND)),
    "confusion_matrix": ("confusion_matrix", sk.confusion_matrix(LABELS, FOUND).tolist()),
    "roc_auc": ("roc_auc_score", sk.roc_auc_score(LABELS, PROBABILITIES, multi_class="ovr")),
    "roc_auc_score": ("roc_auc_score", sk.roc_auc_score(LABELS, PROBABILITIES, multi_class="ovr")),
    "pr_auc": ("pr_auc", over_classes(sk.average_precision_score)),
}


@pytest.mark.slow_cases("jax")
def test_metrics_of_classes_are_those_of_scikit_learn(convert):
    expected = {f"val_{name}": value for name, value in OF_CLASSES.values()}
    _, final = one_pass(list(OF_CLASSES), split(convert, SCORES, LABELS), is_training=False)
    assert final.pop("val_confusion_matrix") == expected.pop("val_confusion_matrix")
    assert final == pytest.approx(expected, rel=1e-6)


OF_YES_AND_NO = {
    "binary_acc": sk.accuracy_score(YES, SAID),
    "precision": sk.precision_score(YES, SAID),
    "recall": sk.recall_score(YES, SAID),
    "f1": sk.f1_score(YES, SAID),
    "balanced_acc": sk.balanced_accuracy_score(YES, SAID),
    "cohen_kappa": sk.cohen_kappa_score(YES, SAID),
    "mcc": sk.matthews_corrcoef(YES, SAID),
    "roc_auc_score": sk.roc_auc_score(YES, LOGITS),
    "pr_auc": sk.average_precision_score(YES, LOGITS),
}


@pytest.mark.sampled("values")
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_metrics_of_yes_and_no_are_those_of_scikit_learn(convert, shape):
    batches = split(convert, LOGITS.reshape(shape), YES)
    _, final = one_pass(list(OF_YES_AND_NO), batches, criterion=BCEWithLogitsLoss())
    assert final == pytest.approx(OF_YES_AND_NO, rel=1e-6)


def test_metrics_of_numbers_are_those_of_scikit_learn(convert):
    _, final = one_pass(["mse", "mae", "rmse", "r2"], split(convert, NEAR, NUMBERS))
    expected = {
        "mse": sk.mean_squared_error(NUMBERS, NEAR),
        "mae": sk.mean_absolute_error(NUMBERS, NEAR),
        "rmse": sk.root_mean_squared_error(NUMBERS, NEAR),
        "r2": sk.r2_score(NUMBERS, NEAR),
    }
    assert final == pytest.approx(expected, rel=1e-5)


def test_the_squared_error_of_pictures_is_exact_though_they_are_reduced_on_their_device(convert):
    true = RANDOM.normal(1000, 1, size=(13, 3, 40, 40)).astype(np.float32)
    pred = true + RANDOM.normal(size=true.shape).astype(np.float32)
    _, final = one_pass([delira.metrics.std(delira.metrics.MeanSquaredError())], split(convert, pred, true, size=5))
    squares = np.square(pred.astype(np.float64) - true)
    assert final == pytest.approx({"mse": squares.mean(), "mse_std": squares.std(ddof=1)}, rel=1e-5)


@pytest.mark.parametrize("is_binary", [False, True])
def test_the_calibration_error_is_that_of_torchmetrics(is_binary):
    classification = pytest.importorskip("torchmetrics.classification")
    torch = pytest.importorskip("torch")
    if is_binary:
        pred, true, reference = expit(LOGITS), YES.astype(int), classification.BinaryCalibrationError(10)
    else:
        pred, true, reference = PROBABILITIES, LABELS, classification.MulticlassCalibrationError(6, 10)
    expected = reference(torch.tensor(pred), torch.tensor(true)).item()
    _, final = one_pass([CalibrationError(n_bins=10)], split(np.array, pred, true))
    assert final == {"ece": pytest.approx(expected, rel=1e-5)}


def test_the_calibration_error_takes_logits_for_logits_though_they_lie_between_0_and_1():
    logits = np.linspace(0.1, 0.9, 20)
    yes = np.ones(20)
    _, final = one_pass(["ece"], [(logits, yes)], criterion=BCEWithLogitsLoss())
    assert final == {"ece": pytest.approx(np.mean(1 - expit(logits)))}
    assert one_pass(["ece"], [(logits, yes)])[1] == {"ece": pytest.approx(0.5)}


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize("average", ["micro", "weighted", "macro"])
def test_averages_are_those_of_scikit_learn(average):
    metrics = [Precision(average), Recall(average), FBeta(2, average)]
    _, final = one_pass(metrics, split(np.array, SCORES, LABELS))
    assert final == pytest.approx(
        {
            "precision": sk.precision_score(LABELS, FOUND, average=average),
            "recall": sk.recall_score(LABELS, FOUND, average=average),
            "f2": sk.fbeta_score(LABELS, FOUND, beta=2, average=average),
        }
    )


def test_labels_may_be_counted_as_they_are_and_targets_ignored():
    true = np.where(np.arange(43) % 4, LABELS, -100)
    kept = true >= 0
    metrics = ["f1", ConfusionMatrix(num_classes=7), "cat_acc"]
    _, final = one_pass(metrics, split(np.array, FOUND, true))
    assert final == {
        "f1": pytest.approx(sk.f1_score(true[kept], FOUND[kept], average="macro")),
        "confusion_matrix": sk.confusion_matrix(true[kept], FOUND[kept], labels=range(7)).tolist(),
        "acc": pytest.approx(sk.accuracy_score(true[kept], FOUND[kept])),
    }


def test_ignored_targets_do_not_count_in_running_means_and_spreads(convert):
    true = np.where(np.arange(43) % 4, LABELS, -1)
    right = (true == FOUND)[true >= 0]
    metric = delira.metrics.std(CategoricalAccuracy(ignore_index=-1))
    reported, final = one_pass([metric], split(convert, SCORES, true))
    assert final == pytest.approx({"acc": right.mean(), "acc_std": right.std(ddof=1)})
    first = true[:10] >= 0
    assert float(reported[0]["running_acc"]) == pytest.approx((true == FOUND)[:10][first].mean())


@pytest.mark.slow_cases("jax")
def test_pixels_are_counted_on_their_device(convert):
    scores = RANDOM.normal(size=(5, 4, 40, 40)).astype(np.float32)
    true = RANDOM.integers(0, 4, size=(5, 40, 40))
    true[0, :3] = -100
    found, kept = scores.argmax(1), true >= 0
    _, final = one_pass(["f1", "cat_acc", "mcc"], split(convert, scores, true, size=3))
    assert final == pytest.approx(
        {
            "f1": sk.f1_score(true[kept], found[kept], average="macro"),
            "acc": np.mean(true[kept] == found[kept]),
            "mcc": sk.matthews_corrcoef(true[kept], found[kept]),
        },
        rel=1e-6,
    )


def test_a_matrix_of_one_label_is_a_matrix():
    zeros = np.zeros(4, int)
    assert one_pass(["confusion_matrix"], [(zeros, zeros)])[1] == {"confusion_matrix": [[4, 0], [0, 0]]}


@pytest.mark.parametrize(("settings", "true", "message"), [
    ({"num_classes": 2}, [0, 1, 3], "labels from 0 to 1, and got some from 0 to 3"),
    ({"ignore_index": None}, [0, 1, -1], "labels from 0 to 1, and got some from -1 to 1"),
])  # fmt: skip
def test_a_matrix_leaves_no_label_out(settings, true, message):
    with pytest.raises(DataError, match=f"'confusion_matrix' counts {message}"):
        one_pass([ConfusionMatrix(**settings)], [(np.array([0, 1, 1]), np.array(true))])


def test_a_target_that_is_no_class_is_named():
    scores, true = np.zeros((2, 3, 50, 50)), np.zeros((2, 50, 50), int)
    true[0, 0, :5] = 255
    with pytest.raises(DataError, match=r"'f1' got 5 targets .* none of the 3 classes"):
        one_pass(["f1"], [(scores, true)])


def test_the_classes_lie_where_they_fit_the_target(convert):
    true = RANDOM.integers(0, 5, size=(6, 4, 3))
    scores = np.eye(5, dtype=np.float32)[true]
    for pred in (scores, np.moveaxis(scores, -1, 1)):
        assert one_pass(["cat_acc"], split(convert, pred, true, size=4))[1] == {"acc": 1.0}


def test_each_batch_is_compared_in_its_own_way(convert):
    """What a batch was like says nothing about the next: labels, one-hot ones, the classes last, found labels."""
    true = RANDOM.integers(0, 5, size=(3, 4, 2))
    scores = np.eye(5, dtype=np.float32)[true]
    pairs = [(np.moveaxis(scores, -1, 1), true), (scores, true), (true, true)]
    pairs += [(SCORES, LABELS), (SCORES, np.eye(6, dtype=np.float32)[LABELS]), (FOUND, LABELS)]
    _, final = one_pass(["cat_acc"], [tuple(map(convert, pair)) for pair in pairs])
    n_right = 3 * true.size + 3 * (FOUND == LABELS).sum()
    assert final == pytest.approx({"acc": n_right / (3 * true.size + 3 * len(LABELS))})


def test_of_two_places_that_fit_that_of_the_framework_is_taken(convert):
    true = RANDOM.integers(0, 4, size=(6, 4))
    scores = np.eye(4, dtype=np.float32)[true]  # (6, 4, 4), the classes last
    is_last = convert is not np.array and type(convert(scores)).__module__.split(".")[0] != "torch"
    pred = scores if is_last else np.moveaxis(scores, -1, 1)
    if isinstance(convert(scores), np.ndarray):  # about whose axes nobody says anything
        with pytest.raises(DataError, match="may lie on the axis 1 or on the last one; say which by class_axis=1"):
            one_pass(["cat_acc"], split(convert, pred, true))
    else:
        assert one_pass(["cat_acc"], split(convert, pred, true))[1] == {"acc": 1.0}
    named = CategoricalAccuracy(class_axis=1)
    assert one_pass([named], split(convert, np.moveaxis(scores, -1, 1), true))[1] == {"acc": 1.0}


def test_one_hot_targets_and_targets_of_shape_n_1_are_labels(convert):
    for true in (np.eye(6, dtype=np.float32)[LABELS], LABELS[:, None]):
        _, final = one_pass(["cat_acc", "top_5_acc"], split(convert, SCORES, true), criterion=CrossEntropyLoss())
        assert final == pytest.approx({"acc": OF_CLASSES["cat_acc"][1], "top_5_acc": OF_CLASSES["top_5_acc"][1]})


def test_of_equal_scores_the_first_is_the_highest(convert):
    scores = np.zeros((3, 4), np.float32)
    _, final = one_pass([TopKCategoricalAccuracy(k=2)], split(convert, scores, np.array([1, 2, 0])))
    assert final == {"top_2_acc": pytest.approx(2 / 3)}


def test_the_top_5_of_3_classes_are_all():  # B25
    _, final = one_pass(["top_5_acc", "top_10_acc"], split(np.array, SCORES[:, :3], LABELS % 3))
    assert final == {"top_5_acc": 1.0, "top_10_acc": 1.0}


def test_it_needs_scores_with_an_axis_for_the_classes():
    with pytest.raises(DataError, match=r"'acc' got predictions of shape \(2,\).* For yes or no there is 'binary_acc'"):
        one_pass(["cat_acc"], [(np.array([0.2, 0.8]), np.array([0, 1]))])
    with pytest.raises(ConfigError, match="k is a whole number of at least 1, got 0"):
        TopKCategoricalAccuracy(k=0)


def test_probabilities_of_one_hot_targets_are_calibrated_as_those_of_labels():
    one_hot = np.eye(6)[LABELS]
    finals = [one_pass(["ece"], split(np.array, PROBABILITIES, true))[1] for true in (LABELS, one_hot)]
    assert finals[0] == finals[1]


def test_what_waits_on_the_device_is_read_when_it_is_too_much(monkeypatch):
    monkeypatch.setattr(delira.metrics.gather, "MOST_BATCHES", 2)
    names = ["f1", "roc_auc", "dice", "hausdorff", "loss"]
    finals = []
    for size in (1, 7):
        batches = [
            {Y_PRED: pred, Y_TRUE: true, LOSS: 1.0} for pred, true in split(np.array, one_hot(PRED), TRUE, size=size)
        ]
        finals.append(one_pass(names, batches)[1])
    assert finals[0] == pytest.approx(finals[1])


def test_a_threshold_can_be_set():
    _, final = one_pass([BinaryAccuracy(threshold=1.0)], split(np.array, LOGITS, YES))
    assert final == {"binary_acc": pytest.approx(np.mean((LOGITS > 1) == YES))}


def test_probabilities_have_the_threshold_one_half():
    _, final = one_pass(["binary_acc", "f1"], split(np.array, expit(LOGITS), YES))
    assert final == pytest.approx({"binary_acc": OF_YES_AND_NO["binary_acc"], "f1": OF_YES_AND_NO["f1"]})


@pytest.mark.parametrize("metric", ["precision", "recall", "f1", "mcc", "cohen_kappa", "roc_auc", "pr_auc", "r2"])
def test_one_class_or_one_sample_is_no_error(metric):
    _, final = one_pass([metric], [(np.array([0.2], np.float32), np.array([0.0], np.float32))])
    (value,) = final.values()
    assert np.isnan(value) or value == 0


@pytest.mark.parametrize("metric", sorted({*OF_CLASSES, "mse", "rmse", "r2", "ece", "dice", "hausdorff", "loss"}))
def test_a_pass_without_batches_is_no_error(metric):  # B19
    _, final = one_pass([metric], [])
    assert all(np.isnan(value) for value in final.values())


# ------------------------------------------------------------------ masks


def masks(n_classes=3, shape=(24, 24), n_samples=7):
    """Blobs, in every sample one of every class, that the prediction has in other places."""
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1)
    true, pred = (np.zeros((n_samples, *shape), np.int64) for _ in range(2))
    for sample in range(n_samples):
        for label in range(1, n_classes):
            center = RANDOM.uniform(6, 16, size=len(shape))
            for mask, shift in ((true, 0), (pred, RANDOM.uniform(-2, 2, size=len(shape)))):
                mask[sample][np.square(grid - center - shift).sum(-1) < 12 + 20 * (label == 1)] = label
    return pred, true


PRED, TRUE = masks()


def one_hot(labels):
    return np.moveaxis(np.eye(3, dtype=np.float32)[labels], -1, 1)


def monai_values(name, *arguments, **settings):
    monai = pytest.importorskip("monai.metrics", reason="MONAI is not installed")
    torch = pytest.importorskip("torch")
    pair = torch.tensor(one_hot(PRED)), torch.tensor(one_hot(TRUE))
    return getattr(monai, name)(*pair, *arguments, include_background=False, **settings).numpy()


@pytest.mark.slow_cases("jax")
def test_dice_and_iou_are_those_of_monai(convert):
    assert all((mask == label).any() for mask in (*PRED, *TRUE) for label in (1, 2))
    _, final = one_pass(["dice", "iou"], split(convert, one_hot(PRED), TRUE, size=3))
    expected = {"dice": monai_values("compute_dice").mean(), "iou": monai_values("compute_iou").mean()}
    assert final == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow_cases("jax")
def test_masks_of_one_channel_say_yes_or_no(convert):
    pred, true = (PRED > 0).astype(np.float32)[:, None], (TRUE > 0).astype(np.float32)[:, None]
    expected = [delira.metrics.dice(*pair) for pair in zip(TRUE > 0, PRED > 0, strict=True)]
    _, final = one_pass(["dice", "hausdorff"], split(convert, pred, true, size=3))
    assert final["dice"] == pytest.approx(np.mean(expected), rel=1e-6)
    assert final["hausdorff"] < 10


@pytest.mark.parametrize("metric", ["dice", "iou", "hausdorff"])
@pytest.mark.parametrize("label", [3, -1, 255, 0.5])
def test_a_mask_with_labels_that_are_no_class_is_refused(metric, label):
    true = TRUE.astype(type(label))
    true[1, 0, 0] = label
    with pytest.raises(DataError, match=f"{metric!r} got the target {label} in sample 1.*none of the 3 classes"):
        one_pass([metric], split(np.array, one_hot(PRED), true))


@pytest.mark.parametrize("metric", [Dice, IoU, Hausdorff])
def test_a_predicted_mask_with_labels_that_are_no_class_is_refused(metric):
    pred = PRED.copy()
    pred[1, 0, 0] = 3
    with pytest.raises(DataError, match=r"got the prediction 3 in sample 1.*none of the 3 classes"):
        one_pass([metric(num_classes=3)], split(np.array, pred, TRUE))


@pytest.mark.parametrize("metric", [Dice, IoU])
def test_pixels_that_the_loss_ignores_do_not_count_in_the_overlap(metric):
    true, pred, ignored = TRUE.copy(), PRED.copy(), (slice(None), 0)
    true[ignored], pred[ignored] = 255, 2
    criterion = CrossEntropyLoss()
    criterion.ignore_index = 255
    _, final = one_pass([metric()], split(np.array, one_hot(pred), true), criterion=criterion)
    _, left = one_pass([metric()], split(np.array, one_hot(np.delete(pred, 0, 1)), np.delete(true, 0, 1)))
    assert final == left


def test_labels_as_masks_need_the_number_of_classes():
    expected = np.mean([delira.metrics.dice(*pair) for pair in zip(TRUE, PRED, strict=True)])
    assert one_pass([Dice(num_classes=3)], split(np.array, PRED, TRUE))[1] == {"dice": pytest.approx(expected)}
    with pytest.raises(DataError, match="make it with num_classes="):
        one_pass([IoU()], split(np.array, PRED, TRUE))


@pytest.mark.sampled("pairs")
@pytest.mark.filterwarnings("ignore:monai:FutureWarning")  # of MONAI, for its own call of its own function
@pytest.mark.parametrize(("settings", "name"), [({}, "hausdorff"), ({"percentile": 95}, "hausdorff_95")])
@pytest.mark.parametrize("spacing", [1.0, (2.0, 0.5)])
def test_the_hausdorff_distance_is_that_of_monai(convert, settings, name, spacing):
    _, final = one_pass([Hausdorff(spacing=spacing, **settings)], split(convert, one_hot(PRED), TRUE, size=3))
    space = list(spacing) if isinstance(spacing, tuple) else spacing
    expected = monai_values("compute_hausdorff_distance", spacing=space, **settings).mean()
    assert final == {name: pytest.approx(expected, rel=1e-5)}


def test_a_class_in_one_mask_only_is_infinitely_far():
    pred, true = PRED.copy(), TRUE.copy()
    pred[0], true[0] = 0, 0
    assert np.isfinite(one_pass([Hausdorff()], split(np.array, one_hot(pred), true))[1]["hausdorff"])
    true[0, 3, 3] = 1
    assert one_pass([Hausdorff()], split(np.array, one_hot(pred), true))[1] == {"hausdorff": np.inf}


# ------------------------------------------------------------------ functions of scikit-learn


@pytest.mark.parametrize(
    "function",
    [
        sk.accuracy_score, sk.matthews_corrcoef, functools.partial(sk.f1_score, average="macro"),
        functools.partial(sk.fbeta_score, beta=2, average="weighted"), sk.cohen_kappa_score, sk.zero_one_loss,
    ],
)  # fmt: skip
def test_functions_of_labels_get_labels(convert, function):
    name = getattr(function, "__name__", None) or function.func.__name__
    _, final = one_pass([function], split(convert, SCORES, LABELS))
    assert final == {name: pytest.approx(function(LABELS, FOUND))}


def test_functions_of_probabilities_and_scores_get_them(convert):
    functions = [sk.log_loss, sk.roc_auc_score, functools.partial(sk.top_k_accuracy_score, k=2)]
    _, final = one_pass(functions, split(convert, SCORES, LABELS), is_training=False)
    assert final == pytest.approx(
        {
            "val_log_loss": sk.log_loss(LABELS, PROBABILITIES),
            "val_roc_auc_score": sk.roc_auc_score(LABELS, PROBABILITIES, multi_class="ovr"),
            "val_top_k_accuracy_score": sk.top_k_accuracy_score(LABELS, SCORES, k=2),
        },
        rel=1e-5,
    )


def test_functions_of_probabilities_get_them_for_yes_and_no():
    functions = [sk.log_loss, sk.brier_score_loss, sk.roc_auc_score, sk.average_precision_score, sk.hinge_loss]
    expected = {
        "log_loss": sk.log_loss(YES, expit(LOGITS)),
        "brier_score_loss": sk.brier_score_loss(YES, expit(LOGITS)),
        "roc_auc_score": sk.roc_auc_score(YES, LOGITS),
        "average_precision_score": sk.average_precision_score(YES, LOGITS),
        "hinge_loss": sk.hinge_loss(YES, LOGITS),
    }
    for pred in (LOGITS, LOGITS[:, None], np.stack([np.zeros_like(LOGITS), LOGITS], 1)):
        _, final = one_pass(functions, split(np.array, pred, YES.astype(int)), criterion=BCEWithLogitsLoss())
        assert final == pytest.approx(expected, rel=1e-5)


def test_functions_of_numbers_get_them_as_they_are(convert):
    functions = [sk.mean_absolute_percentage_error, sk.explained_variance_score, sk.median_absolute_error]
    _, final = one_pass(functions, split(convert, NEAR, NUMBERS))
    assert final == pytest.approx({f.__name__: f(NUMBERS, NEAR) for f in functions}, rel=1e-4)


def test_what_each_function_of_scikit_learn_compares_is_known():
    """The table of names, against the names of the arguments and what scikit-learn does with scores."""
    from delira.metrics.of_arrays import OF_LABELS, OF_NUMBERS, OF_PROBABILITIES, OF_SCORES

    kinds = [OF_LABELS, OF_PROBABILITIES, OF_SCORES, OF_NUMBERS]
    listed = set().union(*kinds)
    assert sum(map(len, kinds)) == len(listed)
    other = {"auc", "classification_report", "class_likelihood_ratios", "precision_recall_fscore_support"}  # no number
    curves = {"det_curve", "roc_curve", "precision_recall_curve", "confusion_matrix_at_thresholds"}
    not_of_predictions = ("pairwise_", "euclidean_", "nan_euclid", "get_scorer", "make_", "check_", "silhouette_")
    of_clusters = {"calinski_harabasz_score", "davies_bouldin_score", "consensus_score"}
    for name in sk.__all__:
        function = getattr(sk, name)
        if (
            not inspect.isfunction(function)
            or name in other | curves | of_clusters
            or name.startswith(not_of_predictions)
        ):
            continue
        if name == "metric_at_thresholds":  # needs a further function
            continue
        assert name in listed, name
    assert listed <= {*sk.__all__, "d2_brier_score", "root_mean_squared_error"}  # of newer versions


@pytest.mark.parametrize("name", sorted(delira.metrics.of_arrays.OF_LABELS))
def test_functions_of_labels_refuse_scores_themselves(name):
    labels, scores = np.array([0, 1, 2]), np.array([[0.2, 0.5, 0.3], [0.1, 0.4, 0.5], [0.6, 0.3, 0.1]])
    with pytest.raises((ValueError, TypeError)):
        getattr(sk, name)(labels, scores)
