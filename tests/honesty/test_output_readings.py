"""What an output is of which nobody says it is settled once for a training, not in each pass by the values of that."""

import logging

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.experiments.result import KFoldResult

sk = pytest.importorskip("sklearn.metrics", reason="the numbers are compared with those of scikit-learn")
torch = pytest.importorskip("torch", reason="a network of PyTorch is trained")

X = np.linspace(0.3, 0.6, 20, dtype=np.float32)[:, None]
Y = (np.arange(20) % 4 == 3).astype(np.float32)[:, None]


def own_loss(prediction, target):
    """A loss of which nobody knows anything: each step takes 0.2 from every prediction."""
    return prediction.mean() + 0 * target.sum()


def of(x, y=Y):
    return BaseDataManager({"data": x, "label": y}, batch_size=len(x), n_process_augmentation=0)


def experiment_in(folder, **training):
    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchExperiment

    class Shift(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.shift = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x):
            """What it is given, moved."""
            return {"pred": x + self.shift}

    how = {"losses": {"loss": own_loss}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.2}, **training}
    return PyTorchExperiment({"training": how}, Shift, name="shift", save_path=folder, verbose=False)


def share(yes):
    return float(np.mean(yes == Y))


def trained(folder, **training):
    metrics = {"again": "binary_acc", "acc": sk.accuracy_score}
    experiment = experiment_in(folder, val_metrics=metrics, val_score_key="acc", **training)
    return experiment, experiment.run(of(X), of(X), num_epochs=3)


def test_what_one_epoch_has_told_holds_for_all_that_follow_and_is_said(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="delira"):
        experiment, network = trained(tmp_path)
    state = experiment.last_trainer.state
    # after an epoch all predictions lie from 0.1 to 0.4, after two below 0, too, after three all do
    expected = [share(X - 0.2 > 0.5), share(X - 0.4 > 0), share(X - 0.6 > 0)]
    for name in ("val_acc", "val_again"):
        assert [record[name] for record in state.history] == pytest.approx(expected)
    assert state.best_epoch == 3  # the first one is no better than it: it was read otherwise
    said = [record.getMessage() for record in caplog.records if "the output 'pred'" in record.getMessage()]
    assert len(said) == 3
    assert "it was read as probabilities, because all of its values may be that" in said[0]
    assert "it was read as logits, because some of its values are no probabilities" in said[1]
    assert "was read as probabilities before epoch 2, and as logits from then on" in said[2]
    stored = KFoldResult.load(tmp_path)
    assert experiment.last_trainer.caveats == said[1:]
    assert stored.warnings[:2] == said[1:]
    assert all(text in str(stored) for text in said[1:])
    # of the network that is tested the training has told it, though these values look like probabilities
    shift = float(network.shift.detach())
    assert 0 < 0.9 + shift < 0.5
    metrics = experiment.test(network, of(np.full_like(X, 0.9), np.ones_like(Y)))[1]
    assert (metrics["acc"].item(), metrics["again"].item()) == (1.0, 1.0)


def test_an_output_that_is_read_otherwise_leaves_the_best_epoch_of_another_score_alone(tmp_path, caplog):
    experiment = experiment_in(
        tmp_path, val_metrics={"acc": sk.accuracy_score}, val_score_key="loss", val_score_mode="max"
    )
    with caplog.at_level(logging.WARNING, logger="delira"):
        experiment.run(of(X), of(X), num_epochs=3)
    state = experiment.last_trainer.state
    assert [record["val_loss"] for record in state.history] == pytest.approx([X.mean() - 0.2 * k for k in (1, 2, 3)])
    assert state.outputs["pred"] == {"output": "logits", "since": 2, "is_changed": True}
    assert (state.best_epoch, state.best_score) == (1, state.history[0]["val_loss"])


