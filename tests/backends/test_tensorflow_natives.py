"""Keras in a trial in Keras' own words: texts, functions, metrics, callbacks and weights of samples."""

import copy
import csv

import numpy as np
import pytest

import delira
import delira.callbacks
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.metrics import MetricList
from delira.state import CRITERION, LOSS, METRICS, Y_PRED, Y_TRUE, State, X

keras = pytest.importorskip("keras", reason="Keras, which is not installed")
natives = pytest.importorskip("delira.backends.tensorflow.natives", reason="TensorFlow, which is not installed")

OF_KERAS_ITSELF = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
rng = np.random.default_rng(0)
x = rng.normal(size=(60, 4)).astype("float32")
y = (x.sum(axis=1) > 0).astype("int64")
weights = rng.uniform(0, 2, 60).astype("float32")


def model():
    keras.utils.set_random_seed(0)
    layers = keras.layers
    return keras.Sequential([keras.Input((4,)), layers.Dense(8, "relu"), layers.Dense(2, "softmax")])


def trial(network=None, *, optimizer=None, criterion="sparse_categorical_crossentropy", metrics=("loss",), **settings):
    network = model() if network is None else network
    optimizer = keras.optimizers.SGD(0.1) if optimizer is None else optimizer
    made = delira.Trial(network, optimizer, criterion, [*metrics], verbose=0, **{"seed": 0, **settings})
    return made.with_train_data(x[:48], y[:48], batch_size=16).with_val_data(x[48:], y[48:], batch_size=7)


def cross_entropy(network, of=slice(48, 60), weight=None):
    probability = np.asarray(network(x[of]))[np.arange(len(y[of])), y[of]]
    return float(np.mean(-np.log(probability) * (1 if weight is None else weight[of])))


@pytest.mark.parametrize(
    "criterion",
    [
        "sparse_categorical_crossentropy",
        "SparseCategoricalCrossentropy",
        keras.losses.sparse_categorical_crossentropy,
        keras.losses.SparseCategoricalCrossentropy(),
    ],
    ids=["text", "name of the class", "function", "object"],
)
def test_a_loss_in_any_of_its_forms_is_the_mean_over_samples(criterion):
    network = model()
    assert trial(network, criterion=criterion).evaluate()["val_loss"] == pytest.approx(cross_entropy(network), rel=1e-5)


def test_settings_of_a_partial_function_are_those_of_the_loss():
    import functools

    criterion = functools.partial(keras.losses.sparse_categorical_crossentropy, from_logits=True)
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    scores = np.asarray(network(x[48:]))
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = -np.log(chances[np.arange(12), y[48:]]).mean()
    assert trial(network, criterion=criterion).evaluate()["val_loss"] == pytest.approx(expected, rel=1e-5)


def test_an_optimizer_by_its_name_is_that_of_keras():
    by_name, by_object = (trial(optimizer=one).run(2) for one in ("adam", keras.optimizers.Adam()))
    assert by_name == by_object
    assert by_name[-1]["lr"] == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"optimizer": "adan"}, "Keras has no optimizer 'adan'; did you mean 'Nadam'"),
        (
            {"criterion": "mean_square_error"},
            "Keras has no loss 'mean_square_error'; did you mean 'mean_squared_error'",
        ),
        ({"metrics": ["acuracy"]}, "Keras has no metric 'acuracy'; did you mean 'accuracy'"),
    ],
)
def test_a_misspelt_text_is_told(settings, text):
    with pytest.raises(ConfigError, match=text):
        trial(**settings)


