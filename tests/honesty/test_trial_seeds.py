"""The seed of a trial: drawn from the framework's generator unless it is named, recorded, and taken up again."""

import numpy as np
import pytest
from trial_makers import PACKAGES, line, line_trial, need, next_draw, seed

from delira.errors import CheckpointError

EVERY = pytest.mark.parametrize("framework", list(PACKAGES))


def losses(trial, epochs=1):
    return [record["loss"] for record in trial.run(epochs)]


@EVERY
def test_three_seeds_of_the_framework_are_three_runs_and_one_is_one(framework):
    need(framework)
    found = []
    for number in (0, 1, 2, 0):
        seed(framework, number)
        found.append(losses(line_trial(framework))[0])
    assert len(set(found)) == 3, found
    assert found[0] == found[3]


@EVERY
def test_a_trial_leaves_the_generator_of_its_framework_one_draw_further_and_a_named_seed_leaves_it_alone(framework):
    need(framework)
    net, found = line(framework), {}
    for n_trials in (0, 1, 2):
        seed(framework, 5)
        seeds = [line_trial(framework, net=net).seed for _ in range(n_trials)]
        found[n_trials] = next_draw(framework)
    assert seeds[0] != seeds[1]
    assert len(set(found.values())) == 3
    seed(framework, 5)
    line_trial(framework, net=net, seed=3).run(1)  # the fit itself gives generators back
    assert next_draw(framework) == found[0]


@EVERY
def test_a_trial_that_continues_takes_the_recorded_seed(framework, tmp_path):
    need(framework)
    seed(framework, 1)
    whole = line_trial(framework)
    expected = losses(whole, 4)
    seed(framework, 1)
    first = line_trial(framework, save_path=tmp_path / "run")
    first.run(2)
    seed(framework, 99)
    second = line_trial(framework, save_path=tmp_path / "run")
    assert losses(second, 4) == expected
    assert second.seed == second.trainer.seed == whole.seed
    seed(framework, 98)
    third = line_trial(framework)
    third.load_state_dict(first.state_dict())
    assert losses(third, 4) == expected


def test_a_state_of_another_seed_than_the_named_one_is_refused_and_changes_nothing():
    need("torch")
    seed("torch", 1)
    kept = line_trial("torch")
    kept.run(1)
    with pytest.raises(CheckpointError, match=r"of seed .* the trainer of seed 7"):
        line_trial("torch", seed=7).load_state_dict(kept.state_dict())
    other, torch = line_trial("torch"), pytest.importorskip("torch")
    own, wrong = other.seed, kept.state_dict()
    wrong["model"] = {"weight": torch.zeros(2, 2)}
    with pytest.raises(CheckpointError, match="shape"):
        other.load_state_dict(wrong)
    assert other.seed == other.trainer.seed == own


def test_an_experiment_keeps_its_default_seed_and_a_trial_that_becomes_one_hands_on_only_a_named_one():
    need("torch")
    assert line_trial("torch").to_experiment().settings.get("seed") is None
    assert line_trial("torch", seed=4).to_experiment().settings["seed"] == 4


def test_random_callbacks_follow_the_seed_that_was_drawn():
    torch = pytest.importorskip("torch")
    from delira.training.callbacks import Mixup, mixup_loss

    found = []
    for number in (0, 1, 0):
        torch.manual_seed(number)
        trial = line_trial("torch", [Mixup(0.4)], criterion=mixup_loss(torch.nn.MSELoss()), batch_size=24)
        found.append(losses(trial)[0])
    assert found[0] == found[2] != found[1]


def test_a_seed_is_a_number_that_all_frameworks_take():
    need("torch")
    for number in range(20):
        seed("torch", number)
        drawn = line_trial("torch").seed
        assert isinstance(drawn, int)
        assert 0 <= drawn < 2**31


@EVERY
def test_rolling_back_twice_to_one_state_gives_the_same_run_twice(framework):
    need(framework)
    trial = line_trial(framework, seed=0)
    trial.run(2)
    kept = trial.state_dict()
    runs = []
    for _ in range(3):
        trial.load_state_dict(kept)
        history = trial.run(4)
        assert [record["epoch"] for record in history] == [1, 2, 3, 4]
        runs.append([record["loss"] for record in history])
    assert runs[0] == runs[1] == runs[2]
    assert len(kept["history"]) == len(kept["state"]["history"]) == 2


def test_weights_that_were_given_are_not_shared_with_the_network():
    torch = pytest.importorskip("torch")
    trial = line_trial("torch", seed=0)
    given = {"weight": torch.full((1, 3), 0.5)}
    trial.load_state_dict(given, resume=False)
    trial.run(1)
    assert torch.equal(given["weight"], torch.full((1, 3), 0.5))


def test_arrays_that_were_given_to_an_estimator_are_its_own():
    need("sklearn")
    trial = line_trial("sklearn", seed=0)
    trial.run(1)
    kept = trial.state_dict()
    before = {name: np.array(value) for name, value in _arrays(kept["model"])}
    trial.load_state_dict(kept)
    trial.run(3)
    assert all(np.array_equal(value, before[name]) for name, value in _arrays(kept["model"]))


def _arrays(tree, path=()):
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _arrays(value, (*path, key))
    elif isinstance(tree, np.ndarray):
        yield path, tree
