"""Best and worst samples as pictures: the right ones, few of them, and never the reason why a run fails."""

import warnings

import numpy as np
import pytest

from delira.experiments.result import KFoldResult
from delira.metrics import accuracy, dice, per_sample
from delira.report.examples import (
    MAX_PIXELS,
    N_EACH,
    channels_of,
    choose_examples,
    outlined,
    picture,
    read_examples,
    slice_of,
    write_examples,
)
from delira.testing import ToyExperiment, ToyNetwork, ToySGD, mean_squared_error


class Counting:
    """A data set that knows what was asked of it."""

    def __init__(self, **entries):
        self.entries, self.asked = entries, []

    def __getitem__(self, index):
        self.asked.append(index)
        return {key: values[index] for key, values in self.entries.items()}


@pytest.fixture
def images():
    return np.random.default_rng(5).random((90, 1, 12, 10)).astype(np.float32)


def squares(n, shape=(16, 16)):
    """Masks with a square, and predictions that miss ever more of it: logits of shape (n, 1, ...)."""
    true = np.zeros((n, *shape), np.int64)
    true[..., 4:12, 4:12] = 1
    logits = np.where(true, 3.0, -3.0).astype(np.float32)
    for case in range(n):
        logits[case, ..., 4 : 4 + case % 8, 4:12] = -3.0
    return true, logits[:, None]


# ------------------------------------------------------------------ which ones


def test_the_worst_and_the_best_by_the_probability_of_the_true_class(result, data, images):
    found = choose_examples(result, Counting(data=images, label=data.labels))
    probability = data.scores[np.arange(90), data.labels]
    order = np.argsort(probability, kind="stable")
    assert [e.case for e in found.examples if not e.is_best] == order[:N_EACH].tolist()
    assert [e.case for e in found.examples if e.is_best] == order[::-1][:N_EACH].tolist()
    first = found.examples[0]
    assert first.score == pytest.approx(probability[first.case])
    assert (first.fold, first.true) == (first.case % 4, str(data.labels[first.case]))
    assert found.score_name == "probability of the true class"
    assert found.is_high_good


def test_a_regression_is_ordered_by_its_error(validate, images):
    true = np.arange(40.0)
    pred = true.copy()
    pred[17] += 5
    found = choose_examples(validate(true, pred, metrics={}), Counting(data=images))
    assert found.examples[0].case == 17
    assert (found.examples[0].true, found.examples[0].predicted) == ("17", "22")
    assert found.is_high_good is False


def test_masks_are_ordered_by_dice_and_kept_with_the_picture(validate):
    true, logits = squares(24)
    images = np.random.default_rng(0).random((24, 3, 16, 16)).astype(np.float32)
    found = choose_examples(validate(true, logits, metrics={}), Counting(data=images, label=true))
    assert found.score_name == "Dice"
    assert [e.case % 8 for e in found.examples] == [7, 7, 7, 6, 6, 6, 0, 0, 0, 1, 1, 1]
    worst = found.examples[0]
    assert worst.score == pytest.approx(dice(true[7], logits[7, 0] > 0))
    assert worst.image.shape == (16, 16, 3)
    np.testing.assert_array_equal(worst.true_mask, true[7])
    np.testing.assert_array_equal(worst.predicted_mask, logits[7, 0] > 0)


def test_of_a_metric_over_samples_nobody_knows_what_is_good(validate):
    true, logits = squares(16)
    closeness = per_sample(lambda y_true, y_pred: float(y_pred.sum()))
    found = choose_examples(validate(true, logits, metrics={"closeness": closeness}), Counting(data=true[:, None]))
    assert (found.score_name, found.is_high_good) == ("closeness", None)


def test_of_a_volume_the_slice_with_most_mask_is_shown(validate):
    true = np.zeros((8, 20, 16, 16), np.int64)
    true[:, 13, 4:9, 4:9] = 1
    true[:, 12, 4:6, 4:6] = 1
    volumes = np.zeros((8, 1, 20, 16, 16), np.float32)
    volumes[:, :, 13] = np.linspace(0, 1, 16)
    scores = np.stack([1 - true, true], axis=1).astype(np.float32)
    found = choose_examples(validate(true, scores, n_folds=2, metrics={}), Counting(data=volumes))
    assert found.examples[0].words == "slice 13 of 20"
    assert found.examples[0].true_mask.sum() == 25
    assert len(np.unique(found.examples[0].image)) > 8


def test_at_most_twelve_samples_are_loaded(result, data, images):
    dataset = Counting(data=images)
    choose_examples(result, dataset)
    assert len(dataset.asked) == len(set(dataset.asked)) == 2 * N_EACH


