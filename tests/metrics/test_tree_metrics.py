"""The metric tree: what hangs on a root, under which names, over which values, and what it costs."""

import builtins
import copy
import functools
import pickle

import numpy as np
import pytest
import sklearn.metrics as sk
from tree_loop import FRAMEWORKS, BCEWithLogitsLoss, CrossEntropyLoss, MSELoss, converter, losses, one_pass, split

import delira.metrics
import delira.training.metrics
from delira.errors import CheckpointError, ConfigError, DataError
from delira.metrics import (
    LR,
    AdvancedMetric,
    BatchLambda,
    DefaultAccuracy,
    EpochLambda,
    Loss,
    Mean,
    Metric,
    MetricList,
    MetricTree,
    RunningMean,
    Std,
    ToDict,
    Weighted,
    default_for_key,
    known_keys,
    lambda_metric,
    max_,
    mean,
    min_,
    running_mean,
    std,
    to_dict,
    var,
)
from delira.metrics.tree import hanging
from delira.state import (
    CRITERION,
    LOSS,
    MODEL,
    OPTIMIZER,
    SELF,
    TEST_DATA,
    TRAIN_DATA,
    VALIDATION_DATA,
    Y_PRED,
    Y_TRUE,
    State,
    X,
    state_key,
)
from delira.utils.arrays import ops_of
from delira.utils.late import Lazy

RANDOM = np.random.default_rng(3)
SCORES = RANDOM.normal(size=(40, 4)).astype(np.float32)
LABELS = SCORES.argmax(1)
LABELS[20:] = (LABELS[20:] + 1) % 4  # 20 of 40 are right
ORDER = RANDOM.permutation(40)
SCORES, LABELS = SCORES[ORDER], LABELS[ORDER]


@pytest.fixture(params=FRAMEWORKS)
def convert(request):
    return converter(request.param)


@pytest.fixture(autouse=True)
def strings(monkeypatch):
    """What a test lets a string stand for ends with it."""
    monkeypatch.setattr(hanging, "_DEFAULTS", dict(hanging._DEFAULTS))


class Right(Metric):
    """Counts how often it is computed."""

    def __init__(self, name="acc"):
        super().__init__(name)
        self.n_calls = 0

    def process(self, state):
        self.n_calls += 1
        return state[Y_PRED].argmax(1) == state[Y_TRUE]


@mean
@std
class Stored(Right):
    """A decorated class that can be imported."""


class Numbers(Metric):
    """What the state has as a prediction."""

    def __init__(self):
        super().__init__("x")

    def process(self, state):
        return state[Y_PRED]


def numbers_of(*batches):
    return [{Y_PRED: batch, Y_TRUE: None} for batch in batches]


# ------------------------------------------------------------------ AC-12, AC-13


def test_a_decorated_metric_reports_what_hangs_on_it_and_nothing_else():  # AC-12
    @default_for_key("acc")
    @running_mean
    @std
    class PerSample(Right):
        pass

    metrics = MetricList(["acc"])
    reported, final = one_pass(metrics, split(np.array, SCORES, LABELS, size=12))
    assert [list(values) for values in reported] == [["running_acc"]] * 4
    assert list(final) == ["acc_std"]
    assert final["acc_std"] == pytest.approx(0.506370, abs=5e-7)
    reported, final = one_pass(metrics, split(np.array, SCORES, LABELS, size=12), is_training=False)
    assert reported == [{}] * 4
    assert final == {"val_acc_std": pytest.approx(0.506370, abs=5e-7)}


def test_the_root_is_computed_once_per_batch():  # AC-13
    metrics = MetricList([mean(std(var(running_mean(to_dict(Right())))))])
    reported, final = one_pass(metrics, split(np.array, SCORES, LABELS))
    assert metrics.trees[0].root.n_calls == 4
    assert {*reported[0], *final} == {"acc", "running_acc", "acc_var", "acc_std"}


@pytest.mark.parametrize(
    "decorators", [(mean, std, running_mean), (running_mean, std, mean), (std(), mean(), running_mean())]
)
def test_the_order_of_decorators_and_parentheses_do_not_matter(decorators):  # AC-13
    made = Right
    for decorator in decorators:
        made = decorator(made)
    instance = Right()
    for decorator in decorators:
        instance = decorator(instance)

    def acc(y_pred, y_true):
        return y_pred.argmax(1) == y_true

    def acc_of_state(state):
        return state[Y_PRED].argmax(1) == state[Y_TRUE]

    for decorator in decorators:
        acc, acc_of_state = decorator(acc), decorator(acc_of_state)
    right = SCORES.argmax(1) == LABELS
    for metric in (made, made(), instance, acc):
        reported, final = one_pass([metric], split(np.array, SCORES, LABELS))
        assert final == pytest.approx({"acc": right.mean(), "acc_std": right.std(ddof=1)})
        assert [*reported[0]] == ["running_acc"]
    assert set(one_pass([acc_of_state], split(np.array, SCORES, LABELS))[1]) == {"acc_of_state", "acc_of_state_std"}


def test_a_decorated_class_is_one_class_that_leaves_the_first_as_it_was():
    decorated = mean(Right)
    assert issubclass(decorated, Right)
    assert (Right.aggregates, len(decorated.aggregates)) == ((), 1)
    assert len(std(decorated).aggregates) == 2
    assert decorated.__name__ == "Right"
    assert [child.name for child in mean(decorated("a")).children] == ["a", "a"]


