"""One seed, one run; no run leaves a trace in another or in the caller's generators."""

import functools
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from delira.contract import Backend
from delira.errors import ConfigError
from delira.testing.spec.bench import Bench, caught
from delira.testing.spec.check import check
from delira.training.run import own_generators, seed_generators


def _plain(bench: Bench) -> Any:
    """A network with dropout, if there is one."""
    return bench.linear(dropout=0.0 if "dropout" in bench.tested.lacks else 0.4)


def _network(bench: Bench) -> Any:
    """The network with most chance in it."""
    return _plain(bench) if {"mlp", "dropout"} & bench.tested.lacks.keys() else bench.mlp(dropout=0.4)


def _run(bench: Bench, network: object = None, **settings: Any) -> Any:
    """The state after two epochs with dropout, shuffled data and noise."""
    data = bench.shuffled(transforms=_noise)
    return bench.state(bench.trained(2, data, bench.manager(), network=network or _network(bench), **settings))


def _noise(**batch: Any) -> dict[str, Any]:
    """Noise from numpy's global generator, as augmentations take it."""
    return {**batch, "data": batch["data"] + np.random.normal(scale=0.1, size=batch["data"].shape)}  # noqa: NPY002


def _disturb(backend: Backend, seed: int) -> None:
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    backend.generators.seed(seed)


def _demand_generators_back(bench: Bench, train: Callable[[], object]) -> None:
    """Demand that generators go on after a training as they would have without."""
    found = []
    for run in (lambda: None, train):
        _disturb(bench.backend, 5)
        run()
        found.append((random.random(), float(np.random.random()), bench.tested.draw()))  # noqa: NPY002
    names = f"Python, numpy and {bench.tested.name}"
    assert found[0] == found[1], f"the next numbers of {names} are {found[1]}, not {found[0]}"


@check()
def repeats_itself(bench: Bench) -> None:
    """Two runs of one seed are equal bit for bit, whatever state the caller's generators have."""
    states = []
    for caller in (1, 2):
        _disturb(bench.backend, caller)
        states.append(_run(bench, seed=3))
    bench.assert_same(states[0], states[1], "two runs of one seed")


@check()
def repeats_itself_deterministically(bench: Bench) -> None:
    """So are two with ``deterministic=True``, and what it chose for the framework ends with the training."""
    first, second = (_run(bench, seed=3, deterministic=True) for _ in range(2))
    bench.assert_same(first, second, "two runs with deterministic=True")
    bench.assert_same(_run(bench, seed=3), _run(bench, seed=3), "two runs after them")


@check()
def obeys_its_threads(bench: Bench) -> None:
    """``num_threads`` is the number of threads during the training and no longer, or it is refused."""
    found: set[int | None] = set()

    def count(trainer: Any, **facts: Any) -> None:
        found.add(trainer.backend.devices.thread_count())

    before = bench.backend.devices.thread_count()
    try:
        bench.trained(num_threads=1, callbacks=[SimpleNamespace(at_iter_end=count)])
    except ConfigError:
        assert not found, "it was refused after the first step"
        return
    assert found <= {1, None}, f"num_threads=1, but it trained with {found}"
    assert bench.backend.devices.thread_count() == before, "the number of threads stays changed after the training"


@check()
def obeys_its_seed(bench: Bench) -> None:
    """Another seed gives another order and other noise, and so do other folds."""
    first = _run(bench, _plain(bench), seed=3)
    for other in ({"seed": 4}, {"seed": 3, "fold": 1}):
        is_same = bench.is_same(first, _run(bench, _plain(bench), **other))
        assert not is_same, f"{other} gives the run of seed 3, fold 0"


@check("dropout")
def draws_by_its_seed(bench: Bench) -> None:
    """What the framework draws, e.g. what dropout leaves out, depends on the seed and on the epoch."""
    left, right = (bench.trained(network=bench.linear(dropout=0.5), seed=seed).module for seed in (3, 4))
    is_same = bench.is_same(bench.tested.read(left)[0], bench.tested.read(right)[0])
    assert not is_same, "dropout leaves out the same inputs by either seed"


@check()
def gives_generators_back(bench: Bench) -> None:
    """A training leaves the generators of Python, numpy and the framework as the caller had them."""
    network = _network(bench)
    _demand_generators_back(bench, lambda: _run(bench, network))


@check("steps")
def gives_generators_back_after_an_error(bench: Bench) -> None:
    """So does one that fails."""

    class Stop(Exception):
        pass

    def fail(trainer: object, **facts: Any) -> None:
        raise Stop

    given = {"network": _plain(bench), "callbacks": [SimpleNamespace(at_iter_end=fail)]}
    ask = functools.partial(bench.trained, 1, bench.shuffled(), **given)
    _demand_generators_back(bench, lambda: caught(Stop, ask))


@check("steps")
def keeps_runs_apart(bench: Bench) -> None:
    """Two trainings in turn, epoch by epoch, give each the bits of a training alone."""
    alone, left, right = (bench.trainer(_plain(bench), seed=seed) for seed in (3, 3, 8))
    for epoch in (1, 2):
        alone.train(epoch, bench.shuffled())
    for epoch in (1, 2):
        right.train(epoch, bench.shuffled(seed=1))
        left.train(epoch, bench.shuffled())
    bench.assert_same(bench.state(alone), bench.state(left), "a training alone and one in turn with another")


@check()
def keeps_networks_apart(bench: Bench) -> None:
    """Training a network changes no other one of its class."""
    first, second = bench.linear(), bench.linear()
    with bench.unchanged(lambda: bench.tree(second), "a network while another one was trained"):
        bench.trained(network=first)


@check()
def seeds_the_framework(bench: Bench) -> None:
    """``seed`` decides what the framework's generator draws next."""

    def draw(seed: int) -> list[float]:
        bench.backend.generators.seed(seed)
        return [bench.tested.draw(), bench.tested.draw()]

    first, again, other = draw(2**62 + 1), draw(2**62 + 1), draw(2**62 + 2)
    assert first == again, f"one seed draws {first} and then {again}"
    assert first != other, f"two seeds draw {first}"
    assert first[0] != first[1], f"two draws give {first}"


@check()
def continues_generators(bench: Bench) -> None:
    """The state of the generators continues exactly where it was read, from a file too."""
    backend = bench.backend
    backend.generators.seed(7)
    bench.tested.draw()
    state = backend.arrays.snapshot(backend.generators.state())
    expected = [bench.tested.draw() for _ in range(3)]
    backend.generators.seed(8)
    backend.generators.set_state(bench.written({"generators": state})["generators"])
    found = [bench.tested.draw() for _ in range(3)]
    assert found == expected, f"the restored generator draws {found}, not {expected}"


@check()
def builds_networks_by_the_seed(bench: Bench) -> None:
    """A network built after the same seeding begins with the same weights."""

    def fresh() -> Any:
        with own_generators(bench.backend):
            seed_generators(bench.backend, 3, 0, stream="network")
            return bench.tested.Linear(n_features=3, n_outputs=1)

    bench.assert_same(bench.tree(fresh()), bench.tree(fresh()), "two networks built after one seeding")


@check()
def needs_no_workers(bench: Bench) -> None:
    """Processes that load data ahead change nothing: the bits are those of loading in the training's process."""
    without, with_two = (
        bench.state(bench.trained(1, bench.shuffled(transforms=_noise, n_process_augmentation=number), seed=3))
        for number in (0, 2)
    )
    bench.assert_same(without, with_two, "training with and without workers")