def test_a_training_that_goes_on_remembers_what_was_told(tmp_path):
    first, _ = trained(tmp_path)
    experiment = experiment_in(
        tmp_path, val_metrics={"again": "binary_acc", "acc": sk.accuracy_score}, val_score_key="acc"
    )
    with pytest.warns(UserWarning, match="continued with changes"):
        experiment.run(of(X), of(X + 0.8), num_epochs=4, resume=first.last_trainer.save_path, allow_changes=True)
    assert X.min() + 0.8 - 0.8 > 0  # it looks like probabilities
    record = experiment.last_trainer.state.history[-1]
    assert (record["val_acc"], record["val_again"]) == pytest.approx((share(X > 0),) * 2)
    assert "was read as probabilities before epoch 2" in experiment.last_trainer.caveats[1]


@pytest.mark.parametrize("said", ["logits", "probabilities"])
def test_nothing_is_told_where_somebody_says_it(tmp_path, said, caplog):
    with caplog.at_level(logging.WARNING, logger="delira"):
        if said == "logits":
            experiment, _ = trained(tmp_path, output=said)
        else:
            experiment, _ = trained(tmp_path, losses={"loss": torch.nn.MSELoss()})
    assert experiment.last_trainer.caveats == []
    assert not [record for record in caplog.records if "the output" in record.getMessage()]
    assert not [text for text in KFoldResult.load(tmp_path).warnings if "output" in text]


def test_metrics_of_the_training_are_read_as_those_of_the_validation(tmp_path):
    experiment = experiment_in(tmp_path, metrics={"f1": sk.f1_score})
    experiment.run(of(X), num_epochs=3)
    told = [record["f1"] for record in experiment.last_trainer.state.history]
    # each epoch sees the predictions before its step
    expected = [sk.f1_score(Y, X > 0.5), sk.f1_score(Y, X - 0.2 > 0.5, zero_division=0), sk.f1_score(Y, X - 0.4 > 0)]
    assert told == pytest.approx(expected)
    assert experiment.last_trainer.caveats


def cross_validated(folder, x):
    experiment = experiment_in(folder, val_metrics={"acc": sk.accuracy_score}, val_score_key="acc")
    metrics = {"acc": sk.accuracy_score}
    return experiment.kfold(of(x), metrics, num_epochs=3, num_splits=2, shuffle=False, val_split=0.5)


def test_the_result_of_a_cross_validation_names_the_folds_that_read_an_output_in_two_ways(tmp_path):
    result = cross_validated(tmp_path, X)
    said = [text for text in result.warnings if text.startswith("fold ")]
    # what the first fold validates, from 0.45 to 0.6, falls below 0 a step later than that of the second
    begin = "the output 'pred' was read as probabilities before epoch"
    assert [text[: len(begin) + 10] for text in said] == [f"fold 0: {begin} 3", f"fold 1: {begin} 2"]
    assert all(text in str(result) for text in said)
    assert result.to_html().count("was read as probabilities before epoch") == 2
    stored = KFoldResult.load(tmp_path)
    assert [text for text in stored.warnings if text.startswith("fold ")] == said
    assert stored.folds[1].output_readings == {"pred": {"output": "logits", "since": 2, "is_changed": True}}


def test_scores_that_a_training_has_met_count_for_the_whole_result(tmp_path):
    # all that is tested lies from 0 to 1; the second fold, trained on the first half, has met scores below 0
    x = np.where(np.arange(20)[:, None] < 10, X, np.float32(0.65))
    result = cross_validated(tmp_path, x)
    assert all(0 <= fold.predictions["pred"].min() <= fold.predictions["pred"].max() <= 1 for fold in result.folds)
    told = [fold.output_readings["pred"]["output"] for fold in result.folds]
    assert told == ["probabilities", "logits"]
    expected = [np.mean(Y[fold.test_indices] == 1) for fold in result.folds]  # all are above 0
    assert [fold.metrics["acc"].item() for fold in result.folds] == expected == [0.2, 0.3]
    assert result.summary()["acc"]["oof"] == 0.25
    assert any("some of its values in the training are no probabilities" in text for text in result.warnings)
    stored = KFoldResult.load(tmp_path)
    assert stored.summary()["acc"]["oof"] == 0.25
    assert [text for text in stored.warnings if "output" in text] == [t for t in result.warnings if "output" in t]