def test_metrics_are_those_of_keras():
    network = model()
    given = [
        keras.metrics.SparseCategoricalAccuracy(name="right"),
        "sparse_categorical_accuracy",
        keras.metrics.sparse_categorical_crossentropy,
        keras.metrics.AUC(name="auc"),
    ]
    if_last = keras.metrics.AUC(name="auc")
    one = trial(network, metrics=["accuracy", *given[:3]])
    values = one.evaluate()
    right = float(np.mean(np.asarray(network(x[48:])).argmax(axis=1) == y[48:]))
    assert values["val_right"] == values["val_sparse_categorical_accuracy"] == pytest.approx(right)
    assert values["val_acc"] == pytest.approx(right)
    assert values["val_sparse_categorical_crossentropy"] == pytest.approx(cross_entropy(network), rel=1e-5)

    single = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, "sigmoid")])
    if_last.update_state(y[48:].reshape(-1, 1), single(x[48:]))
    targets = y.reshape(-1, 1).astype("float32")
    scored = delira.Trial(single, "sgd", "binary_crossentropy", given[3:], verbose=0)
    assert scored.with_val_data(x[48:], targets[48:], batch_size=5).evaluate()["val_auc"] == float(if_last.result())


@pytest.mark.parametrize("make", [keras.metrics.SparseCategoricalAccuracy, lambda: keras.metrics.Mean(name="mean")])
def test_two_parts_of_a_metric_are_joined_and_kept(make):
    states = [
        State({Y_PRED: model()(x[part]), Y_TRUE: y[part], X: x[part], LOSS: 0.0}) for part in (slice(20), slice(20, 60))
    ]
    whole, first, second = (MetricList([natives.KerasMetric(make())]) for _ in range(3))
    for one in (whole, first, second):
        one.train()
        one.reset(State())
    for state, part in zip(states, (first, second), strict=True):
        whole.process(state)
        part.process(state)
    again = MetricList([natives.KerasMetric(make())])
    again.train()
    again.reset(State())
    again.load_state_dict(copy.deepcopy(first.state_dict()))
    first.merge(second)
    again.merge(second)
    assert first.process_final(State()) == again.process_final(State()) == pytest.approx(whole.process_final(State()))


def test_a_metric_class_of_ones_own_says_that_it_cannot_be_joined():
    class Own(keras.metrics.Mean):
        """Of the user's."""

    pair = [natives.KerasMetric(Own(name="own")) for _ in range(2)]
    with pytest.raises(ConfigError, match="'own' is a class of its own"):
        pair[0].merge(pair[1])


# ------------------------------------------------------------------ callbacks


class Recorder(keras.callbacks.Callback):
    """Writes down what it is told."""

    def __init__(self):
        super().__init__()
        self.told, self.losses = [], []

    def on_train_begin(self, logs=None):
        self.told.append(("begin", self.params["epochs"], self.params["steps"]))

    def on_epoch_begin(self, epoch, logs=None):
        self.told.append(("epoch", epoch))

    def on_train_batch_end(self, batch, logs=None):
        self.told.append(("batch", batch))
        self.losses.append(logs["loss"])

    def on_test_end(self, logs=None):
        self.told.append(("test", sorted(logs)))

    def on_epoch_end(self, epoch, logs=None):
        self.told.append(("end", epoch, float(self.model.optimizer.learning_rate)))
        logs["twice"] = 2.0 * epoch

    def on_train_end(self, logs=None):
        assert isinstance(self.model, keras.Model)
        self.told.append(("over", self.model(x[:1]).shape[0]))


def test_a_callback_of_keras_hears_what_fit_would_tell_it():
    recorder = Recorder()
    history = trial(callbacks=[recorder]).run(2)
    one = [("batch", 0), ("batch", 1), ("batch", 2), ("test", ["loss"])]
    rate = pytest.approx(0.1)
    assert recorder.told == [
        ("begin", 2, 3), ("epoch", 0), *one, ("end", 0, rate), ("epoch", 1), *one, ("end", 1, rate), ("over", 1),
    ]  # fmt: skip
    assert [record["twice"] for record in history] == [0.0, 2.0]
    assert history[0]["loss"] == pytest.approx(np.mean(recorder.losses[:3]), rel=1e-6)
    assert all(type(loss) is float for loss in recorder.losses)


def test_an_evaluation_tells_it_nothing():
    recorder = Recorder()
    trial(callbacks=[recorder]).evaluate()
    assert recorder.told == []


