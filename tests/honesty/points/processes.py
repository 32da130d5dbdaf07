"""One network over several processes: numbers that would be those of another training."""

from put_back import PutBack

TESTS = "tests/training/test_several_processes.py"
AGREED = "tests/training/test_processes_agree.py"

POINTS = [
    PutBack(
        point="processes",
        what="gradients are averaged over processes instead of samples",
        file="delira/backends/torch/optimizers.py",
        old="return self._n_samples / self._reference",
        new="return 0.5",
        test=f"{TESTS}::test_two_processes_learn_what_one_does",
    ),
    PutBack(
        point="processes",
        what="a process without a sample of a batch counts the one it stands in with",
        file="delira/training/ranks.py",
        old="batch, n_samples), self.count(n_samples)",
        new="batch, n_samples), max(1, self.count(n_samples))",
        test=f"{TESTS}::test_several_processes_learn_what_one_does[an empty share]",
    ),
    PutBack(
        point="processes",
        what="losses of a step are those of the first process alone",
        file="delira/training/share.py",
        old="dict(zip(losses, numbers, strict=False)),",
        new="dict(losses),",
        test=f"{TESTS}::test_two_processes_learn_what_one_does",
    ),
    PutBack(
        point="processes",
        what="a closure that does not scale its loss learns as many times as fast",
        file="delira/backends/torch/optimizers.py",
        old="if not self._is_scaled:",
        new="if False:",
        test=f"{TESTS}::test_several_processes_learn_what_one_does[a closure that does not scale]",
    ),
    PutBack(
        point="processes",
        what="running statistics that are validated are those of each process",
        file="delira/backends/torch/group.py",
        old="        self._copy_first([*network.buffers()])",
        new="        pass",
        test=f"{TESTS}::test_statistics_of_the_first_are_kept_and_validated",
    ),
    PutBack(
        point="processes",
        what="a loss with class weights is weighed by samples",
        file="delira/training/step.py",
        old="weigh(self.loss_weights(prepared) or {}, n_own, n_samples)",
        new="weigh({}, n_own, n_samples)",
        test=f"{TESTS}::test_losses_that_count_something_else_than_samples_are_exact[each]",
    ),
    PutBack(
        point="processes",
        what="what counts in the sample that a process without one stands in with counts twice",
        file="delira/backends/torch/group.py",
        old="if not n_own:  # the first",
        new="if False:  # the first",
        test=f"{TESTS}::test_losses_that_count_something_else_than_samples_are_exact[each]",
    ),
    PutBack(
        point="processes",
        what="processes that make their shares alone draw the same random numbers",
        file="delira/data_loading/data_loader.py",
        old="self.counters, ranks=(ranks.rank,))",
        new="self.counters)",
        test="tests/training/test_shares.py::test_a_share_is_a_function_of_the_counters_and_the_rank",
    ),
    PutBack(
        point="processes",
        what="gradients of weights that are spread are averaged over processes",
        file="delira/backends/torch/sharding.py",
        old="layer.set_gradient_divide_factor(1.0)",
        new="layer.set_gradient_divide_factor(2.0)",
        test="tests/training/test_spread_weights.py::test_spread_weights_learn_what_one_process_does[accumulation]",
    ),
    PutBack(
        point="processes",
        what="a process of torchrun helps in something else than what its script calls",
        file="delira/training/launched.py",
        old="if done != name:",
        new="if False:",
        test="tests/training/test_torchrun.py::test_processes_that_run_different_scripts_do_not_wait_for_ever",
    ),
    PutBack(
        point="processes",
        what="the other processes begin at epoch 1, with the learning rates of the settings",
        file="delira/training/together.py",
        old="        trainer.saving.take(training.state)\n",
        new="",
        test=f"{AGREED}::test_what_was_changed_before_the_training_counts_in_all_processes",
    ),
]
