"""Samples that cannot be loaded: left out by every part of a run, and said so."""

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, BaseLazyDataset
from delira.training.callbacks import AbstractCallback

pytestmark = [pytest.mark.forks, pytest.mark.turns]

N = 24
BROKEN = {3: "torn", 7: "torn", 20: "torn"}


def mae(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


@pytest.fixture
def lazy(regression):
    """A dataset three of whose samples cannot be loaded."""
    arrays = regression(N)

    def load(index):
        if index in BROKEN:
            raise OSError(BROKEN[index])
        return {"data": arrays["data"][index], "label": arrays["label"][index]}

    return BaseLazyDataset(range(N), load)


@pytest.fixture
def cross_validated(kit, lazy, tmp_path):
    def run(workers=0, batch_size=1):
        manager = BaseDataManager(lazy, batch_size, workers, bad_samples="skip")
        experiment = kit.experiment(tmp_path / f"{workers}-{batch_size}", training={"val_metrics": {"mae": mae}})
        with pytest.warns(UserWarning, match="sample .* is left out, it cannot be loaded: OSError: torn"):
            return experiment.kfold(manager, num_splits=3, shuffle=True, random_seed=1)

    return run


@pytest.mark.sampled("values")
@pytest.mark.parametrize("batch_size", [1, 5])
def test_a_cross_validation_goes_on_without_them(cross_validated, batch_size):
    result = cross_validated(batch_size=batch_size)
    for fold in result.folds:
        assert fold.left_out == dict.fromkeys(BROKEN, "OSError: torn")
        assert not {*fold.test_indices.tolist()} & BROKEN.keys()
        assert len(fold.predictions["pred"]) == len(fold.test_indices)
    assert np.flatnonzero(~result.oof.mask).tolist() == [*BROKEN]
    assert np.isfinite(result.oof.predictions["pred"][result.oof.mask]).all()


def test_their_predictions_are_not_given_to_others(cross_validated, lazy):
    result = cross_validated()
    targets = result.oof.targets["label"]
    for index in np.flatnonzero(result.oof.mask):
        assert targets[index] == lazy[index]["label"]


def test_the_number_of_workers_changes_nothing(cross_validated, kit):
    alone, helped = cross_validated(0, 5), cross_validated(2, 5)
    assert kit.same(alone.oof.predictions["pred"], helped.oof.predictions["pred"])
    assert [fold.history for fold in alone.folds] == [fold.history for fold in helped.folds]


class Breaks(AbstractCallback):
    """Breaks off the third fold, once."""

    is_armed = True

    def at_epoch_begin(self, trainer, **facts):
        if trainer.fold == 2 and Breaks.is_armed:
            raise InterruptedError("on purpose")


@pytest.mark.filterwarnings("ignore:sample .* is left out:UserWarning")
def test_a_resumed_cross_validation_still_knows_them(kit, lazy, tmp_path, monkeypatch):
    def run(**more):
        experiment = kit.experiment(tmp_path, training={"val_metrics": {"mae": mae}}, callbacks=[Breaks()])
        manager = BaseDataManager(lazy, 5, bad_samples="skip")
        return experiment.kfold(manager, num_splits=3, shuffle=True, random_seed=1, **more)

    with pytest.raises(InterruptedError, match="on purpose"):
        run()
    monkeypatch.setattr(Breaks, "is_armed", False)
    assert [fold.left_out.keys() for fold in run(resume="auto").folds] == [BROKEN.keys()] * 3


def test_the_report_lists_them(cross_validated):
    result = cross_validated()
    text = "3 of 24 samples could not be loaded: 3 (OSError: torn), 7 (OSError: torn), 20 (OSError: torn)"
    assert result.warnings == [text]
    assert text in str(result)
    assert text in result._repr_html_()
    assert text in result.to_html()


def test_by_default_the_first_of_them_ends_the_run(kit, lazy, tmp_path):
    with pytest.raises(OSError, match="torn") as caught:
        kit.experiment(tmp_path).run(BaseDataManager(lazy, 4))
    assert any("sample" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("batch_size", [1, 5])
def test_cases_without_finite_predictions_are_named_rightly_where_others_were_left_out(lazy, batch_size):
    from small_backends import build_kit

    kit, inputs = build_kit("toy"), [lazy[index]["data"] for index in (5, 19)]
    trainer = kit.trainer(None, val_metrics={"mae": mae})
    forward = trainer.forward

    def spoiled(prepared):
        predictions = {name: np.array(array) for name, array in forward(prepared).items()}
        for name in predictions:
            for row, sample in enumerate(prepared["data"]):
                if any(np.array_equal(sample, each) for each in inputs):
                    predictions[name][row] = np.nan
        return predictions

    trainer.forward = spoiled
    manager = BaseDataManager(lazy, batch_size, 0, bad_samples="skip")
    for data in (manager, manager.get_subset([20, 19, 7, 8, 5, 3])):
        with pytest.warns(UserWarning, match="is left out"):
            done = trainer.evaluate(data, metrics={"mae": mae})
        assert done.not_finite == (5, 19)
