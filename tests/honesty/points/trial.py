"""Faults of the Trial."""

from put_back import PutBack

_AVERAGES = "tests/honesty/test_trial_averages.py"
_TARGETS = "tests/honesty/test_trial_targets.py"
_CLOSURES = "tests/honesty/test_trial_closures.py"
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
        point="20",
        what="a changed target reaches the loss and not the metrics",
        file="delira/training/trial/run.py",
        old="if self.backend.compiles and self.trial.closure is None:",
        new="if True:",
        test=f"{_TARGETS}::test_a_target_that_is_changed_later_is_that_of_the_metrics_everywhere[on_backward-torch]",
    ),
    PutBack(
        point="20",
        what="metrics of a batch in parts see the target of the last part",
        file="delira/training/trial/run.py",
        old="                    step.predictions.update(_there(self.facts, keys.X, keys.Y_TRUE))\n",
        new="                    pass\n",
        test=f"{_TARGETS}::test_every_part_of_a_batch_has_its_changed_target",
    ),
    PutBack(
        point="20",
        what="an optimizer that asks several times changes the target each time",
        file="delira/training/trial/run.py",
        old="            self.facts[keys.X], self.facts[keys.Y_TRUE] = self._divided(batch)\n",
        new="            pass\n",
        test=f"{_TARGETS}::test_an_optimizer_that_asks_several_times_changes_the_target_once",
    ),
    PutBack(
        point="21",
        what="with the optimizer under a key of the state nothing is differentiated",
        file="delira/training/trial/closures.py",
        old="        if optimizer is None:\n            self._compute(network, state)",
        new="        if state[keys.OPTIMIZER] is None:\n            self._compute(network, state)",
        test=f"{_CLOSURES}::test_an_optimizer_under_a_key_of_the_state_learns_and_is_stored[alone-torch]",
    ),
    PutBack(
        point="21",
        what="a closure updates with another optimizer than that under its key",
        file="delira/training/trial/closures.py",
        old="if given is optimizer or given is trial.built_optimizers.get(name):",
        new="if given is not None:",
        test=f"{_CLOSURES}::test_the_optimizer_under_the_key_updates_and_not_that_of_the_trial[torch]",
    ),
    PutBack(
        point="21",
        what="a given key of the prediction is not respected",
        file="delira/training/trial/closures.py",
        old="        if self._y_pred == keys.Y_PRED:",
        new="        if True:",
        test=f"{_CLOSURES}::test_the_prediction_of_one_closure_is_not_written_over_by_that_of_another[torch]",
    ),
    PutBack(
        point="21",
        what="what a hook sets under the key of the prediction does not reach the criterion",
        file="delira/training/trial/closures.py",
        old="self._y_pred if state[self._y_pred] is not found else keys.Y_PRED",
        new="keys.Y_PRED",
        test=f"{_CLOSURES}::test_what_a_hook_makes_of_the_prediction_reaches_the_criterion_under_either_key[own_output]",
    ),
    PutBack(
        point="21",
        what="the target is read even for a criterion of the state",
        file="delira/training/trial/closures.py",
        old="if not takes_state_only(given[keys.CRITERION]):",
        new="if True:",
        test=f"{_CLOSURES}::test_no_target_is_read_for_a_criterion_of_the_state",
    ),
    PutBack(
        point="21",
        what="crit= and opt= are gone",
        file="delira/training/trial/closures.py",
        old="    if old not in historic:\n",
        new="    if True:\n",
        test=f"{_CLOSURES}::test_crit_and_opt_are_names_of_criterion_and_optimizer",
    ),
    PutBack(
        point="21",
        what="a closure that updates by itself updates twice with the optimizer of the trial",
        file="delira/training/trial/closures.py",
        old="            trainer.is_updated = True\n",
        new="",
        test=f"{_CLOSURES}::test_a_closure_that_updates_by_itself_updates_once[torch]",
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
