"""Preprocessing in runs: applied everywhere, stored with the fold, the same when a run goes on; refused at the door."""

import copy
import shutil

import numpy as np
import pytest
from problems import linear_problem
from small_backends import build_kit

pytest.importorskip("sklearn")
pytest.importorskip("skops", reason="what was fitted is stored by the package 'skops', which is not installed")

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PowerTransformer, StandardScaler, TargetEncoder

from delira.cli.verify import verify
from delira.data_loading import BaseDataManager, BaseLazyDataset, FittedPreprocessing
from delira.errors import CheckpointError, ConfigError, DataError, MissingKeyError
from delira.training import KFoldResult, Predictor, Preprocessing, load_preprocessing
from delira.training.callbacks import AbstractCallback


class Halved(TransformerMixin, BaseEstimator):
    """A transformer of a user's own."""

    def fit(self, x, y=None):
        self.middle_ = np.asarray(x).mean(axis=0) / 2
        return self

    def transform(self, x):
        return x - self.middle_


class Interrupted(Exception):
    """Ends a run before its time."""


class StopAt(AbstractCallback):
    def __init__(self, *at):
        self.at = at

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        if (trainer.fold, curr_epoch) == self.at:
            raise Interrupted(str(self.at))

    def __deepcopy__(self, memo):
        return self


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def shifted(n=20, **more):
    """A problem whose inputs are far from 0, so that nothing works without what was learned of them."""
    arrays = linear_problem(n)
    return BaseDataManager({**arrays, "data": (arrays["data"] * 30 + 100).astype("f4")}, 4, **more)


def experiment_of(kit, path, **training):
    training = {"num_epochs": 2, "save_freq": 1, "val_metrics": {"rmse": rmse}, **training}
    return kit.experiment(path, training=training)


SPLITS = {"num_splits": 2, "shuffle": True, "random_seed": 4, "val_split": 0.3}
SCALED = {"data": StandardScaler()}


def content(result):
    return [(fold.metrics["rmse"].tobytes(), fold.predictions["pred"].tobytes(), fold.history) for fold in result.folds]


# ---- applied everywhere


