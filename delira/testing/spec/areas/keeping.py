"""What a training keeps: averages, numbers that are finite, checkpoints, and how it goes on."""

import functools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from delira.callbacks import EarlyStopping, ExponentialMovingAverage
from delira.errors import CheckpointError, NonFiniteLossError
from delira.testing.spec.bench import Batch, Bench, Broken, Dense, Sgd, caught, descend, rmse
from delira.testing.spec.check import check
from delira.utils.arrays import iterate_leaves

# ------------------------------------------------------------------ average
# Averages of the weights: followed exactly, validated, kept; the training itself goes on without them.


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


@check("average", "gradients", "average")
def averages_by_hand(bench: Bench) -> None:
    """The average moves towards the weights after every update, and is what the network has in the end."""
    bench.assert_layer(_averaged(bench).module, _by_hand(bench, 2)[1], "the averaged weight")


@check("average", "gradients", "average")
def validates_the_average(bench: Bench) -> None:
    """Validation sees the average, training the weights themselves."""
    trainer = _averaged(bench, val_data=bench.manager(), val_metrics={"rmse": rmse})
    arrays = bench.arrays()
    expected = [rmse(arrays["label"], _by_hand(bench, n_epochs)[1](arrays["data"])) for n_epochs in (1, 2)]
    bench.assert_history(trainer, "val_rmse", expected)


@check("average", "gradients", "average")
def trains_beside_the_average(bench: Bench) -> None:
    """Training goes on from the weights, not from their average."""
    trainer = _averaged(bench, 1)
    trainer.train(2, bench.manager())
    tree = trainer.load_state(trainer.checkpoints.path("last"))
    network = bench.linear()
    for name, expected in zip(("training_model", "model"), _by_hand(bench, 2), strict=True):
        bench.backend.checkpoints.load_state_tree({"model": tree[name]}, network, {})
        bench.assert_layer(network, expected, f"the weight of {name!r} in the checkpoint")


@check("average", "gradients", "average", "mlp")
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


@check("average", "gradients", "average", "mlp")
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


# ------------------------------------------------------------------ guards
# Numbers that are not finite: found, named, left out or undone.


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


@check("guards", "gradients")
def names_the_bad_step(bench: Bench) -> None:
    """A loss that is not finite stops the training, named with epoch and step, and no checkpoint is written after."""
    trainer = bench.trainer(callbacks=[_spoil(2, 1)], save_freq=1)
    caught(NonFiniteLossError, lambda: trainer.train(3, bench.manager()), "'mse' became nan in epoch 2, step 2")
    newest = trainer.load_state(trainer.checkpoints.path("last"))
    assert newest["epoch"] == 1, f"the last checkpoint is of epoch {newest['epoch']}"


@check("guards", "gradients")
def notices_at_the_next_reading(bench: Bench) -> None:
    """``log_freq`` says how soon losses are read: they stay on the device until then."""
    for log_freq, steps in ((1, 1), (50, 2)):
        trainer = bench.trainer(callbacks=[_spoil(1, 0)], log_freq=log_freq)
        caught(NonFiniteLossError, functools.partial(trainer.train, 1, bench.manager()))
        done = trainer.state.step_in_epoch
        assert done == steps, f"log_freq={log_freq}: noticed after step {done}, not {steps}"


@check("guards", "gradients")
def ignores_when_told(bench: Bench) -> None:
    """``nonfinite="ignore"`` trains on."""
    trainer = bench.trained(2, callbacks=[_spoil(1, 1)], nonfinite="ignore")
    assert trainer.state.epoch == 2, f"it stopped after epoch {trainer.state.epoch}"
    assert np.isnan(trainer.state.history[0]["mse"])


