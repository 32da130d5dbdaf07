"""Averages of the weights: followed exactly, validated, kept; the training itself goes on without them."""

from typing import Any

import numpy as np

from delira.callbacks import ExponentialMovingAverage
from delira.testing.spec.bench import Bench
from delira.testing.spec.check import check
from delira.testing.spec.reference import Dense, Sgd, descend, rmse


def _by_hand(bench: Bench, n_epochs: int) -> tuple[Dense, Dense]:
    """The layer after the training, and its average."""
    dense, average = bench.dense(), bench.dense()
    optimizer = Sgd(0.1, 0.5)
    for batch in n_epochs * bench.batches():
        descend(dense, [batch], optimizer)
        for kept, now in zip(average.parameters, dense.parameters, strict=True):
            kept[...] = 0.8 * kept + 0.2 * now
    return dense, average


def _averaged(bench: Bench, n_epochs: int = 2, **settings: Any) -> Any:
    return bench.trained(n_epochs, callbacks=[ExponentialMovingAverage(0.8, warmup=False)], **settings)


@check("gradients", "average")
def averages_by_hand(bench: Bench) -> None:
    """The average moves towards the weights after every update, and is what the network has in the end."""
    bench.assert_layer(_averaged(bench).module, _by_hand(bench, 2)[1], "the averaged weight")


@check("gradients", "average")
def validates_the_average(bench: Bench) -> None:
    """Validation sees the average, training the weights themselves."""
    trainer = _averaged(bench, val_data=bench.manager(), val_metrics={"rmse": rmse})
    arrays = bench.arrays()
    expected = [rmse(arrays["label"], _by_hand(bench, n_epochs)[1](arrays["data"])) for n_epochs in (1, 2)]
    bench.assert_history(trainer, "val_rmse", expected)


@check("gradients", "average")
def trains_beside_the_average(bench: Bench) -> None:
    """Training goes on from the weights, not from their average."""
    trainer = _averaged(bench, 1)
    trainer.train(2, bench.manager())
    tree = trainer.load_state(trainer.checkpoints.path("last"))
    network = bench.linear()
    for name, expected in zip(("training_model", "model"), _by_hand(bench, 2), strict=True):
        bench.backend.checkpoints.load_state_tree({"model": tree[name]}, network, {})
        bench.assert_layer(network, expected, f"the weight of {name!r} in the checkpoint")


@check("gradients", "average", "mlp")
def averages_learned_weights_only(bench: Bench) -> None:
    """Statistics of batch normalisation are taken as they are, not averaged."""
    averaged = bench.trained(network=bench.mlp(), callbacks=[ExponentialMovingAverage(0.9)])
    plain = bench.trained(network=bench.mlp())
    learned = bench.backend.weights.learned_names(plain.module)
    found, expected = (
        {name: array for name, array in bench.weights(trainer.module).items() if name not in learned}
        for trainer in (averaged, plain)
    )
    statistics = [name for name, array in expected.items() if np.asarray(array).dtype.kind == "f"]
    bench.assert_same([found[name] for name in statistics], [expected[name] for name in statistics], "the statistics")


@check("gradients", "average", "mlp")
def renews_statistics(bench: Bench) -> None:
    """A backend that names running statistics makes them those of the averaged weights, and changes nothing else."""
    names = sorted(bench.backend.weights.statistics_names(bench.mlp()))
    if not names:  # users are told nothing then, so a backend with batch normalisation has them
        return
    trainer, plain = (
        bench.trained(
            2,
            bench.manager(10),
            network=bench.mlp(dropout=0.5),
            callbacks=[ExponentialMovingAverage(0.8, warmup=False, update_statistics=renews)],
        )
        for renews in (True, False)
    )
    found, expected = bench.weights(trainer.module), bench.weights(plain.module)
    learned = bench.backend.weights.learned_names(trainer.module)
    bench.assert_same({n: found[n] for n in learned}, {n: expected[n] for n in learned}, "the averaged weights")
    bench.assert_same(trainer.state.history, plain.state.history, "the history")
    weight, bias = bench.tested.read(trainer.module, "body")
    seen = [batch["data"] @ weight + bias for batch in bench.batches(10)]
    by_hand = {
        "the mean": np.mean([batch.mean(axis=0) for batch in seen], axis=0),
        "the variance": np.mean([batch.var(axis=0) for batch in seen], axis=0),
        "the variance (n - 1)": np.mean([batch.var(axis=0, ddof=1) for batch in seen], axis=0),
    }
    close = {
        name: [what for what, value in by_hand.items() if np.allclose(found[name], value, rtol=10 * bench.tested.rtol)]
        for name in names
    }
    assert all(close.values()), f"{[n for n in names if not close[n]]} are neither mean nor variance over the batches"
    assert len(names) == len({what[0] for what in close.values()}) == 2, f"there must be both of them: {close}"
