"""Several networks as one: what they say together is what numpy makes of what each says."""

import functools
import gc
import logging
import weakref

import numpy as np
import pytest

import delira
from delira import models, training
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.metrics.tree.criteria import Criterion
from delira.prediction import model as parts_of_model
from delira.prediction.ensemble import Ensemble
from delira.prediction.model import Member
from delira.prediction.networks import StoredNetwork

torch = pytest.importorskip("torch")

N_CLASSES = 3
WEIGHTS = np.array([0.5, 0.3, 0.2])


class Linear(models.AbstractPyTorchNetwork):
    """Logits, or probabilities, of classes."""

    def __init__(self, n_classes: int = N_CLASSES, output: str = "logits", name: str = "pred"):
        super().__init__(n_classes=n_classes, output=output, name=name)
        self.linear, self.output, self.name = torch.nn.Linear(4, n_classes), output, name

    def forward(self, x):
        found = self.linear(x)
        return {
            self.name: {
                "probabilities": functools.partial(torch.softmax, dim=1),
                "logits": lambda one: one,
                "labels": lambda one: one.argmax(1),
                "numbers": lambda one: one,
            }[self.output](found)
        }


class OfProbabilities(torch.nn.Module):
    def forward(self, pred, label):
        return torch.nn.functional.nll_loss(torch.log(pred), label)


def batch_of(n, seed=0, n_classes=N_CLASSES):
    rng = np.random.default_rng(seed)
    label = np.arange(n) % n_classes
    return {"data": np.float32(rng.normal(size=(n, 4)) + label[:, None]), "label": label}


NEW = {"data": batch_of(13, seed=7)["data"]}


def trained(folder, loss=None, number=3, n_classes=N_CLASSES, settings=None, kfold=None, **arguments):
    return training.PyTorchExperiment(
        {"model": {"n_classes": n_classes, **arguments}}, Linear, n_epochs=1, name="run", save_path=folder,
        losses={"ce": loss or torch.nn.CrossEntropyLoss()}, optimizer_cls=torch.optim.Adam,
        optimizer_params={"lr": 1e-1}, **(settings or {}),
    ).kfold(
        BaseDataManager(batch_of(8 * number, n_classes=n_classes), batch_size=8), num_splits=number, shuffle=True,
        random_seed=0, verbose=False, val_split=None, **(kfold or {}),
    )  # fmt: skip


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """Three folds that say logits."""
    return trained(tmp_path_factory.mktemp("logits"))


@pytest.fixture(scope="module")
def of_probabilities(tmp_path_factory):
    """Two folds that say probabilities."""
    folder = tmp_path_factory.mktemp("probabilities")
    return trained(folder, OfProbabilities(), 2, output="probabilities", settings={"output": "probabilities"})


def said(result):
    """What each fold says, (members, n, classes)."""
    return np.stack([delira.predict(fold, NEW)["pred"] for fold in result.folds]).astype(np.float64)


def softmax(logits):
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def votes_of(logits):
    return np.eye(N_CLASSES)[logits.argmax(-1)]


def weighted(values, weights=WEIGHTS):
    return np.tensordot(weights, values, 1)


def near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("combine", "values_of"),
    [
        (None, softmax),
        ("probabilities", softmax),
        ("logits", lambda one: one),
        ("votes", votes_of),
        ("mean", lambda one: one),
    ],
)
def test_a_combined_prediction_is_that_of_numpy(result, combine, values_of):
    found = result.ensemble(weights=5 * WEIGHTS, combine=combine).predict(NEW)
    values, logits = values_of(said(result)), said(result)
    combined = weighted(values)
    near(found["pred"], combined)
    spread = found["spread"]["pred"]
    near(spread["sd"], np.sqrt(weighted((values - combined) ** 2)))
    if combine == "mean":
        assert spread.keys() == {"sd"}, "numbers have no classes"
        return
    shares = softmax(combined) if combine == "logits" else combined
    near(spread["entropy"], -(shares * np.log(np.maximum(shares, 1e-12))).sum(-1))
    # each member has one vote
    near(spread["disagreement"], 1 - votes_of(logits).mean(0).max(-1))


def test_without_weights_all_count_alike_and_the_spread_can_be_left_out(result):
    found = result.ensemble(spread=False).predict(NEW)
    assert found.keys() == {"pred"}
    near(found["pred"], softmax(said(result)).mean(0))


def test_logits_and_probabilities_are_combined_as_probabilities(result, of_probabilities):
    for results in ([result, of_probabilities], [of_probabilities, result]):
        shares = [softmax(said(one)) if one is result else said(one) for one in results]
        near(delira.load_ensemble(results).predict(NEW)["pred"], np.concatenate(shares).mean(0))
        by_votes = delira.load_ensemble(results, combine="votes").predict(NEW)["pred"]
        near(by_votes, votes_of(np.concatenate(shares)).mean(0))
        for combine in ("logits", "mean"):
            with pytest.raises(ConfigError, match=r"is (logits|probabilities), and that of .* is (logits|prob)"):
                delira.load_ensemble(results, combine=combine).predict(NEW)


