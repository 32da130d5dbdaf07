"""Acceptance cases of the Trial as bare estimators of scikit-learn show them."""

import numpy as np
import pytest
from kits import case, needs_checkpoints, quiet
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier, SGDRegressor
from sklearn.metrics import accuracy_score, log_loss

import delira
from delira import state as keys
from delira.callbacks.abstract_callback import Callback
from delira.callbacks.decorators import (
    on_criterion,
    on_end_epoch,
    on_forward,
    on_sample,
    on_step_validation,
    once,
    once_per_epoch,
)
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, NetworkError
from delira.metrics import Metric, mean, running_mean, std
from delira.state import HISTORY, ITERATOR, METRICS, MODEL, Y_PRED, Y_TRUE, X, state_key


def learner():
    return SGDClassifier(loss="log_loss", random_state=0)


@case(1, "sklearn")
@pytest.mark.parametrize("estimator", [LogisticRegression(), RandomForestClassifier(random_state=0, n_estimators=5)])
def test_ac_01_an_estimator_without_partial_fit_is_fitted_on_the_whole_epoch(kit, blobs, estimator):
    x, y = blobs
    x = x + np.float32(0.8)  # not separable by the axes
    trial = quiet(estimator, None, log_loss, ["acc", "loss"]).with_train_data(x, y, batch_size=7)
    history = trial.with_val_data(x[:13], y[:13], batch_size=5).run(4)
    twin = clone(estimator).fit(x, y)
    assert len(history) == 1, "further epochs would bring nothing"
    assert history[0]["acc"] == pytest.approx(accuracy_score(y, twin.predict(x)))
    assert history[0]["val_acc"] == pytest.approx(accuracy_score(y[:13], twin.predict(x[:13])))
    assert history[0]["loss"] == pytest.approx(log_loss(y, twin.predict_proba(x)), rel=1e-6)
    np.testing.assert_array_equal(estimator.predict_proba(x), twin.predict_proba(x))  # the one that was given is fitted
    assert trial.run(5) == history


@case(1, "sklearn")
def test_ac_01_batches_are_learned_as_partial_fit_would(kit, blobs):
    x, y = blobs
    estimator, twin = learner(), learner()
    quiet(estimator).with_train_data(x, y, batch_size=8, shuffle=False).run(2)
    for _ in range(2):
        for start in range(0, 40, 8):
            twin.partial_fit(x[start : start + 8], y[start : start + 8], classes=[0, 1])
    np.testing.assert_array_equal(estimator.coef_, twin.coef_)


@case(1, "sklearn")
def test_ac_01_regressors_labels_of_text_and_clusters(kit, blobs):
    x, y = blobs
    history = quiet(Ridge(), metrics=["acc", "r2"]).with_train_data(x, y.astype("f8"), batch_size=8).run(1)
    assert history[0]["mse"] == pytest.approx(np.mean((Ridge().fit(x, y).predict(x) - y) ** 2))
    assert history[0]["r2"] == pytest.approx(Ridge().fit(x, y).score(x, y))
    names = np.array(["left", "right"])[y]
    trial = quiet(learner(), metrics=["acc"]).with_train_data(x, names, batch_size=8).with_test_data(x, batch_size=9)
    assert trial.run(5)[-1]["acc"] == 1.0
    np.testing.assert_array_equal(trial.predict(), names)
    clusters = quiet(MiniBatchKMeans(2, random_state=0, n_init=1)).with_train_generator([x[:20], x[20:]])
    clusters.with_test_data(x, batch_size=9).run(2)
    assert len(np.unique(clusters.predict())) == 2


@case(4, "sklearn")
def test_ac_04_interrupted_and_resumed_equals_uninterrupted(kit, blobs, tmp_path):
    needs_checkpoints(kit)

    def make():
        trial = quiet(learner(), None, log_loss, ["acc", "loss"], seed=3)
        return trial.with_train_data(*blobs, batch_size=7).with_val_data(*blobs, batch_size=8)

    whole, first, second = make(), make(), make()
    whole.run(4)
    first.run(2)
    second.load(first.save(tmp_path / "half")).run(4)
    assert second.history == whole.history
    np.testing.assert_array_equal(second.state[MODEL].coef_, whole.state[MODEL].coef_)


@case(5, "sklearn")
def test_ac_05_a_callback_changes_the_input_the_prediction_and_the_estimator(kit, blobs):
    x, y = blobs
    other = SGDClassifier(loss="hinge", random_state=0)

    @on_sample
    def mirror(state):
        state[X] = -state[X]

    @on_forward
    def all_the_first(state):
        state[Y_PRED] = np.eye(2)[np.zeros(len(state[X]), int)]

    @on_end_epoch
    def swap(state):
        if state[keys.EPOCH] == 0:
            state[MODEL] = other

    estimator = learner()
    trial = quiet(estimator, metrics=["acc"], callbacks=[mirror, all_the_first, swap]).with_train_data(x, y, 8)
    history = trial.run(2)
    assert [record["acc"] for record in history] == [0.5, 0.5]
    assert (estimator.coef_ < 0).all()
    assert (other.coef_ < 0).all()
    assert estimator.t_ == other.t_ == 41.0  # forty samples each


@case(6, "sklearn")
def test_ac_06_functions_as_callbacks(kit, blobs):
    seen = []

    @once_per_epoch
    @on_criterion
    @on_step_validation
    def note(state):
        seen.append(state[keys.EPOCH])

    @once
    @on_sample
    def first(state):
        seen.append("first")

    trial = quiet(learner(), callbacks=[note, first]).with_train_data(*blobs, batch_size=8)
    trial.with_val_data(*blobs, batch_size=8).run(2)
    assert seen == ["first", 0, 1]


