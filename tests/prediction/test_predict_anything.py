"""Anything that predicts, of any data: the same numbers by every door; and bad input is named, and loses nothing."""

import itertools
import json
import re

import numpy as np
import pytest
from pixel_networks import CALLS, Slices, images, pixel_run
from problems import linear_problem
from small_backends import build_kit, toy_kit

import delira
from delira.data_loading import BaseDataManager, FittedPreprocessing, SequentialSampler
from delira.errors import CheckpointError, ConfigError, DataError
from delira.prediction.predicting import as_model
from delira.prediction.written import Folder
from delira.testing import ToyNetwork
from delira.training import Predictor, Preprocessing
from delira.utils.files import publish


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


# ------------------------------------------------------------------ sources


@pytest.mark.parametrize("name", ["toy", "torch"])
def test_every_source_predicts_the_same(name, tmp_path):
    kit = build_kit(name)
    data = linear_problem(9)
    result = kit.experiment(tmp_path, name="run").kfold(BaseDataManager(data, 4), num_splits=3, val_split=None)
    x = {"data": data["data"]}
    fold = result.folds[1]
    network = fold.load_network()
    expected = Predictor(network).predict(x)["pred"]
    trainer = kit.trainer(tmp_path / "alone", network)
    one = [network, trainer, Predictor(network), fold, fold.path, str(fold.path), fold.path / "checkpoints"]
    one.append(next((fold.path / "checkpoints").glob("checkpoint_last*")))
    for source in one:
        np.testing.assert_array_equal(delira.predict(source, x)["pred"], expected)

    saved = result.ensemble().save(tmp_path / "saved")
    together = result.ensemble().predict(x)
    mean = np.mean([delira.predict(fold, x)["pred"] for fold in result.folds], axis=0)
    np.testing.assert_allclose(together["pred"], mean, rtol=1e-5, atol=1e-6)
    several = [result, result.path, saved, delira.load_ensemble(saved), [fold.path for fold in result.folds]]
    several.append([result])
    for source in several:
        found = delira.predict(source, x)
        np.testing.assert_array_equal(found["pred"], together["pred"])
        np.testing.assert_array_equal(found["spread"]["pred"]["sd"], together["spread"]["pred"]["sd"])
    np.testing.assert_array_equal(result.predict(x)["pred"], together["pred"])


def test_a_list_is_an_ensemble_also_of_one(tmp_path):
    result = pixel_run(tmp_path)
    found = delira.predict([fold.path for fold in result.folds[:1]], images())
    alone = delira.predict(result.folds[0], images(), keep="probabilities")
    np.testing.assert_allclose(found["pred"], alone["pred"], rtol=1e-6)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (ToyNetwork, "trained network"),
        (3, "trained network"),
        (None, "trained network"),
        (abs, "trained network"),
        ({}, "trained network"),
        ("nowhere/at/all", "nowhere"),
        ([], "member"),
    ],
)
def test_what_predicts_nothing_is_refused(source, told):
    with pytest.raises(ConfigError, match=told):
        delira.predict(source, images())


# ------------------------------------------------------------------ data


def forms_of(x, folder):
    """The same images in every form that predict takes."""
    labelled = {"data": x, "label": np.arange(len(x))}
    yield "array", x
    yield "list of arrays", [*x]
    yield "dict", {"data": x}
    yield "labelled dict", labelled
    yield "list of samples", [{"data": one} for one in x]
    yield "list of labelled samples", [{"data": one, "label": 3} for one in x]
    yield "data set", Slices(x)
    yield "manager", BaseDataManager({"data": x}, 4)
    yield "labelled manager", BaseDataManager(labelled, 4)
    yield "manager in order", BaseDataManager(Slices(x), 4, sampler_cls=SequentialSampler)
    yield "list of batches", [{"data": x[:4]}, {"data": x[4:]}]
    yield "generator of batches", (batch for batch in [{"data": x[:1]}, {"data": x[1:]}])
    for ending in ("npy", "npz"):
        own = folder / ending
        own.mkdir()
        for number, one in enumerate(x):
            np.save(own / f"{number}.npy", one) if ending == "npy" else np.savez(own / f"{number}.npz", data=one)
        yield f"folder of {ending}", own
        yield f"text of a folder of {ending}", str(own)
        yield f"files of {ending}", sorted(own.iterdir())
        yield f"texts of {ending}", [str(file) for file in sorted(own.iterdir())]
    (folder / "bare").mkdir()
    for number, one in enumerate(x):
        np.save(folder / "bare" / f"{number}.npy", one[0])
    yield "folder of arrays without channels", folder / "bare"


