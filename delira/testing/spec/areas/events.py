"""Callbacks see the same events, in the same order, with the same facts."""

import functools
from types import SimpleNamespace
from typing import Any

from delira.callbacks import EarlyStopping
from delira.callbacks.abstract_callback import EVENTS
from delira.testing.spec.bench import Bench, caught
from delira.testing.spec.check import check
from delira.testing.spec.reference import Sgd, descend, rmse


class Recorder:
    """Keeps every event with its facts."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        for event in EVENTS:
            setattr(self, event, functools.partial(self._note, event))

    def _note(self, event: str, trainer: object, **facts: Any) -> None:
        self.calls.append((event, facts))

    def facts(self, event: str) -> list[dict[str, Any]]:
        """Facts of every event of a kind."""
        return [facts for name, facts in self.calls if name == event]


@check("steps")
def tells_events_in_order(bench: Bench) -> None:
    """Six events in order: training begins; each epoch begins, its steps begin and end, it ends; training ends."""
    recorder = Recorder()
    bench.trained(2, None, bench.manager(), callbacks=[recorder])
    step = ["at_iter_begin", "at_iter_end"]
    epoch = ["at_epoch_begin", *step * 2, "at_epoch_end"]
    found = [name for name, _ in recorder.calls]
    assert found == ["at_training_begin", *epoch * 2, "at_training_end"], f"the events were {found}"


@check("gradients")
def tells_the_facts(bench: Bench) -> None:
    """Every event comes with the facts that are documented, and no others."""
    recorder = Recorder()
    metrics = {"again": bench.tested.mse}
    trainer = bench.trained(2, None, bench.manager(), "mse", callbacks=[recorder], train_metrics=metrics)
    assert recorder.facts("at_training_begin") == [{"num_epochs": 2, "num_batches": 2}]
    assert recorder.facts("at_training_end") == [{"error": None}]
    first = recorder.facts("at_epoch_begin")[0]
    assert first == {"curr_epoch": 1, "num_epochs": 2, "val_metrics": {}, "val_score_key": "val_mse"}, f"{first}"
    begun, ended = recorder.facts("at_iter_begin"), recorder.facts("at_iter_end")
    expected = [(1, 0, 0), (1, 1, 1), (2, 0, 2), (2, 1, 3)]
    found = [(facts["curr_epoch"], facts["iter_num"], facts["global_iter_num"]) for facts in begun]
    assert found == expected, f"epoch, step and step of the run were {found}"
    names = {"iter_num", "global_iter_num", "curr_epoch", "data_dict", "train"}
    for facts in begun:
        assert facts.keys() == names, f"at_iter_begin has {sorted(facts)}"
        assert facts["data_dict"].keys() == {"data", "label", "number"}, f"a batch has {sorted(facts['data_dict'])}"
    for facts in ended:
        assert facts.keys() == names | {"losses", "metrics", "predictions"}, f"at_iter_end has {sorted(facts)}"
        found_names = [set(facts[name]) for name in ("losses", "metrics", "predictions")]
        assert found_names == [{"mse"}, {"again"}, {"pred"}], f"losses, metrics, predictions have {found_names}"
    for number, facts in enumerate(recorder.facts("at_epoch_end"), 1):
        values = {name: value for name, value in trainer.state.history[number - 1].items() if name != "epoch"}
        assert values.keys() == {"mse", "again", "val_mse", "lr"}, f"an epoch has the values {sorted(values)}"
        assert (facts["curr_epoch"], facts["num_epochs"], facts["val_score_key"]) == (number, 2, "val_mse")
        assert facts["metrics"] == facts["val_metrics"] == values, f"at_epoch_end was told {facts['metrics']}"
        assert isinstance(facts["is_best"], bool)


@check("gradients")
def tells_the_values_of_a_step(bench: Bench) -> None:
    """At the end of a step, losses and predictions are those of this step, before its update; the weights after it."""
    dense, optimizer, batches = bench.dense(), Sgd(0.1, 0.5), iter(bench.batches())

    def look(trainer: Any, *, losses: Any, predictions: Any, **facts: Any) -> None:
        expected_losses, expected = descend(dense, [next(batches)], optimizer)
        bench.assert_close(bench.backend.arrays.to_numpy(predictions)["pred"], expected[0], "the prediction of a step")
        found = bench.backend.arrays.read_scalars([losses["mse"]])
        bench.assert_close(found[0], expected_losses[0], "the loss of a step")
        bench.assert_close(bench.tested.read(trainer.module)[0], dense.weight, "the weight after a step")

    bench.trained(callbacks=[SimpleNamespace(at_iter_end=look)])
    assert next(batches, None) is None, "a step was not told"


@check()
def tells_the_end_of_a_failure(bench: Bench) -> None:
    """A training that fails tells its end with the error, and raises that very error."""
    recorder = Recorder()

    class Mine(Exception):
        pass

    def fail(trainer: object, **facts: Any) -> None:
        raise Mine("of the user's")

    callbacks = [recorder, SimpleNamespace(at_epoch_begin=fail)]
    error = caught(Mine, lambda: bench.trained(callbacks=callbacks))
    ends = recorder.facts("at_training_end")
    assert ends == [{"error": error}], f"the end was told {ends}"


@check("steps")
def stops_early(bench: Bench) -> None:
    """``EarlyStopping`` ends the training after its patience, and the epoch is whole."""
    stopping = EarlyStopping("rmse", min_delta=1e9, patience=2)
    trainer = bench.trained(9, None, bench.manager(), callbacks=[stopping], val_metrics={"rmse": rmse})
    assert (trainer.state.epoch, len(trainer.state.history)) == (3, 3), f"it stopped after epoch {trainer.state.epoch}"
    assert trainer.state.step_in_epoch == 0, "it stopped inside an epoch"


@check("steps")
def stops_when_told(bench: Bench) -> None:
    """A callback that sets ``stop_training`` inside an epoch ends the training after that epoch."""

    def stop(trainer: Any, *, curr_epoch: int, **facts: Any) -> None:
        if curr_epoch == 2:
            trainer.stop_training = True

    trainer = bench.trained(9, callbacks=[SimpleNamespace(at_iter_begin=stop)])
    assert (trainer.state.epoch, trainer.state.global_step) == (2, 4), f"it stopped at step {trainer.state.global_step}"
    assert (trainer.save_path / "checkpoints" / f"checkpoint_last{bench.backend.checkpoint_suffix}").exists()


@check("gradients")
def lets_callbacks_change_a_batch(bench: Bench) -> None:
    """What a callback changes in a batch before its step is what the step learns from."""

    def shift(trainer: object, *, data_dict: Any, **facts: Any) -> None:
        data_dict["label"] = data_dict["label"] + 1

    trainer = bench.trained(callbacks=[SimpleNamespace(at_iter_begin=shift)])
    batches = [{**batch, "label": batch["label"] + 1} for batch in bench.batches()]
    bench.assert_history(trainer, "mse", bench.assert_descended(trainer, batches))


@check()
def changes_nothing_by_listening(bench: Bench) -> None:
    """A callback that only listens does not change the bits of a training."""
    heard, unheard = (
        bench.trained(2, bench.shuffled(), bench.manager(), callbacks=callbacks) for callbacks in ([Recorder()], [])
    )
    bench.assert_same(bench.state(heard), bench.state(unheard), "trainings with and without a listening callback")
