"""Losses, callbacks and transforms of an experiment: each run has its own, and one object in two places stays one."""

import pytest
from broken_off import Counting
from problems import mae

from delira.errors import ConfigError


class Weighted:
    """A loss with a factor that somebody may change."""

    def __init__(self, loss):
        self.loss, self.factor = loss, 1.0

    def __call__(self, prediction, target):
        return self.factor * self.loss(prediction, target)


class Anneal:
    """Switches a loss off after the first epoch."""

    def __init__(self, loss):
        self.loss = loss

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if curr_epoch > 1:
            self.loss.factor = 0.0


@pytest.mark.sampled("pairs")
@pytest.mark.parametrize("place", ["call", "experiment", "parameters"])
@pytest.mark.parametrize("method", ["run", "kfold"])
def test_a_callback_that_holds_a_loss_changes_the_very_loss_that_is_trained(kit, tmp_path, manager, place, method):
    loss = Weighted(kit.loss)
    losses, callbacks = {"losses": {"ce": loss}}, {"callbacks": [Anneal(loss)]}
    plain = {"compiled": False}  # a compiled step keeps the factor it was traced with
    experiment = {
        "call": lambda: kit.experiment(tmp_path, training=plain),
        "experiment": lambda: kit.experiment(tmp_path, **losses, callbacks=callbacks["callbacks"], training=plain),
        "parameters": lambda: kit.experiment(tmp_path, training={**losses, **plain}),
    }[place]()
    given = {"call": {**losses, **callbacks}, "experiment": {}, "parameters": callbacks}[place]
    if method == "run":
        experiment.run(manager(), **given)
        histories = [experiment.last_trainer.state.history]
    else:
        histories = [fold.history for fold in experiment.kfold(manager(), {"mae": mae}, num_splits=2, **given).folds]
    for history in histories:  # every fold begins with the loss switched on
        assert [record["ce"] > 0 for record in history] == [True, False]
    assert loss.factor == 1


@pytest.mark.parametrize("method", ["run", "kfold"])
def test_what_cannot_be_copied_for_a_run_of_its_own_is_refused(kit, tmp_path, manager, method):
    class Writes(Counting):
        def __init__(self, file):
            super().__init__()
            self.file = file

    experiment = kit.experiment(tmp_path / "runs")
    with open(tmp_path / "notes.txt", "w") as file:
        match = "callbacks cannot be copied for a run of their own: .*no open files or locks"
        with pytest.raises(ConfigError, match=match):
            getattr(experiment, method)(manager(), callbacks=[Writes(file)])
    assert list(experiment.save_path.iterdir()) == []


class Louder:
    """A transform that does more at each call."""

    def __init__(self):
        self.calls = 0

    def __call__(self, batch):
        self.calls += 1
        return {**batch, "data": batch["data"] + 0.1 * self.calls}


@pytest.mark.sampled("values")
@pytest.mark.parametrize("where", ["manager", "train_kwargs"])
def test_transforms_that_keep_a_state_begin_anew_in_each_cross_validation_and_run(kit, tmp_path, manager, where):
    louder = Louder()
    data = manager(transforms=louder) if where == "manager" else manager()
    changes = {"train_kwargs": {"transforms": louder}} if where == "train_kwargs" else {}
    experiment = kit.experiment(tmp_path)
    first, second = (experiment.kfold(data, {"mae": mae}, num_splits=2, **changes) for _ in range(2))
    assert kit.same(first.oof.predictions, second.oof.predictions)
    assert [fold.history for fold in first.folds] == [fold.history for fold in second.folds]
    assert kit.same(*(kit.read(experiment.run(data)) for _ in range(2)))
    assert louder.calls == 0