def test_few_cases_are_shown_once(validate, images):
    found = choose_examples(validate(np.arange(3.0), np.zeros(3), n_folds=3, metrics={}), Counting(data=images))
    assert sorted(e.case for e in found.examples) == [0, 2]
    found = choose_examples(validate(np.zeros(1), np.ones(1), n_folds=1, metrics={}), Counting(data=images))
    assert [e.case for e in found.examples] == [0]


# ------------------------------------------------------------------ what cannot be shown


def test_samples_that_are_no_images_are_left_out(result, data):
    assert choose_examples(result, Counting(data=np.zeros((90, 7)))) is None
    assert choose_examples(result, Counting(text=["a"] * 90)) is None
    assert choose_examples(result, np.zeros((90, 8, 8))) is None


def test_what_has_no_score_has_no_samples(validate, images):
    assert choose_examples(validate(images, images, n_folds=2, metrics={}), Counting(data=images)) is None


def test_masks_too_large_to_be_compared_are_said_to_be_and_what_to_set(validate, images, tmp_path, monkeypatch):
    true, logits = squares(16)
    monkeypatch.setattr("delira.report.examples.MAX_VALUES", logits.size - 1)
    dataset = Counting(data=true[:, None])
    result = validate(true, logits, metrics={})
    found = choose_examples(result, dataset)
    assert (found.examples, dataset.asked) == ([], [])
    (why,) = found.notes
    assert "the predicted masks have 4,096 values in all, and more than 4,095 are not compared" in why
    write_examples(tmp_path, found)
    result.path = tmp_path
    html = result.to_html()
    assert "<h2>Samples</h2>" in html
    assert "metrics={&#39;dice&#39;: delira.metrics.dice}" in html
    masked = validate(true, logits[:, 0] > 0, metrics={"dice": dice})  # what it says to do
    assert len(choose_examples(masked, dataset).examples) == 2 * N_EACH
    monkeypatch.undo()
    assert choose_examples(validate(true, logits, metrics={}), dataset).examples


def test_a_data_set_that_fails_is_a_word_on_the_page(result, images, tmp_path):
    class Failing(Counting):
        def __getitem__(self, index):
            if index % 2:
                raise OSError(f"disk <gone> {index}")
            return super().__getitem__(index)

    found = choose_examples(result, Failing(data=images))
    assert found.examples
    assert all(e.case % 2 == 0 for e in found.examples)
    assert len(found.examples) + len(found.notes) == 2 * N_EACH
    write_examples(tmp_path, found)
    result.path = tmp_path
    assert "could not be shown: OSError: disk &lt;gone&gt;" in result.to_html()


def test_a_slow_data_set_is_not_waited_for(result, images, monkeypatch):
    monkeypatch.setattr("delira.report.examples.MAX_SECONDS", -1.0)
    found = choose_examples(result, Counting(data=images))
    assert list(found.examples) == []
    assert found.notes[0].startswith("Loading samples took longer than")


# ------------------------------------------------------------------ pictures


@pytest.mark.parametrize(
    ("shape", "space", "is_colour", "words"),
    [
        ((30, 40), (30, 40), False, ""),
        ((1, 30, 40), (30, 40), False, ""),
        ((30, 40, 3), (30, 40), True, ""),
        ((3, 30, 40), (30, 40), True, ""),
        ((5, 30, 40), (30, 40), False, "channel 0 of 5"),
        ((1, 20, 30, 40), (20, 30, 40), False, ""),
        ((4, 20, 30, 40), (20, 30, 40), False, "channel 0 of 4"),
        ((20, 30, 40), (20, 30, 40), False, ""),
        ((64,), (8, 8), False, "64 values as 8 × 8"),
    ],
)
def test_arrays_of_many_shapes_are_pictures(shape, space, is_colour, words):
    channels, left_out = channels_of(np.random.default_rng(0).normal(size=shape))
    assert (channels.shape[1:], left_out) == (space, words)
    drawn = picture(channels, slice_of(space, ()))
    assert drawn.dtype == np.uint8
    assert drawn.shape == (*space[-2:], *([3] if is_colour else []))


@pytest.mark.parametrize("shape", [(), (7,), (63,), (2, 2), (2, 3, 4, 5, 6), (100, 3)])
def test_other_arrays_are_none(shape):
    assert channels_of(np.zeros(shape)) is None


def test_a_mask_tells_channels_from_slices():
    assert channels_of(np.zeros((6, 30, 40)))[0].shape == (6, 30, 40)
    assert channels_of(np.zeros((6, 30, 40)), (6, 30, 40))[0].shape == (1, 6, 30, 40)
    assert channels_of(np.zeros((30, 40, 6)), (30, 40))[0].shape == (6, 30, 40)


def test_pictures_are_small_and_nan_is_black():
    image = np.full((1000, 700), np.nan)
    image[10:] = 1.0
    drawn = picture(channels_of(image)[0])
    assert max(drawn.shape) <= MAX_PIXELS
    assert drawn[0, 0] == 0


