"""What an experiment says when its run ends before its time."""

import json

import pytest
from broken_off import Counting, Interrupted, InterruptOnce

from delira.runs.folder import RunFolder


def events(folder):
    return [json.loads(line)["event"] for line in (folder / "ledger.jsonl").read_text().splitlines()]


@pytest.mark.sampled("values")
@pytest.mark.parametrize("method", ["run", "kfold"])
def test_an_interrupted_run_says_how_it_is_continued_and_its_trainer_is_at_hand(kit, tmp_path, manager, method):
    experiment = kit.experiment(tmp_path, training={"save_freq": 1})
    begin = getattr(experiment, method)
    given = {"callbacks": [Counting(), InterruptOnce(2, 0)], **({"num_splits": 2} if method == "kfold" else {})}
    with pytest.raises(Interrupted, match="in epoch 2, step 0") as caught:
        begin(manager(), **given)
    (folder,) = experiment.save_path.iterdir()
    assert caught.value.__notes__[-1:] == [f"The run can be continued from its last checkpoint: resume={str(folder)!r}"]
    assert events(folder)[-1] == "broken_off"
    assert "finished" not in events(folder)
    if method == "run":
        trainer = experiment.last_trainer
        assert trainer.save_path.parent == folder
        (counting,) = (callback for callback in trainer.callbacks if isinstance(callback, Counting))
        assert counting.epochs == [1]
        assert counting is not given["callbacks"][0]
    begin(manager(), resume=folder, **{**given, "callbacks": [Counting()]})
    assert events(folder)[-1] == "finished"
    if method == "run":
        (counting,) = (callback for callback in experiment.last_trainer.callbacks if isinstance(callback, Counting))
        assert counting.epochs == [1, 2]


def test_a_run_that_failed_before_its_first_checkpoint_promises_nothing(kit, tmp_path, manager):
    experiment = kit.experiment(tmp_path, training={"save_freq": 1})
    with pytest.raises(Interrupted, match="in epoch 1, step 1") as caught:
        experiment.run(manager(), callbacks=[InterruptOnce(1)])
    assert not any("can be continued" in note for note in caught.value.__notes__)
    (folder,) = experiment.save_path.iterdir()
    assert events(folder)[-1] == "broken_off"


def test_a_ledger_that_cannot_be_written_does_not_hide_what_broke_the_run(kit, tmp_path, manager, monkeypatch):
    class Break:
        def at_epoch_begin(self, trainer, **facts):
            monkeypatch.setattr(RunFolder, "log", fail)
            raise LookupError("mine")

    def fail(self, event, **facts):
        raise OSError("no space left")

    with pytest.raises(LookupError, match="mine"):
        kit.experiment(tmp_path).run(manager(), callbacks=[Break()])