def test_early_stopping_restores_the_best_weights():
    network = model()
    stopping = keras.callbacks.EarlyStopping("val_accuracy", patience=1, restore_best_weights=True)
    record = keras.callbacks.History()
    history = trial(
        network, metrics=["loss", "acc"], callbacks=[stopping, record], optimizer=keras.optimizers.SGD(0.0)
    ).run(9)
    assert len(history) == 2
    assert record.history["val_accuracy"] == [one["val_acc"] for one in history]
    assert all(np.array_equal(*pair) for pair in zip(network.get_weights(), model().get_weights(), strict=True))


@OF_KERAS_ITSELF
def test_files_schedules_and_guards_of_keras_work(tmp_path):
    callbacks = keras.callbacks
    given = [
        callbacks.ModelCheckpoint(str(tmp_path / "best.keras"), monitor="val_loss", save_best_only=True),
        callbacks.LearningRateScheduler(lambda epoch, rate: 0.1 / (epoch + 1)),
        callbacks.TerminateOnNaN(),
        callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None),
        callbacks.CSVLogger(str(tmp_path / "log.csv")),
    ]
    network = model()
    history = trial(network, callbacks=given).run(3)
    with open(tmp_path / "log.csv", encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    assert [float(row["val_loss"]) for row in rows] == [record["val_loss"] for record in history]
    assert [float(row["learning_rate"]) for row in rows] == pytest.approx([0.1, 0.05, 0.1 / 3])
    best = keras.models.load_model(tmp_path / "best.keras")
    assert cross_entropy(best) == pytest.approx(min(record["val_loss"] for record in history), rel=1e-5)


def test_a_loss_that_is_no_number_ends_the_fit():
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, "softmax")])
    bad = trial(network, callbacks=[keras.callbacks.TerminateOnNaN()], nonfinite="ignore")
    bad.with_train_data(np.full_like(x, np.nan), y, batch_size=16).run(5)
    assert bad.trainer.state.step_in_epoch <= 1


@OF_KERAS_ITSELF
def test_a_fit_that_is_continued_keeps_what_callbacks_know(tmp_path):
    def made():
        stopping = keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=10.0)
        log = keras.callbacks.CSVLogger(str(tmp_path / "log.csv"))
        return trial(callbacks=[stopping, log], save_path=tmp_path / "run")

    whole = trial(
        callbacks=[keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=10.0)]
    ).run(6)
    made().run(2)
    rest = made()
    parts = rest.run(6)
    assert [record["learning_rate"] for record in parts] == [record["learning_rate"] for record in whole]
    assert [record["val_loss"] for record in parts] == [record["val_loss"] for record in whole]
    assert (tmp_path / "log.csv").read_text(encoding="utf-8").count("\n") == 7


def test_an_experiment_takes_them_too(tmp_path):
    from delira.models import AbstractTfNetwork
    from delira.training import TfExperiment

    class Net(AbstractTfNetwork):
        """One layer."""

        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x):
            return {"pred": self.dense(x)}

    losses = {"ce": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    experiment = TfExperiment(
        {}, Net, n_epochs=9, save_path=tmp_path, losses=losses, optimizer_cls=keras.optimizers.SGD,
        optimizer_params={"learning_rate": 0.0}, callbacks=[keras.callbacks.EarlyStopping("val_ce", patience=1)],
    )  # fmt: skip
    data = BaseDataManager({"data": x, "label": y}, 20)
    result = experiment.kfold(data, num_splits=2, val_split=0.2, verbose=False)
    assert [len(fold.history) for fold in result.folds] == [2, 2]


@pytest.mark.parametrize(
    ("name", "text"), [("BackupAndRestore", "save_path="), ("SwapEMAWeights", "ExponentialMoving")]
)
def test_what_needs_the_loop_of_keras_is_refused(name, text, tmp_path):
    given = getattr(keras.callbacks, name)(*([str(tmp_path)] if name == "BackupAndRestore" else []))
    with pytest.raises(ConfigError, match=f"keras.callbacks.{name} works in Model.fit only; use .*{text}"):
        trial(callbacks=[given])


def test_what_a_callback_sets_on_the_model_reaches_it():
    class Anneal(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.model.share = 0.5 * epoch

    network = model()
    trial(network, callbacks=[Anneal()]).run(2)
    assert network.share == 0.5


def test_accuracy_has_the_name_of_keras_whatever_it_is_of():
    single = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, "sigmoid")])
    told = keras.callbacks.History()
    made = delira.Trial(single, "sgd", "binary_crossentropy", ["accuracy", "AUC"], [told], verbose=0)
    made.with_train_data(x, y.reshape(-1, 1), 20).with_val_data(x, y.reshape(-1, 1), 20).run(1)
    assert {"accuracy", "val_accuracy", "AUC", "val_AUC"} <= told.history.keys()
    assert told.history["val_accuracy"] == told.history["val_binary_acc"]


