"""Preprocessing that learns is that of scikit-learn by hand, on the training part of each fold and on nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_backends import build_kit

pytest.importorskip("sklearn")
pytest.importorskip("skops", reason="what was fitted is stored by the package 'skops', which is not installed")

from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from delira.data_loading import BaseDataManager, BaseLazyDataset
from delira.training import load_preprocessing
from delira.training.callbacks import AbstractCallback


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def problem(n=24, shape=(3,), dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    data = rng.normal(3, 2, size=(n, *shape)) * np.linspace(1, 5, int(np.prod(shape))).reshape(shape)
    return {"data": data.astype(dtype), "label": rng.normal(size=(n, 1)), "number": np.arange(n)}


class Seen(AbstractCallback):
    """Keeps what the network was given, by phase and number of the sample."""

    def __init__(self):
        self.train, self.held_out = {}, {}

    def at_iter_begin(self, trainer, *, data_dict, train, **facts):
        self.train.setdefault(trainer.fold, {}).update(
            zip(data_dict["number"].tolist(), np.asarray(data_dict["data"]), strict=True)
        )

    def __deepcopy__(self, memo):
        return self


def seen_input(y_true, y_pred):
    """A metric whose target is the input: the result keeps it."""
    return float(np.mean(y_true))


def kfold(path, arrays, preprocessing, *, n_features=3, batch_size=5, seen=None, **options):
    metrics = {"val_metrics": {"rmse": rmse, "input": seen_input}, "metric_keys": {"input": ("data", "pred")}}
    experiment = build_kit("toy").experiment(path, {"n_features": n_features}, training={"num_epochs": 1, **metrics})
    return experiment.kfold(
        arrays if isinstance(arrays, BaseDataManager) else BaseDataManager(arrays, batch_size),
        num_splits=3, val_split=0.25, preprocessing=preprocessing, callbacks=[seen] if seen else [],
        **{"shuffle": True, "random_seed": 1, **options},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("transformer", "n_out"),
    [
        (StandardScaler(), 3),
        (MinMaxScaler(), 3),
        (make_pipeline(SimpleImputer(), StandardScaler()), 3),
        (PCA(2), 2),
    ],
    ids=str,
)
@settings(max_examples=3)
@given(seed=st.integers(0, 1000), n=st.integers(15, 40))
def test_each_fold_sees_what_scikit_learn_makes_by_hand(tmp_path_factory, transformer, n_out, seed, n):
    arrays, seen = problem(n, seed=seed), Seen()
    arrays["data"][::5, 0] = np.nan if "imputer" in str(transformer).lower() else 1
    result = kfold(tmp_path_factory.mktemp("run"), arrays, {"data": transformer}, n_features=n_out, seen=seen)
    splits = KFold(3, shuffle=True, random_state=1).split(arrays["data"])
    for fold, (rest, test) in zip(result.folds, splits, strict=True):
        assert sorted(fold.test_indices) == sorted(test)
        train = np.setdiff1d(rest, fold.val_indices)
        assert sorted(fold.train_indices) == train.tolist()
        by_hand = transformer.fit(arrays["data"][fold.train_indices])
        np.testing.assert_array_equal(fold.targets["data"], by_hand.transform(arrays["data"][fold.test_indices]))
        assert fold.targets["data"].dtype == np.float32
        assert sorted(seen.train[fold.fold]) == sorted(fold.train_indices)
        for number, row in seen.train[fold.fold].items():
            np.testing.assert_allclose(row, by_hand.transform(arrays["data"][[number]])[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("part", ["test", "val"])
def test_an_outlier_in_a_part_that_is_held_out_changes_nothing_that_was_learned(tmp_path, part):
    arrays = problem()
    before = kfold(tmp_path / "before", arrays, {"data": StandardScaler()})
    fold = before.folds[0]
    held_out = fold.test_indices if part == "test" else fold.val_indices
    changed = {**arrays, "data": arrays["data"].copy()}
    changed["data"][held_out[0]] = 1e6
    after = kfold(tmp_path / "after", changed, {"data": StandardScaler()})
    learned = [load_preprocessing(result.folds[0].path).transformers["data"] for result in (before, after)]
    np.testing.assert_array_equal(learned[0].mean_, learned[1].mean_)
    np.testing.assert_array_equal(learned[0].scale_, learned[1].scale_)
    leaking = StandardScaler().fit(changed["data"]).mean_
    assert np.abs(leaking - learned[1].mean_).min() > 1e4


def test_the_validation_is_scored_on_what_was_transformed(tmp_path):
    arrays = problem()
    result = kfold(tmp_path, arrays, {"data": StandardScaler()})
    for fold in result.folds:
        by_hand = StandardScaler().fit(arrays["data"][fold.train_indices])
        expected = by_hand.transform(arrays["data"][fold.val_indices]).mean()
        assert fold.history[0]["val_input"] == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 3), ()])
def test_samples_keep_their_shape_and_single_numbers_stay_numbers(tmp_path, shape):
    from delira.data_loading import FittedPreprocessing

    values = problem(12, shape)["data"]
    rows = values.reshape(12, -1)
    fitted = FittedPreprocessing({"data": StandardScaler().fit(rows)})
    made = fitted({"data": values, "label": np.arange(12)})
    assert made["data"].shape == values.shape
    np.testing.assert_array_equal(made["data"].reshape(12, -1), StandardScaler().fit_transform(rows))
    assert made["label"] is not None


@pytest.mark.parametrize(("dtype", "expected"), [("f4", "f4"), ("f8", "f8"), ("u1", "f8"), ("i8", "f8")])
def test_float32_stays_float32_and_integers_become_what_scikit_learn_makes_of_them(dtype, expected):
    from delira.data_loading import FittedPreprocessing

    values = np.arange(12).reshape(6, 2).astype(dtype)
    assert FittedPreprocessing({"x": StandardScaler().fit(values)})({"x": values})["x"].dtype == expected


@pytest.mark.parametrize("transformer", [StandardScaler(), MinMaxScaler(), IncrementalPCA(1)], ids=str)
@settings(max_examples=4)
@given(n=st.integers(9, 60), batch_size=st.integers(1, 17), max_bytes=st.integers(400, 800))
def test_piece_by_piece_it_learns_the_same_whatever_the_batches(
    tmp_path_factory, transformer, n, batch_size, max_bytes
):
    arrays = problem(n, (3,), np.float64)
    dataset = BaseLazyDataset([*range(n)], load_fn=lambda i: {key: values[i] for key, values in arrays.items()})
    whole, pieces = transformer.fit(arrays["data"]), []

    class Noting(type(transformer)):
        def partial_fit(self, rows, *more, **options):
            pieces.append(np.array(rows))
            return super().partial_fit(rows, *more, **options)

    from delira.experiments.preprocessing import _Fit

    fit = _Fit("data", Noting(**transformer.get_params()), n, max_bytes)
    for batch in BaseDataManager(dataset, batch_size):
        fit.add(batch["data"])
    learned = fit.finished()
    if n * 24 > max_bytes:
        np.testing.assert_array_equal(np.concatenate(pieces), arrays["data"])
        assert len(pieces) > 1 or n < 16
        assert max(len(piece) for piece in pieces) <= 2 * min(len(piece) for piece in pieces)
        assert max(piece.nbytes for piece in pieces) <= max(max_bytes / 4 + 24, 48)
    if not isinstance(transformer, IncrementalPCA):  # which is no exact method
        np.testing.assert_allclose(learned.transform(arrays["data"]), whole.transform(arrays["data"]), atol=1e-9)