def test_what_hangs_on_one_root_in_two_places_of_a_list_is_joined():
    root = Right()
    metrics = MetricList([root, mean(root), [std(root)]])
    reported, final = one_pass(metrics, split(np.array, SCORES, LABELS))
    assert root.n_calls == 4
    assert set(reported[0]) == {"acc"}
    assert set(final) == {"acc", "acc_std"}


def test_trees_hang_on_trees():
    class Half(Metric):
        def process(self, value):
            return value / 2

    inner = MetricTree(Half("half"), [Mean("half"), ToDict("half")])
    tree = MetricTree(Numbers(), [inner])
    tree.add_child(Mean("x"))
    reported, final = one_pass([tree], numbers_of(1.0, 2.0), is_training=False)
    assert reported == [{"val_half": 0.5}, {"val_half": 1.0}]
    assert final == {"val_half": 0.75, "val_x": 1.5}


def test_of_values_by_name_the_first_is_passed_on_and_a_bare_metric_reports_them_as_they_are():
    class Two(Metric):
        def process(self, state):
            return {"a": state[Y_PRED], "b": 0.0}

        def process_final(self, state):
            return {"a": 7.0}

    assert one_pass([mean(Two("two"))], numbers_of(1.0, 3.0))[1] == {"two": 2.0}
    assert one_pass([Two("two")], numbers_of(1.0, 3.0)) == ([{"a": 1.0, "b": 0.0}, {"a": 3.0, "b": 0.0}], {"a": 7.0})


def test_metrics_may_differ_in_training_and_evaluation():
    class Both(AdvancedMetric):
        def process_train(self, state):
            return 1.0

        def process_validate(self, state):
            return 2.0

        def process_final_train(self, state):
            return 3.0

    assert one_pass([Both("b")], numbers_of(0.0)) == ([{"b": 1.0}], {"b": 3.0})
    assert one_pass([Both("b")], numbers_of(0.0), is_training=False) == ([{"val_b": 2.0}], {})


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("data_key", "prefix"), [(None, "val_"), (VALIDATION_DATA, "val_"), (TEST_DATA, "test_"), (TRAIN_DATA, "train_")]
)
def test_names_say_what_was_evaluated(data_key, prefix):
    batches = [{**batch, Y_PRED: 1.0, X: np.zeros((2, 1))} for batch in losses([1.0, 2.0], [2, 2])]
    metrics = ["loss", "epoch", to_dict(Numbers()), LOSS, std(LOSS), Numbers]
    reported, final = one_pass(metrics, batches, is_training=False, data_key=data_key)
    names = ("loss", "epoch", "x", "loss_std")
    assert {*reported[0], *final} == {f"{prefix}{name}" for name in names}


def test_later_metrics_win():
    assert (
        one_pass([to_dict(lambda state: 1), Numbers(), BatchLambda("x", lambda p, t: 5.0)], numbers_of(2.0))[1]["x"]
        == 5.0
    )


def test_from_metrics_import_everything_replaces_no_builtin():  # B31
    for module in (delira.metrics, delira.training.metrics):
        assert not {*module.__all__} & {*dir(builtins)}


# ------------------------------------------------------------------ what is reported


def test_the_loss_is_the_mean_over_samples(convert):  # B16
    values, sizes = [1.0, 2.0, 9.0], [8, 8, 3]
    batches = losses([convert(np.float32(value)) for value in values], sizes)
    reported, final = one_pass(["loss"], batches)
    assert final == {"loss": pytest.approx(np.average(values, weights=sizes))}
    assert reported[-1] == {"running_loss": pytest.approx(1.0)}
    assert one_pass(["loss"], batches, is_training=False) == ([{}] * 3, {"val_loss": pytest.approx(51 / 19)})


def test_a_loss_without_data_counts_once_a_step():
    assert one_pass(["loss"], [{LOSS: 1.0, X: None, Y_TRUE: None}, {LOSS: 4.0}])[1] == {"loss": 2.5}


def test_a_loss_of_each_sample_counts_for_each():
    assert one_pass(["loss"], losses([np.array([1.0, 2.0]), np.array([6.0])], [2, 1]))[1] == {"loss": 3.0}


def test_the_samples_are_those_of_the_first_array_of_the_target():
    batches = [{LOSS: 1.0, Y_TRUE: {"a": (np.zeros(3), np.zeros(7))}}, {LOSS: 5.0, Y_TRUE: {"a": (np.zeros(1),)}}]
    assert one_pass(["loss"], batches)[1] == {"loss": 2.0}


def test_keys_of_the_state_are_metrics(convert):  # AC-16
    gen, disc = state_key("loss_of_generator"), state_key("loss_of_critic")
    batches = [
        {gen: convert(np.float32(a)), disc: convert(np.float32(b)), X: np.zeros((n, 1))}
        for a, b, n in ((1, 2, 4), (3, 4, 4), (11, 12, 2))
    ]
    reported, final = one_pass([gen, mean(running_mean(disc))], batches)
    assert [float(values[gen]) for values in reported] == [1, 3, 11]
    assert reported[0][f"running_{disc}"] == 2
    assert final == {str(gen): pytest.approx(3.8), str(disc): pytest.approx(4.8)}
    _, final = one_pass([gen], batches, is_training=False)
    assert final == {f"val_{gen}": pytest.approx(3.8)}


