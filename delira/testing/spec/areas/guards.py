"""Numbers that are not finite: found, named, left out or undone."""

import functools
from typing import Any

import numpy as np

from delira.errors import NonFiniteLossError
from delira.testing.spec.bench import Bench, caught
from delira.testing.spec.check import check
from delira.testing.spec.reference import Batch, Sgd, descend, weighted
from delira.utils.trees import iterate_leaves


class Spoil:
    """Makes the labels of one step not a number, as often as told."""

    def __init__(self, epoch: int, step: int, times: int = 1000):
        self.place, self.times = (epoch, step), times

    def at_iter_begin(self, trainer: Any, *, data_dict: Any, curr_epoch: int, iter_num: int, **facts: Any) -> None:
        if (curr_epoch, iter_num) == self.place and self.times:
            self.times -= 1
            data_dict["label"] = np.full_like(data_dict["label"], np.nan)


def _spoiled(batches: list[Batch], *places: int) -> list[Batch]:
    return [
        {**batch, "label": np.full_like(batch["label"], np.nan)} if number in places else batch
        for number, batch in enumerate(batches)
    ]


@check("gradients")
def names_the_bad_step(bench: Bench) -> None:
    """A loss that is not finite stops the training, named with epoch and step, and no checkpoint is written after."""
    trainer = bench.trainer(callbacks=[Spoil(2, 1)], save_freq=1)
    caught(NonFiniteLossError, lambda: trainer.train(3, bench.manager(8)), "'mse' became nan in epoch 2, step 2")
    newest = trainer.load_state(trainer.checkpoints.path("last"))
    assert newest["epoch"] == 1, f"the last checkpoint is of epoch {newest['epoch']}"


@check("gradients")
def notices_at_the_next_reading(bench: Bench) -> None:
    """``log_freq`` says how soon losses are read: they stay on the device until then."""
    for log_freq, steps in ((1, 1), (50, 2)):
        trainer = bench.trainer(callbacks=[Spoil(1, 0)], log_freq=log_freq)
        caught(NonFiniteLossError, functools.partial(trainer.train, 1, bench.manager(8)))
        done = trainer.state.step_in_epoch
        assert done == steps, f"log_freq={log_freq}: noticed after step {done}, not {steps}"


@check("gradients")
def ignores_when_told(bench: Bench) -> None:
    """``nonfinite="ignore"`` trains on."""
    trainer = bench.trainer(callbacks=[Spoil(1, 1)], nonfinite="ignore")
    trainer.train(2, bench.manager(8))
    assert trainer.state.epoch == 2, f"it stopped after epoch {trainer.state.epoch}"
    assert np.isnan(trainer.state.history[0]["mse"])


@check("gradients", "skip_nonfinite")
def leaves_bad_batches_out(bench: Bench) -> None:
    """``nonfinite="skip"`` leaves the update of a bad batch out, momentum and all, and counts it."""
    batches = bench.batches(12)
    trainer = bench.trainer(nonfinite="skip")
    network = trainer.train(2, _spoiled(batches, 1))
    dense, good = bench.dense(), [batches[0], batches[2]]
    losses, _ = descend(dense, 2 * good)
    bench.assert_layer(network, dense)
    bench.assert_history(trainer, "mse", [weighted(losses[:2], good), weighted(losses[2:], good)])
    left_out = bench.backend.optimizers.count_left_out(trainer.optimizers)
    assert left_out == 2, f"2 batches were left out, {left_out} are counted"


@check("gradients", "skip_nonfinite", "accumulation")
def leaves_bad_batches_out_of_groups(bench: Bench) -> None:
    """A bad batch inside an accumulated group is left out alone; the group is weighted by the other samples."""
    arrays = bench.arrays(12)
    batches = [
        {name: array[rows] for name, array in arrays.items()} for rows in (slice(0, 4), slice(4, 8), slice(8, 12))
    ]
    network = bench.trainer(nonfinite="skip", gradient_accumulation_steps=3).train(1, _spoiled(batches, 1))
    dense = bench.dense()
    kept = np.r_[0:4, 8:12]
    descend(dense, [{name: array[kept] for name, array in arrays.items()}])
    bench.assert_layer(network, dense)


@check("gradients", "skip_nonfinite", "mlp")
def takes_notes_of_bad_batches_back(bench: Bench) -> None:
    """What a network notes of a batch, e.g. the statistics of batch normalisation, is taken back if it is left out."""
    batches = bench.batches(8)
    spoiled = [{**batches[0], "data": np.full_like(batches[0]["data"], np.nan)}, batches[1]]
    states = []
    for data in (spoiled, batches[1:]):
        trainer = bench.trainer(bench.mlp(), nonfinite="skip")
        trainer.train(1, data)
        states.append(bench.backend.arrays.to_numpy(bench.state(trainer)["tree"]["model"]))
    bench.assert_same(states[0], states[1], "the network after a bad and a good batch, and after the good one")


@check("gradients", "rollback")
def rolls_back(bench: Bench) -> None:
    """``nonfinite="rollback"`` returns to the last checkpoint and goes on with smaller learning rates."""
    trainer = bench.trainer(
        callbacks=[Spoil(2, 1, times=1)], nonfinite="rollback", save_freq=1, **bench.tested.sgd(0.1)
    )
    network = trainer.train(2, bench.manager(8))
    dense = bench.dense()
    descend(dense, bench.batches(8), Sgd(0.1))
    descend(dense, bench.batches(8), Sgd(0.05))
    assert trainer.state.rollbacks == 1, f"{trainer.state.rollbacks} rollbacks are counted"
    bench.assert_layer(network, dense)
    bench.assert_history(trainer, "lr", [0.1, 0.05])


@check("gradients")
def refuses_bad_weights(bench: Bench) -> None:
    """Weights that became infinite are noticed, at the latest when a checkpoint would be written."""

    class Explode:
        def at_iter_end(self, trainer: Any, *, iter_num: int, **facts: Any) -> None:
            if iter_num == 1:
                weight, bias = bench.tested.read(trainer.module)
                bench.tested.write(trainer.module, np.full_like(weight, np.inf), bias)

    trainer = bench.trainer(callbacks=[Explode()])
    caught(NonFiniteLossError, lambda: trainer.train(1, bench.manager(8)))


@check("gradients")
def knows_bad_weights(bench: Bench) -> None:
    """``nonfinite`` names the weights that are not finite, and only these."""
    network = bench.linear()
    weights = bench.backend.checkpoints.state_tree(network, {})["model"]
    learned = bench.backend.weights.learned_names(network)
    bad = bench.backend.arrays.nonfinite({name: weights[name] for name in learned})
    assert not bad, f"finite weights are said not to be: {bad}"
    weight, bias = bench.tested.read(network)
    leaves = [np.asarray(leaf) for _, leaf in iterate_leaves(bench.backend.arrays.to_numpy(weights))]
    largest = min(np.finfo(leaf.dtype).max for leaf in leaves if leaf.dtype.kind == "f")
    # of the largest numbers the sum is infinite, though none of them is
    for value, number in ((np.nan, 1), (np.inf, 1), (-np.inf, 1), (largest, 0)):
        bench.tested.write(network, np.full_like(weight, value), bias)
        weights = bench.backend.checkpoints.state_tree(network, {})["model"]
        bad = bench.backend.arrays.nonfinite({name: weights[name] for name in learned})
        assert len(bad) == number, f"of weights that are {value}, said to be not finite are {bad}"