@pytest.mark.parametrize("source", ["fold", "network", "ensemble"])
def test_every_form_of_data_is_predicted_alike_and_needs_no_label(source, tmp_path):
    result, x = pixel_run(tmp_path / "run"), images(seed=1)
    made = {"fold": result.folds[0], "network": result.folds[0].load_network(), "ensemble": result.ensemble()}[source]
    expected = np.concatenate([0 * x, x], axis=1)
    if source == "ensemble":
        expected = np.exp(expected) / np.exp(expected).sum(1, keepdims=True)
    for form, data in forms_of(x, tmp_path):
        if source == "network" and (form.startswith("list of arrays") or "without channels" in form):
            continue  # it does not know what a sample looks like
        if source == "network" and form.startswith("list of"):
            continue
        found = delira.predict(made, data)
        assert next(iter(found)) == "pred", form
        np.testing.assert_allclose(found["pred"], expected, rtol=1e-6, err_msg=form)


def test_one_sample_is_one_case(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(seed=1)
    for sample in (x[0], {"data": x[0]}, {"data": x[0], "label": 3}):
        found = delira.predict(fold, sample)
        np.testing.assert_array_equal(found["pred"][0, 1], x[0, 0])
        assert found["pred"].shape == (1, 2, 5, 4)


def test_pictures_are_read_as_in_training(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("imageio")
    fold = pixel_run(tmp_path / "run").folds[0]
    drawn = np.random.default_rng(0).integers(0, 256, (5, 4), dtype=np.uint8)
    (tmp_path / "in").mkdir()
    image.fromarray(drawn).save(tmp_path / "in" / "one.png")
    image.fromarray(np.stack([drawn] * 3, axis=-1)).save(tmp_path / "in" / "two.png")
    found = delira.predict(fold, tmp_path / "in")["pred"]
    assert found.shape == (2, 2, 5, 4), "a network of one channel gets pictures in grey"
    np.testing.assert_allclose(found[0, 1], drawn / 255, atol=1e-6)
    np.testing.assert_allclose(found[1, 1], drawn / 255, atol=2e-2)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (3, "int"),
        (None, "NoneType"),
        ("nowhere/at/all", "nowhere"),
        ([("data", 1)], "tuple|dict"),
        (iter([np.zeros((2, 1, 5, 4))]), "batch must be a dict"),
        (iter([]), "no case"),
        ({}, "batch"),
        ([], "no case|nothing"),
    ],
)
def test_what_is_no_data_is_refused(tmp_path, data, told):
    with pytest.raises((ConfigError, DataError), match=told):
        delira.predict(pixel_run(tmp_path).folds[0], data)


def test_samples_that_are_tuples_are_refused_in_words(tmp_path):
    class Pairs:
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return images()[index], index

    with pytest.raises(DataError, match="sample '0' is a tuple, whose parts have no names"):
        delira.predict(pixel_run(tmp_path).folds[0], Pairs())


def test_a_folder_with_nothing_to_predict_or_the_same_case_twice_is_refused(tmp_path):
    fold = pixel_run(tmp_path / "run").folds[0]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "notes.txt").write_text("none")
    with pytest.raises(ConfigError, match=r"no file.*can be predicted"):
        delira.predict(fold, tmp_path / "in")
    np.save(tmp_path / "in" / "one.npy", images()[0])
    assert len(delira.predict(fold, tmp_path / "in")["pred"]) == 1
    np.savez(tmp_path / "in" / "one.npz", data=images()[0])
    with pytest.raises(ConfigError, match=r"one\.npy.*one\.npz"):
        delira.predict(fold, tmp_path / "in")


# ------------------------------------------------------------------ how


