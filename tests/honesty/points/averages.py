"""Faults of averaged weights in networks with running statistics."""

from put_back import PutBack

_STATISTICS = "tests/honesty/test_averaged_statistics.py"

POINTS = [
    PutBack(
        point="45",
        what="averaged weights are used with the running statistics of the trained ones",
        file="delira/training/evaluation.py",
        old="        self._statistics, self._computed_at = values, run.state.global_step\n        return True",
        new="        return True",
        test=f"{_STATISTICS}::test_the_statistics_are_the_mean_over_the_batches_of_the_training_data[torch]",
    ),
    PutBack(
        point="45",
        what="the best epoch is chosen with the running statistics of the trained weights",
        file="delira/training/evaluation.py",
        old="        self._averages.renew(plan.train_data, epoch)\n",
        new="",
        test=f"{_STATISTICS}::test_what_is_validated_is_what_is_selected_saved_and_given_back[torch]",
    ),
    PutBack(
        point="45",
        what="nothing is said where statistics are not computed anew",
        file="delira/training/evaluation.py",
        old="        run.warn_once(\n",
        new="        str(\n",
        test=f"{_STATISTICS}::test_it_is_said_once_at_the_start_where_it_is_not_made[torch]",
    ),
    PutBack(
        point="45",
        what="a result does not say that statistics were not computed anew",
        file="delira/experiments/result.py",
        old="        found += caveats_of_averages(self.folds, self.is_training)\n",
        new="",
        test=f"{_STATISTICS}::test_a_result_says_so_and_so_does_a_stored_one",
    ),
    PutBack(
        point="45",
        what="a run that a signal ended before the pass is finished without it",
        file="delira/training/trainer.py",
        old="                if self.averages.renew(plan.train_data, run.state.epoch) and not has_work:",
        new="                if False:",
        test=f"{_STATISTICS}::test_a_signal_before_the_last_pass_leaves_it_to_the_next_session",
    ),
    PutBack(
        point="45",
        what="the pass changes the order of a loader with a generator of its own",
        file="delira/training/evaluation.py",
        old="                generator.set_state(state)",
        new="                pass",
        test=f"{_STATISTICS}::test_a_loader_with_a_generator_of_its_own_goes_on_as_without_the_pass",
    ),
    PutBack(
        point="45",
        what="of a layer that is called twice the later call counts more",
        file="delira/backends/torch/weights.py",
        old="            layer.momentum = None\n",
        new="            pass\n",
        test=f"{_STATISTICS}::test_they_are_those_of_update_bn_bit_for_bit",
    ),
]