@case(7, "sklearn")
def test_ac_07_state_keys_do_not_collide(kit, blobs):
    one, other = state_key("estimators_score"), state_key("estimators_score")
    assert one != other
    assert state_key("loss") != keys.LOSS


@case(8, "sklearn")
def test_ac_08_errors_arrive_as_they_are(kit, blobs):
    calls = []

    @on_forward
    def fail(state):
        calls.append(1)
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        quiet(learner(), callbacks=[fail]).with_train_data(*blobs, batch_size=8).run(1)
    assert calls == [1]
    with pytest.raises(NotFittedError):
        quiet(learner()).with_test_data(blobs[0], batch_size=8).predict()
    with pytest.raises(ConfigError, match="learns by itself"):
        quiet(learner(), object())
    with pytest.raises(ConfigError, match="learns from data"):
        quiet(learner()).for_train_steps(3).run(1)
    with pytest.raises(ConfigError, match="closure"):
        quiet(learner()).with_train_data(*blobs).with_closure(print).run(1)
    with pytest.raises(NetworkError, match="scikit-learn estimator"):
        quiet(SGDClassifier)


@std
@running_mean
@mean
class Right(Metric):
    """Whether each sample is right; counts how often it was asked."""

    calls = 0

    def __init__(self):
        super().__init__("right")

    def process(self, state):
        self.calls += 1
        return (state[Y_PRED].argmax(1) == state[Y_TRUE]).astype("f8")


@case(12, "sklearn")
def test_ac_12_a_decorated_metric(kit, blobs):
    x, y = blobs
    history = quiet(RandomForestClassifier(3, random_state=0), metrics=[Right()]).with_train_data(x, y, 8).run(1)
    right = RandomForestClassifier(3, random_state=0).fit(x, y).predict(x) == y
    assert history[0]["right"] == pytest.approx(right.mean())
    assert history[0]["right_std"] == pytest.approx(right.std(ddof=1))


@case(13, "sklearn")
def test_ac_13_a_metric_is_computed_once_per_batch(kit, blobs):
    for estimator in (learner(), RandomForestClassifier(3, random_state=0)):
        metric = Right()
        quiet(estimator, metrics=[metric]).with_train_data(*blobs, batch_size=8).run(1)
        assert metric.calls == 5


@case(16, "sklearn")
def test_ac_16_metrics_of_state_keys(kit, blobs):
    key = state_key("spread")

    @on_forward
    def measure(state):
        state[key] = np.float64(np.ptp(state[X]))

    history = quiet(learner(), metrics=[key], callbacks=[measure]).with_train_data(*blobs, batch_size=40).run(1)
    assert history[0]["spread"] == pytest.approx(np.ptp(blobs[0]))


@case(22, "sklearn")
def test_ac_22_inputs_and_predictions_of_the_test_pass_once(kit, blobs):
    kept = []

    class Keep(Callback):
        phases = ("predict",)

        @once
        def on_step_validation(self, state):
            kept.append((state[X], state[Y_PRED]))

    trial = quiet(learner(), callbacks=[Keep()]).with_train_data(*blobs, batch_size=8)
    trial.with_test_data(blobs[0], batch_size=10).run(1)
    predictions = trial.predict()
    assert len(kept) == 1
    np.testing.assert_array_equal(kept[0][0], blobs[0][:10])
    np.testing.assert_array_equal(kept[0][1], predictions[:10])


@case(26, "sklearn")
def test_ac_26_a_custom_loader(kit, blobs):
    x, y = blobs

    def load(state):
        (first, one), (second, two) = next(state[ITERATOR])
        state[X], state[Y_TRUE] = np.concatenate([first, second]), np.concatenate([one, two])

    batches = [((x[start : start + 5], y[start : start + 5]), (x[start + 5 : start + 10], y[start + 5 : start + 10]))
               for start in range(0, 40, 10)]  # fmt: skip
    estimator, twin = learner(), learner()
    wrapped = delira.models.SklearnEstimator(estimator, classes=[0, 1])
    quiet(wrapped).with_loader(load).with_train_generator(batches).run(1)
    for start in range(0, 40, 10):
        twin.partial_fit(x[start : start + 10], y[start : start + 10], classes=[0, 1])
    np.testing.assert_array_equal(estimator.coef_, twin.coef_)


@case(28, "sklearn")
def test_ac_28_the_history_is_a_table_and_is_replayed(kit, blobs):
    told = []

    @on_end_epoch
    def tell(state):
        told.append(state[METRICS]["mse"])

    trial = quiet(SGDRegressor(random_state=0), metrics=["mse"]).with_train_data(blobs[0], blobs[1] * 1.0, 8)
    history = trial.run(3)
    trial.replay([tell], verbose=0)
    assert told == [record["mse"] for record in history] == [record["mse"] for record in trial.state[HISTORY]]


@case(30, "sklearn")
def test_ac_30_serialisation_both_ways(kit, blobs, tmp_path):
    needs_checkpoints(kit)
    x, y = blobs
    trial = quiet(learner(), metrics=["acc"]).with_train_data(x, y, batch_size=8).with_test_data(x, batch_size=40)
    trial.run(2)
    path = trial.save(tmp_path / "trial")
    estimator = learner()
    again = quiet(estimator, metrics=["acc"]).with_test_data(x, batch_size=40).load(path, resume=False)
    np.testing.assert_array_equal(again.predict(), trial.predict())
    np.testing.assert_array_equal(estimator.coef_, trial.state[MODEL].coef_)
    assert again.history == []
    folds = quiet(learner(), metrics=["acc"]).to_experiment("blobs", tmp_path / "runs", num_epochs=3, verbose=False)
    result = folds.kfold(BaseDataManager({"data": x, "label": y}, 8), num_splits=2)
    assert "1.0000 ± 0.0000" in str(result)
