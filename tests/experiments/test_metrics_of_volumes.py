"""Metrics per class in experiments: trained by, tested over groups, resumed, and read from the folder of a run."""

import math

import numpy as np
import pytest

from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.data_loading.dataset import AbstractDataset
from delira.experiments.result import KFoldResult
from delira.metrics import DicePerClass, HausdorffPerClass, SurfaceDice, VolumeError

pytestmark = pytest.mark.forks

ORGANS = ["background", "liver", "tumour"]
N = 24
METRICS = {
    "dice": DicePerClass(ORGANS),
    "hd95": HausdorffPerClass(ORGANS, spacing="mm", missing=20.0),
    "nsd": SurfaceDice(ORGANS, 1.0, "mm"),
    "volume": VolumeError(ORGANS, "ml", "mm"),
}
#: what the network predicts is a number of its own; the masks come with the batches
KEYS = dict.fromkeys(METRICS, ("mask", "scores"))
NAMES = [f"{name}{ending}" for name in METRICS for ending in ("", ".liver", ".tumour")]


def masks():
    generator = np.random.default_rng(1)
    true = np.zeros((N, 5, 6, 7), np.int64)
    true[:, 1:4, 1:5, 1:4] = 1
    true[::3, 3:, 3:, 4:] = 2
    scores = np.moveaxis(np.eye(3)[true], -1, 1) + generator.normal(0, 0.6, (N, 3, 5, 6, 7))
    return {
        "mask": true,
        "scores": scores.astype(np.float32),
        "mm": generator.uniform(0.5, 3, (N, 3)),
        "patient": np.arange(N) // 2,
    }


class Named(AbstractDataset):
    """A data set whose cases have names."""

    def __init__(self, arrays):
        self.arrays = arrays

    def __len__(self):
        return N

    def __getitem__(self, index):
        return {name: array[index] for name, array in self.arrays.items()}

    @property
    def case_names(self):
        return [f"case {index:02d}" for index in range(len(self))]


@pytest.fixture
def data(regression):
    return BaseDataManager(Named({**regression(N, 3, 7), **masks()}), 5)


@pytest.fixture
def cross_validate(kit, tmp_path, data):
    def run(metrics=METRICS, **more):
        training = {"val_metrics": metrics, "metric_keys": KEYS, "val_score_key": "dice.liver"}
        return kit.experiment(tmp_path, training=training).kfold(
            data, num_splits=3, groups_key="patient", val_split=0.25, label_key="patient", **more
        )

    return run


def test_every_case_and_class_has_its_value_in_every_backend(cross_validate):
    result = cross_validate()
    assert [*result.oof.per_case] == NAMES
    expected = masks()
    for name, metric in METRICS.items():
        further = [expected["mm"]] if metric.further_keys else []
        cases = zip(expected["mask"], expected["scores"], *further, strict=True)
        rows = np.array([metric.values(*case) for case in cases])
        np.testing.assert_allclose(result.oof.per_case[f"{name}.liver"], rows[:, 0], rtol=1e-6)
        np.testing.assert_allclose(result.oof.per_case[f"{name}.tumour"], rows[:, 1], rtol=1e-6)
    tumours = result.summary()["dice.tumour"]
    assert (tumours["n"], tumours["n_groups"], tumours["note"]) == (8, 8, "")
    assert tumours["oof"] == pytest.approx(np.nanmean(result.oof.per_case["dice.tumour"]))
    assert tumours["ci_low"] < tumours["oof"] < tumours["ci_high"]
    assert result.summary()["dice"]["n_groups"] == 12


def test_the_training_is_told_the_mean_over_the_cases_that_have_a_value(cross_validate):
    for fold in cross_validate(folds=[0]).folds:
        true, scores = (masks()[name][fold.val_indices] for name in ("mask", "scores"))
        rows = np.array([DicePerClass(3).values(*case) for case in zip(true, scores, strict=True)])
        last = fold.history[-1]
        assert last["val_dice.liver"] == pytest.approx(rows[:, 0].mean())
        tumours = rows[~np.isnan(rows[:, 1]), 1]
        assert last["val_dice.tumour"] == pytest.approx(tumours.mean() if len(tumours) else math.nan, nan_ok=True)
        assert fold.score_key == "val_dice.liver"


def test_a_run_is_read_from_its_folder_as_it_was(cross_validate):
    result = cross_validate()
    loaded = KFoldResult.load(result.path)
    assert repr(loaded.summary()) == repr(result.summary())
    assert [*loaded.metrics] == NAMES
    assert loaded.class_table() == result.class_table()
    assert str(loaded.cases.columns) == str(result.cases.columns)
    assert loaded.cases["name"][3] == "case 03"
    answer = verify([result.path])
    assert not answer.is_broken, answer.text
    (result.path / "numbers.json").unlink()
    assert repr(KFoldResult.load(result.path).summary()) == repr(result.summary())


def test_a_finished_run_is_resumed_without_training_and_with_other_metrics(cross_validate, kit):
    result = cross_validate()
    again = cross_validate(resume=result.path)
    assert repr(again.summary()) == repr(result.summary())
    assert [fold.seconds for fold in again.folds] == [fold.seconds for fold in result.folds]


def test_numbers_of_cases_are_no_names(kit, tmp_path, regression):
    arrays = {**regression(N, 3, 7), **masks()}
    training = {"val_metrics": METRICS, "metric_keys": KEYS}
    result = kit.experiment(tmp_path, training=training).kfold(
        BaseDataManager({name: array for name, array in arrays.items() if name != "patient"}, 5), num_splits=3
    )
    assert result.case_names is None
    assert "name" not in list(result.cases)
