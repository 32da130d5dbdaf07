"""Estimators as networks: the experiment gives what scikit-learn alone gives, for every kind of estimator."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier, SGDClassifier, SGDRegressor
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from delira.data_loading import AbstractDataset, BaseDataManager, SequentialSampler
from delira.errors import ConfigError, DataError, MissingKeyError, NetworkError
from delira.metrics import AurocMetric, SklearnAccuracyScore, SklearnLogLoss, accuracy

pytest.importorskip("skops", reason="checkpoints of the scikit-learn backend need skops")

from delira.backends.sklearn.training import find_classes, find_columns, name_of
from delira.models import SklearnEstimator
from delira.training import Parameters, SklearnExperiment, SklearnNetworkTrainer

QUIET = {"logging_type": None, "verbose": False, "save_freq": None}
IN_ORDER = {"sampler_cls": SequentialSampler}
ARRAYS = {"data": np.zeros((6, 1)), "label": np.array([2, 0, 2, 5, 0, 5])}


def exact(y_true, y_pred):
    return float(np.mean(y_true == y_pred))


def mae(y_true, y_pred):
    assert y_true.shape == y_pred.shape
    return float(np.abs(y_true - y_pred).mean())


def arrays(load, n=240, image=False):
    x, y = load(return_X_y=True)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(x))[:n]
    x, y = x[chosen], y[chosen]
    return {"data": x.reshape(-1, 1, 8, 8) if image else x, "label": y}


def cross_validate(tmp_path, estimator, data, metrics, batch_size=32, **settings):
    experiment = SklearnExperiment.of(estimator, save_path=tmp_path, **QUIET)
    options = {"num_splits": 3, "val_split": None, "train_kwargs": IN_ORDER, **settings}
    return experiment.kfold(BaseDataManager(data, batch_size), metrics, **options)


FITTED_ONCE = [
    LogisticRegression(max_iter=50, tol=1e-2),
    RandomForestClassifier(10, random_state=3),
    SVC(),
    make_pipeline(StandardScaler(), SVC(kernel="linear")),
    KNeighborsClassifier(3),
    RidgeClassifier(),
    DummyClassifier(),
    HistGradientBoostingClassifier(max_iter=3, random_state=0),
    GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3]}, cv=2),
]


@pytest.mark.sampled("half")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", FITTED_ONCE, ids=lambda estimator: type(estimator).__name__)
def test_a_cross_validation_predicts_what_scikit_learn_alone_predicts(estimator, tmp_path):
    data = arrays(load_digits, image=True)
    x, y = data["data"].reshape(len(data["data"]), -1), data["label"]
    result = cross_validate(tmp_path, estimator, data, {"exact": exact}, split_type="stratified",
                            metric_keys={"exact": ("label", "label_pred")})  # fmt: skip
    splits = StratifiedKFold(3).split(x, y)
    for fold, (train, test) in zip(result.folds, splits, strict=True):
        assert np.array_equal(fold.test_indices, test)
        estimator.fit(x[train], y[train])
        assert np.array_equal(fold.predictions["label_pred"], estimator.predict(x[test]))
        assert fold.metrics["exact"] == exact(y[test], estimator.predict(x[test]))
        assert fold.predictions["pred"].shape == (len(test), 10)
        if hasattr(estimator, "predict_proba"):
            assert np.array_equal(fold.predictions["pred"], estimator.predict_proba(x[test]))


@pytest.mark.parametrize(
    "estimator",
    [
        SGDClassifier(loss="log_loss", random_state=2),
        GaussianNB(),
        MLPClassifier((8,), random_state=2),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_batch_by_batch_is_partial_fit_by_hand(estimator, tmp_path):
    data = arrays(load_digits)
    result = cross_validate(tmp_path, estimator, data, {"accuracy": accuracy}, num_epochs=2)
    x, y = data["data"], data["label"]
    for fold in result.folds:
        by_hand = estimator.__class__(**estimator.get_params())
        for _ in range(2):
            for start in range(0, len(fold.train_indices), 32):
                batch = fold.train_indices[start : start + 32]
                by_hand.partial_fit(x[batch], y[batch], classes=np.arange(10))
        assert np.array_equal(fold.predictions["pred"], by_hand.predict_proba(x[fold.test_indices]))
        assert len(fold.history) == 2


def test_the_metrics_of_the_house_read_probabilities_and_scores(tmp_path):
    data = arrays(load_breast_cancer)
    metrics = {"accuracy": SklearnAccuracyScore(), "auroc": AurocMetric(), "log loss": SklearnLogLoss()}
    for estimator in (make_pipeline(StandardScaler(), LogisticRegression()), make_pipeline(StandardScaler(), SVC())):
        result = cross_validate(tmp_path, estimator, data, metrics)
        for fold in result.folds:
            assert fold.predictions["pred"].shape == (len(fold.test_indices), 2)
            assert fold.metrics["accuracy"] > 0.9
            assert fold.metrics["auroc"] > 0.95
            assert 0 < fold.metrics["log loss"] < 0.4


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    "estimator", [Ridge(), RandomForestRegressor(5, random_state=0)], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)], ids=str)
def test_a_regressor_predicts_in_the_shape_of_its_labels(estimator, shape, tmp_path):
    data = arrays(load_diabetes)
    result = cross_validate(tmp_path, estimator, {**data, "label": data["label"].reshape(shape)}, {"mae": mae})
    for fold in result.folds:
        estimator.fit(data["data"][fold.train_indices], data["label"][fold.train_indices])
        expected = estimator.predict(data["data"][fold.test_indices]).reshape(shape)
        assert np.array_equal(fold.predictions["pred"], expected)


def test_a_regressor_learns_batch_by_batch(tmp_path):
    data = arrays(load_diabetes)
    errors = []
    for epochs in (1, 20):
        result = cross_validate(tmp_path, SGDRegressor(random_state=0), data, {"mae": mae}, num_epochs=epochs)
        errors.append(np.mean([fold.metrics["mae"] for fold in result.folds]))
    assert errors[1] < 0.9 * errors[0]


def test_several_outputs_keep_their_shape(tmp_path):
    data = arrays(load_digits)
    image = data["data"].reshape(-1, 8, 8)
    labels = (image[:, 3::2, 3::2][:, :2, :2] > 8).astype(int)  # (n, 2, 2)
    for estimator in (RandomForestClassifier(5, random_state=0), MultiOutputClassifier(SGDClassifier(random_state=0))):
        result = cross_validate(tmp_path, estimator, {"data": image, "label": labels}, {"exact": exact})
        for fold in result.folds:
            assert fold.predictions["pred"].shape == (len(fold.test_indices), 2, 2)
            assert fold.metrics["exact"] > 0.7
    both = np.stack([data["label"], data["label"] ** 2], axis=1).astype(float)
    ridge = cross_validate(tmp_path, Ridge(), {**data, "label": both}, {"mae": mae})
    assert ridge.folds[0].predictions["pred"].shape == (len(ridge.folds[0].test_indices), 2)


def test_labels_and_inputs_may_be_texts():
    texts = np.array(["good film", "bad film", "very good", "so bad"] * 5)
    labels = np.array(["up", "down", "up", "down"] * 5)
    network = SklearnEstimator(make_pipeline(CountVectorizer(), LogisticRegression()))
    network.learn(texts, labels, batch=False)
    found = network(np.array(["good", "bad bad"]))
    assert found["label_pred"].tolist() == ["up", "down"]
    assert found["pred"].shape == (2, 2)
    assert found["pred"].argmax(1).tolist() == [1, 0]


def test_a_fold_that_never_saw_a_class_has_its_column_if_the_classes_are_named(tmp_path):
    data = arrays(load_digits)
    order = np.argsort(data["label"], kind="stable")
    data = {key: value[order] for key, value in data.items()}  # no split trains on the classes that it tests
    for estimator in (SGDClassifier(loss="log_loss"), SVC()):
        network = SklearnEstimator(estimator, classes=range(10))
        result = cross_validate(tmp_path, network, data, {"accuracy": accuracy})
        assert {fold.predictions["pred"].shape[1] for fold in result.folds} == {10}
        assert result.folds[-1].metrics["accuracy"] < 0.2


def test_a_class_is_wrapped_and_built_from_the_parameters(tmp_path):
    data = arrays(load_digits)
    params = Parameters({"model": {"n_estimators": 7, "random_state": 1}, "training": {"num_epochs": 1}})
    experiment = SklearnExperiment(params, RandomForestClassifier, save_path=tmp_path, **QUIET)
    network = experiment.run(BaseDataManager(data, 32, **IN_ORDER))
    assert len(network.estimator.estimators_) == 7
    predictions, metrics = experiment.test(network, BaseDataManager(data, 32), {"accuracy": accuracy})
    expected = RandomForestClassifier(7, random_state=1).fit(data["data"], data["label"])
    assert np.array_equal(predictions["pred"], expected.predict_proba(data["data"]))
    assert metrics["accuracy"] == 1
    with pytest.raises(ConfigError, match="takes no 'n_trees'"):
        SklearnExperiment({"model": {"n_trees": 7}}, RandomForestClassifier, save_path=tmp_path)


def test_metrics_over_the_epoch_wait_for_the_fit(tmp_path):
    data = arrays(load_digits)
    seen = []

    def spread(y_true, y_pred):
        seen.append(len(y_true))
        return float(np.mean(y_true == y_pred.argmax(1)))

    settings = {
        "metrics": {"spread": spread, "exact": exact},
        "metric_keys": {"exact": ("label", "label_pred")},
        **QUIET,
    }
    trainer = SklearnNetworkTrainer(RandomForestClassifier(5, random_state=0), tmp_path, **settings)
    manager = BaseDataManager(data, 50)
    trainer.train(1, manager, manager)
    history = trainer.state.history[0]
    assert len(data["label"]) in seen
    assert history["spread"] == history["exact"] == history["val_exact"] > 0.9


def test_random_states_come_from_seed_and_fold(tmp_path):
    data = BaseDataManager(arrays(load_digits), 64)

    def trained(name, seed=0, fold=0):
        pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3))
        trainer = SklearnNetworkTrainer(pipeline, tmp_path / name, seed=seed, fold=fold, **QUIET)
        return trainer.train(1, data).estimator

    one, same, other, fold = trained("a"), trained("b"), trained("c", seed=1), trained("d", fold=1)
    states = [each.get_params()["randomforestclassifier__random_state"] for each in (one, same, other, fold)]
    assert states[0] == states[1]
    assert len(set(states)) == 3
    x = data.dataset[0]["data"][None]
    assert np.array_equal(one.predict_proba(x), same.predict_proba(x))
    kept = SklearnNetworkTrainer(RandomForestClassifier(3, random_state=5), tmp_path / "e", **QUIET)
    assert kept.module.estimator.random_state == 5


def test_numpys_generator_is_left_alone(tmp_path):
    np.random.seed(4)
    before = np.random.get_state()[1].tolist()
    cross_validate(tmp_path, MLPClassifier((3,)), arrays(load_digits, 60), {"accuracy": accuracy}, num_epochs=1)
    assert np.random.get_state()[1].tolist() == before


def test_the_estimator_of_the_caller_stays_unfitted(tmp_path):
    estimator = RandomForestClassifier(3)
    cross_validate(tmp_path, estimator, arrays(load_digits, 60), {"accuracy": accuracy})
    assert not hasattr(estimator, "classes_")
    assert estimator.random_state is None


def test_a_fitted_estimator_is_fitted_anew(tmp_path):
    data = arrays(load_digits)
    fitted = GaussianNB().fit(data["data"][:9], np.arange(9))
    network = SklearnEstimator(fitted, partial_fit=False)
    trainer = SklearnNetworkTrainer(network, tmp_path, metrics={"accuracy": accuracy}, **QUIET)
    trained = trainer.train(1, BaseDataManager(data, 64))
    assert trainer.state.history[0]["accuracy"] == accuracy(data["label"], trained(data["data"])["pred"])
    assert trained.estimator.classes_.tolist() == list(range(10))
    assert trained.estimator.class_count_.sum() == len(data["label"])


def test_one_epoch_is_enough(tmp_path, caplog):
    data = BaseDataManager(arrays(load_digits), 64)
    trainer = SklearnNetworkTrainer(RandomForestClassifier(3), tmp_path, **QUIET)
    first = trainer.train(5, data, verbose=True).estimator
    assert [record["epoch"] for record in trainer.state.history] == [1]
    assert "RandomForestClassifier is fitted after epoch 1; further epochs would bring nothing" in caplog.text
    caplog.clear()
    trainer.stop_training = False
    again = trainer.train(5, data).estimator
    assert trainer.state.epoch == 2
    assert not caplog.text  # not verbose
    assert np.array_equal(first.predict_proba(np.ones((1, 64))), again.predict_proba(np.ones((1, 64))))


def test_without_labels(tmp_path):
    from sklearn.cluster import MiniBatchKMeans

    data = BaseDataManager({"data": arrays(load_digits)["data"]}, 60)
    network = SklearnEstimator(MiniBatchKMeans(3, n_init=1), target=None)
    trained = SklearnNetworkTrainer(network, tmp_path, **QUIET).train(2, data)
    assert trained.estimator.cluster_centers_.shape == (3, 64)
    assert SklearnNetworkTrainer.backend.calls.is_ready(trained)


# ---- as a baseline


BASELINES = [
    MLPClassifier((16,), max_iter=60, random_state=3),
    SGDClassifier(random_state=3),
    make_pipeline(StandardScaler(), LogisticRegression(max_iter=50)),
]


@pytest.mark.sampled("values")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", BASELINES, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("way", ["of", "class"])
def test_a_baseline_has_the_scores_of_scikit_learns_own_cross_validation(estimator, way, tmp_path):
    data = arrays(load_digits)
    expected = cross_val_score(estimator, data["data"], data["label"], cv=StratifiedKFold(3))
    if way == "of":
        experiment = SklearnExperiment.of(estimator, save_path=tmp_path, **QUIET)
    else:
        model = {"fixed": {"model": estimator.get_params(deep=False), "training": {}}}
        experiment = SklearnExperiment(model, type(estimator), save_path=tmp_path, **QUIET)
    result = experiment.kfold(
        BaseDataManager(data, 32), {"accuracy": accuracy}, num_splits=3, split_type="stratified", val_split=None
    )
    assert [fold.metrics["accuracy"].item() for fold in result.folds] == expected.tolist()


def test_epochs_or_partial_fit_bring_batch_by_batch_back(tmp_path):
    data = BaseDataManager(arrays(load_digits), 64, **IN_ORDER)
    by_hand = SGDClassifier(random_state=3)
    for batch in data:
        by_hand.partial_fit(batch["data"], batch["label"], classes=np.arange(10))
    estimator = SGDClassifier(random_state=3)
    networks = [
        SklearnExperiment.of(estimator, "a", tmp_path, n_epochs=1, **QUIET).run(data),
        SklearnExperiment.of(estimator, "b", tmp_path, **QUIET).run(data, num_epochs=1),
        SklearnExperiment.of(SklearnEstimator(estimator, partial_fit=True), "c", tmp_path, **QUIET).run(data),
    ]
    for network in networks:
        assert np.array_equal(network.estimator.coef_, by_hand.coef_)


def test_a_run_does_not_go_on_as_one_of_the_other_kind(tmp_path):
    data = BaseDataManager(arrays(load_digits), 64)
    experiment = SklearnExperiment.of(SGDClassifier(), "sgd", tmp_path, **QUIET)
    experiment.run(data)
    with pytest.raises(ConfigError, match='epochs: "not set" in the run, "set" now'):
        experiment.run(data, num_epochs=3, resume=experiment.last_trainer.save_path)


def test_experiments_are_named_by_what_is_no_default(tmp_path):
    def name(estimator):
        return SklearnExperiment.of(estimator, save_path=tmp_path).name

    assert name(SVC()) == "SVC"
    assert name(SVC(kernel="linear", C=0.5, verbose=True)) == "SVC-C=0.5-kernel=linear"
    assert name(make_pipeline(StandardScaler(), SVC(C=2))) == "StandardScaler+SVC-C=2"
    assert name(GridSearchCV(SVC(), {"C": [1, 2]})) == "GridSearchCV"
    assert len(name(RandomForestClassifier(criterion="x" * 300))) == 80


def test_a_cross_validation_says_once_that_one_fit_is_enough_and_prints_no_empty_line(tmp_path, caplog, capsys):
    data = arrays(load_digits, 90)
    cross_validate(tmp_path, SVC(), data, {"accuracy": accuracy}, num_epochs=2, verbose=True)
    assert caplog.text.count("SVC is fitted after epoch 1") == 1
    assert [line for line in capsys.readouterr().err.splitlines() if line.endswith("epoch 1/2  done")]
    caplog.clear()
    cross_validate(tmp_path, SVC(), data, {"accuracy": accuracy}, num_epochs=2)
    assert not caplog.text


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("labels", [["a", "b", "c"], [-1, 5, 7], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("estimator", [SVC(), GaussianNB()], ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("epochs", [None, 1])
def test_every_fold_has_a_column_for_every_class_of_the_data(labels, estimator, epochs, tmp_path):
    numbers = np.repeat([0, 1, 2], 20)  # in order: no fold trains on the class that it tests
    points = np.random.default_rng(0).normal(size=(60, 2)) + 5 * numbers[:, None]
    data = {"data": points, "label": np.array(labels)[numbers]}
    keys = {"exact": ("label", "label_pred")}
    result = cross_validate(tmp_path, estimator, data, {"exact": exact}, metric_keys=keys, num_epochs=epochs)
    pred = result.oof.predictions["pred"]
    assert pred.shape == (60, 3)
    assert pred.dtype == float
    for number, fold in enumerate(result.folds):
        found = fold.predictions["pred"]
        assert np.array_equal(np.array(labels)[found.argmax(1)], fold.predictions["label_pred"])
        assert (found.argmin(1) == number).all() or not found[:, number].any()


def test_classes_that_cannot_be_read_are_missed_aloud(tmp_path):
    class Lazy(AbstractDataset):
        def __init__(self):
            super().__init__()
            self.data = list(range(40))

        def __getitem__(self, index):
            return {"data": np.full(2, float(index))}

    def labelled(batch):
        return {**batch, "label": np.where(batch["data"][:, 0] % 2 < 1, "even", "odd")}

    manager = BaseDataManager(Lazy(), 10, transforms=labelled)
    experiment = SklearnExperiment.of(SVC(), save_path=tmp_path, **QUIET)
    with pytest.warns(UserWarning, match=r"columns of 'pred' may differ between folds; name them: .*classes="):
        experiment.kfold(manager, {}, num_splits=2, val_split=None)


# ---- what is refused

REFUSED = {
    "losses": {"losses": {"mse": mae}},
    "optimizer_cls": {"optimizer_cls": dict},
    "optimizer_params": {"optimizer_params": {"lr": 1}},
    "optim_fn": {"optim_fn": dict},
    "lr_scheduler_cls": {"lr_scheduler_cls": dict},
    "mixed_precision": {"mixed_precision": True},
    "gradient_accumulation_steps": {"gradient_accumulation_steps": 2},
    "gradient_clip_norm": {"gradient_clip_norm": 1.0},
    "nonfinite='skip'": {"nonfinite": "skip"},
    "nonfinite='rollback'": {"nonfinite": "rollback"},
    "micro_batches": {"micro_batches": 2},
    "compiled": {"compiled": True},
    "jit_compile": {"jit_compile": True},
}


@pytest.mark.parametrize("setting", REFUSED)
@pytest.mark.parametrize("estimator", [GaussianNB(), SVC()], ids=lambda estimator: type(estimator).__name__)
def test_settings_that_mean_nothing_are_refused(setting, estimator, tmp_path):
    with pytest.raises(ConfigError, match=f"bring their own loss and optimizer, so .*{setting}"):
        SklearnNetworkTrainer(SklearnEstimator(estimator), tmp_path, **REFUSED[setting])


def test_averages_gpus_and_values_of_steps_are_refused(tmp_path):
    from delira.training.callbacks import ExponentialMovingAverage

    with pytest.raises(ConfigError, match="cannot average weights"):
        SklearnNetworkTrainer(SVC(), tmp_path, callbacks=[ExponentialMovingAverage()])
    with pytest.raises(ConfigError, match=r"computes on the CPU only, got gpu_ids=\[0\]"):
        SklearnNetworkTrainer(SVC(), tmp_path, gpu_ids=[0])
    with pytest.raises(ConfigError, match=r"SVC is fitted once; use metrics"):
        SklearnNetworkTrainer(SVC(), tmp_path, train_metrics={"mae": mae})


def test_values_of_steps_of_an_estimator_that_learns_by_batches(tmp_path):
    settings = {"train_metrics": {"exact": exact}, "metric_keys": {"exact": ("label", "label_pred")}, **QUIET}
    trainer = SklearnNetworkTrainer(GaussianNB(), tmp_path, **settings)
    trainer.train(1, BaseDataManager(arrays(load_digits), 60))
    assert 0.5 < trainer.state.history[0]["exact"] <= 1


def test_what_is_no_estimator_is_refused(tmp_path):
    with pytest.raises(NetworkError, match=r"SVC is a class, pass an instance: SVC\(\)"):
        SklearnEstimator(SVC)
    with pytest.raises(NetworkError, match="dict is no scikit-learn estimator"):
        SklearnEstimator({})
    with pytest.raises(NetworkError, match="SVC has no partial_fit"):
        SklearnEstimator(SVC(), partial_fit=True)
    with pytest.raises(NetworkError, match="has no closure"):
        SklearnNetworkTrainer(object(), tmp_path)


def test_an_entry_that_is_not_there_is_named(tmp_path):
    data = {"data": arrays(load_digits)["data"], "kind": np.zeros(240)}
    trainer = SklearnNetworkTrainer(SVC(), tmp_path, **QUIET)
    with pytest.raises(MissingKeyError, match=r"learns 'label', but the batch has only \['data', 'kind'\].*target=…"):
        trainer.train(1, BaseDataManager(data, 60))


def test_samples_of_several_shapes_are_refused(tmp_path):
    batches = [{"data": np.zeros((2, 3)), "label": np.array([0, 1])}, {"data": np.zeros((2, 4)), "label": np.zeros(2)}]
    with pytest.raises(DataError, match=r"needs inputs of one shape, .* \[\(3,\), \(4,\)\]"):
        SklearnNetworkTrainer(SVC(), tmp_path, **QUIET).train(1, batches)


def test_classes_are_found_in_a_list_of_batches_or_must_be_named(tmp_path):
    data = arrays(load_digits)
    batches = [{key: value[start : start + 60] for key, value in data.items()} for start in range(0, 240, 60)]
    listed = SklearnNetworkTrainer(GaussianNB(), tmp_path / "list", **QUIET).train(1, batches)
    assert listed.estimator.classes_.tolist() == list(range(10))
    with pytest.raises(ConfigError, match=r"cannot be found in a list_iterator; name them"):
        SklearnNetworkTrainer(GaussianNB(), tmp_path / "iterator", **QUIET).train(1, iter(batches))
    network = SklearnEstimator(GaussianNB(), classes=range(10))
    named = SklearnNetworkTrainer(network, tmp_path / "named", **QUIET).train(1, iter(batches))
    assert named.estimator.classes_.tolist() == list(range(10))


def test_threads_are_limited_for_the_training_only(tmp_path):
    from threadpoolctl import threadpool_info

    inside = []

    class Look:
        def at_epoch_end(self, trainer, **facts):
            inside.append(max(pool["num_threads"] for pool in threadpool_info()))

    before = threadpool_info()
    trainer = SklearnNetworkTrainer(GaussianNB(), tmp_path, num_threads=1, callbacks=[Look()], **QUIET)
    trainer.train(1, BaseDataManager(arrays(load_digits), 60))
    assert inside == [1]
    assert threadpool_info() == before


def test_the_report_shows_an_estimator(tmp_path):
    settings = {"metrics": {"accuracy": accuracy}, "val_score_key": "accuracy", "val_score_mode": "max"}
    experiment = SklearnExperiment.of(RandomForestClassifier(5), save_path=tmp_path, **settings, **QUIET)
    result = experiment.kfold(BaseDataManager(arrays(load_digits), 32), num_splits=2)
    assert "accuracy" in str(result)
    page = result.to_html()
    text = page if isinstance(page, str) else page.read_text(encoding="utf-8")
    assert "RandomForestClassifier" in text
    loaded = SklearnExperiment.load(experiment.save(), objects={"RandomForestClassifier": RandomForestClassifier})
    assert repr(loaded.params.model_kwargs()["estimator"]) == "RandomForestClassifier(n_estimators=5)"


def test_classes_are_sorted_whether_data_come_as_a_manager_or_as_batches():
    assert find_classes("label", BaseDataManager(ARRAYS, 4)).tolist() == [0, 2, 5]
    batches = [{"label": np.array([2, 0])}, {"label": np.array([5])}]
    assert find_classes("label", batches).tolist() == [0, 2, 5]


def test_several_labels_of_a_sample_have_classes_of_their_own():
    found = find_classes("label", [{"label": np.array([[1, 7], [0, 7]])}])
    assert [classes.tolist() for classes in found] == [[0, 1], [7]]


def test_data_that_can_be_read_only_once_are_refused():
    with pytest.raises(ConfigError, match="cannot be found in a generator; name them: SklearnEstimator"):
        find_classes("label", (batch for batch in ()))


def test_only_parts_of_a_data_set_have_columns_of_the_whole():
    manager = BaseDataManager(ARRAYS, 4)
    assert find_columns("label", manager) is None
    assert find_columns("label", manager.get_subset([0, 1])) == [0, 2, 5]


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (SVC(), "SVC"),
        (SVC(kernel="linear", C=2.0), "SVC-C=2.0-kernel=linear"),
        (SVC(verbose=True), "SVC"),
        (make_pipeline(StandardScaler(), SVC(kernel="linear")), "StandardScaler+SVC-kernel=linear"),
        (StandardScaler(with_mean=False), "StandardScaler-with_mean=False"),
    ],
    ids=str,
)
def test_a_name_has_the_steps_and_what_is_no_default(estimator, name):
    assert name_of(estimator) == name


def test_a_name_is_that_of_a_folder_and_not_too_long():
    name = name_of(make_pipeline(*(SVC(kernel="linear", gamma="a/b") for _ in range(9))))
    assert len(name) <= 80
    assert "/" not in name