@check("guards", "gradients", "skip_nonfinite")
def leaves_bad_batches_out(bench: Bench) -> None:
    """``nonfinite="skip"`` leaves the update of a bad batch out, momentum and all, and counts it."""
    batches = bench.batches(12)
    trainer = bench.trained(2, _spoiled(batches), nonfinite="skip")
    bench.assert_history(trainer, "mse", bench.assert_descended(trainer, [batches[0], batches[2]], 2))
    left_out = bench.backend.optimizers.count_left_out(trainer.optimizers)
    assert left_out == 2, f"2 batches were left out, {left_out} are counted"


@check("guards", "gradients", "skip_nonfinite", "accumulation")
def leaves_bad_batches_out_of_groups(bench: Bench) -> None:
    """A bad batch inside an accumulated group is left out alone; the group is weighted by the other samples."""
    trainer = bench.trained(1, _spoiled(bench.batches(12)), nonfinite="skip", gradient_accumulation_steps=3)
    kept = np.r_[0:4, 8:12]
    bench.assert_descended(trainer, [{name: array[kept] for name, array in bench.arrays(12).items()}])


@check("guards", "gradients", "skip_nonfinite", "mlp")
def takes_notes_of_bad_batches_back(bench: Bench) -> None:
    """What a network notes of a batch, e.g. the statistics of batch normalisation, is taken back if it is left out."""
    first, *good = bench.batches()
    spoiled = [{**first, "data": np.full_like(first["data"], np.nan)}, *good]
    left, right = (
        bench.weights(bench.trained(1, data, network=bench.mlp(), nonfinite="skip").module) for data in (spoiled, good)
    )
    bench.assert_same(left, right, "the network after a bad and a good batch, and after the good one")


@check("guards", "gradients", "rollback")
def rolls_back(bench: Bench) -> None:
    """``nonfinite="rollback"`` returns to the last checkpoint and goes on with smaller learning rates."""
    callbacks = [_spoil(2, 1, times=1)]
    trainer = bench.trained(2, callbacks=callbacks, nonfinite="rollback", save_freq=1, **bench.tested.sgd(0.1))
    assert trainer.state.rollbacks == 1, f"{trainer.state.rollbacks} rollbacks are counted"
    bench.assert_rates(trainer, 0.1, 0.05)


@check("guards", "gradients")
def refuses_bad_weights(bench: Bench) -> None:
    """Weights that became infinite are noticed, at the latest when a checkpoint would be written."""

    def explode(trainer: Any, *, iter_num: int, **facts: Any) -> None:
        if iter_num == 1:
            weight, bias = bench.tested.read(trainer.module)
            bench.tested.write(trainer.module, np.full_like(weight, np.inf), bias)

    caught(NonFiniteLossError, lambda: bench.trained(callbacks=[SimpleNamespace(at_iter_end=explode)]))


@check("guards", "gradients")
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


# ------------------------------------------------------------------ checkpoints
# Checkpoints hold everything, are verified, and fit or are refused.


@check("checkpoints")
def copies_a_state(bench: Bench) -> None:
    """A snapshot of a state is not changed by later training."""
    trainer = bench.trained()
    kept = bench.tree(trainer.module, trainer.optimizers)
    before = bench.written(kept)
    if bench.is_differentiable:
        trainer.train(2, bench.manager())
    else:
        bench.trained(data=bench.manager(seed=1), network=trainer.module)
    bench.assert_same(before, bench.written(kept), "a snapshot after training")


@check("checkpoints")
def reuses_snapshots(bench: Bench) -> None:
    """A snapshot into the memory of an older one equals a fresh one."""
    trainer, backend = bench.trained(), bench.backend
    old = bench.tree(trainer.module, trainer.optimizers)
    if bench.is_differentiable:
        trainer.train(2, bench.manager())
    tree = backend.checkpoints.state_tree(trainer.module, trainer.optimizers)
    fresh = backend.arrays.snapshot(tree)
    bench.assert_same(backend.arrays.snapshot(tree, old), fresh, "a snapshot in used memory")


