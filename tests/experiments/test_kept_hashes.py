"""A run keeps hashes of the cases of its training and validation, once, before it trains."""

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, BaseLazyDataset
from delira.data_loading.case_hashes import hash_case
from delira.runs.seen_cases import FILE, SeenCases
from delira.training.callbacks import AbstractCallback

pytestmark = pytest.mark.turns
N = 12
SPLITS = {"num_splits": 3, "val_split": 0.25}


class Counting:
    """Loads samples, counts, and may fail."""

    def __init__(self, arrays, broken=()):
        self.arrays, self.broken, self.reads = arrays, broken, []

    def __call__(self, index):
        self.reads.append(index)
        if index in self.broken:
            raise OSError("torn")
        return {"data": self.arrays["data"][index], "label": self.arrays["label"][index]}

    def __deepcopy__(self, memo):
        return self


class Interrupts(AbstractCallback):
    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        if trainer.fold == 1:
            raise KeyboardInterrupt

    def __deepcopy__(self, memo):
        return self


def hashes_in(arrays, numbers=None):
    rows = arrays["data"] if numbers is None else arrays["data"][numbers]
    return [hash_case({"data": row}, ["data"]) for row in rows]


def test_a_cross_validation_keeps_all_cases_and_who_saw_them(kit, tmp_path, regression):
    arrays = regression(N)
    result = kit.experiment(tmp_path).kfold(BaseDataManager(arrays, 4), **SPLITS)
    seen = SeenCases.read(result.path)
    assert (seen.entries, seen.hashes, seen.unknown) == (["data"], hashes_in(arrays), "")
    assert seen.names == [str(number) for number in range(N)]
    for fold in result.folds:
        assert seen.folds[fold.fold]["training"] == fold.train_indices.tolist()
        assert seen.folds[fold.fold]["validation"] == fold.val_indices.tolist()
        assert not {*seen.of_fold(fold.fold).hashes} & {*hashes_in(arrays, fold.test_indices)}


def test_a_single_training_keeps_training_and_validation(kit, tmp_path, regression):
    arrays, others = regression(N), {name: one + 1 for name, one in regression(N).items()}
    kit.experiment(tmp_path).run(BaseDataManager(arrays, 4), BaseDataManager(others, 4))
    (folder,) = (tmp_path / "UnnamedExperiment").glob("20*")
    seen = SeenCases.read(folder)
    assert seen.hashes == hashes_in(arrays) + hashes_in(others)
    assert seen.folds == {0: {"training": [*range(N)], "validation": [*range(N, 2 * N)]}}


def test_each_case_is_read_once_and_not_again_when_the_run_goes_on(kit, tmp_path, regression):
    load = Counting(regression(N))
    experiment = kit.experiment(tmp_path)
    manager = BaseDataManager(BaseLazyDataset(range(N), load), 4)
    with pytest.raises(KeyboardInterrupt):
        experiment.kfold(manager, callbacks=[Interrupts()], groups_key="", **SPLITS)
    (folder,) = (tmp_path / "UnnamedExperiment").glob("20*")
    before = (folder / FILE).stat().st_mtime_ns
    first = len(load.reads)
    load.reads.clear()
    experiment.kfold(manager, resume=folder, groups_key="", **SPLITS)
    assert (folder / FILE).stat().st_mtime_ns == before
    unbroken = Counting(regression(N))
    whole = BaseDataManager(BaseLazyDataset(range(N), unbroken), 4)
    kit.experiment(tmp_path / "other").kfold(whole, groups_key="", **SPLITS)
    (folder / FILE).unlink()  # of a run of before, or lost: made again only if something is trained
    experiment.kfold(manager, resume=folder, groups_key="", **SPLITS)
    assert not (folder / FILE).exists()
    assert first > N