def test_a_key_may_hold_more_than_a_number(convert):
    place = state_key("place")
    reported, final = one_pass([place, var(place)], [{place: convert(np.array([1.0, 2.0]))}])
    assert reported[0][place].item() == [1.0, 2.0]
    assert final == {str(place): 1.5, f"{place}_var": 0.5}


def test_the_learning_rate_is_reported_in_training():
    class Groups:
        param_groups = [{"lr": 0.1}, {"lr": 0.01}]  # noqa: RUF012

    class Owner:
        def learning_rates(self):
            return [0.5]

    assert one_pass(["lr"], [{OPTIMIZER: Groups()}]) == ([{"lr": [0.1, 0.01]}], {"lr": [0.1, 0.01]})
    assert one_pass(["lr"], [{OPTIMIZER: object(), SELF: Owner()}]) == ([{"lr": 0.5}], {"lr": 0.5})
    assert one_pass([LR], [{OPTIMIZER: Groups()}], is_training=False) == ([{}], {})
    with pytest.raises(ConfigError, match="'lr' does not know the learning rate of object"):
        one_pass(["lr"], [{OPTIMIZER: object()}])


def test_the_learning_rate_is_that_of_the_optimizers_of_torch_and_keras():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package torch")
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.001)
    assert one_pass(["lr"], [{OPTIMIZER: optimizer}])[1] == {"lr": 0.001}
    keras = pytest.importorskip("keras", reason="the tensorflow backend needs the package keras")
    assert one_pass(["lr"], [{OPTIMIZER: keras.optimizers.Adam(0.001)}])[1] == {"lr": 0.001}


# ------------------------------------------------------------------ aggregators


def test_aggregates_are_those_of_numpy_over_ragged_batches(convert):
    values = RANDOM.normal(1e4, 1, size=(43, 3)).astype(np.float32)
    batches = [{Y_PRED: batch, Y_TRUE: None} for (batch,) in split(convert, values)]
    _, final = one_pass([mean(std(var(max_(min_(Numbers))))), lambda_std()], batches)
    wide = values.astype(np.float64)
    assert final == pytest.approx(
        {
            "x": wide.mean(), "x_std": wide.std(ddof=1), "x_var": wide.var(ddof=1), "x_max": wide.max(),
            "x_min": wide.min(), "biased_std": wide.std(),
        },
        rel=1e-9,
    )  # fmt: skip


def lambda_std():
    return std(unbiased=False)(BatchLambda("biased", lambda y_pred, y_true: y_pred))


def test_spreads_do_not_cancel_out_where_large_batches_are_reduced_in_float32(convert):  # B18
    values = RANDOM.normal(1e4, 1, size=(3, 20_000)).astype(np.float32)
    _, final = one_pass([std(var(Numbers))], [{Y_PRED: convert(batch), Y_TRUE: None} for batch in values])
    wide = values.astype(np.float64)
    assert final == pytest.approx({"x_std": wide.std(ddof=1), "x_var": wide.var(ddof=1)}, rel=1e-3)


@pytest.mark.parametrize("value", [2, 2.0, True, np.float32(2), np.int64(2)])
def test_numbers_of_python_and_numpy_will_do(value):
    reported, final = one_pass([running_mean(mean(std(Numbers)))], numbers_of(value, value))
    assert final == {"x": float(value), "x_std": 0.0}
    assert float(reported[1]["running_x"]) == value


def test_lists_will_do():
    assert one_pass([mean(Numbers)], numbers_of([1, 2], [6]))[1] == {"x": 3.0}


def test_the_spread_of_one_value_and_anything_of_none_is_not_a_number():  # B19
    metric = mean(std(var(max_(min_(Numbers)))))
    _, final = one_pass([metric], numbers_of(2.0))
    assert final.pop("x_std") is not final.pop("x_var")
    assert final == {"x": 2.0, "x_max": 2.0, "x_min": 2.0}
    assert all(np.isnan(value) for value in one_pass([metric], [])[1].values())


def test_axes_may_be_kept(convert):
    values = RANDOM.normal(size=(13, 3, 2)).astype(np.float32)
    batches = [{Y_PRED: batch, Y_TRUE: None} for (batch,) in split(convert, values)]
    metric = mean(dim=0)(std(dim=(0, 1))(running_mean(dim=(0, 2))(Numbers)))
    reported, final = one_pass([metric], batches)
    np.testing.assert_allclose(final["x"], values.mean(0), rtol=1e-5)
    np.testing.assert_allclose(final["x_std"], values.std((0, 1), ddof=1), rtol=1e-5)
    np.testing.assert_allclose(reported[0]["running_x"].item(), values[:10].mean((0, 2)), rtol=1e-5)


def test_weights_count_in_means_and_masks_everywhere(convert):
    class Parts(Metric):
        def process(self, state):
            return state[Y_PRED]

    single = [Weighted(convert(np.float32(1)), 3), Weighted(convert(np.float32(5)), 1)]
    assert one_pass([mean(std(Parts("x")))], numbers_of(*single))[1] == {"x": 2.0, "x_std": pytest.approx(8**0.5)}
    for size in (6, 5000):  # kept as they are, and reduced on their device
        values = RANDOM.normal(size=size).astype(np.float32)
        mask = RANDOM.random(size) < 0.5
        batches = numbers_of(*(Weighted(convert(values + shift), convert(mask)) for shift in (0, 1)))
        kept = np.concatenate([values[mask], values[mask] + 1]).astype(np.float64)
        _, final = one_pass([mean(std(max_(min_(Parts("x")))))], batches)
        expected = {"x": kept.mean(), "x_std": kept.std(ddof=1), "x_max": kept.max(), "x_min": kept.min()}
        assert final == pytest.approx(expected, rel=1e-4, abs=1e-6)
    nothing = numbers_of(Weighted(convert(np.ones(5000)), convert(np.zeros(5000, bool))))
    assert np.isnan(one_pass([mean(Parts("x"))], nothing)[1]["x"])