@check("checkpoints")
def reads_what_it_wrote(bench: Bench) -> None:
    """A state comes back from a file bit for bit: arrays, numbers, texts, nothing."""
    trainer, backend = bench.trained(), bench.backend
    tree = {
        **backend.checkpoints.state_tree(trainer.module, trainer.optimizers),
        "mine": {"none": None, "number": 0.1, "big": 2**40, "text": "ä", "flags": [True, False], "empty": {}},
    }
    found = bench.written(tree)
    bench.assert_same(backend.arrays.snapshot(tree), found, "a state after writing and reading")
    assert found["mine"] == tree["mine"], f"what was {tree['mine']} is {found['mine']}"


@check("checkpoints")
def gives_a_state_back(bench: Bench) -> None:
    """A state put into a fresh network and fresh optimizers gives the same predictions and the same further steps."""
    trainer, other = bench.trained(), bench.trainer()
    tree = bench.tree(trainer.module, trainer.optimizers)
    bench.backend.checkpoints.load_state_tree(tree, other.module, other.optimizers)
    bench.assert_same(tree, bench.tree(other.module, other.optimizers), "a state that was given back")
    bench.assert_same(trainer.predict(bench.arrays(4)), other.predict(bench.arrays(4)), "predictions of a given state")


@check("checkpoints")
def names_its_files(bench: Bench) -> None:
    """A run with a score keeps its numbered, best and last checkpoints under their names."""
    trainer = bench.trained(2, None, bench.manager(), "rmse", save_freq=1, val_metrics={"rmse": rmse})
    names = {path.name for path in (trainer.save_path / "checkpoints").iterdir()}
    wanted = {f"checkpoint_{name}{bench.backend.checkpoint_suffix}" for name in ("epoch_1", "best", "last")}
    assert wanted <= names, f"there are only {sorted(names)}"


@check("checkpoints")
def records_where_it_was(bench: Bench) -> None:
    """A checkpoint says seed, fold, epoch, step and network it was written with, and has the history."""
    trainer = bench.trained(seed=5, fold=2)
    tree = trainer.load_state(trainer.checkpoints.path("last"))
    assert (tree["epoch"], tree["step"]) == (1, 0), f"epoch {tree['epoch']}, step {tree['step']}"
    found = tree["state"]["seed"], tree["state"]["fold"]
    assert found == (5, 2), f"seed and fold are {found}"
    assert tree["network"]["class"].endswith(f":{type(trainer.module).__qualname__}"), f"{tree['network']}"
    bench.assert_same(tree["state"]["history"], trainer.state.history, "the history")


@check("checkpoints")
def holds_nothing_that_runs(bench: Bench) -> None:
    """A checkpoint holds arrays, numbers and texts, and nothing that has to be executed to be read."""
    trainer = bench.trained()
    tree = trainer.load_state(trainer.checkpoints.path("last"))
    for place, leaf in iterate_leaves(tree):
        value = bench.backend.arrays.to_numpy(leaf)
        is_plain = value is None or isinstance(value, (bool, int, float, str, bytes, np.ndarray, np.generic))
        assert is_plain, f"{'.'.join(map(str, place))} is a {type(leaf).__name__}"
        assert getattr(value, "dtype", np.dtype(bool)).kind != "O", f"{'.'.join(map(str, place))} holds Python objects"


@check("checkpoints")
def saves_and_updates(bench: Bench) -> None:
    """``save_state`` and ``update_state`` carry a training from one trainer to another."""
    trainer, other = bench.trained(), bench.trainer()
    path = trainer.save_state(bench.folder / "state")
    assert path.name.endswith(bench.backend.checkpoint_suffix), f"the file is called {path.name}"
    other.update_state(path)
    assert other.state.epoch == 1, f"it stands at epoch {other.state.epoch}"
    bench.assert_same(bench.state(trainer), bench.state(other), "a training that was carried over")


