"""One network over several processes: numbers that would be those of another training."""

from put_back import PutBack

TESTS = "tests/training/test_several_processes.py"

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
        old="batch, n_samples), stop - start",
        new="batch, n_samples), max(1, stop - start)",
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
        old="            distributed.broadcast(buffer, src=0)",
        new="            pass",
        test=f"{TESTS}::test_statistics_of_the_first_are_kept_and_validated",
    ),
]
