"""What a training changes in its process: given back, and left for others in the midst of it."""

import random
import re
import threading

import numpy as np
import pytest

import delira.logging
from delira.settings.config import read_settings
from delira.training import callbacks
from delira.training.run import Run, Scopes, generators_state, own_generators


class Turns:
    """Lets several threads work one after the other, each until it says so."""

    def __init__(self, number):
        self.condition, self.waiting, self.at = threading.Condition(), list(range(number)), 0

    def wait(self, number):
        with self.condition:
            assert self.condition.wait_for(lambda: self.waiting[self.at] == number, timeout=60)

    def pass_on(self, number, *, for_good=False):
        with self.condition:
            place = self.waiting.index(number)
            if for_good:
                self.waiting.remove(number)
                self.at = place % len(self.waiting) if self.waiting else 0
            else:
                self.at = (place + 1) % len(self.waiting)
            self.condition.notify_all()


class AfterEachStep(callbacks.AbstractCallback):
    """Draws from all generators, logs, and lets the others work."""

    def __init__(self, turns, number):
        self.turns, self.number, self.drawn = turns, number, []

    def at_iter_end(self, trainer, **facts):
        self.drawn += [random.random(), float(np.random.random())]
        delira.logging.log({"value": {"name": "mine", "value": self.number}})
        if self.turns is not None:
            with trainer.scopes.left():
                self.turns.pass_on(self.number)
                self.turns.wait(self.number)


def fold(kit, folder, manager, number, turns):
    watching = AfterEachStep(turns, number)
    with own_generators(kit.backend):
        kit.backend.generators.seed(number)  # of the network
        trainer = kit.trainer(folder / f"fold_{number}", fold=number, callbacks=[watching], seed=5)
    trainer.train(2, manager(20, 4), manager(8, 4))
    return trainer, watching


def in_turns(backend, folder, manager):
    turns, found, errors = Turns(3), {}, []

    def work(number):
        turns.wait(number)
        try:
            found[number] = fold(backend, folder, manager, number, turns)
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            turns.pass_on(number, for_good=True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors, errors
    return found


@pytest.mark.slow_cases("tensorflow|jax|torchscript|sklearn")
def test_three_folds_that_take_turns_step_by_step_give_the_bits_of_one_after_the_other(kit, tmp_path, manager):
    """Generators, log, events and the step belong to the run."""
    alone = {number: fold(kit, tmp_path / "alone", manager, number, None) for number in range(3)}
    random.seed(3)
    before = generators_state(kit.backend)
    together = in_turns(kit, tmp_path / "turns", manager)
    after = generators_state(kit.backend)
    for kind in ("python", "numpy"):
        assert kit.same(before[kind], after[kind])
    for number in range(3):
        (trainer, watching), (other, watched) = alone[number], together[number]
        assert watching.drawn == watched.drawn
        assert kit.same(trainer.checkpoint_tree(), other.checkpoint_tree())
        assert trainer.state.history == other.state.history
        for name in ("history.csv", "history.jsonl", "logs/messages.jsonl"):
            own, others = ((tmp_path / kind / f"fold_{number}" / name) for kind in ("alone", "turns"))
            assert _without_times(own) == _without_times(others)


def _without_times(path):
    return re.sub(r'"(time|created|at)": ?[0-9.e+"T:\-]+', "", path.read_text())


def test_the_process_is_as_it_was_while_a_training_is_left(kit):
    run = Run(read_settings({"losses": {"mse": abs}}), kit.backend)
    scopes, outer = Scopes(run), generators_state(kit.backend)
    with scopes.entered():
        kit.backend.generators.seed(3)
        random.seed(4)
        inner = generators_state(kit.backend)
        with scopes.left():
            assert kit.same(generators_state(kit.backend), outer)
            random.seed(99)
        assert kit.same(generators_state(kit.backend), inner)


def test_a_signal_that_came_before_is_not_forgotten(kit):
    run = Run(read_settings({"losses": {"mse": abs}}), kit.backend)
    scopes = Scopes(run)
    with scopes.entered():
        run.stop_signals.received = 15
        with scopes.left():
            pass
        assert run.stop_signals.received == 15