def test_infinite_values_and_those_that_are_no_numbers_show():
    assert one_pass([mean(Numbers)], numbers_of(1.0, float("inf")))[1] == {"x": float("inf")}
    assert np.isnan(one_pass([mean(Numbers)], numbers_of(1.0, float("nan")))[1]["x"])


def test_the_running_mean_is_that_of_the_last_batches():
    values = [float(value) for value in RANDOM.normal(size=25)]
    reported, _ = one_pass([running_mean(batch_size=4, step_size=3)(Numbers)], numbers_of(*values))
    expected = [np.mean(values[max(0, at - at % 3 - 3) : at - at % 3 + 1]) for at in range(25)]
    assert [float(each["running_x"]) for each in reported] == pytest.approx(expected)


def test_the_running_mean_is_one_of_batches_whatever_their_sizes():
    reported, _ = one_pass([RunningMeanTree()], numbers_of(np.ones(9), np.array([3.0])))
    assert float(reported[1]["running_x"]) == 2.0


def RunningMeanTree():
    return MetricTree(Numbers(), [RunningMean("x", step_size=1)])


def test_the_window_of_a_running_mean_is_that_of_its_pass():
    metrics = MetricList([running_mean(step_size=1)(Numbers)])
    one_pass(metrics, numbers_of(100.0, 100.0))
    assert float(one_pass(metrics, numbers_of(1.0))[0][0]["running_x"]) == 1.0


def test_a_running_mean_needs_a_window():
    with pytest.raises(ConfigError, match="batch_size is a whole number of at least 1, got 0"):
        one_pass([running_mean(batch_size=0)(Numbers())], [])


# ------------------------------------------------------------------ functions


def test_functions_of_batches_are_metrics(convert):
    @lambda_metric("distance")
    def distance(y_pred, y_true):
        return abs(y_pred - y_true)

    pred, true = RANDOM.normal(size=(2, 23)).astype(np.float32)
    reported, final = one_pass([to_dict(std(distance))], split(convert, pred, true))
    np.testing.assert_allclose(reported[0]["distance"].item(), abs(pred - true)[:10], rtol=1e-6)
    assert final == pytest.approx({"distance_std": abs(pred - true).std(ddof=1)}, rel=1e-5)
    _, final = one_pass([distance], split(convert, pred, true))
    assert final == {"distance": pytest.approx(abs(pred - true).mean(), rel=1e-6)}
    assert distance(3, 1) == 2


def test_a_single_number_of_a_function_counts_for_its_samples():
    square = lambda_metric("square")(lambda y_pred, y_true: np.mean((y_pred - y_true) ** 2))
    pred, true = RANDOM.normal(size=(2, 23))
    assert one_pass([square], split(np.array, pred, true))[1] == {"square": pytest.approx(np.mean((pred - true) ** 2))}


def test_functions_of_a_pass_see_all_of_it(convert):
    @lambda_metric("spread", on_epoch=True)
    def spread(y_pred, y_true):
        calls.append(len(y_pred))
        ops = ops_of(y_pred)
        return ops.largest(y_pred - y_true) - ops.least(y_pred - y_true)

    calls = []
    pred, true = RANDOM.normal(size=(2, 23)).astype(np.float32)
    reported, final = one_pass([spread], split(convert, pred, true))
    assert calls == [23]
    assert final == {"spread": pytest.approx(np.ptp(pred - true))}
    assert float(reported[2]["spread"]) == pytest.approx(np.ptp((pred - true)[:10]))  # computed now
    assert calls == [23, 10]
    assert one_pass([spread], split(convert, pred, true), is_training=False)[0] == [{}] * 3


def test_functions_of_a_pass_are_computed_anew_every_few_steps_if_they_are_to_be():
    count = EpochLambda("n", lambda y_pred, y_true: len(y_pred["a"]), step_size=2)
    batches = [({"a": np.zeros(2)}, (np.zeros(2), np.zeros(2)))] * 5
    assert [each["n"].item() for each in one_pass([count], batches)[0]] == [2, 2, 6, 6, 10]
    silent = EpochLambda("n", lambda y_pred, y_true: len(y_pred["a"]), running=False)
    assert one_pass([silent], batches) == ([{}] * 5, {"n": 10})
    assert one_pass([silent], []) == ([], {})


# ------------------------------------------------------------------ strings


def test_each_list_has_metrics_of_its_own():
    default_for_key("x")(mean(BatchLambda("x", lambda y_pred, y_true: y_pred)))
    default_for_key("right", "named")(mean(Right))
    for key in ("x", "right", "loss"):
        first, second = MetricList([key]), MetricList([key])
        assert first.trees[0].root is not second.trees[0].root
    assert MetricList(["right"]).names == ["named"]