def test_losses_of_an_experiment_are_the_loss_of_keras():
    state = State(
        {METRICS: {"ce": 1.0, "l2": 0.5, "val_ce": 3.0, "val_l2": 1.0, "epoch": 1}, CRITERION: {"ce": 0, "l2": 0}}
    )
    logs = natives._logs(state)
    assert (logs["loss"], logs["val_loss"], "epoch" in logs) == (1.5, 4.0, False)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_fit_goes_on_from_the_weights_that_were_trained(keeps, tmp_path):
    def made(network):
        worst = keras.callbacks.EarlyStopping("val_loss", mode="max", patience=9, restore_best_weights=True)
        return trial(network, callbacks=[worst])

    whole = made(model()).run(4)
    first = made(model())
    first.run(2)
    second = made(model()).load_state_dict(first.state_dict()) if keeps else first
    assert [one["loss"] for one in second.run(4)] == [one["loss"] for one in whole]


def test_weights_that_were_replaced_stay_of_their_fit(tmp_path):
    class Fail(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 3:
                raise ZeroDivisionError

    def made(folder, *further):
        worst = keras.callbacks.EarlyStopping("val_loss", mode="max", patience=9, restore_best_weights=True)
        return trial(callbacks=[worst, *further], save_path=folder)

    whole = made(tmp_path / "whole").run(5)
    first = made(tmp_path / "parts", Fail())
    first.run(2)
    with pytest.raises(ZeroDivisionError):
        first.run(5)  # its checkpoint of epoch 3 knows nothing of the weights of epoch 2
    assert [one["loss"] for one in made(tmp_path / "parts", Fail()).history] == [one["loss"] for one in whole[:3]]
    assert [one["loss"] for one in made(tmp_path / "parts").run(5)] == [one["loss"] for one in whole]

    other = made(None)
    other.run(2)
    other.state["model"].set_weights([0 * weight for weight in other.state["model"].get_weights()])
    other.run(3)
    assert other.history[2]["loss"] == pytest.approx(np.log(2), rel=0.02)  # of weights that are 0


BUILT_IN = {
    "of classes": [
        "AUC", "BinaryAccuracy", "BinaryCrossentropy", "BinaryIoU", "F1Score", "FBetaScore", "FalsePositives", "Hinge",
        "Precision", "Recall", "TruePositives", "CategoricalAccuracy", "TopKCategoricalAccuracy",
    ],
    "of numbers": [
        "CosineSimilarity", "KLDivergence", "LogCoshError", "Mean", "MeanAbsoluteError", "MeanSquaredError", "Poisson",
        "MeanSquaredLogarithmicError", "R2Score", "RootMeanSquaredError", "Sum",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", [name for names in BUILT_IN.values() for name in names])
def test_every_metric_of_keras_is_joined_as_in_one_pass(name):
    rng = np.random.default_rng(1)
    pred = rng.uniform(0.05, 0.95, (30, 3)).astype("float32")
    true = np.eye(3, dtype="float32")[rng.integers(0, 3, 30)] if name in BUILT_IN["of classes"] else pred[::-1].copy()
    whole, first, second, late = (natives.KerasMetric(getattr(keras.metrics, name)()) for _ in range(4))
    for one, part in ((whole, slice(None)), (first, slice(12)), (second, slice(12, None))):
        one.process(State({Y_PRED: pred[part], Y_TRUE: true[part]}))
    single = getattr(keras.metrics, name)()
    single.update_state(*((pred,) if name in ("Mean", "Sum") else (true, pred)))
    late.load_state_dict(first.state_dict())
    late.process(State({Y_PRED: pred[12:], Y_TRUE: true[12:]}))
    first.merge(second)
    for one in (whole, first, late):
        np.testing.assert_allclose(one.process_final(), np.asarray(single.result().numpy()), rtol=1e-4)


def test_a_metric_that_cannot_go_on_is_no_number_of_nothing():
    seen, late = (natives.KerasMetric(keras.metrics.F1Score()) for _ in range(2))
    seen.process(State({Y_PRED: np.eye(3, dtype="float32"), Y_TRUE: np.eye(3, dtype="float32")}))
    late.load_state_dict(seen.state_dict())
    assert late.state_dict().keys() == seen.state_dict().keys()
    with pytest.raises(ConfigError, match="has no variables before its first batch"):
        late.process_final()


def test_a_metric_whose_variables_come_late_goes_on_inside_an_epoch(tmp_path):
    targets = np.eye(2, dtype="float32")[y]

    class Stop(delira.callbacks.Callback):
        def on_step_training(self, state):
            if (state["epoch"], state["t"]) == (1, 1):
                raise KeyboardInterrupt

    def made(folder, *callbacks):
        metrics = ["loss", keras.metrics.R2Score(name="r2s"), keras.metrics.F1Score(name="f1s", average="macro")]
        fit = delira.Trial(
            model(), keras.optimizers.SGD(0.1), "categorical_crossentropy", metrics, callbacks, verbose=0, seed=0,
            save_path=folder, save_freq_steps=1,
        )  # fmt: skip
        return fit.with_train_data(x, targets, 20)

    whole = made(tmp_path / "whole").run(3)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "parts", Stop()).run(3)
    assert made(tmp_path / "parts").run(3) == whole


def test_what_a_callback_of_ones_own_counts_down_is_kept():
    class Down(keras.callbacks.Callback):
        def __init__(self, patience=3):
            super().__init__()
            self.patience, self.names = patience, []

        def on_epoch_end(self, epoch, logs=None):
            self.patience -= 1
            self.names.append(str(epoch))

    first = trial(callbacks=[Down()])
    first.run(2)
    down = Down()
    trial(callbacks=[down]).load_state_dict(first.state_dict()).run(3)
    assert (down.patience, down.names) == (0, ["0", "1", "2"])


def test_a_fit_that_fails_tells_no_end():
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError):
        trial(callbacks=[recorder, keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: 1 / 0)]).run(2)
    assert recorder.told[-1][0] == "end"


# ------------------------------------------------------------------ weights of samples


def test_weights_of_samples_count_as_in_keras():
    network, twin = model(), model()
    one = trial(network).with_train_data(x[:48], y[:48], 16, shuffle=False, sample_weight=weights[:48])
    one.with_val_data(x[48:], y[48:], 7, sample_weight=weights[48:])
    record = one.run(2)[-1]
    twin.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    told = twin.fit(
        x[:48], y[:48], batch_size=16, epochs=2, shuffle=False, sample_weight=weights[:48], verbose=0,
        validation_data=(x[48:], y[48:], weights[48:]), validation_batch_size=7,
    ).history  # fmt: skip
    assert record["loss"] == pytest.approx(told["loss"][-1], rel=1e-5)
    assert record["val_loss"] == pytest.approx(told["val_loss"][-1], rel=1e-5)
    assert record["val_loss"] == pytest.approx(cross_entropy(network, weight=weights), rel=1e-5)
