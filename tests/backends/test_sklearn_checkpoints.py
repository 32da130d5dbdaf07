"""Checkpoints of estimators: continued bit for bit, wherever a run was broken off, and nothing in them is executed."""

import io
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier, SGDRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

import delira.io
from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, ConfigError, MissingBackendError, NetworkError, TrainingInterrupted
from delira.io.container import read_tree, write_tree
from delira.metrics import accuracy
from delira.models import load_named_weights, named_weights

skops = pytest.importorskip("skops.io", reason="checkpoints of the scikit-learn backend need skops")

from delira.io import estimators, load_checkpoint_sklearn, save_checkpoint_sklearn  # noqa: E402
from delira.models import SklearnEstimator  # noqa: E402
from delira.training import SklearnExperiment, SklearnNetworkTrainer  # noqa: E402

SETTINGS = {"metrics": {"accuracy": accuracy}, "logging_type": None, "verbose": False}
BATCH_SIZE = 40
STEPS = 5  # of an epoch


def data(n=200):
    x, y = load_digits(return_X_y=True)
    return BaseDataManager({"data": x[:n].astype(np.float32), "label": y[:n]}, BATCH_SIZE)


class Stop:
    """Ends a run at a step, as a signal does."""

    def __init__(self, step):
        self.step = step

    def at_iter_end(self, trainer, **facts):
        if trainer.state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


class Note:
    def __init__(self):
        self.steps = []

    def at_iter_end(self, trainer, **facts):
        self.steps.append((trainer.fold, trainer.state.global_step))


def bits(network):
    """All numbers that an estimator has learned, and what it predicts."""
    arrays = {name: value for name, value in vars(network.estimator).items() if isinstance(value, np.ndarray)}
    arrays |= {f"{name} {i}": value for name in ("coefs_", "intercepts_")
               for i, value in enumerate(getattr(network.estimator, name, ()))}  # fmt: skip
    arrays["pred"] = network(INPUTS)["pred"]
    return {name: value.tobytes() for name, value in arrays.items() if value.dtype != object}


INPUTS = load_digits(return_X_y=True)[0][:200].astype(np.float32)

INCREMENTAL = {
    "SGD": lambda: SGDClassifier(loss="log_loss", average=True),
    "MLP": lambda: MLPClassifier((6,)),
    "MLP with SGD": lambda: MLPClassifier((6,), solver="sgd", learning_rate="adaptive"),
    "bayes": lambda: GaussianNB(),
}


@pytest.mark.sampled("values")
@pytest.mark.parametrize("kind", INCREMENTAL)
@pytest.mark.parametrize("step", [1, 7, STEPS])
def test_a_run_continued_inside_an_epoch_is_the_unbroken_one(kind, step, tmp_path):
    unbroken = SklearnNetworkTrainer(INCREMENTAL[kind](), tmp_path / "a", **SETTINGS)
    expected = bits(unbroken.train(3, data()))
    broken = SklearnNetworkTrainer(INCREMENTAL[kind](), tmp_path / "b", callbacks=[Stop(step)], **SETTINGS)
    with pytest.raises(TrainingInterrupted, match="it continues from"):
        broken.train(3, data())
    note = Note()
    continued = SklearnNetworkTrainer(INCREMENTAL[kind](), tmp_path / "b", callbacks=[note], **SETTINGS)
    assert continued.state.global_step == step
    assert bits(continued.train(3, data())) == expected
    assert note.steps[0] == (0, step + 1)
    assert continued.state.history == unbroken.state.history


def test_an_estimator_that_is_fitted_at_once_begins_its_epoch_again(tmp_path, caplog):
    expected = bits(SklearnNetworkTrainer(RandomForestClassifier(5), tmp_path / "a", **SETTINGS).train(1, data()))
    broken = SklearnNetworkTrainer(RandomForestClassifier(5), tmp_path / "b", callbacks=[Stop(3)], **SETTINGS)
    with pytest.raises(TrainingInterrupted, match="in epoch 1, which has to begin again"):
        broken.train(1, data())
    assert "RandomForestClassifier, which is fitted at the end of the epoch, cannot be continued there" in caplog.text
    continued = SklearnNetworkTrainer(RandomForestClassifier(5), tmp_path / "b", **SETTINGS)
    assert bits(continued.train(1, data())) == expected


