"""Scores of an ensemble: cases that a member has seen are refused, or left out and counted."""

import functools
import shutil

import numpy as np
import pytest

import delira
from delira import models, training
from delira.data_loading import BaseDataManager, BaseLazyDataset, DictDataset, Patches
from delira.errors import ConfigError, DataError, MissingKeyError
from delira.metrics import per_sample
from delira.prediction import EnsembleScore
from delira.runs.seen_cases import FILE

pytest.importorskip("torch")
pytest.importorskip("sklearn")
N_CLASSES = 3


@per_sample
def is_right(label, pred):
    return float(pred.argmax() == label)


def share(label, pred):
    return float((pred.argmax(1) == label).mean())


@functools.cache
def parts():
    import torch

    class Net(models.AbstractPyTorchNetwork):
        def __init__(self, n_outputs: int = N_CLASSES):
            super().__init__(n_outputs=n_outputs)
            self.linear = torch.nn.Linear(4, n_outputs)

        def forward(self, x):
            return {"pred": self.linear(x)}

    return Net, torch.nn.CrossEntropyLoss(), torch.optim.Adam


def batch_of(n, seed=0):
    """Classes that lie apart, as whole numbers: (n, 4) and (n,)."""
    rng = np.random.default_rng(seed)
    label = np.arange(n) % N_CLASSES
    return {"data": np.float32(rng.integers(0, 200, size=(n, 4)) + label[:, None]), "label": label}


def experiment_of(folder, metrics=None, params=None):
    net, loss, optimizer = parts()
    metrics = {"share": share, "is_right": is_right} if metrics is None else metrics
    return training.PyTorchExperiment(
        params or {}, net, n_epochs=2, name="torch", save_path=folder, optimizer_cls=optimizer,
        optimizer_params={"lr": 0.05}, losses={"ce": loss}, metrics=metrics, verbose=False,
    )  # fmt: skip


SEEN, NEW = batch_of(18), batch_of(11, seed=7)
SPLITS = {"num_splits": 3, "shuffle": True, "random_seed": 0, "val_split": 0.25}


def ensemble_of(result, **how):
    return result.ensemble(objects={"Net": parts()[0]}, **how)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return experiment_of(tmp_path_factory.mktemp("score")).kfold(BaseDataManager(SEEN, 6), **SPLITS)


@pytest.fixture(scope="module")
def ensemble(result):
    return ensemble_of(result)


def mixed(n_seen=4):
    """New cases, and in front some of the training."""
    return {name: np.concatenate([SEEN[name][:n_seen], NEW[name]]) for name in NEW}


def samples(batch):
    return [{name: one[i] for name, one in batch.items()} for i in range(len(batch["label"]))]


# ---- numbers


def test_metrics_are_those_of_the_run_and_equal_to_doing_it_by_hand(ensemble):
    found = ensemble.score(NEW)
    right = ensemble.predict(NEW)["pred"].argmax(1) == NEW["label"]
    assert isinstance(found, EnsembleScore)
    assert found.values == {"share": right.mean(), "is_right": right.mean()}
    assert found.cases["is_right"].tolist() == right.astype(float).tolist()
    assert found.cases["name"].tolist() == [str(number) for number in range(11)]
    assert (found.n_cases, found.skipped) == (11, ())
    assert repr(found) == f"EnsembleScore(11 cases, share={right.mean():.4g}, is_right={right.mean():.4g})"


def test_other_metrics_get_the_combined_probabilities(ensemble):
    from sklearn.metrics import log_loss

    found = ensemble.score(NEW, {"loss": log_loss})
    pred = ensemble.predict(NEW)["pred"].astype(np.float64)
    expected = log_loss(NEW["label"], pred / pred.sum(1, keepdims=True))
    assert found.values["loss"] == pytest.approx(expected, rel=1e-6)
    logits = ensemble_of_logits(ensemble)
    assert logits.score(NEW, {"loss": log_loss}).values["loss"] != pytest.approx(expected, rel=1e-3)
    named = {**NEW, "truth": NEW["label"]}
    del named["label"]
    assert ensemble.score(named, {"share": share}, metric_keys={"share": ("truth", "pred")}).values.keys() == {"share"}


def ensemble_of_logits(ensemble):
    return delira.Ensemble(ensemble.members, combine="logits")


def test_metrics_that_the_result_has_bound_to_logits_are_not_given_probabilities_as_logits(tmp_path):
    from sklearn.metrics import log_loss

    result = experiment_of(tmp_path, {"loss": log_loss}).kfold(BaseDataManager(SEEN, 6), **SPLITS)
    ensemble = ensemble_of(result)
    expected = ensemble.score(NEW, {"loss": log_loss}).values
    assert ensemble.score(NEW, result.metrics).values == expected
    assert ensemble.score(NEW).values == expected  # the run's, by its name


def as_manager(batch):
    return BaseDataManager(batch, 4)


def as_lazy(batch):
    return BaseDataManager(BaseLazyDataset(range(len(batch["label"])), lambda i: samples(batch)[i]), 1)