def test_an_unknown_string_is_refused_with_a_guess():
    with pytest.raises(ConfigError, match=r"there is no metric 'balanced_ac'; did you mean 'balanced_acc'?"):
        MetricList(["balanced_ac"])
    assert {"loss", "acc", "mse", "lr", "epoch"} <= {*known_keys()}


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (lambda y_pred, y_true: 0, r"write lambda_metric\('<lambda>'\)"),
        (7, "int is no metric"),
        ({"a": 1}, "dict is no metric"),
        (np.mean, r"lambda_metric\('mean'\)\(mean\)"),
    ],
)
def test_what_is_no_metric_is_refused(metric, message):
    with pytest.raises(ConfigError, match=message):
        MetricList([metric])


def test_what_is_no_metric_cannot_be_decorated():
    for target, message in (
        (3, "3 is neither a metric"),
        (lambda a, b, c: 0, "needs 3 arguments"),
        (max, "max does not tell"),
    ):
        with pytest.raises(ConfigError, match=message):
            mean(target)
    with pytest.raises(ConfigError, match="f1_score of scikit-learn is computed over whole data sets"):
        mean(sk.f1_score)
    with pytest.raises(ConfigError, match="f1_score of scikit-learn is computed over whole data sets"):
        mean(functools.partial(sk.f1_score, average="macro"))


def test_lists_are_flattened():
    inner = MetricList(["epoch"])
    metrics = MetricList(["loss", ["acc", (inner, [])]])
    assert metrics.names == ["loss", "acc", "epoch"]
    assert len(metrics) == len([*metrics]) == 3
    assert repr(metrics) == "MetricList(['loss', 'acc', 'epoch'])"
    assert MetricList("loss").names == ["loss"]


# ------------------------------------------------------------------ the accuracy of a criterion


def torch_criteria():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package torch")
    nn, f = torch.nn, torch.nn.functional
    return {
        "acc": [nn.CrossEntropyLoss(), f.cross_entropy, nn.NLLLoss(), f.nll_loss,
                functools.partial(functools.partial(f.cross_entropy, label_smoothing=0.1), reduction="mean")],
        "mse": [nn.MSELoss(), f.mse_loss],
        "mae": [nn.L1Loss(), f.l1_loss],
        "binary_acc": [nn.BCELoss(), f.binary_cross_entropy, nn.BCEWithLogitsLoss(),
                       f.binary_cross_entropy_with_logits],
    }  # fmt: skip


def keras_criteria():
    losses = pytest.importorskip("keras", reason="the tensorflow backend needs the package keras").losses
    return {
        "acc": [losses.SparseCategoricalCrossentropy(from_logits=True), losses.CategoricalCrossentropy(),
                losses.sparse_categorical_crossentropy, losses.categorical_crossentropy],
        "mse": [losses.MeanSquaredError(), losses.mean_squared_error],
        "mae": [losses.MeanAbsoluteError(), losses.mean_absolute_error],
        "binary_acc": [losses.BinaryCrossentropy(), losses.binary_crossentropy, losses.BinaryCrossentropy(True)],
    }  # fmt: skip


def optax_criteria():
    optax = pytest.importorskip("optax", reason="the jax backend needs the package optax")
    return {
        "acc": [optax.softmax_cross_entropy, optax.softmax_cross_entropy_with_integer_labels],
        "mse": [optax.squared_error, optax.l2_loss],
        "binary_acc": [optax.sigmoid_binary_cross_entropy],
    }


@pytest.mark.parametrize("criteria", [torch_criteria, keras_criteria, optax_criteria])
def test_the_accuracy_is_that_of_the_criterion(criteria):
    pred, true = np.array([[0.2, 0.8], [0.6, 0.4]]), np.array([[0.0, 1.0], [0.0, 1.0]])
    for name, known in criteria().items():
        for criterion in known:
            reported, final = one_pass(["acc"], [(pred, true)], criterion=criterion)
            assert (list(final), list(reported[0])) == ([name], [f"running_{name}"]), criterion
            assert list(one_pass(["accuracy"], [(pred, true)], criterion=criterion, is_training=False)[1]) == [
                f"val_{name}"
            ]


def test_criteria_of_logits_have_the_threshold_0():  # B17
    torch = pytest.importorskip("torch", reason="the torch backend needs the package torch")
    logits, yes = np.array([0.2, 0.4, -0.1, 3.0]), np.array([1.0, 1.0, 0.0, 1.0])
    keras = pytest.importorskip("keras", reason="the tensorflow backend needs the package keras")
    optax = pytest.importorskip("optax", reason="the jax backend needs the package optax")
    of_logits = [
        torch.nn.BCEWithLogitsLoss(), keras.losses.BinaryCrossentropy(from_logits=True),
        functools.partial(keras.losses.binary_crossentropy, from_logits=True), optax.sigmoid_binary_cross_entropy,
    ]  # fmt: skip
    for criterion in of_logits:
        assert one_pass(["acc"], [(logits, yes)], criterion=criterion)[1] == {"binary_acc": 1.0}
    for criterion in (torch.nn.BCELoss(), keras.losses.BinaryCrossentropy()):
        assert one_pass(["acc"], [(logits, yes)], criterion=criterion)[1] == {"binary_acc": 0.5}


