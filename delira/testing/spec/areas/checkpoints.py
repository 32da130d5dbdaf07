"""Checkpoints hold everything, are verified, and fit or are refused."""

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from delira.errors import CheckpointError
from delira.testing.spec.bench import Bench, caught
from delira.testing.spec.check import check
from delira.testing.spec.reference import rmse
from delira.utils.arrays import iterate_leaves


@check()
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


@check()
def reuses_snapshots(bench: Bench) -> None:
    """A snapshot into the memory of an older one equals a fresh one."""
    trainer, backend = bench.trained(), bench.backend
    old = bench.tree(trainer.module, trainer.optimizers)
    if bench.is_differentiable:
        trainer.train(2, bench.manager())
    tree = backend.checkpoints.state_tree(trainer.module, trainer.optimizers)
    fresh = backend.arrays.snapshot(tree)
    bench.assert_same(backend.arrays.snapshot(tree, old), fresh, "a snapshot in used memory")


@check()
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


@check()
def gives_a_state_back(bench: Bench) -> None:
    """A state put into a fresh network and fresh optimizers gives the same predictions and the same further steps."""
    trainer, other = bench.trained(), bench.trainer()
    tree = bench.tree(trainer.module, trainer.optimizers)
    bench.backend.checkpoints.load_state_tree(tree, other.module, other.optimizers)
    bench.assert_same(tree, bench.tree(other.module, other.optimizers), "a state that was given back")
    bench.assert_same(trainer.predict(bench.arrays(4)), other.predict(bench.arrays(4)), "predictions of a given state")


@check()
def names_its_files(bench: Bench) -> None:
    """A run with a score keeps its numbered, best and last checkpoints under their names."""
    trainer = bench.trained(2, None, bench.manager(), "rmse", save_freq=1, val_metrics={"rmse": rmse})
    names = {path.name for path in (trainer.save_path / "checkpoints").iterdir()}
    wanted = {f"checkpoint_{name}{bench.backend.checkpoint_suffix}" for name in ("epoch_1", "best", "last")}
    assert wanted <= names, f"there are only {sorted(names)}"


@check()
def records_where_it_was(bench: Bench) -> None:
    """A checkpoint says seed, fold, epoch, step and network it was written with, and has the history."""
    trainer = bench.trained(seed=5, fold=2)
    tree = trainer.load_state(trainer.checkpoints.path("last"))
    assert (tree["epoch"], tree["step"]) == (1, 0), f"epoch {tree['epoch']}, step {tree['step']}"
    found = tree["state"]["seed"], tree["state"]["fold"]
    assert found == (5, 2), f"seed and fold are {found}"
    assert tree["network"]["class"].endswith(f":{type(trainer.module).__qualname__}"), f"{tree['network']}"
    bench.assert_same(tree["state"]["history"], trainer.state.history, "the history")


@check()
def holds_nothing_that_runs(bench: Bench) -> None:
    """A checkpoint holds arrays, numbers and texts, and nothing that has to be executed to be read."""
    trainer = bench.trained()
    tree = trainer.load_state(trainer.checkpoints.path("last"))
    for place, leaf in iterate_leaves(tree):
        value = bench.backend.arrays.to_numpy(leaf)
        is_plain = value is None or isinstance(value, (bool, int, float, str, bytes, np.ndarray, np.generic))
        assert is_plain, f"{'.'.join(map(str, place))} is a {type(leaf).__name__}"
        assert getattr(value, "dtype", np.dtype(bool)).kind != "O", f"{'.'.join(map(str, place))} holds Python objects"


@check()
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


@check()
def notices_damage(bench: Bench) -> None:
    """A file with flipped bytes, or a part of a file, is refused."""
    trainer = bench.trained()
    path = trainer.save_state(bench.folder / "state")
    whole = path.read_bytes()
    _damage(path)
    caught(CheckpointError, lambda: trainer.load_state(path))
    path.write_bytes(whole[: len(whole) // 2])
    caught(CheckpointError, lambda: trainer.load_state(path))


@check("steps")
def falls_back_from_damage(bench: Bench) -> None:
    """A trainer on a folder whose newest checkpoint is damaged continues from the one before."""
    trainer = bench.trained(2, save_freq=1)
    for name in ("last", "epoch_2"):
        _damage(trainer.checkpoints.path(name))
    other = bench.trainer(path=trainer.save_path, save_freq=1)
    assert other.state.epoch == 1, f"it continues from epoch {other.state.epoch}"
    other.train(2, bench.manager())
    bench.assert_same(bench.state(trainer), bench.state(other), "a training that fell back")


@check("gradients")
def refuses_foreign_weights(bench: Bench) -> None:
    """A checkpoint of another network is refused, naming what differs, and changes nothing."""
    trainer = bench.trained(data=bench.manager(n_features=4), network=bench.linear(n_features=4))
    path, other = trainer.save_state(bench.folder / "state"), bench.trained()
    with bench.unchanged(lambda: bench.state(other), "the state after a checkpoint was refused"):
        error = caught(CheckpointError, lambda: other.update_state(path))
    names = bench.backend.weights.learned_names(other.module)
    assert any(name in str(error) for name in names), f"the error names none of {sorted(names)}: {error}"


@check("gradients")
def changes_nothing_that_it_refuses(bench: Bench) -> None:
    """A state that does not fit, in its weights or its optimizers, is refused as a whole."""
    trainer, foreign = bench.trained(), bench.trainer(bench.linear(n_features=4))
    load = bench.backend.checkpoints.load_state_tree
    for tree in (bench.tree(foreign.module, foreign.optimizers), bench.tree(bench.linear()), {}):
        with bench.unchanged(lambda: bench.state(trainer), "the state after another one was refused"):
            caught(CheckpointError, functools.partial(load, tree, trainer.module, trainer.optimizers))


@check()
def refuses_other_seeds(bench: Bench) -> None:
    """A run goes on neither with another seed nor with another fold."""
    trainer = bench.trained(seed=5, fold=1)
    for other in ({"seed": 6, "fold": 1}, {"seed": 5, "fold": 2}):
        caught(CheckpointError, functools.partial(bench.trainer, path=trainer.save_path, **other))


@check("gradients")
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