def test_a_case_that_cannot_be_read_ends_the_run_before_it_trains(kit, tmp_path, regression):
    load = Counting(regression(N), broken={N - 1})  # the last: no first batch has it
    with pytest.raises(OSError, match="torn") as caught:
        kit.experiment(tmp_path).run(BaseDataManager(BaseLazyDataset(range(N), load), 4))
    assert any(f"sample {N - 1} of" in note for note in caught.value.__notes__)
    assert not [*tmp_path.rglob("checkpoint_*")]


def test_one_that_is_left_out_has_no_hash(kit, tmp_path, regression):
    load = Counting(regression(N), broken={3})
    manager = BaseDataManager(BaseLazyDataset(range(N), load), 4, bad_samples="skip")
    with pytest.warns(UserWarning, match="left out"):
        result = kit.experiment(tmp_path).kfold(manager, **SPLITS)
    assert [place for place, one in enumerate(SeenCases.read(result.path).hashes) if not one] == [3]


@pytest.mark.parametrize("given", ["batches", "made by a transform"])
def test_where_there_are_no_hashes_the_file_says_why(kit, tmp_path, regression, given):
    arrays = regression(N)
    if given == "batches":
        data = [{name: one[:6] for name, one in arrays.items()}]
    else:
        raw = {"image": arrays["data"], "label": arrays["label"]}
        data = BaseDataManager(raw, 4, transforms=lambda batch: {**batch, "data": batch["image"]})
    kit.experiment(tmp_path).run(data)
    (folder,) = (tmp_path / "UnnamedExperiment").glob("20*")
    seen = SeenCases.read(folder)
    assert seen.hashes == []
    assert ("cannot be read one by one" if given == "batches" else "transform") in seen.unknown


class OfBatches(BaseDataManager):
    """Gives its batches in a way of its own, as a generator."""

    def epoch(self, *args, **how):
        for batch in super().epoch(*args, **how):
            yield {**batch, "data": batch["data"] + 1}


def test_of_a_manager_with_an_epoch_of_its_own_the_cases_of_its_data_set_are_kept(kit, tmp_path, regression):
    arrays = regression(N)
    kit.experiment(tmp_path).run(OfBatches(arrays, 4))
    (folder,) = (tmp_path / "UnnamedExperiment").glob("20*")
    assert SeenCases.read(folder).hashes == hashes_in(arrays)


@pytest.mark.parametrize("draw", [np.random.default_rng(0).random, np.random.random], ids=["own", "global"])
def test_of_a_data_set_that_draws_no_hashes_are_kept_and_the_file_says_why(kit, tmp_path, regression, draw):
    arrays = regression(N)
    noisy = BaseLazyDataset(range(N), lambda index: {name: one[index] + draw() for name, one in arrays.items()})
    kit.experiment(tmp_path).run(BaseDataManager(noisy, 4))
    (folder,) = (tmp_path / "UnnamedExperiment").glob("20*")
    seen = SeenCases.read(folder)
    assert seen.hashes == []
    assert "gives other contents each time" in seen.unknown


def test_sessions_whose_networks_read_other_entries_are_not_known():
    first, second = (
        SeenCases(entries=[entry], names=["0"], hashes=[entry], folds={0: {"training": [0], "validation": []}})
        for entry in ("data", "image")
    )
    assert "other entries" in first.joined(second).unknown
    assert first.joined(first).unknown == ""


def test_a_run_that_goes_on_with_other_data_has_seen_both(kit, tmp_path, regression):
    arrays = regression(N)
    others = {name: np.concatenate([one[:4], one[4:] + 1]) for name, one in arrays.items()}
    experiment = kit.experiment(tmp_path)
    experiment.run(BaseDataManager(arrays, 4), num_epochs=1)
    (folder,) = (tmp_path / "UnnamedExperiment").glob("20*")
    with pytest.warns(UserWarning, match="continued with changes"):
        experiment.run(BaseDataManager(others, 4), num_epochs=2, resume=folder, allow_changes=True)
    assert {*SeenCases.read(folder).of_fold(0).hashes} == {*hashes_in(arrays), *hashes_in(others)}