def test_a_run_stopped_in_the_validation_is_not_fitted_again(tmp_path, caplog):
    class InValidation:
        def update(self, y_true, y_pred):
            if (
                not trainer.state.history
                and len(y_true) == BATCH_SIZE
                and trainer.backend.calls.is_ready(trainer.module)
            ):
                os.kill(os.getpid(), signal.SIGTERM)

        def reset(self): ...

        def compute(self):
            return 1.0

    settings = {**SETTINGS, "val_metrics": {"stop": InValidation()}}
    trainer = SklearnNetworkTrainer(RandomForestClassifier(5), tmp_path, **settings)
    with pytest.raises(TrainingInterrupted, match="after step 5 of epoch 1"):
        trainer.train(1, data(), data())
    fitted = bits(trainer.module)
    note = Note()
    continued = SklearnNetworkTrainer(RandomForestClassifier(5), tmp_path, callbacks=[note], **SETTINGS)
    assert bits(continued.module) == fitted
    continued.module.estimator.fit = None  # anything that fits again fails
    continued.train(1, data(), data())
    assert note.steps == []
    assert continued.state.history[0]["accuracy"] == continued.state.history[0]["val_accuracy"] > 0.9
    assert "nothing to do" not in caplog.text


def test_a_finished_run_is_read_not_fitted_again(tmp_path):
    first = SklearnNetworkTrainer(SVC(), tmp_path, **SETTINGS).train(1, data())
    note = Note()
    again = SklearnNetworkTrainer(SVC(), tmp_path, callbacks=[note], **SETTINGS)
    assert bits(again.train(1, data())) == bits(first)
    assert note.steps == []


def test_the_best_epoch_is_loaded(tmp_path):
    settings = {**SETTINGS, "val_score_key": "accuracy", "val_score_mode": "max"}
    trainer = SklearnNetworkTrainer(SGDClassifier(), tmp_path, **settings)
    network = trainer.train(6, data(), data(100))
    scores = [record["val_accuracy"] for record in trainer.state.history]
    assert trainer.state.best_epoch == 1 + int(np.argmax(scores))
    x, y = load_digits(return_X_y=True)
    assert accuracy(y[:100], network(x[:100].astype(np.float32))["pred"]) == pytest.approx(max(scores))


def kfold(path, *callbacks, **options):
    settings = {**SETTINGS, "callbacks": list(callbacks)}
    experiment = SklearnExperiment.of(RandomForestClassifier(4), name="forest", save_path=path, **settings)
    return experiment.kfold(data(), {"accuracy": accuracy}, num_splits=3, **options)


class Die:
    """Ends the process in the second fold."""

    def __init__(self, number):
        self.number = number

    def at_iter_end(self, trainer, **facts):
        if trainer.fold == 1 and trainer.state.global_step == 2:
            os.kill(os.getpid(), self.number)


def check_resumed(tmp_path):
    note = Note()
    resumed = kfold(tmp_path / "broken", note, resume="auto")
    assert [fold for fold, _ in note.steps] == []  # each fold has a copy of the callback
    steps = [{fold for fold, _ in fold.callbacks[0].steps} for fold in resumed.folds]
    assert steps == [set(), {1}, {2}]
    unbroken = kfold(tmp_path / "unbroken", Note())
    for left, right in zip(resumed.folds, unbroken.folds, strict=True):
        assert np.array_equal(left.predictions["pred"], right.predictions["pred"])
    assert len([*(tmp_path / "broken" / "forest").iterdir()]) == 1


def test_a_cross_validation_that_was_stopped_goes_on_and_fits_no_finished_fold_again(tmp_path):
    with pytest.raises(TrainingInterrupted, match="in epoch 1, which has to begin again"):
        kfold(tmp_path / "broken", Die(signal.SIGTERM))
    check_resumed(tmp_path)