def test_the_accuracy_ignores_what_the_criterion_ignores():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package torch")
    scores, labels = np.eye(3)[[0, 1, 2, 1]], np.array([0, 2, 2, 2])
    criteria = [
        torch.nn.CrossEntropyLoss(ignore_index=2),
        functools.partial(torch.nn.functional.nll_loss, ignore_index=2),
    ]
    for criterion in criteria:
        assert one_pass(["acc"], [(scores, labels)], criterion=criterion)[1] == {"acc": 1.0}
    assert one_pass(["acc"], [(scores, labels)], criterion=CrossEntropyLoss())[1] == {"acc": 0.5}


def test_subclasses_of_criteria_are_known():
    class Own(CrossEntropyLoss):
        pass

    assert list(one_pass(["acc"], [(SCORES, LABELS)], criterion=Own())[1]) == ["acc"]


def hinge(y_pred, y_true):
    return 0


@pytest.mark.parametrize(
    ("criterion", "message"),
    [
        (None, "there is no criterion; name the one you mean: 'cat_acc'"),
        (hinge, "the criterion hinge is none it knows; name"),
        (functools.partial(hinge, y_true=0), "the criterion hinge"),
        (Metric("a"), "the criterion Metric"),
    ],
)
def test_no_accuracy_is_guessed_for_other_criteria(criterion, message):  # AC-21
    with pytest.raises(ConfigError, match=message):
        one_pass(["acc"], [(SCORES, LABELS)], criterion=criterion)


def test_the_accuracy_is_chosen_anew_for_every_pass():
    metrics = MetricList([DefaultAccuracy])
    numbers = np.array([1.0, 2.0])
    assert list(one_pass(metrics, [(SCORES, LABELS)], criterion=CrossEntropyLoss())[1]) == ["acc"]
    assert one_pass(metrics, [(numbers, numbers)], criterion=MSELoss())[1] == {"mse": 0.0}
    # when the mode is told after the pass has begun, it is told to the chosen one, too
    metrics.eval(TEST_DATA)
    assert list(metrics.process_final(State())) == ["test_mse"]
    with pytest.raises(ConfigError, match="call reset"):
        MetricList(["acc"]).process(State())


def test_mixed_samples_are_right_by_the_weight_of_their_label(convert):
    from delira.state import MIXUP_LAMBDA

    class mixup_loss:
        pass

    scores = np.eye(3, dtype=np.float32)[[0, 1, 2]]
    first, second = np.array([0, 1, 0]), np.array([1, 1, 2])
    batch = {Y_PRED: convert(scores), Y_TRUE: (convert(first), convert(second)), MIXUP_LAMBDA: 0.75}
    _, final = one_pass(["acc"], [batch], criterion=mixup_loss())
    assert final == {"mixup_acc": pytest.approx((0.75 + 1 + 0.25) / 3)}
    _, final = one_pass(["acc"], [(convert(scores), convert(first))], criterion=mixup_loss(), is_training=False)
    assert final == {"val_mixup_acc": pytest.approx(2 / 3)}


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(DataError, match=r"'acc' got predictions of shape \(40, 4\) and targets of shape \(39,\)"):
        one_pass(["cat_acc"], [(SCORES, LABELS[1:])])
    with pytest.raises(DataError, match=r"'mse' got predictions of shape \(40, 1\) and targets of shape \(1, 39\)"):
        one_pass(["mse"], [(np.zeros((40, 1)), np.zeros((1, 39)))])
    with pytest.raises(DataError, match=r"the prediction 'y_pred' is a tuple.*pred_key="):
        one_pass(["cat_acc"], [{Y_PRED: (SCORES,), Y_TRUE: LABELS}])


def test_metrics_may_read_other_keys():
    own = state_key("second_head")
    metric = delira.metrics.CategoricalAccuracy(pred_key=own)
    assert one_pass([metric], [{own: np.eye(3), Y_TRUE: np.arange(3)}])[1] == {"acc": 1.0}


# ------------------------------------------------------------------ nothing is read, nothing changes, nothing is lost


OF_NUMBERS = {"mse", "mae", "rmse", "r2"}
OF_OTHERS = {"epoch", "lr", "binary_acc", "binary_accuracy", "mixup_acc", "dice", "iou", "hausdorff"}
FOR_CLASSES = sorted({*known_keys()} - OF_NUMBERS - OF_OTHERS)


def test_no_step_reads_from_the_device():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package torch")
    state = State({CRITERION: CrossEntropyLoss()})
    for shape in ((8, 5), (8, 5, 40, 40)):
        metrics = MetricList(
            [*FOR_CLASSES, std(LOSS), max_(LOSS), *(["dice", "iou", "hausdorff"] if shape[2:] else [])]
        )
        metrics.train()
        metrics.reset(state)
        for _ in range(12):
            state[Y_PRED] = state[X] = torch.zeros(shape, device="meta")
            state[Y_TRUE] = torch.zeros((shape[0], *shape[2:]), dtype=torch.int64, device="meta")
            state[LOSS] = torch.zeros((), device="meta")
            reported = metrics.process(state)
    assert all(isinstance(value, Lazy) for value in reported.values())
    with pytest.raises(NotImplementedError, match="meta"):
        float(reported["running_loss"])


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_no_step_reads_from_the_device_of_a_traced_function(framework):
    kit = pytest.importorskip(framework, reason=f"the {framework} backend needs the package {framework!r}")
    metrics = MetricList([*FOR_CLASSES, std(LOSS)])
    metrics.train()
    state = State({CRITERION: CrossEntropyLoss()})
    metrics.reset(state)

    def step(pred, true, loss):
        state.update({Y_PRED: pred, Y_TRUE: true, LOSS: loss, X: pred})
        assert all(isinstance(value, Lazy) for value in metrics.process(state).values())
        return loss

    arguments = np.zeros((8, 5), np.float32), np.zeros(8, np.int32), np.float32(0)
    if framework == "jax":
        kit.eval_shape(step, *arguments)
    else:
        kit.function(step, autograph=False).get_concrete_function(*map(kit.constant, arguments))


