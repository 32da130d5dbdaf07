"""Numbers that are not finite: found, named, left out or undone."""

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np

from delira.errors import NonFiniteLossError
from delira.testing.spec.bench import Bench, caught
from delira.testing.spec.check import check
from delira.testing.spec.reference import Batch
from delira.utils.arrays import iterate_leaves


def _spoil(epoch: int, step: int, times: int = 1000) -> Any:
    """A callback that makes the labels of one step not a number, as often as told."""
    left = iter(range(times))

    def at_iter_begin(trainer: object, *, data_dict: Any, curr_epoch: int, iter_num: int, **facts: Any) -> None:
        if (curr_epoch, iter_num) == (epoch, step) and next(left, None) is not None:
            data_dict["label"] = np.full_like(data_dict["label"], np.nan)

    return SimpleNamespace(at_iter_begin=at_iter_begin)


def _spoiled(batches: list[Batch]) -> list[Batch]:
    """The same with labels in the second batch that are not a number."""
    first, bad, *others = batches
    return [first, {**bad, "label": np.full_like(bad["label"], np.nan)}, *others]


@check("gradients")
def names_the_bad_step(bench: Bench) -> None:
    """A loss that is not finite stops the training, named with epoch and step, and no checkpoint is written after."""
    trainer = bench.trainer(callbacks=[_spoil(2, 1)], save_freq=1)
    caught(NonFiniteLossError, lambda: trainer.train(3, bench.manager()), "'mse' became nan in epoch 2, step 2")
    newest = trainer.load_state(trainer.checkpoints.path("last"))
    assert newest["epoch"] == 1, f"the last checkpoint is of epoch {newest['epoch']}"


@check("gradients")
def notices_at_the_next_reading(bench: Bench) -> None:
    """``log_freq`` says how soon losses are read: they stay on the device until then."""
    for log_freq, steps in ((1, 1), (50, 2)):
        trainer = bench.trainer(callbacks=[_spoil(1, 0)], log_freq=log_freq)
        caught(NonFiniteLossError, functools.partial(trainer.train, 1, bench.manager()))
        done = trainer.state.step_in_epoch
        assert done == steps, f"log_freq={log_freq}: noticed after step {done}, not {steps}"


@check("gradients")
def ignores_when_told(bench: Bench) -> None:
    """``nonfinite="ignore"`` trains on."""
    trainer = bench.trained(2, callbacks=[_spoil(1, 1)], nonfinite="ignore")
    assert trainer.state.epoch == 2, f"it stopped after epoch {trainer.state.epoch}"
    assert np.isnan(trainer.state.history[0]["mse"])


@check("gradients", "skip_nonfinite")
def leaves_bad_batches_out(bench: Bench) -> None:
    """``nonfinite="skip"`` leaves the update of a bad batch out, momentum and all, and counts it."""
    batches = bench.batches(12)
    trainer = bench.trained(2, _spoiled(batches), nonfinite="skip")
    bench.assert_history(trainer, "mse", bench.assert_descended(trainer, [batches[0], batches[2]], 2))
    left_out = bench.backend.optimizers.count_left_out(trainer.optimizers)
    assert left_out == 2, f"2 batches were left out, {left_out} are counted"


@check("gradients", "skip_nonfinite", "accumulation")
def leaves_bad_batches_out_of_groups(bench: Bench) -> None:
    """A bad batch inside an accumulated group is left out alone; the group is weighted by the other samples."""
    trainer = bench.trained(1, _spoiled(bench.batches(12)), nonfinite="skip", gradient_accumulation_steps=3)
    kept = np.r_[0:4, 8:12]
    bench.assert_descended(trainer, [{name: array[kept] for name, array in bench.arrays(12).items()}])


@check("gradients", "skip_nonfinite", "mlp")
def takes_notes_of_bad_batches_back(bench: Bench) -> None:
    """What a network notes of a batch, e.g. the statistics of batch normalisation, is taken back if it is left out."""
    first, *good = bench.batches()
    spoiled = [{**first, "data": np.full_like(first["data"], np.nan)}, *good]
    left, right = (
        bench.weights(bench.trained(1, data, network=bench.mlp(), nonfinite="skip").module) for data in (spoiled, good)
    )
    bench.assert_same(left, right, "the network after a bad and a good batch, and after the good one")


@check("gradients", "rollback")
def rolls_back(bench: Bench) -> None:
    """``nonfinite="rollback"`` returns to the last checkpoint and goes on with smaller learning rates."""
    callbacks = [_spoil(2, 1, times=1)]
    trainer = bench.trained(2, callbacks=callbacks, nonfinite="rollback", save_freq=1, **bench.tested.sgd(0.1))
    assert trainer.state.rollbacks == 1, f"{trainer.state.rollbacks} rollbacks are counted"
    bench.assert_rates(trainer, 0.1, 0.05)


@check("gradients")
def refuses_bad_weights(bench: Bench) -> None:
    """Weights that became infinite are noticed, at the latest when a checkpoint would be written."""

    def explode(trainer: Any, *, iter_num: int, **facts: Any) -> None:
        if iter_num == 1:
            weight, bias = bench.tested.read(trainer.module)
            bench.tested.write(trainer.module, np.full_like(weight, np.inf), bias)

    caught(NonFiniteLossError, lambda: bench.trained(callbacks=[SimpleNamespace(at_iter_end=explode)]))


@check("gradients")
def knows_bad_weights(bench: Bench) -> None:
    """``nonfinite`` names the weights that are not finite, and only these."""
    network = bench.linear()

    def nonfinite() -> list[str]:
        weights = bench.backend.checkpoints.state_tree(network, {})["model"]
        return bench.backend.arrays.nonfinite({name: weights[name] for name in learned})

    learned = bench.backend.weights.learned_names(network)
    assert not (bad := nonfinite()), f"finite weights are said not to be: {bad}"
    weight, bias = bench.tested.read(network)
    leaves = [np.asarray(leaf) for _, leaf in iterate_leaves(bench.weights(network))]
    largest = min(np.finfo(leaf.dtype).max for leaf in leaves if leaf.dtype.kind == "f")
    # of the largest numbers the sum is infinite, though none of them is
    for value, number in ((np.nan, 1), (np.inf, 1), (-np.inf, 1), (largest, 0)):
        bench.tested.write(network, np.full_like(weight, value), bias)
        assert len(bad := nonfinite()) == number, f"of weights that are {value}, said to be not finite are {bad}"