@pytest.mark.slow
def test_a_cross_validation_whose_process_was_killed_goes_on(tmp_path):
    script = (
        f"import sys, signal; sys.path.insert(0, {str(Path(__file__).resolve().parent)!r})\n"
        f"import test_sklearn_checkpoints as here; here.kfold({str(tmp_path / 'broken')!r}, here.Die(signal.SIGKILL))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    check_resumed(tmp_path)


# ---- what is in the files


@pytest.mark.parametrize("estimator", [RandomForestClassifier(3, random_state=0), MLPClassifier((4,), random_state=0)])
def test_equal_estimators_give_equal_bytes(estimator):
    trees = []
    for _ in range(2):
        network = SklearnEstimator(clone(estimator), classes=range(10))
        network.learn(INPUTS, load_digits(return_X_y=True)[1][:200], batch=network.is_incremental)
        trees.append(SklearnNetworkTrainer.backend.checkpoints.state_tree(network, {}))
        network.keep = trees  # the memory of the first is not used again
    assert trees[0]["model"]["estimator"].tobytes() == trees[1]["model"]["estimator"].tobytes()


MADE_OF_CYTHON = [
    GradientBoostingClassifier(n_estimators=2),
    HistGradientBoostingRegressor(max_iter=2),
    KNeighborsClassifier(algorithm="kd_tree"),
    KNeighborsClassifier(algorithm="ball_tree", metric="manhattan"),
    GaussianProcessRegressor(),
    GridSearchCV(SVC(), {"C": [1, 2]}, cv=2),
    make_pipeline(FunctionTransformer(np.log1p), StandardScaler(), Ridge()),
]


@pytest.mark.parametrize("estimator", MADE_OF_CYTHON, ids=lambda estimator: type(estimator).__name__)
def test_what_scikit_learn_is_made_of_is_trusted(estimator, tmp_path):
    network = SklearnEstimator(estimator)
    network.learn(INPUTS[:60], load_digits(return_X_y=True)[1][:60], batch=False)
    save_checkpoint_sklearn(tmp_path / "file", network, epoch=3)
    fresh = SklearnEstimator(network.init_kwargs["estimator"])
    assert load_checkpoint_sklearn(tmp_path / "file", fresh) == {"model": fresh, "epoch": 3}
    assert np.array_equal(fresh(INPUTS)["pred"], network(INPUTS)["pred"])


class Learned:
    """What an estimator of a third party keeps."""

    def __init__(self, label):
        self.label = label


class Majority(ClassifierMixin, BaseEstimator):
    """An estimator of a third party."""

    def fit(self, x, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.learned_ = Learned(self.classes_[counts.argmax()])
        return self

    def predict(self, x):
        return np.full(len(x), self.learned_.label)


def test_an_estimator_of_a_third_party_says_what_must_be_trusted(tmp_path):
    trained = SklearnNetworkTrainer(Majority(), tmp_path, val_score_key="accuracy", val_score_mode="max", **SETTINGS)
    said = r"the fitted Majority holds objects of .*Learned; .*SklearnEstimator\(estimator, trusted=\['.*Learned'\]\)"
    with pytest.warns(UserWarning, match=said) as caught:
        network = trained.train(1, data(), data(100))  # in the same process its own files are trusted
    assert len(caught) == 1
    assert network(INPUTS[:3])["pred"].shape == (3, 10)
    with pytest.raises(CheckpointError, match=r"objects of .*Learned, which could run code.*trusted=\['.*Learned'\]"):
        SklearnNetworkTrainer(Majority(), tmp_path, **SETTINGS)
    for trusted in (Learned, f"{__name__}.Learned"):
        again = SklearnNetworkTrainer(SklearnEstimator(Majority(), trusted=[trusted]), tmp_path, **SETTINGS)
        assert np.array_equal(again.module(INPUTS)["pred"], network(INPUTS)["pred"])


def test_a_pipeline_of_texts_goes_on_from_its_checkpoint(tmp_path):
    texts = {"data": np.array(["good film", "bad film", "very good", "so bad"] * 5), "label": np.tile([1, 0], 10)}
    pipeline = make_pipeline(TfidfVectorizer(), SVC())
    network = SklearnNetworkTrainer(pipeline, tmp_path, **SETTINGS).train(1, BaseDataManager(texts, 5))
    again = SklearnNetworkTrainer(make_pipeline(TfidfVectorizer(), SVC()), tmp_path, **SETTINGS)
    assert again.state.epoch == 1
    assert np.array_equal(again.module(texts["data"])["pred"], network(texts["data"])["pred"])


def test_what_cannot_be_written_is_refused_before_the_training(tmp_path):
    odd = make_pipeline(FunctionTransformer(lambda x: x), SVC())
    with pytest.raises(CheckpointError, match=r"of the Pipeline could not be read: .*lambda.*Write functions by def"):
        SklearnNetworkTrainer(odd, tmp_path, **SETTINGS)


def tampered(tmp_path, estimator, change):
    path = tmp_path / "checkpoint.zip"
    network = SklearnEstimator(estimator)
    network.learn(INPUTS[:60], load_digits(return_X_y=True)[1][:60], batch=False)
    save_checkpoint_sklearn(path, network)
    tree = read_tree(path)
    tree["model"]["estimator"] = change(tree["model"]["estimator"])
    with path.open("wb") as file:
        write_tree(file, tree)
    return path, network


def test_a_file_that_names_what_could_run_code_is_refused_and_changes_nothing(tmp_path):
    def swap(content):
        text = skops.dumps(FunctionTransformer(func=os.system))
        return np.frombuffer(text, dtype=np.uint8)

    path, network = tampered(tmp_path, GaussianNB(), swap)
    before = bits(network)
    with pytest.raises(CheckpointError, match=r"checkpoint.zip: it holds objects of .*system, which could run code"):
        load_checkpoint_sklearn(path, network)
    assert bits(network) == before


@pytest.mark.parametrize("change", [lambda c: c[:-40], lambda c: np.zeros(50, np.uint8), lambda c: c[50:]])
def test_garbage_is_no_estimator(change, tmp_path):
    path, network = tampered(tmp_path, GaussianNB(), change)
    with pytest.raises(CheckpointError, match="it holds no estimator that skops can read"):
        load_checkpoint_sklearn(path, network)


def test_a_compressed_file_is_refused(tmp_path):
    import zipfile

    def compress(content):
        text = skops.dumps(GaussianNB(), compression=zipfile.ZIP_DEFLATED)
        return np.frombuffer(text, dtype=np.uint8)

    path, network = tampered(tmp_path, GaussianNB(), compress)
    with pytest.raises(CheckpointError, match="it is compressed"):
        load_checkpoint_sklearn(path, network)


def test_a_damaged_file_is_told_apart(tmp_path):
    path = tmp_path / "file.zip"
    save_checkpoint_sklearn(path, SklearnEstimator(GaussianNB()))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"file\.zip"):
        load_checkpoint_sklearn(path, SklearnEstimator(GaussianNB()))


def test_an_estimator_of_another_class_or_with_other_parameters_is_refused(tmp_path):
    SklearnNetworkTrainer(make_pipeline(StandardScaler(), SVC(C=2)), tmp_path, **SETTINGS).train(1, data())
    with pytest.raises(CheckpointError, match="the checkpoint is of a Pipeline, the network is a SVC"):
        SklearnNetworkTrainer(SVC(), tmp_path, **SETTINGS)
    with pytest.raises(CheckpointError, match=r"with other parameters: svc__C=2 \(now 3\)"):
        SklearnNetworkTrainer(make_pipeline(StandardScaler(), SVC(C=3)), tmp_path, **SETTINGS)
    talkative = make_pipeline(StandardScaler(), SVC(C=2, verbose=True))
    assert SklearnNetworkTrainer(talkative, tmp_path, **SETTINGS).module.estimator[-1].verbose is True


def test_a_checkpoint_of_another_backend_is_refused(tmp_path):
    with (tmp_path / "file.zip").open("wb") as file:
        write_tree(file, {"model": {"weight": np.zeros(3)}, "epoch": 1})
    with pytest.raises(CheckpointError, match="it holds no estimator, so it is none of this backend"):
        load_checkpoint_sklearn(tmp_path / "file.zip", SklearnEstimator(SVC()))


def test_without_skops_a_training_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(MissingBackendError, match=r"needs the package 'skops.io'.*pip install 'delira\[sklearn\]'"):
        SklearnNetworkTrainer(SVC(), tmp_path, **SETTINGS)
    network = SklearnEstimator(GaussianNB())
    network.learn(INPUTS, load_digits(return_X_y=True)[1][:200], batch=False)
    assert network(INPUTS)["pred"].shape == (200, 10)


# ---- for other programs


def test_the_exported_file_is_a_plain_estimator(tmp_path):
    network = SklearnNetworkTrainer(RandomForestClassifier(3), tmp_path, **SETTINGS).train(1, data())
    path = delira.io.export(network, tmp_path / "forest.skops", {"data": INPUTS})
    estimator = skops.load(path, trusted=["sklearn.tree._tree.Tree"])
    assert np.array_equal(estimator.predict_proba(INPUTS), network(INPUTS)["pred"])
    with pytest.raises(ConfigError, match=r"exported as \.skops"):
        delira.io.export(network, tmp_path / "forest.onnx", {"data": INPUTS})
    with pytest.raises(NetworkError, match="SVC is not fitted"):
        delira.io.export(SklearnEstimator(SVC()), tmp_path / "svc.skops", {"data": INPUTS})


LINEAR = {
    "logistic": (lambda: LogisticRegression(max_iter=300), {"coef_", "intercept_"}),
    "no intercept": (lambda: Ridge(fit_intercept=False), {"coef_", "intercept_"}),
    "averaged": (lambda: SGDRegressor(average=2), {"coef_", "intercept_"}),
    "pipeline": (lambda: make_pipeline(StandardScaler(), Ridge()), {"ridge.coef_", "ridge.intercept_"}),
    "perceptron": (lambda: MLPClassifier((4,)), {"coefs_.0", "coefs_.1", "intercepts_.0", "intercepts_.1"}),
}


@pytest.mark.parametrize("kind", LINEAR)
def test_weights_by_name(kind, tmp_path):
    make, names = LINEAR[kind]
    trained, other = (
        SklearnNetworkTrainer(make(), tmp_path / str(seed), seed=seed, logging_type=None, verbose=False).train(
            1, data(n)
        )
        for seed, n in ((0, 200), (1, 160))
    )
    weights = named_weights(trained)
    assert weights.keys() == names
    assert not np.array_equal(other(INPUTS)["pred"], trained(INPUTS)["pred"])
    load_named_weights(other, weights)
    expected = other.estimator[:-1].transform(INPUTS) if kind == "pipeline" else INPUTS
    own = trained.estimator[-1] if kind == "pipeline" else trained
    predicted = own.predict(expected) if kind == "pipeline" else own(INPUTS)["pred"]
    assert np.array_equal(other(INPUTS)["pred"], predicted)
    with pytest.raises(CheckpointError, match="missing: "):
        load_named_weights(other, {})


def test_an_estimator_without_weights_says_so():
    with pytest.raises(ConfigError, match=r"RandomForestClassifier has no coef_ or intercept_"):
        named_weights(SklearnEstimator(RandomForestClassifier()))


def test_sparse_arrays_are_stored_as_they_are_and_compressed_ones_refused():
    skops_io = pytest.importorskip("skops.io")
    texts, labels = np.array(["a cat sat", "a dog ran", "cats sit", "dogs run"] * 3), np.arange(12) % 2
    learned = make_pipeline(TfidfVectorizer(), SVC()).fit(texts, labels)
    content, _ = estimators.dump(learned)
    again = estimators.load(content, ())
    assert (again.predict(texts) == learned.predict(texts)).all()
    with zipfile.ZipFile(io.BytesIO(content.tobytes())) as archive:
        assert any(name.endswith(".npz") for name in archive.namelist())
    bomb = np.frombuffer(skops_io.dumps(sparse.csr_matrix(np.zeros((1, 2)))), np.uint8)  # skops compresses them
    with pytest.raises(CheckpointError, match="nobody knows how large"):
        estimators.load(bomb, ())