def test_what_is_written_into_later_does_not_count():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package torch")
    weight, buffer = torch.ones(2, requires_grad=True), np.zeros(3)

    def w(state):
        return state[MODEL]

    metrics = MetricList(
        [to_dict(mean(w)), BatchLambda("b", lambda y_pred, y_true: y_pred), EpochLambda("e", lambda p, t: p.sum())]
    )
    metrics.reset(State())
    reported = metrics.process(State({MODEL: weight, Y_PRED: buffer, Y_TRUE: buffer}))
    with torch.no_grad():
        weight += 1
    buffer += 1
    assert reported["w"].item() == [1.0, 1.0]
    assert reported["b"].item() == [0.0, 0.0, 0.0]
    assert metrics.process_final(State()) == {"w": 1.0, "b": 0.0, "e": 0.0}


@pytest.mark.slow_cases("tensorflow|jax")
def test_an_interrupted_pass_goes_on_where_it_ended(convert):
    own = EpochLambda("own", lambda y_pred, y_true: len(y_pred), step_size=2)
    metrics = [*FOR_CLASSES, "epoch", std(LOSS), var(LOSS), max_(LOSS), min_(LOSS), own, sk.log_loss]
    batches = [
        {Y_PRED: pred, Y_TRUE: true, X: pred, LOSS: convert(np.float32(loss))}
        for loss, (pred, true) in enumerate(split(convert, SCORES, LABELS, size=6))
    ]
    expected = one_pass(metrics, batches, criterion=CrossEntropyLoss())
    first, second = MetricList(metrics), MetricList(metrics)
    start = State({CRITERION: CrossEntropyLoss(), delira.state.EPOCH: 0})
    state, reported = start.copy(), []
    first.reset(state)
    for batch in batches[:3]:
        state.update(batch)
        reported.append(first.process(state))
    stored = first.state_dict()
    assert is_plain(stored)
    first.process(state)  # what happens to it afterwards is of no concern
    state = start.copy()
    second.reset(state)
    second.load_state_dict(copy.deepcopy(stored))
    for batch in batches[3:]:
        state.update(batch)
        reported.append(second.process(state))
    final = second.process_final(state)
    assert [{name: plain(value) for name, value in each.items()} for each in reported] == [
        {name: plain(value) for name, value in each.items()} for each in expected[0]
    ]
    assert final == expected[1]


def plain(value):
    return np.asarray(value).tolist()


def is_plain(tree):
    if isinstance(tree, dict):
        return all(isinstance(key, str) and is_plain(value) for key, value in tree.items())
    if isinstance(tree, list):
        return all(map(is_plain, tree))
    return tree is None or type(tree) in (bool, int, float, str, np.ndarray)


def test_the_state_of_other_metrics_is_refused():
    with pytest.raises(CheckpointError, match=r"of the metrics \['loss'\], but these are \['epoch'\]"):
        MetricList(["epoch"]).load_state_dict(MetricList(["loss"]).state_dict())


@pytest.mark.gpu
def test_no_step_waits_for_the_gpu():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    metrics = MetricList([*FOR_CLASSES, std(LOSS), "dice", "iou", "hausdorff"])
    state = State({CRITERION: CrossEntropyLoss()})
    state[Y_PRED] = state[X] = torch.rand(4, 5, 40, 40, device="cuda")
    state[Y_TRUE], state[LOSS] = state[Y_PRED].argmax(1), state[Y_PRED].mean()
    metrics.train()
    metrics.reset(state)
    metrics.process(state)  # what is set up once may wait
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            reported = metrics.process(state)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert float(reported["running_acc"]) == 1.0
    assert metrics.process_final(state)["dice"] == pytest.approx(1.0)


def test_classes_that_only_a_state_has_seen_count():
    found, labels = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    first, second = MetricList(["f1"]), MetricList(["f1"])
    expected = one_pass(first, [(np.eye(3)[found], labels)])[1]
    second.load_state_dict(first.state_dict())
    assert expected == {"f1": pytest.approx(sk.f1_score(labels, found, average="macro"))}
    assert second.process_final(State()) == expected


def test_of_many_numbers_little_is_kept(convert):
    from delira.metrics.gather import Batch

    values, mask = convert(np.ones((50, 100), np.float32)), convert(np.ones((50, 100), bool))
    assert [array.shape for array in Batch(values).arrays] == [(4,)]
    assert [array.shape for array in Batch(Weighted(values, mask)).arrays] == [(5,)]
    assert Batch(values[:10]).arrays[0].shape == (10, 100)


def test_a_list_has_a_state_before_its_first_pass():
    metrics = MetricList(["acc", "loss", "f1", "roc_auc", "hausdorff", EpochLambda("e", hinge)])
    metrics.load_state_dict(copy.deepcopy(metrics.state_dict()))