def test_outlines_are_where_masks_end():
    true, predicted = np.zeros((2, 160, 160), np.uint8)
    true[40:80, 40:80] = 1
    predicted[40:80, 60:100] = 1
    drawn = outlined(np.zeros((160, 160), np.uint8), true, predicted)
    assert drawn[60, 40].tolist() == [86, 180, 233]
    assert drawn[60, 99].tolist() == [230, 159, 0]
    assert drawn[40, 70].tolist() == [255, 255, 255]
    assert drawn[60, 50].tolist() == [0, 0, 0]


# ------------------------------------------------------------------ in the folder of a run


def test_samples_are_read_as_they_were_written(validate, tmp_path):
    true, logits = squares(24)
    found = choose_examples(validate(true, logits, metrics={}), Counting(data=true[:, None].astype(float)))
    path = write_examples(tmp_path, found)
    assert path == tmp_path / "report" / "examples.npz"
    read = read_examples(tmp_path)
    assert read[:2] == found[:2]
    for one, other in zip(read.examples, found.examples, strict=True):
        np.testing.assert_array_equal(one.image, other.image)
        np.testing.assert_array_equal(one.predicted_mask, other.predicted_mask)
        assert (one.case, one.fold, one.score, one.is_best) == (other.case, other.fold, other.score, other.is_best)
    before = path.read_bytes()
    write_examples(tmp_path, found)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage", [lambda b: b[:200], lambda b: b"", lambda b: b[:-300] + bytes(300), lambda b: b"x" * 99]
)
def test_a_damaged_file_is_said_to_be_one(damage, result, data, images, tmp_path):
    path = write_examples(tmp_path, choose_examples(result, Counting(data=images)))
    path.write_bytes(damage(path.read_bytes()))
    result.path = tmp_path
    assert list(result.examples.examples) == []
    assert "examples.npz cannot be read" in result.examples.notes[0]


def test_a_file_with_pickled_objects_is_not_read(result, tmp_path):
    (tmp_path / "report").mkdir()
    np.savez(tmp_path / "report" / "examples.npz", facts=np.array({"format": 1}, dtype=object))
    assert "cannot be read" in read_examples(tmp_path).notes[0]


@pytest.mark.sampled("half")
@pytest.mark.parametrize("change", [{"score": "high"}, {"words": None}, {"image": np.zeros((8, 8, 5), np.uint8)}])
def test_a_file_that_holds_something_else_is_not_shown(change, result, data, images, tmp_path):
    found = choose_examples(result, Counting(data=images))
    first, *others = found.examples
    write_examples(tmp_path, found._replace(examples=[first._replace(**change), *others]))
    result.path = tmp_path
    assert "examples.npz cannot be read" in result.to_html()


def experiment(path, n_features=64):
    params = {
        "fixed": {
            "model": {"n_features": n_features},
            "training": {
                "num_epochs": 1, "losses": {"mse": mean_squared_error}, "optimizer_cls": ToySGD,
                "optimizer_params": {"lr": 0.01}, "logging_type": None, "verbose": False, "save_freq": None,
            },
        }
    }  # fmt: skip
    return ToyExperiment(params, ToyNetwork, name="pixels", save_path=path)


@pytest.mark.slow
def test_a_cross_validation_keeps_its_samples_and_a_stored_one_shows_them(manager, tmp_path):
    data = manager(24, n_features=64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = experiment(tmp_path).kfold(data, num_splits=3, metrics={"m": accuracy_of_signs})
    assert len(result.examples.examples) == 12
    assert result.examples.score_name == "absolute error"
    html = result.to_html()
    assert html.count("<img ") == html.count("data:image/png;base64,") == 12
    assert "Shown: 64 values as 8 × 8." in html
    assert KFoldResult.load(result.path).to_html().count("<img ") == 12


def test_a_data_set_that_names_its_classes_names_them_on_the_page(manager, tmp_path):
    data = manager(24, n_features=4)
    data.dataset.class_names = ["cat", "dog"]
    result = experiment(tmp_path, n_features=4).kfold(data, num_splits=3, metrics={"m": accuracy_of_signs})
    assert result.info["class_names"] == KFoldResult.load(result.path).info["class_names"] == ["cat", "dog"]


def test_a_cross_validation_whose_samples_cannot_be_loaded_again_ends_well(manager, tmp_path, monkeypatch):
    data = manager(24, n_features=64)

    def refuse(*_):
        raise RuntimeError("no more")

    monkeypatch.setattr("delira.report.examples.rank", refuse)
    result = experiment(tmp_path).kfold(data, num_splits=3, metrics={"m": accuracy_of_signs})
    assert result.examples is None
    assert "<h2>Samples</h2>" not in result.to_html()


def accuracy_of_signs(y_true, y_pred):
    return accuracy((y_true > 0).astype(int).ravel(), (y_pred > 0).astype(int).ravel())
