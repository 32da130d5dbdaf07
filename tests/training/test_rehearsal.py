"""Steps that leave no trace, and who takes part in them."""

import pytest
from small_backends import toy_kit

from delira import state as keys
from delira.callbacks.abstract_callback import Callback
from delira.errors import ConfigError, DataError
from delira.training.finders import participants, rehearsing


def test_steps_are_undone(tmp_path, manager):
    kit = toy_kit()
    trainer, data = kit.trainer(tmp_path), manager()
    before, facts, callbacks = trainer.checkpoint_tree(), dict(trainer.hook_state), trainer.callbacks
    with kit.undisturbed(), rehearsing(trainer, data) as rehearsal:
        losses = [rehearsal.step(next(rehearsal.batches)) for _ in range(7)]
        assert trainer.state.global_step == 7
    assert len(set(losses)) == 7
    assert kit.same(trainer.checkpoint_tree(), before)
    assert dict(trainer.hook_state) == facts
    assert trainer.callbacks is callbacks


def test_callbacks_take_part_inside_of_the_step_alone(tmp_path, manager):
    heard = []

    class Hears(Callback):
        def on_forward(self, state):
            heard.append("forward")

        def on_start_epoch(self, state):
            heard.append("epoch")

        def on_step_training(self, state):
            heard.append("step")

    class Outside(Callback):
        def on_start_epoch(self, state):
            heard.append("outside")

    trainer = toy_kit().trainer(tmp_path, callbacks=[Hears(), Outside()])
    with rehearsing(trainer, manager()) as rehearsal:
        rehearsal.step(next(rehearsal.batches))
    assert heard == ["epoch", "forward"]
    assert keys.PHASE not in trainer.hook_state or trainer.run.phase == "fit"


def test_data_that_would_be_used_up_are_refused(tmp_path, manager):
    trainer = toy_kit().trainer(tmp_path)
    assert participants(trainer, data := manager()) == (trainer, data)
    with pytest.raises(ConfigError, match="a trainer needs data to train on"):
        participants(trainer, None)
    with pytest.raises(ConfigError, match="batches that are taken from a list_iterator would be missing"):
        participants(trainer, iter([{}]))


def test_data_without_a_batch_are_refused(tmp_path):
    with pytest.raises(DataError, match="gave no batch"), rehearsing(toy_kit().trainer(tmp_path), []) as rehearsal:
        next(rehearsal.batches)
