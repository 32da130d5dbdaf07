"""A batch in parts, with one update: cut by samples, and values averaged by what counts."""

import numpy as np
import pytest

from delira.errors import ConfigError
from delira.settings.config import read_settings
from delira.training.run import Run
from delira.training.step import TrainingStep


class OutOfMemory(Exception):
    pass


class Half(TrainingStep):
    """A step that computes nothing: it notes the parts, and runs out of memory in parts that are too large."""

    def __init__(self, largest=99, weights=None):
        self.largest, self.weights, self.parts = largest, weights, []

    def compute_part(self, part, n_samples, is_last, has_more, counters):
        if n_samples > self.largest:
            raise OutOfMemory
        self.parts.append((part, n_samples, is_last, has_more, counters))
        value = float(part["data"].mean())
        return {"metric": value}, {"mse": 2 * value}, {"pred": part["data"]}

    def loss_weights(self, part):
        return None if self.weights is None else {"mse": self.weights(part)}


def run_of(kit, micro_batches):
    run = Run(read_settings({"losses": {"mse": kit.loss}, "micro_batches": micro_batches}), kit.backend)
    run.optimizers = {}
    return run


@pytest.fixture
def run(kit):
    return run_of(kit, 2)


BATCH = {"data": np.arange(5.0), "names": list("abcde"), "nested": [np.arange(5), np.zeros((5, 2))], "factor": 3.0}


def call(run, step, batch=None):
    step._run = run
    return step.compute_in_parts(BATCH if batch is None else batch, 5, True, {"iter_num": 4})


def test_parts_hold_the_samples_of_all_that_has_as_many_as_the_batch(run):
    step = Half()
    call(run, step)
    (first, *about), (second, *others) = step.parts
    assert about == [2, True, True, {"iter_num": 4}]
    assert others == [3, True, False, {"iter_num": 4}]
    assert first["names"] + second["names"] == BATCH["names"]
    assert [len(leaf) for leaf in (*first["nested"], *second["nested"])] == [2, 2, 3, 3]
    assert first["factor"] == second["factor"] == 3.0


def test_values_are_those_of_the_whole_batch(run):
    metrics, losses, predictions = call(run, Half())
    assert metrics == {"metric": pytest.approx(2.0)}
    assert losses == {"mse": pytest.approx(4.0)}
    assert predictions["pred"].tolist() == BATCH["data"].tolist()


def test_losses_are_averaged_by_what_counts_where_that_is_known(run):
    _, losses, _ = call(run, Half(weights=lambda part: float((part["data"] > 0).sum())))
    assert losses["mse"] == pytest.approx(2 * (0.5 * 1 + 3.0 * 3) / 4)


@pytest.mark.slow
def test_more_parts_are_made_when_the_memory_does_not_suffice(kit, monkeypatch):
    run = run_of(kit, "auto")
    monkeypatch.setattr(type(run.backend.devices), "is_out_of_memory", lambda self, error: type(error) is OutOfMemory)
    monkeypatch.setattr(type(run.backend.optimizers), "discard_parts", lambda self, optimizers: True)
    step = Half(largest=2)
    _, losses, _ = call(run, step)
    assert run.state.micro_batches == 4
    assert [number for _, number, *_ in step.parts[-4:]] == [1, 1, 1, 2]
    assert losses["mse"] == pytest.approx(4.0)
    with pytest.raises(OutOfMemory):
        call(run, Half(largest=0))


def test_other_errors_and_fixed_numbers_of_parts_are_not_tried_again(run):
    with pytest.raises(OutOfMemory):
        call(run, Half(largest=1))
    assert run.state.micro_batches == 2


@pytest.mark.parametrize("micro_batches", [2, "auto"])
def test_sums_over_samples_are_refused(kit, tmp_path, micro_batches):
    """Parts are averaged: the sum of a batch would be learned and recorded as the mean of the sums of its parts."""

    class Sum:
        reduction = "sum"

        def __call__(self, prediction, target):
            return kit.loss(prediction, target)

    kit.trainer(tmp_path / "whole", losses={"mse": Sum()})
    message = rf"losses\['mse'\] is a sum over samples, but micro_batches={micro_batches!r}"
    with pytest.raises(ConfigError, match=message):
        kit.trainer(tmp_path / "parts", losses={"mse": Sum()}, micro_batches=micro_batches)