def test_lists_can_be_copied_and_pickled():
    metrics = MetricList(["loss", "cat_acc", "f1", "roc_auc", Stored, LOSS])
    for twin in (copy.deepcopy(metrics), pickle.loads(pickle.dumps(metrics))):
        assert twin.names == metrics.names
        one_pass(twin, [{Y_PRED: SCORES, Y_TRUE: LABELS, LOSS: 1.0}])
    assert isinstance(pickle.loads(pickle.dumps(Loss())), Loss)


def test_children_may_be_given_as_objects():
    tree = MetricTree(Numbers(), [Std("x"), Mean("y")])
    assert one_pass([tree], numbers_of(1.0, 2.0, 3.0))[1] == {"x_std": 1.0, "y": 2.0}
    assert "MetricTree(Numbers('x')" in repr(tree)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 31, 200, 1000])
def test_what_a_batch_gives_does_not_depend_on_those_that_are_read_with_it(size):
    from delira.metrics.gather import Batch, read_rows

    rng = np.random.default_rng(size)
    values = [rng.normal(size=size) for _ in range(5)]
    masks = [rng.random(size) < share for share in (0.5, 2, 0.9, 2, 2)]
    for given in (values, [value > 0 for value in values], [*map(Weighted, values, masks)]):
        together = read_rows([*map(Batch, given)])
        assert together == [read_rows([Batch(value)])[0] for value in given]


def test_many_small_batches_and_few_large_ones_are_read_in_between():
    from delira.metrics import gather as pending

    n_batches = pending.MOST_BATCHES + 3
    assert one_pass([mean(Numbers)], numbers_of(*range(n_batches)))[1] == {"x": (n_batches - 1) / 2}
    taken = []
    waiting = pending.Pending(lambda arrays, note: taken.append(arrays))
    waiting.append([np.zeros(pending.MOST_NUMBERS - 1)])
    assert not taken
    waiting.append([np.zeros(1)])
    assert len(taken) == 2
    waiting.append([np.zeros(1)])
    assert len(taken) == 2


# ------------------------------------------------------------------ torchmetrics


def test_objects_of_torchmetrics_are_metrics(convert):
    classification = pytest.importorskip("torchmetrics.classification", reason="torchmetrics is not installed")
    metrics = MetricList([classification.MulticlassAccuracy(4, average="micro"), classification.MulticlassF1Score(4)])
    right = SCORES.argmax(1) == LABELS
    for n_samples in (40, 13):  # a pass begins anew
        batches = split(convert, SCORES[:n_samples], LABELS[:n_samples].astype(np.int64))
        _, final = one_pass(metrics, batches, is_training=False)
        assert list(final) == ["val_MulticlassAccuracy", "val_MulticlassF1Score"]
        assert final["val_MulticlassAccuracy"] == pytest.approx(right[:n_samples].mean())


def test_collections_of_torchmetrics_report_by_name():
    torchmetrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    own = torchmetrics.MetricCollection([torchmetrics.MeanSquaredError(), torchmetrics.MeanAbsoluteError()])
    pred, true = RANDOM.normal(size=(2, 23)).astype(np.float32)
    _, final = one_pass([own], split(converter("torch"), pred, true), is_training=False)
    assert final == pytest.approx(
        {"val_MeanSquaredError": np.square(pred - true).mean(), "val_MeanAbsoluteError": abs(pred - true).mean()}
    )


def test_objects_of_torchmetrics_go_on_where_they_ended():
    torchmetrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    batches = split(converter("torch"), *RANDOM.normal(size=(2, 23)).astype(np.float32))
    metrics = [MetricList([torchmetrics.MeanSquaredError()]) for _ in range(2)]
    expected = one_pass(metrics[0], batches)[1]
    one_pass(metrics[0], batches[:1])
    stored = metrics[0].state_dict()
    assert is_plain(stored)
    metrics[1].reset(State())
    metrics[1].load_state_dict(stored)
    for pred, true in batches[1:]:
        metrics[1].process(State({Y_PRED: pred, Y_TRUE: true}))
    assert metrics[1].process_final(State()) == expected
    bootstrap = MetricList([torchmetrics.BootStrapper(torchmetrics.MeanSquaredError(), num_bootstraps=2)])
    with pytest.raises(ConfigError, match="BootStrapper of torchmetrics does not show its state"):
        bootstrap.state_dict()


def test_metrics_of_experiments_are_metrics_of_trials():
    metrics = [delira.metrics.accuracy, delira.metrics.SklearnF1Score(average="macro"), delira.metrics.dice]
    masks = RANDOM.integers(0, 2, size=(2, 7, 5, 5))
    _, final = one_pass(metrics[2:], split(np.array, *masks))
    assert final == {"dice": pytest.approx(np.mean([delira.metrics.dice(t, p) for p, t in zip(*masks, strict=True)]))}
    _, final = one_pass(metrics[:2], split(np.array, SCORES, LABELS))
    expected = [metric(LABELS, SCORES) for metric in metrics[:2]]
    assert final == pytest.approx(dict(zip(["accuracy", "SklearnF1Score"], expected, strict=True)))


def test_what_a_function_of_scikit_learn_compares_must_be_known():
    with pytest.raises(ConfigError, match="it is not known what classification_report"):
        MetricList([sk.classification_report])
    with pytest.raises(DataError, match="'BCEWithLogitsLoss' returned str"):
        delira.metrics.tree.adapters.numbers("text", BCEWithLogitsLoss.__name__)