def _damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for place in range(len(content) // 3, len(content) // 3 + 64):  # a single byte may be one that nobody reads
        content[place] ^= 0xFF
    path.unlink()  # other names of the file keep what it was
    path.write_bytes(content)


@check("checkpoints")
def notices_damage(bench: Bench) -> None:
    """A file with flipped bytes, or a part of a file, is refused."""
    trainer = bench.trained()
    path = trainer.save_state(bench.folder / "state")
    whole = path.read_bytes()
    _damage(path)
    caught(CheckpointError, lambda: trainer.load_state(path))
    path.write_bytes(whole[: len(whole) // 2])
    caught(CheckpointError, lambda: trainer.load_state(path))


@check("checkpoints", "steps")
def falls_back_from_damage(bench: Bench) -> None:
    """A trainer on a folder whose newest checkpoint is damaged continues from the one before."""
    trainer = bench.trained(2, save_freq=1)
    for name in ("last", "epoch_2"):
        _damage(trainer.checkpoints.path(name))
    other = bench.trainer(path=trainer.save_path, save_freq=1)
    assert other.state.epoch == 1, f"it continues from epoch {other.state.epoch}"
    other.train(2, bench.manager())
    bench.assert_same(bench.state(trainer), bench.state(other), "a training that fell back")


@check("checkpoints", "gradients")
def refuses_foreign_weights(bench: Bench) -> None:
    """A checkpoint of another network is refused, naming what differs, and changes nothing."""
    trainer = bench.trained(data=bench.manager(n_features=4), network=bench.linear(n_features=4))
    path, other = trainer.save_state(bench.folder / "state"), bench.trained()
    with bench.unchanged(lambda: bench.state(other), "the state after a checkpoint was refused"):
        error = caught(CheckpointError, lambda: other.update_state(path))
    names = bench.backend.weights.learned_names(other.module)
    assert any(name in str(error) for name in names), f"the error names none of {sorted(names)}: {error}"


@check("checkpoints", "gradients")
def changes_nothing_that_it_refuses(bench: Bench) -> None:
    """A state that does not fit, in its weights or its optimizers, is refused as a whole."""
    trainer, foreign = bench.trained(), bench.trainer(bench.linear(n_features=4))
    load = bench.backend.checkpoints.load_state_tree
    for tree in (bench.tree(foreign.module, foreign.optimizers), bench.tree(bench.linear()), {}):
        with bench.unchanged(lambda: bench.state(trainer), "the state after another one was refused"):
            caught(CheckpointError, functools.partial(load, tree, trainer.module, trainer.optimizers))


@check("checkpoints")
def refuses_other_seeds(bench: Bench) -> None:
    """A run goes on neither with another seed nor with another fold."""
    trainer = bench.trained(seed=5, fold=1)
    for other in ({"seed": 6, "fold": 1}, {"seed": 5, "fold": 2}):
        caught(CheckpointError, functools.partial(bench.trainer, path=trainer.save_path, **other))


@check("checkpoints", "gradients")
def returns_the_best(bench: Bench) -> None:
    """With a score, ``train`` returns the best weights though later epochs were worse; without one, the last."""
    settings = {"val_metrics": {"rmse": rmse}, "save_freq": 1, **bench.tested.sgd(0.1, 0.5)}
    trainer, last = (
        bench.trained(3, None, bench.manager(), key, callbacks=[SimpleNamespace(at_iter_begin=_worsen)], **settings)
        for key in ("rmse", None)
    )
    scores = [record["val_rmse"] for record in trainer.state.history]
    best = 1 + int(np.argmin(scores))
    assert best < 3, f"no later epoch was worse: {scores}"
    assert trainer.state.best_epoch == best, f"the best epoch of {scores} is said to be {trainer.state.best_epoch}"
    for one, epoch in ((trainer, best), (last, 3)):
        network = bench.linear()
        tree = trainer.load_state(trainer.checkpoints.path(f"epoch_{epoch}"))
        bench.backend.checkpoints.load_state_tree({"model": tree["model"]}, network, {})
        found, expected = bench.tested.read(one.module), bench.tested.read(network)
        bench.assert_same(found, expected, f"the returned weights and those of epoch {epoch}")
    arrays = bench.arrays()
    bench.assert_close(rmse(arrays["label"], trainer.predict(arrays)["pred"]), min(scores), "the score of the best")


def _worsen(trainer: object, *, data_dict: Any, curr_epoch: int, **facts: Any) -> None:
    """Turn the labels of all training steps after the second epoch round, so that the network unlearns."""
    if curr_epoch > 2:
        data_dict["label"] = -10 * data_dict["label"]


# ------------------------------------------------------------------ resume
# A training that was broken off and continued is, bit for bit, the one that was not.


Build = Callable[..., Any]


class BreakOff:
    """Raises after a step."""

    def __init__(self, global_step: int):
        self.global_step = global_step

    def at_iter_end(self, trainer: object, *, global_iter_num: int, **facts: Any) -> None:
        if global_iter_num + 1 == self.global_step:
            raise Broken


def _build(
    bench: Bench, make: Callable[[], Any] | None = None, *callbacks: Callable[[], Any], **settings: Any
) -> Build:
    def build(path: Any = None, more: Any = (), **changes: Any) -> Any:
        given = {"val_metrics": {"rmse": rmse}, "seed": 3, **settings, **changes}
        return bench.trainer(make and make(), path, callbacks=[*(one() for one in callbacks), *more], **given)

    return build


def _train(bench: Bench, trainer: Any, n_epochs: int = 2) -> Any:
    trainer.train(n_epochs, bench.shuffled(12), bench.manager(), "rmse")
    return trainer


def _compare_after_an_epoch(bench: Bench, build: Build) -> None:
    """Train two epochs of three steps unbroken, and one after the other by two trainers."""
    continued = build(path=_train(bench, build(), 1).save_path)
    assert continued.state.epoch == 1, f"it continues from epoch {continued.state.epoch}"
    _compare(bench, build, continued)


def _compare_inside(bench: Bench, build: Build) -> None:
    """Train two epochs of three steps unbroken, and broken off after the fourth step of the run and continued."""
    first = build(more=[BreakOff(5)], save_freq_steps=1)
    caught(Broken, lambda: _train(bench, first))
    continued = build(path=first.save_path)
    reached = continued.state.global_step
    assert reached == 4, f"it continues from step {reached} of the run, not 4"
    _compare(bench, build, continued)


def _compare(bench: Bench, build: Build, continued: Any) -> None:
    whole = _train(bench, build())
    _train(bench, continued)
    bench.assert_same(bench.state(whole), bench.state(continued), "the unbroken and the continued training")
    assert whole.state.best_epoch == continued.state.best_epoch, "the best epoch is another one"


@check("resume", "steps")
def after_an_epoch(bench: Bench) -> None:
    """Weights, momentum, history and best score go on after an epoch."""
    _compare_after_an_epoch(bench, _build(bench))


@check("resume")
def keeps_a_finished_training(bench: Bench) -> None:
    """A trainer on the folder of a finished training has its weights and history, and trains no further."""
    trainer = bench.trained(2, None, bench.manager(), val_metrics={"rmse": rmse})
    other = bench.trainer(path=trainer.save_path, val_metrics={"rmse": rmse})
    bench.assert_same(bench.state(trainer), bench.state(other), "a finished training that was found again")
    other.train(2, bench.manager(), bench.manager())
    bench.assert_same(bench.state(trainer), bench.state(other), "a finished training that was asked to train")
    bench.assert_same(trainer.predict(bench.arrays(4)), other.predict(bench.arrays(4)), "its predictions")


@check("resume", "steps")
def in_the_same_trainer(bench: Bench) -> None:
    """``train(1)`` and then ``train(2)`` is ``train(2)``, though the best weights were loaded between."""
    build = _build(bench)
    whole, steps = _train(bench, build()), _train(bench, _train(bench, build(), 1))
    bench.assert_same(bench.state(whole), bench.state(steps), "training at once and epoch by epoch")


@check("resume", "steps", "resume_inside")
def inside_an_epoch(bench: Bench) -> None:
    """Weights, momentum, history and best score go on in a training that was broken off inside an epoch."""
    _compare_inside(bench, _build(bench))


@check("resume", "gradients", "resume_inside", "dropout")
def with_dropout(bench: Bench) -> None:
    """What dropout draws goes on inside an epoch."""
    _compare_inside(bench, _build(bench, lambda: bench.linear(dropout=0.5)))


@check("resume", "gradients", "resume_inside", "mlp")
def with_statistics(bench: Bench) -> None:
    """Statistics of batch normalisation go on inside an epoch, together with dropout."""
    _compare_inside(bench, _build(bench, lambda: bench.mlp(0.0 if "dropout" in bench.tested.lacks else 0.4)))


@check("resume", "gradients", "adam", "resume_inside")
def with_adam(bench: Bench) -> None:
    """The moments and the step counter of Adam go on."""
    _compare_inside(bench, _build(bench, **bench.tested.adam(0.05)))


@check("resume", "gradients")
def with_a_schedule(bench: Bench) -> None:
    """The learning rate goes on where its schedule was."""

    def build(path: Any = None) -> Any:
        return bench.trainer(None, path, **{"val_metrics": {"rmse": rmse}, "seed": 3, **bench.tested.halving()})

    _compare_after_an_epoch(bench, build)


@check("resume", "gradients", "accumulation", "resume_inside")
def inside_a_group(bench: Bench) -> None:
    """Gradients that were accumulated before the end are there after it."""
    _compare_inside(bench, _build(bench, gradient_accumulation_steps=2))


@check("resume", "gradients", "average", "resume_inside")
def with_an_average(bench: Bench) -> None:
    """The averaged weights go on, and so do those that are trained."""
    _compare_inside(bench, _build(bench, None, lambda: ExponentialMovingAverage(0.8)))


@check("resume", "gradients", "gan", "resume_inside")
def with_two_optimizers(bench: Bench) -> None:
    """Every optimizer goes on with its own state."""

    def make() -> Any:
        network = bench.tested.Gan(n_features=3)
        bench.layers(network, "gen", "discr")
        return network

    def trained(n_epochs: int, path: Any = None) -> Any:
        arrays = bench.arrays()
        data = bench.shuffled(arrays={"data": arrays["data"], "real": arrays["data"] + 1})
        settings = {**bench.tested.sgd(0.02, 0.5), **bench.tested.gan_optimizers(), "losses": {}}
        return bench.trained(n_epochs, data, network=make(), path=path, **settings)

    whole, continued = trained(2), trained(2, trained(1).save_path)
    bench.assert_same(bench.state(whole), bench.state(continued), "the unbroken and the continued training")


@check("resume", "steps")
def with_callbacks(bench: Bench) -> None:
    """Callbacks go on with what they had counted."""
    build = _build(bench, None, lambda: EarlyStopping("rmse", min_delta=1e9, patience=2))
    continued = _train(bench, build(path=_train(bench, build()).save_path), 9)
    assert continued.state.epoch == 3, f"early stopping came after epoch {continued.state.epoch}, not 3"


@check("resume", "steps")
def after_a_failure(bench: Bench) -> None:
    """A training that failed inside an epoch begins that epoch again, in the same trainer too."""
    whole, trainer = _train(bench, _build(bench)()), _build(bench)(more=[once := BreakOff(5)], save_freq=1)
    caught(Broken, lambda: _train(bench, trainer))
    once.global_step = -1
    _train(bench, trainer)
    bench.assert_same(bench.state(whole), bench.state(trainer), "the unbroken training and the one that failed")


@check("resume", "resume_inside")
def says_if_it_cannot(bench: Bench) -> None:
    """A network whose training can be continued inside an epoch says nothing against it."""
    why = bench.backend.generators.not_resumable(bench.linear())
    assert why is None, f"it says: {why}"