def as_transformed(batch):
    """What it compares is what its data set gives."""
    raw = {**batch, "data": batch["data"] - 1}
    return BaseDataManager(raw, 4, transforms=lambda made: {**made, "data": made["data"] + 1})


KINDS = {
    "arrays": dict, "manager": as_manager, "lazy": as_lazy, "data set": DictDataset, "samples": samples,
    "batches": lambda batch: [{name: one[:7] for name, one in batch.items()}, {n: one[7:] for n, one in batch.items()}],
    "iterator": lambda batch: iter([batch]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_any_labelled_data_have_a_score_and_what_was_seen_is_refused(ensemble, kind):
    expected = ensemble.score(NEW).values["share"]
    assert ensemble.score(KINDS[kind](NEW)).values["share"] == pytest.approx(expected)
    with pytest.raises(DataError, match=r"have seen 4.*'0' \(in the .* of fold_0.*on_seen='skip'.*result.oof"):
        ensemble.score(KINDS[kind](mixed()))
    found = ensemble.score(KINDS[kind](mixed()), on_seen="skip")
    assert found.values["share"] == pytest.approx(expected)
    assert (found.n_cases, found.skipped) == (11, ("0", "1", "2", "3"))
    if kind != "batches":  # each batch of a list counts its own cases
        assert found.cases["name"].tolist() == [str(number) for number in range(4, 15)]
    assert "11 cases, 4 left out as seen" in repr(found)


# ---- what was seen


@pytest.mark.parametrize("dtype", [np.uint8, np.float64, np.int32])
def test_copies_of_another_type_are_recognised(ensemble, dtype):
    copies = {**SEEN, "data": SEEN["data"].astype(dtype)}
    with pytest.raises(DataError, match=r"seen 18 of 18 cases.*and 13 more"):
        ensemble.score(copies)
    with pytest.raises(DataError, match="seen all 18 cases, so none is left"):
        ensemble.score(copies, on_seen="skip")


def test_names_of_both_sides_and_the_role_are_told(tmp_path):
    data = DictDataset(SEEN)
    data.case_names = [f"case_{number:02d}" for number in range(18)]
    result = experiment_of(tmp_path).kfold(BaseDataManager(data, 6), **SPLITS)
    fold = result.folds[1]
    new = DictDataset({name: one[fold.val_indices[:1]] for name, one in SEEN.items()})
    new.case_names = ["patient"]
    with pytest.raises(DataError, match=f"'patient' .as 'case_{fold.val_indices[0]:02d}' in the validation of fold_01"):
        ensemble_of(result, folds=[1]).score(new)


def test_a_member_may_be_scored_on_its_own_test_part(result):
    for fold in result.folds:
        test = {name: one[fold.test_indices] for name, one in SEEN.items()}
        assert ensemble_of(result, folds=[fold.fold]).score(test).values == pytest.approx(fold.means())


def test_an_ensemble_that_was_saved_knows_what_it_has_seen_and_its_metrics(result, ensemble, tmp_path):
    one = ensemble_of(result, folds=[0]).save(tmp_path / "one")
    both = ensemble.save(tmp_path / "moved")
    shutil.move(both, tmp_path / "elsewhere")
    found = delira.load_ensemble(tmp_path / "elsewhere", objects={"Net": parts()[0]})
    assert found.score(mixed(), on_seen="skip").values == ensemble.score(NEW).values
    with pytest.raises(DataError, match="have seen 4 of 15"):
        found.score(mixed())
    single = delira.load_ensemble(one, objects={"Net": parts()[0]})
    test = {name: one[result.folds[0].test_indices] for name, one in SEEN.items()}
    assert single.score(test).n_cases == 6
    again = found.save(tmp_path / "again")
    assert delira.load_ensemble(again, objects={"Net": parts()[0]}).score(mixed(), on_seen="skip").n_cases == 11


def test_what_any_of_several_results_has_seen_is_refused(result, tmp_path):
    other = experiment_of(tmp_path).kfold(BaseDataManager(batch_of(18, seed=3), 6), **SPLITS)
    together = delira.load_ensemble([result, other], objects={"Net": parts()[0]})
    assert len(together.members) == 6
    for seed in (0, 3):
        with pytest.raises(DataError, match="have seen 18 of 18"):
            together.score(batch_of(18, seed))
    assert together.score(NEW).n_cases == 11


def test_the_network_of_a_single_training_has_seen_training_and_validation(tmp_path):
    experiment = experiment_of(tmp_path)
    experiment.run(BaseDataManager(SEEN, 6), BaseDataManager(batch_of(9, seed=3), 9))
    (folder,) = (tmp_path / "torch").glob("20*")
    one = delira.load_ensemble(folder, objects={"Net": parts()[0]})
    with pytest.raises(DataError, match="in the validation of fold_00"):
        one.score(batch_of(9, seed=3))
    assert one.score(NEW).values.keys() == {"share", "is_right"}


def test_where_nobody_knows_what_was_seen_there_is_a_warning(tmp_path):
    result = experiment_of(tmp_path).kfold(BaseDataManager(SEEN, 6), **SPLITS)
    (result.path / FILE).unlink()
    with pytest.warns(UserWarning, match=r"which cases fold_00, .* saw is not known .there is no cases.json"):
        assert ensemble_of(result).score(mixed()).n_cases == 15
    experiment_of(tmp_path / "batches").run([SEEN])
    (folder,) = (tmp_path / "batches" / "torch").glob("20*")
    with pytest.warns(UserWarning, match="its data were a list, whose cases cannot be read one by one"):
        delira.load_ensemble(folder, objects={"Net": parts()[0]}).score(NEW)


def test_cases_whose_data_set_lacks_the_entry_cannot_be_compared(ensemble):
    raw = {"image": NEW["data"], "label": NEW["label"]}
    manager = BaseDataManager(raw, 4, transforms=lambda made: {**made, "data": made["image"]})
    with pytest.warns(UserWarning, match=r"whether members have seen '?0.* is not known"):
        assert ensemble.score(manager).n_cases == 11


def test_transforms_hide_nothing(ensemble):
    with pytest.raises(DataError, match="have seen 4"):
        ensemble.score(BaseDataManager(mixed(), 4, transforms=lambda made: {**made, "data": made["data"] + 0.5}))


# ---- bad input


def test_labels_beyond_the_classes_name_the_case(ensemble):
    wrong = {**NEW, "label": np.where(np.arange(11) == 5, N_CLASSES, NEW["label"])}
    with pytest.raises(DataError, match="'label' of case '5' has the class 3, and the members know 3 classes, 0 to 2"):
        ensemble.score(wrong)


def test_what_is_wrong_is_said(ensemble, tmp_path):
    with pytest.raises(DataError, match="has 3 values"):
        ensemble.score({**NEW, "data": NEW["data"][:, :3]})
    with pytest.raises(MissingKeyError, match="reads 'label'"):
        ensemble.score({"data": NEW["data"]})
    with pytest.raises(ConfigError, match="on_seen"):
        ensemble.score(NEW, on_seen="ignore")
    with pytest.raises(ConfigError, match="metrics"):
        ensemble.score(NEW, {})
    with pytest.raises(DataError, match="no case"):
        ensemble.score(iter([]))


def broken(index):
    if index == 3:
        raise OSError("torn")
    return samples(NEW)[index]


def test_a_case_that_cannot_be_read_is_named(ensemble):
    lazy = BaseLazyDataset(range(6), broken)
    for data in (lazy, BaseDataManager(lazy)):
        with pytest.raises(OSError, match="torn") as caught:
            ensemble.score(data)
        assert any("3" in note for note in caught.value.__notes__)


def test_metrics_of_the_run_that_nobody_finds_ask_for_metrics(tmp_path):
    result = experiment_of(tmp_path, {"wrong": lambda label, pred: 1.0}).kfold(BaseDataManager(SEEN, 6), **SPLITS)
    with pytest.raises(ConfigError, match="metrics of the run of 'fold_00' are not known"):
        ensemble_of(result).score(NEW)
    assert ensemble_of(result).score(NEW, {"share": share}).n_cases == 11


def test_members_of_another_number_of_classes_are_refused_by_name(result, tmp_path):
    more = experiment_of(tmp_path, params={"fixed": {"model": {"n_outputs": 5}}})
    other = more.kfold(BaseDataManager(batch_of(18, seed=3), 6), **SPLITS)
    together = delira.load_ensemble([result, other], objects={"Net": parts()[0]})
    for combine in (None, "votes", "logits"):
        mixture = delira.Ensemble(together.members, combine=combine)
        with pytest.raises(DataError, match="fold_00' has 5 classes, and that of 'fold_00' has 3"):
            mixture.predict(NEW)


# ---- whole volumes


def test_patches_are_scored_as_whole_cases_and_known_by_them(tmp_path):
    import torch

    class Conv(models.AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 2, 1)

        def forward(self, x):
            return {"pred": self.conv(x)}

    rng = np.random.default_rng(0)
    cases = [{"data": np.float32(rng.random((1, 8, 9 + i))), "label": np.ones((8, 9 + i), int)} for i in range(8)]
    seen, new = BaseDataManager(Patches(cases[:6], (4, 4), per_case=2), 3), cases[6:]
    experiment = training.PyTorchExperiment(
        {}, Conv, n_epochs=1, name="conv", save_path=tmp_path, optimizer_cls=torch.optim.SGD,
        optimizer_params={"lr": 0.05}, losses={"ce": parts()[1]},
        metrics={"dice": delira.metrics.DicePerClass(2, include_background=True)}, verbose=False,
    )  # fmt: skip
    result = experiment.kfold(seen, num_splits=2)
    ensemble = result.ensemble(objects={"Conv": Conv})
    found = ensemble.score(new)
    assert (found.n_cases, [*found.cases]) == (2, ["name", "dice", "dice.0", "dice.1"])
    again = ensemble.score(BaseDataManager(Patches(new + cases[:1], (4, 4)), 2), on_seen="skip")
    assert (again.values, again.skipped) == (pytest.approx(found.values, nan_ok=True), ("2",))
