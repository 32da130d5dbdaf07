"""Faults of the Trial."""

from put_back import PutBack

_AVERAGES = "tests/honesty/test_trial_averages.py"
_SEEDS = "tests/honesty/test_trial_seeds.py"

POINTS = [
    PutBack(
        point="18",
        what="seed=0 by default overrules the seed of the framework",
        file="delira/training/trial/trial.py",
        old='settings["seed"] if "seed" in settings else self._room().draw_seed()',
        new='settings.get("seed", 0)',
        test=f"{_SEEDS}::test_three_seeds_of_the_framework_are_three_runs_and_one_is_one[torch]",
    ),
    PutBack(
        point="18",
        what="a trial that continues has another seed than the recorded one",
        file="delira/training/trial/run.py",
        old='if "seed" in self.trial.settings or not isinstance(recorded, Mapping):',
        new="if True:",
        test=f"{_SEEDS}::test_a_trial_that_continues_takes_the_recorded_seed[torch]",
    ),
    PutBack(
        point="19",
        what="load_state_dict keeps the caller's lists and arrays",
        file="delira/training/trial/trial.py",
        old="        tree = self.trainer.backend.snapshot(tree)\n",
        new="",
        test=f"{_SEEDS}::test_rolling_back_twice_to_one_state_gives_the_same_run_twice[torch]",
    ),
    PutBack(
        point="45",
        what="a trial without a folder goes on from the average",
        file="delira/training/checkpointed.py",
        old="            self._take_trained_back()\n",
        new="",
        test=f"{_AVERAGES}::test_a_trial_without_a_folder_goes_on_from_the_weights_that_were_trained[swa-torch]",
    ),
    PutBack(
        point="45",
        what="the state of such a trial has lost the trained weights",
        file="delira/training/checkpointed.py",
        old='tree["model"] if self._trained is None else self._trained[1]',
        new='tree["model"]',
        test=f"{_AVERAGES}::test_the_state_of_such_a_trial_holds_average_and_trained_weights[swa-torch]",
    ),
    PutBack(
        point="45",
        what="save() writes neither state nor trained weights",
        file="delira/training/checkpointed.py",
        old="not self._must_return or self._trained is not None:",
        new="not self._must_return:",
        test=f"{_AVERAGES}::test_a_file_of_such_a_trial_holds_everything[torch]",
    ),
]