# ------------------------------------------------------------------ memory


class Counted:
    """Counts the networks that are there, of those that members load."""

    def __init__(self, ensemble, monkeypatch):
        self.alive, self.most, self.loads = [], 0, 0
        for member in ensemble.members:
            monkeypatch.setattr(member, "load", functools.partial(self.load, member.load))

    def load(self, load):
        gc.collect()
        stored = load()
        self.loads += 1
        self.alive.append(weakref.ref(stored.network))
        self.most = max(self.most, sum(one() is not None for one in self.alive))
        return stored


@pytest.mark.slow
def test_members_that_stay_are_loaded_once_and_others_one_at_a_time(result, monkeypatch):
    ensembles = [delira.load_ensemble(result, at_once=at_once) for at_once in (True, False)]
    staying, coming = (Counted(ensemble, monkeypatch) for ensemble in ensembles)
    found, again = (ensemble.predict(NEW, batch_size=5) for ensemble in ensembles)
    np.testing.assert_array_equal(found["pred"], again["pred"])
    for name in ("sd", "entropy", "disagreement"):
        np.testing.assert_array_equal(found["spread"]["pred"][name], again["spread"]["pred"][name])
    assert (staying.loads, staying.most) == (3, 3)
    assert (coming.loads, coming.most) == (1 + 3 * 3, 1), "what is known of it, and three batches"


@pytest.mark.parametrize(("times", "stays"), [(12.1, True), (11.9, False), (None, True)])
@pytest.mark.slow
def test_members_stay_while_they_take_a_quarter_of_the_memory(result, times, stays, monkeypatch, caplog):
    n_bytes = 4 * (4 * N_CLASSES + N_CLASSES)
    monkeypatch.setattr(parts_of_model, "available_memory", lambda: None if times is None else int(times * n_bytes))
    ensemble = result.ensemble()
    counted = Counted(ensemble, monkeypatch)
    assert repr(ensemble) == repr(result.ensemble()), "folders of predictions are recognised by it"
    with caplog.at_level(logging.INFO, "delira"):
        near(ensemble.predict(NEW)["pred"], softmax(said(result)).mean(0))
    assert ensemble.at_once is stays
    assert counted.most == (3 if stays else 1)
    assert ("one at a time is loaded" in caplog.text) is not stays


def test_a_folder_of_predictions_is_gone_on_with_whether_members_stay_or_not(result, tmp_path):
    for at_once in (False, True, None):
        files = delira.predict(delira.load_ensemble(result, at_once=at_once), NEW, out=tmp_path)
        assert len(files) == 13


# ------------------------------------------------------------------ members that do not fit together


def test_other_classes_are_refused_with_both_members_and_both_counts(result, tmp_path):
    other = trained(tmp_path, number=2, n_classes=4)
    for combine in (None, "votes", "logits", "mean"):
        for results, counts in (([result, other], (4, 3)), ([other, result], (3, 4))):
            told = rf"'pred' of '.*fold_00' has {counts[0]} classes, and that of 'fold_00' has {counts[1]}"
            with pytest.raises(DataError, match=told):
                delira.load_ensemble(results, combine=combine).predict(NEW)


def untold(**members):
    """An ensemble of networks of which nobody says what they return."""

    def stored(arguments):
        return StoredNetwork(path=None, tree={}, network=Linear(**arguments), preprocessing=None)

    return Ensemble([Member(name, functools.partial(stored, one)) for name, one in members.items()])


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({}, {"name": "scores"}, r"'two' has the outputs \['scores'\], and 'one' has \['pred'\]"),
        ({}, {"output": "labels"}, r"'pred' of 'two' has the shape \(\) for a case, and that of 'one' \(3,\)"),
    ],
)
def test_what_members_say_in_another_way_is_refused(first, second, told):
    torch.manual_seed(0)
    with pytest.raises(DataError, match=told):
        untold(one=first, two=second).predict(NEW)


def test_logits_are_not_taken_for_the_probabilities_that_the_first_member_says():
    torch.manual_seed(0)
    ensemble = Ensemble(untold(one={"output": "probabilities"}, two={}).members, at_once=True)
    for member in ensemble.members:  # of a loss of one's own, which says only that classes exclude each other
        member.kept.outputs = {"pred": Criterion("mine", "categorical")}
    with pytest.raises(DataError, match=r"'pred' of 'two' is beyond \[0, 1\], and that of 'one' is probabilities"):
        ensemble.predict(NEW)


