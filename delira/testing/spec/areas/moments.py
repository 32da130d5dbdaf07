"""Callbacks see the same moments, in the same order, with the same facts."""

from collections.abc import Callable
from typing import Any

from delira.callbacks import EarlyStopping
from delira.callbacks.abstract_callback import EVENTS
from delira.testing.spec.bench import Bench
from delira.testing.spec.check import check
from delira.testing.spec.reference import Sgd, descend, rmse, weighted


class Recorder:
    """Keeps every moment with its facts, and whatever ``look`` finds in them."""

    def __init__(self, look: Callable[[Any, str, dict[str, Any]], None] | None = None):
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.look = look

    def facts(self, event: str) -> list[dict[str, Any]]:
        """Facts of every moment of a kind."""
        return [facts for name, facts in self.calls if name == event]


def _recording(event: str) -> Callable[..., None]:
    def method(self: Recorder, trainer: object, **facts: Any) -> None:
        self.calls.append((event, facts))
        if self.look is not None:
            self.look(trainer, event, facts)

    return method


for _event in EVENTS:
    setattr(Recorder, _event, _recording(_event))


@check("steps")
def tells_moments_in_order(bench: Bench) -> None:
    """Six moments in order: training begins; each epoch begins, its steps begin and end, it ends; training ends."""
    recorder = Recorder()
    bench.trainer(callbacks=[recorder]).train(2, bench.manager(8), bench.manager(8))
    step = ["at_iter_begin", "at_iter_end"]
    epoch = ["at_epoch_begin", *step * 2, "at_epoch_end"]
    found = [name for name, _ in recorder.calls]
    assert found == ["at_training_begin", *epoch * 2, "at_training_end"], f"the moments were {found}"


@check("gradients")
def tells_the_facts(bench: Bench) -> None:
    """Every moment comes with the facts that are documented, and no others."""
    recorder = Recorder()
    trainer = bench.trainer(callbacks=[recorder], train_metrics={"again": bench.tested.mse})
    trainer.train(2, bench.manager(8), bench.manager(8), "mse")
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
    found: list[tuple[Any, Any, Any]] = []

    def look(trainer: Any, event: str, facts: dict[str, Any]) -> None:
        if event == "at_iter_end":
            loss = bench.backend.arrays.read_scalars([facts["losses"]["mse"]])[0]
            found.append(
                (loss, bench.backend.arrays.to_numpy(facts["predictions"])["pred"], bench.tested.read(trainer.module))
            )

    bench.trainer(callbacks=[Recorder(look)]).train(1, bench.manager(8))
    dense, optimizer = bench.dense(), Sgd(0.1, 0.5)
    for batch, (loss, prediction, (weight, _)) in zip(bench.batches(8), found, strict=True):
        losses, predictions = descend(dense, [batch], optimizer)
        bench.assert_close(prediction, predictions[0], "the prediction of a step")
        bench.assert_close(loss, losses[0], "the loss of a step")
        bench.assert_close(weight, dense.weight, "the weight after a step")


@check()
def tells_the_end_of_a_failure(bench: Bench) -> None:
    """A training that fails tells its end with the error, and raises that very error."""
    recorder = Recorder()

    class Mine(Exception):
        pass

    class Fail:
        def at_epoch_begin(self, trainer: object, **facts: Any) -> None:
            raise Mine("of the user's")

    caught: BaseException | None = None
    try:
        bench.trainer(callbacks=[recorder, Fail()]).train(1, bench.manager(8))
    except Mine as error:
        caught = error
    assert caught is not None, "the error of a callback was lost"
    assert recorder.facts("at_training_end") == [{"error": caught}], (
        f"the end was told {recorder.facts('at_training_end')}"
    )


@check("steps")
def stops_early(bench: Bench) -> None:
    """``EarlyStopping`` ends the training after its patience, and the epoch is whole."""
    stopping = EarlyStopping("rmse", min_delta=1e9, patience=2)
    trainer = bench.trainer(callbacks=[stopping], val_metrics={"rmse": rmse})
    trainer.train(9, bench.manager(8), bench.manager(8))
    assert (trainer.state.epoch, len(trainer.state.history)) == (3, 3), f"it stopped after epoch {trainer.state.epoch}"
    assert trainer.state.step_in_epoch == 0, "it stopped inside an epoch"


@check("steps")
def stops_when_told(bench: Bench) -> None:
    """A callback that sets ``stop_training`` inside an epoch ends the training after that epoch."""

    def look(trainer: Any, event: str, facts: dict[str, Any]) -> None:
        if event == "at_iter_begin" and facts["curr_epoch"] == 2:
            trainer.stop_training = True

    trainer = bench.trainer(callbacks=[Recorder(look)])
    trainer.train(9, bench.manager(8))
    assert (trainer.state.epoch, trainer.state.global_step) == (2, 4), f"it stopped at step {trainer.state.global_step}"
    assert (trainer.save_path / "checkpoints" / f"checkpoint_last{bench.backend.checkpoint_suffix}").exists()


@check("gradients")
def lets_callbacks_change_a_batch(bench: Bench) -> None:
    """What a callback changes in a batch before its step is what the step learns from."""

    def look(trainer: object, event: str, facts: dict[str, Any]) -> None:
        if event == "at_iter_begin":
            facts["data_dict"]["label"] = facts["data_dict"]["label"] + 1

    trainer = bench.trainer(callbacks=[Recorder(look)])
    network = trainer.train(1, bench.manager(8))
    dense = bench.dense()
    batches = [{**batch, "label": batch["label"] + 1} for batch in bench.batches(8)]
    losses, _ = descend(dense, batches)
    bench.assert_layer(network, dense)
    bench.assert_history(trainer, "mse", [weighted(losses, batches)])


@check()
def changes_nothing_by_listening(bench: Bench) -> None:
    """A callback that only listens does not change the bits of a training."""
    heard, unheard = bench.trainer(callbacks=[Recorder()]), bench.trainer()
    for trainer in (heard, unheard):
        trainer.train(2, bench.shuffled(8), bench.manager(8))
    bench.assert_same(bench.state(heard), bench.state(unheard), "trainings with and without a listening callback")