def test_a_trained_network_is_tested_and_predicts_with_what_was_learned(kit, tmp_path):
    data = shifted()
    train, test = data.get_subset(range(12)), data.get_subset(range(12, 20))
    experiment = experiment_of(kit, tmp_path)
    network = experiment.run(train, test, preprocessing=SCALED)
    raw = test.dataset.get_batch(np.arange(8))
    by_hand = StandardScaler().fit(data.dataset.data["data"][:12])
    scaled = {**raw, "data": by_hand.transform(raw["data"]).astype("f4")}
    bare = Predictor(network, preprocessing=FittedPreprocessing({}), backend=kit.backend)
    expected = bare.predict(scaled)["pred"]
    assert np.abs(expected - bare.predict(raw)["pred"]).max() > 1
    predictions, metrics = experiment.test(network, test)
    np.testing.assert_allclose(predictions["pred"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(metrics["rmse"], rmse(raw["label"], expected), rtol=1e-5)
    np.testing.assert_allclose(experiment.test(network, [raw])[0]["pred"], expected, rtol=1e-5, atol=1e-6)
    for predictor in (Predictor(network, backend=kit.backend), experiment.setup(training=False, model=network),
                      experiment.last_trainer):  # fmt: skip
        np.testing.assert_allclose(predictor.predict(raw)["pred"], expected, rtol=1e-5, atol=1e-6)
    assert experiment.last_trainer.state.history[-1]["val_rmse"] == pytest.approx(
        rmse(raw["label"], expected), rel=1e-5
    )
    assert test.preprocessing is None


def test_a_loaded_one_is_that_of_the_run(tmp_path):
    kit, data = build_kit("toy"), shifted()
    experiment = experiment_of(kit, tmp_path)
    network = experiment.run(data, preprocessing=SCALED)
    folder = experiment.last_trainer.save_path
    expected, _ = experiment.test(network, data)
    for place in (folder, folder / "preprocessing.zip", next((folder / "checkpoints").iterdir())):
        fitted = load_preprocessing(place)
        bare = copy.deepcopy(network)
        bare.__dict__.pop("_delira_preprocessing", None)
        found, _ = experiment.test(bare, data.with_preprocessing(fitted))
        np.testing.assert_array_equal(found["pred"], expected["pred"])
    with pytest.raises(ConfigError, match=r"there is no preprocessing.zip in '.*checkpoints': pass the folder of a"):
        load_preprocessing(folder / "checkpoints")


def test_workers_do_it_and_the_numbers_are_the_same(tmp_path):
    kit = build_kit("toy")
    results = [
        experiment_of(kit, tmp_path / str(number)).kfold(
            shifted(n_process_augmentation=number), preprocessing={"data": make_pipeline(StandardScaler(), PCA(3))},
            **SPLITS,
        )
        for number in (0, 2)
    ]  # fmt: skip
    assert content(results[0]) == content(results[1])


def test_it_comes_before_the_transforms_and_the_augmentation_is_not_learned(tmp_path):
    kit, seen = build_kit("toy"), []

    def transform(batch):
        seen.append(float(np.abs(batch["data"]).max()))
        return {**batch, "data": batch["data"] + 1e3}

    result = experiment_of(kit, tmp_path).kfold(
        shifted(), preprocessing=SCALED, train_kwargs={"transforms": transform}, optimizer_params={"lr": 0.0}, **SPLITS
    )
    assert max(seen) < 10
    for fold in result.folds:
        rows = shifted().dataset.data["data"][fold.train_indices]
        learned = load_preprocessing(fold.path).transformers["data"]
        np.testing.assert_array_equal(learned.mean_, StandardScaler().fit(rows).mean_)


# ---- stored with the fold


def test_a_fold_tells_where_its_fitted_preprocessing_lies_and_verify_looks_at_it(tmp_path):
    result = experiment_of(build_kit("toy"), tmp_path).kfold(shifted(), preprocessing=SCALED, **SPLITS)
    files = [fold.preprocessing for fold in result.folds]
    assert files == [result.path / f"fold_{number:02d}" / "preprocessing.zip" for number in (0, 1)]
    loaded = KFoldResult.load(result.path)
    assert [fold.preprocessing for fold in loaded.folds] == files
    assert "StandardScaler" in loaded.info["settings"]
    assert "StandardScaler" in result.info["settings"]
    assert not verify([result.path]).is_broken
    files[0].write_bytes(files[0].read_bytes()[:-30])
    files[1].unlink()
    answer = verify([result.path])
    assert answer.is_broken
    assert "fold_00/preprocessing.zip" in answer.text
    assert "what was fitted on the training part is lost" in " ".join(answer.text.split())


def test_a_run_that_goes_on_takes_the_stored_one_and_gives_the_same_bits(tmp_path):
    kit, seed_drawn = build_kit("toy"), {"data": PCA(3, svd_solver="randomized")}
    whole = experiment_of(kit, tmp_path / "whole").kfold(shifted(), preprocessing=seed_drawn, **SPLITS)
    experiment = experiment_of(kit, tmp_path / "broken")
    with pytest.raises(Interrupted):
        experiment.kfold(shifted(), preprocessing=seed_drawn, callbacks=[StopAt(1, 1)], **SPLITS)
    (folder,) = (tmp_path / "broken" / "UnnamedExperiment").iterdir()
    before = (folder / "fold_01" / "preprocessing.zip").stat().st_mtime_ns
    resumed = experiment.kfold(shifted(), preprocessing=seed_drawn, resume=folder, **SPLITS)
    assert content(resumed) == content(whole)
    assert (folder / "fold_01" / "preprocessing.zip").stat().st_mtime_ns == before


def test_another_preprocessing_is_another_run(tmp_path):
    kit = build_kit("toy")
    experiment = experiment_of(kit, tmp_path)
    first = experiment.kfold(shifted(), preprocessing=SCALED, **SPLITS)
    for asked, told in (
        (None, r"data.preprocessing: \{.* in the run, not given now"),
        ({"data": StandardScaler(with_mean=False)}, r"with_mean.* in the run"),
        ({"data": PCA(3)}, r"data\.preprocessing\.data: .*StandardScaler.* in the run, .*PCA.* now"),
    ):
        with pytest.raises(ConfigError, match=told):
            experiment.kfold(shifted(), preprocessing=asked, resume=first.path, **SPLITS)
    same = experiment.kfold(shifted(), preprocessing={"data": StandardScaler()}, resume=first.path, **SPLITS)
    assert content(same) == content(first)


def test_a_damaged_one_is_an_error_and_not_fitted_anew(tmp_path):
    experiment = experiment_of(build_kit("toy"), tmp_path)
    experiment.run(shifted(), preprocessing=SCALED)
    folder = experiment.last_trainer.save_path
    file = folder / "preprocessing.zip"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"preprocessing\.zip"):
        experiment.run(shifted(), preprocessing=SCALED, resume=folder, num_epochs=3)


# ---- types that are trusted, and others


def test_a_type_of_ones_own_is_refused_at_the_door_unless_it_is_trusted(tmp_path):
    kit = build_kit("toy")
    name = f"{Halved.__module__}.Halved"
    experiment = experiment_of(kit, tmp_path)
    with pytest.raises(ConfigError, match=rf"preprocessing\['data'\] is made of {name}, .*trusted=\['{name}'\]"):
        experiment.kfold(shifted(), preprocessing={"data": Halved()}, **SPLITS)
    assert not [*(tmp_path / "UnnamedExperiment").iterdir()]
    own = Preprocessing({"data": make_pipeline(Halved(), StandardScaler())}, trusted=[name])
    result = experiment.kfold(shifted(), preprocessing=own, **SPLITS)
    with pytest.raises(CheckpointError, match=rf"holds objects of {name}.*load_preprocessing\(path, trusted="):
        load_preprocessing(result.folds[0].path)
    fitted = load_preprocessing(result.folds[0].path, trusted=[Halved])
    rows = shifted().dataset.data["data"][result.folds[0].train_indices]
    np.testing.assert_array_equal(fitted.transformers["data"][0].middle_, rows.mean(axis=0) / 2)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            StandardScaler(),
            r"must be a dict of transformers by entry, e.g. \{'data': StandardScaler\(\)\}, got Standard",
        ),
        ({}, "must be a dict of transformers by entry"),
        ("scale", "must be a dict of transformers by entry"),
        (True, "must be a dict of transformers by entry"),
        ({"data": StandardScaler}, r"preprocessing\['data'\] is the class StandardScaler; pass an instance"),
        ({"data": [StandardScaler(), PCA()]}, r"is a list; make one of several with make_pipeline"),
        (
            {"data": LogisticRegression()},
            r"LogisticRegression, which is no transformer of scikit-learn: it has no tran",
        ),
        ({"data": np.log1p}, r"no transformer of scikit-learn: it has no fit; .* transforms of the data manager"),
        ({"data": None}, r"no transformer"),
        ({"data": TargetEncoder()}, r"TargetEncoder, which learns from labels"),
        ({5: StandardScaler()}, r"must name entries of the batch, got 5"),
        ({"data": FunctionTransformer(lambda x: x)}, r"is made of .*<lambda>, which no file can name"),
        ({"data": FunctionTransformer(shutil.rmtree)}, r"is made of shutil.rmtree, which could run code"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # a function's text is another one in each process
)
def test_what_is_no_preprocessing_is_refused_before_there_is_a_folder(tmp_path, asked, message):
    experiment = experiment_of(build_kit("toy"), tmp_path)
    with pytest.raises(ConfigError, match=message):
        experiment.kfold(shifted(), preprocessing=asked, **SPLITS)
    with pytest.raises(ConfigError, match=message):
        experiment.run(shifted(), preprocessing=asked)
    assert not [*(tmp_path / "UnnamedExperiment").iterdir()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trusted": "a.B"}, r"trusted must be a list of names, got 'a.B'; write trusted=\['a.B'\]"),
        ({"max_bytes": 0}, "max_bytes must be an integer of at least 1"),
        ({"max_bytes": 1e9}, "max_bytes must be an integer of at least 1"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Preprocessing(SCALED, **options)


def test_an_entry_that_is_not_there_and_a_target_are_refused(tmp_path):
    experiment = experiment_of(build_kit("toy"), tmp_path)
    with pytest.raises(MissingKeyError, match=r"preprocessing names 'dta', .*did you mean 'data'"):
        experiment.kfold(shifted(), preprocessing={"dta": StandardScaler()}, **SPLITS)
    with pytest.raises(ConfigError, match=r"names 'label', which losses .* other units in every fold"):
        experiment.kfold(shifted(), preprocessing={"label": StandardScaler()}, **SPLITS)


def test_run_needs_data_managers(tmp_path):
    experiment = experiment_of(build_kit("toy"), tmp_path)
    batches = [shifted().first_batch(0)]
    with pytest.raises(ConfigError, match="the training data are a list; wrap the dataset"):
        experiment.run(batches, preprocessing=SCALED)
    with pytest.raises(ConfigError, match="the validation data are a list"):
        experiment.run(shifted(), batches, preprocessing=SCALED)
    with pytest.raises(ConfigError, match=r"with_preprocessing takes what was fitted .* got a StandardScaler"):
        shifted().with_preprocessing(StandardScaler())


def test_what_is_too_large_to_be_fitted_at_once_is_refused_with_the_cure(tmp_path):
    arrays = shifted().dataset.data
    dataset = BaseLazyDataset(
        [*range(20)], load_fn=lambda number: {key: value[number] for key, value in arrays.items()}
    )
    small = Preprocessing({"data": PCA(3)}, max_bytes=20)
    with pytest.raises(ConfigError, match=r"PCA has no partial_fit .*IncrementalPCA.* max_bytes=\d+\)"):
        experiment_of(build_kit("toy"), tmp_path).run(BaseDataManager(dataset, 4), preprocessing=small)
    piecewise = Preprocessing(SCALED, max_bytes=60)
    experiment = experiment_of(build_kit("toy"), tmp_path)
    experiment.run(BaseDataManager(dataset, 4), preprocessing=piecewise)
    learned = load_preprocessing(experiment.last_trainer.save_path).transformers["data"]
    np.testing.assert_allclose(learned.mean_, arrays["data"].mean(axis=0), rtol=1e-6)
    assert learned.n_samples_seen_ == 20


def test_what_makes_no_row_of_a_sample_is_told(tmp_path):
    class Doubling:
        def transform(self, rows):
            return np.concatenate([rows, rows])

    with pytest.raises(DataError, match=r"made shape \(8, 2\) of rows of shape \(4, 2\); it must make one row of each"):
        FittedPreprocessing({"data": Doubling()})({"data": np.zeros((4, 2))})


def test_the_arrays_of_a_user_stay_as_they_are_and_sparse_ones_are_filled():
    values = np.arange(8.0).reshape(4, 2)
    kept = values.copy()
    in_place = StandardScaler(copy=False).fit(values.copy())
    FittedPreprocessing({"data": in_place})({"data": values})
    np.testing.assert_array_equal(values, kept)
    codes = np.array([[0], [2], [1]])
    made = FittedPreprocessing({"code": OneHotEncoder().fit(codes)})({"code": codes})["code"]
    np.testing.assert_array_equal(made, np.eye(3)[[0, 2, 1]])


def test_transformers_that_learn_more_than_numbers_are_stored(tmp_path):
    values = np.abs(shifted().dataset.data["data"]) + 1
    each = ColumnTransformer([("a", PowerTransformer(), [0, 1]), ("b", StandardScaler(), [2])])
    experiment = experiment_of(build_kit("toy"), tmp_path)
    experiment.run(shifted(), preprocessing={"data": each})
    assert load_preprocessing(experiment.last_trainer.save_path)({"data": values})["data"].shape == (20, 3)


def test_two_that_have_learned_differently_are_told_apart_by_a_fingerprint():
    data = shifted()
    marks = set()
    for rows in (np.zeros((2, 3)), np.eye(3), np.eye(3)):
        for kind in (StandardScaler(), make_pipeline(StandardScaler())):
            described = data.with_preprocessing(FittedPreprocessing({"data": kind.fit(rows)})).describe()
            marks.add(described["preprocessing"]["sha256"])
    assert len(marks) == 4
    assert "preprocessing" not in data.describe()