def test_batches_are_as_large_as_asked(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(7)
    forms = {"array": x, "samples": [{"data": one} for one in x], "manager": BaseDataManager({"data": x}, 5)}
    for usual, (form, data) in zip([7, 1, 5], forms.items(), strict=True):
        for batch_size in (None, 1, 3):
            CALLS.clear()
            found = delira.predict(fold, data, batch_size=batch_size)["pred"]
            assert len(found) == 7
            assert max(shape[0] for shape in CALLS) == (batch_size or usual), form


def test_kinds_of_predictions(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(seed=1)
    logits = np.concatenate([0 * x, x], axis=1)
    for keep in (None, "logits"):
        np.testing.assert_array_equal(delira.predict(fold, x, keep=keep)["pred"], logits)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(delira.predict(fold, x, keep="probabilities")["pred"], shares, rtol=1e-6)
    labels = delira.predict(fold, x, keep="labels")["pred"]
    assert labels.dtype == np.uint8
    np.testing.assert_array_equal(labels, logits.argmax(1))


@pytest.mark.parametrize(
    "how",
    [{"keep": "classes"}, {"on_error": "ignore"}, {"batch_size": 0}, {"stream": 1}, {"inference": 4}, {"tta": "flips"}],
)
def test_a_wrong_word_is_refused(tmp_path, how):
    with pytest.raises(ConfigError, match=next(iter(how))):
        delira.predict(pixel_run(tmp_path).folds[0], images(), **how)


def test_a_stream_gives_cases_one_by_one_and_asks_for_no_more(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(seed=1)
    taken = []

    def batches():
        for number in itertools.count():
            taken.append(number)
            yield {"data": x[number % 6][None]}

    stream = delira.predict(fold, batches(), stream=True)
    assert not taken
    for number, case in enumerate(itertools.islice(stream, 20)):
        name, outputs, file = case
        assert (name, file) == (str(number), None)
        np.testing.assert_array_equal(outputs["pred"][1], x[number % 6][0])
        assert len(taken) == number + 1
    with pytest.raises(ConfigError, match="stream"):
        delira.predict(fold, x, stream=True, out=tmp_path / "out")


@pytest.mark.slow
def test_a_stream_keeps_nothing(tmp_path):
    """Not even an array of a case that was given away."""
    import gc
    import weakref

    fold = pixel_run(tmp_path / "run").folds[0]
    alive = []
    for case in delira.predict(fold, ({"data": images(1, seed=number)} for number in range(10)), stream=True):
        base = case.outputs["pred"]
        alive.append(weakref.ref(base if base.base is None else base.base))
        del case, base
        gc.collect()
        assert sum(one() is not None for one in alive) <= 1


def test_cases_are_called_as_their_data_say(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(3)
    names = ["anna", "berta", "clara"]

    def found(data, **how):
        return [case.name for case in delira.predict(fold, data, stream=True, **how)]

    assert found(Slices(x, names)) == names
    assert found(Slices(x, names), batch_size=2) == names
    assert found(BaseDataManager(Slices(x, names), 2, sampler_cls=SequentialSampler)) == names
    assert found(x) == found({"data": x}) == found([{"data": one} for one in x]) == ["0", "1", "2"]
    assert found(iter([{"data": x[:2]}, {"data": x[2:]}])) == ["0", "1", "2"]
    for number, name in enumerate(names):
        np.save(tmp_path / f"{name}.volume.npy", x[number])
    assert found(sorted(tmp_path.glob("*.npy"))) == [f"{name}.volume" for name in names]


def test_a_random_manager_names_what_it_predicts(tmp_path):
    """Whatever its order, a name goes with its case."""
    from delira.data_loading import RandomSampler

    fold, x = pixel_run(tmp_path / "run").folds[0], images(8)
    data = BaseDataManager(Slices(x, [f"case {number}" for number in range(8)]), 3, sampler_cls=RandomSampler)
    for case in delira.predict(fold, data, stream=True):
        number = int(case.name.removeprefix("case "))
        np.testing.assert_array_equal(case.outputs["pred"][1], x[number, 0])


# ------------------------------------------------------------------ into a folder


def test_each_case_is_a_file(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(3)
    files = delira.predict(fold, Slices(x, ["a", "b", "c"]), out=tmp_path / "out" / "deep")
    assert [file.name for file in files] == ["a.npz", "b.npz", "c.npz"]
    for file, one in zip(files, x, strict=True):
        with np.load(file, allow_pickle=False) as written:
            assert written.files == ["pred"]
            np.testing.assert_array_equal(written["pred"][1], one[0])


def test_an_ensemble_writes_its_spread(tmp_path):
    result, x = pixel_run(tmp_path / "run"), images(2)
    files = result.ensemble().predict(x, out=tmp_path / "out")
    with np.load(files[0]) as written:
        assert {*written.files} == {"pred", "spread.pred.sd", "spread.pred.entropy", "spread.pred.disagreement"}


def test_what_is_there_is_not_predicted_again(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(5)
    out = tmp_path / "out"
    first = delira.predict(fold, x[:3], out=out, batch_size=1)
    stamps = [file.stat().st_mtime_ns for file in first]
    CALLS.clear()
    files = delira.predict(fold, x, out=out, batch_size=1)
    assert len(CALLS) == 2
    assert [file.name for file in files] == [f"{number}.npz" for number in range(5)]
    assert [file.stat().st_mtime_ns for file in first] == stamps
    CALLS.clear()
    assert delira.predict(fold, x, out=out, batch_size=1) == files
    assert not CALLS
    first[1].unlink()
    assert {*delira.predict(fold, x, out=out, batch_size=1)} == {*files}
    assert len(CALLS) == 1


def test_who_begins_in_a_folder_leaves_what_others_are_writing_there(tmp_path):
    model, out = as_model(pixel_run(tmp_path).folds[0]), tmp_path / "out"

    def write(file):
        file.write(b"half")
        file.flush()
        Folder.opened(out, model, {})
        file.write(b" and half")

    out.mkdir()
    (out / "a.npz.partial-0123abcd").write_bytes(b"of one that was killed")
    publish(out / "b.npz", write)
    assert (out / "b.npz").read_bytes() == b"half and half"
    assert sorted(file.name for file in out.iterdir()) == ["b.npz", "predictions.json"]


def test_a_batch_of_which_some_cases_are_there_writes_the_others_alone(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(4)
    files = delira.predict(fold, x, out=tmp_path / "out")
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}
    files[2].unlink()
    again = delira.predict(fold, x, out=tmp_path / "out")
    assert {*again} == {*files}
    assert len(again) == 4
    for file, (content, stamp) in before.items():
        assert file.read_bytes() == content
        assert (file.stat().st_mtime_ns == stamp) == (file != files[2])


OTHER_WAYS = {
    "kept": {"keep": "labels"},
    "window": {"inference": delira.SlidingWindow(4)},
    "flips": {"tta": delira.TestTimeAugmentation(flips=0)},
}


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_predictions_made_in_another_way_are_not_mixed(tmp_path, way):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(2)
    delira.predict(fold, x, out=tmp_path / "out")
    with pytest.raises(ConfigError, match="in another way"):
        delira.predict(fold, x, out=tmp_path / "out", **OTHER_WAYS[way])
    delira.predict(fold, x, out=tmp_path / "other", **OTHER_WAYS[way])
    delira.predict(fold, x, out=tmp_path / "other", **OTHER_WAYS[way])


def test_windows_of_other_arguments_are_another_way(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(2)
    ways = [
        {"size": 4}, {"size": 3}, {"size": 4, "overlap": 0.25}, {"size": 4, "sigma": 0.3},
        {"size": 4, "padding": "reflect"}, {"size": 4, "pad_value": 1.0}, {"size": 4, "weighting": "constant"},
    ]  # fmt: skip
    delira.predict(fold, x, out=tmp_path / "out", inference=delira.SlidingWindow(**ways[0]))
    for way in ways[1:]:
        with pytest.raises(ConfigError, match="in another way"):
            delira.predict(fold, x, out=tmp_path / "out", inference=delira.SlidingWindow(**way))
    # how much is done at once changes nothing
    delira.predict(fold, x, out=tmp_path / "out", inference=delira.SlidingWindow(4, batch_size=2))


def test_predictions_of_another_model_are_not_mixed(tmp_path):
    kit, x = toy_kit(), linear_problem(4)["data"]
    result = kit.experiment(tmp_path / "run", name="run").kfold(
        BaseDataManager(linear_problem(9), 4), num_splits=3, val_split=None
    )
    first, second, _ = result.folds
    delira.predict(first, x, out=tmp_path / "one")
    for other in (second, result, second.load_network(), result.ensemble(folds=[0, 1])):
        with pytest.raises(ConfigError, match="another model"):
            delira.predict(other, x, out=tmp_path / "one")
    delira.predict(first.path, x, out=tmp_path / "one")
    delira.predict(first.load_network(), x, out=tmp_path / "one")
    delira.predict(result, x, out=tmp_path / "all")
    delira.predict(result.path, x, out=tmp_path / "all")
    for other in (result.ensemble(weights=[1, 2, 3]), result.ensemble(combine="votes"), result.ensemble(spread=False)):
        with pytest.raises(ConfigError, match="another model"):
            delira.predict(other, x, out=tmp_path / "all")


def test_predictions_with_other_preprocessing_are_not_mixed(tmp_path):
    pytest.importorskip("skops", reason="preprocessing is kept by the package 'skops'")
    scaler = pytest.importorskip("sklearn.preprocessing").StandardScaler
    x = linear_problem(4)["data"]
    network = toy_kit().experiment(tmp_path / "run", name="run").run(BaseDataManager(linear_problem(9), 4))
    fitted = [FittedPreprocessing({"data": scaler().fit(factor * x)}) for factor in (1, 1, 2)]
    one, alike, other = (Predictor(network, preprocessing=each) for each in fitted)
    delira.predict(one, x, out=tmp_path / "out")
    delira.predict(alike, x, out=tmp_path / "out")
    for another in (other, network):
        with pytest.raises(ConfigError, match="another model"):
            delira.predict(another, x, out=tmp_path / "out")


class Halves:
    """Divides by two."""

    def get_params(self, deep=True):
        return {}

    def set_params(self, **_):
        return self

    def fit(self, x, y=None):
        return self

    def transform(self, x):
        return x / 2


def test_a_class_that_is_handed_over_may_be_in_what_was_fitted(tmp_path):
    pytest.importorskip("skops", reason="preprocessing is kept by the package 'skops'")
    x = linear_problem(4)["data"]
    preprocessing = Preprocessing({"data": Halves()}, trusted=[Halves])
    kit = toy_kit()
    result = kit.experiment(tmp_path / "run", name="run").kfold(
        BaseDataManager(linear_problem(9), 4), num_splits=3, val_split=None, preprocessing=preprocessing
    )
    with pytest.raises(CheckpointError, match=r"Halves.* to predict, hand it over: objects="):
        delira.predict(result.folds[0], x)
    known = {"Halves": Halves}
    network = result.folds[0].load_network(objects=known)
    bare = Predictor(network, preprocessing=lambda batch: batch)
    expected = delira.predict(bare, x / 2)["pred"]
    np.testing.assert_array_equal(delira.predict(result.folds[0], x, objects=known)["pred"], expected)
    result.predict(x, objects=known)


def test_an_output_of_one_case_is_not_taken_for_another_case(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    ensemble = pixel_run(tmp_path / "run", shape=(4, 5, 6)).ensemble()
    (tmp_path / "in").mkdir()
    volume(nibabel, tmp_path / "in" / "a.nii.gz")
    other = volume(nibabel, tmp_path / "in" / "a.spread.pred.sd.nii.gz") + 1
    nibabel.save(nibabel.Nifti1Image(other, np.eye(4)), tmp_path / "in" / "a.spread.pred.sd.nii.gz")
    files = ensemble.predict(tmp_path / "in", out=tmp_path / "out")
    assert [file.name for file in files] == ["a.nii.gz", "a.spread.pred.sd.nii.gz"]
    apart = ensemble.predict([tmp_path / "in" / files[1].name], out=tmp_path / "apart")
    assert files[1].read_bytes() == apart[0].read_bytes()


def test_a_damaged_note_about_a_folder_is_told(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(2)
    delira.predict(fold, x, out=tmp_path / "out")
    for content in ("", "[]", '"text"', json.dumps({"format": 9})):
        (tmp_path / "out" / "predictions.json").write_text(content)
        with pytest.raises((ConfigError, CheckpointError), match="out"):
            delira.predict(fold, x, out=tmp_path / "out")


@pytest.mark.parametrize("name", ["../out of here", "a/b", "", ".", "..", "a\\b", "predictions.json"])
def test_a_name_that_is_no_file_is_refused_and_nothing_lies_elsewhere(tmp_path, name):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(1)
    if name == "predictions.json":
        (file,) = delira.predict(fold, Slices(x, [name]), out=tmp_path / "out")
        assert file.name == "predictions.json.npz"
    else:
        with pytest.raises((ConfigError, DataError), match=re.escape(repr(name))):
            delira.predict(fold, Slices(x, [name]), out=tmp_path / "out")
    assert json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out"}


def test_two_cases_of_one_name_are_not_taken_for_one(tmp_path):
    fold, x = pixel_run(tmp_path / "run").folds[0], images(3)
    with pytest.raises(DataError, match="'same'"):
        delira.predict(fold, Slices(x, ["same", "other", "same"]), out=tmp_path / "out")


# ------------------------------------------------------------------ volumes


def volume(nibabel, path, shape=(6, 5, 4), seed=0, scaled=False):
    """A volume of (x, y, z) that lies askew, with millimetres and both codes of geometry."""
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    affine = np.array([[0.8, 0.1, 0, -20], [-0.1, 0.9, 0.05, 11], [0, 0.02, 3.0, 7], [0, 0, 0, 1]])
    image = nibabel.Nifti1Image(values, None)
    image.header.set_xyzt_units("mm", "sec")
    image.set_qform(np.diag([0.8, 0.9, 3.0, 1.0]), 1)
    image.set_sform(affine, 2)
    if scaled:
        image.header.set_data_dtype(np.int16)
        image.header.set_slope_inter(0.01, 3)
    nibabel.save(image, path)
    return np.asarray(nibabel.load(path).dataobj, dtype=np.float32)


@pytest.mark.parametrize("ending", [".nii.gz", ".nii"])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_volume_lies_where_its_input_lies(tmp_path, ending, scaled):
    nibabel = pytest.importorskip("nibabel")
    fold = pixel_run(tmp_path / "run", shape=(4, 5, 6)).folds[0]
    (tmp_path / "in").mkdir()
    given = {
        name: volume(nibabel, tmp_path / "in" / f"{name}{ending}", seed=n, scaled=scaled) for n, name in enumerate("ab")
    }
    files = delira.predict(fold, tmp_path / "in", out=tmp_path / "out")
    labels = delira.predict(fold, tmp_path / "in", out=tmp_path / "labels", keep="labels")
    assert [file.name for file in files] == [file.name for file in labels] == ["a.nii.gz", "b.nii.gz"]
    for file, label, (name, values) in zip(files, labels, given.items(), strict=True):
        before, after, classes = (nibabel.load(one) for one in (tmp_path / "in" / f"{name}{ending}", file, label))
        for written in (after, classes):
            np.testing.assert_array_equal(written.affine, before.affine)
            np.testing.assert_array_equal(written.header.get_qform(), before.header.get_qform())
            np.testing.assert_array_equal(written.header.get_sform(), before.header.get_sform())
            for code in ("qform_code", "sform_code", "xyzt_units"):
                assert written.header[code] == before.header[code]
            assert written.header.get_zooms()[:3] == before.header.get_zooms()[:3]
            assert written.shape[:3] == before.shape
        np.testing.assert_allclose(np.asarray(after.dataobj)[..., 1], values, rtol=1e-6, atol=1e-6)
        assert classes.shape == before.shape
        assert classes.get_data_dtype() == np.uint8
        np.testing.assert_array_equal(np.asarray(classes.dataobj), values > 0)


def test_a_network_of_one_output_channel_writes_a_volume_of_three_axes(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    result = pixel_run(tmp_path / "run", shape=(4, 5, 6))
    values = volume(nibabel, tmp_path / "a.nii.gz")
    (file,) = result.ensemble().predict([tmp_path / "a.nii.gz"], out=tmp_path / "out")
    found = {one.name for one in (tmp_path / "out").iterdir()}
    further = {f"spread.pred.{name}" for name in ("sd", "entropy", "disagreement")}
    assert found == {"a.nii.gz", "predictions.json", "inputs.txt", *further}
    assert file.name == "a.nii.gz"
    assert nibabel.load(tmp_path / "out" / "spread.pred.entropy" / "a.nii.gz").shape == values.shape