def test_labels_are_those_that_most_members_say():
    torch.manual_seed(0)
    ensemble = untold(one={"output": "labels"}, two={"output": "labels"}, three={"output": "labels"})
    votes = np.stack([member.kept.predict_batch(NEW, None)["pred"] for member in ensemble.members])
    counts = (votes[..., None] == np.arange(N_CLASSES)).mean(0)
    found = ensemble.predict(NEW)
    np.testing.assert_array_equal(found["pred"], counts.argmax(-1))
    near(found["spread"]["pred"]["disagreement"], 1 - counts.max(-1))
    weighted = Ensemble(ensemble.members, [0.8, 0.1, 0.1]).predict(NEW)
    np.testing.assert_array_equal(weighted["pred"], votes[0])
    near(weighted["spread"]["pred"]["disagreement"], 1 - counts.max(-1))  # a share of members, whatever they count


def test_folds_are_members_in_the_order_in_which_they_are_chosen(result):
    of_result, of_run = (
        delira.load_ensemble(one, weights=[0.8, 0.2], folds=[2, 0], spread=False) for one in (result, result.path)
    )
    expected = 0.8 * probabilities_of(result.folds[2]) + 0.2 * probabilities_of(result.folds[0])
    for ensemble in (of_result, of_run):
        assert [member.name for member in ensemble.members] == ["fold_02", "fold_00"]
        np.testing.assert_allclose(ensemble.predict(NEW)["pred"], expected, rtol=1e-5)


def probabilities_of(fold):
    return delira.predict(fold, NEW, keep="probabilities")["pred"]


def test_folds_that_cannot_be_chosen_and_members_that_come_twice_are_refused(result, tmp_path):
    saved = result.ensemble().save(tmp_path / "saved")
    with pytest.raises(ConfigError, match=r"folds=\[0\]: .* is an ensemble that was saved"):
        delira.load_ensemble(saved, folds=[0])
    with pytest.raises(ConfigError, match=r"folds=\[1\]: .* is one fold"):
        delira.load_ensemble(result.folds[0].path, folds=[1])
    for twice in ([result.path, result.folds[1].path], [result, result]):
        with pytest.raises(ConfigError, match="is a member twice; what a member counts is said by weights="):
            delira.load_ensemble(twice)
    with pytest.raises(ConfigError, match="folds are different numbers"):
        delira.load_ensemble(result, folds=[0, 0])


def test_what_a_save_that_was_broken_off_has_left_is_no_part_of_the_next_one(result, tmp_path):
    pytest.importorskip("skops", reason="preprocessing is kept by the package 'skops'")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    settings = {"preprocessing": {"data": preprocessing.StandardScaler()}}
    folder = trained(tmp_path / "run", number=2, kfold=settings).ensemble().save(tmp_path / "saved")
    assert (folder / "member_00" / "preprocessing.zip").is_file()
    (folder / "ensemble.json").unlink()  # which is written last
    plain = result.ensemble(folds=[0])
    again = delira.load_ensemble(plain.save(folder))
    np.testing.assert_array_equal(again.predict(NEW)["pred"], plain.predict(NEW)["pred"])


def test_an_error_in_a_member_names_it():
    ensemble = untold(one={}, two={})
    ensemble.members[1].kept.predictor.module.linear = torch.nn.Linear(5, 3)
    ensemble = Ensemble(ensemble.members, at_once=True)
    with pytest.raises(RuntimeError) as caught:
        ensemble.predict(NEW)
    assert "in the member 'two' of an ensemble" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("kind", ["categorical", "binary"])
@pytest.mark.parametrize("combine", ["probabilities", "logits", "votes", "mean"])
@pytest.mark.parametrize("axis", [1, 3])
def test_large_outputs_are_combined_part_by_part(combine, kind, axis, monkeypatch):
    rng = np.random.default_rng(0)
    members = np.float32(rng.integers(-2, 3, size=(3, 2, 3, 5, 4) if axis == 1 else (3, 2, 5, 4, 3)))  # with ties
    known = Criterion("loss", kind, output="logits")
    found = []
    for size in (1, 7, 10**6):
        monkeypatch.setattr(parts_of_model, "_AT_ONCE", size)
        output = parts_of_model._Output("pred", known, combine, axis, True)
        for scores, weight in zip(members, WEIGHTS, strict=True):
            output.add(scores, weight, ("one", "first"), known)
        found.append([output.result(), *output.spread(output.result()).values()])
    for arrays in zip(*found, strict=True):
        for one in arrays[:2]:
            np.testing.assert_array_equal(one, arrays[2])
    if combine == "votes" and kind == "categorical":
        votes = np.moveaxis(np.eye(3)[members.argmax(axis + 1)], -1, axis + 1)
        near(found[0][0], weighted(votes))
