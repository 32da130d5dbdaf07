"""Weights by name, and networks as files for other programs."""

import copy
import functools
from typing import Any

import numpy as np

from delira.errors import CheckpointError
from delira.io import export
from delira.models import load_named_weights, named_weights
from delira.testing.spec.bench import Bench, caught
from delira.testing.spec.check import check


@check("named_weights")
def names_weights(bench: Bench) -> None:
    """Weights have names, are arrays of numpy, and give another network the same predictions."""
    trainer = bench.trained()
    weights = named_weights(trainer.module)
    assert weights, "the network has no weights by name"
    for name, array in weights.items():
        assert isinstance(name, str), f"a name is {name!r}"
        assert isinstance(array, np.ndarray), f"{name} is a {type(array).__name__}"
    if bench.is_differentiable:
        other = bench.trainer()
        load_named_weights(other.module, weights)
        bench.assert_same(trainer.predict(bench.arrays(4)), other.predict(bench.arrays(4)), "the predictions")


@check("gradients", "named_weights")
def copies_weights(bench: Bench) -> None:
    """Weights by name are copies: neither side changes the other."""
    network = bench.linear()
    weights = named_weights(network)
    kept = copy.deepcopy(weights)
    bench.trained(network=network)
    bench.assert_same(weights, kept, "weights by name after training")
    load_named_weights(network, weights)
    for array in weights.values():
        array[...] = 0
    bench.assert_same(named_weights(network), kept, "the network after its given weights changed")


@check("gradients", "named_weights")
def names_weights_steadily(bench: Bench) -> None:
    """Two networks of a class have the same names, whatever was built before."""
    first, _, second = (list(named_weights(bench.linear())) for _ in range(3))
    assert first == second, f"the names are {first} and then {second}"


@check("gradients", "named_weights")
def refuses_other_weights(bench: Bench) -> None:
    """Weights that are missing, unknown, of another shape or type are refused, by name, and nothing changes."""
    network = bench.linear()
    right = named_weights(network)
    name = next(iter(right))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({other: array for other, array in right.items() if other != name}, name),
        ({**right, "nobody": np.zeros(1)}, "nobody"),
        ({**right, name: np.zeros((7, 7), right[name].dtype)}, name),
        ({**right, name: right[name].astype(np.complex128)}, name),
    ]
    for weights, named in wrong:
        changed = {key: array + 1 if key != name else array for key, array in weights.items()}
        caught(CheckpointError, functools.partial(load_named_weights, network, changed), named)
        bench.assert_same(named_weights(network), right, "the weights after others were refused")


@check("gradients", "named_weights")
def trains_given_weights(bench: Bench) -> None:
    """Weights that were given after the trainer was built are those that it trains on."""
    left, right = bench.trainer(), bench.trainer()
    given = {name: array * 2 for name, array in named_weights(left.module).items()}
    load_named_weights(left.module, given)
    load_named_weights(right.module, given)
    start, _ = bench.tested.read(left.module)
    for trainer in (left, right):
        trainer.train(1, bench.manager())
    assert not np.array_equal(start, bench.tested.read(left.module)[0]), "the given weights were not trained"
    bench.assert_same(named_weights(left.module), named_weights(right.module), "the trained weights")


@check("export")
def exports_what_it_predicts(bench: Bench) -> None:
    """An exported network predicts without delira what it predicts here, for any number of samples."""
    trainer = bench.trained()
    network = trainer.module
    with bench.unchanged(lambda: bench.tree(network), "the network after its export"):
        for suffix in bench.tested.exports:
            path = export(network, bench.folder / f"exported{suffix}", bench.arrays(4))
            for n in (4, 7, 1):
                x = bench.arrays(n, seed=3)["data"].astype(np.float32)
                found, expected = bench.tested.run_exported(path, {"x": x}), trainer.predict({"data": x})
                bench.assert_close(found["pred"], expected["pred"], f"what {suffix} predicts of {n} samples")


@check("gradients", "export", "dropout")
def exports_evaluation(bench: Bench) -> None:
    """An exported network drops nothing, and the network keeps its mode."""
    network = bench.linear(dropout=0.5)
    mode = bench.tested.is_learning(network)
    path = export(network, bench.folder / f"exported{bench.tested.exports[0]}", bench.arrays(4))
    x = bench.arrays(4)["data"].astype(np.float32)
    found = bench.tested.run_exported(path, {"x": x})
    bench.assert_close(found["pred"], bench.dense()(x), "what an exported network with dropout predicts")
    assert bench.tested.is_learning(network) is mode, "the export kept the mode"
